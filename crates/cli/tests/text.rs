//! From nothing to few-step samples through the binary, as a new user would go; what is typed wrong;
//! and a training run that is killed again and again.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
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
fn refused(dir: &Path, args: &[&str], why: &str) {
    let out = fewstep(dir, args);
    let errors = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{args:?}: {errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains(why), "{args:?}: {errors}");
}

const TINY: &str = "--symbols 8 --states 4 --length 16 --width 16 --blocks 1 --heads 2 --batch 4";

#[test]
fn the_built_in_language_from_training_to_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let said = done(
        dir,
        &format!("train --out base --chain uniform --steps 20 {TINY}"),
    );
    assert!(said.contains("after 20 steps"), "{said}");
    done(
        dir,
        "accelerate --from base --out fast --steps 10 --batch 4 --correction 8",
    );
    let sample = "sample --from fast --steps 4 -n 3 --gain 2 --json";
    let lines = done(dir, sample);
    assert_eq!(lines, done(dir, &format!("--threads 1 {sample}")));
    let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(first["symbols"].as_array().unwrap().len(), 16);
    assert_eq!(lines.lines().count(), 3);
    // Looking on changes nothing; without a terminal there is nothing to watch, in one line.
    let out = fewstep(
        dir,
        &format!("{sample} --watch --trace a.html")
            .split(' ')
            .collect::<Vec<_>>(),
    );
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(lines, String::from_utf8(out.stdout).unwrap());
    assert!(
        said.starts_with("fewstep: --watch needs a terminal"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 3, "{said}");
    let page = fs::read_to_string(dir.join("a.html")).unwrap();
    let last = first["text"].as_str().unwrap();
    assert!(page.contains(&format!("<pre>{last}</pre>")), "{page}");
    let numbers = done(
        dir,
        "eval --from fast --steps 1,4 --gains 0,1 --samples 8 --json",
    );
    let rows: Vec<serde_json::Value> = numbers
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<&str> = rows[..3]
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["data", "unigram", "bigram"]);
    let steps: Vec<u64> = rows.iter().filter_map(|row| row["nfe"].as_u64()).collect();
    assert_eq!(steps, [1, 1, 4, 4]);
    assert!(
        rows.iter()
            .all(|row| row["quality"]["nll"].as_f64().unwrap() > 0.5)
    );
    // A correction of gain 0 is the denoiser.
    let base = done(dir, "sample --from base --steps 4 -n 2");
    assert_eq!(
        base,
        done(dir, "sample --from fast --steps 4 -n 2 --gain 0")
    );
    // A grid by its points: the uniform one is the same as its number of steps, others are not.
    let grid = |points: &str| done(dir, &format!("sample --from base --grid {points} -n 2"));
    assert_eq!(base, grid("0,0.25,0.5,0.75,1"));
    assert_ne!(base, grid("0,0.3,0.5,0.7,1"));
    let row = done(dir, "eval --from fast --grid 0,0.3,1 --samples 8 --json");
    let row = row.lines().next_back().unwrap();
    let row: serde_json::Value = serde_json::from_str(row).unwrap();
    assert_eq!((&row["k"], &row["grid"][1]), (&2.into(), &0.3.into()));
    done(dir, "doctor fast");
}

