//! A text that forms on the terminal: the first sequence, drawn again in place after each step.
//!
//! What a step has just written is bold, masks and noise are faint. Small models would be done
//! before anyone has seen a thing, so a step stays for a moment; all of them together take no more
//! than a few seconds of that.

use std::{io::IsTerminal, thread, time::Duration};

use fewstep::{
    image::Format,
    sequence::{
        Corpus,
        trace::{Kind, Recording},
    },
};
use fewstep_ctmc::Grid;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A step stays this long, unless there are many.
const STAY: Duration = Duration::from_millis(120);
/// All of them together stay at most this long.
const TOGETHER: Duration = Duration::from_secs(4);

const BOLD: &str = "\x1b[1m";
const FAINT: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// A place on the terminal.
pub struct Screen {
    bar: ProgressBar,
    stay: Duration,
}

impl Screen {
    /// A place for a generation on `grid`; without a terminal, a word about it and none.
    pub fn open(grid: &Grid) -> Option<Self> {
        if !std::io::stderr().is_terminal() {
            eprintln!("fewstep: --watch needs a terminal; going on without");
            return None;
        }
        let steps = u32::try_from(grid.steps()).unwrap_or(u32::MAX);
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(60));
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Some(Self {
            bar,
            stay: STAY.min(TOGETHER / steps),
        })
    }

    /// Draws the last moment of a recording.
    pub fn show(&self, recording: &Recording, corpus: &Corpus) {
        if let Some(text) = last(recording, corpus) {
            self.bar.set_message(text);
            thread::sleep(self.stay);
        }
    }

    /// Takes everything away again.
    pub fn close(self) {
        self.bar.finish_and_clear();
    }
}

/// The first sequence of the last moment, under a line that says where the generation is.
fn last(recording: &Recording, corpus: &Corpus) -> Option<String> {
    let moment = recording.moments().last()?;
    let frame = moment.frames.first()?;
    let where_it_is = format!(
        "step {}/{}  t = {:.3}  {} evaluations",
        moment.step,
        recording.steps(),
        moment.t,
        moment.evaluations
    );
    if let Some(format) = corpus.format() {
        let picture = picture(&format, &corpus.pixels(&frame.symbols));
        return Some(format!("{where_it_is}\n\n{picture}"));
    }
    let pieces = frame
        .texts(corpus)
        .into_iter()
        .enumerate()
        .map(|(i, text)| {
            let style = match frame.kinds[i] {
                Kind::Masked | Kind::Noise => FAINT,
                _ if recording.changed(moment.step, 0, i) => BOLD,
                _ => "",
            };
            match (style, harmless(&text)) {
                ("", text) => text,
                (style, text) => format!("{style}{text}{PLAIN}"),
            }
        });
    Some(format!(
        "{where_it_is}\n\n{}",
        pieces.collect::<Vec<String>>().join(corpus.separator())
    ))
}

/// A picture of half blocks: a character is one pixel above another.
fn picture(format: &Format, symbols: &[usize]) -> String {
    let colour = |row: usize, column: usize| {
        let symbol = symbols.get(row * format.width + column)?;
        Some(format.colour(*symbol).map(|c| c.to_string()).join(";"))
    };
    let cell = |row: usize, column: usize| {
        let upper = colour(row, column).unwrap_or_default();
        let lower = colour(row + 1, column).map(|c| format!("\x1b[48;2;{c}m"));
        format!("\x1b[38;2;{upper}m{}\u{2580}", lower.unwrap_or_default())
    };
    let line = |row: usize| {
        let cells = (0..format.width).map(|column| cell(row, column));
        cells.collect::<String>() + PLAIN
    };
    let lines = (0..format.height).step_by(2).map(line);
    lines.collect::<Vec<String>>().join("\n")
}

/// Without what would steer the terminal.
fn harmless(text: &str) -> String {
    let safe = |c: char| match c {
        '\n' | '\t' => c,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(safe).collect()
}

#[cfg(test)]
mod tests {
    use fewstep::{image::Pixels, sequence::sampler::State};
    use fewstep_ctmc::Language;

    use super::*;

    #[test]
    fn a_moment_as_it_is_drawn() {
        let corpus = Corpus::Language(Language::default_with(5, 3, 0).unwrap());
        let path = fewstep::sequence::Chain::Masked.path(5).unwrap();
        let grid = Grid::uniform(2).unwrap();
        let mut state = State::noise(&path, (0, 1), 3, 0);
        let mut recording = Recording::new(&path, &grid);
        assert!(last(&recording, &corpus).is_none());
        recording.see(0, &state);
        (state.x[1], state.drawn[1], state.evaluations) = (4, true, 1);
        recording.see(1, &state);
        let text = last(&recording, &corpus).unwrap();
        let mask = format!("{FAINT}\u{2592}{PLAIN}");
        assert_eq!(
            text,
            format!("step 1/2  t = 0.500  1 evaluations\n\n{mask}{BOLD}e{PLAIN}{mask}")
        );
    }

    #[test]
    fn a_picture_is_two_rows_a_line() {
        let format = Format {
            width: 2,
            height: 3,
            pixels: Pixels::Grey(2),
        };
        let (white, black) = ("255;255;255", "0;0;0");
        let cell = |a: &str, b: &str| format!("\x1b[38;2;{a}m\x1b[48;2;{b}m\u{2580}");
        let last = format!("\x1b[38;2;{white}m\u{2580}");
        assert_eq!(
            picture(&format, &[1, 0, 0, 0, 1, 1]),
            format!(
                "{}{}{PLAIN}\n{last}{last}{PLAIN}",
                cell(white, black),
                cell(black, black)
            )
        );
    }

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(harmless("a\x1b[2J\nb\r"), "a\u{fffd}[2J\nb\u{fffd}");
    }
}
