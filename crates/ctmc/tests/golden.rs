//! The exact few-step errors against an independent implementation (`golden/generate.py`: numpy,
//! and scipy's integrator).

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use fewstep_ctmc::{Chain, Grid, Path, Process, Schedule, Source, divergence, law, propagator};

#[test]
fn exact_laws_equal_those_of_numpy_and_scipy() {
    let text = include_str!("golden/potts.txt");
    let lines: Vec<Vec<f64>> = text
        .lines()
        .map(|line| line.split(' ').map(|n| n.parse().unwrap()).collect())
        .collect();
    let (target, rows) = lines.split_at(256);
    let target: Vec<f64> = target.iter().map(|line| line[0]).collect();
    let path = Path::new(Schedule::Linear, Process::Mixture(Source::Uniform), 4).unwrap();
    let chain = Chain::new(path, 4, target).unwrap();
    assert_eq!(rows.len(), 6);
    for row in rows {
        let (mut posterior, mut marginals) = (chain.source_law(), chain.source_law());
        for (t, r) in Grid::uniform(row[0] as usize).unwrap().intervals() {
            let p = chain.posterior(Schedule::Linear.level(t));
            posterior = law::push(
                chain.states(),
                &posterior,
                &law::step_rows(&chain, t, r, &p),
            );
            let exact = propagator::marginals(&chain, t, r).unwrap();
            marginals = law::push(chain.states(), &marginals, &exact);
        }
        for (ours, theirs) in [(posterior, row[1]), (marginals, row[2])] {
            let tv = divergence::total_variation(&ours, chain.target());
            assert!(
                (tv - theirs).abs() < 1e-8,
                "K = {}: {tv} against {theirs}",
                row[0]
            );
        }
    }
}
