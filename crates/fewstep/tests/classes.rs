//! Classes in every method: a label stands behind a sequence, every network is told it, none changes or
//! predicts it.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::{ops::Range, time::Duration};

mod common;

use common::Until;
use fewstep::{
    image::{PIXELS, SHAPES, SYMBOLS as COLOURS},
    lab::Silent,
    method::{Divergence, dcd, di4c, dimo, law, redi::Coupling},
    objective::Pair,
    sequence::{
        Acceleration, Accelerator, Chain, Corpus, Data, Examples, Loss, Matching, Model,
        Optimization, Optimizer, Prediction, Setting, Sizes, Trainer,
        sampler::{Decoding, Guidance},
    },
};
use fewstep_ctmc::{Grid, Path, Process, Schedule, Source};
use fewstep_nn::{
    Adaptation, Batch, Blind, Conditioned, Conditioning, Gradient, Learner, Logits, Network,
    Opposed, Rows, Want,
};

const SYMBOLS: usize = 3;
const COORDS: usize = 2;
const LABELS: [usize; 2] = [SYMBOLS + 1, SYMBOLS + 2];

/// A network that is told a label behind its coordinates and makes nothing of it. That the label is one and
/// that nobody asks what it was is asserted.
struct Told<N>(N);

/// Positions of a sequence, and the evaluation without labels.
#[derive(Default)]
struct Pass<P>(usize, P);

impl<P> Pass<P> {
    /// The rows of sequences without labels.
    fn rows(&self, rows: &[usize]) -> Vec<usize> {
        let without = |row: &usize| {
            let (sequence, d) = (row / self.0, row % self.0);
            assert_ne!(d, COORDS, "a label is not predicted");
            sequence * (self.0 - 1) + d - usize::from(d > COORDS)
        };
        rows.iter().map(without).collect()
    }
}

/// Sequences without their labels, and their positions with them.
fn untold(batch: Batch) -> (usize, Vec<usize>) {
    let whole = batch.x.len() / batch.t.len();
    let without = |x: &[usize]| {
        assert!(LABELS.contains(&x[COORDS]), "{x:?} has no label");
        [&x[..COORDS], &x[COORDS + 1..]].concat()
    };
    (whole, batch.x.chunks(whole).flat_map(without).collect())
}

impl<N: Network<f64>> Network<f64> for Told<N> {
    type Pass = Pass<N::Pass>;

    fn symbols(&self) -> usize {
        self.0.symbols()
    }

    fn evaluate(&self, batch: Batch, want: Want, pass: &mut Self::Pass) {
        let (whole, x) = untold(batch);
        pass.0 = whole;
        let want = Want { rows: None, ..want };
        self.0.evaluate(Batch { x: &x, ..batch }, want, &mut pass.1);
    }

    fn opposite(&self, batch: Batch, pass: &Self::Pass, to: &mut Self::Pass) {
        let (whole, x) = untold(batch);
        to.0 = whole;
        let batch = Batch { x: &x, ..batch };
        self.0.opposite(batch, &pass.1, &mut to.1);
    }

    fn visit<R: Send>(
        &self,
        pass: &Self::Pass,
        rows: Rows<Self::Pass>,
        consumer: impl Fn(usize, Logits<f64>) -> R + Sync,
    ) -> Vec<R> {
        let asked = Rows {
            rows: &pass.rows(rows.rows),
            tangent: rows.tangent,
            others: rows.others.iter().map(|other| &other.1).collect(),
        };
        self.0.visit(&pass.1, asked, consumer)
    }
}

impl<N: Learner<f64>> Learner<f64> for Told<N> {
    fn parameters(&self) -> &[f64] {
        self.0.parameters()
    }

    fn parameters_mut(&mut self) -> &mut [f64] {
        self.0.parameters_mut()
    }

    fn trainable(&self, adaptation: Adaptation) -> Range<usize> {
        self.0.trainable(adaptation)
    }

    fn descend<R: Send>(
        &self,
        pass: &mut Self::Pass,
        rows: Rows<Self::Pass>,
        consumer: impl Fn(usize, Logits<f64>) -> R + Sync,
        gradient: &mut Gradient<f64>,
    ) -> Vec<R> {
        let own = pass.rows(rows.rows);
        self.0
            .descend(&mut pass.1, Rows::plain(&own), consumer, gradient)
    }

    fn backward(&self, pass: &mut Self::Pass, gradient: &mut Gradient<f64>) {
        self.0.backward(&mut pass.1, gradient);
    }
}

