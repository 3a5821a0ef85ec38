//! `fewstep doctor` as a user types it.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use fewstep_nn::checkpoint;
use fewstep_nn::dit::{Config, Layout, TimeInput};
use serde_json::Value;

fn doctor(path: &Path, words: &[&str]) -> Output {
    Command::new(cargo_bin!("fewstep"))
        .arg("doctor")
        .arg(path)
        .args(words)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn saved(directory: &Path) -> (Config, Vec<f32>) {
    let config = Config {
        time: TimeInput::Sigma { eps: 1e-3 },
        blocks: 1,
        ..Config::named("tiny", 17).unwrap()
    };
    let parameters = vec![0.25; Layout::parameters(&config).unwrap()];
    checkpoint::save(directory, &config, &parameters).unwrap();
    (config, parameters)
}

#[test]
fn a_good_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let (config, _) = saved(directory.path());
    for path in [
        directory.path().into(),
        directory.path().join("model.safetensors"),
    ] {
        let result = doctor(&path, &[]);
        assert_eq!(result.status.code(), Some(0), "{result:?}");
        let lines = text(&result.stdout);
        for expected in [
            "format       safetensors, ",
            "family       DUO\n",
            "sizes        width 256, 1 blocks, 8 heads, conditioning 128, vocabulary 17, length 1024\n",
            "time input   sigma with eps 0.001\n",
            "mask         none\n",
            "averaged     no\n",
            "verdict      can be loaded\n",
        ] {
            assert!(lines.contains(expected), "{expected}{lines}");
        }
        assert!(result.stderr.is_empty(), "{result:?}");
    }
    let result = doctor(directory.path(), &["--json"]);
    let report: Value = serde_json::from_slice(&result.stdout).unwrap();
    assert_eq!(report["failure"], Value::Null);
    let parameters = Layout::parameters(&config).unwrap();
    assert_eq!(report["sizes"]["parameters"], parameters);
}

#[test]
fn a_checkpoint_that_cannot_be_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let (config, mut parameters) = saved(directory.path());
    parameters[3] = f32::NAN;
    checkpoint::save(directory.path(), &config, &parameters).unwrap();
    let result = doctor(directory.path(), &[]);
    assert_eq!(result.status.code(), Some(1));
    let lines = text(&result.stdout);
    assert!(
        lines.contains("not finite   backbone.vocab_embed.embedding: 1 values (raw)\n"),
        "{lines}"
    );
    let last = text(&result.stderr);
    assert!(
        last.contains("1 tensors have weights that are not finite"),
        "{last}"
    );
    assert_eq!(last.lines().count(), 1);

    std::fs::remove_file(directory.path().join("config.json")).unwrap();
    let result = doctor(directory.path(), &["--json"]);
    assert_eq!(result.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&result.stdout).unwrap();
    assert!(
        report["failure"]
            .as_str()
            .unwrap()
            .contains("family unknown")
    );
    assert_eq!(report["sizes"]["width"], 256);
}

#[test]
fn what_is_no_checkpoint_is_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let garbage = directory.path().join("model.ckpt");
    std::fs::write(&garbage, "no archive").unwrap();
    for (path, words) in [
        (
            directory.path().join("missing"),
            "no such file or directory",
        ),
        (
            directory.path().join("missing.ckpt"),
            "no such file or directory",
        ),
        (directory.path().to_owned(), "holds no model.safetensors"),
        (garbage, "no zip archive"),
    ] {
        let result = doctor(&path, &[]);
        assert_eq!(result.status.code(), Some(1), "{path:?}");
        assert!(result.stdout.is_empty(), "{result:?}");
        let line = text(&result.stderr);
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(
            line.contains(words) && line.contains(path.to_str().unwrap()),
            "{line}"
        );
    }
    let none = Command::new(cargo_bin!("fewstep"))
        .arg("doctor")
        .output()
        .unwrap();
    assert_eq!(none.status.code(), Some(2));
}
