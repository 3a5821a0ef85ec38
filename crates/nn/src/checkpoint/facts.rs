//! What a checkpoint says about its network beside the tensors.
//!
//! Either a `config.json` in the manner of Hugging Face, flat or with the sizes under `model`, or
//! the hyper-parameters of a training run, which are the same settings one level deeper. All keys
//! are optional: the tensors tell the sizes, this tells the heads, the length and the family, and
//! what it says twice must agree.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::dit::{Step, TimeInput};

/// A family of published checkpoints; it decides what the network is told of time, and the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Masked diffusion: the mask is the last symbol, time is not an input.
    Mdlm,
    /// MDLM distilled through time, the same network.
    Sdtt,
    /// Uniform-state diffusion: no mask, the network sees `sigma`.
    Duo,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Mdlm, Self::Sdtt, Self::Duo];

    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mdlm => "MDLM",
            Self::Sdtt => "SDTT",
            Self::Duo => "DUO",
        }
    }

    /// By a word of a config: `model_type`, or the name of an algorithm.
    fn of(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        if word.contains("sdtt") {
            Some(Self::Sdtt)
        } else if word.contains("mdlm") || word == "subs" {
            Some(Self::Mdlm)
        } else if word.contains("duo") || word == "distillation" {
            Some(Self::Duo)
        } else {
            None
        }
    }
}

/// What our own files say beyond the common keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// Version of this object.
    pub version: u32,
    /// What the network is told of time.
    pub time: OwnTime,
    /// The symbol it never predicts.
    pub mask: Option<usize>,
    /// How it sees a step.
    pub step: OwnStep,
    /// Rows and columns of its pictures, if it knows positions so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid: Option<[usize; 2]>,
}

/// [`TimeInput`] as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[allow(missing_docs)] // As in TimeInput.
pub enum OwnTime {
    Zero,
    Time,
    Sigma { eps: f64 },
}

/// [`Step`] as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[allow(missing_docs)] // As in Step.
pub enum OwnStep {
    None,
    Trunk,
    Correction { width: usize },
}

/// The version that is written and read.
pub const VERSION: u32 = 1;

impl From<TimeInput> for OwnTime {
    fn from(time: TimeInput) -> Self {
        match time {
            TimeInput::Zero => Self::Zero,
            TimeInput::Time => Self::Time,
            TimeInput::Sigma { eps } => Self::Sigma { eps },
        }
    }
}

impl From<OwnTime> for TimeInput {
    fn from(time: OwnTime) -> Self {
        match time {
            OwnTime::Zero => Self::Zero,
            OwnTime::Time => Self::Time,
            OwnTime::Sigma { eps } => Self::Sigma { eps },
        }
    }
}

impl From<Step> for OwnStep {
    fn from(step: Step) -> Self {
        match step {
            Step::None => Self::None,
            Step::Trunk => Self::Trunk,
            Step::Correction { width } => Self::Correction { width },
        }
    }
}

impl From<OwnStep> for Step {
    fn from(step: OwnStep) -> Self {
        match step {
            OwnStep::None => Self::None,
            OwnStep::Trunk => Self::Trunk,
            OwnStep::Correction { width } => Self::Correction { width },
        }
    }
}

/// What is said about a network; `None` where nothing is.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // The fields are those of dit::Config.
pub struct Facts {
    /// Where it is said.
    pub origin: &'static str,
    pub family: Option<Family>,
    pub vocabulary: Option<usize>,
    pub length: Option<usize>,
    pub width: Option<usize>,
    pub blocks: Option<usize>,
    pub heads: Option<usize>,
    pub conditioning: Option<usize>,
    pub time_conditioning: Option<bool>,
    pub causal: Option<bool>,
    pub own: Option<Own>,
    /// What was not understood.
    pub notes: Vec<String>,
    /// Why it could not be read at all.
    pub broken: Option<String>,
}

