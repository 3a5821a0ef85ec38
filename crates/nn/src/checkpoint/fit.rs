//! Whether the tensors of a file are those of a network: by name, shape and type, all at once.

use std::collections::{BTreeMap, BTreeSet};

use super::error::Problem;
use super::stored::Stored;
use crate::layout::Tensor;

/// Tensors by their name in the network, which `own` makes of their name in the file, and names
/// that two of them have. Those without one are not looked at.
pub fn named<'a>(
    tensors: &'a [Stored],
    own: impl Fn(&'a str) -> Option<&'a str>,
) -> (BTreeMap<String, usize>, Vec<Problem>) {
    let (mut names, mut problems) = (BTreeMap::new(), Vec::new());
    for (index, tensor) in tensors.iter().enumerate() {
        let Some(name) = own(&tensor.name) else {
            continue;
        };
        match names.get(name) {
            None => {
                names.insert(name.to_owned(), index);
            }
            Some(&first) => {
                let first: &Stored = &tensors[first];
                problems.push(Problem::Clash {
                    name: name.into(),
                    files: [first.name.clone(), tensor.name.clone()],
                });
            }
        }
    }
    (names, problems)
}

/// What does not fit: tensors of the network that are missing or wrong, and those of the file that
/// the network has no place for, unless they are `spare`.
pub fn compare(
    names: &BTreeMap<String, usize>,
    tensors: &[Stored],
    slots: &[Tensor],
    spare: impl Fn(&str) -> bool,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for slot in slots {
        match names.get(&slot.name) {
            None => problems.push(Problem::Missing {
                name: slot.name.clone(),
                shape: slot.shape.clone(),
            }),
            Some(&index) => {
                let tensor = &tensors[index];
                problems.extend(misfit(tensor, &slot.shape, tensor.name.clone()));
            }
        }
    }
    let known: BTreeSet<&str> = slots.iter().map(|slot| slot.name.as_str()).collect();
    for (name, &index) in names {
        if !known.contains(name.as_str()) && !spare(name) {
            problems.push(Problem::Unexpected {
                name: tensors[index].name.clone(),
                shape: tensors[index].shape.clone(),
            });
        }
    }
    problems
}

/// Why a tensor cannot be the weights of a given shape, if it cannot.
pub fn misfit(tensor: &Stored, shape: &[usize], name: String) -> Option<Problem> {
    let float = tensor.dtype.bytes().is_some();
    match &tensor.place {
        // What is no tensor at all has no type either; its place says so.
        Err(why) if float || tensor.shape.is_empty() => Some(Problem::Broken {
            name,
            why: why.clone(),
        }),
        _ if !float => Some(Problem::Dtype {
            name,
            dtype: tensor.dtype.clone(),
        }),
        _ if tensor.shape != shape => Some(Problem::Shape {
            name,
            found: tensor.shape.clone(),
            expected: shape.to_vec(),
        }),
        _ => None,
    }
}
