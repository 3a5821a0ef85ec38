//! Pictures: sequences of pixels with a class behind them.
//!
//! To everything in [`sequence`](crate::sequence) a picture is its pixels row by row, one symbol each
//! ([`Pixels`]), and one more symbol that is given: the class, or that none is said. [`Figures`] are
//! built in, with a law that needs no network to be compared with; others come from files
//! ([`data`](crate::data)). In the place of pixels there may be codes of patches, by a tokenizer that was
//! trained on the pictures ([`Coder`]): what is generated is decoded before anyone looks at it.

mod animation;
mod coder;
mod experiment;
mod figures;
mod format;
mod html;
mod plan;
mod sheet;
mod terminal;
mod tokenizer;

use serde::{Deserialize, Serialize};

pub use animation::animation;
pub use coder::Coder;
pub use experiment::run;
pub use figures::{Attributes, COUNT, Figures, PIXELS, SHAPES, SIDE, SYMBOLS};
pub use format::{Format, Pixels};
pub use html::{html, write};
pub use plan::{Plan, Way};
pub use terminal::table;
pub use tokenizer::{Reconstruction, Tokenization, tokenize};

use crate::text::Training;
pub use sheet::{base64, sheet};

/// What generated figures are, by exact read-back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// The share that are pictures of the set and of the class that was asked for.
    pub accuracy: f64,
    /// The share that are no pictures of the set.
    pub unread: f64,
    /// The total variation between the law of attributes and that of what was generated, in which
    /// what cannot be read lies outside.
    pub tv: f64,
}

/// Pictures of one way of sampling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// `masked`, `uniform` or `uniform-state`; empty for the data.
    pub chain: String,
    /// `base`, `linear`, `paper`, `sdtt`, `exact` (the exact denoiser) or `data`.
    pub method: String,
    /// The seed of the training and of the draws.
    pub seed: u64,
    /// Evaluations of the network that a picture took.
    pub nfe: usize,
    /// How they were drawn; 0 steps for the data.
    pub way: Way,
    /// What they are, if they can be read back.
    pub quality: Option<Quality>,
    /// The first of each class, one after the other.
    pub pictures: Vec<usize>,
}

impl Point {
    /// The name to show.
    pub fn label(&self) -> String {
        let method = match self.method.as_str() {
            "exact" => "exact denoiser",
            method => method,
        };
        let mut label = match self.chain.as_str() {
            "" => method.to_string(),
            chain => format!("{chain}, {method}"),
        };
        for (name, value, usual) in [
            ("T", self.way.temperature, 1.0),
            ("gain", self.way.gain, 1.0),
            ("guidance", self.way.guidance, 0.0),
        ] {
            if value != usual {
                label += &format!(", {name} {value}");
            }
        }
        label
    }
}

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// The program's version.
    pub version: String,
    /// What was asked for, in one line.
    pub setting: String,
    /// The pictures.
    pub format: Format,
    /// The names of the classes.
    pub classes: Vec<String>,
    /// Pictures behind each point.
    pub samples: usize,
    /// What the tokenizer loses, if one was trained.
    pub reconstruction: Option<Reconstruction>,
    /// The trainings.
    pub trainings: Vec<Training>,
    /// The points.
    pub points: Vec<Point>,
}

impl Findings {
    /// The numbers of steps, rising.
    pub fn ks(&self) -> Vec<usize> {
        let mut ks: Vec<usize> = self.points.iter().map(|p| p.way.k).collect();
        ks.retain(|&k| k > 0);
        ks.sort_unstable();
        ks.dedup();
        ks
    }

    /// The names of the curves in the order in which they were found.
    pub fn labels(&self) -> Vec<String> {
        let mut labels = Vec::new();
        for label in self.points.iter().filter(|p| p.way.k > 0).map(Point::label) {
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        labels
    }

    /// The points of a curve with so many steps, one for each seed.
    pub fn at<'a>(&'a self, label: &str, k: usize) -> Vec<&'a Point> {
        let here = |p: &&Point| p.way.k == k && p.label() == label;
        self.points.iter().filter(here).collect()
    }

    /// The mean of what is seen in the points of a curve, if they can be read.
    fn mean(&self, label: &str, k: usize, see: impl Fn(&Quality) -> f64) -> Option<f64> {
        let found = self.at(label, k);
        let values: Vec<f64> = found
            .iter()
            .filter_map(|p| p.quality.as_ref())
            .map(see)
            .collect();
        let sum: f64 = values.iter().sum();
        (!values.is_empty()).then(|| sum / values.len() as f64)
    }
}
