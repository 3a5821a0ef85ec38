//! Folders of PNG and JPEG files, one for each class.

use std::path::{Path, PathBuf};

use super::{Raw, bad, decode::decode, names, read, source};
use crate::data::{Error, Source, Split};

/// What the folder of a split may be called.
const SPLITS: [(&str, Split); 4] = [
    ("train", Split::Train),
    ("val", Split::Validation),
    ("validation", Split::Validation),
    ("test", Split::Validation),
];

/// The class of pictures that lie in no folder of their own.
const ONLY: &str = "picture";

/// The files of a folder.
pub struct Files {
    pub classes: Vec<String>,
    files: Vec<(PathBuf, usize, Option<Split>)>,
}

/// The pictures in a folder.
pub fn find(directory: &Path) -> Result<Files, Error> {
    let inside = names(directory)?;
    let split = |name: &str| {
        SPLITS
            .iter()
            .find(|(of, _)| *of == name)
            .map(|(_, split)| *split)
    };
    let trained = inside
        .iter()
        .any(|(name, path)| name == "train" && path.is_dir());
    let parts: Vec<(PathBuf, Option<Split>)> = match trained {
        false => vec![(directory.to_owned(), None)],
        true => inside
            .iter()
            .filter_map(|(name, path)| split(name).map(|split| (path.clone(), Some(split))))
            .collect(),
    };
    let mut classes: Vec<String> = Vec::new();
    let mut found: Vec<(PathBuf, String, Option<Split>)> = Vec::new();
    for (part, split) in parts {
        for (name, path) in names(&part)? {
            if path.is_dir() {
                let pictures = names(&path)?.into_iter().filter(|(name, _)| picture(name));
                let before = found.len();
                found.extend(pictures.map(|(_, file)| (file, name.clone(), split)));
                if found.len() > before {
                    classes.push(name);
                }
            } else if picture(&name) {
                found.push((path, ONLY.into(), split));
                classes.push(ONLY.into());
            }
        }
    }
    classes.sort();
    classes.dedup();
    if found.is_empty() {
        return Err(bad(
            directory,
            "no PNG, JPEG, IDX or CIFAR file in it, nor in a folder in it; name the folder above the classes",
        ));
    }
    let numbered = |(file, class, split): (PathBuf, String, Option<Split>)| {
        let class = classes.binary_search(&class).unwrap_or(0);
        (file, class, split)
    };
    let files = found.into_iter().map(numbered).collect();
    Ok(Files { classes, files })
}

fn picture(name: &str) -> bool {
    let ending = name
        .rsplit_once('.')
        .map(|(_, ending)| ending.to_lowercase());
    ending.is_some_and(|ending| ["png", "jpg", "jpeg"].contains(&ending.as_str()))
}

impl Files {
    /// Decodes every file.
    pub fn each(
        &self,
        mut show: impl FnMut(Raw) -> Result<(), Error>,
    ) -> Result<Vec<Source>, Error> {
        let one = |(file, class, split): &(PathBuf, usize, Option<Split>)| {
            let bytes = read(file)?;
            show(Raw {
                pixels: decode(file, &bytes)?,
                class: *class,
                split: *split,
            })?;
            Ok(source(file, &bytes, 1))
        };
        self.files.iter().map(one).collect()
    }
}
