//! The points of an experiment, kept in a file as they are found: one line of JSON each.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::PathBuf,
};

use serde::{Serialize, de::DeserializeOwned};

use crate::sequence::RunError;

/// How the sequences of a point are drawn.
#[derive(Clone, Copy)]
pub struct Way {
    /// Steps.
    pub k: usize,
    /// The temperature.
    pub temperature: f64,
    /// The gain on the correction.
    pub gain: f64,
}

/// The points in a file.
pub struct Points<P> {
    file: PathBuf,
    /// All of them, in the order they were found in.
    pub all: Vec<P>,
}

impl<P: Serialize + DeserializeOwned> Points<P> {
    /// Those that were written whole; a line that was cut off is forgotten.
    pub fn open(file: PathBuf) -> Result<Self, RunError> {
        if !file.exists() {
            return Ok(Self {
                file,
                all: Vec::new(),
            });
        }
        let text = fs::read_to_string(&file).map_err(RunError::read(&file))?;
        let all: Vec<P> = text
            .lines()
            .map_while(|line| serde_json::from_str(line).ok())
            .collect();
        let points = Self { file, all };
        points.write()?;
        Ok(points)
    }

    /// Writes all of them anew.
    fn write(&self) -> Result<(), RunError> {
        fewstep_nn::replace(&self.file, |out| {
            for point in &self.all {
                writeln!(out, "{}", serde_json::to_string(point)?)?;
            }
            Ok(())
        })
        .map_err(RunError::write(&self.file))
    }

    /// Puts a point in the place of the one that `same` says it is, or adds it if there is none.
    pub fn put(&mut self, point: P, same: impl Fn(&P) -> bool) -> Result<(), RunError> {
        match self.all.iter().position(same) {
            Some(at) => {
                self.all[at] = point;
                self.write()
            }
            None => self.add(point),
        }
    }

    /// Adds a point, on the disk first.
    pub fn add(&mut self, point: P) -> Result<(), RunError> {
        let opened = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.file);
        let line = serde_json::to_string(&point).map_err(RunError::setting(&self.file))?;
        opened
            .and_then(|mut out| writeln!(out, "{line}"))
            .map_err(RunError::write(&self.file))?;
        self.all.push(point);
        Ok(())
    }
}
