//! The report as one HTML page that opens offline.
//!
//! Style and charts are inline, so the file can be mailed around. Each part opens with a
//! few sentences for a reader who has not seen such a table before. Whatever comes from
//! data is escaped.

use super::setting::short;
use super::svg::{nats, swatches};
use super::{Report, Row, Series, Split, escape, four_decimals, split_chart, tv_chart};
use serde_json::Value;

const STYLE: &str = include_str!("style.css");

/// The cell of what was not measured.
pub(crate) const MISSING: &str = "<td>–</td>";

const BANNER: &str = "<p class=\"banner\" role=\"status\"><strong>Partial report.</strong> \
    The run stopped before the end: rows or seeds are missing, and means may still move.</p>\n";

const CHART: &str = "The total variation between the target and what the sampler draws after \
    <i>K</i> steps: the largest error it makes on the probability of any event. 0 is perfect, \
    1 is as wrong as possible. All states are enumerated, so the numbers carry no sampling \
    noise; only the training differs from seed to seed. Both axes are logarithmic: lower is \
    better, a straight line is a power law, and a steeper line gains more from every extra \
    step.";

const TABLE: &str = "The numbers behind the chart, as means over the seeds. Bold marks the \
    best learned value at each <i>K</i>. Hover over a cell for the spread of its seeds and \
    the gain in use. The paper’s rows are quoted. The exact rows are oracles: they use \
    enumerated quantities in place of a network, so they show what perfect training would \
    give.";

const SPLIT: &str = "One step of the sampler redraws all coordinates independently, each from \
    its own marginal. It can go wrong in two ways, and the Kullback–Leibler divergence adds \
    them up. The marginals may be off: that is what training and correction act on. And the \
    coordinates may depend on each other, which no product of marginals can express: that \
    part shrinks as the steps get shorter. Values are in nats, summed over the <i>K</i> steps.";

const CONFIG: &str = "Every option of the run, for whoever wants to repeat it.";

/// The whole page.
pub fn html(report: &Report) -> String {
    let title = escape(&report.title);
    let banner = if report.partial { BANNER } else { "" };
    let sections = [
        section(
            "Total variation against steps",
            CHART,
            &figure(&tv_chart(report)),
        ),
        section("Table", TABLE, &tv_table(report)),
        split_section(report),
        report.tables.iter().map(extra).collect(),
        conventions(&report.conventions),
        config(&report.config),
        notes(&report.notes),
    ]
    .concat();
    page(&title, &(banner.to_string() + &sections))
}

/// A page that needs no other file; all of it is markup already.
pub(crate) fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
}

/// `intro` and `body` are markup already.
pub(crate) fn section(heading: &str, intro: &str, body: &str) -> String {
    format!("<section>\n<h2>{heading}</h2>\n<p>{intro}</p>\n{body}</section>\n")
}

pub(crate) fn figure(svg: &str) -> String {
    format!("<figure class=\"scroll\">\n{svg}</figure>\n")
}

fn tv_table(report: &Report) -> String {
    let (series, ks) = (report.series(), report.ks());
    let best: Vec<Option<f64>> = ks.iter().map(|&k| best_learned(&series, k)).collect();
    let rows = series
        .iter()
        .zip(swatches(&series))
        .map(|(series, swatch)| {
            let cells = ks.iter().zip(&best).map(|(&k, &best)| {
                let best = best.filter(|_| series.family.learned());
                series
                    .at(k)
                    .map_or_else(|| MISSING.into(), |row| tv_cell(row, best))
            });
            let label = escape(&series.label);
            format!(
                "<tr><th scope=\"row\">{swatch}{label}</th>{}</tr>\n",
                cells.collect::<String>()
            )
        });
    grid("<th>series</th>", &ks, rows.collect())
}

