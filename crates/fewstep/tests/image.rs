//! The built-in pictures through the sampler, with their exact denoiser in the place of a network.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use fewstep::{
    image::{COUNT, Figures, PIXELS, SHAPES, SYMBOLS},
    sequence::{
        Chain, Exact, Oracle,
        sampler::{Decoding, Guidance, watched},
    },
};
use fewstep_ctmc::Grid;

const UNSAID: usize = SYMBOLS + 1 + SHAPES.len();

fn oracle(chain: Chain) -> Oracle<Figures> {
    Oracle {
        law: Figures::default(),
        path: chain.path(SYMBOLS).unwrap(),
    }
}

fn labels() -> Vec<usize> {
    (0..SHAPES.len()).map(|class| SYMBOLS + 1 + class).collect()
}

fn draw(
    oracle: &Oracle<Figures>,
    k: usize,
    how: Decoding,
    labels: &[usize],
    count: usize,
) -> (Vec<usize>, usize) {
    let (grid, sizes) = (Grid::uniform(k).unwrap(), (count, PIXELS, 50));
    watched(
        oracle,
        &oracle.path,
        &grid,
        (&how, labels),
        sizes,
        1,
        |_, _| {},
    )
}

/// At noise the posterior is the class's marginals, at data the picture; a pixel that is seen leaves the
/// pictures that have it.
#[test]
fn the_exact_posterior_is_bayes() {
    let figures = Figures::default();
    let masked = oracle(Chain::Masked).path;
    let level = |t: f64| masked.schedule().level(t);
    let (class, at) = (3, 2 * 12 + 2);
    let mut state = vec![SYMBOLS; PIXELS];
    state.push(labels()[class]);
    let mut p = vec![0.0; (PIXELS + 1) * SYMBOLS];
    figures.denoise(&masked, level(0.0), &state, &mut p);
    let share = |holds: &dyn Fn(&[usize]) -> bool| -> f64 {
        let numbers = Figures::of_class(class).filter(|&n| holds(figures.picture(n)));
        numbers
            .map(|n| figures.law()[n] * SHAPES.len() as f64)
            .sum()
    };
    for symbol in 0..SYMBOLS {
        let expected = share(&|picture| picture[at] == symbol);
        assert!((p[at * SYMBOLS + symbol] - expected).abs() < 1e-12);
    }
    state[0] = 2;
    figures.denoise(&masked, level(0.3), &state, &mut p);
    for symbol in 0..SYMBOLS {
        let both = share(&|picture| picture[0] == 2 && picture[at] == symbol);
        let expected = both / share(&|picture| picture[0] == 2);
        assert!((p[at * SYMBOLS + symbol] - expected).abs() < 1e-12);
    }
    for chain in [Chain::Masked, Chain::Uniform] {
        let path = oracle(chain).path;
        for number in (0..COUNT).step_by(17) {
            let picture = figures.picture(number);
            let state: Vec<usize> = picture.iter().copied().chain([UNSAID]).collect();
            figures.denoise(&path, path.schedule().level(0.99), &state, &mut p);
            for (at, &symbol) in picture.iter().enumerate() {
                assert!(p[at * SYMBOLS + symbol] > 1.0 - 1e-9);
            }
        }
    }
}

/// Many steps of the exact denoiser draw the law; few do not, and are noticed.
#[test]
fn the_exact_denoiser_draws_the_law_in_many_steps() {
    let oracle = oracle(Chain::Uniform);
    let measure = |k: usize| {
        let (x, nfe) = draw(&oracle, k, Decoding::default(), &labels(), 600);
        assert_eq!(nfe, k);
        oracle
            .law
            .quality(x.chunks_exact(PIXELS).zip((0..SHAPES.len()).cycle()))
    };
    let (many, few) = (measure(64), measure(1));
    assert!(many.accuracy > 0.98, "{many:?}");
    // The noise of 600 draws of 216 kinds is about 0.15.
    assert!(many.tv < 0.25, "{many:?}");
    assert!(few.accuracy < 0.05 && few.tv > 0.9, "{few:?}");
}

/// With `w = -1` the label is taken away again, to the bit; with 0 nothing is evaluated twice.
#[test]
fn guidance_is_the_difference_of_two_evaluations() {
    let guided = |scale: f64, rises: bool| Decoding {
        guidance: Guidance {
            scale,
            rises,
            unsaid: UNSAID,
        },
        ..Decoding::default()
    };
    for chain in [Chain::Masked, Chain::Uniform] {
        let oracle = oracle(chain);
        let draw = |how: Decoding, labels: &[usize]| draw(&oracle, 4, how, labels, 24);
        let plain = draw(Decoding::default(), &labels());
        assert_eq!(plain.1, 4);
        assert_eq!(draw(guided(0.0, true), &labels()), plain);
        let (without, nfe) = draw(guided(-1.0, false), &labels());
        assert_eq!(nfe, 8);
        assert_eq!(without, draw(Decoding::default(), &[UNSAID]).0);
        assert_ne!(without, plain.0);
        // The first of four steps has no guidance yet.
        assert_eq!(draw(guided(3.0, true), &labels()).1, 7);
        // Without labels there is nothing to guide.
        assert_eq!(draw(guided(3.0, false), &[]).1, 4);
    }
}
