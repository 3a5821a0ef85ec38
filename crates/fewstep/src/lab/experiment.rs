//! The whole experiment: every seed trained and scored, then one report.

use std::collections::BTreeMap;

use fewstep_ctmc::Error;

use super::{
    Config, Monitor, Training, base, correction,
    evaluate::{Kernel, Logits, Score, exact_marginals, exact_posterior, learned, score},
    exact, paper,
};
use crate::{
    objective::Transport,
    report::{Report, Row, Split},
};

/// One line of the report: a sampler, scored at each grid for each seed.
struct Line {
    method: &'static str,
    training: Option<Training>,
    gain: f64,
    temperature: f64,
    /// `[seed][grid]`.
    scores: Vec<Vec<Score>>,
}

/// The lines of the report in order, collected over the seeds.
#[derive(Default)]
struct Lines(Vec<Line>);

/// Runs the experiment. If the monitor stops it, the report holds the seeds that were finished,
/// and the oracles of the one that was not, and says that it is partial.
pub fn run(config: &Config, monitor: &dyn Monitor) -> Result<Report, Error> {
    let mut lines = Lines::default();
    for &seed in &config.options().seeds {
        if monitor.stopped() {
            break;
        }
        run_seed(config, seed, monitor, &mut lines)?;
    }
    Ok(report(config, &lines, monitor.stopped()))
}

fn run_seed(
    config: &Config,
    seed: u64,
    monitor: &dyn Monitor,
    lines: &mut Lines,
) -> Result<(), Error> {
    let o = config.options();
    let chain = config.chain(seed)?;
    let grids = config.grids();
    monitor.begin(&format!("exact kernels, seed {seed}"), 1);
    let exact = exact::steps(&chain, grids)?;
    let all = |kernel: &dyn Fn(usize) -> Kernel, split: bool| -> Vec<Score> {
        (0..grids.len())
            .map(|g| score(&chain, &exact[g], &kernel(g), split))
            .collect()
    };
    let posterior = all(&|g| exact_posterior(&chain, &grids[g]), true);
    let marginals = all(&|g| exact_marginals(&exact[g]), true);
    lines.push("exact-posterior", None, (1.0, 1.0), posterior);
    lines.push("exact-marginals", None, (1.0, 1.0), marginals);
    monitor.advance(1);
    monitor.end();

    let base = base::train(config, &chain, seed, monitor);
    if monitor.stopped() {
        return Ok(());
    }
    let base_logits = Logits::of(&chain, &exact, &base);
    let sample = |correction: Option<&Logits>, setting: (f64, f64), split: bool| {
        all(
            &|g| learned(&chain, &exact, g, &base_logits, correction, setting),
            split,
        )
    };
    lines.push("base", None, (1.0, 1.0), sample(None, (1.0, 1.0), true));
    for &temperature in &o.temperatures {
        let setting = (1.0, temperature);
        lines.push("base", None, setting, sample(None, setting, false));
    }

    let corrections = correction::train(config, &chain, &base, seed, monitor);
    if monitor.stopped() {
        return Ok(());
    }
    for correction in &corrections {
        let logits = Logits::of(&chain, &exact, &correction.net);
        let training = Some(correction.training);
        let gains = std::iter::once(1.0).chain(o.gains.iter().copied());
        for gain in gains {
            let scores = sample(Some(&logits), (gain, 1.0), gain == 1.0);
            lines.push("dag", training, (gain, 1.0), scores);
        }
        if let Some(recipe) = o.recipe.filter(|r| r.training == correction.training) {
            let setting = (recipe.gain, recipe.temperature);
            let scores = sample(Some(&logits), setting, false);
            lines.push("dag-recipe", training, setting, scores);
        }
    }
    Ok(())
}

