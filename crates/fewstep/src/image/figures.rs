//! The built-in pictures: small figures whose attributes have a known law and can be read back.
//!
//! A picture is 12 x 12 pixels of four symbols, a background and three colours. Its attributes are
//! the shape, which is its class, the colour, the size, and the layout: one figure in a quadrant, or
//! two in opposite ones. Given the class the other attributes are coupled, in pairs and all three
//! together, so that no product of marginals is near their law. Different attributes give different
//! pictures and a picture is nothing but its attributes, so all [`COUNT`] pictures and their
//! probabilities are known: the law of generated attributes is compared with the true one by counting,
//! and one wrong pixel is found.

use std::collections::HashMap;

use fewstep_ctmc::{
    Level, Path,
    random::{ChaCha8Rng, categorical},
};

use crate::sequence::Exact;

/// Pixels of a side.
pub const SIDE: usize = 12;
/// Pixels of a picture.
pub const PIXELS: usize = SIDE * SIDE;
/// The background and the colours.
pub const SYMBOLS: usize = 4;
/// The shapes, which are the classes, by their names.
pub const SHAPES: [&str; 6] = ["square", "frame", "plus", "cross", "stairs", "bars"];
/// Pictures.
pub const COUNT: usize = SHAPES.len() * COLOURS * SIZES * LAYOUTS;

const COLOURS: usize = SYMBOLS - 1;
const SIZES: usize = 2;
const LAYOUTS: usize = 6;

/// What a picture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The number in [`SHAPES`].
    pub shape: usize,
    /// 0 to 2; the symbol is one more.
    pub colour: usize,
    /// 0 for figures of four pixels a side, 1 for six.
    pub size: usize,
    /// 0 to 3 for one figure in a quadrant, in reading order; 4 for the first and the last
    /// quadrant, 5 for the other two.
    pub layout: usize,
}

impl Attributes {
    /// By their number, below [`COUNT`]; the shape counts slowest.
    pub fn numbered(number: usize) -> Self {
        let (rest, layout) = (number / LAYOUTS, number % LAYOUTS);
        let (rest, size) = (rest / SIZES, rest % SIZES);
        Self {
            shape: rest / COLOURS,
            colour: rest % COLOURS,
            size,
            layout,
        }
    }

    /// Figures in the picture.
    pub fn count(self) -> usize {
        if self.layout < 4 { 1 } else { 2 }
    }

    /// What is added up over the couplings that hold is the logarithm of the weight.
    fn weight(self) -> f64 {
        let Self {
            shape,
            colour,
            size,
            layout,
        } = self;
        let couplings = [
            (colour == shape % COLOURS, 1.5),
            ((size == 1) == (colour == 0), 1.0),
            (size == 0 && self.count() == 2, 1.0),
            (layout % 4 == shape % 4, 1.0),
            ((colour + size + layout).is_multiple_of(3), 1.5),
        ];
        let holds = couplings.iter().filter(|(holds, _)| *holds);
        holds.map(|(_, strength)| strength).sum::<f64>().exp()
    }

    /// The pixels `[SIDE, SIDE]`, row by row.
    fn draw(self) -> Vec<usize> {
        let mut pixels = vec![0; PIXELS];
        let half = SIDE / 2;
        let quadrants: &[usize] = match self.layout {
            4 => &[0, 3],
            5 => &[1, 2],
            one => &[[0], [1], [2], [3]][one],
        };
        let side = if self.size == 0 { half - 2 } else { half };
        let margin = (half - side) / 2;
        for quadrant in quadrants {
            let (top, left) = (quadrant / 2 * half + margin, quadrant % 2 * half + margin);
            for (row, column) in (0..side * side).map(|i| (i / side, i % side)) {
                if covers(self.shape, side, (row, column)) {
                    pixels[(top + row) * SIDE + left + column] = self.colour + 1;
                }
            }
        }
        pixels
    }
}

/// Whether a shape of a side covers a pixel of its square.
fn covers(shape: usize, side: usize, (row, column): (usize, usize)) -> bool {
    let middle = |at: usize| at + 1 == side / 2 || at == side / 2;
    let edge = |at: usize| at == 0 || at + 1 == side;
    match shape {
        0 => true,
        1 => edge(row) || edge(column),
        2 => middle(row) || middle(column),
        3 => row == column || row + column + 1 == side,
        4 => column <= row,
        _ => row.is_multiple_of(2),
    }
}

