//! A MaskGIT taught to take large steps: the paper's training on ImageNet (appendix impl).
//!
//! The network is conditioned on `t` and `r - t` from parameters that change nothing at first; pairs have the
//! arccos mask ratio at the start and a logit-normal one of mean -3 and deviation 2, no larger, at the end, a
//! quarter of them at rest; the loss is eq. loss-masked with one draw of eq. C-estimator-masked. A tenth of
//! the pictures do not say their class, so that guidance goes on to work.
//!
//! The state after every `save_every` steps is kept in the directory: a run that was stopped or killed goes
//! on from there and ends with the same bits.

use std::path::{Path as FilePath, PathBuf};

use fewstep_ctmc::random::{Key, Purpose, index, uniform};
use fewstep_nn::{
    Adaptation, Gradient, Learner,
    checkpoint::Options,
    dit::Step,
    maskgit::MaskGit,
    optim::{Averaging, Schedule, Settings, TrainState, Trainable},
};

use super::{Codes, PaintError, path};
use crate::{
    lab::Monitor,
    sequence::{
        Examples, Pairs,
        average::{Loss, Method, Passes, step},
        times,
    },
};

/// The share of pictures that do not say their class.
const UNSAID: f64 = 0.1;
/// The share of pairs at rest.
const AT_REST: f64 = 0.25;
/// Shifted probabilities below have no gradient.
const FLOOR: f64 = 1e-4;
/// The file of the result.
const FILE: &str = "maskgit.safetensors";

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Accelerate {
    /// The MaskGIT it begins with.
    pub from: PathBuf,
    /// Codes of the pictures.
    pub codes: PathBuf,
    /// The directory of the state and the result.
    pub out: PathBuf,
    /// Steps.
    pub steps: u64,
    /// Pictures of a step.
    pub batch: usize,
    /// The learning rate.
    pub rate: f64,
    /// Steps in which it rises.
    pub warmup: u64,
    /// How much of the average of the weights is kept in a step.
    pub decay: f64,
    /// Steps between two states that are kept.
    pub save_every: u64,
    /// Of all draws.
    pub seed: u64,
    /// Whether to go on with the state in the directory.
    pub resume: bool,
}

/// Trains and writes `maskgit.safetensors`, with the average of the weights. `seen(step, loss)` is called
/// after each step. The file, or nothing if it was stopped before the end.
pub fn accelerate(
    run: &Accelerate,
    monitor: &dyn Monitor,
    mut seen: impl FnMut(u64, f64),
) -> Result<Option<PathBuf>, PaintError> {
    let file = |e: &dyn std::fmt::Display| PaintError::File(e.to_string());
    let codes = Codes::read(&run.codes)?;
    let frozen = MaskGit::<f32>::load(&run.from, Step::Trunk, &Options::default());
    let frozen = frozen.map_err(|e| file(&e))?;
    check(&frozen, &codes, &run.codes)?;
    std::fs::create_dir_all(&run.out)
        .map_err(|e| PaintError::File(format!("cannot write {}: {e}", run.out.display())))?;
    let mut state = match run.resume {
        true => TrainState::load(&run.out).map_err(|e| file(&e))?,
        false => TrainState::new(
            run.seed,
            frozen.parameters().to_vec(),
            Trainable::all(frozen.parameters().len()),
            Settings::ADAM,
            Some(Averaging {
                decay: run.decay,
                warm_up: true,
            }),
        ),
    };
    if state.parameters().len() != frozen.parameters().len() || state.seed() != run.seed {
        let why = "another network or seed than that of the state in the directory";
        return Err(PaintError::Refused(why.into()));
    }
    let schedule = Schedule {
        warmup: run.warmup,
        ..Schedule::constant(run.rate)
    };
    let path = path(frozen.config())?;
    let method = Method {
        loss: Loss::Shifted { floor: FLOOR },
        draws: 1,
    };
    let (mut net, mut passes) = (frozen.clone(), Passes::default());
    let mut gradient = vec![0f32; state.parameters().len()];
    let keep = |state: &TrainState<f32>| state.save(&run.out).map_err(|e| file(&e));
    monitor.begin("acceleration", run.steps);
    while state.step() < run.steps {
        if monitor.stopped() {
            keep(&state)?;
            return Ok(None);
        }
        let address = (run.seed, state.step());
        net.parameters_mut().copy_from_slice(state.parameters());
        let x1 = pictures(&frozen, &codes, run.batch, address);
        let pairs = times::pairs(&path, &Pairs::Arccos, AT_REST, run.batch, address);
        let examples = Examples::corrupt(&path, &x1, &pairs, address).giving(1);
        let mut slots = Gradient {
            data: &mut gradient,
            adaptation: Adaptation::Full,
            accumulate: false,
        };
        let loss = step(
            (&net, &frozen),
            &examples,
            (&path, method),
            address,
            &mut passes,
            &mut slots,
        );
        let done = state.apply(&gradient, loss, &schedule, Some(1.0));
        done.map_err(|e| file(&e))?;
        seen(state.step(), loss);
        monitor.advance("acceleration", state.step());
        if state.step().is_multiple_of(run.save_every) {
            keep(&state)?;
        }
    }
    monitor.end("acceleration");
    net.parameters_mut().copy_from_slice(&state.averaged());
    let out = run.out.join(FILE);
    net.save(&out).map_err(|e| file(&e))?;
    Ok(Some(out))
}

/// Whether codes are a MaskGIT's.
fn check(net: &MaskGit<f32>, codes: &Codes, file: &FilePath) -> Result<(), PaintError> {
    let config = net.config();
    let known = |row: &[u16]| {
        let (class, own) = row.split_last().unwrap_or((&u16::MAX, &[]));
        usize::from(*class) < config.classes && own.iter().all(|&c| usize::from(c) < config.codes)
    };
    let fits = codes.length == config.length() && (0..codes.count()).all(|n| known(codes.row(n)));
    if fits {
        return Ok(());
    }
    Err(PaintError::Refused(format!(
        "{}: rows of {} with a class are not for a MaskGIT of {} x {2} codes of {} and {} classes",
        file.display(),
        codes.length,
        config.side,
        config.codes,
        config.classes
    )))
}

/// Codes and labels of a step's pictures, `[batch, length]`.
fn pictures(
    net: &MaskGit<f32>,
    codes: &Codes,
    batch: usize,
    (seed, step): (u64, u64),
) -> Vec<usize> {
    let key = Key::new(seed, Purpose::Corpus);
    let mut x1 = Vec::with_capacity(batch * codes.length);
    for i in 0..batch as u64 {
        let mut rng = key.at(step, i);
        let row = codes.row(index(&mut rng, codes.count()));
        let said = uniform(&mut rng) >= UNSAID;
        let (class, own) = row.split_last().unwrap_or((&0, &[]));
        x1.extend(own.iter().map(|&c| usize::from(c)));
        x1.push(net.config().class(said.then_some(usize::from(*class))));
    }
    x1
}
