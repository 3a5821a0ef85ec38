//! Long sequences with a denoiser that is exactly right: what the sampler does then, it does itself.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::time::Duration;

mod common;

use common::Until;
use fewstep::{
    lab::Silent,
    method::{Divergence, sdtt::Spacing},
    sequence::{
        Acceleration, Accelerator, Average, Chain, Data, Loss, Matching, Model, Optimization,
        Optimizer, Oracle, Pairs, Prediction, Setting, Sizes, Target, Trainer,
        evaluate::{quality, unigram_entropy},
        order::{Order, Ranking, Tokens},
        sampler::{Decoding, Kernel, State, generate, sample},
    },
};
use fewstep_ctmc::{Grid, Language, Path};
use fewstep_nn::{
    Learner,
    dit::{Config, Dit},
};

fn oracle(chain: Chain) -> Oracle {
    let language = Language::default_with(5, 4, 3).unwrap();
    let path = chain.path(5).unwrap();
    Oracle {
        law: language,
        path,
    }
}

const LENGTH: usize = 8;
const COUNT: usize = 2000;

fn drawn(oracle: &Oracle, steps: usize) -> Vec<usize> {
    let grid = Grid::uniform(steps).unwrap();
    let sizes = (COUNT, LENGTH, 500);
    let how = Decoding::default();
    generate(oracle, &oracle.path, &grid, &how, sizes, 11).0
}

/// Chi-square of the neighbours at one place against the language, over cells with five expected.
fn chi_square(language: &Language, x: &[usize], at: usize) -> (f64, f64) {
    let (law, symbols) = (language.bigram(), language.symbols());
    let mut counts = vec![0.0; law.len()];
    for x in x.chunks_exact(LENGTH) {
        counts[x[at] * symbols + x[at + 1]] += 1.0;
    }
    let n = (x.len() / LENGTH) as f64;
    let (mut chi, mut cells, mut rest) = (0.0, 0.0, (0.0, 0.0));
    for (c, p) in counts.iter().zip(&law) {
        if n * p >= 5.0 {
            chi += (c - n * p).powi(2) / (n * p);
            cells += 1.0;
        } else {
            rest = (rest.0 + c, rest.1 + n * p);
        }
    }
    if rest.1 > 0.0 {
        chi += (rest.0 - rest.1).powi(2) / rest.1;
        cells += 1.0;
    }
    (chi, cells - 1.0)
}

/// With many steps every chain draws the language itself: the chi-square test of neighbours does not
/// reject, and the exact likelihood is the language's own.
#[test]
fn many_steps_of_an_oracle_draw_the_language() {
    for chain in [
        Chain::Masked,
        Chain::StochasticMask,
        Chain::Uniform,
        Chain::UniformState,
    ] {
        let oracle = oracle(chain);
        let x = drawn(&oracle, 1024);
        for at in [0, 3, LENGTH - 2] {
            let (chi, freedom) = chi_square(&oracle.law, &x, at);
            // Four deviations of a chi-square beyond its mean.
            let most = freedom + 4.0 * (2.0 * freedom).sqrt();
            assert!(chi < most, "{chain:?} at {at}: {chi} of {freedom}");
        }
        let (own, error) = oracle.law.entropy(LENGTH, 4000, 5);
        let found = quality(&oracle.law, &x, LENGTH);
        let spread = 4.0 * (error.powi(2) + found.nll_error.powi(2)).sqrt();
        // A grid of 1024 steps is still a grid.
        assert!(
            (found.nll - own).abs() < spread + 0.01,
            "{chain:?} {found:?} {own}"
        );
    }
}

/// Euler's kernel tends to the same chain, and a greedy tail does not draw.
#[test]
fn eulers_kernel_draws_the_language_in_many_steps() {
    for (chain, kernel) in [
        (Chain::UniformState, Kernel::Euler),
        (Chain::Uniform, Kernel::Euler),
    ] {
        let oracle = oracle(chain);
        let grid = Grid::uniform(1024).unwrap();
        let how = Decoding {
            kernel,
            ..Decoding::default()
        };
        let sizes = (COUNT, LENGTH, 500);
        let x = generate(&oracle, &oracle.path, &grid, &how, sizes, 11).0;
        let (chi, freedom) = chi_square(&oracle.law, &x, 3);
        let most = freedom + 4.0 * (2.0 * freedom).sqrt();
        assert!(chi < most, "{chain:?} {kernel:?}: {chi} of {freedom}");
    }
    let oracle = oracle(Chain::Masked);
    let how = Decoding {
        greedy_tail: true,
        ..Decoding::default()
    };
    let one = Grid::uniform(1).unwrap();
    let x = generate(&oracle, &oracle.path, &one, &how, (3, LENGTH, 3), 11).0;
    // From nothing but masks in one step, every sequence is the likeliest symbols.
    assert_eq!(x[..LENGTH], x[LENGTH..2 * LENGTH]);
}