impl Facts {
    /// Reads them out of settings.
    pub fn new(json: &Value, origin: &'static str) -> Result<Self, String> {
        if !json.is_object() {
            return Err("it is no JSON object".into());
        }
        let mut notes = Vec::new();
        let config = &json["config"];
        let levels = [
            json,
            &json["model"],
            &json["algo"],
            config,
            &config["model"],
            &config["algo"],
        ];
        let find = |keys: &[&str]| {
            let mut all = levels
                .iter()
                .flat_map(|level| keys.iter().map(|&k| &level[k]));
            all.find(|value| !value.is_null())
        };
        let mut size = |keys: &[&str]| {
            let value = find(keys)?;
            let size = value.as_u64().and_then(|n| usize::try_from(n).ok());
            if size.is_none() {
                let shown: String = value.to_string().chars().take(40).collect();
                notes.push(format!(
                    "{origin}: {} is {shown}, no whole number; it is ignored",
                    keys[0]
                ));
            }
            size
        };
        let sizes = [
            size(&["vocab_size"]),
            size(&["model_length", "length"]),
            size(&["hidden_dim", "hidden_size"]),
            size(&["n_blocks"]),
            size(&["n_heads"]),
            size(&["cond_dim"]),
        ];
        let [vocabulary, length, width, blocks, heads, conditioning] = sizes;
        Ok(Self {
            origin,
            family: family(json).or_else(|| family(config)),
            vocabulary,
            length,
            width,
            blocks,
            heads,
            conditioning,
            time_conditioning: find(&["time_conditioning"]).and_then(Value::as_bool),
            causal: find(&["causal", "causal_attention"]).and_then(Value::as_bool),
            own: own(&json["fewstep"])?,
            notes,
            broken: None,
        })
    }
}

fn family(json: &Value) -> Option<Family> {
    let words = [
        &json["model_type"],
        &json["algo"]["name"],
        &json["algo"],
        &json["architectures"][0],
        &json["parameterization"]["name"],
        &json["parameterization"],
    ];
    words.iter().find_map(|word| Family::of(word.as_str()?))
}

fn own(json: &Value) -> Result<Option<Own>, String> {
    if json.is_null() {
        return Ok(None);
    }
    let version = json["version"].as_u64();
    if version != Some(u64::from(VERSION)) {
        return Err(format!(
            "its fewstep object has version {}; this program reads {VERSION}",
            version.map_or("?".into(), |v| v.to_string())
        ));
    }
    let own = Own::deserialize(json);
    own.map(Some).map_err(|error| {
        let why = super::error::plain(&error.to_string());
        format!("its fewstep object is broken: {why}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn facts(json: Value) -> Facts {
        Facts::new(&json, "config.json").unwrap()
    }

    #[test]
    fn flat_and_nested_settings() {
        let flat = facts(
            json!({ "model_type": "mdlm", "hidden_dim": 768, "cond_dim": 128,
            "n_blocks": 12, "n_heads": 12, "model_length": 1024, "vocab_size": 50258,
            "dropout": 0.1, "time_conditioning": false }),
        );
        assert_eq!(flat.family, Some(Family::Mdlm));
        assert_eq!((flat.width, flat.heads), (Some(768), Some(12)));
        assert_eq!(flat.time_conditioning, Some(false));
        let model = json!({ "hidden_size": 8, "cond_dim": 16, "length": 32, "n_blocks": 2,
            "n_heads": 2, "name": "small" });
        for nested in [
            json!({ "algo": { "name": "duo_base" }, "model": model }),
            json!({ "config": { "algo": { "name": "duo" }, "model": model } }),
        ] {
            let nested = facts(nested);
            assert_eq!(nested.family, Some(Family::Duo));
            assert_eq!((nested.width, nested.length), (Some(8), Some(32)));
        }
    }

    #[test]
    fn family_words() {
        for (word, family) in [
            ("DUO", Some(Family::Duo)),
            ("duo-distilled", Some(Family::Duo)),
            ("mdlm", Some(Family::Mdlm)),
            ("multi-round-sdtt", Some(Family::Sdtt)),
            ("gpt2", None),
        ] {
            assert_eq!(
                facts(json!({ "model_type": word })).family,
                family,
                "{word}"
            );
        }
        assert_eq!(
            facts(json!({ "config": { "parameterization": "subs" } })).family,
            Some(Family::Mdlm)
        );
    }

    #[test]
    fn what_is_not_understood_is_said() {
        let odd = facts(json!({ "n_heads": "${heads}", "vocab_size": -3, "length": 2.5 }));
        assert_eq!(odd.notes.len(), 3, "{:?}", odd.notes);
        assert_eq!(odd.heads, None);
        for bad in [
            json!([1]),
            json!({ "fewstep": { "version": 2 } }),
            json!({ "fewstep": { "version": 1, "mask": "x" } }),
            json!({ "fewstep": 3 }),
        ] {
            assert!(Facts::new(&bad, "config.json").is_err(), "{bad}");
        }
    }
}
