//! The optimizer against PyTorch, on any number of threads, and its state file against damage.
#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use fewstep_nn::Real;
use fewstep_nn::optim::{
    Averaging, Decay, FILE, MOMENTUM, Matrix, Schedule, Settings, StateError, TrainState, Trainable,
};
use proptest::prelude::*;
use serde_json::Value;

/// `tests/golden/make_adamw.py` says what is in it.
fn golden() -> Value {
    serde_json::from_str(include_str!("golden/adamw.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Follows PyTorch's run; numbers of size one and less may differ by `tolerance`.
fn follow<T: Real>(golden: &Value, run: &Value, tolerance: f64) {
    let number = |name: &str| golden[name].as_f64().unwrap();
    let count = |name: &str| golden[name].as_u64().unwrap();
    let size = count("size");
    let schedule = Schedule {
        peak: number("peak"),
        warmup: count("warmup"),
        decay: Decay::Cosine {
            steps: count("steps"),
            floor: number("floor"),
        },
    };
    let averaging = Averaging {
        decay: number("decay"),
        warm_up: true,
    };
    let start = |i| T::of(((i * 31) % 17) as f64 / 16.0 - 0.5);
    let mut state = TrainState::new(
        0,
        (0..size).map(start).collect(),
        Trainable::all(size as usize),
        Settings::default(),
        Some(averaging),
    );
    let close = |ours: &[T], theirs: &Value, what: &str| {
        for (i, (a, b)) in ours.iter().zip(numbers(theirs)).enumerate() {
            let off = (a.widen() - b).abs();
            assert!(off <= tolerance, "{what} {i}: {a:?}, torch has {b}");
        }
    };
    let (norms, rates) = (numbers(&run["norms"]), numbers(&run["rates"]));
    let mut kept = run["kept"].as_array().unwrap().iter();
    let mut next = kept.next();
    for step in 0..count("steps") {
        let small = if step % 4 == 3 { 1.0 / 128.0 } else { 1.0 };
        let entry = |i| ((i * 7919 + step * 104_729) % 1009) as f64 - 504.0;
        let gradient: Vec<T> = (0..size).map(|i| T::of(entry(i) / 252.0 * small)).collect();
        let max_norm = Some(number("max_norm"));
        let report = state.apply(&gradient, 1.0, &schedule, max_norm).unwrap();
        let (norm, rate) = (norms[step as usize], rates[step as usize]);
        assert!((report.norm - norm).abs() <= 10.0 * tolerance, "{report:?}");
        assert!((report.rate - rate).abs() <= 1e-16, "{report:?}");
        assert_eq!(report.scale == 1.0, step % 4 == 3, "{report:?}");
        let Some(record) = next else { break };
        if record["steps"] == step + 1 {
            close(state.parameters(), &record["parameters"], "parameter");
            close(&state.averaged(), &record["average"], "average");
            next = kept.next();
        }
    }
    assert!(next.is_none(), "all records were compared");
}

#[test]
fn the_run_of_pytorch_in_f64() {
    let golden = golden();
    follow::<f64>(&golden, &golden["f64"], 1e-14);
}

#[test]
fn the_run_of_pytorch_in_f32() {
    let golden = golden();
    follow::<f32>(&golden, &golden["f32"], 2e-7);
}

#[test]
fn threads_do_not_change_a_bit() {
    let size = 150_000;
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let start = (0..size).map(|i| (i as f32).sin()).collect();
            let some = Trainable::new(size, &[3..70, 900..101_234, 120_000..size]).unwrap();
            let averaging = Some(Averaging::default());
            let mut state = TrainState::new(1, start, some, Settings::default(), averaging);
            let mut reports = Vec::new();
            for step in 0..4 {
                let gradient: Vec<f32> =
                    (0..size).map(|i| (i as f32 + step as f32).cos()).collect();
                let schedule = Schedule::default();
                reports.push(state.apply(&gradient, 1.0, &schedule, Some(1.0)).unwrap());
            }
            (state, reports)
        })
    };
    let one = run(1);
    assert_eq!(one, run(2));
    assert_eq!(one, run(5));
}

