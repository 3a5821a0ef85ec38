//! From cells to series: which rows belong to one line, in which order, under which name.
//!
//! The charts and the tables all show the same series in the same order, so the grouping
//! lives here once. Order: the paper's rows, oracles, the plain networks, the corrections,
//! variants in gain or temperature, and the recipe last.

use super::{Report, Row, Split};

/// The kinds of series, in order of display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Quoted from the paper.
    Paper,
    /// Computed from exact quantities, without a network.
    Oracle,
    /// The learned sampler without correction.
    Base,
    /// The learned correction at gain 1.
    Dag,
    /// A learned sampler at another gain or temperature.
    Tuned,
    /// The recommended setting.
    Recipe,
}

impl Family {
    /// Whether a network was trained for it here.
    pub fn learned(self) -> bool {
        self >= Family::Base
    }
}

/// Cells that differ only in the number of steps: one line of the chart, one row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Series<'a, T> {
    /// The name to show; unique within a report.
    pub label: String,
    /// The kind of the series.
    pub family: Family,
    /// The cells by rising number of steps; never empty.
    pub cells: Vec<&'a T>,
}

impl<'a, T: Cell> Series<'a, T> {
    /// The cell at `k` steps; the later one if there are two.
    pub fn at(&self, k: usize) -> Option<&'a T> {
        self.cells.iter().rev().find(|cell| cell.k() == k).copied()
    }
}

/// What grouping needs to know about a [`Row`] or a [`Split`].
pub trait Cell {
    /// The number of steps.
    fn k(&self) -> usize;
    /// What was run: method, objective, transport, gain and temperature.
    fn setting(&self) -> Setting<'_>;
}

/// The coordinates of a cell other than the number of steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting<'a> {
    method: &'a str,
    objective: &'a str,
    transport: &'a str,
    gain: f64,
    temperature: f64,
}

impl Cell for Row {
    fn k(&self) -> usize {
        self.k
    }

    fn setting(&self) -> Setting<'_> {
        Setting {
            method: &self.method,
            objective: &self.objective,
            transport: &self.transport,
            // Elsewhere the gain means nothing, or follows a rule in K as in the recipe.
            gain: if self.method == "dag" { self.gain } else { 1.0 },
            temperature: self.temperature,
        }
    }
}

impl Cell for Split {
    fn k(&self) -> usize {
        self.k
    }

    fn setting(&self) -> Setting<'_> {
        Setting {
            method: &self.method,
            objective: &self.objective,
            transport: &self.transport,
            gain: 1.0,
            temperature: 1.0,
        }
    }
}

impl Setting<'_> {
    fn family(&self) -> Family {
        match self.method {
            "dag-recipe" => Family::Recipe,
            m if m.starts_with("paper-") => Family::Paper,
            m if m.starts_with("exact-") => Family::Oracle,
            _ if self.gain != 1.0 || self.temperature != 1.0 => Family::Tuned,
            "base" => Family::Base,
            _ => Family::Dag,
        }
    }

    fn label(&self) -> String {
        let mut label = match self.method {
            "dag" => format!("dag {}", self.correction()),
            "dag-recipe" => "recipe".into(),
            method => match method.strip_prefix("paper-") {
                Some(which) => format!("paper, {which}"),
                None => method.replace('-', " "),
            },
        };
        if self.gain != 1.0 {
            label += &format!(", gain {}", short(self.gain));
        }
        if self.temperature != 1.0 {
            label += &format!(", T = {}", short(self.temperature));
        }
        label
    }

    /// Objective and transport, where `C` is what is transported.
    fn correction(&self) -> String {
        let transport = if self.transport == "exact" { "exact C" } else { self.transport };
        let parts = [self.objective, transport];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

/// At most three decimals, none when they are zero.
pub(super) fn short(value: f64) -> String {
    ((value * 1000.0).round() / 1000.0).to_string()
}

fn group<T: Cell>(cells: &[T]) -> Vec<Series<'_, T>> {
    let mut groups: Vec<(Setting, Vec<&T>)> = Vec::new();
    for cell in cells {
        let setting = cell.setting();
        match groups.iter_mut().find(|(s, _)| *s == setting) {
            Some((_, members)) => members.push(cell),
            None => groups.push((setting, vec![cell])),
        }
    }
    groups.sort_by_key(|(setting, _)| setting.family());

    let labels: Vec<String> = groups.iter().map(|(setting, _)| setting.label()).collect();
    let unique = |label: &String| labels.iter().filter(|other| *other == label).count() == 1;
    groups
        .into_iter()
        .zip(&labels)
        .map(|((setting, mut members), label)| {
            members.sort_by_key(|cell| cell.k());
            Series {
                label: if unique(label) {
                    label.clone()
                } else {
                    format!("{label} ({})", setting.correction())
                },
                family: setting.family(),
                cells: members,
            }
        })
        .collect()
}

