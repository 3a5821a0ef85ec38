//! Loading networks whose sizes are all in their tensors: the tokenizer, the transformer and the
//! judge of pictures.
//!
//! Such a network says which names of a file are its own, reads its sizes off their shapes, and
//! lists the tensors it then must have. The rest, reading and all that can be wrong, is common.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::{Error, NonFinite, Problem, plain};
use super::fit;
use super::load::{Options, affordable, fill};
use super::stored::Checkpoint;
use crate::Real;
use crate::layout::Tensor;

/// The sizes of a network that a file can hold.
pub trait Blueprint: Sized {
    /// What people call it.
    const NAME: &'static str;
    /// A tensor that every file of this network has and none of another.
    const MARK: &'static str;

    /// The network's name of a tensor in a file; nothing for what may lie beside it.
    fn own(name: &str) -> Option<&str>;
    /// The sizes, or why these tensors are no such network.
    fn sizes(shapes: &Shapes) -> Result<Self, String>;
    /// Its tensors as they are published, in the order of its parameters.
    fn tensors(&self) -> Vec<Tensor>;
    /// Its sizes for people.
    fn describe(&self) -> String;
}

/// The shapes of a file's tensors.
#[derive(Debug)]
pub struct Shapes<'a>(BTreeMap<&'a str, &'a [usize]>);

impl Shapes<'_> {
    /// Size of a tensor along an axis.
    pub fn axis(&self, name: &str, axis: usize) -> Result<usize, String> {
        let size = self.0.get(name).and_then(|shape| shape.get(axis));
        let size = size.ok_or_else(|| format!("it has no {} of that many axes", plain(name)))?;
        const MOST: usize = 1 << 20;
        if !(1..=MOST).contains(size) {
            return Err(format!("{} has an axis of {size}", plain(name)));
        }
        Ok(*size)
    }

    /// Whether there is a tensor whose name begins so.
    pub fn any(&self, prefix: &str) -> bool {
        let next = self.0.range(prefix..).next();
        next.is_some_and(|(name, _)| name.starts_with(prefix))
    }

    /// How many of `prefix0.`, `prefix1.`, ... there are without a gap.
    pub fn count(&self, prefix: &str) -> usize {
        (0..self.0.len())
            .take_while(|i| self.any(&format!("{prefix}{i}.")))
            .count()
    }
}

/// A network out of a file.
#[derive(Clone, Debug)]
pub struct Held<C, T> {
    /// Its sizes.
    pub config: C,
    /// Its parameters, in the order of [`Blueprint::tensors`].
    pub parameters: Vec<T>,
    /// Tensors with weights that are not finite, if they were allowed.
    pub nonfinite: Vec<NonFinite>,
}

/// What the headers of a file say of such a network.
pub(super) struct Look<C> {
    pub config: Result<C, String>,
    pub slots: Vec<Tensor>,
    pub names: BTreeMap<String, usize>,
    pub problems: Vec<Problem>,
}

impl<C: Blueprint> Look<C> {
    pub fn new(checkpoint: &Checkpoint) -> Self {
        let tensors = &checkpoint.tensors;
        let (names, mut problems) = fit::named(tensors, C::own);
        let shapes = names.iter();
        let shapes = shapes.map(|(name, &i)| (name.as_str(), &tensors[i].shape[..]));
        let config = C::sizes(&Shapes(shapes.collect()));
        let slots = config.as_ref().map(C::tensors).unwrap_or_default();
        if config.is_ok() {
            problems.extend(fit::compare(&names, tensors, &slots, |_| false));
        }
        Self {
            config,
            slots,
            names,
            problems,
        }
    }

    /// The stored tensors in order, or why it cannot be loaded.
    pub fn plan(self, checkpoint: &Checkpoint) -> Result<(C, Vec<Tensor>, Vec<usize>), Error> {
        let path = &checkpoint.path;
        let config = self.config.map_err(|why| {
            Error::config(
                path,
                format!("it is no {} this program knows: {why}", C::NAME),
            )
        })?;
        if !self.problems.is_empty() {
            return Err(Error::Unfit {
                path: path.clone(),
                problems: self.problems,
            });
        }
        let find = |slot: &Tensor| self.names.get(&slot.name).copied();
        let order: Vec<usize> = self.slots.iter().filter_map(find).collect();
        affordable(
            order.iter().map(|&i| &checkpoint.tensors[i]),
            checkpoint.bytes,
        )
        .map_err(|what| Error::format(path, what))?;
        Ok((config, self.slots, order))
    }
}

/// Loads a `.safetensors` file or one of `torch.save`; strict, as [`super::load`] is.
pub fn load_network<C: Blueprint, T: Real>(
    path: impl AsRef<Path>,
    options: &Options,
) -> Result<Held<C, T>, Error> {
    let mut checkpoint = Checkpoint::open(path.as_ref())?;
    let (config, slots, order) = Look::<C>::new(&checkpoint).plan(&checkpoint)?;
    let picked = order.iter().map(|&i| &checkpoint.tensors[i]).collect();
    let (parameters, nonfinite) = fill(
        (&checkpoint.path, &mut checkpoint.reader),
        &slots,
        picked,
        options.allow_nonfinite,
    )?;
    Ok(Held {
        config,
        parameters,
        nonfinite,
    })
}
