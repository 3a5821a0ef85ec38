//! Good files of all formats, types and wrappers.

use fewstep_nn::checkpoint::{Error, Family, Options, Weights, inspect, load, save};
use fewstep_nn::dit::{Config, Layout, Positions, Sight, Step, TimeInput};

use crate::support::*;

fn options(weights: Weights) -> Options {
    Options {
        weights: Some(weights),
        ..Options::default()
    }
}

#[test]
fn a_file_of_real_torch() {
    let expected = Config {
        vocabulary: 11,
        length: 32,
        width: 8,
        blocks: 2,
        heads: 2,
        conditioning: 16,
        mask: Some(10),
        time: TimeInput::Zero,
        step: Step::None,
        sight: Sight::Whole,
        positions: Positions::Line,
    };
    let usual = load::<f32>(golden(), &Options::default()).unwrap();
    assert_eq!(usual.weights, Weights::Ema);
    assert_eq!(usual.family, Some(Family::Mdlm));
    assert_eq!(usual.config, expected);
    assert!(usual.notes.is_empty(), "{:?}", usual.notes);
    assert_eq!(usual.parameters, parameters(&expected, 0.5));
    let raw = load::<f64>(golden(), &options(Weights::Raw)).unwrap();
    let single: Vec<f32> = raw.parameters.iter().map(|&x| x as f32).collect();
    assert_eq!(single, parameters(&expected, 1.0));

    let report = inspect(golden());
    assert_eq!(report.failure, None);
    let average = report.average.unwrap();
    assert_eq!((average.decay, average.updates), (Some(0.9999), Some(1000)));
    let sizes = report.sizes.unwrap();
    assert_eq!(sizes.parameters, Layout::parameters(&expected).unwrap());
}

