//! `fewstep potts` as a user types it.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use tempfile::tempdir;

const SMALL: &str = "potts -S 3 -D 2 --seeds 2 --steps 2,4 --width 16 --depth 2 --base-rows 64 \
                     --correction-steps 120";

fn fewstep(words: &str, out: &Path) -> Command {
    let mut command = Command::new(cargo_bin!("fewstep"));
    command.args(words.split_whitespace()).arg("--out").arg(out);
    command
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_run_leaves_its_directory_complete() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("deep/run");
    let result = fewstep(&format!("{SMALL} --base-steps 200"), &out)
        .output()
        .unwrap();
    assert!(result.status.success(), "{result:?}");
    let printed = String::from_utf8(result.stdout).unwrap();
    assert!(printed.contains("exact posterior") && printed.contains("recipe"));
    let report = json(&out.join("report.json"));
    let table = report["table"].as_array().unwrap();
    for method in [
        "exact-posterior",
        "exact-marginals",
        "base",
        "dag",
        "dag-recipe",
    ] {
        let rows: Vec<_> = table.iter().filter(|r| r["method"] == method).collect();
        assert!(!rows.is_empty(), "no {method}");
        for row in rows {
            let seeds = row["tv_seeds"].as_array().unwrap();
            assert_eq!(seeds.len(), 2);
            let mean = seeds.iter().map(|v| v.as_f64().unwrap()).sum::<f64>() / 2.0;
            assert!((mean - row["tv"].as_f64().unwrap()).abs() < 1e-15);
            assert!(row["gain"].is_f64() && row["temperature"].is_f64() && row["k"].is_u64());
        }
    }
    assert_eq!(report["partial"], false);
    let metrics = std::fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    let first: Value = serde_json::from_str(metrics.lines().next().unwrap()).unwrap();
    assert_eq!(first["stage"], "base");
    assert!(first["loss"].as_f64().unwrap().is_finite());
    // Two lines of the base and one of each of three corrections, for each of two seeds.
    assert_eq!(metrics.lines().count(), 2 * (2 + 3));
    let manifest = json(&out.join("manifest.json"));
    assert_eq!(manifest["state"], "done");
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
    let html = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(html.contains("<svg") && !html.contains("<script src") && !html.contains("<link"));
    let svg = std::fs::read_to_string(out.join("tv.svg")).unwrap();
    assert!(svg.contains("<svg") && svg.contains("exact marginals"));
}

#[test]
fn the_table_does_not_depend_on_the_thread_count() {
    let dir = tempdir().unwrap();
    let table = |threads: &str| {
        let out = dir.path().join(threads);
        let words = format!("--threads {threads} {SMALL} --base-steps 200");
        assert!(fewstep(&words, &out).output().unwrap().status.success());
        json(&out.join("report.json"))["table"].to_string()
    };
    assert_eq!(table("1"), table("4"));
}

#[test]
fn the_papers_rows_stand_beside_the_papers_setting_only() {
    let dir = tempdir().unwrap();
    let words = "potts --seeds 1 --steps 2,5,8 --width 8 --depth 1 --base-steps 2 --base-rows 8 \
                 --correction-steps 0 --train p:exact --recipe none";
    assert!(
        fewstep(words, dir.path())
            .output()
            .unwrap()
            .status
            .success()
    );
    let report = json(&dir.path().join("report.json"));
    let ours: Vec<_> = report["table"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|r| r["method"] == "paper-ours")
        .map(|r| (r["k"].as_u64().unwrap(), r["tv"].as_f64().unwrap()))
        .collect();
    assert_eq!(ours, [(2, 0.5381), (8, 0.0517)]);
    let words = format!("{words} --beta 1");
    assert!(
        fewstep(&words, dir.path())
            .output()
            .unwrap()
            .status
            .success()
    );
    let report = json(&dir.path().join("report.json"));
    assert!(!report.to_string().contains("paper-ours"));
}

