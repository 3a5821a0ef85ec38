//! What a checkpoint is and whether it would load, for people.
//!
//! Whatever can be read is reported, whatever cannot is reported too; nothing makes the report
//! fail as a whole. All weights are read once, raw and averaged, to find those not finite.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::error::{Error, NonFinite, Problem, plain};
use super::facts::Family;
use super::load::{Options, Plan, Weights, affordable, read, time};
use super::network::{Blueprint, Look};
use super::stored::{Checkpoint, Stored};
use super::survey::Survey;
use crate::dit::{Config, Layout, Step, TimeInput};
use crate::{inception, maskgit, vq, vqgan};

/// What was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// What was looked at.
    pub path: String,
    /// The format of its file.
    pub format: Option<&'static str>,
    /// The size of its file.
    pub bytes: Option<u64>,
    /// The family, if the file tells.
    pub family: Option<Family>,
    /// The sizes, if the tensors are a DiT.
    pub sizes: Option<SizesReport>,
    /// The network, if it is one of pictures.
    pub network: Option<NetworkReport>,
    /// Tensors of the weights, by the type of their elements.
    pub dtypes: BTreeMap<String, usize>,
    /// The averaged weights, if there are any.
    pub average: Option<AverageReport>,
    /// Whether it has Di4C's latent token.
    pub latent: bool,
    /// Tensors the network needs and the file does not have.
    pub missing: Vec<String>,
    /// Tensors the file has and the network does not.
    pub unexpected: Vec<String>,
    /// Tensors of another shape than the network's.
    pub misshapen: Vec<String>,
    /// Anything else that is wrong with single tensors.
    pub problems: Vec<String>,
    /// Tensors with weights that are not finite.
    pub nonfinite: Vec<Damage>,
    /// What could not be read, and why.
    pub unreadable: Vec<String>,
    /// What had to be guessed.
    pub notes: Vec<String>,
    /// Why it cannot be loaded as it is; nothing if it can.
    pub failure: Option<String>,
}

/// The sizes of a network.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)] // The fields are those of dit::Config.
pub struct SizesReport {
    /// The name of the published size, if it is one.
    pub name: Option<&'static str>,
    pub parameters: usize,
    pub vocabulary: usize,
    pub length: usize,
    pub width: usize,
    pub blocks: usize,
    pub heads: usize,
    pub conditioning: usize,
    /// How it sees a step.
    pub step: String,
    /// What it is told of time, if the family is known.
    pub time: Option<String>,
    pub mask: Option<usize>,
}

/// A network of pictures.
#[derive(Clone, Debug, Serialize)]
pub struct NetworkReport {
    /// What people call it.
    pub name: &'static str,
    /// How many it has, unless the tensors are no such network.
    pub parameters: Option<usize>,
    /// Its sizes for people.
    pub sizes: Option<String>,
}

/// Averaged weights.
#[derive(Clone, Debug, Serialize)]
pub struct AverageReport {
    /// Decay of the average.
    pub decay: Option<f64>,
    /// Updates it has seen.
    pub updates: Option<usize>,
    /// How many tensors it has.
    pub tensors: usize,
}

/// Weights that are not finite.
#[derive(Clone, Debug, Serialize)]
pub struct Damage {
    /// Which weights.
    pub weights: Weights,
    /// The tensor.
    #[serde(flatten)]
    pub tensor: NonFinite,
}

/// Looks at a directory or a file as [`super::load`] would, without failing.
pub fn inspect(path: impl AsRef<Path>) -> Report {
    let path = path.as_ref();
    let mut report = Report {
        path: path.display().to_string(),
        ..Report::default()
    };
    let mut checkpoint = match Checkpoint::open(path) {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            let about = std::fs::metadata(path).ok().filter(|about| about.is_file());
            report.bytes = about.map(|about| about.len());
            report.failure = Some(error.to_string());
            return report;
        }
    };
    report.format = Some(checkpoint.format);
    report.bytes = Some(checkpoint.bytes);
    report.family = checkpoint.facts.family;
    for tensor in &checkpoint.tensors {
        *report.dtypes.entry(tensor.dtype.to_string()).or_default() += 1;
    }
    report.average = checkpoint.average.as_ref().map(|average| AverageReport {
        decay: average.decay,
        updates: average.updates,
        tensors: average.tensors.as_ref().map_or(0, Vec::len),
    });
    let pictures = report.network::<vqgan::Config>(&mut checkpoint)
        || report.network::<maskgit::Stored>(&mut checkpoint)
        || report.network::<inception::Config>(&mut checkpoint)
        || report.network::<vq::Config>(&mut checkpoint);
    if pictures {
        return report;
    }
    let survey = Survey::new(&checkpoint);
    report.survey(&survey, &checkpoint);
    let layout = survey.network.as_ref().map(|(_, layout)| layout.clone());
    let plan = Plan::new(&checkpoint, survey, &Options::default());
    report.failure = match &plan {
        Err(error) => Some(summary(error)),
        Ok(_) => None,
    };
    report.values(&mut checkpoint, layout.as_ref());
    if let Ok(plan) = plan {
        let hurt = |damage: &&Damage| damage.weights == plan.weights;
        let hurt = report.nonfinite.iter().filter(hurt).count();
        if hurt > 0 {
            report.failure = Some(format!(
                "{}: {hurt} tensors have weights that are not finite",
                checkpoint.path.display()
            ));
        } else if !report.unreadable.is_empty() {
            report.failure = Some(format!(
                "{}: not all of it can be read",
                checkpoint.path.display()
            ));
        }
    }
    report
}

