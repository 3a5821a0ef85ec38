//! From cells to series: which rows belong to one line, in which order, under which name.
//!
//! The charts and the tables all show the same series in the same order, so the grouping
//! lives here once. Order: the paper's rows, oracles, the plain networks, the corrections,
//! variants in gain or temperature, and the recipe last.

use super::setting::{Family, Setting};
use super::{Report, Row, Split};

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
    /// Everything else that was chosen.
    fn setting(&self) -> Setting<'_>;
}

impl Cell for Row {
    fn k(&self) -> usize {
        self.k
    }

    fn setting(&self) -> Setting<'_> {
        self.into()
    }
}

impl Cell for Split {
    fn k(&self) -> usize {
        self.k
    }

    fn setting(&self) -> Setting<'_> {
        self.into()
    }
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
    let series = |((setting, mut cells), label): ((Setting, Vec<_>), &String)| {
        cells.sort_by_key(|cell: &&T| cell.k());
        let qualified = || format!("{label} ({})", setting.correction());
        let label = if unique(label) {
            label.clone()
        } else {
            qualified()
        };
        Series {
            label,
            family: setting.family(),
            cells,
        }
    };
    groups.into_iter().zip(&labels).map(series).collect()
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
        let report = Report {
            table,
            ..Report::default()
        };
        report
            .series()
            .into_iter()
            .map(|series| series.label)
            .collect()
    }

    #[test]
    fn families_come_in_order_and_the_recipe_is_one_series() {
        let report = sample();
        let series = report.series();
        let labels: Vec<_> = series.iter().map(|s| s.label.as_str()).collect();
        assert_eq!(
            labels,
            [
                "paper, baseline",
                "exact posterior",
                "base",
                "dag linear, exact C",
                "base, T = 0.9",
                "recipe"
            ]
        );
        let gains: Vec<_> = series[5]
            .cells
            .iter()
            .map(|row| (row.k, row.gain))
            .collect();
        assert_eq!(gains, [(2, 2.0), (8, 8.0), (32, 32.0)]);
        assert_eq!(report.ks(), [2, 8, 32]);
    }

    #[test]
    fn gain_and_temperature_tell_series_apart() {
        let dag = |gain, temperature| Row {
            gain,
            temperature,
            ..row("dag", "u", "1 draw", 2, 0.1)
        };
        assert_eq!(
            labels(vec![dag(3.0, 0.8), dag(3.0, 1.0), dag(1.0, 1.0)]),
            [
                "dag u, 1 draw",
                "dag u, 1 draw, gain 3, T = 0.8",
                "dag u, 1 draw, gain 3"
            ]
        );
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
        let table = vec![
            row("base", "", "", 8, 0.3),
            row("base", "", "", 2, 0.1),
            row("base", "", "", 8, 0.2),
        ];
        let report = Report {
            table,
            ..Report::default()
        };
        let series = &report.series()[0];
        assert_eq!(
            series.cells.iter().map(|row| row.k).collect::<Vec<_>>(),
            [2, 8, 8]
        );
        assert_eq!(series.at(8).map(|row| row.tv), Some(0.2));
        assert_eq!(series.at(3), None);
    }

    #[test]
    fn splits_are_grouped_like_rows() {
        let report = Report {
            split: vec![split(8, 0.1, 0.2), split(2, 0.3, 0.4)],
            ..Report::default()
        };
        let series = report.split_series();
        assert_eq!(series.len(), 1);
        assert_eq!(series[0].label, "dag linear, exact C");
        assert_eq!(report.split_ks(), [2, 8]);
    }
}
