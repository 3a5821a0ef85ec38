//! The findings as one HTML page that opens offline, in the style of every other report.
//!
//! Each part opens with a few sentences for a reader who has not seen such a table before. Whatever
//! comes from data is escaped; what was not measured is a dash.

mod tables;

use std::collections::BTreeSet;

use super::compare::{Difference, differences};
use super::curve::{curves, language_entropy, mean, measured, nats};
use super::{Findings, frontier_charts, quality_chart};
use crate::report::escape;
use crate::report::html::{figure, page, section};

const TITLE: &str = "Sequences in few steps";

const QUALITY: &str = "How likely the exact language finds what was sampled in <i>K</i> steps, in nats \
    a symbol: lower is likelier. No other model judges; the likelihood is computed. The dashed line \
    is the entropy of the language, where its own sequences lie. A sampler below it is not better \
    than the language: it repeats what is likely and leaves out the rest. Nothing is cooled here, \
    and corrections have gain 1.";

const FRONTIER: &str = "A likelihood alone can be had by cooling, which costs diversity, so both are \
    shown: each point is one temperature and gain, and a line is the best that a method reaches. Of \
    two lines the lower one is better at the same entropy. The controls say what the two numbers \
    cannot see: <i>data</i> is the language itself, <i>bigram</i> and <i>unigram</i> know pairs or \
    single symbols only and have about all of the entropy. Hover over a point for its numbers.";

const PLAIN: &str = "The numbers behind the first chart: nats a symbol at temperature 1 and gain 1, \
    means over seeds. Hover over a cell for the spread of its seeds.";

const MATCHED: &str = "For each <i>K</i> the base that comes closest to the law of pairs, over all \
    chains and temperatures, sets the entropy. Below it stands what every accelerated method has at \
    that entropy, by its best points and mixtures of two of them; bold is lower than the base. “up to” \
    says that the method has no samples of that much entropy, and up to which it has. A method with \
    a gain has had more settings to choose from than a base, which favours it a little by chance \
    alone.";

const CLOSEST: &str = "The total variation between the pairs of neighbours in the samples and those of \
    the language, at the temperature and gain where it is lowest. It is a distance to the law, so \
    cooling too far makes it worse. The sequences of the language itself are not at 0, because they \
    are finitely many: their value is the sampling noise, and nothing can be told apart below it. \
    Nor does it see more than pairs: a bigram sampler has the right ones by construction. Bold is the \
    lowest of a column, controls aside.";

const THEORY: &str = "On the masked and the uniform-state chain the exact correction is zero: the \
    denoiser already has the right marginals of every step, and all few-step error is dependence \
    between the symbols that are drawn together. A correction that helps there does something else \
    than the theory says. On the uniform chain, the mixture path, the marginals of \
    a long step are wrong, and the correction is real. Seen was, as the mean over <i>K</i> of \
    accelerated minus base, both on the same chain and at the entropy of that base at its best \
    temperature:";

const MARGINALS: &str = "What the correction is trained for: the law of each coordinate after a step. \
    The chain with the exact denoiser is simulated finely from noised data over every step of a grid, \
    and the mean total variation to it is given for the prediction without the step (base) and with it \
    (learned). The exact denoiser without the step is as far away as a correction could bring it nearer; \
    with a coordinate’s own state moved along the step, which has a closed form, it is what is left to \
    learn; the denoiser’s error is its distance to the exact denoiser, and stays whatever the correction does. Noise is \
    what the simulation itself is uncertain by.";

const TRAININGS: &str = "The bound is on the negative log-likelihood of validation sequences, in nats a \
    symbol; the exact denoiser’s bound on the same ones is the least that a network can expect.";

const SAMPLES: &str = "The first sequence of the first seed at temperature 1 and gain 1, in the order of \
    the other tables. Long ones are cut.";

/// The whole page.
pub fn html(findings: &Findings) -> String {
    let findings = &measured(findings);
    let curves = curves(findings);
    let mut body = what_was_run(findings);
    body += &section(
        "Likelihood against steps",
        QUALITY,
        &figure(&quality_chart(findings)),
    );
    body += &section(
        "Likelihood against diversity",
        FRONTIER,
        &figure(&frontier_charts(findings)),
    );
    if !curves.is_empty() {
        body += &section("NLL at temperature 1", PLAIN, &tables::plain(findings));
        body += &section("At matched entropy", MATCHED, &tables::matched(findings));
        body += &section("Closest to the law", CLOSEST, &tables::closest(findings));
    }
    body += &section(
        "What theory predicts, and what was seen",
        THEORY,
        &seen(&differences(findings)),
    );
    if !findings.marginals.is_empty() {
        body += &section(
            "Marginals of a step",
            MARGINALS,
            &tables::marginals(findings),
        );
    }
    if !findings.trainings.is_empty() {
        body += &section("Trainings", TRAININGS, &tables::trainings(findings));
    }
    if !curves.is_empty() {
        body += &section("Samples", SAMPLES, &tables::samples(findings));
    }
    page(TITLE, &body)
}

