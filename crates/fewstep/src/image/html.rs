//! The findings as one HTML page that opens offline, and as files.

use std::path::Path;

use super::{Findings, Quality, base64, sheet};
use crate::report::{
    WriteError, escape,
    html::{MISSING, grid, page, section, table},
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

const GRIDS: &str = "The first pictures of each class, in one column each: the same seed and noise in every \
    row, so that a column shows what a method makes of the same beginning. In brackets, evaluations of \
    the network; guidance takes two a step.";

/// Pixels of the page to a pixel of a picture.
const ZOOM: usize = 3;

/// The whole page.
pub fn html(findings: &Findings) -> String {
    let mut body = what_was_run(findings);
    if findings.points.iter().any(|p| p.quality.is_some()) {
        body += &section(
            "Class accuracy",
            ACCURACY,
            &numbers(findings, false, |q| q.accuracy),
        );
        let noise = match findings.mean("data", 0, |q| q.tv) {
            Some(noise) => format!(
                "<p>{} pictures of the law itself have {noise:.3}.</p>\n",
                findings.samples
            ),
            None => String::new(),
        };
        let law = numbers(findings, true, |q| q.tv) + &noise;
        body += &section("Law of the attributes", LAW, &law);
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

fn numbers(findings: &Findings, mark: bool, see: impl Fn(&Quality) -> f64 + Copy) -> String {
    let ks = findings.ks();
    let row = |label: String| {
        let chain = label.split(',').next().unwrap_or_default();
        let base = format!("{chain}, base");
        let cells = ks.iter().map(|&k| {
            let Some(value) = findings.mean(&label, k, see) else {
                return MISSING.to_string();
            };
            let lower = findings
                .mean(&base, k, see)
                .is_some_and(|base| value < base);
            match mark && lower {
                true => format!("<td><b>{value:.3}</b></td>"),
                false => format!("<td>{value:.3}</td>"),
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
