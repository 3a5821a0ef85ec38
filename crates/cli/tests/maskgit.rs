//! `fewstep maskgit` as a user types it, with networks of small sizes.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use assert_cmd::cargo::cargo_bin;
use fewstep_nn::{
    Learner,
    checkpoint::{self, Blueprint},
    dit::Step,
    maskgit::{self, MaskGit},
    vqgan,
};

fn noise(i: usize) -> f32 {
    (i as f32 * 12.9898).sin() * 0.3
}

fn tokenizer(path: &Path, codes: usize) {
    let config = vqgan::Config {
        channels: 3,
        widths: vec![32, 64],
        attention: vec![false, true],
        blocks: 1,
        first: 32,
        latent: 8,
        embedding: 6,
        codes,
    };
    let tensors = config.tensors();
    let total = tensors.last().unwrap().range.end;
    let parameters: Vec<f32> = (0..total).map(noise).collect();
    checkpoint::save_network(path, &tensors, &parameters).unwrap();
}

/// 4 x 4 codes.
fn transformer(path: &Path, step: Step) {
    let config = maskgit::Config {
        codes: 11,
        classes: 1000,
        side: 4,
        width: 48,
        blocks: 2,
        heads: 1,
        conditioning: 16,
        step,
        predicts_mask: false,
    };
    let mut net = MaskGit::<f32>::new(config, 1).unwrap();
    if step != Step::None {
        let parameters = net.parameters_mut().iter_mut().enumerate();
        parameters.for_each(|(i, p)| *p += noise(i));
    }
    net.save(path).unwrap();
}

fn paint(net: &Path, vqgan: &Path, out: &Path, more: &[&str]) -> Output {
    Command::new(cargo_bin!("fewstep"))
        .args(["maskgit", "sample"])
        .arg("--maskgit")
        .arg(net)
        .arg("--vqgan")
        .arg(vqgan)
        .arg("--out")
        .arg(out)
        .args(more)
        .output()
        .unwrap()
}

fn files(directory: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    names.sort();
    names.iter().map(|name| fs::read(name).unwrap()).collect()
}

#[test]
fn files_become_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (net, ours, vqgan) = (
        at("net.safetensors"),
        at("ours.safetensors"),
        at("vq.safetensors"),
    );
    transformer(&net, Step::None);
    transformer(&ours, Step::Correction { width: 8 });
    tokenizer(&vqgan, 11);
    let made = |net: &Path, name: &str, more: &[&str]| {
        let out = at(name);
        let result = paint(net, &vqgan, &out, &[&["-n", "3"], more].concat());
        assert_eq!(result.status.code(), Some(0), "{result:?}");
        let words = String::from_utf8_lossy(&result.stderr).into_owned();
        (files(&out), words)
    };
    let (pictures, words) = made(&net, "a", &["--guidance", "2", "--classes", "7,950"]);
    assert_eq!(pictures.len(), 3);
    assert!(words.contains("8 network evaluations"), "{words}");
    // A PNG of 8 x 8 pixels, says its header.
    assert!(pictures.iter().all(|png| png.starts_with(b"\x89PNG")));
    assert_eq!(pictures[0][16..24], [0, 0, 0, 8, 0, 0, 0, 8]);
    assert_ne!(pictures[0], pictures[1]);
    // The same in any batch; others with another class, seed, order or network.
    let same = ["--guidance", "2", "--classes", "7,950", "--batch", "1"];
    assert_eq!(made(&net, "b", &same).0, pictures);
    let (other, words) = made(&net, "c", &["--order", "confidence", "--seed", "3"]);
    assert!(words.contains("4 network evaluations"), "{words}");
    assert_ne!(other, pictures);
    let (accelerated, _) = made(&ours, "d", &[]);
    let (damped, _) = made(&ours, "e", &["--gain", "0"]);
    assert_ne!(accelerated, damped);
}

