//! The tokenizer of pictures: its gradient against central differences of a plain version, its codebook
//! against plain averages, its files.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use fewstep_ctmc::random::{Key, Purpose, normal};
use fewstep_nn::{
    checkpoint::{self, Options},
    optim::{Schedule, Settings, TrainState, Trainable},
    vq::{Cells, Codebook, Config, Vq, perplexity},
};

const SMALL: Config = Config {
    digits: 3,
    levels: 2,
    hidden: 5,
    embedding: 2,
    codes: 4,
};
const CELLS: Cells = Cells {
    rows: 2,
    columns: 3,
};

/// Layers `W [I, O]` and `b [O]` with SiLU between them, written out.
fn perceptron(sizes: &[usize], parameters: &[f64], input: &[f64]) -> Vec<f64> {
    let (mut x, mut rest) = (input.to_vec(), parameters);
    for (layer, pair) in sizes.windows(2).enumerate() {
        let (w, after) = rest.split_at(pair[0] * pair[1]);
        let (b, after) = after.split_at(pair[1]);
        rest = after;
        x = (0..pair[1])
            .map(|o| {
                let sum: f64 = (0..pair[0]).map(|i| x[i] * w[i * pair[1] + o]).sum();
                let z = sum + b[o];
                if layer + 2 == sizes.len() {
                    z
                } else {
                    z / (1.0 + (-z).exp())
                }
            })
            .collect();
    }
    assert!(rest.is_empty());
    x
}

/// A cell's neighbours in reading order, by two loops.
fn neighbours(cell: usize) -> Vec<Option<usize>> {
    let (rows, columns) = (CELLS.rows as i64, CELLS.columns as i64);
    let (row, column) = (cell as i64 / columns, cell as i64 % columns);
    let mut all = Vec::new();
    for (y, x) in (-1..=1).flat_map(|y| (-1..=1).map(move |x| (row + y, column + x))) {
        let inside = (0..rows).contains(&y) && (0..columns).contains(&x);
        all.push(inside.then_some((y * columns + x) as usize));
    }
    all
}

/// The loss with the codes `k` of vectors `z0` held fixed and the vectors in their place moving.
fn loss(parameters: &[f64], digits: &[usize], book: &[f64], chosen: &[(usize, Vec<f64>)]) -> f64 {
    let (d, l, e) = (SMALL.digits, SMALL.levels, SMALL.embedding);
    let split = SMALL.layout();
    let z: Vec<Vec<f64>> = digits
        .chunks(d)
        .map(|patch| {
            let mut input = vec![0.0; d * l];
            for (i, &digit) in patch.iter().enumerate() {
                input[i * l + digit] = 1.0;
            }
            let sizes = [d * l, SMALL.hidden, SMALL.hidden, e];
            perceptron(&sizes, &parameters[split.encoder.clone()], &input)
        })
        .collect();
    let (mut nll, mut apart) = (0.0, 0.0);
    for (at, (code, _)) in chosen.iter().enumerate() {
        let (first, cell) = (at - at % CELLS.count(), at % CELLS.count());
        let mut input = Vec::new();
        for cell in neighbours(cell) {
            match cell {
                None => input.extend(vec![0.0; e]),
                Some(cell) => {
                    let (code, z0) = &chosen[first + cell];
                    let own = &z[first + cell];
                    input.extend((0..e).map(|i| book[code * e + i] + own[i] - z0[i]));
                }
            }
        }
        let sizes = [9 * e, SMALL.hidden, SMALL.hidden, d * l];
        let law = perceptron(&sizes, &parameters[split.decoder.clone()], &input);
        for (i, row) in law.chunks(l).enumerate() {
            let total: f64 = row.iter().map(|v| v.exp()).sum();
            nll += total.ln() - row[digits[at * d + i]];
        }
        for i in 0..e {
            apart += (z[at][i] - book[code * e + i]).powi(2);
        }
    }
    nll / digits.len() as f64 + 0.25 * apart / (chosen.len() * e) as f64
}

