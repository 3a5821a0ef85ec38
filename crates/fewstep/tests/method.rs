//! The rivals' losses, targets and trajectories on chains small enough to be enumerated, in f64.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use fewstep::{
    method::{
        Counted, Divergence, dcd, di4c, dimo,
        redi::{self, Coupling, conditional_total_correlation},
        sdtt::{self, Spacing, Steps},
    },
    objective::Pair,
    sequence::{
        Accelerator, Examples, Oracle, base,
        sampler::{Decoding, State},
    },
};
use fewstep_ctmc::{
    Chain, Grid, Language, Path, Process, Schedule, Source, Space, Target,
    divergence::{kl, total_correlation},
    law,
};
use fewstep_nn::{
    Adaptation, Batch, Conditioned, Conditioning, Gradient, Learner, Network, Rows, Want, softmax,
};

const SYMBOLS: usize = 3;
const COORDS: usize = 2;

fn path(source: Source) -> Path {
    Path::new(Schedule::Linear, Process::Mixture(source), SYMBOLS).unwrap()
}

fn denoiser(path: &Path, phase: f64) -> Conditioned<f64> {
    let shape = (COORDS, path.state_symbols(), SYMBOLS);
    let mut net = Conditioned::new(Conditioning::Instant, shape, &[12, 12], 1);
    let parameters = net.parameters_mut().iter_mut().enumerate();
    parameters.for_each(|(i, p)| *p += 0.3 * (i as f64 * 1.7 + phase).sin());
    net
}

/// The laws `[rows][S]` of a batch.
fn laws<N: Network<f64>>(network: &N, x: &[usize], t: &[f64]) -> Vec<Vec<f64>> {
    let mut pass = N::Pass::default();
    let batch = Batch { x, t, r: t };
    network.evaluate(batch, Want::default(), &mut pass);
    let rows: Vec<usize> = (0..x.len()).collect();
    network.visit(&pass, Rows::plain(&rows), |_, logits| {
        softmax::forward(&logits.value[..SYMBOLS], SYMBOLS, 1.0)
    })
}

/// `count` copies of the state `x` at `t`.
fn copies(path: &Path, x: &[usize], t: f64, count: usize) -> Examples {
    let all: Vec<usize> = (0..count).flat_map(|_| x.to_vec()).collect();
    let pairs = vec![Pair::new(Schedule::Linear, t, t); count];
    Examples::between(path, (&all, &all), 0, &pairs, (0, 0))
}

fn gradient_of(parameters: usize) -> Vec<f64> {
    vec![0.0; parameters]
}

fn into(data: &mut [f64]) -> Gradient<'_, f64> {
    Gradient {
        data,
        adaptation: Adaptation::Full,
        accumulate: false,
    }
}

/// The mean target of a coordinate, over everything the teacher may draw in two steps.
fn enumerated(path: &Path, teacher: &Conditioned<f64>, x: &[usize], t: f64, h: f64) -> Vec<f64> {
    let keep = |t: f64| (1.0 - t - h).max(0.0) / (1.0 - t);
    let (first, second) = (keep(t), keep(t + h));
    let p1 = laws(teacher, x, &[t]);
    let open = |d: usize| path.mask().is_none_or(|mask| x[d] == mask);
    // For each coordinate: stay, or one of the symbols.
    let moves = |d: usize| -> Vec<(f64, usize, bool)> {
        if !open(d) {
            return vec![(1.0, x[d], false)];
        }
        let mut all = vec![(first, x[d], false)];
        all.extend((0..SYMBOLS).map(|z| ((1.0 - first) * p1[d][z], z, true)));
        all
    };
    let mut mean = vec![0.0; COORDS * SYMBOLS];
    for (mass0, x0, drawn0) in moves(0) {
        for (mass1, x1, drawn1) in moves(1) {
            let p2 = laws(teacher, &[x0, x1], &[t + h]);
            for (d, drawn) in [(0, drawn0), (1, drawn1)] {
                // Masks are drawn once; else the second draw counts.
                let again = if path.mask().is_some() {
                    0.0
                } else {
                    1.0 - second
                };
                let later = if drawn { again } else { 1.0 };
                for z in 0..SYMBOLS {
                    mean[d * SYMBOLS + z] +=
                        mass0 * mass1 * (later * p2[d][z] + (1.0 - later) * p1[d][z]);
                }
            }
        }
    }
    mean
}

