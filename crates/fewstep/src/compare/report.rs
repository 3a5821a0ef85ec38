//! What was compared, as a [`Report`].

use super::{Outcome, Plan, evaluate::Measured};
use crate::{
    lab::{Config, paper_rows},
    report::{Report, Row, Split, Table},
};

/// The report of what there is.
pub fn report(config: &Config, plan: &Plan, outcomes: &[Outcome], partial: bool) -> Report {
    let (mut split, mut costs) = (Vec::new(), Vec::new());
    let mut table = paper_rows(config);
    let oracles = [
        "exact-posterior",
        "exact-marginals",
        "exact-matching",
        "exact-joint",
    ];
    let oracles = oracles.map(String::from);
    let trained = plan.combinations().into_iter().map(|c| c.name());
    for name in oracles.into_iter().chain(trained) {
        let mine: Vec<&Outcome> = outcomes.iter().filter(|o| o.method == name).collect();
        let Some(first) = mine.first() else { continue };
        for (i, point) in first.points.iter().enumerate() {
            let all: Vec<&Measured> = mine.iter().map(|o| &o.points[i]).collect();
            table.push(row(&name, point, &all));
            split.extend(parts(&name, point, &all));
        }
        if name.starts_with("exact-") {
            continue;
        }
        let mean = |of: &dyn Fn(&Outcome) -> f64| {
            mine.iter().map(|o| of(o)).sum::<f64>() / mine.len() as f64
        };
        costs.push(vec![
            name,
            format!("{:.0}", mean(&|o| o.evaluations as f64)),
            format!("{:.0}", mean(&|o| o.seconds)),
            match mine
                .iter()
                .map(|o| o.conditional_correlation)
                .sum::<Option<f64>>()
            {
                Some(sum) => format!("{:.3}", sum / mine.len() as f64),
                None => "–".into(),
            },
        ]);
    }
    Report {
        title: format!("Rivals: {}", config.title()),
        partial,
        conventions: "t = 0 is noise, t = 1 is data; a step goes t -> r with t <= r".into(),
        table,
        split,
        tables: vec![Table {
            title: "Cost, and dependence that is left".into(),
            text: "Evaluations are those of one sequence in training after the base, counted: a \
                   derivative in t counts as one more, a way back as two. The conditional total \
                   correlation is what the coordinates of a finished sequence still tell about \
                   each other given where it began, with the most steps measured, in nats."
                .into(),
            header: [
                "method",
                "evaluations",
                "seconds",
                "conditional total correlation",
            ]
            .map(String::from)
            .to_vec(),
            rows: costs,
        }],
        config: plan.describe(),
        notes: notes(),
    }
}

fn row(name: &str, point: &Measured, all: &[&Measured]) -> Row {
    let tv_seeds: Vec<f64> = all.iter().map(|p| p.tv).collect();
    let recipe = point.gain != 1.0;
    Row {
        method: match (name, recipe) {
            ("dag", true) => "dag-recipe".into(),
            (_, true) => format!("{name}-recipe"),
            _ => name.into(),
        },
        objective: if name == "dag" { "linear" } else { "" }.into(),
        transport: if name == "dag" { "1 draw" } else { "" }.into(),
        gain: point.gain,
        temperature: if recipe { 1.0 } else { point.temperature },
        k: point.k,
        tv: tv_seeds.iter().sum::<f64>() / tv_seeds.len() as f64,
        tv_seeds,
    }
}

fn parts(name: &str, point: &Measured, all: &[&Measured]) -> Option<Split> {
    if point.gain != 1.0 {
        return None;
    }
    let parts: Option<Vec<(f64, f64)>> = all.iter().map(|p| p.split).collect();
    let parts = parts?;
    let n = parts.len() as f64;
    Some(Split {
        method: name.into(),
        objective: if name == "dag" { "linear" } else { "" }.into(),
        transport: if name == "dag" { "1 draw" } else { "" }.into(),
        k: point.k,
        marginal: parts.iter().map(|p| p.0).sum::<f64>() / n,
        dependence: parts.iter().map(|p| p.1).sum::<f64>() / n,
    })
}

fn notes() -> Vec<String> {
    [
        "Total variation is exact: the law of each sampler is propagated over all states, with the \
         latent of a mixture summed over all its values.",
        "Each method starts from the same denoiser and spends the same number of network \
         evaluations in training; a combination divides it between its parts.",
        "The exact rows need no network: the denoiser's posterior, the exact marginals of each step \
         (what the average generator learns), and products whose law, not whose marginals, was \
         matched to the chain's, by 20 rounds of EM from these marginals.",
        "A mixture student draws its latent anew in each step; one that was trained on a coupling \
         afterwards keeps the one it began with.",
        "The split holds a step against the exact chain of the target, so for students that follow \
         another chain (redi) it shows how far they have gone from it.",
    ]
    .map(String::from)
    .to_vec()
}