#[test]
fn the_gradient_goes_straight_through() {
    let mut vq = Vq::<f64>::new(SMALL, 5).unwrap();
    let layout = SMALL.layout();
    let mut parameters = vq.parameters();
    let mut rng = Key::new(1, Purpose::Check).at(0, 0);
    // Biases too, and codes that live.
    for p in &mut parameters[..layout.decoder.end] {
        *p += 0.2 * normal(&mut rng);
    }
    parameters[layout.counts.clone()].fill(1.0);
    for p in &mut parameters[layout.vectors.clone()] {
        *p = 0.5 * normal(&mut rng);
    }
    // Five pictures: more than one part, the last not full.
    let count = 5 * CELLS.count() * SMALL.digits;
    let digits: Vec<usize> = (0..count).map(|i| i * i / 3 % SMALL.levels).collect();
    let before = parameters.clone();
    let book = before[layout.vectors.clone()].to_vec();
    let mut gradient = vec![f64::NAN; layout.len()];
    let learned = vq.learn((CELLS, &digits), &mut parameters, &mut gradient, &mut rng);
    assert_eq!(learned.revived, 0);
    // The codes by a plain search.
    let sizes = [
        SMALL.digits * SMALL.levels,
        SMALL.hidden,
        SMALL.hidden,
        SMALL.embedding,
    ];
    let chosen: Vec<(usize, Vec<f64>)> = digits
        .chunks(SMALL.digits)
        .map(|patch| {
            let mut input = vec![0.0; sizes[0]];
            for (i, &digit) in patch.iter().enumerate() {
                input[i * SMALL.levels + digit] = 1.0;
            }
            let z = perceptron(&sizes, &before[layout.encoder.clone()], &input);
            let mut best = (f64::INFINITY, 0);
            for (k, code) in book.chunks(SMALL.embedding).enumerate() {
                let apart = code.iter().zip(&z).map(|(c, z)| (c - z).powi(2)).sum();
                if apart < best.0 {
                    best = (apart, k);
                }
            }
            (best.1, z)
        })
        .collect();
    let codes: Vec<usize> = chosen.iter().map(|(k, _)| *k).collect();
    assert_eq!(learned.codes, codes);
    let value = loss(&before, &digits, &book, &chosen);
    assert!((learned.nll + learned.commitment - value).abs() < 1e-12);
    let mut moved = before.clone();
    for i in 0..layout.decoder.end {
        let mut at = |h: f64| {
            moved[i] = before[i] + h;
            let value = loss(&moved, &digits, &book, &chosen);
            moved[i] = before[i];
            value
        };
        let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
        assert!((numeric - gradient[i]).abs() < 1e-8, "parameter {i}");
    }
    assert!(gradient[layout.decoder.end..].iter().all(|g| *g == 0.0));
    // The codes moved to the averages of what chose them.
    for (k, code) in parameters[layout.vectors.clone()].chunks(2).enumerate() {
        let mine: Vec<&Vec<f64>> = chosen.iter().filter(|c| c.0 == k).map(|c| &c.1).collect();
        let n = 0.95 + 0.05 * mine.len() as f64;
        for i in 0..2 {
            let old = before[layout.sums.start + k * 2 + i];
            let sum: f64 = mine.iter().map(|z| z[i]).sum();
            let expected = (0.95 * old + 0.05 * sum) / n;
            assert!((code[i] - expected).abs() < 1e-12, "code {k}");
        }
    }
    // And what was learned of the digits is what is decoded.
    vq.set(&before);
    let surprise = vq.surprise(CELLS, &codes, &digits);
    assert!((surprise - learned.nll).abs() < 1e-12);
}

#[test]
fn dead_codes_go_where_they_are_missing() {
    let mut rng = Key::new(2, Purpose::Check).at(0, 0);
    let (mut vectors, mut counts, mut sums) = (vec![0.0; 8], vec![0.0; 4], vec![0.0; 8]);
    let mut book = Codebook {
        vectors: &mut vectors,
        counts: &mut counts,
        sums: &mut sums,
    };
    // Four kinds, one of them rare: a codebook of four has them all from the beginning.
    let kinds = [[0.0, 0.0], [5.0, 0.0], [0.0, 5.0], [9.0, 9.0]];
    let z: Vec<f64> = (0..200)
        .flat_map(|i| kinds[if i == 77 { 3 } else { i % 3 }])
        .collect();
    assert_eq!(book.revive(&z, &mut rng), 4);
    let mut found: Vec<[f64; 2]> = book.vectors.chunks(2).map(|v| [v[0], v[1]]).collect();
    found.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let mut expected = kinds.to_vec();
    expected.sort_by(|a, b| a.partial_cmp(b).unwrap());
    assert_eq!(found, expected);
    assert_eq!(book.revive(&z, &mut rng), 0);
    // Not chosen for long, a code dies and comes back where a vector is far from all others.
    let before = book.vectors.to_vec();
    let gone = (0..4).find(|k| before[k * 2] == 5.0).unwrap();
    let others: Vec<usize> = (0..4).filter(|k| *k != gone).collect();
    let rest: Vec<f64> = others
        .iter()
        .flat_map(|k| before[k * 2..k * 2 + 2].to_vec())
        .collect();
    let mut steps = 0;
    while book.counts[gone] >= 0.01 {
        book.follow(&rest, &others);
        steps += 1;
    }
    // 0.95^90 < 0.01 <= 0.95^89.
    assert_eq!(steps, 90);
    let mut z = rest.clone();
    z.extend([-4.0, -4.0]);
    assert_eq!(book.revive(&z, &mut rng), 1);
    assert_eq!(book.vectors[gone * 2..gone * 2 + 2], [-4.0, -4.0]);
    for &k in &others {
        for i in k * 2..k * 2 + 2 {
            assert!((book.vectors[i] - before[i]).abs() < 1e-12);
        }
    }
}

