//! Draws of another program, a law a line.
//!
//! A line is a JSON object with the law as `probabilities` or `logits` (`null` for minus infinity)
//! and what was drawn as `counts` of every symbol or as `draws`, the symbols themselves. The file is
//! read line by line; of a line only its contribution to the tests is kept.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::Tally;

/// How far from one probabilities may sum: those of a large vocabulary in f32 do not sum exactly.
const SLACK: f64 = 1e-3;

/// Why a dump could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// It could not be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not what it should be.
    #[error("{}:{line}: {reason}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// There are no draws in it.
    #[error("{} holds no draws", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
}

#[derive(Deserialize)]
struct Line {
    probabilities: Option<Vec<f64>>,
    logits: Option<Vec<Option<f64>>>,
    counts: Option<Vec<u64>>,
    draws: Option<Vec<usize>>,
}

/// Tallies the file at `file`; `seen` is told the bytes read after each line.
pub fn dump(file: &Path, mut seen: impl FnMut(u64)) -> Result<Tally, DumpError> {
    let read = |source| DumpError::Read {
        file: file.into(),
        source,
    };
    let mut reader = BufReader::new(File::open(file).map_err(read)?);
    let (mut tally, mut bytes, mut text) = (Tally::default(), 0, Vec::new());
    for line in 1.. {
        text.clear();
        let count = reader.read_until(b'\n', &mut text).map_err(read)?;
        if count == 0 {
            break;
        }
        bytes += count as u64;
        if !text.trim_ascii().is_empty() {
            let (p, counts) = parse(&text).map_err(|reason| DumpError::Line {
                file: file.into(),
                line,
                reason,
            })?;
            tally.add(&p, &counts);
        }
        seen(bytes);
    }
    if tally.outcome().draws == 0 {
        return Err(DumpError::Empty { file: file.into() });
    }
    Ok(tally)
}

/// The law of a line and the counts of its symbols.
fn parse(text: &[u8]) -> Result<(Vec<f64>, Vec<u64>), String> {
    let line: Line = serde_json::from_slice(text).map_err(|e| {
        let message = e.to_string();
        let what = message.split(" at line ").next().unwrap_or_default();
        format!("{what} (column {})", e.column())
    })?;
    let p = match (line.probabilities, line.logits) {
        (Some(p), None) => normalised(p)?,
        (None, Some(logits)) => softmax(&logits)?,
        _ => return Err("give either \"probabilities\" or \"logits\"".into()),
    };
    let counts = match (line.counts, line.draws) {
        (Some(counts), None) => counts,
        (None, Some(draws)) => {
            let mut counts = vec![0; p.len()];
            for symbol in draws {
                let count = counts.get_mut(symbol);
                *count.ok_or_else(|| {
                    format!("the draw {symbol} is none of the law's {} symbols", p.len())
                })? += 1;
            }
            counts
        }
        _ => return Err("give either \"counts\" or \"draws\"".into()),
    };
    if counts.len() != p.len() {
        return Err(format!(
            "there are {} counts for {} symbols",
            counts.len(),
            p.len()
        ));
    }
    // More than any program draws, and far from the end of the numbers.
    let total = counts.iter().try_fold(0u64, |sum, &c| sum.checked_add(c));
    if total.is_none_or(|total| total > 1 << 50) {
        return Err("the counts are too large to be counts".into());
    }
    Ok((p, counts))
}

fn normalised(mut p: Vec<f64>) -> Result<Vec<f64>, String> {
    if let Some(wrong) = p.iter().find(|p| !p.is_finite() || **p < 0.0) {
        return Err(format!("{wrong} is no probability"));
    }
    let total: f64 = p.iter().sum();
    if (total - 1.0).abs() > SLACK {
        return Err(format!("the probabilities sum to {total}, not to 1"));
    }
    p.iter_mut().for_each(|p| *p /= total);
    Ok(p)
}

fn softmax(logits: &[Option<f64>]) -> Result<Vec<f64>, String> {
    let logits = logits.iter().map(|l| l.unwrap_or(f64::NEG_INFINITY));
    let most = logits.clone().fold(f64::NEG_INFINITY, f64::max);
    if !most.is_finite() {
        return Err("no logit is finite".into());
    }
    let p: Vec<f64> = logits.map(|l| (l - most).exp()).collect();
    let total: f64 = p.iter().sum();
    Ok(p.iter().map(|p| p / total).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_and_counts_of_a_line() {
        let (p, counts) = parse(br#"{"logits":[0,null,0],"draws":[2,0,2],"step":3}"#).unwrap();
        assert_eq!((p, counts), (vec![0.5, 0.0, 0.5], vec![1, 0, 2]));
        let (p, counts) = parse(br#"{"probabilities":[0.25,0.7501],"counts":[1,3]}"#).unwrap();
        assert!((p[0] + p[1] - 1.0).abs() < 1e-15);
        assert_eq!(counts, [1, 3]);
    }

    #[test]
    fn wrong_lines_say_what_is_wrong() {
        for (line, why) in [
            ("{", "EOF"),
            ("[]", "invalid"),
            ("\u{1}", "column 1"),
            (r#"{"logits":[0,1]}"#, "draws"),
            (r#"{"draws":[0]}"#, "logits"),
            (
                r#"{"logits":[0],"probabilities":[1],"draws":[0]}"#,
                "either",
            ),
            (r#"{"logits":[0,1],"draws":[2]}"#, "the draw 2"),
            (r#"{"logits":[0,1],"draws":[-1]}"#, "-1"),
            (r#"{"logits":[0,1],"counts":[1]}"#, "1 counts for 2"),
            (r#"{"logits":[],"draws":[]}"#, "no logit"),
            (r#"{"logits":[null],"draws":[]}"#, "no logit"),
            (r#"{"logits":[0,-Infinity],"draws":[]}"#, "column"),
            (
                r#"{"probabilities":[0.5,0.4],"counts":[1,1]}"#,
                "sum to 0.9",
            ),
            (r#"{"probabilities":[1.5,-0.5],"counts":[1,1]}"#, "-0.5"),
            (
                r#"{"probabilities":[0.5,0.5],"counts":[18446744073709551615,1]}"#,
                "too large",
            ),
        ] {
            let error = parse(line.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
