//! Small experiments that really train, against the oracles of the same chain.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::sync::atomic::{AtomicU64, Ordering};

use fewstep::{
    lab::{Config, GainRule, Metric, Monitor, Options, Recipe, Silent, SourceKind, Training, run},
    objective::{Objective, Transport},
    report::Report,
};
use fewstep_ctmc::{Schedule, Target};

fn small() -> Options {
    let linear = |transport| Training {
        objective: Objective::Linear,
        transport,
    };
    Options {
        target: Target::Potts {
            beta: 1.0,
            noise: 0.3,
        },
        symbols: 3,
        coords: 3,
        seeds: vec![7],
        steps: vec![2, 4],
        width: 64,
        depth: 2,
        base_steps: 1500,
        base_rate: 5e-3,
        base_rows: 128,
        correction_steps: 800,
        correction_rate: 5e-3,
        correction_rows: 64,
        trainings: vec![linear(Transport::Exact), linear(Transport::Draws(1))],
        gains: vec![2.0],
        temperatures: vec![],
        recipe: Some(Recipe {
            training: linear(Transport::Exact),
            gain: GainRule {
                constant: 2.0,
                inverse: 2.0,
            },
            temperature: 1.0,
        }),
        ..Options::default()
    }
}

fn tv(report: &Report, method: &str, transport: &str, gain: f64, k: usize) -> f64 {
    let mut rows = report.table.iter().filter(|r| {
        (r.method.as_str(), r.k, r.gain) == (method, k, gain)
            && (transport.is_empty() || r.transport == transport)
    });
    let row = rows
        .next()
        .unwrap_or_else(|| panic!("no row {method} {transport} {gain} {k}"));
    row.tv
}

#[test]
fn training_reaches_the_oracles_and_the_gain_goes_beyond() {
    let report = run(&Config::new(small()).unwrap(), &Silent).unwrap();
    assert!(!report.partial);
    for k in [2, 4] {
        let posterior = tv(&report, "exact-posterior", "", 1.0, k);
        let marginals = tv(&report, "exact-marginals", "", 1.0, k);
        let base = tv(&report, "base", "", 1.0, k);
        assert!(marginals < 0.8 * posterior, "{marginals} {posterior}");
        assert!(
            (base - posterior).abs() < 0.01,
            "K {k}: {base} against {posterior}"
        );
        for transport in ["exact", "1 draw"] {
            let dag = tv(&report, "dag", transport, 1.0, k);
            assert!(
                (dag - marginals).abs() < 0.02,
                "K {k} {transport}: {dag} against {marginals}"
            );
        }
        let gained = tv(&report, "dag", "exact", 2.0, k);
        assert!(gained < tv(&report, "dag", "exact", 1.0, k));
        let gain = 2.0 + 2.0 / k as f64;
        assert!(tv(&report, "dag-recipe", "exact", gain, k) < marginals);
    }
    let split = |method: &str| {
        report
            .split
            .iter()
            .find(|s| s.method == method && s.k == 2)
            .unwrap()
    };
    assert!(split("exact-marginals").marginal.abs() < 1e-9);
    assert!(split("exact-posterior").marginal > 1e-3);
    let dependence = split("exact-posterior").dependence;
    assert!((split("exact-marginals").dependence - dependence).abs() < 1e-12);
}

/// On the masked path the exact posterior has exact marginals: there is nothing to correct.
#[test]
fn a_masked_path_needs_no_correction() {
    let options = Options {
        source: SourceKind::Masked,
        schedule: Schedule::Cosine,
        symbols: 2,
        recipe: None,
        ..small()
    };
    let report = run(&Config::new(options).unwrap(), &Silent).unwrap();
    for k in [2, 4] {
        let posterior = tv(&report, "exact-posterior", "", 1.0, k);
        assert!((tv(&report, "exact-marginals", "", 1.0, k) - posterior).abs() < 1e-10);
        assert!((tv(&report, "base", "", 1.0, k) - posterior).abs() < 0.01);
        for transport in ["exact", "1 draw"] {
            let dag = tv(&report, "dag", transport, 1.0, k);
            assert!((dag - posterior).abs() < 0.02, "{dag} against {posterior}");
        }
    }
}

#[test]
fn every_objective_improves_on_the_base() {
    let training = |objective| Training {
        objective,
        transport: Transport::Exact,
    };
    let options = Options {
        trainings: [Objective::U, Objective::Q, Objective::P]
            .map(training)
            .to_vec(),
        recipe: None,
        gains: vec![],
        ..small()
    };
    let report = run(&Config::new(options).unwrap(), &Silent).unwrap();
    let dags: Vec<_> = report.table.iter().filter(|r| r.method == "dag").collect();
    assert_eq!(dags.len(), 6);
    for row in dags {
        let base = tv(&report, "base", "", 1.0, row.k);
        assert!(
            row.tv < 0.9 * base,
            "{} at K {}: {} against {base}",
            row.objective,
            row.k,
            row.tv
        );
    }
}