fn path() -> Path {
    Path::new(Schedule::Linear, Process::Mixture(Source::Uniform), SYMBOLS).unwrap()
}

fn shaken<N: Learner<f64>>(mut net: N, phase: f64) -> N {
    let parameters = net.parameters_mut().iter_mut().enumerate();
    parameters.for_each(|(i, p)| *p += 0.4 * (i as f64 * 1.7 + phase).sin());
    net
}

fn denoiser(phase: f64) -> Conditioned<f64> {
    let shape = (COORDS, SYMBOLS, SYMBOLS);
    shaken(
        Conditioned::new(Conditioning::Instant, shape, &[8], 1),
        phase,
    )
}

fn into(data: &mut [f64]) -> Gradient<'_, f64> {
    Gradient {
        data,
        adaptation: Adaptation::Full,
        accumulate: false,
    }
}

/// Data of one sequence, without and with a label.
fn data(number: u64) -> [(Vec<usize>, usize); 2] {
    let x = vec![number as usize % SYMBOLS, number as usize / 3 % SYMBOLS];
    let told = [&x[..], &LABELS[..1]].concat();
    [(x, 0), (told, 1)]
}

/// Losses and gradients without and with a label, which are the same.
fn same(what: &str, found: [(f64, Vec<f64>); 2]) {
    let [(plain, slopes), (told, told_slopes)] = found;
    assert!(
        plain.is_finite() && (plain - told).abs() < 1e-12,
        "{what}: {plain}, {told}"
    );
    assert!(slopes.iter().any(|g| g.abs() > 1e-6), "{what} learns");
    for (a, b) in slopes.iter().zip(&told_slopes) {
        assert!((a - b).abs() < 1e-12, "{what}: {a}, {b}");
    }
}

/// Where networks make nothing of a label, every loss and gradient is that without labels.
#[test]
fn a_label_that_says_nothing_changes_nothing() {
    let path = path();
    let clock = dcd::Clock::new(SYMBOLS);
    for number in 0..12 {
        let address = (3, number);
        let [plain, told] = data(number);
        let along = |(x1, given): &(Vec<usize>, usize)| {
            dcd::examples((&path, &clock), (x1, *given), 1, 0.25, address)
        };
        same(
            "dcd",
            [
                dcd_step((denoiser(0.0), denoiser(0.9)), &path, along(&plain)),
                dcd_step(
                    (Told(denoiser(0.0)), Told(denoiser(0.9))),
                    &path,
                    along(&told),
                ),
            ],
        );
        let latent = denoiser(0.0).carrying(1, 3);
        let pairs = [Pair::new(Schedule::Linear, 0.3, 0.3)];
        let at = |(x1, given): &(Vec<usize>, usize)| {
            Examples::corrupt(&path, x1, &pairs, address).giving(*given)
        };
        same(
            "di4c",
            [
                di4c_step((latent.clone(), denoiser(0.9)), &path, at(&plain), address),
                di4c_step(
                    (Told(latent), Told(denoiser(0.9))),
                    &path,
                    at(&told),
                    address,
                ),
            ],
        );
        let nets = || [0.0, 0.2, 0.9].map(denoiser);
        same(
            "dimo",
            [
                dimo_step(nets(), &path, &[], address),
                dimo_step(nets().map(Told), &path, &LABELS, address),
            ],
        );
        let pairs = [Pair::new(Schedule::Linear, 0.25, 0.5)];
        let moving = |(x1, given): &(Vec<usize>, usize)| {
            let examples = Examples::corrupt(&path, x1, &pairs, address);
            examples.giving(*given)
        };
        for trust in [false, true] {
            let blind = || Blind {
                network: shaken(Opposed::new((COORDS, SYMBOLS + 1, SYMBOLS), &[8], 1), 0.5),
                length: COORDS,
                hidden: SYMBOLS,
            };
            let plain = law_step(
                (denoiser(0.0), blind()),
                &path,
                moving(&plain),
                trust,
                address,
            );
            let nets = (Told(denoiser(0.0)), Told(blind()));
            same(
                "law",
                [plain, law_step(nets, &path, moving(&told), trust, address)],
            );
        }
    }
}

fn dcd_step<N: Learner<f64>>(
    (student, teacher): (N, N),
    path: &Path,
    (early, late): (Examples, Examples),
) -> (f64, Vec<f64>) {
    let mut gradient = vec![0.0; student.parameters().len()];
    let loss = dcd::step(
        (&student, &teacher),
        (&early, &late),
        (path, Divergence::ForwardKl),
        (&mut N::Pass::default(), &mut N::Pass::default()),
        &mut into(&mut gradient),
    );
    (loss, gradient)
}

