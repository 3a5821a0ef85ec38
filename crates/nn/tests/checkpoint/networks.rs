//! Networks of pictures in files of torch, with what their training leaves beside them.

use fewstep_nn::checkpoint::{Blueprint, Error, Options, inspect, load_network};
use fewstep_nn::layout::Tensor;
use fewstep_nn::{inception, maskgit, vqgan};

use crate::support::*;

/// A file with one state dict under `key`, of `tensors` and of more that are no weights.
fn torch(key: &str, tensors: &[Tensor], more: &[&str]) -> Vec<u8> {
    let mut pickle = Pickler::new();
    let mut storages = Vec::new();
    pickle.op(b"}(").text("epoch").int(3).text(key);
    pickle.global("collections", "OrderedDict").op(b")R(");
    for (k, tensor) in tensors.iter().enumerate() {
        pickle
            .text(&tensor.name)
            .tensor(&Spec::of(k, &tensor.shape));
        let values = (0..tensor.range.len()).map(|i| value(k, i));
        storages.push((k.to_string(), bytes(&values.collect::<Vec<f32>>())));
    }
    for name in more {
        let whole = Spec {
            class: "LongStorage",
            ..Spec::of(name, &[1])
        };
        pickle.text(name).tensor(&whole);
        storages.push((name.to_string(), vec![0; 8]));
    }
    archive(&pickle.op(b"uu").end(), &storages)
}

fn tokenizer() -> vqgan::Config {
    vqgan::Config {
        widths: vec![32],
        attention: vec![true],
        blocks: 1,
        first: 32,
        latent: 4,
        embedding: 3,
        codes: 5,
        ..vqgan::Config::imagenet()
    }
}

#[test]
fn a_tokenizer_as_lightning_saves_it() {
    let config = tokenizer();
    let tensors = config.tensors();
    let spare = ["loss.discriminator.main.3.num_batches_tracked"];
    let file = TestFile::new("last.ckpt", &torch("state_dict", &tensors, &spare));
    let held = load_network::<vqgan::Config, f32>(&file.path, &Options::default()).unwrap();
    assert_eq!(held.config, config);
    for (k, tensor) in tensors.iter().enumerate() {
        let found = &held.parameters[tensor.range.clone()];
        let expected = (0..found.len()).map(|i| value(k, i));
        assert!(found.iter().copied().eq(expected), "{}", tensor.name);
    }
    let report = inspect(&file.path);
    assert_eq!(report.failure, None);
    let network = report.network.unwrap();
    assert_eq!(
        (network.name, network.parameters),
        ("VQGAN", Some(held.parameters.len()))
    );
    // The same beside it that is not of the loss is too much.
    let bytes = torch("state_dict", &tensors, &["decoder.steps"]);
    let file = TestFile::new("last.ckpt", &bytes);
    let error = load_network::<vqgan::Config, f32>(&file.path, &Options::default());
    assert!(matches!(error, Err(Error::Unfit { problems, .. }) if problems.len() == 1));
    assert_eq!(inspect(&file.path).unexpected.len(), 1);
}

#[test]
fn a_transformer_as_it_is_published() {
    let config = maskgit::Config {
        codes: 4,
        side: 2,
        width: 48,
        blocks: 1,
        heads: 1,
        ..maskgit::Config::imagenet(256).unwrap()
    };
    let file = TestFile::new("a.pth", &torch("model_state_dict", &config.tensors(), &[]));
    let held = load_network::<maskgit::Config, f32>(&file.path, &Options::default()).unwrap();
    assert_eq!(held.config, config);
    // It is no tokenizer and no judge, and that is one line.
    let error = load_network::<vqgan::Config, f32>(&file.path, &Options::default()).unwrap_err();
    assert!(error.to_string().contains("no VQGAN"), "{error}");
    let error = load_network::<inception::Config, f32>(&file.path, &Options::default());
    assert_eq!(error.unwrap_err().to_string().lines().count(), 1);
}

/// Sizes that no network has are refused before anything is allocated for them.
#[test]
fn impossible_sizes() {
    let change = |name: &str, shape: &[usize]| {
        let mut tensors = tokenizer().tensors();
        let tensor = tensors.iter_mut().find(|tensor| tensor.name == name);
        tensor.unwrap().shape = shape.to_vec();
        let file = TestFile::new("last.ckpt", &torch("state_dict", &tensors, &[]));
        let error = load_network::<vqgan::Config, f32>(&file.path, &Options::default());
        assert!(inspect(&file.path).failure.is_some());
        error.unwrap_err().to_string()
    };
    for (name, shape) in [
        ("quantize.embedding.weight", &[0, 3][..]),
        ("quantize.embedding.weight", &[5]),
        ("quantize.embedding.weight", &[1 << 40, 3]),
        ("encoder.conv_in.weight", &[33, 3, 3, 3]),
        ("encoder.down.0.block.0.conv1.weight", &[31, 32, 3, 3]),
        ("post_quant_conv.weight", &[4096, 3, 1, 1]),
    ] {
        let text = change(name, shape);
        assert!(!text.is_empty(), "{text}");
    }
    assert_modest();
}
