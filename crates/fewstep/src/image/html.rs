//! The findings as one HTML page that opens offline, and as files.

use std::path::Path;

use super::{
    Findings, base64,
    charts::{against_guidance, against_steps},
    metric::{self, FID, Metric},
    sheet,
};
use crate::report::{
    WriteError, escape,
    html::{MISSING, figure, grid, page, section, table},
    write::{atomic, write_views},
};

const TITLE: &str = "Pictures in few steps";

const ACCURACY: &str = "The share of pictures that, pixel for pixel, are a picture of the set and show the \
    class that was asked for. The exact denoiser has no error of its own: what it loses, it loses by \
    taking few steps.";

const LAW: &str = "The total variation between the law of the attributes (shape, colour, size, layout) and \
    that of the generated pictures, in which what cannot be read lies outside. Nothing judges here: the \
    law is known and the attributes are counted. Finitely many pictures of the law itself are not at 0 \
    either; bold is lower than the base of the same chain.";

const AGAINST_STEPS: &str = "Each sampler against the number of steps <i>K</i>, means over seeds; the numbers \
    stand in the tables below. Hover over a point for its value.";

const FRECHET: &str = "The Fréchet distance between what an Inception network sees in generated pictures and in \
    validation pictures of the same data: 0 if mean and covariance of its features agree. Bold is lower than the \
    base of the same chain.";

const FEATURES: &str = "Precision is the share of generated pictures near a real one, recall \
    of real ones near a generated one, density how many real neighbourhoods a generated picture lies in, \
    coverage the share of real ones with a generated one near. The Inception Score asks for pictures of one class \
    each and of all classes together; it sees no reference.";

const GUIDANCE: &str = "What the scale <i>w</i> of classifier-free guidance does, at temperature 1 and gain 1, with a \
    curve for each number of steps. More guidance usually makes pictures more precise and less diverse, and few steps \
    ask for more of it than many.";

const GRIDS: &str = "The first pictures of each class, in one column each: the same seed and noise in every \
    row, so that a column shows what a method makes of the same beginning. In brackets, evaluations of \
    the network; guidance takes two a step.";

/// Pixels of the page to a pixel of a picture.
const ZOOM: usize = 3;

/// The whole page.
pub fn html(findings: &Findings) -> String {
    let mut body = what_was_run(findings);
    if let Some(chart) = against_steps(findings) {
        body += &section("Against steps", AGAINST_STEPS, &figure(&chart));
    }
    if findings.has(&FID) {
        let law = of_the_law(findings, &FID);
        let all = numbers(findings, &FID) + &law + &notes(findings);
        body += &section("FID", FRECHET, &all);
        body += &section("On the same features", FEATURES, &features(findings));
    }
    if findings.has(&metric::ACCURACY) {
        body += &section(
            "Class accuracy",
            ACCURACY,
            &numbers(findings, &metric::ACCURACY),
        );
        let law = numbers(findings, &metric::LAW) + &of_the_law(findings, &metric::LAW);
        body += &section("Law of the attributes", LAW, &law);
    }
    let guided: String = against_guidance(findings)
        .iter()
        .map(|c| figure(c))
        .collect();
    if !guided.is_empty() {
        body += &section("Guidance", GUIDANCE, &guided);
    }
    if !findings.trainings.is_empty() {
        let intro = "The bound is on the negative log-likelihood of validation pictures, in nats a pixel or code; \
            the exact denoiser’s bound on the same ones is the least that a network can expect.";
        body += &section("Trainings", intro, &trainings(findings));
    }
    for k in findings.ks() {
        let heading = format!("{k} step{}", if k == 1 { "" } else { "s" });
        let intro = if Some(&k) == findings.ks().first() {
            GRIDS
        } else {
            ""
        };
        body += &section(&heading, intro, &pictures(findings, k));
    }
    page(TITLE, &body)
}

fn what_was_run(findings: &Findings) -> String {
    let super::Format { width, height, .. } = findings.format;
    let tokenizer = match &findings.reconstruction {
        Some(found) => format!("<p>Tokenizer: {}.</p>\n", escape(&found.words())),
        None => String::new(),
    };
    format!(
        "<p>{width} x {height} pixels of {} symbols, classes {}; {}; {} pictures behind each number; fewstep \
         {}.</p>\n{tokenizer}",
        findings.format.symbols(),
        escape(&findings.classes.join(", ")),
        escape(&findings.setting),
        findings.samples,
        escape(&findings.version),
    )
}

