//! What is measured of the engine, and how: the works of `fewstep bench`.
//!
//! A work is set up once and its step repeated; the setting up is not timed. Sizes are those of
//! the programs in `bench/peers`, which do the same on other engines.

use std::time::Instant;

use fewstep_ctmc::{
    Grid, Path, Process, Schedule, Source,
    random::{Key, Purpose, index, uniform},
};
use fewstep_nn::{
    AdamW, Adaptation, Batch, Error, Gradient, Learner, Network, Rows, Want,
    dit::{Config, Dit, Layout, Pass, Positions, Sight, Step, TimeInput},
    kernel::{View, matmul},
    maskgit::{self, MaskGit},
    optim::{Settings, clip},
    vqgan::{self, Vqgan},
};

use crate::{
    objective::Pair,
    sequence::{
        Examples,
        average::{self, Loss, Method, Passes},
        sampler::{Decoding, Guidance, generate, watched},
    },
};

/// A work that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A matrix product of 1024 x 1024 x 1024.
    Gemm,
    /// DiT small, 50258 symbols, 1024 positions: logits of every position.
    DitSmallForward,
    /// The same with its derivative in `t`.
    DitSmallTangent,
    /// Its cross-entropy at every position, and the gradient of every parameter.
    DitSmallTrain,
    /// A sequence of it generated in 16 steps from masks.
    DitSmallSample,
    /// A training step of the average generator, byte sizes: 257 symbols, 256 channels, 6 blocks,
    /// 8 heads, 256 positions, 16 sequences.
    DagByte,
    /// The same with 50258 symbols, 256 channels, 4 blocks, 4 heads, 128 positions, 4 sequences.
    DagBpe,
    /// A picture of 256 x 256 pixels from its codes by the VQGAN f16 with 1024 codes.
    VqganDecode,
    /// The 16 x 16 codes of such a picture in four steps with guidance by MaskGIT.
    MaskgitSample,
}

/// Steps of a generation.
const SAMPLE_STEPS: usize = 16;

/// All works, in the order they are shown.
pub const WORKS: [Work; 9] = [
    Work::Gemm,
    Work::DitSmallForward,
    Work::DitSmallTangent,
    Work::DitSmallTrain,
    Work::DitSmallSample,
    Work::DagByte,
    Work::DagBpe,
    Work::VqganDecode,
    Work::MaskgitSample,
];

impl Work {
    /// The name in arguments and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemm => "gemm",
            Self::DitSmallForward => "dit-small-forward",
            Self::DitSmallTangent => "dit-small-tangent",
            Self::DitSmallTrain => "dit-small-train",
            Self::DitSmallSample => "dit-small-sample",
            Self::DagByte => "dag-byte",
            Self::DagBpe => "dag-bpe",
            Self::VqganDecode => "vqgan-decode",
            Self::MaskgitSample => "maskgit-sample",
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Seconds of each step, in order.
    pub seconds: Vec<f64>,
    /// Tokens of a step, if it has any.
    pub tokens: Option<usize>,
    /// Floating-point operations of its matrix products.
    pub operations: f64,
    /// What the machine's own product does in a second, measured before.
    pub gemm: f64,
}

impl Measured {
    /// The median step.
    pub fn median(&self) -> f64 {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0
    }