/// With two steps it does not, by far: the test can fail.
#[test]
fn few_steps_are_seen() {
    for chain in [Chain::Masked, Chain::Uniform, Chain::UniformState] {
        let oracle = oracle(chain);
        let (chi, freedom) = chi_square(&oracle.law, &drawn(&oracle, 2), 3);
        assert!(chi > 10.0 * freedom, "{chain:?}: {chi} of {freedom}");
    }
}

fn ordered(order: Order, steps: usize) -> (Oracle, Vec<usize>, usize) {
    let oracle = oracle(Chain::Masked);
    let how = Decoding {
        order,
        ..Decoding::default()
    };
    let grid = Grid::uniform(steps).unwrap();
    let sizes = (COUNT, LENGTH, 500);
    let (x, nfe) = generate(&oracle, &oracle.path, &grid, &how, sizes, 5);
    (oracle, x, nfe)
}

/// One coordinate a step, chosen by what is known and drawn from its exact law, is the chain rule: it
/// draws the language whatever the order. Chosen by what was drawn, as MaskGIT does, it does not.
#[test]
fn orders_that_do_not_look_at_the_draw_are_exact() {
    let one_by_one = |by| Order::Ranked {
        by,
        tokens: Tokens::Even,
        noise: 0.0,
    };
    for (by, exact) in [
        (Ranking::Entropy, true),
        (Ranking::Margin, true),
        (Ranking::Confidence, false),
    ] {
        let (oracle, x, nfe) = ordered(one_by_one(by), LENGTH);
        assert_eq!(nfe, LENGTH);
        let (chi, freedom) = chi_square(&oracle.law, &x, 3);
        let most = freedom + 4.0 * (2.0 * freedom).sqrt();
        assert_eq!(chi < most, exact, "{by:?}: {chi} of {freedom}");
        assert!(exact || chi > 3.0 * freedom, "{by:?}: {chi} of {freedom}");
    }
}

/// As many are written in each step as the schedule says; a threshold writes what is sure, and all
/// in the end.
#[test]
fn steps_write_what_their_order_says() {
    let oracle = oracle(Chain::Masked);
    let grid = Grid::uniform(4).unwrap();
    for (tokens, counts) in [
        (Tokens::Differences, [1, 2, 1, 4]),
        (Tokens::Arccos, [1, 2, 3, 2]),
    ] {
        assert_eq!(tokens.counts(LENGTH, 4), counts);
        let how = Decoding {
            order: Order::Ranked {
                by: Ranking::Confidence,
                tokens,
                noise: 4.5,
            },
            ..Decoding::default()
        };
        let mut state = State::noise(&oracle.path, (0, 3), LENGTH, 1);
        let mut left = 3 * LENGTH;
        let (network, path) = (&oracle, &oracle.path);
        sample(network, path, &grid, &how, &mut state, 1, |step, state| {
            let now = state.x.iter().filter(|&&s| s == 5).count();
            assert_eq!(left - now, 3 * counts[step]);
            left = now;
        });
        assert_eq!(left, 0);
    }
    let (_, x, nfe) = ordered(Order::Threshold(0.0), 7);
    assert_eq!(nfe, 1, "everything is sure enough");
    assert!(x.iter().all(|&s| s < 5));
    let (_, x, nfe) = ordered(Order::Threshold(1.0), LENGTH + 3);
    assert_eq!(nfe, LENGTH, "one at a time");
    assert!(x.iter().all(|&s| s < 5));
}

