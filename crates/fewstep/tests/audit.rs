//! The tests of draws, tested: they pass what is right as often as they should, and find what is not.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::{fs, io::Write};

use fewstep::audit::{Method, Outcome, Tally, counts, dump};
use fewstep_ctmc::random::{Key, Purpose, categorical};

/// A law like a language model's: a few likely symbols and a long tail.
fn law(symbols: usize, temperature: f64, shift: usize) -> Vec<f64> {
    let weight = |i: usize| ((i + 2 + shift) as f64).powf(-1.3 / temperature);
    let total: f64 = (0..symbols).map(weight).sum();
    (0..symbols).map(|i| weight(i) / total).collect()
}

/// The outcome of draws from `drawn` that are said to be from `law`.
fn outcome(law: &[f64], drawn: &[f64], draws: u64, number: u64) -> Outcome {
    let mut tally = Tally::default();
    tally.add(law, &counts(drawn, Method::Exact, draws, (9, number)));
    tally.outcome()
}

#[test]
fn p_values_of_exact_draws_are_uniform() {
    let law = law(60, 1.0, 0);
    let outcomes: Vec<Outcome> = (0..400).map(|i| outcome(&law, &law, 5000, i)).collect();
    let mut p: Vec<f64> = outcomes.iter().map(|o| o.chi_square.unwrap().p).collect();
    p.sort_by(f64::total_cmp);
    // Kolmogorov and Smirnov: beyond 2.0 / sqrt(n) once in 1500.
    let apart = |(i, p): (usize, &f64)| (p - (i as f64 + 0.5) / 400.0).abs();
    let most = p.iter().enumerate().map(apart).fold(0.0, f64::max);
    assert!(most < 0.1, "{most}");
    // Two-sided tails of counts are conservative, never the other way.
    let low = |o: &&Outcome| o.worst_tail().unwrap().p < 0.01;
    assert!(outcomes.iter().filter(low).count() < 20);
    assert!(outcomes.iter().all(|o| !o.rejected));
}

#[test]
fn cooled_draws_are_found_out() {
    let (warm, cool) = (law(2000, 1.0, 0), law(2000, 0.98, 0));
    assert!(outcome(&warm, &cool, 400_000, 0).rejected);
    assert!(!outcome(&warm, &warm, 400_000, 0).rejected);
    assert!(!outcome(&cool, &cool, 400_000, 0).rejected);
}

/// The dump of a program that draws once from each of many laws, at a temperature it does not tell.
fn one_draw_a_law(temperature: f64) -> Outcome {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let key = Key::new(3, Purpose::Check);
    for i in 0..12_000 {
        let logits: Vec<f64> = law(50, 1.0, i % 7).iter().map(|p| p.ln()).collect();
        let drawn = law(50, temperature, i % 7);
        let draw = categorical(&mut key.at(77, i as u64), &drawn);
        let line = serde_json::json!({ "logits": logits, "draws": [draw] });
        writeln!(file, "{line}").unwrap();
    }
    dump(file.path(), |_| {}).unwrap().outcome()
}

#[test]
fn one_draw_a_law_is_enough() {
    let right = one_draw_a_law(1.0);
    assert!(right.chi_square.is_none() && !right.rejected, "{right:?}");
    assert_eq!((right.laws, right.draws), (12_000, 12_000));
    assert!(one_draw_a_law(0.9).rejected);
}

/// Draws by the Gumbel trick in f32 lose a tail of rare symbols, which exact draws have.
#[test]
fn gumbel_noise_in_f32_is_found_out() {
    let mut law = vec![1e-8; 101];
    law[0] = 1.0 - 1e-6;
    let test = |method: Method| {
        let mut tally = Tally::default();
        tally.add(&law, &counts(&law, method, 15_000_000, (1, 0)));
        tally.outcome()
    };
    let cut = test(Method::Gumbel32);
    assert!(cut.rejected && cut.tails[0].observed < 2, "{cut:?}");
    let exact = test(Method::Exact);
    assert!(!exact.rejected && exact.tails[0].observed > 3, "{exact:?}");
}

#[test]
fn sums_over_lines_are_sums() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("draws.jsonl");
    let (a, b) = ([0.5, 0.3, 0.2], [0.1, 0.9]);
    let (x, y) = ([52, 29, 19], [14, 86]);
    let line = |p: &[f64], c: &[u64]| serde_json::json!({ "probabilities": p, "counts": c });
    fs::write(&file, format!("{}\n\n{}", line(&a, &x), line(&b, &y))).unwrap();
    let both = dump(&file, |_| {}).unwrap().outcome();
    let chi = both.chi_square.unwrap();
    let by_hand = 4.0 / 50.0 + 1.0 / 30.0 + 1.0 / 20.0 + 16.0 / 10.0 + 16.0 / 90.0;
    assert!((chi.statistic - by_hand).abs() < 1e-12);
    assert_eq!((chi.freedom, both.laws, both.draws), (3, 2, 200));
    assert!(!both.rejected);
}

#[test]
fn a_wrong_line_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("draws.jsonl");
    let good = "{\"logits\":[0,1],\"draws\":[1]}\n";
    for (text, why) in [
        (format!("{good}\n{good}{{\"logits\":"), "draws.jsonl:4: "),
        (format!("{good}{{}}"), "draws.jsonl:2: "),
        (String::new(), "no draws"),
        ("{\"logits\":[0,1],\"draws\":[]}".into(), "no draws"),
    ] {
        fs::write(&file, &text).unwrap();
        let error = dump(&file, |_| {}).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let error = dump(&dir.path().join("nowhere"), |_| {}).unwrap_err();
    assert!(error.to_string().contains("nowhere"));
}
