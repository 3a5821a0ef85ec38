//! How a series looks: colour, line and marker.
//!
//! Colour alone never carries a series. Every one of the first fourteen has its own marker,
//! and the line says the family: the paper dashed in grey and black, oracles thin, learned
//! series solid, variants in gain or temperature dash-dotted, the recipe thickest. The
//! hues are those of Okabe and Ito and of Tol, which stay apart under colour blindness.

use super::super::{Family, Row, Series};
use std::f64::consts::TAU;

const PAPER: [&str; 2] = ["#808080", "#000000"];
const ORACLE: [&str; 2] = ["#8a5a2b", "#882255"];
const RECIPE: &str = "#d55e00";
const LEARNED: [&str; 9] = [
    "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#332288", "#999933", "#44aa99", "#aa4499",
];

/// A regular polygon or star around its centre.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Marker {
    /// Corners; zero stands for the circle.
    corners: u32,
    /// Rotation from a corner at the top, in turns.
    turn: f64,
    /// Radius of the dents between corners, as a part of the outer radius; 1 for a polygon.
    dent: f64,
}

const fn polygon(corners: u32, turn: f64) -> Marker {
    Marker { corners, turn, dent: 1.0 }
}

const fn star(corners: u32, turn: f64, dent: f64) -> Marker {
    Marker { corners, turn, dent }
}

const MARKERS: [Marker; 14] = [
    polygon(4, 0.125),
    polygon(0, 0.0),
    polygon(3, 0.0),
    polygon(4, 0.0),
    polygon(3, 0.5),
    star(5, 0.0, 0.45),
    star(4, 0.125, 0.4),
    polygon(6, 0.0),
    polygon(3, 0.25),
    star(4, 0.0, 0.4),
    polygon(3, 0.75),
    polygon(5, 0.0),
    star(3, 0.0, 0.35),
    star(6, 0.0, 0.5),
];

/// The look of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Style {
    colour: &'static str,
    width: f64,
    dash: &'static str,
    marker: Marker,
    radius: f64,
}

impl Style {
    /// One style per series, in the same order.
    pub fn of(series: &[Series<'_, Row>]) -> Vec<Self> {
        let mut learned = LEARNED.iter().cycle();
        let mut paper = PAPER.iter().cycle();
        let mut oracle = ORACLE.iter().cycle();
        let markers = MARKERS.iter().cycle();
        series
            .iter()
            .zip(markers)
            .map(|(series, &marker)| {
                // Series that coincide still show: the later drawn has the smaller marker.
                let (colours, width, dash, radius) = match series.family {
                    Family::Paper => (&mut paper, 1.8, "6 4", 3.6),
                    Family::Oracle => (&mut oracle, 1.0, "", 4.4),
                    Family::Base | Family::Dag => (&mut learned, 2.0, "", 5.2),
                    Family::Tuned => (&mut learned, 2.0, "9 3 2 3", 5.2),
                    Family::Recipe => return Self { colour: RECIPE, width: 4.0, dash: "", marker, radius: 6.5 },
                };
                let colour = colours.next().copied().unwrap_or(RECIPE);
                Self { colour, width, dash, marker, radius }
            })
            .collect()
    }

    /// The line through `points`.
    pub fn line(&self, points: &[(f64, f64)]) -> String {
        let Self { colour, width, dash, .. } = self;
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dash = if dash.is_empty() { String::new() } else { format!(r#" stroke-dasharray="{dash}""#) };
        format!(
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"{dash}/>"#,
            points.join(" ")
        )
    }

    /// The attributes and outline of the marker at `(x, y)`, as an unclosed element so that
    /// the caller can add a tooltip; `open` markers are hollow.
    pub fn marker(&self, x: f64, y: f64, open: bool, tooltip: &str) -> String {
        let (fill, stroke) = if open { ("#ffffff", self.colour) } else { (self.colour, "#ffffff") };
        let (name, outline) = match self.marker.corners {
            0 => ("circle", format!(r#"cx="{x:.1}" cy="{y:.1}" r="{:.1}""#, self.radius * 0.85)),
            _ => ("polygon", format!(r#"points="{}""#, self.corners(x, y))),
        };
        format!(
            r#"<{name} {outline} fill="{fill}" stroke="{stroke}" stroke-width="{}"><title>{tooltip}</title></{name}>"#,
            if open { 1.6 } else { 0.7 }
        )
    }

    fn corners(&self, x: f64, y: f64) -> String {
        let Marker { corners, turn, dent } = self.marker;
        let corner = |i: u32| {
            let radius = if i % 2 == 0 { self.radius } else { self.radius * dent };
            let (sin, cos) = (TAU * (f64::from(i) / f64::from(2 * corners) + turn)).sin_cos();
            format!("{:.1},{:.1}", x + radius * sin, y - radius * cos)
        };
        // A polygon's sides need no point between their corners.
        let step = if dent < 1.0 { 1 } else { 2 };
        (0..2 * corners).step_by(step).map(corner).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Report;
    use super::super::super::tests::{row, sample};
    use super::*;

    #[test]
    fn the_line_says_the_family() {
        let report = sample();
        let styles = Style::of(&report.series());
        let look: Vec<_> = styles.iter().map(|s| (s.colour, s.width, s.dash)).collect();
        assert_eq!(
            look,
            [
                ("#808080", 1.8, "6 4"),
                ("#8a5a2b", 1.0, ""),
                ("#0072b2", 2.0, ""),
                ("#009e73", 2.0, ""),
                ("#cc79a7", 2.0, "9 3 2 3"),
                ("#d55e00", 4.0, ""),
            ]
        );
    }

    #[test]
    fn fourteen_series_look_different() {
        let mut table = vec![row("paper-baseline", "", "", 2, 0.1), row("paper-ours", "", "", 2, 0.1)];
        table.push(row("exact-posterior", "", "", 2, 0.1));
        table.push(row("exact-marginals", "", "", 2, 0.1));
        table.extend((0..9).map(|i| Row { gain: f64::from(i), ..row("dag", "u", "exact", 2, 0.1) }));
        table.push(row("dag-recipe", "u", "exact", 2, 0.1));
        let report = Report { table, ..Report::default() };
        let styles = Style::of(&report.series());
        assert_eq!(styles.len(), 14);
        for (i, one) in styles.iter().enumerate() {
            for other in &styles[..i] {
                assert_ne!(one.marker, other.marker);
                assert_ne!(one.colour, other.colour);
            }
        }
    }

    #[test]
    fn corners_lie_where_geometry_says() {
        let mut style = Style { colour: RECIPE, width: 1.0, dash: "", marker: polygon(4, 0.0), radius: 10.0 };
        assert_eq!(style.corners(50.0, 50.0), "50.0,40.0 60.0,50.0 50.0,60.0 40.0,50.0");
        style.marker = star(4, 0.0, 0.5);
        assert!(style.corners(50.0, 50.0).starts_with("50.0,40.0 53.5,46.5 60.0,50.0"));
    }
}
