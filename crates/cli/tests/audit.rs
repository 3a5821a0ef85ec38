//! `fewstep audit` as a user runs it: on its own draws, on dumps, and on files that are none.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

/// Exit code, output, errors.
fn audit(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let out = Command::new(assert_cmd::cargo::cargo_bin!("fewstep"))
        .current_dir(dir)
        .arg("audit")
        .args(args)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        out.status.code().unwrap(),
        text(out.stdout),
        text(out.stderr),
    )
}

/// The own draw passes on every law; draws in f32 are rejected where their tail is seen.
#[test]
fn the_own_draw_passes_and_f32_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, errors) = audit(dir.path(), &["--json"]);
    assert_eq!(code, 0, "{out}{errors}");
    let found: Value = serde_json::from_str(&out).unwrap();
    let checks = found["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 8);
    for check in checks {
        let rejected = check["outcome"]["rejected"].as_bool().unwrap();
        match check["method"].as_str().unwrap() {
            "ours" => assert!(!rejected, "{check}"),
            _ => assert!(rejected || check["law"] != "peaked", "{check}"),
        }
        assert!(check["outcome"]["tails"][0]["expected"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn dumps_have_a_verdict_and_a_code() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let write = |counts: &str| {
        let line = format!("{{\"probabilities\":[0.5,0.3,0.2],\"counts\":{counts}}}\n");
        fs::write(dir.join("a.jsonl"), line.repeat(3)).unwrap();
    };
    write("[5020,2990,1990]");
    let (code, out, errors) = audit(dir, &["--dump", "a.jsonl"]);
    assert_eq!((code, errors.as_str()), (0, ""), "{out}");
    assert!(out.contains("6 degrees of freedom"), "{out}");
    assert!(out.contains("verdict     not rejected"), "{out}");

    write("[5300,2900,1800]");
    let (code, out, errors) = audit(dir, &["--dump", "a.jsonl", "--json"]);
    assert_eq!((code, errors.lines().count()), (1, 1), "{errors}");
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(found["passed"], false);
    assert_eq!(found["outcome"]["chi_square"]["freedom"], 6);

    write("[1,0,0]");
    let (code, out, _) = audit(dir, &["--dump", "a.jsonl"]);
    assert!(code == 0 && out.contains("too few draws"), "{out}");
}

#[test]
fn malformed_dumps_are_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let good = "{\"logits\":[0,1],\"draws\":[1]}\n";
    for (text, why) in [
        (format!("{good}{good}{{\"logits\":[0,"), "a.jsonl:3: "),
        (
            format!("{good}{{\"logits\":[0,1],\"draws\":[7]}}"),
            "a.jsonl:2: the draw 7",
        ),
        ("\u{0}\u{1}".into(), "a.jsonl:1: "),
        (String::new(), "a.jsonl holds no draws"),
    ] {
        fs::write(dir.join("a.jsonl"), text).unwrap();
        let (code, _, errors) = audit(dir, &["--dump", "a.jsonl"]);
        assert_eq!((code, errors.lines().count()), (2, 1), "{errors}");
        assert!(errors.contains(why), "{errors}");
    }
    let (code, _, errors) = audit(dir, &["--dump", "nowhere.jsonl"]);
    assert!(code == 2 && errors.contains("nowhere.jsonl"), "{errors}");
    let (code, _, errors) = audit(dir, &["--dump", "."]);
    assert!(code == 2 && errors.lines().count() == 1, "{errors}");
    let (code, _, errors) = audit(dir, &["--dump", "a.jsonl", "--seed", "1"]);
    assert!(code == 2 && errors.contains("--seed"), "{errors}");
}