impl Lines {
    /// Adds a seed's scores to the line of this sampler.
    fn push(
        &mut self,
        method: &'static str,
        training: Option<Training>,
        (gain, temperature): (f64, f64),
        scores: Vec<Score>,
    ) {
        let same = |l: &&mut Line| {
            (l.method, l.training, l.gain, l.temperature) == (method, training, gain, temperature)
        };
        match self.0.iter_mut().find(same) {
            Some(line) => line.scores.push(scores),
            None => self.0.push(Line {
                method,
                training,
                gain,
                temperature,
                scores: vec![scores],
            }),
        }
    }
}

fn report(config: &Config, lines: &Lines, partial: bool) -> Report {
    let steps: Vec<usize> = config.grids().iter().map(|g| g.steps()).collect();
    let mut table = Vec::new();
    if config.is_paper_setting() {
        table.extend(paper_rows("paper-baseline", &steps, &paper::BASELINE));
        table.extend(paper_rows("paper-ours", &steps, &paper::OURS));
    }
    let mut split = Vec::new();
    for line in &lines.0 {
        for (g, &k) in steps.iter().enumerate() {
            let seeds: Vec<f64> = line.scores.iter().map(|s| s[g].tv).collect();
            table.push(line.row(k, seeds));
            split.extend(line.split(g, k));
        }
    }
    Report {
        title: "Few-step sampling of an enumerable target".into(),
        partial,
        conventions: "t = 0 is noise, t = 1 is data; a step goes t -> r with t <= r".into(),
        table,
        split,
        config: config.to_json(),
        notes: notes(config),
    }
}

fn paper_rows<'a>(
    method: &'a str,
    steps: &'a [usize],
    values: &'a [f64; 9],
) -> impl Iterator<Item = Row> + 'a {
    let known: BTreeMap<usize, f64> = paper::STEPS.into_iter().zip(*values).collect();
    steps.iter().filter_map(move |k| {
        Some(Row {
            method: method.into(),
            objective: if method == "paper-ours" {
                "p".into()
            } else {
                String::new()
            },
            transport: String::new(),
            gain: 1.0,
            temperature: 1.0,
            k: *k,
            tv: *known.get(k)?,
            tv_seeds: Vec::new(),
        })
    })
}

impl Line {
    fn objective(&self) -> String {
        self.training
            .map_or_else(String::new, |t| t.objective.name().into())
    }

    fn transport(&self) -> String {
        match self.training.map(|t| t.transport) {
            None => String::new(),
            Some(Transport::Exact) => "exact".into(),
            Some(Transport::Draws(1)) => "1 draw".into(),
            Some(Transport::Draws(n)) => format!("{n} draws"),
        }
    }

    fn row(&self, k: usize, seeds: Vec<f64>) -> Row {
        Row {
            method: self.method.into(),
            objective: self.objective(),
            transport: self.transport(),
            gain: self.gain,
            temperature: self.temperature,
            k,
            tv: seeds.iter().sum::<f64>() / seeds.len() as f64,
            tv_seeds: seeds,
        }
    }

    fn split(&self, grid: usize, k: usize) -> Option<Split> {
        let errors: Option<Vec<_>> = self.scores.iter().map(|s| s[grid].split).collect();
        let errors = errors?;
        let n = errors.len() as f64;
        Some(Split {
            method: self.method.into(),
            objective: self.objective(),
            transport: self.transport(),
            k,
            marginal: errors.iter().map(|e| e.marginal).sum::<f64>() / n,
            dependence: errors.iter().map(|e| e.dependence).sum::<f64>() / n,
        })
    }
}

fn notes(config: &Config) -> Vec<String> {
    let mut notes = vec![
        "Total variation is exact: the law of the sampler is propagated over all states, and \
         nothing is estimated from samples."
            .to_string(),
        "Each seed has its own target, initialisation and training; the value is their mean."
            .to_string(),
        "The expectation over x_t, and over x_1 given x_t, in the training losses is taken by \
         enumeration; only the times (t, r) and the jumps of the draws are random."
            .to_string(),
    ];
    if let Some(r) = config.options().recipe {
        notes.push(format!(
            "Recipe: the correction {}, sampled with gain {} and temperature {} at every number \
             of steps.",
            r.training.name(),
            r.gain,
            r.temperature
        ));
    }
    notes
}
