//! The DiT against PyTorch: two checkpoints in the published format, with the logits, the
//! derivatives in `t` and the gradients that `golden/make_dit.py` computed for them in f64. The
//! network there is written apart from ours and differentiated by PyTorch.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::path::{Path, PathBuf};

use fewstep_nn::{
    Adaptation, Batch, Gradient, Learner, Network, Real, Rows, Want,
    checkpoint::{Family, Options, load},
    dit::{Config, Dit, Pass, TimeInput},
};
use serde_json::Value;

const MODELS: [&str; 2] = ["dit-mdlm", "dit-duo"];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn numbers(value: &Value) -> Vec<f64> {
    let entries = value.as_array().unwrap().iter();
    entries.map(|entry| entry.as_f64().unwrap()).collect()
}

/// What PyTorch says of a model.
struct Golden {
    x: Vec<usize>,
    t: Vec<f64>,
    symbols: usize,
    all: Value,
}

impl Golden {
    fn new(model: &str) -> Self {
        let text = std::fs::read_to_string(golden().join("dit-golden.json")).unwrap();
        let all = serde_json::from_str::<Value>(&text).unwrap()[model].take();
        let x = numbers(&all["ids"]).iter().map(|&id| id as usize).collect();
        let symbols = *numbers(&all["shape"]).last().unwrap() as usize;
        Self {
            x,
            t: numbers(&all["t"]),
            symbols,
            all,
        }
    }

    fn evaluate<T: Real>(&self, net: &Dit<T>) -> Pass<T> {
        let batch = Batch {
            x: &self.x,
            t: &self.t,
            r: &self.t,
        };
        let want = Want {
            moving: self.t.len(),
            back: Some(Adaptation::Full),
            ..Want::default()
        };
        let mut pass = Pass::default();
        net.evaluate(batch, want, &mut pass);
        pass
    }

    /// Logits and their derivatives.
    fn dual<T: Real>(&self, net: &Dit<T>) -> [Vec<f64>; 2] {
        let all: Vec<usize> = (0..self.x.len()).collect();
        let rows = Rows {
            rows: &all,
            tangent: true,
            others: Vec::new(),
        };
        let (values, tangents): (Vec<_>, Vec<_>) = net
            .visit(&self.evaluate(net), rows, |_, row| {
                (row.value.to_vec(), row.tangent.to_vec())
            })
            .into_iter()
            .unzip();
        [values, tangents].map(|rows| rows.concat().iter().map(|v| v.widen()).collect())
    }

    /// The gradient of `sum_i cos(0.37 i) logits_i`.
    fn gradient<T: Real>(&self, net: &Dit<T>) -> Vec<f64> {
        let mut data = vec![T::of(f64::NAN); net.parameters().len()];
        let mut gradient = Gradient {
            data: &mut data,
            adaptation: Adaptation::Full,
            accumulate: false,
        };
        let mut pass = self.evaluate(net);
        let all: Vec<usize> = (0..self.x.len()).collect();
        net.descend(
            &mut pass,
            Rows::plain(&all),
            |row, logits| {
                for (s, l) in logits.value.iter_mut().enumerate() {
                    *l = T::of(weight(row * self.symbols + s));
                }
            },
            &mut gradient,
        );
        net.backward(&mut pass, &mut gradient);
        data.iter().map(|g| g.widen()).collect()
    }
}

fn weight(i: usize) -> f64 {
    (0.37 * i as f64).cos()
}

/// The network of a checkpoint, which predicts every symbol, and the mask it would leave out.
fn network<T: Real>(model: &str) -> (Dit<T>, Option<usize>) {
    let loaded = load::<T>(golden().join(model), &Options::default()).unwrap();
    assert!(loaded.notes.is_empty(), "{:?}", loaded.notes);
    let (family, time, mask) = match model {
        "dit-mdlm" => (Family::Mdlm, TimeInput::Zero, Some(16)),
        _ => (Family::Duo, TimeInput::Sigma { eps: 1e-3 }, None),
    };
    assert_eq!(loaded.family, Some(family));
    assert_eq!((loaded.config.time, loaded.config.mask), (time, mask));
    let open = Config {
        mask: None,
        ..loaded.config
    };
    (Dit::from_parameters(open, loaded.parameters).unwrap(), mask)
}

