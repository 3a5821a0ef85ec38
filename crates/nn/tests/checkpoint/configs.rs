//! Files that are whole but are not, or not quite, a network we have.

use fewstep_nn::checkpoint::{Error, Options, Problem, Weights, inspect, load};
use fewstep_nn::dit::Layout;

use crate::support::*;

fn refused(file: &TestFile) -> Error {
    let error = load::<f32>(&file.path, &Options::default()).unwrap_err();
    let name = file.path.file_name().unwrap().to_str().unwrap();
    assert!(error.to_string().contains(name), "{error}");
    assert!(inspect(&file.path).failure.is_some());
    error
}

fn model(tensors: &[Raw], config: &str) -> TestFile {
    let file = TestFile::new("model.safetensors", &safetensors(tensors));
    file.beside("config.json", config);
    file
}

const MDLM: &str = r#"{"model_type":"mdlm","n_heads":2}"#;

#[test]
fn everything_wrong_is_told_at_once() {
    let mut tensors = raw_tensors(&tiny());
    let at = |name: &str| {
        let name = format!("backbone.{name}");
        raw_tensors(&tiny())
            .iter()
            .position(|t| t.name == name)
            .unwrap()
    };
    tensors[at("blocks.0.norm1.weight")].name = "teacher.norm.weight".into();
    tensors[at("blocks.0.attn_out.weight")].shape = vec![2, 8];
    let wrong = &mut tensors[at("blocks.0.norm2.weight")];
    (wrong.dtype, wrong.data) = ("I64", vec![0; 32]);
    let mut twin = raw_tensors(&tiny()).swap_remove(0);
    twin.name = "vocab_embed.embedding".into();
    tensors.push(twin);
    let file = model(&tensors, MDLM);
    let Error::Unfit { problems, .. } = refused(&file) else {
        panic!("not a list");
    };
    assert_eq!(problems.len(), 5, "{problems:?}");
    for expected in [
        "missing blocks.0.norm1.weight [4]",
        "unexpected teacher.norm.weight [4]",
        "wrong shape backbone.blocks.0.attn_out.weight: [2, 8] where [4, 4] belongs",
        "wrong dtype backbone.blocks.0.norm2.weight: I64; weights are F16, BF16, F32 or F64",
        "twice vocab_embed.embedding: as backbone.vocab_embed.embedding and as \
         vocab_embed.embedding",
    ] {
        let lines = problems.iter().map(Problem::to_string);
        assert!(
            lines.clone().any(|line| line == expected),
            "{expected}: {problems:?}"
        );
    }
    let report = inspect(&file.path);
    assert_eq!(report.missing, ["blocks.0.norm1.weight [4]"]);
    assert_eq!(report.unexpected, ["teacher.norm.weight [4]"]);
    assert_eq!((report.misshapen.len(), report.problems.len()), (1, 2));
}

#[test]
fn another_architecture() {
    let other = ["wte.weight", "h.0.attn.c_attn.weight"].map(|name| Raw {
        name: name.into(),
        dtype: "F32",
        shape: vec![2, 2],
        data: vec![0; 16],
    });
    let error = refused(&model(&other, MDLM)).to_string();
    assert!(
        error.contains("no DiT") && error.contains("wte.weight"),
        "{error}"
    );
    let error = refused(&model(&[], MDLM)).to_string();
    assert!(error.contains("no DiT"), "{error}");
}

