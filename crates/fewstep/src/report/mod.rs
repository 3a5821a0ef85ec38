//! What a person looks at in the end: the measured table as JSON, HTML, SVG and plain text.
//!
//! A [`Report`] is plain data and round-trips through JSON. Every view is a pure function
//! of it that returns a string; only [`write()`] and [`atomic`] touch the disk. A run can
//! therefore be interrupted, reread and redrawn without training anything again.

pub(crate) mod html;
mod series;
mod setting;
pub(crate) mod svg;
pub(crate) mod terminal;
pub(crate) mod write;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

pub use html::html;
pub use series::Series;
pub use setting::Family;
pub use svg::{split_chart, tv_chart};
pub use terminal::table;
pub use write::{WriteError, atomic, write};

/// One cell of the TV table: one method at one number of steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `paper-baseline`, `paper-ours`, `exact-posterior`, `exact-marginals`, `base`, `dag` or
    /// `dag-recipe`; in a comparison also another method, or several as in `di4c+redi`.
    pub method: String,
    /// The objective the correction was trained on; empty where there is none.
    pub objective: String,
    /// How the correction is transported: `exact` or `1 draw`; empty where there is none.
    pub transport: String,
    /// The factor on the learned correction at this `k`.
    pub gain: f64,
    /// The sampling temperature.
    pub temperature: f64,
    /// The number of sampler steps.
    pub k: usize,
    /// Total variation between the target and the sampler's law, mean over the seeds.
    #[serde(deserialize_with = "number_or_null")]
    pub tv: f64,
    /// The value of each seed; empty for numbers quoted from the paper.
    #[serde(deserialize_with = "numbers_or_nulls")]
    pub tv_seeds: Vec<f64>,
}

/// The sampler's error at one number of steps, split into its two causes.
///
/// Both parts are Kullback–Leibler divergences in nats, summed over the `k` steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// As in [`Row::method`].
    pub method: String,
    /// As in [`Row::objective`].
    pub objective: String,
    /// As in [`Row::transport`].
    pub transport: String,
    /// The number of sampler steps.
    pub k: usize,
    /// The part that comes from wrong per-coordinate marginals.
    #[serde(deserialize_with = "number_or_null")]
    pub marginal: f64,
    /// The part that comes from updating the coordinates independently.
    #[serde(deserialize_with = "number_or_null")]
    pub dependence: f64,
}

impl Split {
    /// The whole divergence.
    pub fn total(&self) -> f64 {
        self.marginal + self.dependence
    }
}

/// A table beside those of the errors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Its heading.
    pub title: String,
    /// What it shows.
    pub text: String,
    /// The names of its columns.
    pub header: Vec<String>,
    /// Its rows, as they are shown.
    pub rows: Vec<Vec<String>>,
}

/// Everything one experiment has to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The heading.
    pub title: String,
    /// The run stopped before the end, so rows or seeds are missing.
    pub partial: bool,
    /// How the numbers are defined; line breaks are kept.
    pub conventions: String,
    /// The TV table, one cell per row.
    pub table: Vec<Row>,
    /// The error split, where it was computed.
    pub split: Vec<Split>,
    /// Whatever else was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
    /// The options of the run: an object from option to value.
    pub config: Value,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}

/// JSON has no NaN or infinity: they are written as null, and null is read back as NaN.
fn number_or_null<'de, D: Deserializer<'de>>(input: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or(f64::NAN))
}

/// [`number_or_null`] for a list.
fn numbers_or_nulls<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<f64>, D::Error> {
    let numbers = Vec::<Option<f64>>::deserialize(input)?;
    Ok(numbers.into_iter().map(|n| n.unwrap_or(f64::NAN)).collect())
}

/// A value in the table's style: four decimals, no leading zero.
pub(crate) fn four_decimals(value: f64) -> String {
    let digits = format!("{value:.4}");
    match digits.strip_prefix("0.") {
        Some(decimals) => format!(".{decimals}"),
        None => digits.to_lowercase(),
    }
}

