//! `fewstep eval --judge` through the binary: its columns, its JSON, and what it refuses; without the
//! feature `judge`, how it says so.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn fewstep(dir: &Path, args: &[&str]) -> Output {
    Command::new(assert_cmd::cargo::cargo_bin!("fewstep"))
        .current_dir(dir)
        .args(args)
        .output()
        .unwrap()
}

fn done(dir: &Path, line: &str) -> String {
    let args: Vec<&str> = line.split_whitespace().collect();
    let out = fewstep(dir, &args);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{line}: {errors}");
    String::from_utf8(out.stdout).unwrap()
}

/// Refused with one line that says `why`.
fn refused(dir: &Path, line: &str, judge: &Path, why: &str) {
    let mut args: Vec<&str> = line.split_whitespace().collect();
    args.extend(["--judge", judge.to_str().unwrap()]);
    let out = fewstep(dir, &args);
    let errors = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{args:?}: {errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains(why), "{args:?}: {errors}");
}

/// The tiny GPT-2 of the library's tests.
fn gpt2() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fewstep/tests/golden/judge-gpt2")
}

/// Leaves `run`, trained on text, and `language`.
fn runs(dir: &Path) {
    fs::write(dir.join("a.txt"), "the cat sat on the mat. ".repeat(200)).unwrap();
    done(dir, "data a.txt --out data --tokenizer char");
    let sizes = "--length 16 --width 16 --blocks 1 --heads 2 --batch 4 --steps 4";
    done(dir, &format!("train --out run --data data {sizes}"));
    done(
        dir,
        &format!("train --out language --symbols 8 --states 4 {sizes}"),
    );
}

#[cfg(not(feature = "judge"))]
#[test]
fn without_the_feature_it_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    runs(dir);
    let line = "eval --from run --steps 2 --samples 4";
    refused(dir, line, &gpt2(), "build it with --features judge");
    assert!(!done(dir, line).contains("judge ppl"));
}

#[cfg(feature = "judge")]
#[test]
fn a_judge_reads_every_row() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    runs(dir);
    let judge = gpt2();
    let eval = "eval --from run --steps 2 --samples 4 --judge";
    let table = done(dir, &format!("{eval} {}", judge.display()));
    assert!(table.contains("protocol duo"), "{table}");
    let head = table.lines().find(|line| line.contains("entropy")).unwrap();
    assert!(head.ends_with("judge ppl   tokens"), "{table}");
    for protocol in ["redi", "duo"] {
        let how = format!("{} --protocol {protocol} --json", judge.display());
        let lines = done(dir, &format!("{eval} {how}"));
        let rows: Vec<serde_json::Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(rows.len(), 4);
        for row in &rows {
            assert!(row["judge_perplexity"].as_f64().unwrap() > 1.0, "{row}");
            // Pairs of letters are one token of the judge, where it knows them.
            let tokens = row["judge_tokens"].as_u64().unwrap();
            assert!((16..=4 * 15).contains(&tokens), "{row}");
            assert_eq!(row["protocol"], protocol);
        }
        if protocol == "duo" {
            let number = format!("{:.2}", rows[3]["judge_perplexity"].as_f64().unwrap());
            let last = table.lines().last().unwrap();
            assert!(last.contains(&number), "{table}{number}");
        }
    }
    let line = "eval --from run --steps 2 --samples 4";
    refused(dir, line, &dir.join("nowhere"), "nowhere");
    refused(
        dir,
        &format!("{line} --protocol sdtt"),
        &judge,
        "use duo or redi",
    );
    refused(
        dir,
        "eval --from language --steps 2 --samples 4",
        &judge,
        "without text",
    );
    let alone = fewstep(dir, &["eval", "--from", "run", "--protocol", "duo"]);
    assert_eq!(alone.status.code(), Some(2));
}