/// SDTT's targets have the mean that enumeration gives, masked and uniform.
#[test]
fn targets_of_sdtt_follow_the_teachers_steps() {
    let count = 40_000;
    for (source, x) in [
        (Source::Uniform, [2, 0]),
        (Source::Masked, [3, 3]),
        (Source::Masked, [1, 3]),
    ] {
        let path = path(source);
        let teacher = denoiser(&path, 0.4);
        let (t, h) = (0.2, 0.3);
        let steps = Steps {
            size: h,
            count: 2,
            spacing: Spacing::Even,
        };
        let examples = copies(&path, &x, t, count);
        let mut pass = Default::default();
        let targets = sdtt::targets(&teacher, &examples, (&path, &steps), (5, 1), &mut pass);
        let expected = enumerated(&path, &teacher, &x, t, h);
        let rows = examples.active(&path);
        let mut mean = [0.0; COORDS * SYMBOLS];
        for (row, target) in rows.iter().zip(&targets) {
            for z in 0..SYMBOLS {
                mean[row % COORDS * SYMBOLS + z] += target[z].exp() / count as f64;
            }
        }
        for d in rows[..rows.len() / count].iter().map(|row| row % COORDS) {
            for z in 0..SYMBOLS {
                let (found, known) = (mean[d * SYMBOLS + z], expected[d * SYMBOLS + z]);
                assert!((found - known).abs() < 4e-3, "{d}, {z}: {found}, {known}");
            }
        }
        // One step: the teacher's own prediction, to the last digit.
        let steps = Steps { count: 1, ..steps };
        let one = copies(&path, &x, t, 1);
        let targets = sdtt::targets(&teacher, &one, (&path, &steps), (5, 1), &mut pass);
        let plain = laws(&teacher, &x, &[t]);
        for (row, target) in one.active(&path).iter().zip(&targets) {
            for z in 0..SYMBOLS {
                assert!((target[z].exp() - plain[*row][z]).abs() < 1e-14);
            }
        }
    }
}

/// With the exact posterior as a teacher and masks, the mean target is the posterior itself: what
/// SDTT learns there is sharpness alone.
#[test]
fn on_the_masked_path_targets_are_a_martingale() {
    let language = Language::default_with(3, 4, 2).unwrap();
    let path = path(Source::Masked);
    let oracle = Oracle {
        law: language,
        path: path.clone(),
    };
    let (count, x, t) = (20_000, [3, 1, 3, 3], 0.25);
    let steps = Steps {
        size: 0.25,
        count: 2,
        spacing: Spacing::Even,
    };
    let examples = copies(&path, &x, t, count);
    let mut pass = Default::default();
    let targets = sdtt::targets::<f64, _>(&oracle, &examples, (&path, &steps), (1, 0), &mut pass);
    let posterior = laws(&oracle, &x, &[t]);
    let mut mean = vec![vec![0.0; SYMBOLS]; 4];
    let mut spread = 0.0f64;
    for (row, target) in examples.active(&path).iter().zip(&targets) {
        for z in 0..SYMBOLS {
            let (q, p) = (target[z].exp(), posterior[row % 4][z]);
            mean[row % 4][z] += q / count as f64;
            spread = spread.max((q - p).abs());
        }
    }
    assert!(spread > 0.05, "single targets differ: {spread}");
    for d in [0, 2, 3] {
        for z in 0..SYMBOLS {
            let off = mean[d][z] - posterior[d][z];
            assert!(off.abs() < 8e-3, "{d}, {z}: {off}");
        }
    }
}

