//! Loading: every weight at its place in the flat vector, or none.
//!
//! All that headers can tell is decided before the vector is allocated; then the tensors are read
//! in the order of the layout, each appended to the vector as it comes from the disk.

use std::path::Path;

use super::error::{Error, NonFinite};
use super::facts::{Facts, Family};
use super::reader::Reader;
use super::stored::{Checkpoint, Stored};
use super::survey::Survey;
use crate::Real;
use crate::dit::{Config, Layout, TimeInput};
use crate::layout::Tensor;

/// What is left of the data at pure noise in the schedules of MDLM and DUO.
const EPS: f64 = 1e-3;

/// Which of the weights of a training run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weights {
    /// The averaged ones, which the published numbers use.
    Ema,
    /// The ones being trained.
    Raw,
}

/// How to load.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Which weights; without a word the averaged ones if the file has them.
    pub weights: Option<Weights>,
    /// The family, where the file does not tell or tells wrong.
    pub family: Option<Family>,
    /// Load a network with Di4C's latent token without it. It then is another network.
    pub drop_latent: bool,
    /// Accept weights that are infinite or not a number.
    pub allow_nonfinite: bool,
}

/// A checkpoint in memory.
#[derive(Clone, Debug)]
pub struct Loaded<T> {
    /// The network.
    pub config: Config,
    /// All parameters in the order of [`Layout`].
    pub parameters: Vec<T>,
    /// The family, if it is one of the published.
    pub family: Option<Family>,
    /// Which weights these are.
    pub weights: Weights,
    /// Tensors with weights that are not finite, if they were allowed.
    pub nonfinite: Vec<NonFinite>,
    /// What had to be guessed.
    pub notes: Vec<String>,
}

/// Loads a directory with `model.safetensors`, a `.safetensors` file or a file of `torch.save`.
///
/// The load is strict: a tensor that is missing, unexpected, of the wrong shape or type, or
/// damaged fails it, and the error lists all of them.
pub fn load<T: Real>(path: impl AsRef<Path>, options: &Options) -> Result<Loaded<T>, Error> {
    let mut checkpoint = Checkpoint::open(path.as_ref())?;
    let plan = Plan::new(&checkpoint, Survey::new(&checkpoint), options)?;
    let set = match plan.weights {
        Weights::Ema => checkpoint.average.take().map(|average| average.tensors),
        Weights::Raw => Some(Ok(checkpoint.tensors)),
    };
    let set = set.and_then(Result::ok).unwrap_or_default();
    let picked = plan.order.iter().map(|&index| &set[index]).collect();
    let (parameters, nonfinite) = fill(
        (&checkpoint.path, &mut checkpoint.reader),
        &plan.layout.tensors,
        picked,
        options.allow_nonfinite,
    )?;
    Ok(Loaded {
        config: plan.config,
        parameters,
        family: plan.family,
        weights: plan.weights,
        nonfinite,
        notes: plan.notes,
    })
}

/// The flat vector of a layout's tensors, from the stored ones in the same order, and what is not
/// finite in it.
pub fn fill<T: Real>(
    (path, reader): (&Path, &mut Reader),
    slots: &[Tensor],
    picked: Vec<&Stored>,
    allow_nonfinite: bool,
) -> Result<(Vec<T>, Vec<NonFinite>), Error> {
    let total = slots.last().map_or(0, |slot| slot.range.end);
    let mut parameters = Vec::new();
    let reserved = parameters.try_reserve_exact(total);
    reserved.map_err(|error| Error::io(path)(std::io::Error::other(error)))?;
    let mut nonfinite = Vec::new();
    for (slot, tensor) in slots.iter().zip(picked) {
        let count = read(reader, tensor, |piece: &[T]| {
            parameters.extend_from_slice(piece);
        });
        let count = count.map_err(|why| Error::format(path, format!("{}: {why}", slot.name)))?;
        if count > 0 {
            let name = slot.name.clone();
            nonfinite.push(NonFinite { name, count });
        }
    }
    if parameters.len() != total {
        return Err(Error::format(path, "its tensors are not of their sizes"));
    }
    if !nonfinite.is_empty() && !allow_nonfinite {
        return Err(Error::NonFinite {
            path: path.to_owned(),
            tensors: nonfinite,
        });
    }
    Ok((parameters, nonfinite))
}

