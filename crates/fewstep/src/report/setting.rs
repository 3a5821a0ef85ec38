//! What was run, and what to call it.
//!
//! A [`Setting`] is everything about a cell except its number of steps. From it follow the
//! family, which orders the series and chooses their line, and the name the reader sees.

use super::{Row, Split};

/// The kinds of series, in order of display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Quoted from the paper.
    Paper,
    /// Computed from exact quantities, without a network.
    Oracle,
    /// The learned sampler without correction.
    Base,
    /// The learned correction at gain 1.
    Dag,
    /// A learned sampler at another gain or temperature.
    Tuned,
    /// The recommended setting.
    Recipe,
}

impl Family {
    /// Whether a network was trained for it here.
    pub fn learned(self) -> bool {
        self >= Family::Base
    }
}

/// The coordinates of a cell other than the number of steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting<'a> {
    method: &'a str,
    objective: &'a str,
    transport: &'a str,
    gain: f64,
    temperature: f64,
}

impl<'a> From<&'a Row> for Setting<'a> {
    fn from(row: &'a Row) -> Self {
        Self {
            method: &row.method,
            objective: &row.objective,
            transport: &row.transport,
            // Elsewhere the gain means nothing, or follows a rule in K as in the recipe.
            gain: if row.method == "dag" { row.gain } else { 1.0 },
            temperature: row.temperature,
        }
    }
}

impl<'a> From<&'a Split> for Setting<'a> {
    fn from(split: &'a Split) -> Self {
        Self {
            method: &split.method,
            objective: &split.objective,
            transport: &split.transport,
            gain: 1.0,
            temperature: 1.0,
        }
    }
}

impl Setting<'_> {
    /// Where the series belongs.
    pub fn family(&self) -> Family {
        match self.method {
            m if m.ends_with("-recipe") => Family::Recipe,
            m if m.starts_with("paper-") => Family::Paper,
            m if m.starts_with("exact-") => Family::Oracle,
            _ if self.gain != 1.0 || self.temperature != 1.0 => Family::Tuned,
            "base" => Family::Base,
            _ => Family::Dag,
        }
    }

    /// The name to show, such as `dag linear, exact C, gain 3`.
    pub fn label(&self) -> String {
        let mut label = match self.method {
            "dag" => format!("dag {}", self.correction()),
            "dag-recipe" => "recipe".into(),
            method => match method.strip_prefix("paper-") {
                Some(which) => format!("paper, {which}"),
                None => method.replace('-', " "),
            },
        };
        if self.gain != 1.0 {
            label += &format!(", gain {}", short(self.gain));
        }
        if self.temperature != 1.0 {
            label += &format!(", T = {}", short(self.temperature));
        }
        label
    }

    /// Objective and transport, where `C` is what is transported.
    pub fn correction(&self) -> String {
        let transport = if self.transport == "exact" {
            "exact C"
        } else {
            self.transport
        };
        let parts = [self.objective, transport];
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// At most three decimals, none when they are zero.
pub fn short(value: f64) -> String {
    ((value * 1000.0).round() / 1000.0).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    fn named(row: Row) -> (String, Family) {
        let setting = Setting::from(&row);
        (setting.label(), setting.family())
    }

    #[test]
    fn every_method_has_its_name_and_family() {
        let plain = |method| named(row(method, "", "", 2, 0.1));
        assert_eq!(
            plain("paper-baseline"),
            ("paper, baseline".into(), Family::Paper)
        );
        assert_eq!(plain("paper-ours"), ("paper, ours".into(), Family::Paper));
        assert_eq!(
            plain("exact-posterior"),
            ("exact posterior".into(), Family::Oracle)
        );
        assert_eq!(plain("base"), ("base".into(), Family::Base));
        let dag = |method, transport| named(row(method, "linear", transport, 2, 0.1));
        assert_eq!(
            dag("dag", "exact"),
            ("dag linear, exact C".into(), Family::Dag)
        );
        assert_eq!(
            dag("dag", "1 draw"),
            ("dag linear, 1 draw".into(), Family::Dag)
        );
        assert_eq!(
            dag("dag-recipe", "exact"),
            ("recipe".into(), Family::Recipe)
        );
    }

    #[test]
    fn gain_and_temperature_show_unless_one() {
        let dag = |gain, temperature| {
            named(Row {
                gain,
                temperature,
                ..row("dag", "u", "exact", 2, 0.1)
            })
        };
        assert_eq!(
            dag(0.1 + 0.2, 1.0),
            ("dag u, exact C, gain 0.3".into(), Family::Tuned)
        );
        assert_eq!(
            dag(3.0, 0.8),
            ("dag u, exact C, gain 3, T = 0.8".into(), Family::Tuned)
        );
    }

    #[test]
    fn a_gain_without_a_correction_is_ignored() {
        let base = Row {
            gain: 0.0,
            ..row("base", "", "", 2, 0.1)
        };
        assert_eq!(named(base), ("base".into(), Family::Base));
    }
}
