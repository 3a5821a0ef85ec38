//! The TV table as aligned plain text, for the terminal and for logs.
//!
//! Rows are series and columns are numbers of steps, in the order of every other view. It
//! stays under 120 columns with nine numbers of steps: long names are cut, values have
//! four decimals without the leading zero.

use super::{Report, four_decimals};

const LABEL_MAX: usize = 48;
const CELL: usize = 7;
const HEADING: &str = "TV at K =";

/// The table, ending in a line break; a blank line parts the families.
pub fn table(report: &Report) -> String {
    let (series, ks) = (report.series(), report.ks());
    let mut lines = Vec::new();
    if !report.title.is_empty() {
        lines.push(report.title.clone());
    }
    if report.partial {
        lines.push("PARTIAL: stopped before the end, rows or seeds are missing".into());
    }
    if series.is_empty() {
        lines.push("no values yet".into());
        return lines.join("\n") + "\n";
    }

    let rows = series.iter().enumerate().map(|(i, one)| {
        let cell = |&k| {
            one.at(k)
                .map_or_else(|| "-".into(), |row| four_decimals(row.tv))
        };
        Line {
            label: cut(&one.label),
            cells: ks.iter().map(cell).collect(),
            apart: i > 0 && series[i - 1].family != one.family,
        }
    });
    lines.extend(aligned(HEADING, &ks, rows.collect(), CELL));
    for other in &report.tables {
        lines.push(String::new());
        lines.extend(columns(other));
    }
    lines.join("\n") + "\n"
}

/// A table of any columns, the first to the left and the others to the right.
fn columns(table: &super::Table) -> Vec<String> {
    let all = || std::iter::once(&table.header).chain(&table.rows);
    let width = |column: usize| {
        let cells = all().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(i, cell)| match i {
            0 => format!("{cell:0$}", width(0)),
            _ => format!("  {cell:>0$}", width(i)),
        });
        cells.collect::<String>()
    };
    let mut lines: Vec<String> = all().map(line).collect();
    lines.insert(1, "-".repeat(lines[0].chars().count()));
    lines
}

/// A row of an aligned table.
pub(crate) struct Line {
    pub label: String,
    pub cells: Vec<String>,
    /// Leaves a blank line above it.
    pub apart: bool,
}

/// The lines of a table with one column of `cell` characters per number of steps.
pub(crate) fn aligned(heading: &str, ks: &[usize], rows: Vec<Line>, cell: usize) -> Vec<String> {
    let labels = rows.iter().map(|row| row.label.as_str());
    let width = labels
        .chain([heading])
        .map(|label| label.chars().count())
        .max()
        .unwrap_or(0);
    let line = |label: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|text| format!("{text:>cell$}")).collect();
        format!("{label:width$}{cells}")
    };
    let mut lines = vec![
        line(heading, ks.iter().map(usize::to_string).collect()),
        "-".repeat(width + cell * ks.len()),
    ];
    for row in rows {
        if row.apart {
            lines.push(String::new());
        }
        lines.push(line(&row.label, row.cells));
    }
    lines
}

/// The label, cut so that the values keep their place on the screen.
fn cut(label: &str) -> String {
    shortened(label, LABEL_MAX)
}

/// `text`, or its beginning and a mark that there is more.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars()
        .take(most.saturating_sub(1))
        .chain(['…'])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{row, sample};
    use super::*;

    #[test]
    fn other_tables_follow() {
        let cells = |row: [&str; 2]| row.map(String::from).to_vec();
        let other = super::super::Table {
            header: cells(["method", "evaluations"]),
            rows: vec![cells(["base", "0"]), cells(["di4c+redi", "12345"])],
            ..Default::default()
        };
        let text = "\
method     evaluations
----------------------
base                 0
di4c+redi        12345";
        assert_eq!(columns(&other).join("\n"), text);
    }

    #[test]
    fn the_table_reads_as_expected() {
        let expected = "\
Potts, 3 × 3
TV at K =                2      8     32
----------------------------------------
paper, baseline      .6020  .0907  .0136

exact posterior      .6021  .0901  .0150

base                 .6004  .0905  .0148

dag linear, exact C  .3012  .0610  .0090

base, T = 0.9        .5610  .0556  .0031

recipe               .0734  .0247  .0041
";
        assert_eq!(table(&sample()), expected);
    }

    #[test]
    fn gaps_partial_runs_and_odd_values_show() {
        let table_rows = vec![
            row("base", "", "", 2, 1.0),
            row("dag", "p", "exact", 4, f64::NAN),
            row("dag", "q", "exact", 4, 0.0),
        ];
        let report = Report {
            partial: true,
            table: table_rows,
            ..Report::default()
        };
        let expected = "\
PARTIAL: stopped before the end, rows or seeds are missing
TV at K =           2      4
----------------------------
base           1.0000      -

dag p, exact C      -    nan
dag q, exact C      -  .0000
";
        assert_eq!(table(&report), expected);
    }

    #[test]
    fn nine_columns_fit_on_the_screen_whatever_the_name() {
        let name = "a-very-long-name-".repeat(9);
        let table_rows = [2, 3, 4, 6, 8, 12, 16, 24, 32].map(|k| row(&name, "", "", k, 0.5));
        let text = table(&Report {
            table: table_rows.into(),
            ..Report::default()
        });
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths, [111, 111, 111]);
    }

    #[test]
    fn a_short_name_leaves_room_for_the_heading() {
        let report = Report {
            table: vec![row("base", "", "", 2, 0.5)],
            ..Report::default()
        };
        assert_eq!(
            table(&report),
            "TV at K =      2\n----------------\nbase       .5000\n"
        );
    }

    #[test]
    fn nothing_is_said_plainly() {
        assert_eq!(table(&Report::default()), "no values yet\n");
    }
}
