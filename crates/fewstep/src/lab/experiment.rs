//! The whole experiment: every seed trained and scored, then one report.

use std::collections::BTreeMap;

use fewstep_ctmc::Error;
use rayon::prelude::*;

use super::{
    Config, GainRule, Monitor, Training, base, correction,
    evaluate::{Kernel, Logits, Score, exact_marginals, exact_posterior, learned, score},
    exact, paper,
};
use crate::{
    objective::Transport,
    report::{Report, Row, Split},
};

/// Why an experiment has no report.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LabError {
    /// The mathematics refused.
    #[error(transparent)]
    Mathematics(#[from] Error),
    /// A loss became infinite or not a number.
    #[error("training diverged: {stage}, seed {seed}, step {step}; lower its learning rate")]
    Diverged {
        /// `base` or the name of a correction.
        stage: String,
        /// The seed.
        seed: u64,
        /// The training step.
        step: u64,
    },
}

/// One line of the report: a sampler, scored at each grid for each seed.
struct Line {
    method: &'static str,
    training: Option<Training>,
    setting: Setting,
    /// `[seed][grid]`.
    scores: Vec<Vec<Score>>,
}

/// How a sampler uses its networks.
#[derive(Clone, Copy, PartialEq)]
struct Setting {
    gain: GainRule,
    temperature: f64,
}

impl Setting {
    fn new(gain: f64, temperature: f64) -> Self {
        let gain = GainRule {
            constant: gain,
            inverse: 0.0,
        };
        Self { gain, temperature }
    }
}

/// The lines of the report in order, collected over the seeds.
#[derive(Default)]
struct Lines(Vec<Line>);

/// Seeds trained side by side. A thread that waits inside one may take up another, so this bounds
/// the memory, and it does not depend on the thread count.
const SIDE_BY_SIDE: usize = 4;

/// Runs the experiment, some seeds side by side. If the monitor stops it, the report holds what
/// each seed had finished and says that it is partial.
pub fn run(config: &Config, monitor: &dyn Monitor) -> Result<Report, LabError> {
    let mut lines = Lines::default();
    for seeds in config.options().seeds.chunks(SIDE_BY_SIDE) {
        let done: Vec<Lines> = seeds
            .par_iter()
            .map(|&seed| run_seed(config, seed, monitor))
            .collect::<Result<_, _>>()?;
        lines = done.into_iter().fold(lines, Lines::merge);
    }
    Ok(report(config, &lines, monitor.stopped()))
}

fn run_seed(config: &Config, seed: u64, monitor: &dyn Monitor) -> Result<Lines, LabError> {
    let o = config.options();
    let mut lines = Lines::default();
    if monitor.stopped() {
        return Ok(lines);
    }
    let chain = config.chain(seed)?;
    let grids = config.grids();
    let stage = format!("seed {seed}, exact kernels");
    monitor.begin(&stage, 1);
    let exact = exact::steps(&chain, grids)?;
    let all = |kernel: &dyn Fn(usize) -> Kernel, split: bool| -> Vec<Score> {
        (0..grids.len())
            .map(|g| score(&chain, &exact[g], &kernel(g), split))
            .collect()
    };
    let posterior = all(&|g| exact_posterior(&chain, &grids[g]), true);
    let marginals = all(&|g| exact_marginals(&exact[g]), true);
    let plain = Setting::new(1.0, 1.0);
    lines.push("exact-posterior", None, plain, posterior);
    lines.push("exact-marginals", None, plain, marginals);
    monitor.end(&stage);

    let base = base::train(config, &chain, seed, monitor)?;
    if monitor.stopped() {
        return Ok(lines);
    }
    let base_logits = Logits::of(&chain, &exact, &base);
    let sample = |correction: Option<&Logits>, setting: Setting, split: bool| {
        let kernel = |g: usize| {
            let setting = (setting.gain.at(grids[g].steps()), setting.temperature);
            learned(&chain, &exact, g, &base_logits, correction, setting)
        };
        all(&kernel, split)
    };
    lines.push("base", None, plain, sample(None, plain, true));
    for &temperature in &o.temperatures {
        let setting = Setting::new(1.0, temperature);
        lines.push("base", None, setting, sample(None, setting, false));
    }

    let corrections = correction::train(config, &chain, &base, seed, monitor)?;
    if monitor.stopped() {
        return Ok(lines);
    }
    for correction in &corrections {
        let logits = Logits::of(&chain, &exact, &correction.net);
        let training = Some(correction.training);
        // One correction at several gains is enough to see the effect.
        let gains = if Some(correction.training) == o.trainings.first().copied() {
            &o.gains[..]
        } else {
            &[]
        };
        for gain in std::iter::once(1.0).chain(gains.iter().copied()) {
            let setting = Setting::new(gain, 1.0);
            let scores = sample(Some(&logits), setting, gain == 1.0);
            lines.push("dag", training, setting, scores);
        }
        if let Some(recipe) = o.recipe.filter(|r| r.training == correction.training) {
            let setting = Setting {
                gain: recipe.gain,
                temperature: recipe.temperature,
            };
            let scores = sample(Some(&logits), setting, false);
            lines.push("dag-recipe", training, setting, scores);
        }
    }
    Ok(lines)
}

