//! The experiment on sequences, small: what it measures, and that stopping it changes nothing.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

mod common;

use common::Until;
use fewstep::{
    lab::Silent,
    sequence::{Chain, Data, Optimization, Optimizer, Sizes},
    text::{self, Method, Plan, Point},
};

fn plan() -> Plan {
    let base = Optimization {
        steps: 6,
        batch: 4,
        rate: 1e-2,
        warmup: 2,
        ema: 0.9,
        clip: 1.0,
        seed: 0,
        optimizer: Optimizer::Muon,
    };
    Plan {
        chains: vec![Chain::Uniform, Chain::UniformState],
        methods: ["linear", "paper", "sdtt"]
            .map(|name| Method::parse(name).unwrap())
            .to_vec(),
        seeds: vec![3],
        data: Data::Language {
            symbols: 6,
            states: 3,
            seed: 0,
            transition: 0.5,
            emission: 2.0,
        },
        sizes: Sizes {
            length: 8,
            width: 16,
            blocks: 1,
            heads: 2,
        },
        base,
        accelerated: Optimization { steps: 4, ..base },
        correction: 8,
        grids: vec![2],
        steps: vec![1, 2, 32],
        temperatures: vec![1.0, 0.8],
        many_temperatures: vec![1.0],
        gains: vec![1.0, 2.0],
        samples: 16,
    }
}

fn of<'a>(points: &'a [Point], chain: &str, method: &str) -> Vec<&'a Point> {
    let mine = |p: &&Point| p.chain == chain && p.method == method;
    points.iter().filter(mine).collect()
}

#[test]
fn an_experiment_that_is_stopped_again_and_again_finds_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, done) = text::run(&dir.path().join("a"), plan(), false, &Silent).unwrap();
    assert!(done);
    let parts = dir.path().join("b");
    let mut rounds = 0;
    let found = loop {
        let until = Until::asked(9);
        let (found, done) = text::run(&parts, plan(), true, &until).unwrap();
        rounds += 1;
        // A report can be made at any moment.
        assert!(text::html(&found).contains("</html>"));
        if done {
            break found;
        }
        assert!(rounds < 100, "no progress");
    };
    assert!(rounds > 3, "it was stopped");
    assert!(found.points == whole.points, "other points");
    assert_eq!(found.marginals, whole.marginals);
    let bounds = |f: &text::Findings| f.trainings.iter().map(|t| t.bound).collect::<Vec<f64>>();
    assert_eq!(bounds(&found), bounds(&whole));

    // Two temperatures at few steps and one at 32; as many for each gain of a correction that is not
    // zero in theory.
    assert_eq!(of(&whole.points, "uniform", "base").len(), 5);
    assert_eq!(of(&whole.points, "uniform", "exact").len(), 3);
    for (chain, gains) in [("uniform", 2), ("uniform-state", 1)] {
        for method in ["linear", "paper"] {
            assert_eq!(of(&whole.points, chain, method).len(), gains * 4 + 1);
        }
        // A student has no correction to multiply.
        assert_eq!(of(&whole.points, chain, "sdtt").len(), 5);
    }
    assert!(whole.points.iter().all(|p| p.nfe <= p.k));
    // Of each chain a denoiser, two corrections, and three rounds of sdtt.
    assert_eq!(whole.trainings.len(), 2 * (1 + 2 + 3));
    // The uniform-state process needs no marginals of its own.
    assert_eq!(whole.marginals.len(), 2);

    // A line that was cut off is measured again, another plan is refused.
    let file = parts.join("points.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &text[..text.len() - 40]).unwrap();
    let (again, done) = text::run(&parts, plan(), true, &Silent).unwrap();
    assert!(done && again.points == whole.points);
    assert!(text::run(&parts, plan(), false, &Silent).is_err());
    let other = Plan {
        samples: 17,
        ..plan()
    };
    let refused = text::run(&parts, other, true, &Silent).unwrap_err();
    assert!(refused.to_string().contains("another experiment"));
}