/// Central differences of a loss whose other networks stay as they are.
fn has_gradient(
    student: &Conditioned<f64>,
    mut loss: impl FnMut(&Conditioned<f64>, &mut Gradient<f64>) -> f64,
) {
    let mut data = gradient_of(student.parameters().len());
    loss(student, &mut into(&mut data));
    let mut moved = student.clone();
    let mut seen = 0.0f64;
    for i in (0..data.len()).step_by(7) {
        let mut at = |h: f64| {
            moved.parameters_mut()[i] = student.parameters()[i] + h;
            let mut ignored = gradient_of(data.len());
            let value = loss(&moved, &mut into(&mut ignored));
            moved.parameters_mut()[i] = student.parameters()[i];
            value
        };
        let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
        assert!(
            (numeric - data[i]).abs() < 1e-8,
            "{i}: {numeric}, {}",
            data[i]
        );
        seen = seen.max(numeric.abs());
    }
    assert!(seen > 1e-4, "there is a gradient");
}

#[test]
fn sdtt_is_the_mean_divergence_from_its_targets() {
    for source in [Source::Uniform, Source::Masked] {
        let path = path(source);
        let (student, teacher) = (denoiser(&path, 0.0), denoiser(&path, 0.9));
        let x1: Vec<usize> = (0..10).map(|i| i % SYMBOLS).collect();
        let pairs: Vec<Pair> = [0.05, 0.3, 0.5, 0.6, 0.8]
            .map(|t| Pair::new(Schedule::Linear, t, t))
            .to_vec();
        let examples = Examples::corrupt(&path, &x1, &pairs, (2, 0));
        let steps = Steps {
            size: 0.2,
            count: 3,
            spacing: Spacing::Even,
        };
        let run = |divergence, net: &Conditioned<f64>, gradient: &mut Gradient<f64>| {
            sdtt::step(
                (net, &teacher),
                &examples,
                (&path, &steps, divergence),
                (4, 2),
                (&mut Default::default(), &mut Default::default()),
                gradient,
            )
        };
        let targets = sdtt::targets(
            &teacher,
            &examples,
            (&path, &steps),
            (4, 2),
            &mut Default::default(),
        );
        let rows = examples.active(&path);
        let times: Vec<f64> = pairs.iter().map(|pair| pair.t).collect();
        let p = laws(&student, &examples.x, &times);
        let mut data = gradient_of(student.parameters().len());
        for divergence in [Divergence::BackwardKl, Divergence::ForwardKl] {
            let value = run(divergence, &student, &mut into(&mut data));
            let each = rows.iter().zip(&targets).map(|(row, target)| {
                let q: Vec<f64> = target.iter().map(|l| l.exp()).collect();
                match divergence {
                    Divergence::BackwardKl => kl(&p[*row], &q),
                    _ => kl(&q, &p[*row]),
                }
            });
            let plain = each.sum::<f64>() / rows.len() as f64;
            assert!((value - plain).abs() < 1e-12, "{value} {plain}");
        }
        has_gradient(&student, |net, gradient| {
            run(Divergence::BackwardKl, net, gradient)
        });
    }
}

#[test]
fn dcd_is_the_mean_divergence_along_a_trajectory() {
    let path = path(Source::Uniform);
    let (student, teacher) = (denoiser(&path, 0.0), denoiser(&path, 0.9));
    let clock = dcd::Clock::new(SYMBOLS);
    let x1: Vec<usize> = (0..12).map(|i| i * 2 % SYMBOLS).collect();
    let (early, late) = dcd::examples((&path, &clock), (&x1, 0), 6, 0.25, (3, 0));
    let run = |net: &Conditioned<f64>, gradient: &mut Gradient<f64>| {
        dcd::step(
            (net, &teacher),
            (&early, &late),
            (&path, Divergence::BackwardKl),
            (&mut Default::default(), &mut Default::default()),
            gradient,
        )
    };
    let times = |of: &Examples| -> Vec<f64> { of.pairs.iter().map(|pair| pair.t).collect() };
    for (a, b) in times(&early).into_iter().zip(times(&late)) {
        assert!(a < b, "the teacher is nearer to data");
    }
    let p = laws(&student, &early.x, &times(&early));
    let q = laws(&teacher, &late.x, &times(&late));
    let plain: f64 = p.iter().zip(&q).map(|(p, q)| kl(p, q)).sum::<f64>() / 12.0;
    let mut data = gradient_of(student.parameters().len());
    let value = run(&student, &mut into(&mut data));
    assert!((value - plain).abs() < 1e-12, "{value} {plain}");
    has_gradient(&student, run);
}

