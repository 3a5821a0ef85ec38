//! What the tensors of a checkpoint say: which network they are, and what of it does not fit.
//!
//! Sizes come from shapes, which every file has. What is said elsewhere (heads, length) fills in
//! what shapes cannot tell and must not contradict them. Nothing here fails: loading turns what
//! was found into an error, the doctor prints it.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{Problem, plain};
use super::facts::Facts;
use super::fit::{self, misfit};
use super::stored::Checkpoint;
use crate::dit::{Config, Layout, Positions, Sight, Step, TimeInput};

/// Parameters of the projection of Di4C's latent, which its networks register last.
pub const LATENT: [&str; 4] = [
    "latent_projection.0.weight",
    "latent_projection.0.bias",
    "latent_projection.2.weight",
    "latent_projection.2.bias",
];

/// The buffer with the frequencies of the rotary embedding; it can be recomputed.
const FREQUENCIES: &str = "rotary_emb.inv_freq";

/// The vectors of a picture's cells.
const POSITIONS: &str = "position_embed.weight";

/// A name without the wrappers around the network.
pub fn bare(mut name: &str) -> &str {
    let wrappers = ["backbone.", "_orig_mod."];
    while let Some(rest) = wrappers.iter().find_map(|w| name.strip_prefix(w)) {
        name = rest;
    }
    name
}

/// What was found.
pub struct Survey {
    /// The network, if the tensors are one; what it is told of time is not known here.
    pub network: Option<(Config, Layout)>,
    /// Tensors by their bare name.
    pub names: BTreeMap<String, usize>,
    /// Whether there is Di4C's latent token.
    pub latent: bool,
    /// Where the file contradicts itself, or no network can be as it says.
    pub contradictions: Vec<String>,
    /// What does not fit of the weights.
    pub problems: Vec<Problem>,
    /// What does not fit of the averaged weights.
    pub average_problems: Vec<Problem>,
    /// What had to be guessed.
    pub notes: Vec<String>,
}

impl Survey {
    /// Looks at all headers of a checkpoint.
    pub fn new(checkpoint: &Checkpoint) -> Self {
        let (names, problems) = fit::named(&checkpoint.tensors, |name| Some(bare(name)));
        let mut survey = Self {
            network: None,
            names,
            latent: false,
            contradictions: checkpoint.facts.broken.iter().cloned().collect(),
            problems,
            average_problems: Vec::new(),
            notes: checkpoint.facts.notes.clone(),
        };
        survey.latent = LATENT.iter().any(|name| survey.names.contains_key(*name));
        let Some(config) = survey.sizes(checkpoint) else {
            return survey;
        };
        match config.checked() {
            Ok(config) => {
                let layout = Layout::new(&config);
                let spare = |name: &str| LATENT.contains(&name) || name == FREQUENCIES;
                let tensors = &checkpoint.tensors;
                let found = fit::compare(&survey.names, tensors, &layout.tensors, spare);
                survey.problems.extend(found);
                survey.compare_average(checkpoint, &layout);
                survey.network = Some((config, layout));
            }
            Err(error) => survey.contradictions.push(error.to_string()),
        }
        survey
    }

    /// The sizes, as far as tensors and settings agree on them.
    fn sizes(&mut self, checkpoint: &Checkpoint) -> Option<Config> {
        let facts = &checkpoint.facts;
        let shape = |name: &str| Some(&checkpoint.tensors[*self.names.get(name)?].shape);
        // The first of several tensors that has an axis says its size.
        let size = |places: &[(&str, usize)]| {
            let mut found = places.iter().map(|&(n, axis)| shape(n)?.get(axis).copied());
            found.find_map(|n| n)
        };
        let (embedding, head) = ("vocab_embed.embedding", "output_layer.linear.weight");
        let vocabulary = size(&[(embedding, 0), (head, 0)]);
        let width = size(&[(embedding, 1), (head, 1)]);
        let (first, second) = ("sigma_map.mlp.0.weight", "sigma_map.mlp.2.weight");
        let conditioning = size(&[(first, 0), (second, 0)]);
        let block = |name: &String| {
            name.strip_prefix("blocks.")?
                .split('.')
                .next()?
                .parse()
                .ok()
        };
        let blocks: BTreeSet<usize> = self.names.keys().filter_map(block).collect();
        let blocks = Some(blocks.len()).filter(|&n| n > 0);
        let (Some(vocabulary), Some(width), Some(conditioning), Some(blocks)) =
            (vocabulary, width, conditioning, blocks)
        else {
            let some: Vec<_> = self.names.keys().take(3).map(|n| plain(n)).collect();
            self.contradictions.push(format!(
                "it is no DiT of MDLM, DUO or SDTT: of its {} tensors none are named like the \
                 embedding, the time map or the blocks; it has {}",
                self.names.len(),
                if some.is_empty() {
                    "none".into()
                } else {
                    some.join(", ")
                }
            ));
            return None;
        };
        let any = |prefix: &str| self.names.keys().any(|name| name.starts_with(prefix));
        let step = if any("correction.") {
            let width = size(&[("correction.mlp.0.weight", 0), ("correction.mlp.0.bias", 0)]);
            Step::Correction {
                width: width.unwrap_or(0),
            }
        } else if any("step_map.") {
            Step::Trunk
        } else {
            Step::None
        };
        let vectors = shape(POSITIONS).is_some();
        let frequencies = shape(FREQUENCIES).map(|shape| shape.iter().product::<usize>());
        for (name, said, found) in [
            ("vocabulary", facts.vocabulary, vocabulary),
            ("width", facts.width, width),
            ("blocks", facts.blocks, blocks),
            ("conditioning", facts.conditioning, conditioning),
        ] {
            if let Some(said) = said
                && said != found
            {
                self.contradictions.push(format!(
                    "{} says {name} {said}, the tensors have {found}",
                    facts.origin
                ));
            }
        }
        if let Some(own) = &facts.own
            && Step::from(own.step) != step
        {
            self.contradictions.push(format!(
                "{} says step {:?}, the tensors have {step:?}",
                facts.origin,
                Step::from(own.step)
            ));
        }
        if facts.causal == Some(true) {
            self.contradictions.push(format!(
                "{} says it attends causally, which this network does not",
                facts.origin
            ));
        }
        Some(Config {
            vocabulary,
            length: self.length(facts.length),
            width,
            blocks,
            heads: self.heads(facts.heads, facts.origin, width, frequencies),
            conditioning,
            mask: None,
            time: TimeInput::Zero,
            step,
            sight: Sight::Whole,
            positions: self.positions(facts, vectors),
        })
    }

