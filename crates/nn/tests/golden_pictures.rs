//! Networks of pictures against PyTorch: programs of ours in `golden/make_*.py`, written apart from
//! the networks here, computed these numbers in f64 with weights that both sides make by a formula.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::path::{Path, PathBuf};

use fewstep_nn::{
    Batch, Learner, Network, Real, Rows, Want,
    checkpoint::{Blueprint, Error, Options, load_network},
    dit::{Pass, Step},
    inception::{self, Inception},
    layers::picture::Pictures,
    layout::Tensor,
    maskgit::{self, MaskGit},
    vqgan::{self, Vqgan},
};
use safetensors::{Dtype, tensor::TensorView};
use serde_json::Value;

fn golden(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    serde_json::from_str(&std::fs::read_to_string(path.join(name)).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    let entries = value.as_array().unwrap().iter();
    entries.map(|entry| entry.as_f64().unwrap()).collect()
}

fn compare(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let mut worst = 0f64;
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        let distance = (a - b).abs() / b.abs().max(1.0);
        assert!(distance <= tolerance, "{what}[{i}]: {a} not {b}");
        worst = worst.max(distance);
    }
    println!("{what}: {worst:.1e}");
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

/// `n` numbers in `[-1/2, 1/2)`, as `golden/formula.py` makes them.
fn noise(n: usize, k: usize) -> impl Iterator<Item = f64> {
    (0..n as u64).map(move |i| {
        let mut h = (i * 2_654_435_761 + (k as u64 + 1) * 40_503 * 65_537) & 0xFFFF_FFFF;
        h ^= h >> 15;
        h = (h * 2_246_822_519) & 0xFFFF_FFFF;
        h ^= h >> 13;
        h as f64 / 4_294_967_296.0 - 0.5
    })
}

/// The weights of `golden/formula.py`.
fn weights(tensors: &[Tensor]) -> Vec<f32> {
    let of = |(k, tensor): (usize, &Tensor)| {
        let (name, shape) = (&tensor.name, &tensor.shape);
        let fan: usize = shape[1..].iter().product();
        // Twice the variance where ReLU follows.
        let variance = if name.starts_with("layers.") {
            24.0
        } else {
            12.0
        };
        let bound = (variance / fan as f64).sqrt();
        let weight = |u: f64| {
            let norm = name.contains("norm") && name.ends_with("weight");
            if norm || name.ends_with("var") {
                1.0 + u / 2.0
            } else if shape.len() == 1 {
                u / 2.0
            } else if name.contains("emb") {
                2.0 * u
            } else {
                u * bound
            }
        };
        let values: Vec<f32> = noise(shape.iter().product(), k)
            .map(|u| weight(u) as f32)
            .collect();
        values
    };
    tensors.iter().enumerate().flat_map(of).collect()
}

/// A file of these tensors and of more.
fn file(directory: &Path, (tensors, parameters): (&[Tensor], &[f32]), more: &[&str]) -> PathBuf {
    let bytes: Vec<u8> = parameters.iter().flat_map(|v| v.to_le_bytes()).collect();
    let slots = tensors.iter().map(|tensor| {
        let bytes = &bytes[4 * tensor.range.start..4 * tensor.range.end];
        let view = TensorView::new(Dtype::F32, tensor.shape.clone(), bytes);
        (tensor.name.clone(), view.unwrap())
    });
    let spare = more.iter().map(|name| {
        let view = TensorView::new(Dtype::F32, vec![2], &bytes[..8]);
        (name.to_string(), view.unwrap())
    });
    let path = directory.join("network.safetensors");
    let all: Vec<(String, TensorView)> = slots.chain(spare).collect();
    safetensors::serialize_to_file(all, None, &path).unwrap();
    path
}

fn tiny_vqgan() -> vqgan::Config {
    vqgan::Config {
        channels: 3,
        widths: vec![32, 64],
        attention: vec![false, true],
        blocks: 1,
        first: 32,
        latent: 8,
        embedding: 6,
        codes: 11,
    }
}

#[test]
fn pixels_and_codes_are_those_of_pytorch() {
    let (config, golden) = (tiny_vqgan(), golden("vqgan-golden.json"));
    let tensors = config.tensors();
    let directory = tempfile::tempdir().unwrap();
    let parameters = weights(&tensors);
    let path = file(directory.path(), (&tensors, &parameters), &["loss.logvar"]);
    let narrow = Vqgan::<f32>::load(&path, &Options::default()).unwrap();
    assert_eq!(narrow.config(), &config);
    let exact = Vqgan::from_parameters(config, wide(&parameters)).unwrap();
    let pictures = Pictures {
        count: 1,
        height: 16,
        width: 8,
        channels: 3,
    };
    let x = numbers(&golden["picture"]);
    let x32: Vec<f32> = x.iter().map(|&v| v as f32).collect();
    let (vectors, pixels) = (numbers(&golden["vectors"]), numbers(&golden["pixels"]));
    let codes: Vec<usize> = numbers(&golden["codes"])
        .iter()
        .map(|&c| c as usize)
        .collect();
    compare(
        &exact.vectors(pictures, &x).unwrap(),
        &vectors,
        1e-8,
        "vectors in f64",
    );
    compare(
        &wide(&narrow.vectors(pictures, &x32).unwrap()),
        &vectors,
        2e-4,
        "vectors in f32",
    );
    assert_eq!(narrow.encode(pictures, &x32).unwrap(), codes);
    compare(
        &exact.decode((1, 8, 4), &codes).unwrap(),
        &pixels,
        1e-8,
        "pixels in f64",
    );
    compare(
        &wide(&narrow.decode((1, 8, 4), &codes).unwrap()),
        &pixels,
        2e-4,
        "pixels in f32",
    );
    // Several pictures at once are the same pictures.
    let twice = narrow
        .decode((2, 8, 4), &[&codes[..], &codes[..]].concat())
        .unwrap();
    let one = narrow.decode((1, 8, 4), &codes).unwrap();
    assert_eq!(twice, [&one[..], &one[..]].concat());
}

#[test]
fn what_is_no_picture_of_a_vqgan_is_refused() {
    let config = tiny_vqgan();
    let net = Vqgan::from_parameters(config.clone(), weights(&config.tensors())).unwrap();
    let pictures = Pictures {
        count: 1,
        height: 15,
        width: 8,
        channels: 3,
    };
    assert!(net.encode(pictures, &vec![0.0; pictures.size()]).is_err());
    let grey = Pictures {
        height: 16,
        channels: 1,
        ..pictures
    };
    assert!(net.encode(grey, &vec![0.0; grey.size()]).is_err());
    let error = net.decode((1, 2, 2), &[0, 1, 11, 2]).unwrap_err();
    assert!(error.to_string().contains("code 11"), "{error}");
    assert!(net.decode((1, 2, 2), &[0, 1, 2]).is_err());
}

/// The whole network, thin: every kind of block, the resize, grey pictures, features and logits.
#[test]
fn features_are_those_of_pytorch() {
    let config = inception::Config {
        first: 2,
        classes: Some(10),
    };
    let golden = golden("inception-golden.json");
    let tensors = config.tensors();
    let directory = tempfile::tempdir().unwrap();
    let parameters = weights(&tensors);
    let path = file(directory.path(), (&tensors, &parameters), &["output.bias"]);
    let narrow = Inception::<f32>::load(&path, &Options::default()).unwrap();
    let exact = Inception::from_parameters(config, wide(&parameters)).unwrap();
    for (key, channels) in [("colour", 3), ("grey", 1)] {
        let pictures = Pictures {
            count: 2,
            height: 20,
            width: 30,
            channels,
        };
        let bytes: Vec<u8> = noise(pictures.size(), 998)
            .map(|u| ((u + 0.5) * 256.0) as u8)
            .collect();
        let (features, logits) = (
            numbers(&golden[key]["features"]),
            numbers(&golden[key]["logits"]),
        );
        let found = exact.judge(pictures, &bytes).unwrap();
        compare(&found.features, &features, 1e-7, "features in f64");
        compare(&found.logits.unwrap(), &logits, 1e-7, "logits in f64");
        let found = narrow.judge(pictures, &bytes).unwrap();
        compare(&wide(&found.features), &features, 2e-4, "features in f32");
        compare(
            &wide(&found.logits.unwrap()),
            &logits,
            2e-4,
            "logits in f32",
        );
        assert!(exact.judge(pictures, &bytes[1..]).is_err());
        assert!(exact.judge(pictures.with(2), &bytes).is_err());
    }
}

fn all_logits<T: Real>(net: &MaskGit<T>, x: &[usize]) -> Vec<f64> {
    let mut pass = Pass::default();
    let (t, r) = ([0.2, 0.4], [0.3, 0.9]);
    net.evaluate(Batch { x, t: &t, r: &r }, Want::default(), &mut pass);
    let codes: Vec<usize> = (0..x.len()).filter(|row| row % 10 != 9).collect();
    let rows = net.visit(&pass, Rows::plain(&codes), |_, row| row.value.to_vec());
    rows.concat().iter().map(|l| l.widen()).collect()
}

#[test]
fn logits_are_those_of_pytorch() {
    let config = maskgit::Config {
        codes: 11,
        classes: 1000,
        side: 3,
        width: 96,
        blocks: 2,
        heads: 2,
        conditioning: 128,
        step: Step::Trunk,
        predicts_mask: true,
    };
    let golden = golden("maskgit-golden.json");
    let x: Vec<usize> = numbers(&golden["ids"])
        .iter()
        .map(|&id| id as usize)
        .collect();
    assert_eq!((x[9], x[19]), (config.class(Some(17)), config.class(None)));
    let expected = numbers(&golden["logits"]);
    let tensors = config.tensors();
    let parameters = weights(&tensors);
    let exact = MaskGit::from_published(config.clone(), &wide(&parameters)).unwrap();
    compare(&all_logits(&exact, &x), &expected, 1e-8, "logits in f64");
    let narrow = MaskGit::from_published(config.clone(), &parameters).unwrap();
    compare(&all_logits(&narrow, &x), &expected, 2e-4, "logits in f32");
    // From a file, where the mask is not predicted; and not from one with a strange tensor.
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), (&tensors, &parameters), &[]);
    let step = Step::Correction { width: 16 };
    let loaded = MaskGit::<f32>::load(&path, step, &Options::default()).unwrap();
    let same = maskgit::Config {
        step,
        predicts_mask: false,
        ..config
    };
    assert_eq!(loaded.config(), &same);
    let mut expected = expected;
    expected.chunks_exact_mut(12).for_each(|row| row[11] = -1e9);
    compare(
        &all_logits(&loaded, &x),
        &expected,
        2e-4,
        "logits of a file",
    );
    let path = file(directory.path(), (&tensors, &parameters), &["rand_token"]);
    assert!(MaskGit::<f32>::load(&path, step, &Options::default()).is_err());
}