fn ks<T: Cell>(cells: &[T]) -> Vec<usize> {
    let mut ks: Vec<usize> = cells.iter().map(Cell::k).collect();
    ks.sort_unstable();
    ks.dedup();
    ks
}

impl Report {
    /// The lines of the TV chart, in order of display.
    pub fn series(&self) -> Vec<Series<'_, Row>> {
        group(&self.table)
    }

    /// The numbers of steps in the TV table, rising.
    pub fn ks(&self) -> Vec<usize> {
        ks(&self.table)
    }

    /// The series of the error split, in order of display.
    pub fn split_series(&self) -> Vec<Series<'_, Split>> {
        group(&self.split)
    }

    /// The numbers of steps in the error split, rising.
    pub fn split_ks(&self) -> Vec<usize> {
        ks(&self.split)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{row, sample, split};
    use super::*;

    fn labels(table: Vec<Row>) -> Vec<String> {
        let report = Report { table, ..Report::default() };
        report.series().into_iter().map(|series| series.label).collect()
    }

    #[test]
    fn families_come_in_order_and_the_recipe_is_one_series() {
        let report = sample();
        let series = report.series();
        let labels: Vec<_> = series.iter().map(|s| s.label.as_str()).collect();
        assert_eq!(
            labels,
            ["paper, baseline", "exact posterior", "base", "dag linear, exact C", "base, T = 0.9", "recipe"]
        );
        let gains: Vec<_> = series[5].cells.iter().map(|row| (row.k, row.gain)).collect();
        assert_eq!(gains, [(2, 2.0), (8, 8.0), (32, 32.0)]);
        assert_eq!(report.ks(), [2, 8, 32]);
    }

    #[test]
    fn gain_and_temperature_tell_series_apart_and_show_in_the_label() {
        let dag = |gain, temperature| Row { gain, temperature, ..row("dag", "u", "1 draw", 2, 0.1) };
        assert_eq!(
            labels(vec![dag(3.0, 0.8), dag(0.1 + 0.2, 1.0), dag(1.0, 1.0)]),
            ["dag u, 1 draw", "dag u, 1 draw, gain 3, T = 0.8", "dag u, 1 draw, gain 0.3"]
        );
    }

    #[test]
    fn a_gain_without_a_correction_is_ignored() {
        let base = Row { gain: 0.0, ..row("base", "", "", 2, 0.1) };
        assert_eq!(labels(vec![base]), ["base"]);
    }

    #[test]
    fn equal_labels_are_qualified() {
        let recipe = |objective| row("dag-recipe", objective, "exact", 2, 0.1);
        assert_eq!(
            labels(vec![recipe("linear"), recipe("p")]),
            ["recipe (linear, exact C)", "recipe (p, exact C)"]
        );
    }

    #[test]
    fn cells_rise_in_k_and_the_later_duplicate_wins() {
        let table = vec![row("base", "", "", 8, 0.3), row("base", "", "", 2, 0.1), row("base", "", "", 8, 0.2)];
        let report = Report { table, ..Report::default() };
        let series = &report.series()[0];
        assert_eq!(series.cells.iter().map(|row| row.k).collect::<Vec<_>>(), [2, 8, 8]);
        assert_eq!(series.at(8).map(|row| row.tv), Some(0.2));
        assert_eq!(series.at(3), None);
    }

    #[test]
    fn splits_are_grouped_like_rows() {
        let report = Report { split: vec![split(8, 0.1, 0.2), split(2, 0.3, 0.4)], ..Report::default() };
        let series = report.split_series();
        assert_eq!(series.len(), 1);
        assert_eq!(series[0].label, "dag linear, exact C");
        assert_eq!(report.split_ks(), [2, 8]);
    }
}