fn compare(found: &[f64], expected: &[f64], tolerance: f64, what: &str) -> f64 {
    assert_eq!(found.len(), expected.len(), "{what}");
    let mut worst = 0f64;
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        let distance = (a - b).abs() / b.abs().max(1.0);
        assert!(distance <= tolerance, "{what}[{i}]: {a} not {b}");
        worst = worst.max(distance);
    }
    worst
}

#[test]
fn logits_and_derivatives_are_those_of_pytorch() {
    for model in MODELS {
        let golden = Golden::new(model);
        let expected = [
            numbers(&golden.all["logits"]),
            numbers(&golden.all["dlogits_dt"]),
        ];
        let still = expected[1].iter().all(|&d| d == 0.0);
        assert_eq!(still, model == "dit-mdlm", "time matters to DUO alone");
        let wide = golden.dual(&network::<f64>(model).0);
        let narrow = golden.dual(&network::<f32>(model).0);
        for (i, part) in ["logits", "d/dt"].into_iter().enumerate() {
            let what = format!("{model} {part}");
            let a = compare(&wide[i], &expected[i], 1e-9, &what);
            let b = compare(&narrow[i], &expected[i], 2e-4, &what);
            println!("{what}: f64 {a:.1e}, f32 {b:.1e}");
        }
        let weighted = wide[0].iter().enumerate().map(|(i, l)| l * weight(i));
        let loss = golden.all["loss"].as_f64().unwrap();
        compare(&[weighted.sum()], &[loss], 1e-9, &format!("{model} loss"));
    }
}

#[test]
fn gradients_are_those_of_pytorch() {
    for model in MODELS {
        let golden = Golden::new(model);
        compare_gradients(model, &golden, &network::<f64>(model).0, 1e-8);
        compare_gradients(model, &golden, &network::<f32>(model).0, 2e-4);
    }
}

fn compare_gradients<T: Real>(model: &str, golden: &Golden, net: &Dit<T>, tolerance: f64) {
    let gradient = golden.gradient(net);
    let expected = golden.all["gradients"].as_object().unwrap();
    let tensors = &net.layout().tensors;
    assert_eq!(tensors.len(), expected.len());
    let mut worst = 0f64;
    for tensor in tensors {
        let g = &gradient[tensor.range.clone()];
        let expected = &expected[&format!("backbone.{}", tensor.name)];
        let mut summary = vec![g.iter().sum(), g.iter().map(|g| g * g).sum()];
        summary.extend_from_slice(&g[..3]);
        let mut said = ["sum", "sum_of_squares"]
            .map(|key| expected[key].as_f64().unwrap())
            .to_vec();
        said.extend(numbers(&expected["first"]));
        let what = format!("{model} {}, within {tolerance:e}", tensor.name);
        // A sum over a tensor is as exact as its largest parts.
        let size = said[1].sqrt().max(1.0);
        summary[0] /= size;
        said[0] /= size;
        worst = worst.max(compare(&summary, &said, tolerance, &what));
    }
    println!("{model} gradients, within {tolerance:e}: {worst:.1e}");
}

/// With its mask a network gives every other symbol the same logit, and the mask never.
#[test]
fn the_mask_is_never_predicted() {
    let golden = Golden::new("dit-mdlm");
    let (open, mask) = network::<f64>("dit-mdlm");
    let mask = mask.unwrap();
    let config = Config {
        mask: Some(mask),
        ..open.config().clone()
    };
    let closed = Dit::from_parameters(config, open.parameters().to_vec()).unwrap();
    let [mut logits, tangents] = golden.dual(&open);
    for row in logits.chunks_exact_mut(golden.symbols) {
        row[mask] = -1e9;
    }
    assert_eq!(golden.dual(&closed), [logits, tangents]);
    // What never is predicted has no gradient, and the rest has that of the other symbols alone.
    let gradient = golden.gradient(&closed);
    let head = &closed.layout().head;
    assert_eq!(gradient[head.bias.clone()][mask], 0.0);
    let row = &gradient[head.weight.clone()][mask * closed.config().width..];
    assert!(row.iter().take(closed.config().width).all(|&g| g == 0.0));
    assert!(gradient.iter().all(|g| g.is_finite()));
}