#[test]
fn di4c_has_the_gradient_of_its_loss() {
    for source in [Source::Uniform, Source::Masked] {
        let path = path(source);
        let teacher = denoiser(&path, 0.9);
        let student = denoiser(&path, 0.0).carrying(1, 3);
        let detached = student.clone();
        let x1: Vec<usize> = (0..10).map(|i| i % SYMBOLS).collect();
        // The last is near data, where the teacher's prediction is distilled.
        let pairs: Vec<Pair> = [0.0, 0.2, 0.4, 0.7, 0.97]
            .map(|t| Pair::new(Schedule::Linear, t, t))
            .to_vec();
        let examples = Examples::corrupt(&path, &x1, &pairs, (6, 0));
        let settings = di4c::Settings {
            near: 0.05,
            step: 0.2,
            data: 0.7,
            ..di4c::Settings::new(4, 1)
        };
        has_gradient(&student, |net, gradient| {
            di4c::step(
                (net, &detached, &teacher),
                &examples,
                (&path, &settings),
                (2, 3),
                &mut di4c::Passes::default(),
                gradient,
            )
        });
    }
}

/// A student that does not look at its latent has no dependence to show, and what is left of the
/// loss is the divergence of its laws from the teacher's, at `x_t` and after the teacher's step.
#[test]
fn di4c_without_a_latent_is_distillation() {
    let path = path(Source::Uniform);
    let teacher = denoiser(&path, 0.9);
    let plain = denoiser(&path, 0.0);
    let mut student = plain.carrying(1, 3);
    // One-hot rows of the first layer that belong to the latent.
    let own = COORDS * SYMBOLS * 12;
    student.parameters_mut()[own..own + SYMBOLS * 12].fill(0.0);
    let x1 = [0, 1, 2, 0];
    for (t, near) in [(0.3, 0.05), (0.3, 0.9)] {
        let pairs = vec![Pair::new(Schedule::Linear, t, t); 2];
        let examples = Examples::corrupt(&path, &x1, &pairs, (6, 0));
        let settings = di4c::Settings {
            near,
            step: 0.0,
            ..di4c::Settings::new(3, 1)
        };
        let mut data = gradient_of(student.parameters().len());
        let loss = di4c::step(
            (&student, &student, &teacher),
            &examples,
            (&path, &settings),
            (2, 3),
            &mut di4c::Passes::default(),
            &mut into(&mut data),
        );
        let (p, q) = (
            laws(&plain, &examples.x, &[t; 2]),
            laws(&teacher, &examples.x, &[t; 2]),
        );
        let expected = p.iter().zip(&q).map(|(p, q)| kl(q, p)).sum::<f64>() / 4.0;
        assert!((loss - expected).abs() < 1e-12, "{loss} {expected}");
    }
}

/// The pull on the generator is that of the two denoisers at its own corrupted sequences, and is
/// carried to its parameters; with one denoiser for both there is none.
#[test]
fn dimo_pulls_the_generator_where_the_denoisers_differ() {
    for (source, carried) in [(Source::Uniform, 0), (Source::Masked, 1)] {
        let path = path(source);
        let (teacher, fake) = (denoiser(&path, 0.9), denoiser(&path, 0.2));
        let plain = denoiser(&path, 0.0);
        let generator = match carried {
            0 => plain,
            _ => plain.carrying(carried, 3),
        };
        let settings = dimo::Settings {
            batch: 12,
            sizes: (COORDS, carried),
            mix: 0.3,
        };
        let run = |net: &Conditioned<f64>, other, gradient: &mut Gradient<f64>| {
            let mut ignored = gradient_of(fake.parameters().len());
            dimo::step(
                (net, other, &teacher),
                (&path, &settings, &[]),
                (2, 5),
                &mut dimo::Passes::default(),
                (gradient, &mut into(&mut ignored)),
            )
        };
        has_gradient(&generator, |net, gradient| run(net, &fake, gradient).0);
        let mut data = gradient_of(generator.parameters().len());
        let (pull, bound) = run(&generator, &teacher, &mut into(&mut data));
        assert!(pull.abs() < 1e-12 && bound.is_finite());
        assert!(data.iter().all(|g| g.abs() < 1e-14));
    }
}

