//! Saving in the layout of Hugging Face, readable by their tools and by ours.
//!
//! `model.safetensors` first, then `config.json`, each to a temporary file that is synced and
//! renamed: a reader finds old or new, never half. The parameters are written from the flat
//! vector as they are, without a second copy.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::error::Error;
use super::facts::{Own, VERSION};
use crate::dit::{Config, Layout, Positions, TimeInput};
use crate::layout::Tensor;
use crate::{Real, replace};

/// Writes `config.json` and `model.safetensors` into a directory, which is created if missing.
///
/// The elements have the precision of `T`: F32 or F64.
pub fn save<T: Real>(
    directory: impl AsRef<Path>,
    config: &Config,
    parameters: &[T],
) -> Result<(), Error> {
    let directory = directory.as_ref();
    let config = config.clone().checked();
    let config = config.map_err(|error| Error::config(directory, error.to_string()))?;
    let layout = Layout::new(&config);
    if parameters.len() != layout.len() {
        return Err(Error::config(
            directory,
            format!(
                "{} parameters were given, the network has {}",
                parameters.len(),
                layout.len()
            ),
        ));
    }
    fs::create_dir_all(directory).map_err(Error::io(directory))?;
    let model = directory.join("model.safetensors");
    let prefix = "backbone.";
    replace(&model, |out| {
        weights(out, (prefix, &layout.tensors), parameters)
    })
    .map_err(Error::io(&model))?;
    let settings = directory.join("config.json");
    let text = format!("{:#}\n", description(&config));
    replace(&settings, |out| out.write_all(text.as_bytes())).map_err(Error::io(&settings))
}

/// Writes the tensors of a network whose sizes they tell to one `.safetensors` file.
pub fn save_network<T: Real>(
    path: impl AsRef<Path>,
    tensors: &[Tensor],
    parameters: &[T],
) -> Result<(), Error> {
    let path = path.as_ref();
    let total = tensors.last().map_or(0, |tensor| tensor.range.end);
    if parameters.len() != total {
        let what = format!(
            "{} parameters were given, the network has {total}",
            parameters.len()
        );
        return Err(Error::config(path, what));
    }
    replace(path, |out| weights(out, ("", tensors), parameters)).map_err(Error::io(path))
}

/// The keys of MDLM's config, and what they lack under a key of our own.
fn description(config: &Config) -> Value {
    let family = match (config.time, config.mask) {
        (TimeInput::Zero, Some(mask)) if mask + 1 == config.vocabulary => "mdlm",
        (TimeInput::Sigma { .. }, None) => "duo",
        _ => "fewstep",
    };
    let own = Own {
        version: VERSION,
        time: config.time.into(),
        mask: config.mask,
        step: config.step.into(),
        grid: match config.positions {
            Positions::Line => None,
            Positions::Grid { rows, columns } => Some([rows, columns]),
        },
    };
    json!({
        "model_type": family,
        "vocab_size": config.vocabulary,
        "model_length": config.length,
        "hidden_dim": config.width,
        "cond_dim": config.conditioning,
        "n_blocks": config.blocks,
        "n_heads": config.heads,
        "dropout": 0.0,
        "time_conditioning": config.time != TimeInput::Zero,
        "causal": false,
        "fewstep": own,
    })
}

fn weights<T: Real>(
    out: &mut dyn Write,
    (prefix, tensors): (&str, &[Tensor]),
    parameters: &[T],
) -> io::Result<()> {
    let size = size_of::<T>();
    let mut header = Map::new();
    header.insert("__metadata__".into(), json!({ "format": "pt" }));
    for tensor in tensors {
        let about = json!({
            "dtype": if size == 4 { "F32" } else { "F64" },
            "shape": tensor.shape,
            "data_offsets": [tensor.range.start * size, tensor.range.end * size],
        });
        header.insert(format!("{prefix}{}", tensor.name), about);
    }
    let mut header = serde_json::to_vec(&header)?;
    // Readers map the file and want the data aligned.
    header.resize(header.len().next_multiple_of(8), b' ');
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    for value in parameters {
        let wide = value.widen();
        if size == 4 {
            // Exact: it was an f32 before it was widened.
            out.write_all(&(wide as f32).to_le_bytes())?;
        } else {
            out.write_all(&wide.to_le_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dit::Step;

    #[test]
    fn the_description_reads_back() {
        let base = Config {
            mask: Some(299),
            ..Config::named("tiny", 300).unwrap()
        };
        for (config, family) in [
            (base.clone(), "mdlm"),
            (
                Config {
                    mask: None,
                    time: TimeInput::Sigma { eps: 1e-3 },
                    step: Step::Trunk,
                    ..base.clone()
                },
                "duo",
            ),
            (
                Config {
                    mask: Some(0),
                    time: TimeInput::Time,
                    step: Step::Correction { width: 4 },
                    ..base
                },
                "fewstep",
            ),
        ] {
            let json = description(&config);
            assert_eq!(json["model_type"], family);
            let facts = super::super::facts::Facts::new(&json, "config.json").unwrap();
            let own = facts.own.unwrap();
            assert_eq!(TimeInput::from(own.time), config.time);
            assert_eq!(Step::from(own.step), config.step);
            assert_eq!(own.mask, config.mask);
            assert_eq!(json["fewstep"].get("grid"), None);
            assert_eq!(facts.heads, Some(config.heads));
            assert!(facts.notes.is_empty());
        }
    }
}
