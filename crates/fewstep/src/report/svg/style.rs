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
const RECIPE: [&str; 2] = ["#d55e00", "#a50026"];
const LEARNED: [&str; 9] = [
    "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#332288", "#999933", "#44aa99",
    "#aa4499",
];

/// A regular polygon or star around its centre.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marker {
    /// Corners; zero stands for the circle.
    corners: u32,
    /// Rotation from a corner at the top, in turns.
    turn: f64,
    /// Radius of the dents between corners, as a part of the outer radius; 1 for a polygon.
    dent: f64,
}

const fn polygon(corners: u32, turn: f64) -> Marker {
    Marker {
        corners,
        turn,
        dent: 1.0,
    }
}

const fn star(corners: u32, turn: f64, dent: f64) -> Marker {
    Marker {
        corners,
        turn,
        dent,
    }
}

impl Marker {
    /// The outer radius that gives every shape the area of the circle of radius `size`.
    fn radius(&self, size: f64) -> f64 {
        let (n, half_turn) = (f64::from(self.corners), TAU / 2.0);
        let area = match self.corners {
            0 => half_turn,
            _ if self.dent < 1.0 => n * self.dent * (half_turn / n).sin(),
            _ => n / 2.0 * (TAU / n).sin(),
        };
        size * (half_turn / area).sqrt()
    }
}

/// The shapes, the plainest first: square, circle, triangle, diamond.
pub const MARKERS: [Marker; 14] = [
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
    pub colour: &'static str,
    /// Of the line; zero draws none.
    pub width: f64,
    /// Lengths of dashes and gaps; empty for a solid line.
    pub dash: &'static str,
    pub marker: Marker,
    /// The radius of the circle of the marker's area; zero draws no marker.
    pub size: f64,
}

impl Style {
    /// One style per series, in the same order.
    pub fn of(series: &[Series<'_, Row>]) -> Vec<Self> {
        let [mut paper, mut oracle, mut learned, mut recipe] =
            [&PAPER[..], &ORACLE, &LEARNED, &RECIPE].map(|colours| colours.iter().copied().cycle());
        let mut style = |family, marker| {
            // Series that coincide still show: the later drawn has the smaller marker.
            let (colour, width, dash, size) = match family {
                Family::Paper => (paper.next(), 1.8, "6 4", 2.9),
                Family::Oracle => (oracle.next(), 1.0, "", 3.6),
                Family::Base | Family::Dag => (learned.next(), 2.0, "", 4.4),
                Family::Tuned => (learned.next(), 2.0, "9 3 2 3", 4.4),
                Family::Recipe => (recipe.next(), 4.0, "", 5.6),
            };
            Self {
                colour: colour.unwrap_or("#000000"),
                width,
                dash,
                marker,
                size,
            }
        };
        let markers = MARKERS.into_iter().cycle();
        series
            .iter()
            .zip(markers)
            .map(|(series, marker)| style(series.family, marker))
            .collect()
    }

    /// The look of series `i` of many that are no family: colours and markers in turn, which come together
    /// again after all their pairs.
    pub fn numbered(i: usize) -> Self {
        Self {
            colour: LEARNED[i % LEARNED.len()],
            width: 2.0,
            dash: "",
            marker: MARKERS[i % MARKERS.len()],
            size: 4.2,
        }
    }

    /// The line through `points`.
    pub fn line(&self, points: &[(f64, f64)]) -> String {
        let Self {
            colour,
            width,
            dash,
            ..
        } = self;
        if *width == 0.0 {
            return String::new();
        }
        let points: Vec<_> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let dash = if dash.is_empty() {
            String::new()
        } else {
            format!(r#" stroke-dasharray="{dash}""#)
        };
        format!(
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"{dash}/>"#,
            points.join(" ")
        )
    }

    /// The marker at `(x, y)`, hollow if `open`, around the markup `inside`.
    pub fn marker(&self, x: f64, y: f64, open: bool, inside: &str) -> String {
        if self.size == 0.0 {
            return String::new();
        }
        let (fill, stroke) = if open {
            ("#ffffff", self.colour)
        } else {
            (self.colour, "#ffffff")
        };
        let (name, outline) = match self.marker.corners {
            0 => (
                "circle",
                format!(r#"cx="{x:.1}" cy="{y:.1}" r="{:.1}""#, self.size),
            ),
            _ => ("polygon", format!(r#"points="{}""#, self.corners(x, y))),
        };
        format!(
            r#"<{name} {outline} fill="{fill}" stroke="{stroke}" stroke-width="{}">{inside}</{name}>"#,
            if open { 1.6 } else { 0.7 }
        )
    }

    fn corners(&self, x: f64, y: f64) -> String {
        let Marker {
            corners,
            turn,
            dent,
        } = self.marker;
        let outer = self.marker.radius(self.size);
        let corner = |i: u32| {
            let radius = if i.is_multiple_of(2) {
                outer
            } else {
                outer * dent
            };
            let (sin, cos) = (TAU * (f64::from(i) / f64::from(2 * corners) + turn)).sin_cos();
            format!("{:.1},{:.1}", x + radius * sin, y - radius * cos)
        };
        // A polygon's sides need no point between their corners.
        let step = if dent < 1.0 { 1 } else { 2 };
        (0..2 * corners)
            .step_by(step)
            .map(corner)
            .collect::<Vec<_>>()
            .join(" ")
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
        let mut table = vec![
            row("paper-baseline", "", "", 2, 0.1),
            row("paper-ours", "", "", 2, 0.1),
        ];
        table.push(row("exact-posterior", "", "", 2, 0.1));
        table.push(row("exact-marginals", "", "", 2, 0.1));
        table.extend((0..9).map(|i| Row {
            gain: f64::from(i),
            ..row("dag", "u", "exact", 2, 0.1)
        }));
        table.push(row("dag-recipe", "u", "exact", 2, 0.1));
        let report = Report {
            table,
            ..Report::default()
        };
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
    fn numbered_series_look_different() {
        let look = |i| (Style::numbered(i).colour, Style::numbered(i).marker);
        for i in 0..60 {
            assert!((0..i).all(|j| look(i) != look(j)), "{i}");
        }
    }

    #[test]
    fn corners_lie_where_geometry_says() {
        // The square on its tip of area 200 has half diagonal 10.
        let size = (200.0 / (TAU / 2.0)).sqrt();
        let style = Style {
            colour: RECIPE[0],
            width: 1.0,
            dash: "",
            marker: polygon(4, 0.0),
            size,
        };
        assert_eq!(
            style.corners(50.0, 50.0),
            "50.0,40.0 60.0,50.0 50.0,60.0 40.0,50.0"
        );
    }

    #[test]
    fn markers_have_equal_area() {
        let shoelace = |points: &str| {
            let parse = |p: &str| {
                p.split_once(',')
                    .map(|(x, y)| (x.parse::<f64>().expect("x"), y.parse::<f64>().expect("y")))
            };
            let points: Vec<_> = points.split(' ').filter_map(parse).collect();
            let next = points.iter().cycle().skip(1);
            points
                .iter()
                .zip(next)
                .map(|(a, b)| a.0 * b.1 - b.0 * a.1)
                .sum::<f64>()
                / 2.0
        };
        for marker in MARKERS.into_iter().filter(|marker| marker.corners > 0) {
            let style = Style {
                colour: RECIPE[0],
                width: 1.0,
                dash: "",
                marker,
                size: 100.0,
            };
            let area = shoelace(&style.corners(0.0, 0.0));
            assert!((area / 31_415.9 - 1.0).abs() < 1e-2, "{marker:?}: {area}");
        }
    }
}