#[test]
fn bad_input_is_one_line_and_exit_code_2() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("run");
    for (words, expected) in [
        ("potts -D 40", "too many to enumerate"),
        ("potts -S 1", "symbols"),
        ("potts -D 0", "coordinates"),
        ("potts --grid 0,0.7,0.3,1", "increase strictly"),
        ("potts --grid 0,0.5", "from 0 to 0.5"),
        ("potts --steps 8,4", "must increase"),
        ("potts --steps 0", "steps"),
        ("potts --beta inf", "not a number"),
        ("potts --beta 1000", "between -50 and 50"),
        ("potts --target repelling --spread 2", "no meaning"),
        ("potts --schedule poly:-1", "exponent"),
        ("potts --schedule quadratic", "linear, cosine"),
        ("potts --gains -1", "gain"),
        ("potts --temperatures 0", "temperature"),
        ("potts --train linear", "OBJECTIVE:TRANSPORT"),
        ("potts --train x:exact", "objective"),
        ("potts --train p:0 --recipe none", "draws"),
        ("potts --train p:exact", "not trained"),
        (
            "potts --recipe linear:exact,3",
            "CORRECTION,GAIN,TEMPERATURE",
        ),
        ("potts --boundary 1", "r = t"),
        ("potts --seeds 0", "seeds"),
        ("potts --base-steps 0", "training steps"),
        ("potts --base-rate -1", "learning rate"),
        ("potts --width 0", "width"),
        ("--threads 0 potts", "threads"),
        ("potts --target ising", "possible values"),
        ("potts --symbols four", "symbols"),
        ("potts --nothing", "--nothing"),
    ] {
        let result = fewstep(words, &out).output().unwrap();
        let message = String::from_utf8(result.stderr).unwrap();
        assert_eq!(result.status.code(), Some(2), "{words}: {message}");
        assert!(message.contains(expected), "{words}: {message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{words}: {message}");
        assert!(message.starts_with("fewstep: "), "{words}: {message}");
        assert!(!out.exists(), "{words} left something behind");
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_found_before_training() {
    let dir = tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    for out in [file.clone(), file.join("below")] {
        let result = fewstep("potts --base-steps 10000000", &out)
            .output()
            .unwrap();
        let message = String::from_utf8(result.stderr).unwrap();
        assert_eq!(result.status.code(), Some(2), "{message}");
        assert!(
            message.contains("cannot write") && message.contains("--out"),
            "{message}"
        );
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

/// Waits until the run has begun to train.
#[cfg(unix)]
fn wait_for_metrics(out: &Path) {
    let start = Instant::now();
    let metrics = out.join("metrics.jsonl");
    while std::fs::metadata(&metrics).map_or(0, |m| m.len()) == 0 {
        assert!(start.elapsed() < Duration::from_secs(120), "no metrics");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(unix)]
fn signal(child: &std::process::Child, name: &str) {
    let status = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

#[cfg(unix)]
#[test]
fn ctrl_c_writes_a_partial_report_that_says_so() {
    let dir = tempdir().unwrap();
    let child = fewstep(&format!("{SMALL} --base-steps 9000000"), dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_metrics(dir.path());
    signal(&child, "-INT");
    let result = child.wait_with_output().unwrap();
    assert_eq!(result.status.code(), Some(130), "{result:?}");
    let report = json(&dir.path().join("report.json"));
    assert_eq!(report["partial"], true);
    assert!(report["table"].to_string().contains("exact-posterior"));
    let html = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(html.to_lowercase().contains("partial"));
    assert_eq!(json(&dir.path().join("manifest.json"))["state"], "partial");
}

#[cfg(unix)]
#[test]
fn a_killed_run_leaves_no_report_and_no_half_written_file() {
    let dir = tempdir().unwrap();
    // A finished report of an earlier run must not pass for this one's.
    std::fs::write(dir.path().join("report.json"), "{}").unwrap();
    let mut child = fewstep(&format!("{SMALL} --base-steps 9000000"), dir.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_metrics(dir.path());
    signal(&child, "-KILL");
    child.wait().unwrap();
    let mut names: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["manifest.json", "metrics.jsonl"]);
    assert_eq!(json(&dir.path().join("manifest.json"))["state"], "running");
}