/// What is saved is read again: under the published names alone where no step is seen, else with ours
/// beside them.
#[test]
fn a_maskgit_is_saved_and_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("net.safetensors");
    for step in [Step::None, Step::Trunk, Step::Correction { width: 16 }] {
        let config = maskgit::Config {
            codes: 11,
            classes: 1000,
            side: 3,
            width: 96,
            blocks: 2,
            heads: 2,
            conditioning: 24,
            step,
            predicts_mask: false,
        };
        let mut net = MaskGit::<f32>::new(config.clone(), 3).unwrap();
        if step != Step::None {
            let parameters = net.parameters_mut().iter_mut().enumerate();
            parameters.for_each(|(i, p)| *p += (0.7 * i as f32).sin());
        }
        net.save(&path).unwrap();
        // What is asked for counts only where the file has none.
        let asked = match step {
            Step::Trunk => Step::Correction { width: 4 },
            _ => Step::None,
        };
        let read = MaskGit::<f32>::load(&path, asked, &Options::default()).unwrap();
        assert_eq!(read.config().step, step);
        assert_eq!(read.parameters(), net.parameters());
        let report = fewstep_nn::checkpoint::inspect(&path);
        assert_eq!(report.failure, None);
    }
}

/// A file that does not fit lists all that is wrong with it.
#[test]
fn loading_is_strict() {
    let config = tiny_vqgan();
    let directory = tempfile::tempdir().unwrap();
    let mut tensors = config.tensors();
    let parameters = weights(&tensors);
    tensors.retain(|tensor| tensor.name != "decoder.mid.attn_1.k.bias");
    for tensor in &mut tensors {
        if tensor.name == "decoder.conv_out.bias" {
            tensor.shape = vec![1, 3];
        }
    }
    let path = file(
        directory.path(),
        (&tensors, &parameters),
        &["decoder.extra"],
    );
    let error = load_network::<vqgan::Config, f32>(&path, &Options::default()).unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(error, Error::Unfit { problems, .. } if problems.len() == 3),
        "{text}"
    );
    for part in [
        "missing decoder.mid.attn_1.k.bias",
        "unexpected decoder.extra",
        "wrong shape decoder.conv_out.bias",
    ] {
        assert!(text.contains(part), "{text}");
    }
}
