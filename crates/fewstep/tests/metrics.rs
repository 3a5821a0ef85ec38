//! Metrics on features against NumPy and SciPy (`golden/make_metrics.py`), and what cannot be had.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::io::Write;

use fewstep::metrics::{
    MetricError, Neighbourhood, Statistics, chunked, frechet, inception_score, prdc,
};
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("golden/metrics.json")).expect("parses")
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(all) => all.iter().flat_map(numbers).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

fn assert_close(found: f64, expected: &Value, what: &str) {
    let expected = expected.as_f64().expect("a number");
    assert!(
        (found - expected).abs() < 1e-6,
        "{what}: {found}, not {expected}"
    );
}

#[test]
fn distances_equal_scipy() {
    let golden = golden();
    let (real, fake) = (numbers(&golden["real"]), numbers(&golden["fake"]));
    let (a, b) = (
        Statistics::of(&real, 6).unwrap(),
        Statistics::of(&fake, 6).unwrap(),
    );
    for (found, expected) in a.covariance.iter().zip(numbers(&golden["covariance"])) {
        assert!((found - expected).abs() < 1e-9);
    }
    assert_close(frechet(&a, &b).unwrap(), &golden["frechet"], "FID");
    assert_close(
        frechet(&b, &a).unwrap(),
        &golden["frechet"],
        "FID the other way",
    );
    assert!(frechet(&a, &a).unwrap().abs() < 1e-9);
    for (found, name) in [
        (prdc(&real, &fake, 6).unwrap(), "prdc"),
        (chunked(&real, &fake, 6).unwrap(), "chunked"),
    ] {
        let Neighbourhood {
            precision,
            recall,
            density,
            coverage,
        } = found;
        assert_close(precision, &golden[name]["precision"], name);
        assert_close(recall, &golden[name]["recall"], name);
        assert_close(density, &golden[name]["density"], name);
        assert_close(coverage, &golden[name]["coverage"], name);
    }
    let (mean, deviation) = inception_score(&numbers(&golden["probabilities"]), 4).unwrap();
    assert_close(mean, &golden["inception_score"][0], "IS");
    assert_close(deviation, &golden["inception_score"][1], "its deviation");
}

/// Fewer pictures than dimensions: the covariances are singular, and along axes the distance is known.
#[test]
fn singular_covariances_need_no_jitter() {
    // Two points each, on the first and on the second axis of three.
    let a = Statistics::of(&[1.0, 0.0, 0.0, -1.0, 0.0, 0.0], 3).unwrap();
    let b = Statistics::of(&[0.0, 2.0, 0.0, 0.0, -2.0, 0.0], 3).unwrap();
    assert!((frechet(&a, &b).unwrap() - 10.0).abs() < 1e-12);
    let c = Statistics::of(&[4.0, 0.0, 1.0, -4.0, 0.0, 1.0], 3).unwrap();
    // Means 1 apart; deviations sqrt(2) and sqrt(32) on one axis.
    let expected = 1.0 + (32f64.sqrt() - 2f64.sqrt()).powi(2);
    assert!((frechet(&a, &c).unwrap() - expected).abs() < 1e-12);
    let nothing = Statistics::of(&[5.0; 6], 3).unwrap();
    assert!((frechet(&nothing, &a).unwrap() - (75.0 + 2.0)).abs() < 1e-12);
}

#[test]
fn what_cannot_be_had_is_said() {
    let few = Statistics::of(&[1.0, 2.0], 2).unwrap_err();
    assert!(
        few.to_string()
            .contains("1 pictures are too few for a covariance"),
        "{few}"
    );
    assert!(matches!(
        prdc(&[0.0; 6], &[0.0; 8], 2),
        Err(MetricError::TooFew { there: 3, .. })
    ));
    assert!(matches!(
        inception_score(&[0.5; 8], 2),
        Err(MetricError::TooFew { .. })
    ));
    let nan = Statistics::of(&[1.0, f64::NAN, 1.0, 1.0], 2).unwrap_err();
    assert_eq!(nan, MetricError::NotFinite("a feature"));
    let (two, one) = (
        Statistics::of(&[1.0; 4], 2).unwrap(),
        Statistics::of(&[1.0; 4], 1).unwrap(),
    );
    assert_eq!(frechet(&two, &one), Err(MetricError::Dimensions(2, 1)));
}

/// An archive of stored arrays, as `numpy.savez` writes it.
fn npz(arrays: &[(&str, &str, &[f64])]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, shape, values) in arrays {
        archive.start_file(format!("{name}.npy"), stored).unwrap();
        let head = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n");
        archive.write_all(b"\x93NUMPY\x01\x00").unwrap();
        archive
            .write_all(&(head.len() as u16).to_le_bytes())
            .unwrap();
        archive.write_all(head.as_bytes()).unwrap();
        for value in *values {
            archive.write_all(&value.to_le_bytes()).unwrap();
        }
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn statistics_come_from_files_too() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("stats.npz");
    let put = |bytes: &[u8]| std::fs::write(&file, bytes).unwrap();
    let good = npz(&[
        ("mu", "(2,)", &[1.0, 2.0]),
        ("sigma", "(2, 2)", &[1.0, 0.5, 0.5, 2.0]),
    ]);
    put(&good);
    let read = Statistics::read(&file).unwrap();
    assert_eq!(
        (read.mean, read.covariance),
        (vec![1.0, 2.0], vec![1.0, 0.5, 0.5, 2.0])
    );
    for (bytes, word) in [
        (npz(&[("mu", "(2,)", &[1.0, 2.0])]), "no array sigma"),
        (
            npz(&[("mu", "(2,)", &[1.0, 2.0]), ("sigma", "(1, 1)", &[1.0])]),
            "do not fit",
        ),
        (
            npz(&[("mu", "(3,)", &[1.0, 2.0]), ("sigma", "(2, 2)", &[0.0; 4])]),
            "mu: ",
        ),
        (good[..good.len() / 2].to_vec(), "no archive"),
        (b"not a file of arrays".to_vec(), "no archive"),
    ] {
        put(&bytes);
        let error = Statistics::read(&file).unwrap_err().to_string();
        assert!(
            error.contains(word) && error.contains("stats.npz"),
            "{error}"
        );
    }
}
