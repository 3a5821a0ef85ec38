//! Values that are typed as text: schedules, corrections, recipes, lists.

use fewstep::{
    lab::{Recipe, Training},
    objective::{Objective, Transport},
};
use fewstep_ctmc::Schedule;

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

/// `OBJECTIVE:TRANSPORT,GAIN,TEMPERATURE`, or `none`.
pub fn recipe(text: &str) -> Result<RecipeChoice, String> {
    if text == "none" {
        return Ok(RecipeChoice(None));
    }
    match text.split(',').collect::<Vec<_>>()[..] {
        [which, gain, temperature] => Ok(RecipeChoice(Some(Recipe {
            training: training(which)?,
            gain: number(gain)?,
            temperature: number(temperature)?,
        }))),
        _ => Err("give CORRECTION,GAIN,TEMPERATURE, as in linear:exact,4,0.95".into()),
    }
}

/// A finite number.
pub fn number(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(v) if v.is_finite() => Ok(v),
        _ => Err(format!("'{text}' is not a number")),
    }
}
