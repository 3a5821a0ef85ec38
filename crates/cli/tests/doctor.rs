//! `fewstep doctor` as a user types it.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use fewstep_nn::checkpoint::{self, Blueprint};
use fewstep_nn::dit::{Config, Layout, Tensor, TimeInput};
use fewstep_nn::{inception, maskgit, vqgan};
use serde_json::{Value, json};

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

/// A file of zeros with these tensors.
fn zeros(path: &Path, tensors: &[Tensor]) {
    let entry = |tensor: &Tensor| {
        let offsets = [4 * tensor.range.start, 4 * tensor.range.end];
        let about = json!({ "dtype": "F32", "shape": tensor.shape, "data_offsets": offsets });
        (tensor.name.clone(), about)
    };
    let header: serde_json::Map<String, Value> = tensors.iter().map(entry).collect();
    let header = Value::from(header).to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + 4 * tensors.last().unwrap().range.end, 0);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn networks_of_pictures() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("network.safetensors");
    let vqgan = vqgan::Config {
        widths: vec![32, 64],
        attention: vec![false, true],
        blocks: 1,
        first: 32,
        latent: 8,
        embedding: 6,
        codes: 11,
        ..vqgan::Config::imagenet()
    };
    let maskgit = maskgit::Config {
        codes: 11,
        side: 3,
        width: 48,
        blocks: 1,
        heads: 1,
        ..maskgit::Config::imagenet(256).unwrap()
    };
    let inception = inception::Config {
        first: 2,
        classes: None,
    };
    for (tensors, family, sizes) in [
        (
            vqgan.tensors(),
            "VQGAN",
            "11 codes of 6, f2, levels of 32 64 channels",
        ),
        (
            maskgit.tensors(),
            "MaskGIT",
            "3 x 3 codes of 11, 1000 classes, width 48",
        ),
        (
            inception.tensors(),
            "Inception",
            "128 features, no head for logits",
        ),
    ] {
        zeros(&path, &tensors);
        let result = doctor(&path, &[]);
        assert_eq!(result.status.code(), Some(0), "{result:?}");
        let lines = text(&result.stdout);
        for expected in [
            format!("family       {family}\n"),
            format!("sizes        {sizes}"),
            "verdict      can be loaded\n".into(),
        ] {
            assert!(lines.contains(&expected), "{expected}{lines}");
        }
        let report: Value = serde_json::from_slice(&doctor(&path, &["--json"]).stdout).unwrap();
        let total = tensors.last().unwrap().range.end;
        assert_eq!(report["network"]["parameters"], total);
        // The same file with one tensor under another name.
        let mut wrong = tensors;
        wrong.last_mut().unwrap().name = "strange".into();
        zeros(&path, &wrong);
        let result = doctor(&path, &[]);
        assert_eq!(result.status.code(), Some(1), "{result:?}");
        assert!(
            text(&result.stdout).contains("unexpected   strange"),
            "{result:?}"
        );
        assert_eq!(text(&result.stderr).lines().count(), 1);
    }
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
