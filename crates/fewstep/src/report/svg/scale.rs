//! Axes: the 1-2-5 ladder that ticks come from, and the logarithmic and the linear map to pixels.

/// A number `digit · 10^exponent` that prints without rounding noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tick {
    digit: u32,
    exponent: i32,
}

impl Tick {
    /// The nearest float: powers of ten up to 22 are exact, so divide rather than multiply.
    pub fn value(self) -> f64 {
        let power = 10f64.powi(self.exponent.abs());
        if self.exponent < 0 {
            f64::from(self.digit) / power
        } else {
            f64::from(self.digit) * power
        }
    }

    /// The tick times `n`: linear axes count in steps of one tick.
    pub fn times(self, n: u32) -> Self {
        Self {
            digit: self.digit * n,
            ..self
        }
    }

    /// `0`, `0.05`, `2`, `100`; below `0.0001`, where zeros are hard to count, `2e-5`.
    pub fn label(self) -> String {
        let decimals = self.exponent.min(0).unsigned_abs() as usize;
        match (self.digit, self.exponent) {
            (0, _) => "0".into(),
            (digit, exponent @ ..-4) => format!("{digit}e{exponent}"),
            _ => format!("{:.decimals$}", self.value()),
        }
    }
}

/// 1-2-5 in every decade any divergence here can reach.
fn ladder() -> impl DoubleEndedIterator<Item = Tick> {
    (-15..=9).flat_map(|exponent| [1, 2, 5].map(|digit| Tick { digit, exponent }))
}

/// The largest tick not above `value`, or the lowest there is.
pub fn tick_below(value: f64) -> Tick {
    ladder()
        .rfind(|tick| tick.value() <= value)
        .unwrap_or(Tick {
            digit: 1,
            exponent: -15,
        })
}

/// The smallest tick not below `value`, or the highest there is.
pub fn tick_above(value: f64) -> Tick {
    ladder().find(|tick| tick.value() >= value).unwrap_or(Tick {
        digit: 5,
        exponent: 9,
    })
}

/// A logarithmic axis from `low` to `high`, drawn from pixel `start` to pixel `end`.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    pub low: f64,
    pub high: f64,
    pub start: f64,
    pub end: f64,
}

impl Log {
    /// The pixel of `value`; an axis of a single value has it in the middle.
    pub fn at(&self, value: f64) -> f64 {
        let part = if self.low < self.high {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            0.5
        };
        self.start + part * (self.end - self.start)
    }

    /// The ladder's ticks on this axis.
    pub fn ticks(&self) -> Vec<Tick> {
        ladder()
            .filter(|tick| (self.low..=self.high).contains(&tick.value()))
            .collect()
    }
}

/// A linear axis over whole steps of one tick, drawn from pixel `start` to pixel `end`.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    step: Tick,
    /// The axis goes from this many steps to that many.
    steps: (u32, u32),
    start: f64,
    end: f64,
}

impl Linear {
    /// The shortest axis of at most about `parts` steps around the values, of which what is
    /// negative or not finite does not count.
    pub fn around(
        values: impl IntoIterator<Item = f64>,
        parts: u32,
        (start, end): (f64, f64),
    ) -> Self {
        let shown = values.into_iter().filter(|v| (0.0..1e9).contains(v));
        let range = |range: Option<(f64, f64)>, v: f64| {
            Some(range.map_or((v, v), |(low, high)| (low.min(v), high.max(v))))
        };
        let (low, high) = shown.fold(None, range).unwrap_or((0.0, 1.0));
        // A span at least, or rounding noise would fill the axis.
        let span = (high - low).max(1e-3).max(high * 1e-3);
        let step = tick_above(span / f64::from(parts.max(1)));
        // A value on the edge is drawn over the frame, which is better than an axis that goes on: of shares, beyond 1.
        let slack = 1e-9;
        let first = (low / step.value() + slack).floor() as u32;
        let last = (high / step.value() - slack).ceil() as u32;
        Self {
            step,
            steps: (first, last.max(first + 1)),
            start,
            end,
        }
    }

