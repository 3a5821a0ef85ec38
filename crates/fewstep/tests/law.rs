//! Law matching against enumeration: with exact conditionals its gradient is that of the divergence.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::ops::Range;

use fewstep::{method::law, objective::Pair, sequence::Examples};
use fewstep_ctmc::{
    Chain, Path, Process, Schedule, Source, Space, divergence::kl, law as laws, matching::Matching,
};
use fewstep_nn::{
    Adaptation, Batch, Conditioned, Conditioning, Gradient, Learner, Logits, Network, Pass, Rows,
    Want, softmax,
};

const SYMBOLS: usize = 3;
const COORDS: usize = 2;
const STEP: (f64, f64) = (0.2, 0.7);

fn chain(process: Process) -> Chain {
    let path = Path::new(Schedule::Linear, process, SYMBOLS).unwrap();
    let weights = [9.0, 1.0, 2.0, 1.0, 6.0, 0.5, 3.0, 1.0, 5.0];
    let total: f64 = weights.iter().sum();
    let target = weights.iter().map(|w| w / total).collect();
    Chain::new(path, COORDS, target).unwrap()
}

fn kernel() -> Conditioned<f64> {
    let mut net = Conditioned::new(Conditioning::Instant, (COORDS, SYMBOLS, SYMBOLS), &[6], 1);
    let parameters = net.parameters_mut().iter_mut().enumerate();
    parameters.for_each(|(i, p)| *p += 0.5 * (i as f64 * 1.7).sin());
    net
}

/// The kernel's rows `[N, D, S]`.
fn rows(chain: &Chain, net: &Conditioned<f64>) -> Vec<f64> {
    let states = chain.states();
    let x: Vec<usize> = (0..states.len()).flat_map(|x| states.decode(x)).collect();
    let (t, r) = (vec![STEP.0; states.len()], vec![STEP.1; states.len()]);
    let mut pass = Pass::default();
    net.evaluate(
        Batch {
            x: &x,
            t: &t,
            r: &r,
        },
        false,
        &mut pass,
    );
    let p = softmax::forward(&pass.logits, SYMBOLS, 1.0);
    laws::step_rows(chain, STEP.0, STEP.1, &p)
}

fn marginal(chain: &Chain, t: f64) -> Vec<f64> {
    chain.marginal(chain.path().schedule().level(t))
}

fn divergence(chain: &Chain, net: &Conditioned<f64>) -> f64 {
    let (from, to) = (marginal(chain, STEP.0), marginal(chain, STEP.1));
    let matching = Matching {
        space: chain.states(),
        from: &from,
        to: &to,
    };
    matching.backward(&rows(chain, net))
}

/// Exact conditionals of one coordinate: of the first law before the time, of data behind it.
struct Exact {
    space: Space,
    laws: [Vec<f64>; 2],
}

#[derive(Default)]
struct Seen {
    x: Vec<usize>,
    of_data: bool,
}

impl Network<f64> for Exact {
    type Pass = Seen;

    fn symbols(&self) -> usize {
        SYMBOLS
    }

    fn evaluate(&self, batch: Batch, _: Want, pass: &mut Seen) {
        pass.x = batch.x.to_vec();
        pass.of_data = batch.r[0] > batch.t[0];
    }

    fn visit<R: Send>(
        &self,
        pass: &Seen,
        rows: Rows<Seen>,
        consumer: impl Fn(usize, Logits<f64>) -> R + Sync,
    ) -> Vec<R> {
        let of = |pass: &Seen, row: usize| -> Vec<f64> {
            let x = &pass.x[row / COORDS * COORDS..][..COORDS];
            let state = self.space.encode(x);
            let law = &self.laws[usize::from(pass.of_data)];
            (0..SYMBOLS)
                .map(|a| law[self.space.with(state, row % COORDS, a)].ln())
                .collect()
        };
        let one = |(at, &row): (usize, &usize)| {
            let mut others: Vec<Vec<f64>> = rows.others.iter().map(|o| of(o, row)).collect();
            let logits = Logits {
                value: &mut of(pass, row),
                tangent: &mut [],
                others: others.iter_mut().map(|row| &mut row[..]).collect(),
            };
            consumer(at, logits)
        };
        rows.rows.iter().enumerate().map(one).collect()
    }
}

/// There is nothing to learn.
impl Learner<f64> for Exact {
    fn parameters(&self) -> &[f64] {
        &[]
    }

    fn parameters_mut(&mut self) -> &mut [f64] {
        &mut []
    }

    fn trainable(&self, _: Adaptation) -> Range<usize> {
        0..0
    }