fn di4c_step<N: Learner<f64>>(
    (student, teacher): (N, N),
    path: &Path,
    examples: Examples,
    address: (u64, u64),
) -> (f64, Vec<f64>) {
    let settings = di4c::Settings {
        step: 0.2,
        ..di4c::Settings::new(3, 1)
    };
    let mut gradient = vec![0.0; student.parameters().len()];
    let loss = di4c::step(
        (&student, &student, &teacher),
        &examples,
        (path, &settings),
        address,
        &mut di4c::Passes::default(),
        &mut into(&mut gradient),
    );
    (loss, gradient)
}

fn dimo_step<N: Learner<f64>>(
    [generator, fake, teacher]: [N; 3],
    path: &Path,
    labels: &[usize],
    address: (u64, u64),
) -> (f64, Vec<f64>) {
    let settings = dimo::Settings {
        batch: 1,
        sizes: (COORDS, 0),
        mix: 0.3,
    };
    let size = generator.parameters().len();
    let (mut first, mut second) = (vec![0.0; size], vec![0.0; size]);
    let (pull, bound) = dimo::step(
        (&generator, &fake, &teacher),
        (path, &settings, labels),
        address,
        &mut dimo::Passes::default(),
        (&mut into(&mut first), &mut into(&mut second)),
    );
    (pull + bound, [first, second].concat())
}

fn law_step<K: Learner<f64>, C: Learner<f64>>(
    (kernel, conditionals): (K, C),
    path: &Path,
    examples: Examples,
    trust: bool,
    address: (u64, u64),
) -> (f64, Vec<f64>) {
    let side = match trust {
        true => law::Side::Denoiser(&kernel),
        false => law::Side::Data,
    };
    let mut first = vec![0.0; kernel.parameters().len()];
    let mut second = vec![0.0; conditionals.parameters().len()];
    let found = law::step(
        (&kernel, &conditionals),
        (&examples, side),
        (path, law::POWER, None),
        address,
        &mut law::Passes::default(),
        (&mut into(&mut first), &mut into(&mut second)),
    );
    let sum = found.ratio + found.made + found.real.unwrap_or(0.0);
    (sum, [first, second].concat())
}

/// A coupling's pairs have their labels in turn at both ends and at all times between them, and are else those
/// without labels.
#[test]
fn couplings_keep_their_labels() {
    let (path, grid) = (path(), Grid::uniform(3).unwrap());
    let (count, whole) = (30, COORDS + 2);
    let net = || denoiser(0.3).carrying(1, 1);
    let plain = Coupling::generate(
        &net(),
        (&path, &grid),
        (COORDS, 1, &[]),
        (0..count, 7),
        9,
        |_| {},
    );
    let told = Coupling::generate(
        &Told(net()),
        (&path, &grid),
        (COORDS, 1, &LABELS),
        (0..count, 7),
        9,
        |_| {},
    );
    assert_eq!((told.length, told.carried), (whole, 2));
    let pairs = vec![Pair::new(Schedule::Linear, 0.4, 0.4); count];
    let between = told.examples(&path, &(0..count).collect::<Vec<_>>(), &pairs, (1, 2));
    assert_eq!(between.active(&path).len(), count * COORDS);
    for x in [&told.x0, &told.x1, &between.x] {
        for (number, x) in x.chunks(whole).enumerate() {
            assert_eq!(x[COORDS], LABELS[number % 2]);
        }
    }
    for (told, plain) in [(&told.x0, &plain.x0), (&told.x1, &plain.x1)] {
        let without = |x: &[usize]| [&x[..COORDS], &x[COORDS + 1..]].concat();
        let found: Vec<usize> = told.chunks(whole).flat_map(without).collect();
        assert_eq!(&found, plain);
    }
}

/// One in ten labels that a method gives says no class, the classes are equally many.
#[test]
fn labels_in_turn_leave_some_unsaid() {
    let corpus = Corpus::open(&Data::Figures).unwrap();
    let labels = corpus.labels_in_turn();
    let count = |label: usize| labels.iter().filter(|l| **l == label).count();
    for class in 0..SHAPES.len() {
        assert_eq!(count(corpus.label(class)), 9, "{class}");
    }
    assert_eq!(count(corpus.label(SHAPES.len())), SHAPES.len());
    assert_eq!(labels[9], corpus.label(SHAPES.len()));
    assert_eq!(labels[8], corpus.label(8 % SHAPES.len()));
    let text = Data::Language {
        symbols: 5,
        states: 2,
        seed: 0,
        transition: 0.5,
        emission: 2.0,
    };
    assert!(Corpus::open(&text).unwrap().labels_in_turn().is_empty());
}

