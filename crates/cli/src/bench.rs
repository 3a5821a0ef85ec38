//! `fewstep bench`: how fast the engine is on this machine.

use std::{io::Write, process::Command};

use clap::{Args as ClapArgs, builder::PossibleValuesParser};
use fewstep::bench::{Measured, WORKS, Work, measure};
use serde_json::{Value, json};

use crate::Failure;

/// Times one work, or all of them, each in a process of its own.
#[derive(ClapArgs)]
pub struct Args {
    /// What to measure; without it, everything
    #[arg(value_parser = PossibleValuesParser::new(WORKS.map(Work::name)))]
    work: Option<String>,
    /// Steps that are timed
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: u32,
    /// Steps before that, which are not
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    warmup: u32,
    /// One line of JSON a work
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Some(name) = &args.work else {
        return run_all(args);
    };
    let work = WORKS.into_iter().find(|work| work.name() == name);
    let work = work.ok_or_else(|| Failure::Usage(format!("no work {name:?}; see --help")))?;
    let measured = measure(work, args.steps as usize, args.warmup as usize)
        .map_err(|e| Failure::Failed(e.to_string()))?;
    let line = to_json(work, &measured);
    if args.json {
        print(&line.to_string());
    } else {
        print(&heading());
        print(&row(&line));
    }
    Ok(())
}

/// Each work in its own process, so that its peak memory is its own.
fn run_all(args: &Args) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::Failed(format!("cannot start itself: {e}"));
    let program = std::env::current_exe().map_err(failed)?;
    if !args.json {
        print(&heading());
    }
    for work in WORKS {
        let output = Command::new(&program)
            .args(["bench", work.name(), "--json"])
            .args(["--threads", &rayon::current_num_threads().to_string()])
            .args(["--steps", &args.steps.to_string()])
            .args(["--warmup", &args.warmup.to_string()])
            .output()
            .map_err(failed)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line: Value = serde_json::from_str(text.trim()).map_err(|_| {
            let why = String::from_utf8_lossy(&output.stderr);
            let why = why.trim().lines().last().unwrap_or("no message").to_owned();
            Failure::Failed(format!(
                "{} did not finish ({}): {why}",
                work.name(),
                output.status
            ))
        })?;
        print(&if args.json {
            line.to_string()
        } else {
            row(&line)
        });
    }
    Ok(())
}

fn to_json(work: Work, measured: &Measured) -> Value {
    let median = measured.median();
    json!({
        "peer": "fewstep",
        "work": work.name(),
        "seconds": median,
        "best": measured.best(),
        "steps": measured.seconds.len(),
        "tokens_per_second": measured.tokens.map(|tokens| tokens as f64 / median),
        "gemm_flops": measured.gemm,
        "gemm_share": measured.operations / median / measured.gemm,
        "peak_bytes": peak_bytes(),
        "threads": rayon::current_num_threads(),
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// The largest memory this process has held, where the system tells.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

fn heading() -> String {
    format!(
        "{:<18} {:>9} {:>9} {:>10} {:>8} {:>10} {:>9}",
        "work", "median s", "best s", "tokens/s", "peak GB", "GFLOP/s", "of gemm"
    )
}

fn row(line: &Value) -> String {
    let number = |key: &str| line[key].as_f64();
    let cell = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let speed = number("gemm_share").zip(number("gemm_flops"));
    format!(
        "{:<18} {:>9} {:>9} {:>10} {:>8} {:>10} {:>9}",
        line["work"].as_str().unwrap_or_default(),
        cell(number("seconds"), 4),
        cell(number("best"), 4),
        cell(number("tokens_per_second"), 0),
        cell(number("peak_bytes").map(|bytes| bytes / 1e9), 2),
        cell(speed.map(|(share, flops)| share * flops / 1e9), 0),
        cell(number("gemm_share").map(|share| 100.0 * share), 0) + " %",
    )
}

/// A closed pipe is no reason to fail.
fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