#[test]
fn perplexity_counts_codes() {
    assert!((perplexity(&[3, 3, 0, 3]) - 3.0).abs() < 1e-12);
    assert!((perplexity(&[7, 0, 0]) - 1.0).abs() < 1e-12);
    let h = -(0.75f64 * 0.75f64.ln() + 0.25 * 0.25f64.ln());
    assert!((perplexity(&[3, 1]) - h.exp()).abs() < 1e-12);
    assert!((perplexity(&[]) - 1.0).abs() < 1e-12);
}

/// Pictures of six cells with patches of five kinds.
fn digits(step: u64) -> Vec<usize> {
    const KINDS: [[usize; 3]; 5] = [[0, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]];
    let mut rng = Key::new(3, Purpose::Data).at(step, 0);
    let kind = |_| KINDS[fewstep_ctmc::random::index(&mut rng, 5)];
    (0..8 * CELLS.count()).flat_map(kind).collect()
}

fn trained(threads: usize) -> Vec<f32> {
    let config = Config {
        hidden: 16,
        embedding: 4,
        codes: 8,
        ..SMALL
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    pool.build().unwrap().install(|| {
        let mut vq = Vq::<f32>::new(config, 0).unwrap();
        let layout = config.layout();
        let all = std::iter::once(0..layout.decoder.end);
        let trainable = Trainable::new(layout.len(), &all.collect::<Vec<_>>()).unwrap();
        let mut state = TrainState::new(0, vq.parameters(), trainable, Settings::ADAM, None);
        let mut gradient = vec![0.0; layout.len()];
        for step in 0..300 {
            let mut rng = Key::new(0, Purpose::Data).at(step, 1);
            let of = (CELLS, &digits(step)[..]);
            let learned = vq.learn(of, state.parameters_mut(), &mut gradient, &mut rng);
            let loss = learned.nll + learned.commitment;
            let schedule = Schedule::cosine(5e-3, 10, 300);
            state.apply(&gradient, loss, &schedule, Some(1.0)).unwrap();
        }
        state.parameters().to_vec()
    })
}

#[test]
fn a_few_kinds_of_patches_are_learned_on_any_number_of_threads() {
    let parameters = trained(2);
    assert_eq!(parameters, trained(1));
    let config = Config {
        hidden: 16,
        embedding: 4,
        codes: 8,
        ..SMALL
    };
    let vq = Vq::from_parameters(config, &parameters).unwrap();
    let digits = digits(999);
    let codes = vq.encode(&digits);
    assert_eq!(vq.decode(CELLS, &codes), digits);
    let mut counts = vec![0; 8];
    codes.iter().for_each(|&k| counts[k] += 1);
    assert!(perplexity(&counts) > 4.0, "{counts:?}");
    // What is no code is decoded to something, and says nothing to others.
    assert_eq!(vq.decode(CELLS, &[8; 6]).len(), 18);

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("model.safetensors");
    checkpoint::save_network(&file, &config.layout().tensors, &parameters).unwrap();
    let again = Vq::<f32>::load(dir.path(), &Options::default()).unwrap();
    assert_eq!(*again.config(), config);
    assert_eq!(again.encode(&digits), codes);
    let report = checkpoint::inspect(&file);
    assert_eq!(report.failure, None);
    let network = report.network.unwrap();
    assert_eq!(network.parameters, Some(parameters.len()));
    assert!(network.sizes.unwrap().starts_with("8 codes of 4 channels"));
    // Cut short, it is refused.
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 5]).unwrap();
    assert!(Vq::<f32>::load(dir.path(), &Options::default()).is_err());
    assert!(checkpoint::inspect(&file).failure.is_some());
}

#[test]
fn impossible_sizes_are_refused() {
    for config in [
        Config { digits: 0, ..SMALL },
        Config { levels: 1, ..SMALL },
        Config {
            digits: 1 << 40,
            levels: 1 << 40,
            ..SMALL
        },
        Config { codes: 1, ..SMALL },
        Config {
            codes: 1 << 20,
            ..SMALL
        },
        Config { hidden: 0, ..SMALL },
        Config {
            embedding: 0,
            ..SMALL
        },
    ] {
        assert!(config.checked().is_err(), "{config:?}");
        assert!(Vq::<f32>::new(config, 0).is_err());
    }
    assert!(Vq::from_parameters(SMALL, &[0.0f32; 3]).is_err());
}