    /// The pixel of `value`.
    pub fn at(&self, value: f64) -> f64 {
        let (first, last) = self.steps;
        let part = (value / self.step.value() - f64::from(first)) / f64::from(last - first);
        self.start + part * (self.end - self.start)
    }

    /// The pixel and the label of every tick.
    pub fn ticks(&self) -> impl Iterator<Item = (f64, String)> + use<> {
        let (axis, (first, last)) = (*self, self.steps);
        (first..=last)
            .map(move |n| axis.step.times(n))
            .map(move |tick| (axis.at(tick.value()), tick.label()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_ends_on_ticks_around_its_values() {
        let axis = Linear::around([2.13, f64::NAN, 2.9, -1.0], 5, (100.0, 0.0));
        let ticks: Vec<_> = axis
            .ticks()
            .map(|(at, label)| (at.round(), label))
            .collect();
        let expected = [(100.0, "2.0"), (80.0, "2.2"), (60.0, "2.4"), (40.0, "2.6")];
        assert_eq!(
            ticks[..4],
            expected.map(|(at, label)| (at, label.to_string()))
        );
        assert_eq!(ticks.last(), Some(&(0.0, "3.0".to_string())));
        assert!((axis.at(2.5) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn an_axis_of_shares_ends_at_one() {
        for values in [[0.0, 1.0], [0.004, 0.999], [0.1 + 0.2 - 0.3, 1.0]] {
            let axis = Linear::around(values, 8, (0.0, 100.0));
            let labels: Vec<_> = axis.ticks().map(|(_, label)| label).collect();
            assert_eq!(
                labels,
                ["0", "0.2", "0.4", "0.6", "0.8", "1.0"],
                "{values:?}"
            );
        }
    }

    #[test]
    fn a_linear_axis_of_one_value_or_none_still_has_a_length() {
        for values in [
            vec![],
            vec![0.0],
            vec![2.0],
            vec![9.9e8],
            vec![f64::INFINITY],
        ] {
            let axis = Linear::around(values.clone(), 5, (0.0, 100.0));
            let at = axis.at(values
                .first()
                .copied()
                .filter(|v| v.is_finite())
                .unwrap_or(0.5));
            assert!((0.0..=100.0).contains(&at), "{values:?}: {at}");
            assert!((2..12).contains(&axis.ticks().count()));
        }
    }

    #[test]
    fn ticks_are_one_two_five_and_print_exactly() {
        let axis = Log {
            low: 0.005,
            high: 1.0,
            start: 0.0,
            end: 1.0,
        };
        let labels: Vec<_> = axis.ticks().into_iter().map(Tick::label).collect();
        assert_eq!(
            labels,
            ["0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"]
        );
    }

    #[test]
    fn ticks_enclose_a_value_and_meet_on_one_of_their_own() {
        assert_eq!(tick_below(0.0041).value(), 0.002);
        assert_eq!(tick_above(0.0041).value(), 0.005);
        assert_eq!(
            (tick_below(0.05).value(), tick_above(0.05).value()),
            (0.05, 0.05)
        );
        assert_eq!(tick_below(0.0).value(), 1e-15);
    }

    #[test]
    fn multiples_keep_their_decimals() {
        let step = tick_above(0.2);
        assert_eq!(
            [0, 1, 4, 5].map(|n| step.times(n).label()),
            ["0", "0.2", "0.8", "1.0"]
        );
        assert_eq!(tick_below(2.1e-6).label(), "2e-6");
    }

    #[test]
    fn equal_ratios_are_equal_distances() {
        let axis = Log {
            low: 2.0,
            high: 32.0,
            start: 100.0,
            end: 500.0,
        };
        let pixels = [2.0, 4.0, 8.0, 32.0].map(|k| axis.at(k).round());
        assert_eq!(pixels, [100.0, 200.0, 300.0, 500.0]);
    }

    #[test]
    fn a_single_value_sits_in_the_middle() {
        let axis = Log {
            low: 4.0,
            high: 4.0,
            start: 100.0,
            end: 200.0,
        };
        assert_eq!(axis.at(4.0), 150.0);
    }
}