/// `text` made safe inside HTML and XML, as content or as a quoted attribute.
///
/// XML 1.0 cannot hold most control characters even escaped, so they are replaced.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c if c.is_control() && c != '\n' && c != '\t' => safe.push(char::REPLACEMENT_CHARACTER),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// A row with gain and temperature 1.
    pub fn row(method: &str, objective: &str, transport: &str, k: usize, tv: f64) -> Row {
        Row {
            method: method.into(),
            objective: objective.into(),
            transport: transport.into(),
            gain: 1.0,
            temperature: 1.0,
            k,
            tv,
            tv_seeds: Vec::new(),
        }
    }

    /// A split of the `dag linear, exact C` series.
    pub fn split(k: usize, marginal: f64, dependence: f64) -> Split {
        Split {
            method: "dag".into(),
            objective: "linear".into(),
            transport: "exact".into(),
            k,
            marginal,
            dependence,
        }
    }

    /// One small series per family, in an order that is not the order of display.
    pub fn sample() -> Report {
        let mut table = Vec::new();
        for (k, recipe, cold, dag, base, oracle, paper) in [
            (2, 0.0734, 0.5610, 0.3012, 0.6004, 0.6021, 0.6020),
            (8, 0.0247, 0.0556, 0.0610, 0.0905, 0.0901, 0.0907),
            (32, 0.0041, 0.0031, 0.0090, 0.0148, 0.0150, 0.0136),
        ] {
            table.push(Row {
                gain: k as f64,
                ..row("dag-recipe", "linear", "exact", k, recipe)
            });
            table.push(Row {
                temperature: 0.9,
                ..row("base", "", "", k, cold)
            });
            table.push(row("dag", "linear", "exact", k, dag));
            table.push(Row {
                tv_seeds: vec![base - 0.001, base + 0.001],
                ..row("base", "", "", k, base)
            });
            table.push(row("exact-posterior", "", "", k, oracle));
            table.push(row("paper-baseline", "", "", k, paper));
        }
        Report {
            title: "Potts, 3 × 3".into(),
            conventions: "TV is half the L1 distance.".into(),
            table,
            split: vec![split(2, 0.1, 0.4), split(8, 0.05, 0.1)],
            config: json!({"seeds": 3, "lr": 1e-3, "name": "<b>"}),
            notes: vec!["a & b".into()],
            ..Report::default()
        }
    }

    /// Panics unless every tag of `markup` is closed in order, HTML's void tags aside.
    pub fn assert_balanced(markup: &str) {
        let mut open = Vec::new();
        for tag in markup.split('<').skip(1) {
            let tag = tag
                .split('>')
                .next()
                .expect("split yields one piece at least");
            let name = tag.split_whitespace().next().unwrap_or("");
            match name.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name), "wrong closing tag"),
                None if name.starts_with('!') || name == "meta" || tag.ends_with('/') => {}
                None => open.push(name),
            }
        }
        assert!(open.is_empty(), "never closed: {open:?}");
    }

    #[test]
    fn json_round_trip_keeps_the_report_and_the_keys_of_a_row() {
        let report = sample();
        let text = serde_json::to_string(&report).expect("serialises");
        assert!(text.contains(
            r#"{"method":"dag","objective":"linear","transport":"exact","gain":1.0,"temperature":1.0,"k":2,"tv":0.3012,"tv_seeds":[]}"#
        ));
        assert_eq!(
            serde_json::from_str::<Report>(&text).expect("parses"),
            report
        );
    }

    #[test]
    fn values_json_cannot_hold_come_back_as_nan() {
        let row = Row {
            tv_seeds: vec![f64::INFINITY, 0.5],
            ..row("base", "", "", 2, f64::NAN)
        };
        let text = serde_json::to_string(&row).expect("serialises");
        assert!(text.ends_with(r#""tv":null,"tv_seeds":[null,0.5]}"#));
        let back: Row = serde_json::from_str(&text).expect("parses");
        assert!(back.tv.is_nan() && back.tv_seeds[0].is_nan());
        assert_eq!(back.tv_seeds[1], 0.5);
    }

    #[test]
    fn four_decimals_drop_only_the_leading_zero() {
        assert_eq!(four_decimals(0.07341), ".0734");
        assert_eq!(four_decimals(0.99999), "1.0000");
        assert_eq!(four_decimals(10.5), "10.5000");
        assert_eq!(four_decimals(f64::NAN), "nan");
    }

    #[test]
    fn escape_covers_markup_and_control_characters() {
        assert_eq!(
            escape("a<b> & \"c\"'\u{1}"),
            "a&lt;b&gt; &amp; &quot;c&quot;&#39;\u{fffd}"
        );
    }
}