/// What [`load`] would make of a checkpoint, without reading its weights.
pub fn config(path: impl AsRef<Path>, options: &Options) -> Result<Config, Error> {
    let checkpoint = Checkpoint::open(path.as_ref())?;
    Ok(Plan::new(&checkpoint, Survey::new(&checkpoint), options)?.config)
}

/// Reads a tensor in pieces and counts what is not finite in it.
pub fn read<T: Real>(
    reader: &mut Reader,
    tensor: &Stored,
    mut each: impl FnMut(&[T]),
) -> Result<usize, String> {
    let place = tensor.place.as_ref().map_err(String::clone)?;
    let mut count = 0;
    let done = reader.read(place, &tensor.dtype, &tensor.shape, |piece: &[T]| {
        let finite = |x: &&T| x.widen().is_finite();
        count += piece.len() - piece.iter().filter(finite).count();
        each(piece);
    });
    done.map_err(|error| error.to_string())?;
    Ok(count)
}

/// Whether reading tensors one after the other costs no more than the file is long; tensors that
/// share their storage could cost any multiple of it.
pub fn affordable<'a>(tensors: impl Iterator<Item = &'a Stored>, bytes: u64) -> Result<(), String> {
    let places = tensors.filter_map(|tensor| tensor.place.as_ref().ok());
    let needed: u128 = places.map(|place| u128::from(place.bytes)).sum();
    if needed > u128::from(bytes) {
        return Err(format!(
            "its tensors share their storage: together they need {needed} bytes, the file has \
             {bytes}"
        ));
    }
    Ok(())
}

/// What will be read, all checks passed but those of the values.
pub struct Plan {
    /// The network.
    pub config: Config,
    /// Its layout.
    pub layout: Layout,
    /// The family, if it is known.
    pub family: Option<Family>,
    /// Which weights.
    pub weights: Weights,
    /// For each tensor of the layout its index in the weights or in their average.
    pub order: Vec<usize>,
    /// What had to be guessed.
    pub notes: Vec<String>,
}

impl Plan {
    /// Decides, or says why it cannot be loaded.
    pub fn new(checkpoint: &Checkpoint, survey: Survey, options: &Options) -> Result<Self, Error> {
        let path = &checkpoint.path;
        if !survey.contradictions.is_empty() {
            return Err(Error::Config {
                path: path.clone(),
                what: survey.contradictions,
            });
        }
        let Some((mut config, layout)) = survey.network else {
            return Err(Error::config(path, "it holds no network"));
        };
        if survey.latent && !options.drop_latent {
            return Err(Error::Latent { path: path.clone() });
        }
        let weights = match (options.weights, &checkpoint.average) {
            (Some(Weights::Ema), None) => {
                return Err(Error::NoAverage { path: path.clone() });
            }
            (Some(weights), _) => weights,
            (None, Some(_)) => Weights::Ema,
            (None, None) => Weights::Raw,
        };
        let mut problems = survey.problems;
        if weights == Weights::Ema {
            problems.extend(survey.average_problems);
        }
        if !problems.is_empty() {
            return Err(Error::Unfit {
                path: path.clone(),
                problems,
            });
        }
        let named = |name: &String| survey.names.get(name).copied();
        let order: Vec<usize> = match weights {
            Weights::Ema => (0..layout.tensors.len()).collect(),
            // None is missing, or it would have been a problem.
            Weights::Raw => layout
                .tensors
                .iter()
                .filter_map(|t| named(&t.name))
                .collect(),
        };
        let set: &[Stored] = match (weights, &checkpoint.average) {
            (Weights::Ema, Some(average)) => average.tensors.as_deref().unwrap_or_default(),
            _ => &checkpoint.tensors,
        };
        affordable(order.iter().map(|&i| &set[i]), checkpoint.bytes)
            .map_err(|what| Error::format(path, what))?;
        let mut notes = survey.notes;
        if survey.latent {
            notes.push("Di4C's latent token is left out".into());
        }
        let time = time(
            &checkpoint.facts,
            options.family,
            config.vocabulary,
            &mut notes,
        );
        let Some((family, time, mask)) = time else {
            return Err(Error::Family { path: path.clone() });
        };
        (config.time, config.mask) = (time, mask);
        let config = config.checked();
        Ok(Self {
            config: config.map_err(|error| Error::config(path, error.to_string()))?,
            layout,
            family,
            weights,
            order,
            notes,
        })
    }
}