fn setting(chain: Chain) -> Setting {
    Setting {
        chain,
        data: Data::Figures,
        sizes: Sizes {
            length: PIXELS,
            width: 16,
            blocks: 1,
            heads: 2,
        },
        prediction: Prediction::Posterior,
        optimization: Optimization {
            steps: 4,
            batch: 2,
            rate: 1e-2,
            warmup: 1,
            ema: 0.5,
            clip: 1.0,
            seed: 5,
            optimizer: Optimizer::Adam,
        },
        start: None,
        curriculum: None,
        acceleration: None,
        carried: 0,
        loss: Loss::Bound,
    }
}

/// Every method trains on pictures with classes, goes on where it was stopped, and what comes of it draws pictures
/// with and without guidance.
#[test]
fn every_method_trains_with_classes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let hour = (Duration::from_secs(3600), 3);
    let divergence = Divergence::BackwardKl;
    let law = |trust, follow, carried| {
        Accelerator::Law(Matching {
            head_only: false,
            correction: 8,
            grids: vec![2, 4],
            conditionals: setting(Chain::Uniform).sizes,
            conditionals_rate: 1e-2,
            rise: 0.2,
            trust,
            follow,
            carried,
        })
    };
    let dimo = |carried| Accelerator::Dimo {
        carried,
        mix: 0.2,
        denoiser_rate: 1e-2,
    };
    let di4c = Accelerator::Di4c {
        latents: 2,
        carried: 1,
        step: 0.1,
        near: 0.1,
    };
    let uniform = [
        Accelerator::Dcd {
            distance: 0.2,
            divergence,
        },
        Accelerator::Redi {
            pairs: 30,
            steps: 2,
        },
        law(false, false, 0),
        law(true, false, 0),
        law(false, true, 0),
        di4c.clone(),
        dimo(0),
    ];
    let cases = [
        (Chain::Uniform, uniform.to_vec()),
        (Chain::Masked, vec![di4c, dimo(1), law(false, false, 3)]),
    ];
    for (chain, methods) in cases {
        let base = at(chain.name());
        let trainer = Trainer::open(&base, setting(chain), false).unwrap();
        trainer.run(&Silent, hour).unwrap();
        for (number, method) in methods.into_iter().enumerate() {
            let name = format!("{}-{}-{number}", chain.name(), method.name());
            let setting = Setting {
                carried: method.carried().unwrap_or(0),
                acceleration: Some(Acceleration {
                    from: base.clone(),
                    method,
                }),
                ..setting(chain)
            };
            let (whole, parts) = (at(&name), at(&format!("{name}-parts")));
            let trainer = Trainer::open(&whole, setting.clone(), false).unwrap();
            let outcome = trainer.run(&Silent, hour).unwrap();
            assert!(!outcome.stopped && outcome.bound.is_finite(), "{name}");
            for stop in [2, 100] {
                let trainer = Trainer::open(&parts, setting.clone(), true).unwrap();
                trainer.run(&Until::asked(stop), hour).unwrap();
            }
            for file in ["model.safetensors", "state.safetensors"] {
                let [a, b] = [&whole, &parts].map(|dir| std::fs::read(dir.join(file)).unwrap());
                assert!(a == b, "{name}: {file} differs");
            }
            let weights =
                |dir: &std::path::Path| std::fs::read(dir.join("model.safetensors")).unwrap();
            assert!(weights(&whole) != weights(&base), "{name} has trained");

            let mut model = Model::open(&whole).unwrap();
            let unsaid = model.corpus.label(SHAPES.len());
            for (scale, twice) in [(0.0, 1), (1.0, 2)] {
                let how = Decoding {
                    guidance: Guidance {
                        scale,
                        rises: false,
                        unsaid,
                    },
                    ..Decoding::default()
                };
                let grid = Grid::uniform(2).unwrap();
                let (x, nfe) = model.generate(&grid, (how, 1.0), (3, 1));
                assert_eq!((x.len(), nfe), (3 * PIXELS, 2 * twice), "{name}");
                assert!(x.iter().all(|symbol| *symbol < COLOURS), "{name}");
            }
        }
    }
}
