//! The small JSON files of runs and experiments, read and written whole.

use std::{fs, path::Path};

use serde::{Serialize, de::DeserializeOwned};

use super::RunError;

/// What a file holds.
pub fn read<T: DeserializeOwned>(file: &Path) -> Result<T, RunError> {
    let text = fs::read(file).map_err(RunError::read(file))?;
    serde_json::from_slice(&text).map_err(RunError::setting(file))
}

/// Writes a file aside and renames it.
pub fn write(file: &Path, what: &impl Serialize) -> Result<(), RunError> {
    let text = serde_json::to_string_pretty(what).map_err(RunError::setting(file))?;
    fewstep_nn::replace(file, |out| writeln!(out, "{text}")).map_err(RunError::write(file))
}
