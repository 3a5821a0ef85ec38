//! `fewstep audit`: whether categorical draws follow their laws, ours and those of other programs.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
};

use fewstep::audit::{self, ChiSquare, LEVEL, Method, Outcome};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::Failure;

/// Test draws against their laws: by default this program's own on known laws, beside draws by the
/// Gumbel trick in f32, which lose the tail and must be found out; exit 1 if draws are rejected.
#[derive(clap::Args)]
pub struct Args {
    /// Draws of another program: a JSON object a line with "probabilities" or "logits", and
    /// "counts" or "draws"
    #[arg(long, value_name = "FILE.jsonl", conflicts_with = "seed")]
    dump: Option<PathBuf>,
    /// Seed of the draws
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the tests.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.dump {
        Some(file) => dump(file, args.json),
        None => own(args.seed, args.json),
    }
}

fn bar(template: &str) -> ProgressBar {
    let bar = if std::io::stderr().is_terminal() {
        ProgressBar::new(0)
    } else {
        ProgressBar::hidden()
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn own(seed: u64, json: bool) -> Result<(), Failure> {
    let bar = bar("audit {bar:40} {pos}/{len}  {elapsed}");
    let checks = audit::own(seed, |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let passed = checks.iter().all(audit::Check::as_it_must);
    if json {
        println!("{:#}", json!({ "passed": passed, "checks": checks }));
    } else {
        println!(
            "law        symbols     draws  by          chi-square     df        p    tail  \
             expected  drawn        p  verdict"
        );
        for check in &checks {
            let method = match check.method {
                Method::Exact => "ours",
                Method::Gumbel32 => "f32 gumbel",
            };
            let o = &check.outcome;
            let chi = o.chi_square.map_or_else(
                || format!("{:>10}  {:>5}  {:>7}", "-", "-", "-"),
                |c| {
                    format!(
                        "{:10.1}  {:5}  {}",
                        c.statistic,
                        c.freedom,
                        probability(c.p)
                    )
                },
            );
            let tail = o.worst_tail().map_or_else(
                || format!("{:>6}  {:>8}  {:>5}  {:>7}", "-", "-", "-", "-"),
                |t| {
                    let p = probability(t.p);
                    format!(
                        "{:6.0e}  {:8.1}  {:5}  {p}",
                        t.share, t.expected, t.observed
                    )
                },
            );
            println!(
                "{:9}  {:7}  {:8}  {method:10}  {chi}  {tail}  {}",
                check.law,
                check.symbols,
                o.draws,
                verdict(o)
            );
        }
    }
    if passed {
        Ok(())
    } else {
        Err(Failure::Failed(
            "a draw of this program is rejected, or draws in f32 are not where they must be".into(),
        ))
    }
}

fn dump(file: &Path, json: bool) -> Result<(), Failure> {
    let bar = bar("audit {bar:40} {bytes}/{total_bytes}  {eta} left");
    bar.set_length(std::fs::metadata(file).map_or(0, |of| of.len()));
    let tally = audit::dump(file, |bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    let outcome = tally.map_err(|e| Failure::Usage(e.to_string()))?.outcome();
    if json {
        println!(
            "{:#}",
            json!({ "passed": !outcome.rejected, "outcome": outcome })
        );
    } else {
        println!("laws        {}", outcome.laws);
        println!("draws       {}", outcome.draws);
        if outcome.impossible > 0 {
            println!("impossible  {} draws of probability 0", outcome.impossible);
        }
        line("chi-square", outcome.chi_square);
        line("bands", outcome.bands);
        for tail in &outcome.tails {
            println!(
                "tail {:.0e}   {} drawn, {:.1} expected, p = {}",
                tail.share,
                tail.observed,
                tail.expected,
                probability(tail.p).trim_start()
            );
        }
        println!("verdict     {}", verdict(&outcome));
    }
    if outcome.rejected {
        Err(Failure::Failed(format!(
            "{}: the draws do not follow their laws, p = {}",
            file.display(),
            probability(outcome.p).trim_start()
        )))
    } else {
        Ok(())
    }
}

fn line(name: &str, test: Option<ChiSquare>) {
    match test {
        Some(ChiSquare {
            statistic,
            freedom,
            p,
        }) => println!(
            "{name:10}  {statistic:.1} on {freedom} degrees of freedom, p = {}",
            probability(p).trim_start()
        ),
        None => println!("{name:10}  too few draws"),
    }
}

fn probability(p: f64) -> String {
    if p >= 1e-3 {
        format!("{p:7.3}")
    } else {
        format!("{p:7.0e}")
    }
}

fn verdict(outcome: &Outcome) -> String {
    if !outcome.tested() {
        "too few draws to say anything".into()
    } else if outcome.rejected {
        format!("rejected, p below {LEVEL:e}")
    } else {
        "not rejected".into()
    }
}