#[test]
fn what_does_not_fit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (net, vqgan, out) = (at("net.safetensors"), at("vq.safetensors"), at("out"));
    transformer(&net, Step::None);
    tokenizer(&vqgan, 11);
    let refused = |result: Output, code: i32, word: &str| {
        let line = String::from_utf8_lossy(&result.stderr);
        assert_eq!(result.status.code(), Some(code), "{line}");
        assert!(line.lines().count() == 1 && line.contains(word), "{line}");
        assert!(!out.exists());
    };
    refused(
        paint(&net, &vqgan, &out, &["--classes", "1000"]),
        2,
        "no class 1000",
    );
    refused(paint(&vqgan, &vqgan, &out, &[]), 1, "no MaskGIT");
    refused(paint(&at("none"), &vqgan, &out, &[]), 1, "none");
    tokenizer(&vqgan, 12);
    refused(paint(&net, &vqgan, &out, &[]), 2, "do not belong together");
}

fn fewstep(words: &[&str]) -> Output {
    Command::new(cargo_bin!("fewstep"))
        .args(words)
        .output()
        .unwrap()
}

/// Pictures to codes, a few steps of training, stopped and gone on with, and pictures of what came out.
#[test]
fn the_run_of_imagenet_in_small() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (net, vqgan, codes) = (at("net.safetensors"), at("vq.safetensors"), at("codes.npy"));
    transformer(Path::new(&net), Step::None);
    tokenizer(Path::new(&vqgan), 11);
    // Generated pictures in the folders of two classes are the data.
    for (class, seed) in [("a", "1"), ("b", "2")] {
        let out = at(&format!("data/{class}"));
        let words = ["-n", "5", "--seed", seed];
        let made = paint(Path::new(&net), Path::new(&vqgan), Path::new(&out), &words);
        assert_eq!(made.status.code(), Some(0), "{made:?}");
    }
    let encode = [
        "maskgit",
        "encode",
        &at("data"),
        "--vqgan",
        &vqgan,
        "--out",
        &codes,
    ];
    let made = fewstep(&[&encode[..], &["--pixels", "8"]].concat());
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    assert!(String::from_utf8_lossy(&made.stdout).contains("10 pictures"));

    let train = |out: &str, steps: &str, more: &[&str]| {
        let words = [
            "maskgit",
            "accelerate",
            "--from",
            &net,
            "--codes",
            &codes,
            "--out",
            out,
            "--batch",
            "4",
            "--warmup",
            "1",
            "--rate",
            "1e-2",
            "--ema",
            "0.5",
            "--save-every",
            "2",
            "--steps",
            steps,
        ];
        fewstep(&[&words[..], more].concat())
    };
    let (whole, parts) = (at("whole"), at("parts"));
    let done = train(&whole, "4", &[]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(train(&parts, "2", &[]).status.code(), Some(0));
    assert_eq!(train(&parts, "4", &["--resume"]).status.code(), Some(0));
    let file = |run: &str| Path::new(run).join("maskgit.safetensors");
    let bytes = fs::read(file(&whole)).unwrap();
    assert!(
        bytes == fs::read(file(&parts)).unwrap(),
        "other bits after a stop"
    );

    // It sees steps now, and other pictures come out than before.
    let out = at("after");
    let made = paint(
        &file(&whole),
        Path::new(&vqgan),
        Path::new(&out),
        &["-n", "2"],
    );
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let plain = at("before");
    let made = paint(
        Path::new(&net),
        Path::new(&vqgan),
        Path::new(&plain),
        &["-n", "2"],
    );
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    assert_ne!(files(Path::new(&out)), files(Path::new(&plain)));

    fs::write(&codes, b"no codes").unwrap();
    let bad = train(&at("other"), "1", &[]);
    let line = String::from_utf8_lossy(&bad.stderr);
    assert_eq!(
        (bad.status.code(), line.lines().count()),
        (Some(1), 1),
        "{line}"
    );
    assert!(line.contains("codes.npy") && !Path::new(&at("other")).exists());
}