/// Given coordinates stay, and the others follow them.
#[test]
fn fixed_coordinates_stay() {
    for chain in [Chain::Masked, Chain::Uniform, Chain::UniformState] {
        let oracle = oracle(chain);
        let mut state = State::noise(&oracle.path, (0, 3), LENGTH, 1);
        for sequence in 0..3 {
            state.x[sequence * LENGTH + 2] = 4;
            state.fixed[sequence * LENGTH + 2] = true;
        }
        let grid = Grid::uniform(4).unwrap();
        let how = Decoding::default();
        let mut seen = 0;
        let used = sample(
            &oracle,
            &oracle.path,
            &grid,
            &how,
            &mut state,
            1,
            |k, state| {
                assert_eq!(k, seen);
                seen += 1;
                assert!(state.sequences().all(|x| x[2] == 4));
            },
        );
        assert_eq!((seen, used), (4, 4));
        assert!(state.x.iter().all(|&s| s < 5), "no mask is left");
    }
}

fn dit(chain: Chain) -> (Path, Dit<f32>) {
    let path = chain.path(7).unwrap();
    let sizes = Sizes {
        length: 12,
        width: 32,
        blocks: 2,
        heads: 2,
    };
    let config: Config = sizes.config(&path, 0);
    let mut network = Dit::new(config, 1).unwrap();
    for (i, p) in network.parameters_mut().iter_mut().enumerate() {
        *p += 0.1 * (i as f32 * 1.7).sin();
    }
    (path, network)
}

/// The same seed gives the same sequences in any batch and on any number of threads.
#[test]
fn samples_do_not_depend_on_batch_or_threads() {
    for chain in [Chain::Masked, Chain::Uniform, Chain::UniformState] {
        let (path, network) = dit(chain);
        let grid = Grid::uniform(5).unwrap();
        let draw = |batch: usize, threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let how = Decoding::default();
            let run = || generate(&network, &path, &grid, &how, (23, 12, batch), 3);
            pool.build().unwrap().install(run).0
        };
        let one = draw(1, 1);
        for (batch, threads) in [(23, 1), (23, 3), (7, 2)] {
            assert_eq!(one, draw(batch, threads), "{chain:?}, {batch}, {threads}");
        }
    }
}

#[test]
fn entropy_of_symbols() {
    assert_eq!(unigram_entropy(&[3, 3, 3]), 0.0);
    assert!((unigram_entropy(&[1, 2, 1, 2]) - 2f64.ln()).abs() < 1e-15);
}