fn best_learned(series: &[Series<'_, Row>], k: usize) -> Option<f64> {
    let learned = series.iter().filter(|series| series.family.learned());
    let values = learned.filter_map(|series| series.at(k)).map(|row| row.tv);
    values.filter(|tv| tv.is_finite()).reduce(f64::min)
}

fn tv_cell(row: &Row, best: Option<f64>) -> String {
    let value = four_decimals(row.tv);
    let value = if best == Some(row.tv) {
        format!("<b>{value}</b>")
    } else {
        value
    };
    format!("<td title=\"{}\">{value}</td>", escape(&hint(row)))
}

/// What a cell says when hovered over.
fn hint(row: &Row) -> String {
    let spread = spread(&row.tv_seeds);
    if row.method.starts_with("dag") {
        format!("{spread}; gain {}", short(row.gain))
    } else {
        spread
    }
}

/// How far the values of the seeds lie apart.
pub(crate) fn spread(seeds: &[f64]) -> String {
    let least = seeds.iter().copied().reduce(f64::min);
    let most = seeds.iter().copied().reduce(f64::max);
    match least.zip(most) {
        Some((least, most)) => format!("{} seeds: {least:.4}..{most:.4}", seeds.len()),
        None => "no seeds".into(),
    }
}

fn split_section(report: &Report) -> String {
    if report.split.is_empty() {
        return String::new();
    }
    let (series, ks) = (report.split_series(), report.split_ks());
    let cells = |series: &Series<'_, Split>, part: fn(&Split) -> f64| -> String {
        let cell = |split: &Split| format!("<td>{}</td>", nats(part(split)));
        ks.iter()
            .map(|&k| series.at(k).map_or_else(|| MISSING.into(), cell))
            .collect()
    };
    let rows = series.iter().map(|series| {
        format!(
            "<tr><th scope=\"rowgroup\" rowspan=\"2\">{}</th><th scope=\"row\">marginals</th>{}</tr>\n\
             <tr class=\"second\"><th scope=\"row\">dependence</th>{}</tr>\n",
            escape(&series.label),
            cells(series, |split| split.marginal),
            cells(series, |split| split.dependence),
        )
    });
    let body =
        figure(&split_chart(report)) + &grid("<th>series</th><th>part</th>", &ks, rows.collect());
    section("What the error is made of", SPLIT, &body)
}

/// A table with one column per number of steps.
pub(crate) fn grid(heads: &str, ks: &[usize], rows: String) -> String {
    let ks: String = ks
        .iter()
        .map(|k| format!("<th scope=\"col\"><i>K</i> = {k}</th>"))
        .collect();
    table("grid", &(heads.to_string() + &ks), &rows)
}

