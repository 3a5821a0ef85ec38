//! `fewstep compare` as a user types it, and as one kills it.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use tempfile::tempdir;

const SMALL: &str = "compare -S 2 -D 2 --seeds 1 --steps 1,4 --width 16 --depth 2 --base-steps 300 \
                     --base-rows 64 --budget 60000 --batch 32 --pairs 500 --coupling-steps 8 \
                     --rounds 2 --latents 2";

fn fewstep(words: &str, out: &Path) -> Command {
    let mut command = Command::new(cargo_bin!("fewstep"));
    command.args(words.split_whitespace()).arg("--out").arg(out);
    command
}

/// [`SMALL`] with an option of it changed, or another added.
fn with(more: &str) -> String {
    let mut words: Vec<&str> = SMALL.split_whitespace().collect();
    let option = more.split_whitespace().next().unwrap_or_default();
    if let Some(at) = words.iter().position(|word| *word == option) {
        words.drain(at..at + 2);
    }
    format!("{} {more}", words.join(" "))
}

fn refused(words: &str, out: &Path, why: &str) {
    let Output { status, stderr, .. } = fewstep(words, out).output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{words}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(why), "{words}: {said}");
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// All methods, and a report that has a row of each at every K.
#[test]
fn all_methods_are_compared() {
    for source in ["uniform", "masked"] {
        let dir = tempdir().unwrap();
        let out = dir.path().join("run");
        let words = format!("{SMALL} --source {source}");
        let result = fewstep(&words, &out).output().unwrap();
        assert!(result.status.success(), "{result:?}");
        let printed = String::from_utf8(result.stdout).unwrap();
        assert!(printed.contains("conditional total correlation"));
        let report = json(&out.join("report.json"));
        let table = report["table"].as_array().unwrap();
        let of = |method: &str, k: u64| {
            let row = table
                .iter()
                .find(|row| row["method"] == method && row["k"] == k && row["temperature"] == 1.0);
            row.map(|row| row["tv"].as_f64().unwrap())
        };
        for method in [
            "base",
            "dag",
            "sdtt",
            "di4c",
            "redi",
            "redi+redi+redi",
            "di4c+redi+dag",
        ] {
            for k in [1, 4] {
                let tv = of(method, k).unwrap();
                assert!((0.0..0.7).contains(&tv), "{method} at {k}: {tv}");
            }
        }
        assert_eq!(of("dcd", 1).is_some(), source == "uniform");
        // All spent what they were given, to a step.
        for cost in report["tables"][0]["rows"].as_array().unwrap() {
            let spent: f64 = cost[1].as_str().unwrap().parse().unwrap();
            let name = cost[0].as_str().unwrap();
            let given = if name == "base" { 0.0 } else { 60_000.0 };
            assert!((spent - given).abs() <= 0.03 * given, "{name}: {spent}");
        }
        for file in ["report.html", "tv.svg", "metrics.jsonl", "plan.json"] {
            assert!(out.join(file).exists(), "{file}");
        }
    }
}

/// One step from noise comes far closer than the base's. From masks with a latent behind them the
/// method swings with budget and rate; there it is only required to have learned something.
#[test]
fn a_one_step_generator_is_trained() {
    for source in ["uniform", "masked"] {
        let dir = tempdir().unwrap();
        let out = dir.path().join("run");
        let words = with("--budget 400000 --steps 1 --methods dimo").replace("--steps 1,4 ", "");
        let words = format!("{words} --source {source}");
        let result = fewstep(&words, &out).output().unwrap();
        assert!(result.status.success(), "{result:?}");
        let report = json(&out.join("report.json"));
        let tv = |method: &str| {
            let rows = report["table"].as_array().unwrap();
            let row = rows.iter().find(|row| row["method"] == method).unwrap();
            row["tv"].as_f64().unwrap()
        };
        let (dimo, base) = (tv("dimo"), tv("base"));
        let learned = match source {
            "uniform" => dimo < 0.5 * base,
            _ => (dimo - base).abs() > 0.005 && dimo < 0.5,
        };
        assert!(learned, "{source}: {dimo} {base}");
    }
}

