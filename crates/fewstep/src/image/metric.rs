//! What is measured of a point, each by its name.

use super::Point;
use crate::metrics::Neighbourhood;

/// A number of a point.
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// The number, if it could be had.
    pub see: fn(&Point) -> Option<f64>,
    /// Decimals to show.
    pub decimals: usize,
    /// Whether less is better.
    pub lower: bool,
}

/// The share of pictures that are right.
pub const ACCURACY: Metric = Metric {
    name: "class accuracy",
    see: |p| Some(p.quality.as_ref()?.accuracy),
    decimals: 3,
    lower: false,
};
/// How far the law of attributes is.
pub const LAW: Metric = Metric {
    name: "TV of attributes",
    see: |p| Some(p.quality.as_ref()?.tv),
    decimals: 3,
    lower: true,
};
/// The Frechet distance of features.
pub const FID: Metric = Metric {
    name: "FID",
    see: |p| Some(p.measured.as_ref()?.fid),
    decimals: 2,
    lower: true,
};
/// The Inception Score.
pub const SCORE: Metric = Metric {
    name: "Inception Score",
    see: |p| p.measured.as_ref()?.score.map(|(mean, _)| mean),
    decimals: 2,
    lower: false,
};
/// Generated pictures near a real one.
pub const PRECISION: Metric = share("precision", |p| Some(near(p)?.precision));
/// Real pictures near a generated one.
pub const RECALL: Metric = share("recall", |p| Some(near(p)?.recall));
/// Real neighbourhoods that a generated picture lies in.
pub const DENSITY: Metric = share("density", |p| Some(near(p)?.density));
/// Real neighbourhoods with a generated picture.
pub const COVERAGE: Metric = share("coverage", |p| Some(near(p)?.coverage));

/// Those of an Inception network.
pub const SEEN: [&Metric; 6] = [&FID, &SCORE, &PRECISION, &RECALL, &DENSITY, &COVERAGE];

const fn share(name: &'static str, see: fn(&Point) -> Option<f64>) -> Metric {
    Metric {
        name,
        see,
        decimals: 3,
        lower: false,
    }
}

fn near(point: &Point) -> Option<Neighbourhood> {
    point.measured.as_ref()?.neighbours
}

impl Metric {
    /// The mean over points, if any has it.
    pub fn mean(&self, points: &[&Point]) -> Option<f64> {
        let values = points.iter().filter_map(|p| (self.see)(p));
        let values: Vec<f64> = values.filter(|v| v.is_finite()).collect();
        let sum: f64 = values.iter().sum();
        (!values.is_empty()).then(|| sum / values.len() as f64)
    }

    /// A value as it is shown.
    pub fn show(&self, value: f64) -> String {
        format!("{value:.*}", self.decimals)
    }
}