/// A table in a style of the page's; `heads` and `rows` are markup already.
pub(crate) fn table(class: &str, heads: &str, rows: &str) -> String {
    format!(
        "<div class=\"scroll\"><table class=\"{class}\">\n<thead><tr>{heads}</tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

/// One of the tables beside those of the errors.
fn extra(found: &super::Table) -> String {
    let heads: String = found
        .header
        .iter()
        .map(|name| format!("<th scope=\"col\">{}</th>", escape(name)))
        .collect();
    let row = |cells: &Vec<String>| {
        let (label, values) = match cells.split_first() {
            Some((label, values)) => (escape(label), values),
            None => return String::new(),
        };
        let values: String = values
            .iter()
            .map(|value| format!("<td>{}</td>", escape(value)))
            .collect();
        format!("<tr><th scope=\"row\">{label}</th>{values}</tr>\n")
    };
    let rows: String = found.rows.iter().map(row).collect();
    let body = table("grid", &heads, &rows);
    section(&escape(&found.title), &escape(&found.text), &body)
}

fn conventions(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!(
        "<section>\n<h2>Conventions</h2>\n<p class=\"lines\">{}</p>\n</section>\n",
        escape(text)
    )
}

fn config(config: &Value) -> String {
    let Some(options) = config.as_object().filter(|options| !options.is_empty()) else {
        return String::new();
    };
    let row = |(option, value): (&String, &Value)| {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n",
            escape(option),
            escape(&value)
        )
    };
    let rows: String = options.iter().map(row).collect();
    let body = format!("<div class=\"scroll\"><table class=\"config\">\n{rows}</table></div>\n");
    section("Configuration", CONFIG, &body)
}

fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let items: String = notes
        .iter()
        .map(|note| format!("<li>{}</li>\n", escape(note)))
        .collect();
    format!("<section>\n<h2>Notes</h2>\n<ul>\n{items}</ul>\n</section>\n")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_balanced, row, sample};
    use super::*;

    /// The markup of the table row that belongs to `label`.
    fn line<'a>(page: &'a str, label: &str) -> &'a str {
        let found = page
            .lines()
            .find(|line| line.starts_with("<tr>") && line.contains(&format!("{label}</th>")));
        found.expect("the series has a row")
    }

    #[test]
    fn the_page_is_well_formed_and_complete() {
        let page = html(&sample());
        assert_balanced(&page);
        assert_eq!(page.matches("<h2>").count(), 6);
        assert!(page.contains("<title>Potts, 3 × 3</title>"));
        assert!(!page.contains("src=") && !page.contains("href="));
    }

    #[test]
    fn the_best_learned_value_of_each_column_is_bold() {
        let page = html(&sample());
        assert!(line(&page, "recipe").contains("<b>.0734</b>"));
        assert!(line(&page, "recipe").contains("<b>.0247</b>"));
        assert!(line(&page, "base, T = 0.9").contains("<b>.0031</b>"));
        assert_eq!(page.matches("<b>").count(), 3);
    }

    #[test]
    fn an_oracle_is_never_bold_and_missing_cells_are_dashes() {
        let table = vec![
            row("exact-posterior", "", "", 2, 0.1),
            row("base", "", "", 2, 0.2),
            row("base", "", "", 4, f64::NAN),
        ];
        let page = html(&Report {
            table,
            ..Report::default()
        });
        let cells = |label| line(&page, label).split_once("</th>").expect("cells").1;
        assert_eq!(
            cells("exact posterior"),
            "<td title=\"no seeds\">.1000</td><td>–</td></tr>"
        );
        assert_eq!(
            cells(">base"),
            "<td title=\"no seeds\"><b>.2000</b></td><td title=\"no seeds\">nan</td></tr>"
        );
    }

    #[test]
    fn cells_tell_spread_and_gain() {
        let page = html(&sample());
        assert!(line(&page, ">base").contains("<td title=\"2 seeds: 0.5994..0.6014\">.6004</td>"));
        assert!(line(&page, "recipe").contains("<td title=\"no seeds; gain 8\">"));
    }

    #[test]
    fn data_is_escaped() {
        let hostile = "<script>\"&'".to_string();
        let report = Report {
            title: hostile.clone(),
            conventions: hostile.clone(),
            table: vec![row(&hostile, "", "", 2, 0.1)],
            config: serde_json::json!({ "<script>": ["<script>"] }),
            notes: vec![hostile],
            ..Report::default()
        };
        let page = html(&report);
        assert_balanced(&page);
        assert!(!page.contains("<script>"));
        assert!(page.contains("<h1>&lt;script&gt;&quot;&amp;&#39;</h1>"));
        assert!(page.contains("<td>[&quot;&lt;script&gt;&quot;]</td>"));
    }

    #[test]
    fn other_tables_are_shown_and_escaped() {
        let report = Report {
            tables: vec![super::super::Table {
                title: "Cost".into(),
                text: "counted".into(),
                header: vec!["method".into(), "n".into()],
                rows: vec![vec!["<sdtt>".into(), "12".into()]],
            }],
            ..Report::default()
        };
        let page = html(&report);
        assert_balanced(&page);
        assert!(page.contains("<th scope=\"row\">&lt;sdtt&gt;</th><td>12</td>"));
    }

    #[test]
    fn the_banner_shows_only_on_partial_reports() {
        assert!(!html(&sample()).contains("Partial report"));
        let mut report = sample();
        report.partial = true;
        assert!(html(&report).contains("Partial report"));
    }

    #[test]
    fn empty_parts_are_left_out() {
        let page = html(&Report::default());
        assert_balanced(&page);
        assert_eq!(page.matches("<h2>").count(), 2);
    }
}
