//! `fewstep verify` as a user types it.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

fn verify(words: &str) -> Output {
    Command::new(cargo_bin!("fewstep"))
        .arg("verify")
        .args(words.split_whitespace())
        .output()
        .unwrap()
}

#[test]
fn all_claims_hold_and_the_table_says_so() {
    let result = verify("--instances 100");
    assert!(result.status.success(), "{result:?}");
    let table = String::from_utf8(result.stdout).unwrap();
    assert!(table.contains("69 of 69 claims hold"), "{table}");
    assert!(
        table.contains("prop:agi") && !table.contains("FAIL"),
        "{table}"
    );
    assert!(table.lines().all(|l| l.chars().count() <= 120));
}

#[test]
fn perturbed_claims_fail_with_exit_code_1() {
    let result = verify("--instances 100 --perturbed --json");
    assert_eq!(result.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&result.stdout).unwrap();
    assert_eq!(report["passed"], false);
    let claims = report["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 69);
    for claim in claims {
        assert_eq!(claim["passed"], false, "{claim} held although broken");
    }
    let message = String::from_utf8(result.stderr).unwrap();
    assert!(message.contains("69 of 69 claims fail"), "{message}");
}

#[test]
fn bad_options_are_refused() {
    for words in ["--instances 0", "--instances x", "--seed -1", "--nothing"] {
        assert_eq!(verify(words).status.code(), Some(2), "{words}");
    }
}