fn setting(chain: Chain) -> Setting {
    Setting {
        chain,
        data: Data::Language {
            symbols: 7,
            states: 3,
            seed: 0,
            transition: 0.5,
            emission: 2.0,
        },
        sizes: Sizes {
            length: 12,
            width: 16,
            blocks: 1,
            heads: 2,
        },
        prediction: Prediction::Others,
        optimization: Optimization {
            steps: 12,
            batch: 4,
            rate: 1e-2,
            warmup: 2,
            ema: 0.9,
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

/// Law matching in the small.
fn matching(conditionals: Sizes) -> Matching {
    Matching {
        head_only: false,
        correction: 8,
        grids: vec![2, 4],
        conditionals,
        conditionals_rate: 1e-2,
        rise: 0.2,
        trust: false,
        follow: false,
        carried: 0,
    }
}

/// The average generator in the small.
fn average() -> Average {
    Average {
        target: Target::Linear,
        head_only: true,
        correction: 8,
        pairs: Pairs::Grids(vec![2, 4]),
        at_rest: 0.25,
        draws: 1,
    }
}

/// A run that stops and goes on ends with the files of one that does not: denoiser and acceleration.
#[test]
fn runs_go_on_where_they_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let hour = Duration::from_secs(3600);
    let mut base = setting(Chain::Uniform);
    let divergence = Divergence::BackwardKl;
    let sizes = base.sizes;
    let law = |trust: bool, follow: bool, carried: usize| {
        Some(Accelerator::Law(Matching {
            trust,
            follow,
            carried,
            ..matching(sizes)
        }))
    };
    let methods = [
        None,
        Some(Accelerator::Dag(average())),
        Some(Accelerator::Sdtt {
            size: 0.1,
            count: 2,
            spacing: Spacing::Even,
            divergence,
        }),
        Some(Accelerator::Dcd {
            distance: 0.2,
            divergence,
        }),
        Some(Accelerator::Di4c {
            latents: 2,
            carried: 1,
            step: 0.1,
            near: 0.1,
        }),
        Some(Accelerator::Redi {
            pairs: 1200,
            steps: 3,
        }),
        law(false, false, 0),
        law(false, false, 2),
        law(true, false, 0),
        law(false, true, 0),
        Some(Accelerator::Dimo {
            carried: 1,
            mix: 0.2,
            denoiser_rate: 1e-2,
        }),
    ];
    for (number, method) in methods.into_iter().enumerate() {
        let name = method.as_ref().map_or("base", Accelerator::name);
        let carried = method.as_ref().and_then(Accelerator::carried);
        base.carried = carried.unwrap_or(0);
        let name = match number {
            0 => "base".into(),
            _ => format!("{name}-{number}"),
        };
        base.acceleration = method.map(|method| Acceleration {
            from: dir.path().join("whole-base"),
            method,
        });
        let whole = dir.path().join(format!("whole-{name}"));
        let parts = dir.path().join(format!("parts-{name}"));
        let trainer = Trainer::open(&whole, base.clone(), false).unwrap();
        let outcome = trainer.run(&Silent, (hour, 5)).unwrap();
        assert!(!outcome.stopped && outcome.bound.is_finite());
        for stop in [3, 1, 5, 100] {
            let trainer = Trainer::open(&parts, base.clone(), true).unwrap();
            trainer.run(&Until::asked(stop), (hour, 5)).unwrap();
        }
        for file in ["model.safetensors", "state.safetensors", "run.json"] {
            let read = |dir: &std::path::Path| std::fs::read(dir.join(file)).unwrap();
            assert!(read(&whole) == read(&parts), "{file} differs");
        }
        let weights =
            |run: &str| std::fs::read(dir.path().join(run).join("model.safetensors")).unwrap();
        let same = weights("whole-base") == weights(&format!("whole-{name}"));
        assert_eq!(same, name == "base", "{name} has trained");
        // Another setting, or no word of resuming, is refused.
        assert!(Trainer::open(&whole, base.clone(), false).is_err());
        let mut other = base.clone();
        other.optimization.rate = 0.1;
        assert!(Trainer::open(&whole, other, true).is_err());
    }
}

/// On masks law matching has a latent, also on top of a correction that knows none, and what it made is
/// sampled with one.
#[test]
fn laws_on_masks_are_carried_by_a_latent() {
    let dir = tempfile::tempdir().unwrap();
    let hour = (Duration::from_secs(3600), 50);
    let base = setting(Chain::Masked);
    let sizes = base.sizes;
    let law = Matching {
        carried: 3,
        ..matching(sizes)
    };
    let rounds = [
        ("base", None),
        ("dag", Some(Accelerator::Dag(average()))),
        ("law", Some(Accelerator::Law(law))),
    ];
    let mut from = None;
    for (name, method) in rounds {
        let at = dir.path().join(name);
        let setting = Setting {
            carried: method.as_ref().and_then(Accelerator::carried).unwrap_or(0),
            acceleration: method
                .zip(from)
                .map(|(method, from)| Acceleration { from, method }),
            ..base.clone()
        };
        let trainer = Trainer::open(&at, setting, false).unwrap();
        assert!(!trainer.run(&Silent, hour).unwrap().stopped);
        from = Some(at);
    }
    let mut model = Model::open(&dir.path().join("law")).unwrap();
    assert_eq!(model.latent.carried, 3);
    assert_eq!(model.denoiser.network.config().length, sizes.length + 3);
    let grid = Grid::uniform(3).unwrap();
    let (x, nfe) = model.generate(&grid, (Decoding::default(), 1.0), (5, 0));
    assert_eq!((x.len(), nfe), (5 * sizes.length, 3));
    assert!(x.iter().all(|s| *s < model.path.symbols()));
}

/// The bound falls towards that of the exact denoiser for each chain, and not below it.
#[test]
fn denoisers_learn() {
    for chain in [Chain::Masked, Chain::Uniform, Chain::UniformState] {
        let dir = tempfile::tempdir().unwrap();
        let mut wanted = setting(chain);
        let first = Trainer::open(&dir.path().join("a"), wanted.clone(), false).unwrap();
        let early = first.run(&Silent, (Duration::MAX, u64::MAX)).unwrap();
        wanted.optimization = Optimization {
            steps: 800,
            batch: 16,
            rate: 5e-3,
            ..wanted.optimization
        };
        let second = Trainer::open(&dir.path().join("b"), wanted, false).unwrap();
        let late = second.run(&Silent, (Duration::MAX, u64::MAX)).unwrap();
        let exact = late.exact.unwrap();
        assert_eq!(early.exact, Some(exact));
        let (from, to) = (early.bound - exact, late.bound - exact);
        assert!(
            to < 0.5 * from && to > -0.01,
            "{chain:?}: from {from} to {to}"
        );
    }
}

#[test]
fn what_cannot_be_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |change: fn(&mut Setting)| {
        let mut wanted = setting(Chain::UniformState);
        change(&mut wanted);
        Trainer::open(dir.path(), wanted, false)
            .err()
            .unwrap()
            .to_string()
    };
    assert!(refused(|s| s.optimization.steps = 0).contains("at least 1"));
    assert!(refused(|s| s.optimization.rate = f64::NAN).contains("learning rate"));
    assert!(refused(|s| s.sizes.heads = 3).contains("heads"));
    let text = refused(|s| {
        s.acceleration = Some(Acceleration {
            from: "nowhere".into(),
            method: Accelerator::Dag(Average {
                target: Target::Linear,
                head_only: true,
                correction: 8,
                pairs: Pairs::Grids(vec![2]),
                at_rest: 0.0,
                draws: 0,
            }),
        });
    });
    assert!(text.contains("at least 1 draw"), "{text}");
    let masked = refused(|s| {
        s.chain = Chain::Masked;
        s.acceleration = Some(Acceleration {
            from: "nowhere".into(),
            method: Accelerator::Redi { pairs: 1, steps: 1 },
        });
    });
    assert!(masked.contains("begin alike"), "{masked}");
    let masked = refused(|s| {
        s.chain = Chain::Masked;
        s.acceleration = Some(Acceleration {
            from: "nowhere".into(),
            method: Accelerator::Law(matching(s.sizes)),
        });
    });
    assert!(masked.contains("needs a latent on masks"), "{masked}");
}

/// Pairs belong to the network that made them; a file that was cut or changed is found out.
#[test]
fn a_coupling_of_another_network_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, setting: &Setting| -> Result<(), String> {
        let trainer = Trainer::open(&dir.path().join(name), setting.clone(), true);
        let outcome = trainer.and_then(|t| t.run(&Silent, (Duration::MAX, u64::MAX)));
        outcome.map(|_| ()).map_err(|e| e.to_string())
    };
    let base = setting(Chain::Uniform);
    run("a", &base).unwrap();
    let redi = |from: &str| Setting {
        acceleration: Some(Acceleration {
            from: dir.path().join(from),
            method: Accelerator::Redi {
                pairs: 30,
                steps: 2,
            },
        }),
        ..base.clone()
    };
    run("r", &redi("a")).unwrap();
    // Corrections of a rectified denoiser are trained on its pairs, another round on new ones, and
    // what knows no pairs is refused.
    let dag = |from: &str| Setting {
        acceleration: Some(Acceleration {
            from: dir.path().join(from),
            method: Accelerator::Dag(Average {
                target: Target::Linear,
                head_only: true,
                correction: 8,
                pairs: Pairs::Grids(vec![2]),
                at_rest: 0.0,
                draws: 1,
            }),
        }),
        ..base.clone()
    };
    run("d", &dag("r")).unwrap();
    run("r2", &redi("r")).unwrap();
    let mut sdtt = redi("r");
    sdtt.acceleration.as_mut().unwrap().method = Accelerator::Sdtt {
        size: 0.1,
        count: 2,
        spacing: Spacing::Even,
        divergence: Divergence::Tv,
    };
    let refused = run("x", &sdtt).unwrap_err();
    assert!(refused.contains("before redi, not after"), "{refused}");
    // A mixture student, rectified and corrected: the latent stays behind the sequences.
    let mut di4c = redi("a");
    di4c.carried = 2;
    di4c.acceleration.as_mut().unwrap().method = Accelerator::Di4c {
        latents: 2,
        carried: 2,
        step: 0.1,
        near: 0.1,
    };
    run("m", &di4c).unwrap();
    let forgotten = run("x", &redi("m")).unwrap_err();
    assert!(forgotten.contains("carries 2 symbols"), "{forgotten}");
    let carried = |setting: Setting| Setting {
        carried: 2,
        ..setting
    };
    run("mr", &carried(redi("m"))).unwrap();
    run("mrd", &carried(dag("mr"))).unwrap();
    for (name, stays) in [("m", false), ("mr", true), ("mrd", true)] {
        let mut model = Model::open(&dir.path().join(name)).unwrap();
        assert_eq!((model.latent.carried, model.latent.stays), (2, stays));
        let grid = Grid::uniform(3).unwrap();
        let (x, nfe) = model.generate(&grid, (Decoding::default(), 1.0), (5, 1));
        assert_eq!((x.len(), nfe), (5 * base.sizes.length, 3), "{name}");
        assert!(x.iter().all(|&symbol| symbol < model.path.symbols()));
    }
    let mut twice = di4c.clone();
    twice.acceleration.as_mut().unwrap().from = dir.path().join("m");
    let refused = run("x", &twice).unwrap_err();
    assert!(refused.contains("carries a latent"), "{refused}");
    // A second correction on top of the first would not be one.
    let refused = run("x", &redi("d")).unwrap_err();
    assert!(refused.contains("has a correction"), "{refused}");
    let mut other = base.clone();
    other.optimization.seed += 1;
    run("b", &other).unwrap();
    let (from, to) = (dir.path().join("r/coupling"), dir.path().join("s/coupling"));
    std::fs::create_dir_all(&to).unwrap();
    for file in ["coupling.json", "pairs-0.bin"] {
        std::fs::copy(from.join(file), to.join(file)).unwrap();
    }
    let refused = run("s", &redi("b")).unwrap_err();
    assert!(refused.contains("another network"), "{refused}");
    let pairs = from.join("pairs-0.bin");
    let whole = std::fs::read(&pairs).unwrap();
    std::fs::write(&pairs, &whole[1..]).unwrap();
    let cut = run("r", &redi("a")).unwrap_err();
    assert!(
        cut.contains("pairs-0.bin") && cut.contains("another length"),
        "{cut}"
    );
    let mut wrong = whole.clone();
    wrong[3] = 200;
    std::fs::write(&pairs, &wrong).unwrap();
    let unknown = run("r", &redi("a")).unwrap_err();
    assert!(unknown.contains("does not know"), "{unknown}");
}