/// A coupling begins in the sampler's own noise, keeps its latents, and its points lie between its
/// ends as often as the schedule says.
#[test]
fn couplings_are_what_the_sampler_did() {
    for source in [Source::Uniform, Source::STOCHASTIC_MASK] {
        coupled(&path(source));
    }
}

fn coupled(path: &Path) {
    let net = denoiser(path, 0.3).carrying(2, 1);
    let grid = Grid::uniform(3).unwrap();
    let (count, length) = (3000, COORDS + 2);
    let sizes = (COORDS, 2, &[][..]);
    let make = |batch| Coupling::generate(&net, (path, &grid), sizes, (0..count, batch), 9, |_| {});
    let coupling = make(1000);
    assert_eq!(coupling, make(7), "whatever the batch");
    assert_eq!((coupling.len(), coupling.length), (count, length));
    let latent = |x: &[usize]| -> Vec<usize> {
        x.chunks(length)
            .flat_map(|x| x[COORDS..].to_vec())
            .collect()
    };
    assert_eq!(latent(&coupling.x0), latent(&coupling.x1));
    let own = |x: &[usize]| -> Vec<usize> {
        x.chunks(length)
            .flat_map(|x| x[..COORDS].to_vec())
            .collect()
    };
    let share = |x: Vec<usize>| {
        let masks = x.iter().filter(|&&symbol| symbol == SYMBOLS).count();
        masks as f64 / x.len() as f64
    };
    let masked = path.mask_symbol().map_or(0.0, |mask| path.source(0, mask));
    assert!((share(own(&coupling.x0)) - masked).abs() < 0.025);
    assert_eq!(share(own(&coupling.x1)), 0.0);
    let numbers: Vec<usize> = (0..count).collect();
    let pairs = vec![Pair::new(Schedule::Linear, 0.7, 0.7); count];
    let examples = coupling.examples(path, &numbers, &pairs, (1, 1));
    let (mut switched, mut differ) = (0.0, 0.0);
    for at in 0..examples.x.len() {
        let (a, x, b) = (coupling.x0[at], examples.x[at], coupling.x1[at]);
        assert!(x == a || x == b);
        if a != b {
            differ += 1.0;
            switched += f64::from(u8::from(x == b));
        }
    }
    let error = 4.0 * (0.21f64 / differ).sqrt();
    assert!(
        (switched / differ - 0.7f64).abs() < error,
        "{switched}/{differ}"
    );
    let rows = examples.active(path);
    assert!(rows.iter().all(|row| row % length < COORDS));
    assert_eq!(rows.len(), count * COORDS);
    assert_eq!(examples.coordinates(), count * COORDS);
    let fresh = Examples::corrupt(path, &coupling.x1, &pairs, (1, 1));
    let carrying = fresh.clone().carrying((path, 3), (1, 1));
    assert_eq!(carrying.coordinates(), fresh.coordinates());
    assert_eq!(carrying.active(path).len(), fresh.active(path).len());
}

/// The mean of the rows' total correlations; a product kernel has none.
#[test]
fn conditional_total_correlation_is_that_of_the_rows() {
    let space = Space::new(SYMBOLS, COORDS).unwrap();
    let product = softmax::forward(&[0.3, -1.0, 0.7, 0.2, 0.2, -0.4], SYMBOLS, 1.0);
    let (mut flat, mut scratch) = (Vec::new(), Vec::new());
    law::expand(1.0, &product, SYMBOLS, &mut flat, &mut scratch);
    let mut same = vec![0.0; 9];
    for y in [0, 4, 8] {
        same[y] = 1.0 / 3.0;
    }
    let rows = [flat, same];
    let found = conditional_total_correlation(&space, &[0.25, 0.75], |x| &rows[x]);
    assert!((total_correlation(&space, &rows[1]) - 3f64.ln()).abs() < 1e-14);
    assert!((found - 0.75 * 3f64.ln()).abs() < 1e-14, "{found}");
}