#[test]
fn a_file_of_text_from_data_to_filled_gaps() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("a.txt"), "the cat sat on the mat. ".repeat(200)).unwrap();
    done(dir, "data a.txt --out data --tokenizer char");
    let sizes = "--length 16 --width 16 --blocks 1 --heads 2 --batch 4 --steps 20";
    done(dir, &format!("train --out run --data data {sizes}"));
    let out = fewstep(dir, &["fill", "the {3} sat", "--from", "run", "-n", "2"]);
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(
        text.lines()
            .all(|l| l.starts_with("the ") && l.ends_with(" sat")),
        "{text}"
    );

    let traced = "fill {3}cat --from run --trace fill.html --steps 5";
    let text = done(dir, traced);
    assert_eq!(text, done(dir, "fill {3}cat --from run --steps 5"));
    let page = fs::read_to_string(dir.join("fill.html")).unwrap();
    assert!(page.contains("<pre>▒▒▒cat</pre>"), "{page}");
    assert!(page.contains(&format!("<pre>{}</pre>", text.trim_end_matches('\n'))));
    assert!(page.contains("step 5 of 5, t = 1.0000"), "{page}");

    refused(dir, &["fill", "no gap", "--from", "run"], "no gap");
    let lost = ["sample", "--from", "run", "--trace", "nowhere/a.html"];
    refused(dir, &lost, "nowhere/a.html");
    refused(
        dir,
        &["fill", "{99}", "--from", "run"],
        "the model holds 16",
    );
    refused(dir, &["fill", "Ж{2}", "--from", "run"], "Ж");
    let numbers = done(dir, "eval --from run --steps 2 --samples 4");
    assert!(numbers.contains("fitted to the training data"), "{numbers}");
    assert_eq!(numbers.lines().count(), 7, "{numbers}");
    refused(dir, &["sample", "--from", "run", "--steps", "0"], "0");
    refused(
        dir,
        &["sample", "--from", "run", "--temperature", "0"],
        "above 0",
    );
    for (grid, why) in [
        ("0,0.7,0.3,1", "point 2 is 0.3 after 0.7"),
        ("0.1,1", "it runs from 0.1 to 1"),
        ("-1,1", "it runs from -1 to 1"),
        ("0,half,1", "'half' is not a number"),
        ("", "'' is not a number"),
    ] {
        refused(dir, &["sample", "--from", "run", "--grid", grid], why);
        refused(dir, &["fill", "a{2}", "--from", "run", "--grid", grid], why);
    }
    let both = ["--from", "run", "--grid", "0,1", "--steps", "3"];
    refused(dir, &[&["sample"], &both[..]].concat(), "--steps");
    refused(dir, &["sample", "--from", "nowhere"], "nowhere");
    refused(dir, &["sample", "--from", "data"], "model.safetensors");
    refused(
        dir,
        &["train", "--out", "run", "--data", "data"],
        "--resume",
    );
    refused(
        dir,
        &["train", "--out", "x", "--data", "nowhere"],
        "nowhere",
    );
    refused(
        dir,
        &["train", "--out", "x", "--data", "data", "--length", "9999"],
        "--length",
    );
    refused(dir, &["train", "--out", "x", "--heads", "3"], "heads");
    refused(
        dir,
        &["accelerate", "--from", "run", "--out", "y", "--grids", "0"],
        "grids",
    );
    refused(
        dir,
        &[
            "accelerate",
            "--from",
            "run",
            "--out",
            "y",
            "--chain",
            "uniform",
        ],
        "mask",
    );
    assert!(
        !dir.join("x").exists() && !dir.join("y").exists(),
        "nothing is left of a refusal"
    );
    fs::write(dir.join("run/model.safetensors"), "broken").unwrap();
    refused(dir, &["sample", "--from", "run"], "model.safetensors");
}

/// The whole experiment through the binary; a second time it only goes on if asked to.
#[test]
fn one_command_from_nothing_to_a_report() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let line = "text --out t --chains masked,uniform --base-steps 3 --acceleration-steps 2 \
                --steps 1,2 --samples 4 --symbols 8 --length 8 --temperatures 1,0.8 --gains 1,2";
    let said = done(dir, line);
    for part in ["NLL, T = 1", "masked", "uniform", "report.html"] {
        assert!(said.contains(part), "{said}");
    }
    let page = fs::read_to_string(dir.join("t/report.html")).unwrap();
    assert!(page.contains("At matched entropy") && page.contains("Marginals of a step"));
    let json = fs::read_to_string(dir.join("t/report.json")).unwrap();
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(found["trainings"].as_array().unwrap().len(), 4);
    let args: Vec<&str> = line.split_whitespace().collect();
    refused(dir, &args, "--resume");
    assert_eq!(done(dir, &format!("{line} --resume")), said);
    refused(dir, &["text", "--out", "x", "--steps", "0"], "at least 1");
    refused(dir, &["text", "--out", "x", "--samples", "1"], "2 samples");
    assert!(!dir.join("x").exists(), "nothing is left of a refusal");
}

