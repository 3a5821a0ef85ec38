//! Good files with something cut off or changed: a well-formed result or an error that names the
//! file, never a panic, never a large allocation.

use fewstep_nn::checkpoint::{Options, Weights, inspect, load};
use fewstep_nn::dit::Layout;
use proptest::prelude::*;

use crate::support::*;

const CONFIG: &str = r#"{"model_type":"mdlm","n_heads":2,"model_length":8}"#;

/// Loads every way there is; says whether any worked.
fn survives(name: &str, bytes: &[u8]) -> bool {
    let file = TestFile::new(name, bytes);
    file.beside("config.json", CONFIG);
    let mut any = false;
    for weights in [None, Some(Weights::Raw)] {
        let options = Options {
            weights,
            allow_nonfinite: true,
            ..Options::default()
        };
        match load::<f32>(&file.path, &options) {
            Ok(loaded) => {
                assert_eq!(loaded.parameters.len(), Layout::new(&loaded.config).len());
                any = true;
            }
            Err(error) => assert!(error.to_string().contains(name), "{error}"),
        }
    }
    inspect(&file.path);
    assert_modest();
    any
}

#[test]
fn cut_off_anywhere() {
    let safe = safetensors(&raw_tensors(&tiny()));
    assert!(survives("model.safetensors", &safe));
    for end in (0..safe.len()).step_by(13) {
        assert!(!survives("model.safetensors", &safe[..end]), "{end}");
    }
    let torch = Run::new().archive();
    assert!(survives("model.ckpt", &torch));
    for end in (0..torch.len()).step_by(29) {
        assert!(!survives("model.ckpt", &torch[..end]), "{end}");
    }
    let pickle = Run::new().pickle();
    for end in (0..pickle.len()).step_by(7) {
        let torch = archive(&pickle[..end], &Run::new().storages);
        assert!(!survives("model.ckpt", &torch), "{end}");
    }
}

#[test]
fn damaged_data_is_found_by_its_checksum() {
    let run = Run::new();
    let good = run.archive();
    let storage = &run.storages[0].1;
    let at = good
        .windows(storage.len())
        .position(|w| w == storage)
        .unwrap();
    let mut bad = good.clone();
    bad[at + 5] ^= 1;
    let file = TestFile::new("model.ckpt", &bad);
    let raw = Options {
        weights: Some(Weights::Raw),
        ..Options::default()
    };
    let error = load::<f32>(&file.path, &raw).unwrap_err().to_string();
    assert!(
        error.contains("vocab_embed.embedding") && error.contains("checksum"),
        "{error}"
    );
    let report = inspect(&file.path);
    assert_eq!(report.unreadable.len(), 1, "{report:?}");
    assert!(report.failure.is_some());
    // The average is whole.
    assert!(load::<f32>(&file.path, &Options::default()).is_ok());
}

fn changed(mut bytes: Vec<u8>, at: prop::sample::Index, by: u8) -> Vec<u8> {
    let at = at.index(bytes.len());
    bytes[at] ^= by;
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_byte_of_a_safetensors_header(at: prop::sample::Index, by in 1u8..) {
        let good = safetensors(&raw_tensors(&tiny()));
        let header = 8 + u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
        let mut bad = good;
        bad[at.index(header)] ^= by;
        survives("model.safetensors", &bad);
    }

    #[test]
    fn any_byte_of_an_archive(at: prop::sample::Index, by in 1u8..) {
        survives("model.ckpt", &changed(Run::new().archive(), at, by));
    }

    #[test]
    fn any_byte_of_the_directory_of_an_archive(at: prop::sample::Index, by in 1u8..) {
        let mut bad = Run::new().archive();
        let start = bad.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
        let at = start + at.index(bad.len() - start);
        bad[at] ^= by;
        survives("model.ckpt", &bad);
    }

    #[test]
    fn any_byte_of_a_pickle(at: prop::sample::Index, by in 1u8..) {
        let run = Run::new();
        let pickle = changed(run.pickle(), at, by);
        survives("model.ckpt", &archive(&pickle, &run.storages));
    }

    #[test]
    fn any_bytes_as_a_pickle(pickle in prop::collection::vec(any::<u8>(), 0..200)) {
        survives("model.ckpt", &archive(&pickle, &[]));
    }

    #[test]
    fn any_byte_of_the_settings(at: prop::sample::Index, by in 1u8..) {
        let file = TestFile::new("model.safetensors", &safetensors(&raw_tensors(&tiny())));
        let settings = changed(CONFIG.into(), at, by);
        std::fs::write(file.path.with_file_name("config.json"), settings).unwrap();
        if let Err(error) = load::<f32>(&file.path, &Options::default()) {
            let named = error.to_string();
            prop_assert!(named.contains("config.json") || named.contains("model.safetensors"));
        }
    }

    #[test]
    fn any_byte_of_a_file_of_real_torch(at: prop::sample::Index, by in 1u8..) {
        survives("tiny.ckpt", &changed(std::fs::read(golden()).unwrap(), at, by));
    }
}