#[test]
fn settings_that_contradict_the_tensors() {
    let tensors = raw_tensors(&tiny());
    for (config, words) in [
        (
            r#"{"model_type":"mdlm","n_heads":2,"hidden_dim":768}"#,
            "width 768, the tensors have 4",
        ),
        (
            r#"{"model_type":"mdlm","n_heads":2,"vocab_size":4}"#,
            "vocabulary 4, the tensors have 3",
        ),
        (
            r#"{"model_type":"mdlm","n_heads":2,"cond_dim":1}"#,
            "conditioning 1",
        ),
        (
            r#"{"model_type":"mdlm","model":{"n_heads":2,"n_blocks":12}}"#,
            "blocks 12",
        ),
        (r#"{"model_type":"mdlm","n_heads":3}"#, "heads"),
        (r#"{"model_type":"mdlm","n_heads":0}"#, "heads"),
        (
            r#"{"model_type":"mdlm","n_heads":2,"causal":true}"#,
            "causal",
        ),
        (
            r#"{"n_heads":2,"fewstep":{"version":1,"time":{"kind":"zero"},"mask":2,
                "step":{"kind":"trunk"}}}"#,
            "Trunk, the tensors have None",
        ),
        (
            r#"{"n_heads":2,"fewstep":{"version":1,"time":{"kind":"zero"},"mask":3,
                "step":{"kind":"none"}}}"#,
            "mask 3",
        ),
        (
            r#"{"n_heads":2,"fewstep":{"version":1,"time":{"kind":"sigma","eps":7},"mask":null,
                "step":{"kind":"none"}}}"#,
            "eps 7",
        ),
    ] {
        let error = refused(&model(&tensors, config)).to_string();
        assert!(error.contains(words), "{config}: {error}");
    }
    let file = model(&tensors, "{");
    let error = load::<f32>(&file.path, &Options::default()).unwrap_err();
    assert!(
        error.to_string().contains("config.json: it is no JSON"),
        "{error}"
    );
    // What the tensors say is reported all the same.
    assert_eq!(inspect(&file.path).sizes.unwrap().width, 4);
}

#[test]
fn frequencies_tell_the_heads() {
    let mut tensors = raw_tensors(&tiny());
    tensors.push(Raw {
        name: "backbone.rotary_emb.inv_freq".into(),
        dtype: "F32",
        shape: vec![1],
        data: vec![0; 4],
    });
    let loaded = load::<f32>(
        &model(&tensors, r#"{"model_type":"mdlm"}"#).path,
        &Options::default(),
    );
    assert_eq!(loaded.unwrap().config.heads, 2);
    let error = refused(&model(&tensors, r#"{"model_type":"mdlm","n_heads":1}"#)).to_string();
    assert!(
        error.contains("1 heads") && error.contains("inv_freq"),
        "{error}"
    );
}

#[test]
fn the_latent_token_of_di4c() {
    let mut run = Run::new();
    for (name, shape) in [
        ("0.weight", vec![5, 6]),
        ("0.bias", vec![5]),
        ("2.weight", vec![4, 5]),
        ("2.bias", vec![4]),
    ] {
        let spec = Spec::of(name, &shape);
        let zeros = vec![0; shape.iter().product::<usize>() * 4];
        run.storages.push((name.into(), zeros));
        run.state
            .push((format!("backbone.latent_projection.{name}"), spec.clone()));
        run.average.push(spec);
    }
    let file = TestFile::new("sdtt-di4c.ckpt", &run.archive());
    let error = refused(&file);
    assert!(matches!(error, Error::Latent { .. }), "{error}");
    let report = inspect(&file.path);
    assert!(report.latent && report.unexpected.is_empty() && report.problems.is_empty());
    let without = Options {
        drop_latent: true,
        ..Options::default()
    };
    let loaded = load::<f32>(&file.path, &without).unwrap();
    assert_eq!(loaded.parameters, parameters(&tiny(), 0.5));
    assert!(loaded.notes.iter().any(|note| note.contains("Di4C")));
}

#[test]
fn averages_that_are_not_the_network() {
    let mut short = Run::new();
    short.average.pop();
    let mut swapped = Run::new();
    swapped.average.swap(0, 1);
    for (run, words) in [
        (short, "shadow_params has"),
        (swapped, "shadow_params[0] (vocab_embed"),
    ] {
        let file = TestFile::new("model.ckpt", &run.archive());
        let error = refused(&file).to_string();
        assert!(error.contains(words), "{error}");
        let raw = Options {
            weights: Some(Weights::Raw),
            ..Options::default()
        };
        assert!(load::<f32>(&file.path, &raw).is_ok());
    }
}

#[test]
fn weights_that_are_not_finite() {
    let mut tensors = raw_tensors(&tiny());
    tensors[3].data[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    tensors[3].data[8..12].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let file = model(&tensors, MDLM);
    let name = &Layout::new(&tiny()).tensors[3].name;
    let error = refused(&file).to_string();
    assert!(error.contains(&format!("{name}: 2 values")), "{error}");
    assert_eq!(inspect(&file.path).nonfinite[0].tensor.count, 2);
    let allowed = Options {
        allow_nonfinite: true,
        ..Options::default()
    };
    let loaded = load::<f32>(&file.path, &allowed).unwrap();
    assert_eq!(loaded.nonfinite[0].count, 2);
    assert_eq!(
        loaded.parameters.iter().filter(|x| !x.is_finite()).count(),
        2
    );
}