/// All pictures with their law.
#[derive(Clone, Debug)]
pub struct Figures {
    /// `[COUNT, PIXELS]`.
    pictures: Vec<Vec<usize>>,
    /// What a network sees of each, and the symbols of that: the pixels, or a tokenizer's codes.
    sequences: Vec<Vec<usize>>,
    symbols: usize,
    /// `[COUNT]`, the probabilities of all attributes; each class has the same.
    law: Vec<f64>,
    numbers: HashMap<Vec<usize>, usize>,
}

impl Default for Figures {
    fn default() -> Self {
        let all = || (0..COUNT).map(Attributes::numbered);
        let weights: Vec<f64> = all().map(Attributes::weight).collect();
        let of_class = COUNT / SHAPES.len();
        let law = weights.chunks_exact(of_class).flat_map(|class| {
            let total = class.iter().sum::<f64>() * SHAPES.len() as f64;
            class.iter().map(move |weight| weight / total)
        });
        let pictures: Vec<Vec<usize>> = all().map(Attributes::draw).collect();
        Self {
            law: law.collect(),
            numbers: pictures.iter().cloned().zip(0..).collect(),
            sequences: pictures.clone(),
            symbols: SYMBOLS,
            pictures,
        }
    }
}

impl Figures {
    /// The probabilities `[COUNT]` of attributes by their number.
    pub fn law(&self) -> &[f64] {
        &self.law
    }

    /// The pixels of a picture by the number of its attributes.
    pub fn picture(&self, number: usize) -> &[usize] {
        &self.pictures[number]
    }

    /// The same pictures in the codes of a tokenizer.
    pub fn coded(mut self, coder: &super::Coder) -> Self {
        self.symbols = coder.codes();
        self.sequences = self.pictures.iter().map(|p| coder.encode(p)).collect();
        self
    }

    /// What a network sees of a picture: its pixels, or its codes.
    pub fn sequence(&self, number: usize) -> &[usize] {
        &self.sequences[number]
    }

    /// The numbers of a class's pictures.
    pub fn of_class(class: usize) -> std::ops::Range<usize> {
        let each = COUNT / SHAPES.len();
        class * each..(class + 1) * each
    }

    /// The number of a picture's attributes, if it is one of the set.
    pub fn read(&self, pixels: &[usize]) -> Option<usize> {
        self.numbers.get(pixels).copied()
    }

    /// A number from the law.
    pub fn sample(&self, rng: &mut ChaCha8Rng) -> usize {
        categorical(rng, &self.law)
    }

    /// What pictures `[N, PIXELS]` are, each meant to be of its class.
    pub fn quality<'a>(
        &self,
        pictures: impl IntoIterator<Item = (&'a [usize], usize)>,
    ) -> super::Quality {
        let (mut counts, mut unread, mut right) = (vec![0usize; COUNT], 0, 0);
        for (pixels, class) in pictures {
            match self.read(pixels) {
                Some(number) => {
                    counts[number] += 1;
                    right += usize::from(Attributes::numbered(number).shape == class);
                }
                None => unread += 1,
            }
        }
        let all = (counts.iter().sum::<usize>() + unread).max(1) as f64;
        let pairs = counts.iter().zip(&self.law);
        let apart: f64 = pairs.map(|(&n, p)| (n as f64 / all - p).abs()).sum();
        super::Quality {
            accuracy: right as f64 / all,
            unread: unread as f64 / all,
            tv: (apart + unread as f64 / all) / 2.0,
        }
    }
}

/// By Bayes over all pictures, in pixels or in codes. A state may have its label behind it, which says the
/// class.
impl Exact for Figures {
    fn symbols(&self) -> usize {
        self.symbols
    }