/// Frequencies against enumeration: many walks from each source give the exact conditional total
/// correlation, fewer that and their known bias, and exchanged symbols the bias of a product law.
#[test]
fn plug_in_correlation_is_the_exact_one_and_its_bias() {
    let path = path(Source::Uniform);
    let net = denoiser(&path, 0.3);
    let grid = Grid::uniform(3).unwrap();
    let target = vec![1.0 / 9.0; 9];
    let chain = Chain::new(path.clone(), COORDS, target).unwrap();
    let states = chain.states();
    let all: Vec<usize> = (0..9).flat_map(|x| states.decode(x)).collect();
    // The sampler's law from each source.
    let ends: Vec<Vec<f64>> = (0..9)
        .map(|x0| {
            let mut p = vec![0.0; 9];
            p[x0] = 1.0;
            grid.intervals().fold(p, |p, (t, r)| {
                let prediction = laws(&net, &all, &[t; 9]).concat();
                law::push(states, &p, &law::step_rows(&chain, t, r, &prediction))
            })
        })
        .collect();
    let exact: Vec<f64> = ends.iter().map(|p| total_correlation(states, p)).collect();
    let decoding = Decoding {
        steps: false,
        ..Decoding::default()
    };
    let what = (&path, &grid, &decoding);
    for (sources, walks) in [(40, 2000), (600, 60)] {
        let found = redi::plug_in(&net, what, (COORDS, &[]), (sources, walks), 4);
        // The exact value at the sources that were drawn.
        let begin = State::noise(&path, (0, sources), COORDS, 4);
        let known = begin.x.chunks(COORDS).map(|x| exact[states.encode(x)]);
        let known = known.sum::<f64>() / sources as f64;
        // Nine sequences of two times three symbols: [(9 - 1) - 2 (3 - 1)]/(2 R).
        let bias = 2.0 / walks as f64;
        let most = 0.15 * bias + 2e-3;
        assert!(
            (found.plug_in - known - bias).abs() < most,
            "{found:?}, {known}"
        );
        assert!((found.exchanged - bias).abs() < most, "{found:?}");
    }
    // Where all walks end apart, nothing can be told.
    let apart: Vec<Vec<usize>> = (0..8).map(|i| vec![i, 7 - i]).collect();
    assert!((redi::sample_correlation(&apart) - 8f64.ln()).abs() < 1e-14);
}

/// The bound of every chain, averaged over all data and states by enumeration, has no slope at the
/// exact posterior, and has one elsewhere.
#[test]
fn bounds_are_least_at_the_posterior() {
    let processes = [
        Process::Mixture(Source::Masked),
        Process::Mixture(Source::STOCHASTIC_MASK),
        Process::Mixture(Source::Uniform),
        Process::UniformState,
    ];
    let law = Target::PAPER
        .law(&Space::new(SYMBOLS, COORDS).unwrap(), 3)
        .unwrap();
    for process in processes {
        let path = Path::new(Schedule::Linear, process, SYMBOLS).unwrap();
        let chain = Chain::new(path.clone(), COORDS, law.clone()).unwrap();
        let (pair, level) = (
            Pair::new(Schedule::Linear, 0.4, 0.4),
            path.schedule().level(0.4),
        );
        let (posterior, noising) = (chain.posterior(level), path.noising(level, 0));
        for shift in [0.0, 0.5] {
            let mut most = 0.0f64;
            for x in 0..chain.states().len() {
                let x = chain.states().decode(x);
                if (path.mask()).is_some_and(|mask| x[0] != mask) {
                    continue;
                }
                let at = chain.states().encode(&x) * COORDS * SYMBOLS;
                let mut slope = [0.0; SYMBOLS];
                for x1 in 0..chain.data().len() {
                    let data = chain.data().decode(x1);
                    let seen = |d: usize| noising[x[d] * SYMBOLS + data[d]];
                    let p = &posterior[at..at + SYMBOLS];
                    let mut logits: Vec<f64> = p.iter().map(|p| p.ln()).collect();
                    logits[0] += shift;
                    base::bound(&path, &pair, 1.0, (x[0], data[0]), &mut logits);
                    for (s, g) in slope.iter_mut().zip(logits) {
                        *s += chain.target()[x1] * seen(0) * seen(1) * g;
                    }
                }
                most = slope.iter().fold(most, |m, s| m.max(s.abs()));
            }
            assert_eq!(most < 1e-13, shift == 0.0, "{path:?}: {most}");
        }
    }
}