type Told = (Option<Family>, TimeInput, Option<usize>);

/// What the network is told of time, and its mask; nothing if the family cannot be known.
pub fn time(
    facts: &Facts,
    chosen: Option<Family>,
    vocabulary: usize,
    notes: &mut Vec<String>,
) -> Option<Told> {
    let sigma = TimeInput::Sigma { eps: EPS };
    let last = Some(vocabulary.saturating_sub(1));
    if let (None, Some(own)) = (chosen, &facts.own) {
        return Some((facts.family, own.time.into(), own.mask));
    }
    if let (Some(chosen), Some(said)) = (chosen, facts.family)
        && chosen != said
    {
        notes.push(format!(
            "{} says {}; it is taken for {} as asked",
            facts.origin,
            said.name(),
            chosen.name()
        ));
    }
    // Who names the family overrides what the file says.
    let conditioned = facts.time_conditioning.filter(|_| chosen.is_none());
    let family = chosen.or(facts.family);
    let (usual, mask) = match (family, conditioned) {
        (Some(Family::Mdlm | Family::Sdtt), _) => (TimeInput::Zero, last),
        (Some(Family::Duo), _) => (sigma, None),
        (None, Some(conditioned)) => {
            notes.push(format!(
                "the family is not known; {} says time_conditioning {conditioned}, so it is \
                 taken for one like {}",
                facts.origin,
                if conditioned { "DUO" } else { "MDLM" }
            ));
            if conditioned {
                (sigma, None)
            } else {
                (TimeInput::Zero, last)
            }
        }
        (None, None) => return None,
    };
    let time = match conditioned {
        Some(true) => sigma,
        Some(false) => TimeInput::Zero,
        None => usual,
    };
    if time != usual {
        notes.push(format!(
            "{} says time_conditioning {}, against the habit of its family",
            facts.origin,
            time != TimeInput::Zero
        ));
    }
    Some((family, time, mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(facts: &Facts, chosen: Option<Family>) -> Option<(TimeInput, Option<usize>, usize)> {
        let mut notes = Vec::new();
        let (_, time, mask) = time(facts, chosen, 11, &mut notes)?;
        Some((time, mask, notes.len()))
    }

    #[test]
    fn the_family_decides_time_and_mask() {
        let sigma = TimeInput::Sigma { eps: 1e-3 };
        let of = |family, time_conditioning| Facts {
            family,
            time_conditioning,
            ..Facts::default()
        };
        let (mdlm, duo) = (Some(Family::Mdlm), Some(Family::Duo));
        for (facts, chosen, expected) in [
            (
                of(mdlm, Some(false)),
                None,
                Some((TimeInput::Zero, Some(10), 0)),
            ),
            (
                of(Some(Family::Sdtt), None),
                None,
                Some((TimeInput::Zero, Some(10), 0)),
            ),
            (of(duo, None), None, Some((sigma, None, 0))),
            (of(mdlm, Some(true)), None, Some((sigma, Some(10), 1))),
            (
                of(None, Some(false)),
                None,
                Some((TimeInput::Zero, Some(10), 1)),
            ),
            (of(None, Some(true)), None, Some((sigma, None, 1))),
            (of(None, None), None, None),
            (of(None, None), duo, Some((sigma, None, 0))),
            (of(mdlm, Some(false)), duo, Some((sigma, None, 1))),
        ] {
            assert_eq!(told(&facts, chosen), expected, "{facts:?} {chosen:?}");
        }
    }
}