fn what_was_run(findings: &Findings) -> String {
    let (symbols, positions, sequences) = findings.sizes;
    let entropy = match language_entropy(findings) {
        None => "not known".into(),
        Some(h) if findings.entropy.1.is_finite() => {
            format!("{h:.4} ± {:.4} nats a symbol", findings.entropy.1)
        }
        Some(h) => format!("{h:.4} nats a symbol"),
    };
    let seeds: BTreeSet<u64> = findings.points.iter().map(|p| p.seed).collect();
    let asked = match findings.setting.trim_end_matches('.') {
        "" => String::new(),
        setting => format!("Asked for: {}. ", escape(setting)),
    };
    let (what, own) = match findings.fitted {
        false => (
            format!("A language of {symbols} symbols, whose likelihoods are exact,"),
            "Entropy of the language",
        ),
        true => (
            format!(
                "Data of {symbols} symbols, judged by a hidden Markov language that was fitted to their \
                 training part (where this page says language, it is that one),"
            ),
            "What it says of validation sequences",
        ),
    };
    let intro = format!(
        "{asked}{what} with sequences of {positions}; {sequences} sequences stand behind each point. \
         Seeds of training and drawing: {}. {own}: {entropy}. Written by fewstep {}.",
        seeds.len(),
        escape(&findings.version)
    );
    section("What was run", &intro, "")
}

/// One line for each accelerated method.
fn seen(differences: &[Difference<'_>]) -> String {
    let item = |difference: &Difference<'_>| {
        let values = &difference.values;
        let least = values.iter().copied().reduce(f64::min);
        let most = values.iter().copied().reduce(f64::max);
        let mut told = match mean(values).zip(least.zip(most)) {
            Some((mean, (least, most))) => format!(
                "{mean:+.3} nats a symbol over {} numbers of steps ({least:+.3} to {most:+.3})",
                values.len()
            ),
            None => "nothing to compare".into(),
        };
        if difference.not_reached > 0 {
            told += &format!(
                "; the entropy was not reached at {} more",
                difference.not_reached
            );
        }
        let label = escape(&difference.curve.label());
        format!("<li>{label}: {told}</li>\n")
    };
    if differences.is_empty() {
        return "<p>No accelerated method was measured.</p>\n".into();
    }
    let items: String = differences.iter().map(item).collect();
    format!("<ul>\n{items}</ul>\n<p>Less than 0 is a gain over the base.</p>\n")
}

/// A value of a table; `hint` shows when hovered over.
fn cell(value: Option<f64>, bold: bool, hint: &str) -> String {
    let value = nats(value);
    let value = if bold {
        format!("<b>{value}</b>")
    } else {
        value
    };
    format!("<td title=\"{}\">{value}</td>", escape(hint))
}

#[cfg(test)]
mod tests {
    use super::super::sample::{empty, point, sample};
    use super::*;
    use crate::report::tests::assert_balanced;

    #[test]
    fn the_page_is_well_formed_and_complete() {
        let page = html(&sample());
        assert_balanced(&page);
        assert_eq!(page.matches("<h2>").count(), 10);
        assert!(!page.contains("src=") && !page.contains("href="));
        assert!(!page.contains("NaN") && !page.contains("inf<"));
        assert!(page.contains("2.2000 ± 0.0020 nats a symbol"));
        assert!(page.contains("Seeds of training and drawing: 1."));
        assert!(page.contains("512 sequences stand behind each point"));
    }

    #[test]
    fn differences_are_told_with_what_was_not_reached() {
        let mut findings = empty();
        findings.points = vec![
            point("uniform", "base", 2, (1.0, 1.0), (3.0, 2.0, 0.3)),
            point("uniform", "base", 4, (1.0, 1.0), (2.5, 2.0, 0.3)),
            point("uniform", "base", 8, (1.0, 1.0), (2.4, 2.0, 0.3)),
            point("uniform", "linear", 2, (1.0, 1.0), (2.5, 2.0, 0.3)),
            point("uniform", "linear", 4, (1.0, 1.0), (2.6, 2.0, 0.3)),
            point("uniform", "linear", 8, (1.0, 1.0), (2.0, 1.9, 0.3)),
        ];
        let page = html(&findings);
        assert!(page.contains(
            "<li>uniform, linear: -0.200 nats a symbol over 2 numbers of steps (-0.500 to +0.100); \
             the entropy was not reached at 1 more</li>"
        ));
        findings.points.retain(|p| p.method != "base");
        assert!(html(&findings).contains("<li>uniform, linear: nothing to compare</li>"));
    }

    #[test]
    fn data_is_escaped() {
        let hostile = "<script>\"&'";
        let mut findings = sample();
        findings.setting = hostile.into();
        findings.version = hostile.into();
        for point in &mut findings.points {
            point.sample = hostile.into();
            if !point.chain.is_empty() {
                point.chain += hostile;
                point.method += hostile;
            }
        }
        for training in &mut findings.trainings {
            training.chain = hostile.into();
            training.method = hostile.into();
        }
        let page = html(&findings);
        assert_balanced(&page);
        assert!(!page.contains("<script>"));
        assert!(page.contains("<p>Asked for: &lt;script&gt;&quot;&amp;&#39;. A language"));
    }

    #[test]
    fn nothing_shows_as_nothing() {
        let page = html(&empty());
        assert_balanced(&page);
        assert_eq!(page.matches("<h2>").count(), 4);
        assert!(page.contains("No accelerated method was measured."));
        assert!(page.contains("Entropy of the language: not known."));
    }

    #[test]
    fn what_is_not_a_number_never_shows() {
        let mut findings = sample();
        findings.entropy = (f64::NAN, f64::NAN);
        for (i, point) in findings.points.iter_mut().enumerate() {
            match i % 4 {
                0 => point.quality.nll = f64::NAN,
                1 => point.quality.entropy = f64::INFINITY,
                2 => point.quality.bigram = -f64::NAN,
                _ => point.quality.nll_error = f64::NAN,
            }
        }
        findings.trainings[0].bound = f64::NAN;
        findings.trainings[0].exact_bound = Some(f64::NAN);
        findings.trainings[0].seconds = f64::NAN;
        let page = html(&findings);
        assert_balanced(&page);
        assert!(!page.contains("NaN") && !page.contains(">inf<"));
    }
}
