//! `fewstep bench` as a program reads it, and wrong works.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use assert_cmd::Command;
use serde_json::Value;

#[test]
fn one_line_of_json_for_programs() {
    let output = Command::new(env!("CARGO_BIN_EXE_fewstep"))
        .args(["bench", "gemm", "--json", "--steps", "3", "--threads", "1"])
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1);
    let line: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["peer"], "fewstep");
    assert_eq!(line["work"], "gemm");
    assert_eq!(line["steps"], 3);
    assert_eq!(line["threads"], 1);
    let seconds = line["seconds"].as_f64().unwrap();
    let best = line["best"].as_f64().unwrap();
    assert!(0.0 < best && best <= seconds);
    assert!(line["gemm_share"].as_f64().unwrap() > 0.0);
    assert!(
        line["tokens_per_second"].is_null(),
        "a product has no tokens"
    );
    #[cfg(target_os = "linux")]
    assert!(
        line["peak_bytes"].as_u64().unwrap() > 12 << 20,
        "three matrices"
    );
}

#[test]
fn a_wrong_work_is_one_line() {
    let output = Command::new(env!("CARGO_BIN_EXE_fewstep"))
        .args(["bench", "everything"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.contains("everything") && text.contains("dag-byte"),
        "{text}"
    );
}