/// A state with matrices and a frozen part, after some steps on so many threads.
fn with_matrices(steps: u64, threads: usize) -> TrainState<f32> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    let at = |start, rows, cols| Matrix { start, rows, cols };
    let matrices = vec![at(100, 48, 80), at(100 + 48 * 80, 70, 30), at(7000, 64, 64)];
    let size = 12_000;
    let some = Trainable::new(size, &[3..90, 95..11_990]).unwrap();
    let start = (0..size).map(|i| (i as f32).sin()).collect();
    let averaging = Some(Averaging::default());
    let state = TrainState::new(1, start, some, Settings::ADAM, averaging);
    let mut state = state.orthogonalising(matrices, MOMENTUM).unwrap();
    pool.install(|| (0..steps).for_each(|_| onward(&mut state)));
    state
}

fn onward(state: &mut TrainState<f32>) {
    let step = state.step() as f32;
    let gradient: Vec<f32> = (0..12_000).map(|i| (i as f32 * 0.7 + step).cos()).collect();
    let schedule = Schedule::cosine(1e-2, 2, 20);
    state.apply(&gradient, 1.0, &schedule, Some(1.0)).unwrap();
}

/// A run with Muon goes on from its file as if it had not stopped, on any number of threads.
#[test]
fn matrices_go_on_bit_for_bit() {
    let whole = with_matrices(6, 1);
    assert_eq!(whole, with_matrices(6, 3));
    let dir = tempfile::tempdir().unwrap();
    with_matrices(4, 2).save(dir.path()).unwrap();
    let mut resumed = TrainState::load(dir.path()).unwrap();
    (0..2).for_each(|_| onward(&mut resumed));
    assert_eq!(resumed, whole);
    // Every trained entry has moved, and no frozen one. (In six steps one may come back where it began.)
    let before = with_matrices(5, 1);
    let both = before.parameters().iter().zip(whole.parameters());
    for (i, (before, after)) in both.enumerate() {
        let trained = (3..90).contains(&i) || (95..11_990).contains(&i);
        let moved = [before, after].iter().any(|p| **p != (i as f32).sin());
        assert_eq!(moved, trained, "parameter {i}");
    }
}

#[test]
fn a_file_whose_matrices_do_not_fit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    with_matrices(1, 1).save(dir.path()).unwrap();
    let bytes = fs::read(dir.path().join(FILE)).unwrap();
    for (from, to, expected) in [
        ("100:48x80", "90:48x80", "90..3930 is not inside"),
        (
            "7000:64x64",
            "7000:64x63",
            "momentum has 10036 numbers, expected 9972",
        ),
        ("7000:64x64", "7000:64", "muon.matrices is"),
        (
            "7000:64x64",
            "7000:64x18446744073709551615",
            "beyond memory",
        ),
        ("\"0.95\"", "\"1.5\"", "the momentum is 1.5"),
        ("muon.beta", "muon.gamma", "lacks the value muon.beta"),
    ] {
        let changed = changed_header(&bytes, |header| {
            assert!(header.contains(from), "{header}");
            header.replace(from, to)
        });
        let message = load(&changed).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}

/// A small state's file.
static STATE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let some = Trainable::new(9, &[1..4, 6..8]).unwrap();
    let averaging = Some(Averaging::default());
    let start = vec![0.5f32; 9];
    let mut state = TrainState::new(3, start, some, Settings::default(), averaging);
    let schedule = Schedule::default();
    state.apply(&[0.1; 9], 1.0, &schedule, Some(1.0)).unwrap();
    state.save(dir.path()).unwrap();
    fs::read(dir.path().join(FILE)).unwrap()
});

fn load(bytes: &[u8]) -> Result<TrainState<f32>, StateError> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(FILE), bytes).unwrap();
    TrainState::load(dir.path())
}