    /// A grid if there are vectors of its cells, whose rows and columns only our own files say.
    fn positions(&mut self, facts: &Facts, vectors: bool) -> Positions {
        match facts.own.as_ref().and_then(|own| own.grid) {
            Some([rows, columns]) => return Positions::Grid { rows, columns },
            None if vectors => self.contradictions.push(format!(
                "it has {POSITIONS}, and nothing says how many rows and columns its pictures have; \
                 its config.json has them under fewstep, grid"
            )),
            None => {}
        }
        Positions::Line
    }

    fn length(&mut self, said: Option<usize>) -> usize {
        said.unwrap_or_else(|| {
            self.notes
                .push("nothing says its length; 1024 is assumed".into());
            1024
        })
    }

    fn heads(
        &mut self,
        said: Option<usize>,
        origin: &str,
        width: usize,
        frequencies: Option<usize>,
    ) -> usize {
        // One frequency for every two channels of a head.
        let channels = frequencies
            .and_then(|n| n.checked_mul(2))
            .filter(|&n| n > 0);
        match (said, channels) {
            (Some(heads), Some(channels)) => {
                if heads.checked_mul(channels) != Some(width) {
                    self.contradictions.push(format!(
                        "{origin} says {heads} heads, {FREQUENCIES} has {} entries, for heads of \
                         {channels} channels of {width}",
                        channels / 2
                    ));
                }
                heads
            }
            (Some(heads), None) => heads,
            (None, Some(channels)) => {
                if !width.is_multiple_of(channels) {
                    self.contradictions.push(format!(
                        "{FREQUENCIES} has {} entries, which do not fit the width {width}",
                        channels / 2
                    ));
                }
                (width / channels).max(1)
            }
            (None, None) => {
                let heads = (width / 64).max(1);
                self.notes.push(format!(
                    "nothing says how many heads it has; {heads} of {} channels are assumed",
                    width / heads
                ));
                heads
            }
        }
    }

    /// The averaged weights have no names: they are the parameters in the order of the layout,
    /// and after them the latent's, which registers last.
    fn compare_average(&mut self, checkpoint: &Checkpoint, layout: &Layout) {
        let Some(average) = &checkpoint.average else {
            return;
        };
        let mut broken = |why: String| {
            self.average_problems.push(Problem::Broken {
                name: "ema".into(),
                why,
            });
        };
        let tensors = match &average.tensors {
            Ok(tensors) => tensors,
            Err(why) => return broken(why.clone()),
        };
        let latent = if self.latent { LATENT.len() } else { 0 };
        if tensors.len() != layout.tensors.len() + latent {
            return broken(format!(
                "shadow_params has {} tensors, the network {} parameters",
                tensors.len(),
                layout.tensors.len() + latent
            ));
        }
        for (tensor, slot) in tensors.iter().zip(&layout.tensors) {
            let name = format!("{} ({})", tensor.name, slot.name);
            self.average_problems
                .extend(misfit(tensor, &slot.shape, name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_are_stripped_and_nothing_else() {
        for (name, expected) in [
            ("blocks.0.norm1.weight", "blocks.0.norm1.weight"),
            ("backbone.vocab_embed.embedding", "vocab_embed.embedding"),
            ("backbone.backbone.x", "x"),
            ("_orig_mod.backbone._orig_mod.x", "x"),
            ("backbone._orig_mod.backbone.x", "x"),
            ("teacher.backbone.x", "teacher.backbone.x"),
            ("backbones.x", "backbones.x"),
            ("backbone.", ""),
        ] {
            assert_eq!(bare(name), expected);
        }
    }
}