    fn denoise(&self, path: &Path, level: Level, x: &[usize], p: &mut [f64]) {
        let (symbols, length) = (self.symbols, self.sequences[0].len());
        let label = x.get(length);
        let class = label.and_then(|label| label.checked_sub(symbols + 1));
        let numbers = match class {
            Some(class) if class < SHAPES.len() => Self::of_class(class),
            _ => 0..COUNT,
        };
        // ln p_{t|1}(x^d | x_1^d); what is impossible is only very unlikely, so that states that no
        // picture leads to have a posterior, too.
        let likelihood = |x: usize, x1: usize| {
            let l = path.likelihood_at(level, 0, x, x1);
            l.max(f64::MIN_POSITIVE).ln()
        };
        let logs: Vec<Vec<f64>> = (0..path.state_symbols())
            .map(|x| (0..symbols).map(|x1| likelihood(x, x1)).collect())
            .collect();
        let joint: Vec<f64> = numbers
            .clone()
            .map(|number| {
                let pairs = x[..length].iter().zip(&self.sequences[number]);
                self.law[number].ln() + pairs.map(|(&x, &x1)| logs[x][x1]).sum::<f64>()
            })
            .collect();
        let most = joint.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = joint.iter().map(|l| (l - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        p.fill(0.0);
        for (number, weight) in numbers.zip(weights) {
            for (at, &symbol) in self.sequences[number].iter().enumerate() {
                p[at * symbols + symbol] += weight / total;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fewstep_ctmc::random::{Key, Purpose};

    use super::*;

    #[test]
    fn every_picture_is_read_back_and_no_other() {
        let figures = Figures::default();
        for number in 0..COUNT {
            let mut pixels = figures.picture(number).to_vec();
            assert_eq!(figures.read(&pixels), Some(number));
            assert!(Figures::of_class(Attributes::numbered(number).shape).contains(&number));
            // No other picture is one pixel away.
            for at in 0..PIXELS {
                let own = pixels[at];
                pixels[at] = (own + 1) % SYMBOLS;
                assert_eq!(figures.read(&pixels), None, "{number} at {at}");
                pixels[at] = own;
            }
        }
        assert_eq!(figures.read(&[0; PIXELS]), None);
        assert_eq!(figures.read(&[]), None);
    }

    /// Attributes as a person counts them in the pixels, without the table.
    #[test]
    fn attributes_are_seen_in_the_pixels() {
        let figures = Figures::default();
        for number in 0..COUNT {
            let a = Attributes::numbered(number);
            let pixels = figures.picture(number);
            let own = |at: &usize| pixels[*at] != 0;
            let covered: Vec<usize> = (0..PIXELS).filter(own).collect();
            assert!(covered.iter().all(|&at| pixels[at] == a.colour + 1));
            let quadrant = |at: &usize| at / SIDE / 6 * 2 + at % SIDE / 6;
            let mut quadrants: Vec<usize> = covered.iter().map(quadrant).collect();
            quadrants.sort_unstable();
            quadrants.dedup();
            let expected = [&[0][..], &[1], &[2], &[3], &[0, 3], &[1, 2]][a.layout];
            assert_eq!(quadrants, expected);
            let areas = [[16, 12, 12, 8, 10, 8], [36, 20, 20, 12, 21, 18]];
            assert_eq!(covered.len(), a.count() * areas[a.size][a.shape]);
        }
    }

    /// Each class has the same mass, and the attributes within it are far from independent.
    #[test]
    fn the_law_is_coupled() {
        let figures = Figures::default();
        for class in 0..SHAPES.len() {
            let numbers = Figures::of_class(class);
            let p = |number: usize| figures.law()[number] * SHAPES.len() as f64;
            let total: f64 = numbers.clone().map(p).sum();
            assert!((total - 1.0).abs() < 1e-12);
            let (mut colours, mut sizes, mut layouts) = ([0.0; 3], [0.0; 2], [0.0; 6]);
            for number in numbers.clone() {
                let a = Attributes::numbered(number);
                colours[a.colour] += p(number);
                sizes[a.size] += p(number);
                layouts[a.layout] += p(number);
            }
            let product = |number: usize| {
                let a = Attributes::numbered(number);
                colours[a.colour] * sizes[a.size] * layouts[a.layout]
            };
            let tv: f64 = numbers.map(|n| (p(n) - product(n)).abs()).sum::<f64>() / 2.0;
            assert!(tv > 0.25, "class {class}: {tv}");
        }
    }

    #[test]
    fn quality_counts_what_it_says() {
        let figures = Figures::default();
        let n = 40_000;
        let key = Key::new(3, Purpose::Check);
        let drawn: Vec<usize> = (0..n).map(|i| figures.sample(&mut key.at(0, i))).collect();
        let all = drawn.iter().map(|&number| {
            let class = Attributes::numbered(number).shape;
            (figures.picture(number), class)
        });
        let found = figures.quality(all);
        assert_eq!((found.accuracy, found.unread), (1.0, 0.0));
        assert!(found.tv < 0.03, "{found:?}");
        // One picture four times, once as another class, and one that is none.
        let none = [0; PIXELS];
        let some = [0, 0, 0, 1].map(|class| (figures.picture(5), class));
        let found = figures.quality(some.into_iter().chain([(&none[..], 0)]));
        assert_eq!((found.accuracy, found.unread), (0.6, 0.2));
        let p = figures.law()[5];
        let tv = (0.8 - p + (1.0 - p) + 0.2) / 2.0;
        assert!((found.tv - tv).abs() < 1e-12);
    }
}