/// A row for each sampler; where less is better, what is lower than its chain's base is bold.
fn numbers(findings: &Findings, metric: &Metric) -> String {
    let ks = findings.ks();
    let row = |label: String| {
        let chain = label.split(',').next().unwrap_or_default();
        let base = format!("{chain}, base");
        let cells = ks.iter().map(|&k| {
            let Some(value) = findings.mean(&label, k, metric) else {
                return MISSING.to_string();
            };
            let base = findings.mean(&base, k, metric);
            let shown = metric.show(value);
            match metric.lower && base.is_some_and(|base| value < base) {
                true => format!("<td><b>{shown}</b></td>"),
                false => format!("<td>{shown}</td>"),
            }
        });
        let cells: String = cells.collect();
        format!(
            "<tr><th scope=\"row\">{}</th>{cells}</tr>\n",
            escape(&label)
        )
    };
    let rows = findings.labels().into_iter().map(row).collect();
    grid("<th>sampler</th>", &ks, rows)
}

/// What pictures of the law itself have: the noise of finitely many.
fn of_the_law(findings: &Findings, metric: &Metric) -> String {
    match findings.mean("data", 0, metric) {
        Some(noise) => format!(
            "<p>{} pictures of the law itself have {}.</p>\n",
            findings.samples,
            metric.show(noise)
        ),
        None => String::new(),
    }
}

/// What is to be kept in mind of what an Inception network sees.
fn notes(findings: &Findings) -> String {
    let note = |note: &str| format!("<p>Note: {}.</p>\n", escape(note));
    findings.notes().into_iter().map(note).collect()
}

/// All metrics of an Inception network, a row for each sampler and number of steps.
fn features(findings: &Findings) -> String {
    let shown = metric::SEEN.into_iter().filter(|m| findings.has(m));
    let shown: Vec<&Metric> = shown.collect();
    let names = shown
        .iter()
        .map(|m| format!("<th scope=\"col\">{}</th>", m.name));
    let heads =
        "<th>sampler</th><th scope=\"col\"><i>K</i></th>".to_string() + &names.collect::<String>();
    let row = |(label, k): (&String, usize)| {
        let cells = shown.iter().map(|m| match findings.mean(label, k, m) {
            Some(value) => format!("<td>{}</td>", m.show(value)),
            None => MISSING.into(),
        });
        let cells: String = cells.collect();
        let label = escape(label);
        format!("<tr><th scope=\"row\">{label}</th><td>{k}</td>{cells}</tr>\n")
    };
    let (labels, ks) = (findings.labels(), findings.ks());
    let all = labels
        .iter()
        .flat_map(|label| ks.iter().map(move |&k| (label, k)));
    let there = |(label, k): &(&String, usize)| findings.mean(label, *k, &FID).is_some();
    let rows: String = all.filter(there).map(row).collect();
    table("grid", &heads, &rows)
}

fn trainings(findings: &Findings) -> String {
    let row = |t: &crate::text::Training| {
        let exact = t.exact_bound.map_or("–".to_string(), |b| format!("{b:.4}"));
        format!(
            "<tr><th scope=\"row\">{}, {}</th><td>{}</td><td>{}</td><td>{:.4}</td><td>{exact}</td>\
             <td>{:.0}</td></tr>\n",
            escape(&t.chain),
            escape(&t.method),
            t.seed,
            t.steps,
            t.bound,
            t.seconds
        )
    };
    let rows: String = findings.trainings.iter().map(row).collect();
    let heads = "<th>training</th><th>seed</th><th>steps</th><th>bound</th><th>exact denoiser</th>\
                 <th>seconds</th>";
    table("", heads, &rows)
}

/// One row of pictures for each sampler.
fn pictures(findings: &Findings, k: usize) -> String {
    let row = |label: String| {
        let points = findings.at(&label, k);
        let Some(point) = points.first() else {
            return String::new();
        };
        let count = point.pictures.len() / findings.format.length().max(1);
        let Ok(png) = sheet(&findings.format, &point.pictures, count, ZOOM) else {
            return String::new();
        };
        format!(
            "<tr><th scope=\"row\">{} ({})</th><td><img alt=\"pictures\" src=\"data:image/png;base64,{}\"></td></tr>\n",
            escape(&label),
            point.nfe,
            base64(&png)
        )
    };
    let rows: String = findings.labels().into_iter().map(row).collect();
    table("", "<th>sampler</th><th>pictures</th>", &rows)
}

/// Writes `report.html`, a sheet of pictures for each point under `pictures`, and `report.json`, each
/// all or nothing.
pub fn write(findings: &Findings, dir: &Path) -> Result<(), WriteError> {
    let sheets = dir.join("pictures");
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| WriteError { path, source }
    };
    std::fs::create_dir_all(&sheets).map_err(failed(&sheets))?;
    for point in &findings.points {
        let name = point.label().replace(", ", "-").replace(' ', "-");
        let file = sheets.join(format!("{name}-k{}-seed{}.png", point.way.k, point.seed));
        let columns = findings.classes.len().max(1);
        let png = sheet(&findings.format, &point.pictures, columns, 2 * ZOOM);
        let png = png.map_err(|e| failed(&file)(std::io::Error::other(e)))?;
        atomic(&file, &png)?;
    }
    write_views(dir, &[("report.html", html(findings))], findings)
}