    /// The quickest step.
    pub fn best(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Measures `steps` steps of a work after `warmup` that are not counted.
pub fn measure(work: Work, steps: usize, warmup: usize) -> Result<Measured, Error> {
    let gemm = gemm_speed();
    let (mut step, tokens, operations) = prepare(work)?;
    for _ in 0..warmup {
        step();
    }
    let seconds = (0..steps)
        .map(|_| {
            let start = Instant::now();
            step();
            start.elapsed().as_secs_f64()
        })
        .collect();
    Ok(Measured {
        seconds,
        tokens,
        operations,
        gemm,
    })
}

type Prepared = (Box<dyn FnMut()>, Option<usize>, f64);

const SIDE: usize = 1024;

fn square() -> impl FnMut() {
    let (a, b) = (vec![0.5f32; SIDE * SIDE], vec![0.25f32; SIDE * SIDE]);
    let mut c = vec![0f32; SIDE * SIDE];
    move || {
        let (a, b) = (View::new(&a, SIDE, SIDE), View::new(&b, SIDE, SIDE));
        matmul(a, b, &mut c, false);
    }
}

/// Operations a second of the best of a few products.
fn gemm_speed() -> f64 {
    let mut product = square();
    product();
    let best = (0..8)
        .map(|_| {
            let start = Instant::now();
            product();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    2.0 * (SIDE as f64).powi(3) / best
}

fn prepare(work: Work) -> Result<Prepared, Error> {
    let small = || -> Result<Config, Error> {
        Ok(Config {
            mask: Some(50_257),
            time: TimeInput::Time,
            ..Config::named("small", 50_258)?
        })
    };
    Ok(match work {
        Work::Gemm => (Box::new(square()), None, 2.0 * (SIDE as f64).powi(3)),
        Work::DitSmallForward => logits(small()?, false)?,
        Work::DitSmallTangent => logits(small()?, true)?,
        Work::DitSmallTrain => train(small()?)?,
        Work::DitSmallSample => sample(small()?)?,
        Work::DagByte => dag((257, 256, 6, 8), 256, 16)?,
        Work::DagBpe => dag((50_258, 256, 4, 4), 128, 4)?,
        Work::VqganDecode => decode()?,
        Work::MaskgitSample => guided()?,
    })
}

/// A network none of whose parameters is zero.
fn network(config: Config) -> Result<Dit<f32>, Error> {
    let mut net = Dit::new(config, 0)?;
    disturb(net.parameters_mut());
    Ok(net)
}

/// Any cheap noise will do.
fn disturb(parameters: &mut [f32]) {
    let mut state = 1u32;
    for p in parameters {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *p += (state >> 8) as f32 * (0.04 / 16_777_216.0) - 0.02;
    }
}

/// A picture from its codes.
fn decode() -> Result<Prepared, Error> {
    let config = vqgan::Config::imagenet();
    let mut parameters = vec![0f32; vqgan::Layout::new(&config).len()];
    disturb(&mut parameters);
    let (side, codes) = (16, config.codes);
    let net = Vqgan::from_parameters(config, parameters)?;
    let operations = net.operations((1, side, side));
    let mut rng = Key::new(0, Purpose::Data).at(0, 0);
    let picture: Vec<usize> = (0..side * side).map(|_| index(&mut rng, codes)).collect();
    let step = move || {
        // The codes are in the codebook and of one picture.
        let pixels = net.decode((1, side, side), &picture);
        std::hint::black_box(pixels.is_ok());
    };
    Ok((Box::new(step), None, operations))
}

/// The codes of a picture of a class, each step with the class and without it.
fn guided() -> Result<Prepared, Error> {
    const STEPS: usize = 4;
    let mut net = MaskGit::<f32>::new(maskgit::Config::imagenet(256)?, 0)?;
    disturb(net.parameters_mut());
    let config = net.config().clone();
    let wrong = |error: fewstep_ctmc::Error| Error::Config(error.to_string());
    let process = Process::Mixture(Source::Masked);
    let path = Path::new(Schedule::Arccos, process, config.codes).map_err(wrong)?;
    let grid = Grid::uniform(STEPS).map_err(wrong)?;
    let how = Decoding {
        steps: false,
        guidance: Guidance {
            scale: 1.0,
            rises: false,
            unsaid: config.class(None),
        },
        ..Decoding::default()
    };
    let (c, l) = (config.width as f64, config.length() as f64);
    let blocks = config.blocks as f64 * (24.0 * l * c * c + 4.0 * l * l * c) + 6.0 * l * c * c;
    // Every code goes through the head twice, when it is written.
    let head = 2.0 * (config.length() - 1) as f64 * c * config.codes as f64;
    let operations = 2.0 * (STEPS as f64 * blocks + head);
    let (mut seed, label) = (0, [config.class(Some(7))]);
    let step = move || {
        seed += 1;
        let sizes = (1, config.length() - 1, 1);
        let made = watched(&net, &path, &grid, (&how, &label), sizes, seed, |_, _| {});
        std::hint::black_box(made);
    };
    Ok((Box::new(step), None, operations))
}

/// Operations of the products of one forward pass over `tokens` positions, `head` of them through
/// the head.
fn operations(config: &Config, length: usize, tokens: usize, head: usize) -> f64 {
    let (c, n, l) = (config.width as f64, tokens as f64, length as f64);
    let blocks = config.blocks as f64 * (24.0 * n * c * c + 4.0 * n * l * c);
    blocks + 2.0 * head as f64 * c * config.vocabulary as f64
}

fn tokens(config: &Config, count: usize) -> Vec<usize> {
    let mut rng = Key::new(0, Purpose::Data).at(0, 0);
    (0..count)
        .map(|_| index(&mut rng, config.vocabulary - 1))
        .collect()
}

fn logits(config: Config, tangent: bool) -> Result<Prepared, Error> {
    let net = network(config)?;
    let length = net.config().length;
    let x = tokens(net.config(), length);
    let rows: Vec<usize> = (0..length).collect();
    let passes = if tangent { 2.0 } else { 1.0 };
    let operations = passes * operations(net.config(), length, length, length);
    let mut pass = Pass::default();
    let step = move || {
        let batch = Batch {
            x: &x,
            t: &[0.3],
            r: &[0.6],
        };
        let want = Want {
            moving: usize::from(tangent),
            ..Want::default()
        };
        net.evaluate(batch, want, &mut pass);
        let rows = Rows {
            rows: &rows,
            tangent,
            others: Vec::new(),
        };
        // One number of each row, so that nothing is computed in vain.
        std::hint::black_box(net.visit(&pass, rows, |_, row| row.value[0]));
    };
    Ok((Box::new(step), Some(length), operations))
}

fn train(config: Config) -> Result<Prepared, Error> {
    let net = network(config)?;
    let length = net.config().length;
    let x = tokens(net.config(), length);
    let rows: Vec<usize> = (0..length).collect();
    let operations = 3.0 * operations(net.config(), length, length, length);
    let mut gradient = vec![0f32; net.parameters().len()];
    let mut pass = Pass::default();
    let step = move || {
        let batch = Batch {
            x: &x,
            t: &[0.3],
            r: &[0.6],
        };
        let want = Want {
            back: Some(Adaptation::Full),
            ..Want::default()
        };
        let mut gradient = Gradient {
            data: &mut gradient,
            adaptation: Adaptation::Full,
            accumulate: false,
        };
        net.evaluate(batch, want, &mut pass);
        let weight = 1.0 / length as f64;
        let losses = net.descend_column(
            &mut pass,
            Rows::plain(&rows),
            &x,
            |_, column| (-weight * column.log, weight),
            &mut gradient,
        );
        net.backward(&mut pass, &mut gradient);
        std::hint::black_box(losses);
    };
    Ok((Box::new(step), Some(length), operations))
}

/// A generation from nothing but masks.
fn sample(config: Config) -> Result<Prepared, Error> {
    let net = network(config)?;
    let (length, mask) = (net.config().length, net.config().vocabulary - 1);
    let process = Process::Mixture(Source::Masked);
    let wrong = |error: fewstep_ctmc::Error| Error::Config(error.to_string());
    let path = Path::new(Schedule::Linear, process, mask).map_err(wrong)?;
    let grid = Grid::uniform(SAMPLE_STEPS).map_err(wrong)?;
    // Every position goes through the head once, when it is unmasked.
    let operations = operations(net.config(), length, SAMPLE_STEPS * length, length);
    let how = Decoding {
        steps: false,
        ..Decoding::default()
    };
    let mut seed = 0;
    let step = move || {
        seed += 1;
        let sizes = (1, length, 1);
        std::hint::black_box(generate(&net, &path, &grid, &how, sizes, seed));
    };
    Ok((Box::new(step), Some(length), operations))
}

fn dag(
    (vocabulary, width, blocks, heads): (usize, usize, usize, usize),
    length: usize,
    count: usize,
) -> Result<Prepared, Error> {
    let mask = vocabulary - 1;
    let path = Path::new(Schedule::Linear, Process::Mixture(Source::Masked), mask)
        .map_err(|error| Error::Config(error.to_string()))?;
    let config = Config {
        vocabulary,
        length,
        width,
        blocks,
        heads,
        conditioning: 128,
        mask: Some(mask),
        time: TimeInput::Time,
        step: Step::Trunk,
        sight: Sight::Whole,
        positions: Positions::Line,
    };
    // Three passes, half of the rows through the head, and the way back.
    let operations = 6.0 * operations(&config, length, length * count, 0)
        + 5.0 * operations(&config, 0, 0, length * count / 2);
    let mut net = network(config.clone())?;
    let frozen = network(config.clone())?;
    let parameters = Layout::new(&config).len();
    let mut optimizer = AdamW::new(parameters, Settings::default());
    let trainable = optimizer.trainable().clone();
    let mut gradient = vec![0f32; parameters];
    let mut passes = Passes::default();
    let mut number = 0;
    let step = move || {
        let mut rng = Key::new(0, Purpose::Time).at(number, 0);
        let x1 = (0..length * count)
            .map(|_| index(&mut rng, mask))
            .collect::<Vec<_>>();
        let pairs: Vec<Pair> = (0..count)
            .map(|_| {
                let t = 0.9 * uniform(&mut rng);
                let rest = uniform(&mut rng) < 0.25;
                let r = t + (1.0 - t) * uniform(&mut rng);
                Pair::new(Schedule::Linear, t, if rest { t } else { r })
            })
            .collect();
        let examples = Examples::corrupt(&path, &x1, &pairs, (0, number));
        let mut slots = Gradient {
            data: &mut gradient,
            adaptation: Adaptation::Full,
            accumulate: false,
        };
        let method = Method {
            loss: Loss::Shifted { floor: 1e-4 },
            draws: 1,
        };
        let value = average::step(
            (&net, &frozen),
            &examples,
            (&path, method),
            (0, number),
            &mut passes,
            &mut slots,
        );
        // Random weights and data: the gradient is finite.
        let norm = clip::norm(&gradient, &trainable).unwrap_or(f64::INFINITY);
        let scale = clip::clip_factor(norm, 1.0);
        optimizer.update_scaled(net.parameters_mut(), &gradient, 3e-4, scale);
        number += 1;
        std::hint::black_box(value);
    };
    Ok((Box::new(step), Some(length * count), operations))
}