#[test]
fn our_own_files_come_back_bit_for_bit() {
    let directory = tempfile::tempdir().unwrap();
    let grid = Positions::Grid {
        rows: 2,
        columns: 3,
    };
    for (step, time, mask, positions) in [
        (Step::None, TimeInput::Zero, Some(2), Positions::Line),
        (Step::Trunk, TimeInput::Sigma { eps: 1e-3 }, None, grid),
        (
            Step::Correction { width: 5 },
            TimeInput::Time,
            Some(0),
            grid,
        ),
    ] {
        let config = Config {
            step,
            time,
            mask,
            positions,
            ..tiny()
        };
        let n = Layout::parameters(&config).unwrap();
        let wide: Vec<f64> = (0..n).map(|i| (i as f64).sin() * 1e-3).collect();
        let single: Vec<f32> = wide.iter().map(|&x| x as f32).collect();
        let path = directory.path().join("new/model");
        save(&path, &config, &wide).unwrap();
        let back = load::<f64>(&path, &Options::default()).unwrap();
        assert_eq!((&back.config, &back.parameters), (&config, &wide));
        assert!(back.notes.is_empty(), "{:?}", back.notes);
        save(&path, &config, &single).unwrap();
        for named in [path.clone(), path.join("model.safetensors")] {
            let back = load::<f32>(named, &Options::default()).unwrap();
            assert_eq!((&back.config, &back.parameters), (&config, &single));
            assert_eq!(back.weights, Weights::Raw);
        }
        assert_eq!(inspect(&path).failure, None);
        let mut files: Vec<_> = std::fs::read_dir(&path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        files.sort();
        assert_eq!(files, ["config.json", "model.safetensors"]);
    }
}

/// A picture's network whose grid is nowhere said, or is another than its vectors', is refused.
#[test]
fn a_grid_and_its_vectors_belong_together() {
    let directory = tempfile::tempdir().unwrap();
    let grid = |rows, columns| Positions::Grid { rows, columns };
    let config = Config {
        positions: grid(2, 3),
        ..tiny()
    };
    let n = Layout::parameters(&config).unwrap();
    save(directory.path(), &config, &vec![0.5f32; n]).unwrap();
    let file = directory.path().join("config.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["fewstep"]["grid"], serde_json::json!([2, 3]));
    for (said, word) in [
        (serde_json::Value::Null, "position_embed.weight"),
        (serde_json::json!([2, 2]), "position_embed.weight"),
        (serde_json::json!([1_000_000_000_000u64, 3]), "cells"),
        (serde_json::json!([2]), "broken"),
    ] {
        json["fewstep"]["grid"] = said;
        std::fs::write(&file, json.to_string()).unwrap();
        let error = load::<f32>(directory.path(), &Options::default()).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn what_is_no_network_is_not_saved() {
    let directory = tempfile::tempdir().unwrap();
    let config = tiny();
    let few = save(directory.path(), &config, &[0.0f32; 3]).unwrap_err();
    assert!(few.to_string().contains("3 parameters"), "{few}");
    let bad = Config { heads: 3, ..config };
    assert!(save(directory.path(), &bad, &[0.0f32; 3]).is_err());
    assert!(
        std::fs::read_dir(directory.path())
            .unwrap()
            .next()
            .is_none()
    );
}

#[test]
fn every_type_of_element() {
    let config = tiny();
    let expected = parameters(&config, 1.0);
    type Encode = fn(f32) -> Vec<u8>;
    // The values are multiples of 1/64 below 1: exact in all of them.
    let half: Encode = |x| {
        let bits = x.to_bits();
        let sign = (bits >> 16 & 0x8000) as u16;
        let magnitude = match bits >> 23 & 0xff {
            0 => 0,
            exponent => ((exponent - 112) << 10 | (bits >> 13 & 0x3ff)) as u16,
        };
        (sign | magnitude).to_le_bytes().to_vec()
    };
    let cases: [(&str, &str, Encode); 4] = [
        ("F16", "HalfStorage", half),
        ("BF16", "BFloat16Storage", |x| {
            ((x.to_bits() >> 16) as u16).to_le_bytes().to_vec()
        }),
        ("F32", "FloatStorage", |x| x.to_le_bytes().to_vec()),
        ("F64", "DoubleStorage", |x| {
            f64::from(x).to_le_bytes().to_vec()
        }),
    ];
    for (dtype, class, encode) in cases {
        let mut tensors = raw_tensors(&config);
        let mut run = Run::new();
        run.average.clear();
        for (k, tensor) in Layout::new(&config).tensors.iter().enumerate() {
            let data: Vec<u8> = expected[tensor.range.clone()]
                .iter()
                .flat_map(|&x| encode(x))
                .collect();
            tensors[k].dtype = dtype;
            tensors[k].data.clone_from(&data);
            run.state[k].1.class = class;
            run.storages[2 * k].1 = data;
        }
        let file = TestFile::new("model.safetensors", &safetensors(&tensors));
        file.beside("config.json", r#"{"model_type":"mdlm","n_heads":2}"#);
        let loaded = load::<f32>(&file.path, &Options::default()).unwrap();
        assert_eq!(loaded.parameters, expected, "{dtype}");
        let file = TestFile::new("model.ckpt", &run.archive());
        let loaded = load::<f32>(&file.path, &Options::default()).unwrap();
        assert_eq!(loaded.parameters, expected, "{class}");
        let report = inspect(&file.path);
        assert_eq!(report.dtypes[dtype], expected_tensors(&config));
    }
}

fn expected_tensors(config: &Config) -> usize {
    Layout::new(config).tensors.len()
}

#[test]
fn wrappers_around_the_network() {
    for prefix in ["", "backbone.backbone.", "_orig_mod.backbone._orig_mod."] {
        let mut tensors = raw_tensors(&tiny());
        for tensor in &mut tensors {
            tensor.name = tensor.name.replace("backbone.", prefix);
        }
        let file = TestFile::new("model.safetensors", &safetensors(&tensors));
        file.beside("config.json", r#"{"model_type":"DUO","n_heads":2}"#);
        let loaded = load::<f32>(&file.path, &Options::default()).unwrap();
        assert_eq!(loaded.parameters, parameters(&tiny(), 1.0));
        assert_eq!(loaded.config.time, TimeInput::Sigma { eps: 1e-3 });
        assert_eq!(loaded.config.mask, None);
    }
}

#[test]
fn a_bare_state_dict_needs_a_family() {
    let run = Run::new();
    let mut pickle = Pickler::new();
    pickle.op(b"}(");
    for (name, spec) in &run.state {
        pickle.text(name).tensor(spec);
    }
    let file = TestFile::new("model.pt", &archive(&pickle.op(b"u").end(), &run.storages));
    let error = load::<f32>(&file.path, &Options::default()).unwrap_err();
    assert!(matches!(error, Error::Family { .. }), "{error}");
    let report = inspect(&file.path);
    assert!(report.failure.unwrap().contains("family unknown"));
    assert_eq!(report.sizes.unwrap().width, 4);
    let named = Options {
        family: Some(Family::Sdtt),
        ..Options::default()
    };
    let loaded = load::<f32>(&file.path, &named).unwrap();
    assert_eq!(loaded.parameters, parameters(&tiny(), 1.0));
    // No heads, no frequencies and no length: all guessed, and said.
    assert_eq!(loaded.config.heads, 1);
    assert_eq!(loaded.notes.len(), 2, "{:?}", loaded.notes);
    let ema = load::<f32>(&file.path, &options(Weights::Ema)).unwrap_err();
    assert!(matches!(ema, Error::NoAverage { .. }), "{ema}");
}

#[test]
fn views_of_one_storage() {
    // All raw tensors in one storage, the last transposed and with a gap before it.
    let mut run = Run::new();
    run.average.clear();
    let mut all = Vec::new();
    for (k, (_, spec)) in run.state.iter_mut().enumerate() {
        spec.key = "all".into();
        spec.offset = (all.len() / 4) as i64;
        all.extend_from_slice(&run.storages[2 * k].1);
    }
    let spec = run.tensor("blocks.0.attn_out.weight");
    let n = 4;
    spec.offset = (all.len() / 4 + 3) as i64;
    spec.strides = vec![1, n];
    let k = 7;
    all.extend([0; 12]);
    for j in 0..n as usize {
        for i in 0..n as usize {
            all.extend(value(k, i * n as usize + j).to_le_bytes());
        }
    }
    for (_, spec) in &mut run.state {
        spec.elements = (all.len() / 4) as i64;
    }
    run.storages = vec![("all".into(), all)];
    let file = TestFile::new("model.ckpt", &run.archive());
    let loaded = load::<f32>(&file.path, &Options::default()).unwrap();
    assert_eq!(loaded.parameters, parameters(&tiny(), 1.0));
}
