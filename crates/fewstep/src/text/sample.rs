//! Made-up findings for the tests of the views.

use super::{Findings, Marginal, Point, Training};
use crate::sequence::{evaluate::Quality, marginals::Marginals};

/// A point of the first seed, of (temperature, gain) and (likelihood, entropy, pairs).
pub fn point(
    chain: &str,
    method: &str,
    k: usize,
    (temperature, gain): (f64, f64),
    (nll, entropy, bigram): (f64, f64, f64),
) -> Point {
    Point {
        chain: chain.into(),
        method: method.into(),
        seed: 0,
        k,
        nfe: k,
        temperature,
        gain,
        quality: Quality {
            nll,
            nll_error: 0.01,
            entropy,
            bigram,
            trigram: None,
            skipgram: 0.0,
            distinct: 0.1,
        },
        sample: format!("{chain} {method} {k} the cat sat on the mat "),
    }
}

/// Nothing yet.
pub fn empty() -> Findings {
    Findings {
        version: String::new(),
        setting: String::new(),
        sizes: (0, 0, 0),
        fitted: false,
        entropy: (0.0, 0.0),
        trainings: Vec::new(),
        points: Vec::new(),
        marginals: Vec::new(),
    }
}

/// Two chains with gaps, temperatures, gains and all controls, in no order of display.
pub fn sample() -> Findings {
    let mut points = Vec::new();
    for (chain, method, shift) in [
        ("uniform", "linear", -0.12),
        ("uniform", "base", 0.0),
        ("uniform", "paper", -0.07),
        ("uniform", "exact", -0.02),
        ("masked", "linear", 0.01),
        ("masked", "base", 0.1),
    ] {
        for k in [32, 2, 4, 8] {
            let few = 1.6 / k as f64 + shift * (2.0 / k as f64).sqrt();
            for temperature in [1.0, 0.9, 0.8, 0.7] {
                let gains: &[f64] = match method {
                    "linear" | "paper" => &[1.0, 2.0],
                    _ => &[1.0],
                };
                for &gain in gains {
                    let cold = 1.0 - temperature;
                    let quality = (
                        2.2 + few - 2.2 * cold - 0.06 * (gain - 1.0),
                        2.75 - 1.4 * cold * cold - 0.35 * cold - 0.05 * (gain - 1.0),
                        0.03 + (few - 1.5 * cold).abs() / 4.0,
                    );
                    points.push(point(chain, method, k, (temperature, gain), quality));
                }
            }
        }
    }
    for (control, quality) in [
        ("unigram", (3.41, 2.74, 0.35)),
        ("data", (2.203, 2.741, 0.021)),
        ("bigram", (2.62, 2.742, 0.022)),
    ] {
        points.push(point("", control, 0, (1.0, 1.0), quality));
    }
    let training = |chain: &str, method: &str, exact_bound| Training {
        chain: chain.into(),
        method: method.into(),
        seed: 0,
        steps: 4000,
        bound: 2.345,
        exact_bound,
        seconds: 75.4,
        parameters: 123_456,
    };
    Findings {
        version: "0.1.0".into(),
        setting: "a made-up language".into(),
        sizes: (27, 128, 512),
        fitted: false,
        entropy: (2.2, 0.002),
        trainings: vec![
            training("masked", "base", Some(2.3)),
            training("uniform", "linear", None),
        ],
        points,
        marginals: vec![Marginal {
            chain: "uniform".into(),
            method: "linear".into(),
            seed: 0,
            k: 8,
            found: Marginals {
                base: 0.12,
                learned: 0.034,
                posterior: 0.1,
                own: 0.06,
                denoiser: 0.03,
                noise: 0.005,
            },
        }],
    }
}
