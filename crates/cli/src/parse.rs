//! Values that are typed as text: schedules, corrections, recipes, lists.

use fewstep::{
    lab::{GainRule, Recipe, Training},
    objective::{Objective, Transport},
};
use fewstep_ctmc::{Grid, Schedule};

/// `linear`, `cosine`, `poly:2`, `log-linear`, `log-linear:1e-3` or `arccos`.
pub fn schedule(text: &str) -> Result<Schedule, String> {
    let (name, parameter) = match text.split_once(':') {
        Some((name, value)) => (name, Some(number(value)?)),
        None => (text, None),
    };
    let schedule = match (name, parameter) {
        ("linear", None) => Schedule::Linear,
        ("cosine", None) => Schedule::Cosine,
        ("arccos", None) => Schedule::Arccos,
        ("poly", Some(n)) => Schedule::Polynomial(n),
        ("log-linear", eps) => Schedule::LogLinear {
            eps: eps.unwrap_or(1e-3),
        },
        _ => return Err("give linear, cosine, poly:2, log-linear or arccos".into()),
    };
    schedule.check().map_err(|e| e.to_string())
}

/// `OBJECTIVE:TRANSPORT`, as in `linear:exact` or `p:1`.
pub fn training(text: &str) -> Result<Training, String> {
    let (objective, transport) = text
        .split_once(':')
        .ok_or("give OBJECTIVE:TRANSPORT, as in linear:exact or p:1")?;
    Ok(Training {
        objective: match objective {
            "linear" => Objective::Linear,
            "p" => Objective::P,
            "q" => Objective::Q,
            "u" => Objective::U,
            _ => return Err("the objective is one of linear, p, q and u".into()),
        },
        transport: match transport {
            "exact" => Transport::Exact,
            n => Transport::Draws(
                n.parse()
                    .map_err(|_| "the transport is 'exact' or a number of draws")?,
            ),
        },
    })
}

/// A recipe or `none`. A type of its own, since a bare `Option` would make the argument optional.
#[derive(Clone, Copy)]
pub struct RecipeChoice(pub Option<Recipe>);

/// `OBJECTIVE:TRANSPORT,GAIN,TEMPERATURE`, where the gain may be a rule in K, or `none`.
pub fn recipe(text: &str) -> Result<RecipeChoice, String> {
    if text == "none" {
        return Ok(RecipeChoice(None));
    }
    match text.split(',').collect::<Vec<_>>()[..] {
        [which, gain, temperature] => Ok(RecipeChoice(Some(Recipe {
            training: training(which)?,
            gain: gain_rule(gain)?,
            temperature: number(temperature)?,
        }))),
        _ => Err("give CORRECTION,GAIN,TEMPERATURE, as in linear:1,2.25+7/K,0.95".into()),
    }
}

/// `2` or `2.25+7/K`.
fn gain_rule(text: &str) -> Result<GainRule, String> {
    let (constant, inverse) = match text.strip_suffix("/K") {
        Some(rule) => rule
            .rsplit_once('+')
            .ok_or("give a gain as 2 or as 2.25+7/K")?,
        None => (text, "0"),
    };
    Ok(GainRule {
        constant: number(constant)?,
        inverse: number(inverse)?,
    })
}

/// A grid by its points, as in `0,0.3,0.7,1`.
pub fn grid(text: &str) -> Result<Grid, String> {
    let points: Result<Vec<f64>, String> = text.split(',').map(number).collect();
    Grid::new(points?).map_err(|e| e.to_string())
}

/// A finite number.
pub fn number(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(v) if v.is_finite() => Ok(v),
        _ => Err(format!("'{text}' is not a number")),
    }
}

/// A number above 0.
pub fn positive(text: &str) -> Result<f64, String> {
    let value = number(text)?;
    if value > 0.0 {
        Ok(value)
    } else {
        Err(format!("'{text}' is not above 0"))
    }
}

/// A number above 0 and at most 1.
pub fn share(text: &str) -> Result<f64, String> {
    let value = positive(text)?;
    if value <= 1.0 {
        Ok(value)
    } else {
        Err(format!("'{text}' is above 1"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_and_their_gain_rules() {
        let RecipeChoice(Some(r)) = recipe("p:3,2.25+7/K,0.95").unwrap() else {
            panic!("a recipe");
        };
        assert_eq!(r.training.objective, Objective::P);
        assert_eq!(r.training.transport, Transport::Draws(3));
        assert_eq!((r.gain.at(2), r.gain.at(7)), (5.75, 3.25));
        assert_eq!(r.gain.to_string(), "2.25+7/K");
        assert_eq!(gain_rule("3").unwrap().at(5), 3.0);
        assert!(recipe("none").unwrap().0.is_none());
        for bad in ["p:1,/K,1", "p:1,2+x/K,1", "p:1,2", "p,1,1", "p:1,nan,1", ""] {
            assert!(recipe(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn grids() {
        assert_eq!(grid("0, 0.3,1").unwrap().points(), [0.0, 0.3, 1.0]);
        for bad in ["", "0", "0,x,1", "0,0.5", "0.1,1", "0,0.7,0.3,1", "0,nan,1"] {
            assert!(grid(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn schedules() {
        assert_eq!(schedule("poly:2.5").unwrap(), Schedule::Polynomial(2.5));
        assert_eq!(
            schedule("log-linear").unwrap(),
            Schedule::LogLinear { eps: 1e-3 }
        );
        for bad in ["poly", "poly:0", "linear:1", "log-linear:1", "x"] {
            assert!(schedule(bad).is_err(), "{bad}");
        }
    }
}