impl Lines {
    /// The lines of both, those of one sampler joined.
    fn merge(mut self, other: Self) -> Self {
        for line in other.0 {
            for scores in line.scores {
                self.push(line.method, line.training, line.setting, scores);
            }
        }
        self
    }

    /// Adds a seed's scores to the line of this sampler.
    fn push(
        &mut self,
        method: &'static str,
        training: Option<Training>,
        setting: Setting,
        scores: Vec<Score>,
    ) {
        let same = |l: &&mut Line| (l.method, l.training, l.setting) == (method, training, setting);
        match self.0.iter_mut().find(same) {
            Some(line) => line.scores.push(scores),
            None => self.0.push(Line {
                method,
                training,
                setting,
                scores: vec![scores],
            }),
        }
    }
}

fn report(config: &Config, lines: &Lines, partial: bool) -> Report {
    let steps: Vec<usize> = config.grids().iter().map(|g| g.steps()).collect();
    let mut table = paper_rows(config);
    let mut split = Vec::new();
    for line in &lines.0 {
        for (g, &k) in steps.iter().enumerate() {
            let seeds: Vec<f64> = line.scores.iter().map(|s| s[g].tv).collect();
            table.push(line.row(k, seeds));
            split.extend(line.split(g, k));
        }
    }
    Report {
        title: config.title(),
        partial,
        conventions: "t = 0 is noise, t = 1 is data; a step goes t -> r with t <= r".into(),
        table,
        split,
        tables: Vec::new(),
        config: config.to_json(),
        notes: notes(config),
    }
}

/// What the paper has measured, if this is its setting.
pub(crate) fn paper_rows(config: &Config) -> Vec<Row> {
    if !config.is_paper_setting() {
        return Vec::new();
    }
    let steps: Vec<usize> = config.grids().iter().map(|g| g.steps()).collect();
    let mut rows: Vec<Row> = quoted("paper-baseline", &steps, &paper::BASELINE).collect();
    rows.extend(quoted("paper-ours", &steps, &paper::OURS));
    rows
}

fn quoted<'a>(
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
            gain: self.setting.gain.at(k),
            temperature: self.setting.temperature,
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
        "Training draws x_t from p_t; the expectation over x_1 given x_t in the losses is taken by \
         enumeration."
            .to_string(),
    ];
    if let Some(r) = config.options().recipe {
        notes.push(format!(
            "Recipe: the correction {}, sampled with gain {} and temperature {}, the same rule for \
             every K, which never looks at the target law.",
            r.training.name(),
            r.gain,
            r.temperature
        ));
    }
    notes
}