/// The law of two steps comes far closer, from the base and from the average generator, and with a
/// latent from masks too.
#[test]
fn laws_are_matched() {
    for (source, method, least) in [
        ("uniform", "law", 0.1),
        ("uniform --derivative", "law", 0.4),
        ("uniform", "dag+law", 0.4),
        ("masked", "di4c+law", 0.9),
    ] {
        let dir = tempdir().unwrap();
        let out = dir.path().join("run");
        let words = with(&format!("--budget 2000000 --steps 2 --methods {method}"));
        let words = words.replace("--steps 1,4 ", "");
        let words = format!("{words} --source {source}");
        let result = fewstep(&words, &out).output().unwrap();
        assert!(result.status.success(), "{result:?}");
        let report = json(&out.join("report.json"));
        let tv = |method: &str| {
            let rows = report["table"].as_array().unwrap();
            let row = rows.iter().find(|row| row["method"] == method).unwrap();
            row["tv"].as_f64().unwrap()
        };
        let (law, base) = (tv(method), tv("base"));
        assert!(law < least * base, "{source} {method}: {law} {base}");
    }
}

#[test]
fn what_does_not_fit_is_refused_before_any_work() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("run");
    for (more, why) in [
        ("--methods foo", "'foo' is no method; there are dag, law"),
        ("--methods dag+redi", "they come last"),
        ("--methods law+dag", "law after dag"),
        (
            "--methods law --source masked",
            "give it a latent, as in di4c+law",
        ),
        ("--methods di4c+redi+di4c", "one latent"),
        ("--methods di4c+sdtt", "put them before di4c"),
        ("--methods dimo+redi", "it stands alone"),
        ("--methods redi+sdtt", "belongs to its pairs"),
        ("--methods redi,redi", "twice"),
        (
            "--methods dcd --source masked",
            "dcd needs a uniform source",
        ),
        ("--budget 5000 --methods redi", "raise --budget"),
        ("--steps 0", "at least 1"),
        ("--rounds 0", "at least 1"),
        ("--rate 0", "--rate"),
    ] {
        refused(&with(more), &out, why);
        assert!(!out.exists(), "nothing is left of {more}");
    }
}

/// Killed at odd moments and resumed, a comparison ends with the numbers of one that was left alone,
/// and does nothing twice.
#[cfg(unix)]
#[test]
fn a_killed_comparison_goes_on() {
    let dir = tempdir().unwrap();
    let words = format!("{SMALL} --methods sdtt,di4c+redi+dag --resume");
    let (whole, killed) = (dir.path().join("whole"), dir.path().join("killed"));
    assert!(fewstep(&words, &whole).status().unwrap().success());
    for i in 0..8u64 {
        let mut child = fewstep(&words, &killed)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(40 + 70 * (i * i % 7)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(fewstep(&words, &killed).status().unwrap().success());
    let (a, b) = (
        json(&whole.join("report.json")),
        json(&killed.join("report.json")),
    );
    assert_eq!(a["table"], b["table"]);
    // Done is done.
    let kept = killed.join("runs/sdtt-0/outcome.json");
    let before = std::fs::metadata(&kept).unwrap().modified().unwrap();
    let again = fewstep(&words, &killed).output().unwrap();
    assert!(again.status.success());
    assert_eq!(
        std::fs::metadata(&kept).unwrap().modified().unwrap(),
        before
    );
    // More methods may follow; another setting may not.
    let more = words.replace("sdtt,", "sdtt,redi,");
    assert!(fewstep(&more, &killed).status().unwrap().success());
    refused(
        &format!("{words} --rate 0.01"),
        &killed,
        "another comparison",
    );
    refused(words.trim_end_matches("--resume"), &killed, "--resume");
}