/// A checkpoint with DUO's names and config is sampled and accelerated as it is: on its own process
/// and on the mixture chain.
#[test]
fn a_duo_checkpoint_accelerates_without_conversion() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nn/tests/golden/dit-duo");
    fs::create_dir(dir.join("duo")).unwrap();
    for file in ["config.json", "model.safetensors"] {
        fs::copy(golden.join(file), dir.join("duo").join(file)).unwrap();
    }
    fs::write(dir.join("a.txt"), "abc cab ".repeat(200)).unwrap();
    done(dir, "data a.txt --out data --tokenizer char");
    let lines = done(dir, "sample --from duo --steps 2 -n 2");
    assert_eq!(lines.lines().filter(|l| !l.is_empty()).count(), 2);
    let how = "--from duo --data data --length 8 --steps 4 --batch 2 --correction 8 --warmup 1";
    for (chain, out) in [
        ("--method dag", "own"),
        ("--method dag --chain uniform", "mixture"),
        ("", "own-law"),
        ("--chain uniform", "mixture-law"),
    ] {
        let said = done(dir, &format!("accelerate {how} {chain} --out {out}"));
        assert!(said.contains("after 4 steps"), "{said}");
        let run = fs::read_to_string(dir.join(out).join("run.json")).unwrap();
        assert!(run.contains("\"prediction\": \"others\""), "{run}");
        // At gain 0 its own process is the checkpoint's.
        let plain = done(
            dir,
            &format!("sample --from {out} --steps 3 -n 2 --json --gain 0"),
        );
        let fast = done(
            dir,
            &format!("sample --from {out} --steps 3 -n 2 --json --gain 3000"),
        );
        assert!(plain != fast, "the correction does something");
    }
    refused(
        dir,
        &["accelerate", "--from", "duo", "--out", "x"],
        "--data",
    );
    refused(
        dir,
        &[
            "accelerate",
            "--from",
            "duo",
            "--data",
            "data",
            "--out",
            "x",
            "--chain",
            "masked",
        ],
        "mask",
    );
    let words = "abcdefghijklmnopqrstuvwxyz ".repeat(50);
    fs::write(dir.join("b.txt"), words).unwrap();
    done(dir, "data b.txt --out more --tokenizer char");
    refused(
        dir,
        &[
            "accelerate",
            "--from",
            "duo",
            "--data",
            "more",
            "--out",
            "x",
        ],
        "symbols",
    );
    assert!(!dir.join("x").exists(), "nothing is left of a refusal");
}

/// Twenty kills at odd moments, and the files of a run that was left alone.
#[cfg(unix)]
#[test]
fn killed_training_ends_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let line = format!("train --chain masked --steps 1200 --save-seconds 0 {TINY} --resume --out");
    done(dir, &format!("{line} whole"));
    let args: Vec<&str> = line.split_whitespace().chain(["killed"]).collect();
    for i in 0..20 {
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("fewstep"))
            .current_dir(dir)
            .args(&args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(37 + 53 * (i * i % 11)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    done(dir, &format!("{line} killed"));
    for file in [
        "model.safetensors",
        "state.safetensors",
        "config.json",
        "run.json",
    ] {
        let read = |run: &str| fs::read(dir.join(run).join(file)).unwrap();
        assert!(read("whole") == read("killed"), "{file} differs");
    }
    let steps = |run: &str| {
        let metrics = fs::read_to_string(dir.join(run).join("metrics.jsonl")).unwrap();
        let step = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["step"].as_u64().unwrap()
        };
        metrics.lines().map(step).collect::<Vec<u64>>()
    };
    assert_eq!(steps("whole"), steps("killed"));
}