/// ReDi with masks: a masked denoiser learns masks among noise, makes pairs there and is rectified;
/// on masks alone, or without having learned, it is refused.
#[test]
fn masks_among_noise_are_rectified() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let run = |name: &str, setting: &Setting| -> Result<f64, String> {
        let trainer = Trainer::open(&at(name), setting.clone(), true);
        let outcome = trainer.and_then(|t| t.run(&Silent, (Duration::MAX, u64::MAX)));
        outcome.map(|o| o.bound).map_err(|e| e.to_string())
    };
    run("masked", &setting(Chain::Masked)).unwrap();
    let noisy = Setting {
        start: Some(at("masked")),
        ..setting(Chain::StochasticMask)
    };
    run("noisy", &noisy).unwrap();
    let redi = |from: &str| Setting {
        acceleration: Some(Acceleration {
            from: at(from),
            method: Accelerator::Redi {
                pairs: 40,
                steps: 3,
            },
        }),
        ..setting(Chain::StochasticMask)
    };
    let refused = run("x", &redi("masked")).unwrap_err();
    assert!(
        refused.contains("train --chain stochastic-mask"),
        "{refused}"
    );
    run("redi", &redi("noisy")).unwrap();
    let pairs = std::fs::read(at("redi/coupling/pairs-0.bin")).unwrap();
    let (x0, x1) = pairs.split_at(pairs.len() / 2);
    let masks = |bytes: &[u8]| bytes.chunks(4).filter(|symbol| symbol[0] == 7).count();
    // 480 symbols of which 0.3 are masks, within five deviations.
    assert!((94..=194).contains(&masks(x0)), "{}", masks(x0));
    assert_eq!(masks(x1), 0);
    // A round from a round, and a correction of what was rectified.
    run("again", &redi("redi")).unwrap();
    let mut model = Model::open(&at("again")).unwrap();
    for order in [
        Order::Chance,
        Order::Ranked {
            by: Ranking::Confidence,
            tokens: Tokens::Arccos,
            noise: 4.5,
        },
    ] {
        let how = Decoding {
            order,
            ..Decoding::default()
        };
        let grid = Grid::uniform(4).unwrap();
        let (x, nfe) = model.generate(&grid, (how, 1.0), (9, 1));
        assert_eq!((x.len(), nfe), (9 * 12, 4));
        assert!(x.iter().all(|&symbol| symbol < 7), "{order:?} leaves masks");
    }
    let accelerated = Setting {
        start: Some(at("redi")),
        ..setting(Chain::StochasticMask)
    };
    let refused = run("x", &accelerated).unwrap_err();
    assert!(refused.contains("is an acceleration"), "{refused}");
}
