//! The frame of a chart: its grid, the numbers on its axes and what the axes are.

use super::draw::{CHARACTER, rule, text};
use super::scale::Log;

/// Room between the frame and the first and last number of steps.
const INSET: f64 = 24.0;
/// Tick labels closer than this would touch.
const LABEL_GAP: f64 = 6.0;

/// Panels that stand side by side.
pub const COLUMNS: usize = 3;
const WIDTH: f64 = 272.0;
const HEIGHT: f64 = 286.0;
const LEFT: f64 = 74.0;
const TOP: f64 = 104.0;
/// From one panel to the next.
const ACROSS: f64 = WIDTH + 58.0;
const DOWN: f64 = HEIGHT + 88.0;

/// The edges of the area that is drawn in, in pixels.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Frame {
    /// The place of panel `i` of a picture of several, row by row.
    pub fn panel(i: usize) -> Self {
        let left = LEFT + ACROSS * (i % COLUMNS) as f64;
        let top = TOP + DOWN * (i / COLUMNS) as f64;
        Self {
            left,
            right: left + WIDTH,
            top,
            bottom: top + HEIGHT,
        }
    }

    /// What it shows, above it.
    pub fn heading(&self, words: &str) -> String {
        let bold = r#"font-size="13" font-weight="bold""#;
        text(self.left, self.top - 9.0, bold, words)
    }

    /// Numbers of a second scale, along the right edge.
    pub fn right_ticks(&self, y: impl Iterator<Item = (f64, String)>) -> String {
        y.map(|(at, label)| text(self.right + 9.0, at + 4.0, "", &label))
            .collect()
    }

    /// The logarithmic axis for numbers of steps, which are sorted.
    pub fn steps(&self, ks: &[usize]) -> Log {
        let k = |k: Option<&usize>| k.map_or(1.0, |&k| k as f64);
        Log {
            low: k(ks.first()),
            high: k(ks.last()),
            start: self.left + INSET,
            end: self.right - INSET,
        }
    }

    /// Where a legend right of the frame begins.
    pub fn beside(&self) -> (f64, f64) {
        (self.right + 28.0, self.top + 10.0)
    }

    /// Where the frame's numbers and names end.
    pub fn below(&self) -> f64 {
        self.bottom + 62.0
    }

    /// Grid, edges, and the pixel and label of each tick; of labels that would touch, the first.
    /// An axis without a name leaves no trace of it.
    pub fn draw(
        &self,
        x: impl Iterator<Item = (f64, String)>,
        y: impl Iterator<Item = (f64, String)>,
        (x_name, y_name): (&str, &str),
    ) -> String {
        let &Self {
            left,
            right,
            top,
            bottom,
        } = self;
        let mut grid = String::new();
        for (at, label) in y {
            grid += &rule((left, at), (right, at), "#e4e4e4");
            grid += &text(left - 9.0, at + 4.0, r#"text-anchor="end""#, &label);
        }
        let mut free = f64::NEG_INFINITY;
        for (at, label) in x {
            grid += &rule((at, top), (at, bottom), "#f0f0f0");
            grid += &rule((at, bottom), (at, bottom + 5.0), "#444444");
            let half = CHARACTER * label.chars().count() as f64 / 2.0;
            if at - half >= free {
                grid += &text(at, bottom + 20.0, r#"text-anchor="middle""#, &label);
                free = at + half + LABEL_GAP;
            }
        }
        grid += &format!(
            r##"<rect x="{left}" y="{top}" width="{}" height="{}" fill="none" stroke="#444444"/>"##,
            right - left,
            bottom - top
        );
        let (across, down) = ((left + right) / 2.0, (top + bottom) / 2.0);
        if !x_name.is_empty() {
            let attributes = r#"text-anchor="middle" font-size="13""#;
            grid += &text(across, bottom + 42.0, attributes, x_name);
        }
        if !y_name.is_empty() {
            let x = left - 54.0;
            let turned = format!(
                r#"text-anchor="middle" font-size="13" transform="rotate(-90 {x} {down})""#
            );
            grid += &text(x, down, &turned, y_name);
        }
        grid + "\n"
    }

    /// A remark in the middle of a frame that has nothing else to show.
    pub fn say(&self, remark: &str) -> String {
        text(
            (self.left + self.right) / 2.0,
            (self.top + self.bottom) / 2.0,
            r##"text-anchor="middle" font-size="16" fill="#777777""##,
            remark,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame {
        left: 100.0,
        right: 200.0,
        top: 10.0,
        bottom: 110.0,
    };

    #[test]
    fn panels_fill_rows() {
        let (first, third, fourth) = (Frame::panel(0), Frame::panel(2), Frame::panel(3));
        assert_eq!((first.top, first.left), (third.top, fourth.left));
        assert!(third.left > first.right && fourth.top > first.bottom);
        let ticks = first.right_ticks([(150.0, "0.5".to_string())].into_iter());
        assert_eq!(ticks, r#"<text x="355.0" y="154.0" >0.5</text>"#);
    }

    #[test]
    fn labels_that_would_touch_are_left_out() {
        let ticks = |at: [f64; 3]| {
            let x = at.into_iter().map(|at| (at, "1.25".to_string()));
            FRAME.draw(x, std::iter::empty(), ("", ""))
        };
        assert_eq!(ticks([100.0, 150.0, 200.0]).matches("<text").count(), 3);
        assert_eq!(ticks([100.0, 120.0, 200.0]).matches("<text").count(), 2);
    }

    #[test]
    fn only_named_axes_are_named() {
        let draw = |names| FRAME.draw(std::iter::empty(), std::iter::empty(), names);
        assert_eq!(draw(("", "")).matches("<text").count(), 0);
        let both = draw(("steps", "nats"));
        assert!(both.contains(">steps</text>") && both.contains("rotate(-90 46 60)"));
    }
}