    fn descend<R: Send>(
        &self,
        pass: &mut Seen,
        rows: Rows<Seen>,
        consumer: impl Fn(usize, Logits<f64>) -> R + Sync,
        _: &mut Gradient<f64>,
    ) -> Vec<R> {
        self.visit(pass, rows, consumer)
    }

    fn backward(&self, _: &mut Seen, _: &mut Gradient<f64>) {}
}

/// A step's gradient, and what it found, for sequences `x` at the step.
fn step(
    chain: &Chain,
    net: &Conditioned<f64>,
    exact: &Exact,
    x1: &[usize],
    number: u64,
) -> (Vec<f64>, law::Found) {
    let path = chain.path();
    let count = x1.len() / COORDS;
    let pairs = vec![Pair::new(path.schedule(), STEP.0, STEP.1); count];
    let examples = Examples::corrupt(path, x1, &pairs, (3, number));
    let mut data = vec![0.0; net.parameters().len()];
    let into = |data| Gradient {
        data,
        adaptation: Adaptation::Full,
        accumulate: false,
    };
    let found = law::step(
        (net, exact),
        (&examples, law::Side::Data),
        (path, law::POWER, None),
        (5, number),
        &mut law::Passes::default(),
        (&mut into(&mut data), &mut into(&mut [])),
    );
    (data, found)
}

/// 400 steps of 256 draws against central differences of `KL(p_t K || p_r)` in the parameters, for
/// steps that mix and for those of the uniform-state bridge. What is found is the divergence's part in
/// one coordinate, and the cross-entropies are those of the two laws.
#[test]
fn with_exact_conditionals_the_gradient_is_the_divergences() {
    for process in [Process::Mixture(Source::Uniform), Process::UniformState] {
        let chain = chain(process);
        let mut net = kernel();
        let (from, to) = (marginal(&chain, STEP.0), marginal(&chain, STEP.1));
        let f = laws::push(chain.states(), &from, &rows(&chain, &net));
        let exact = Exact {
            space: chain.states().clone(),
            laws: [f.clone(), to.clone()],
        };
        let data: Vec<usize> = (0..256)
            .flat_map(|i| {
                let level = (i as f64 + 0.5) / 256.0;
                let state = fewstep_ctmc::random::quantile(chain.target(), level);
                chain.states().decode(state)
            })
            .collect();
        let size = net.parameters().len();
        let (mut sum, mut squares) = (vec![0.0; size], vec![0.0; size]);
        let (mut found, mut real, count) = (law::Found::default(), 0.0, 400);
        for number in 0..count {
            let (gradient, now) = step(&chain, &net, &exact, &data, number);
            for i in 0..size {
                sum[i] += gradient[i];
                squares[i] += gradient[i] * gradient[i];
            }
            found.ratio += now.ratio / count as f64;
            found.made += now.made / count as f64;
            real += now.real.unwrap() / count as f64;
        }
        let n = count as f64;
        // The target is drawn at 256 levels and not at random: that much of it is missing.
        let slack = 2e-3;
        let mut moved_most = 0f64;
        for i in (0..size).step_by(3) {
            let mut at = |h: f64| {
                net.parameters_mut()[i] += h;
                let value = divergence(&chain, &net);
                net.parameters_mut()[i] -= h;
                value
            };
            let known = (at(1e-5) - at(-1e-5)) / 2e-5 / COORDS as f64;
            let mean = sum[i] / n;
            let error = ((squares[i] / n - mean * mean) / n).max(0.0).sqrt();
            assert!(
                (mean - known).abs() < 5.0 * error + slack * known.abs().max(0.05),
                "parameter {i}: {mean} +- {error}, not {known}"
            );
            moved_most = moved_most.max(known.abs());
        }
        assert!(moved_most > 0.01, "nothing to tell: {moved_most}");

        let alone = |law: &[f64], of: &[f64]| -> f64 {
            // E_law[-ln of(y^d | y^{\d})], mean over d.
            let space = chain.states();
            let one = |y: usize, d: usize| {
                let line: f64 = (0..SYMBOLS).map(|a| of[space.with(y, d, a)]).sum();
                -(of[y] / line).ln()
            };
            let states = 0..space.len();
            let both = |y: usize| law[y] * (one(y, 0) + one(y, 1)) / 2.0;
            states.map(both).sum()
        };
        assert!((found.made - alone(&f, &f)).abs() < 0.01, "{found:?}");
        assert!((real - alone(&to, &to)).abs() < 0.01, "{real}");
        let apart = alone(&f, &to) - alone(&f, &f);
        assert!((found.ratio - apart).abs() < 0.01, "{found:?} {apart}");
        assert!(kl(&f, &to) > 0.01);
    }
}