/// What a run's setting says that a step costs is what the step costs.
#[test]
fn costs_are_those_that_are_counted() {
    let path = path(Source::Uniform);
    let net = || Counted::new(denoiser(&path, 0.0));
    let (batch, divergence) = (6, Divergence::BackwardKl);
    let x1: Vec<usize> = (0..batch * COORDS).map(|i| i % SYMBOLS).collect();
    let pairs: Vec<Pair> = (0..batch)
        .map(|i| Pair::new(Schedule::Linear, 0.15 * i as f64, 0.15 * i as f64))
        .collect();
    let examples = Examples::corrupt(&path, &x1, &pairs, (0, 0));
    let mut data = gradient_of(Learner::<f64>::parameters(&net()).len());

    let (student, teacher) = (net(), net());
    let steps = Steps {
        size: 0.1,
        count: 3,
        spacing: Spacing::Even,
    };
    sdtt::step(
        (&student, &teacher),
        &examples,
        (&path, &steps, divergence),
        (0, 0),
        (&mut Default::default(), &mut Default::default()),
        &mut into(&mut data),
    );
    let sdtt = Accelerator::Sdtt {
        size: 0.1,
        count: 3,
        spacing: Spacing::Even,
        divergence,
    };
    assert_eq!(
        student.spent() + teacher.spent(),
        batch as u64 * sdtt.cost()
    );

    let (student, teacher) = (net(), net());
    let clock = dcd::Clock::new(SYMBOLS);
    let (early, late) = dcd::examples((&path, &clock), (&x1, 0), batch, 0.1, (0, 0));
    dcd::step(
        (&student, &teacher),
        (&early, &late),
        (&path, divergence),
        (&mut Default::default(), &mut Default::default()),
        &mut into(&mut data),
    );
    let dcd = Accelerator::Dcd {
        distance: 0.1,
        divergence,
    };
    assert_eq!(student.spent() + teacher.spent(), batch as u64 * dcd.cost());

    let student = Counted::new(denoiser(&path, 0.0).carrying(1, 0));
    let teacher = net();
    let mut data = gradient_of(Learner::<f64>::parameters(&student).len());
    di4c::step(
        (&student, &student, &teacher),
        &examples,
        (&path, &di4c::Settings::new(4, 1)),
        (0, 0),
        &mut di4c::Passes::default(),
        &mut into(&mut data),
    );
    let di4c = Accelerator::Di4c {
        latents: 4,
        carried: 1,
        step: 0.1,
        near: 0.1,
    };
    assert_eq!(
        student.spent() + teacher.spent(),
        batch as u64 * di4c.cost()
    );
}

#[test]
fn evaluations_are_counted() {
    let path = path(Source::Uniform);
    let net = Counted::new(denoiser(&path, 0.0));
    let batch = Batch {
        x: &[0, 1, 2, 0, 1, 1],
        t: &[0.1, 0.2, 0.3],
        r: &[0.1, 0.2, 0.3],
    };
    let mut pass = Default::default();
    Network::<f64>::evaluate(&net, batch, Want::default(), &mut pass);
    assert_eq!(net.spent(), 3);
    let want = Want {
        moving: 2,
        back: Some(Adaptation::Full),
        ..Want::default()
    };
    Network::<f64>::evaluate(&net, batch, want, &mut pass);
    assert_eq!(net.spent(), 3 + 5);
    let mut data = gradient_of(Learner::<f64>::parameters(&net).len());
    net.backward(&mut pass, &mut into(&mut data));
    assert_eq!(net.spent(), 3 + 5 + 6);
}