/// A failure in one line: what it lists is in the report already.
fn summary(error: &Error) -> String {
    let text = error.to_string();
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    first.trim_end_matches(':').to_owned()
}

impl Report {
    fn survey(&mut self, survey: &Survey, checkpoint: &Checkpoint) {
        self.latent = survey.latent;
        self.notes.clone_from(&survey.notes);
        self.list(survey.problems.iter().chain(&survey.average_problems));
        let Some((config, layout)) = &survey.network else {
            return;
        };
        let told = time(&checkpoint.facts, None, config.vocabulary, &mut self.notes);
        self.sizes = Some(sizes(
            config,
            layout,
            told.map(|(_, time, mask)| (time, mask)),
        ));
    }

    /// Looks at it as a network of pictures, if it has the mark of one.
    fn network<C: Blueprint>(&mut self, checkpoint: &mut Checkpoint) -> bool {
        let marked = |tensor: &Stored| C::own(&tensor.name) == Some(C::MARK);
        if !checkpoint.tensors.iter().any(marked) {
            return false;
        }
        let look = Look::<C>::new(checkpoint);
        self.list(look.problems.iter());
        let total = look.slots.last().map(|slot| slot.range.end);
        self.network = Some(NetworkReport {
            name: C::NAME,
            parameters: total,
            sizes: look.config.as_ref().ok().map(C::describe),
        });
        self.failure = look.plan(checkpoint).err().map(|error| summary(&error));
        self.values(checkpoint, None);
        let path = checkpoint.path.display();
        let own = |damage: &&Damage| C::own(&damage.tensor.name).is_some();
        let hurt = self.nonfinite.iter().filter(own).count();
        if self.failure.is_none() && hurt > 0 {
            self.failure = Some(format!(
                "{path}: {hurt} tensors have weights that are not finite"
            ));
        } else if self.failure.is_none() && !self.unreadable.is_empty() {
            self.failure = Some(format!("{path}: not all of it can be read"));
        }
        true
    }

    /// Sorts what is wrong with single tensors.
    fn list<'a>(&mut self, problems: impl Iterator<Item = &'a Problem>) {
        for problem in problems {
            let list = match problem {
                Problem::Missing { .. } => &mut self.missing,
                Problem::Unexpected { .. } => &mut self.unexpected,
                Problem::Shape { .. } => &mut self.misshapen,
                _ => &mut self.problems,
            };
            let text = problem.to_string();
            let bare = ["missing ", "unexpected ", "wrong shape "];
            let bare = bare.iter().find_map(|kind| text.strip_prefix(kind));
            list.push(bare.unwrap_or(&text).to_owned());
        }
    }

    /// Reads all weights and counts what is not finite.
    fn values(&mut self, checkpoint: &mut Checkpoint, layout: Option<&Layout>) {
        let names = layout.map(|layout| layout.tensors.iter().map(|tensor| tensor.name.as_str()));
        let names: Vec<&str> = names.map(Iterator::collect).unwrap_or_default();
        let average = checkpoint.average.as_ref();
        let average = average.and_then(|average| average.tensors.as_deref().ok());
        let sets: [(Weights, &[Stored]); 2] = [
            (Weights::Raw, &checkpoint.tensors),
            (Weights::Ema, average.unwrap_or_default()),
        ];
        for (weights, set) in sets {
            if let Err(why) = affordable(set.iter(), checkpoint.bytes) {
                self.unreadable.push(why);
                continue;
            }
            for (index, tensor) in set.iter().enumerate() {
                let name = match (weights, names.get(index)) {
                    (Weights::Ema, Some(name)) => format!("{} ({name})", tensor.name),
                    _ => plain(&tensor.name),
                };
                // One without a place was listed with the problems.
                if tensor.place.is_err() {
                    continue;
                }
                match read(&mut checkpoint.reader, tensor, |_: &[f32]| ()) {
                    Ok(0) => {}
                    Ok(count) => self.nonfinite.push(Damage {
                        weights,
                        tensor: NonFinite { name, count },
                    }),
                    Err(why) => self.unreadable.push(format!("{name}: {why}")),
                }
            }
        }
    }
}

fn sizes(
    config: &Config,
    layout: &Layout,
    told: Option<(TimeInput, Option<usize>)>,
) -> SizesReport {
    SizesReport {
        name: config.size(),
        parameters: layout.len(),
        vocabulary: config.vocabulary,
        length: config.length,
        width: config.width,
        blocks: config.blocks,
        heads: config.heads,
        conditioning: config.conditioning,
        step: match config.step {
            Step::None => "none".into(),
            Step::Trunk => "trunk".into(),
            Step::Correction { width } => format!("correction of width {width}"),
        },
        time: told.map(|(time, _)| match time {
            TimeInput::Zero => "zero".into(),
            TimeInput::Time => "t".into(),
            TimeInput::Sigma { eps } => format!("sigma with eps {eps}"),
        }),
        mask: told.and_then(|(_, mask)| mask),
    }
}
