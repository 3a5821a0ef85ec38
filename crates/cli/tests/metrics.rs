//! `fewstep metrics` as a user types it.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

mod thin;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use assert_cmd::cargo::cargo_bin;
use fewstep::metrics::{Features, Kept, Statistics, frechet};
use fewstep_nn::layers::picture::Pictures;
use serde_json::Value;

fn metrics(samples: &Path, reference: &Path, more: &[&str]) -> Output {
    Command::new(cargo_bin!("fewstep"))
        .arg("metrics")
        .arg(samples)
        .arg("--reference")
        .arg(reference)
        .args(more)
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// One line on what is wrong.
fn refused(output: &Output, code: i32, words: &[&str]) {
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(words.iter().all(|word| line.contains(word)), "{line}");
    assert!(output.stdout.is_empty());
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(all) => all.iter().flat_map(numbers).collect(),
        number => vec![number.as_f64().unwrap()],
    }
}

fn close(found: &Value, expected: f64, what: &str) {
    let found = found.as_f64().unwrap();
    let far = (found - expected).abs();
    assert!(
        far < 1e-5 * (1.0 + expected.abs()),
        "{what}: {found} not {expected}"
    );
}

/// From files of features: the numbers that NumPy and SciPy give (`golden/make_metrics.py`).
#[test]
fn features_of_files_give_the_numbers_of_scipy() {
    let golden = include_str!("../../fewstep/tests/golden/metrics.json");
    let golden: Value = serde_json::from_str(golden).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, key: &str, dimensions: usize| {
        let features = Features {
            dimensions,
            values: numbers(&golden[key]),
            logits: None,
        };
        let path = dir.path().join(name);
        features.write(&path).unwrap();
        path
    };
    let (real, fake) = (put("real.npz", "real", 6), put("fake.npz", "fake", 6));
    let found = json(&metrics(&fake, &real, &["--json"]));
    close(&found["fid"], golden["frechet"].as_f64().unwrap(), "FID");
    for name in ["precision", "recall", "density", "coverage"] {
        close(
            &found[name],
            golden["chunked"][name].as_f64().unwrap(),
            name,
        );
    }
    assert!(found["inception_score"].is_null());
    let text = metrics(&fake, &real, &[]).stdout;
    assert!(String::from_utf8_lossy(&text).contains("no Inception Score"));

    let other = put("other.npz", "fake", 3);
    refused(&metrics(&other, &real, &[]), 1, &["3", "6", "dimensions"]);
    let missing = dir.path().join("nothing.npz");
    refused(&metrics(&missing, &real, &[]), 1, &["nothing.npz"]);
    refused(&metrics(dir.path(), &real, &[]), 2, &["--inception"]);
    let whole = fs::read(&fake).unwrap();
    fs::write(&fake, &whole[..whole.len() / 2]).unwrap();
    refused(&metrics(&fake, &real, &[]), 1, &["fake.npz", "no archive"]);
}

/// Pictures of noise as IDX files.
fn pictures(directory: &Path, count: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let pixels: Vec<u8> = (0..count * 64).map(|_| byte()).collect();
    let size = |n: usize| (n as u32).to_be_bytes();
    let head = [[0, 0, 8, 3], size(count), size(8), size(8)].concat();
    let file = directory.join("t10k-images-idx3-ubyte");
    fs::write(file, [&head[..], &pixels].concat()).unwrap();
    let head = [[0, 0, 8, 1], size(count)].concat();
    let file = directory.join("t10k-labels-idx1-ubyte");
    fs::write(file, [&head[..], &vec![0; count]].concat()).unwrap();
    pixels
}

/// From directories: a thin Inception looks at the pictures once, and what it saw is found again.
#[test]
fn directories_are_seen_once() {
    let dir = tempfile::tempdir().unwrap();
    let weights = dir.path().join("inception.safetensors");
    let network = thin::inception(&weights, 0);

    let see = |name: &str, count: usize, seed: u32| {
        let directory = dir.path().join(name);
        fs::create_dir(&directory).unwrap();
        let pixels = pictures(&directory, count, seed);
        let of = Pictures {
            count,
            height: 8,
            width: 8,
            channels: 1,
        };
        let features = network.judge(of, &pixels).unwrap().features;
        let features: Vec<f64> = features.into_iter().map(f64::from).collect();
        (
            directory,
            Statistics::of(&features, thin::DIMENSIONS).unwrap(),
        )
    };
    let ((made, ours), (real, theirs)) = (see("made", 20, 1), see("real", 21, 2));
    let with = ["--inception", weights.to_str().unwrap(), "--json"];
    let first = metrics(&made, &real, &with);
    assert!(String::from_utf8_lossy(&first.stderr).contains("seeing"));
    let found = json(&first);
    close(&found["fid"], frechet(&ours, &theirs).unwrap(), "FID");
    assert!(found["fid"].as_f64().unwrap() > 1e-3, "{found}");
    assert!(found["inception_score"].as_f64().unwrap() >= 1.0);
    assert!(found["coverage"].as_f64().is_some());
    assert_eq!(
        (&found["samples"], &found["reference"]),
        (&20.into(), &21.into())
    );
    assert!(found["notes"][0].as_str().unwrap().contains("singular"));

    let again = metrics(&made, &real, &with);
    assert!(again.stderr.is_empty(), "{again:?}");
    assert_eq!(json(&again), found);
    let kept = |directory: &Path| -> Vec<PathBuf> {
        let all = fs::read_dir(directory).unwrap().map(|e| e.unwrap().path());
        all.filter(|path| path.extension().is_some_and(|e| e == "npz"))
            .collect()
    };
    assert_eq!(kept(&made).len(), 1);
    let Kept::Features(features) = Kept::read(&kept(&made)[0]).unwrap() else {
        panic!("no features");
    };
    assert_eq!(
        (features.dimensions, features.count()),
        (thin::DIMENSIONS, 20)
    );

    let one = dir.path().join("one");
    fs::create_dir(&one).unwrap();
    pictures(&one, 1, 3);
    let alone = metrics(&one, &real, &with);
    let line = String::from_utf8_lossy(&alone.stderr);
    assert_eq!(alone.status.code(), Some(1), "{line}");
    assert!(
        line.contains("1 pictures are too few for a covariance"),
        "{line}"
    );
    // Another picture is not taken for the first.
    pictures(&one, 1, 5);
    assert_eq!(metrics(&one, &real, &with).status.code(), Some(1));
    assert_eq!(kept(&one).len(), 2);
    fs::write(&weights, b"no weights").unwrap();
    refused(&metrics(&one, &real, &with), 1, &["inception.safetensors"]);
}