/// The small file with its header changed.
fn with_header(change: impl Fn(String) -> String) -> Vec<u8> {
    changed_header(&STATE, change)
}

/// A file with its header changed, and the length that stands before it.
fn changed_header(bytes: &[u8], change: impl Fn(String) -> String) -> Vec<u8> {
    let (length, rest) = bytes.split_first_chunk().unwrap();
    let (header, tensors) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let header = change(String::from_utf8(header.to_vec()).unwrap());
    let length = (header.len() as u64).to_le_bytes();
    [&length, header.as_bytes(), tensors].concat()
}

#[test]
fn a_message_names_the_file_and_what_is_wrong() {
    let message = |from: &str, to: &str| {
        let bytes = with_header(|header| {
            assert!(header.contains(from), "{header}");
            header.replace(from, to)
        });
        let message = load(&bytes).unwrap_err().to_string();
        assert!(message.contains(FILE), "{message}");
        message
    };
    for (from, to, expected) in [
        (
            "\"version\":\"1\"",
            "\"version\":\"2\"",
            "its version is \"2\"",
        ),
        ("fewstep-train-state", "other", "its format is \"other\""),
        ("\"step\":\"1\"", "\"step\":\"-1\"", "step is \"-1\""),
        ("1..4,6..8", "1..4,3..8", "the trainable range 3..8"),
        ("1..4,6..8", "1..4,6", "trainable is \"1..4,6\""),
        ("1..4,6..8", "1..4,6..9", "shadow has 5 numbers, expected 6"),
        ("\"0.9\"", "\"1.5\"", "beta1 is 1.5"),
        ("\"0.9999\"", "\"NaN\"", "decay is NaN"),
        ("{\"__meta", "[\"__meta", "its header does not parse"),
    ] {
        let message = message(from, to);
        assert!(message.contains(expected), "{message}");
    }
    let missing = with_header(|header| {
        let header = header.replace("\"adamw.mean\"", "\"mean\"");
        header.replace("\"seed\"", "\"grain\"")
    });
    let message = load(&missing).unwrap_err().to_string();
    let expected = "lacks the tensor adamw.mean, the value seed; ";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn the_other_precision_and_no_file_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(FILE), &*STATE).unwrap();
    let message = TrainState::<f64>::load(dir.path()).unwrap_err().to_string();
    assert!(message.contains("is of F32, expected F64"), "{message}");
    let error = TrainState::<f32>::load(Path::new("/nowhere")).unwrap_err();
    assert!(matches!(error, StateError::Read { .. }), "{error}");
    assert!(load(&STATE).is_ok());
}

#[test]
fn a_cut_file_is_refused_wherever_it_is_cut() {
    for end in 0..STATE.len() {
        assert!(load(&STATE[..end]).is_err(), "cut at {end}");
    }
}

/// Sizes that nothing may be allocated for.
#[test]
fn promises_beyond_the_file_are_refused() {
    let mut bytes = STATE.clone();
    bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(load(&bytes).is_err());
    for size in ["4611686018427387904", "18446744073709551615", "1000000000"] {
        let huge =
            with_header(|header| header.replace("\"shape\":[9]", &format!("\"shape\":[{size}]")));
        assert!(load(&huge).is_err(), "{size}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(load(&bytes).is_err());
    }

    /// A changed byte may go unseen in a number, but never panics.
    #[test]
    fn changed_bytes_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = STATE.clone();
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        let _ = load(&bytes);
    }

    /// Digits are where a header can lie best.
    #[test]
    fn changed_digits_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), "[0-9]{0,20}"), 1..4),
    ) {
        let bytes = with_header(|mut header| {
            for (place, digits) in &changes {
                let places: Vec<usize> = header
                    .char_indices()
                    .filter(|(_, c)| c.is_ascii_digit())
                    .map(|(i, _)| i)
                    .collect();
                let place = places[place.index(places.len())];
                header.replace_range(place..place + 1, digits);
            }
            header
        });
        let _ = load(&bytes);
    }
}
