//! A recording as one HTML page that opens offline: a slider over the steps, a button that plays
//! them, and below, for readers without scripts and for searching, the text of every step.
//!
//! The page carries what changed from step to step as JSON. Whatever comes from data is escaped:
//! in the JSON every `<`, `>` and `&`, in the page by [`escape`].

use serde::{Deserialize, Serialize};

use super::{Kind, Recording};
use crate::{
    report::{WriteError, atomic, escape},
    sequence::Corpus,
};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What the page's script is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// Stands between positions.
    pub separator: String,
    /// The moments of the generation, noise first.
    pub moments: Vec<Change>,
}

/// A moment and what is new in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The time reached.
    pub t: f64,
    /// Evaluations of the network so far.
    pub nfe: usize,
    /// For each sequence, what to write where.
    pub cells: Vec<Vec<Cell>>,
    /// For each sequence, the positions whose symbol the step changed.
    pub changed: Vec<Vec<usize>>,
}

/// The text and the kind of a position from now on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell(pub usize, pub String, pub Kind);

impl Recording {
    /// The recording as differences.
    pub fn replay(&self, corpus: &Corpus) -> Replay {
        let sequences = self.moments.first().map_or(0, |first| first.frames.len());
        let mut before: Vec<Vec<Option<Cell>>> = vec![Vec::new(); sequences];
        let moments = self.moments.iter().enumerate().map(|(at, moment)| Change {
            t: moment.t,
            nfe: moment.evaluations,
            cells: moment
                .frames
                .iter()
                .zip(&mut before)
                .map(|(frame, before)| {
                    before.resize(frame.symbols.len(), None);
                    let texts = frame.texts(corpus).into_iter().zip(&frame.kinds);
                    let cells = texts.enumerate().map(|(i, (text, kind))| {
                        let cell = Some(Cell(i, text, *kind));
                        let new = before[i] != cell;
                        before[i] = cell;
                        before[i].clone().filter(|_| new)
                    });
                    cells.flatten().collect()
                })
                .collect(),
            changed: (0..moment.frames.len())
                .map(|sequence| {
                    let positions = 0..moment.frames[sequence].symbols.len();
                    positions
                        .filter(|&i| self.changed(at, sequence, i))
                        .collect()
                })
                .collect(),
        });
        Replay {
            separator: corpus.separator().into(),
            moments: moments.collect(),
        }
    }

    /// The whole page.
    pub fn page(&self, corpus: &Corpus, title: &str) -> String {
        let title = escape(title);
        // A structure of numbers and strings can always be written.
        let json = serde_json::to_string(&self.replay(corpus)).unwrap_or_default();
        let json = json
            .replace('&', "\\u0026")
            .replace('<', "\\u003c")
            .replace('>', "\\u003e");
        let steps = self.steps();
        let log: String = self
            .moments
            .iter()
            .map(|moment| {
                let texts = moment.frames.iter().map(|frame| {
                    let text = escape(&frame.text(corpus));
                    format!("<pre>{text}</pre>\n")
                });
                format!(
                    "<h3>step {} of {steps}, t = {:.4}, {} evaluations</h3>\n{}",
                    moment.step,
                    moment.t,
                    moment.evaluations,
                    texts.collect::<String>()
                )
            })
            .collect();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <h1>{title}</h1>\n\
             <div id=\"controls\" hidden>\n\
             <button type=\"button\" id=\"play\">Play</button>\n\
             <input type=\"range\" id=\"step\" min=\"0\" max=\"{steps}\" value=\"0\" aria-label=\"step\">\n\
             <output id=\"where\" for=\"step\"></output>\n</div>\n\
             <p class=\"legend\"><span class=\"changed\">changed in this step</span> \
             <span class=\"masked\"></span> masked \
             <span class=\"noise\">still noise</span> <span class=\"given\">given</span></p>\n\
             <main id=\"sequences\"></main>\n\
             <details><summary>Every step as text</summary>\n{log}</details>\n\
             <script type=\"application/json\" id=\"trace\">{json}</script>\n\
             <script>\n{SCRIPT}</script>\n</body>\n</html>\n"
        )
    }

    /// Writes the page, all or nothing.
    pub fn write(
        &self,
        corpus: &Corpus,
        title: &str,
        file: &std::path::Path,
    ) -> Result<(), WriteError> {
        atomic(file, self.page(corpus, title).as_bytes())
    }
}
