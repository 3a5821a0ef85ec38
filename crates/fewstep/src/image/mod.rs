//! Pictures: sequences of pixels with a class behind them.
//!
//! To everything in [`sequence`](crate::sequence) a picture is its pixels row by row, one symbol each
//! ([`Pixels`]), and one more symbol that is given: the class, or that none is said. [`Figures`] are
//! built in, with a law that needs no network to be compared with; others come from files
//! ([`data`](crate::data)). In the place of pixels there may be codes of patches, by a tokenizer that was
//! trained on the pictures ([`Coder`]): what is generated is decoded before anyone looks at it.

mod animation;
mod charts;
mod coder;
mod experiment;
mod figures;
mod format;
mod html;
mod metric;
mod plan;
mod reference;
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
use metric::Metric;
pub use plan::{Plan, Way};
pub use terminal::table;
pub use tokenizer::{Reconstruction, Tokenization, tokenize};

use crate::{metrics::Measured, text::Training};
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
    /// `base`, the name of a method, `exact` (the exact denoiser) or `data`.
    pub method: String,
    /// The seed of the training and of the draws.
    pub seed: u64,
    /// Evaluations of the network that a picture took.
    pub nfe: usize,
    /// How they were drawn; 0 steps for the data.
    pub way: Way,
    /// What they are, if they can be read back.
    pub quality: Option<Quality>,
    /// How far they are from validation pictures to an Inception network, if one looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// The first of each class, one after the other.
    pub pictures: Vec<usize>,
}

impl Point {
    /// Whether it is that of a chain and method with a seed, drawn this way.
    fn is(&self, (chain, method): (&str, &str), seed: u64, way: Way) -> bool {
        (
            self.chain.as_str(),
            self.method.as_str(),
            self.seed,
            self.way,
        ) == (chain, method, seed, way)
    }

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

    /// The mean of a metric over the points of a curve, if they have it.
    fn mean(&self, label: &str, k: usize, metric: &Metric) -> Option<f64> {
        metric.mean(&self.at(label, k))
    }

    /// Whether any point has a metric.
    fn has(&self, metric: &Metric) -> bool {
        self.points.iter().any(|p| (metric.see)(p).is_some())
    }

    /// What is to be kept in mind of what was measured, each once.
    fn notes(&self) -> Vec<&str> {
        let measured = self.points.iter().filter_map(|p| p.measured.as_ref());
        let mut notes = Vec::new();
        for note in measured.flat_map(|m| &m.notes) {
            if !notes.contains(&note.as_str()) {
                notes.push(note.as_str());
            }
        }
        notes
    }
}