#[test]
fn threads_do_not_change_the_report() {
    let options = Options {
        base_steps: 60,
        correction_steps: 40,
        base_rows: 300,
        correction_rows: 200,
        ..small()
    };
    let config = Config::new(options).unwrap();
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| run(&config, &Silent)).unwrap()
    };
    assert_eq!(on(1), on(3));
}

/// Stops after a number of progress calls.
struct StopAfter(AtomicU64);

impl Monitor for StopAfter {
    fn begin(&self, _: &str, _: u64) {}
    fn advance(&self, _: &str, _: u64) {
        let left = self.0.load(Ordering::SeqCst);
        self.0.store(left.saturating_sub(1), Ordering::SeqCst);
    }
    fn end(&self, _: &str) {}
    fn metric(&self, _: &Metric) {}
    fn stopped(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }
}

/// Wherever it is stopped, a partial report holds only finished lines, of one length each.
#[test]
fn a_stopped_experiment_reports_what_it_has() {
    let options = Options {
        base_steps: 30,
        correction_steps: 20,
        seeds: vec![1, 2],
        ..small()
    };
    let config = Config::new(options).unwrap();
    for calls in [1, 15, 40, 60, 90] {
        let report = run(&config, &StopAfter(AtomicU64::new(calls))).unwrap();
        assert!(report.partial, "after {calls} calls");
        for row in &report.table {
            assert!(row.tv.is_finite() && (1..=2).contains(&row.tv_seeds.len()));
        }
    }
}

/// Every schedule trains, those with `lambda_0 = 0` too.
#[test]
fn every_schedule_trains() {
    for schedule in [
        Schedule::Cosine,
        Schedule::Polynomial(2.0),
        Schedule::LogLinear { eps: 1e-3 },
        Schedule::Arccos,
    ] {
        let options = Options {
            schedule,
            symbols: 2,
            base_steps: 600,
            correction_steps: 300,
            recipe: None,
            ..small()
        };
        let report = run(&Config::new(options).unwrap(), &Silent).unwrap();
        let posterior = tv(&report, "exact-posterior", "", 1.0, 4);
        let marginals = tv(&report, "exact-marginals", "", 1.0, 4);
        let base = tv(&report, "base", "", 1.0, 4);
        let dag = tv(&report, "dag", "exact", 1.0, 4);
        assert!(
            (base - posterior).abs() < 0.03,
            "{schedule:?}: {base} {posterior}"
        );
        assert!(
            (dag - marginals).abs() < 0.03,
            "{schedule:?}: {dag} {marginals}"
        );
    }
}

#[test]
fn bad_options_are_refused() {
    let refuse = |change: fn(&mut Options), word: &str| {
        let mut options = small();
        change(&mut options);
        let error = Config::new(options).unwrap_err().to_string();
        assert!(error.contains(word), "'{error}' lacks '{word}'");
        assert!(!error.contains('\n'));
    };
    refuse(|o| o.coords = 40, "too many to enumerate");
    refuse(|o| o.symbols = 1, "symbols");
    refuse(|o| o.steps = vec![4, 2], "increase");
    refuse(|o| o.steps = vec![0], "steps");
    refuse(|o| o.steps = vec![], "steps");
    refuse(
        |o| o.grid = Some(vec![0.0, 0.6, 0.5, 1.0]),
        "increase strictly",
    );
    refuse(|o| o.gains = vec![f64::NAN], "gain");
    refuse(|o| o.temperatures = vec![0.0], "temperature");
    refuse(|o| o.gains = vec![2.0, 2.0], "twice");
    refuse(|o| o.temperatures = vec![0.9, 1.0], "twice");
    refuse(|o| o.boundary = 1.0, "r = t");
    refuse(|o| o.base_steps = 0, "training steps");
    refuse(|o| o.base_rate = -1.0, "learning rate");
    refuse(|o| o.width = 0, "width");
    refuse(|o| o.correction_rows = 0, "correction step");
    refuse(|o| o.seeds = vec![], "seed");
    refuse(|o| o.trainings.push(o.trainings[0]), "twice");
    refuse(|o| o.trainings.truncate(0), "not trained");
    refuse(|o| o.trainings[0].transport = Transport::Draws(0), "draws");
    refuse(|o| o.trainings[0].objective = Objective::Posterior, "base");
    refuse(
        |o| {
            o.target = Target::Potts {
                beta: f64::INFINITY,
                noise: 0.3,
            }
        },
        "beta",
    );
    refuse(|o| o.schedule = Schedule::Polynomial(-1.0), "exponent");
}
