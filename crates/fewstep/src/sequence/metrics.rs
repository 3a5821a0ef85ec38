//! What a run measured as it went: `metrics.jsonl` for programs and an event file for TensorBoard.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path as FilePath, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use super::{RunError, tensorboard};

/// TensorBoard finds a file by the middle of its name.
const EVENTS: &str = "events.out.tfevents.0.fewstep";

/// The two files, which hold the same.
pub struct Metrics {
    lines: PathBuf,
    events: PathBuf,
}

impl Metrics {
    /// Goes on with the metrics in `dir`, without those of steps beyond `step`, which will be taken
    /// again.
    pub fn open(dir: &FilePath, step: u64) -> Result<Self, RunError> {
        let metrics = Self {
            lines: dir.join("metrics.jsonl"),
            events: dir.join(EVENTS),
        };
        if !metrics.lines.exists() {
            return Ok(metrics);
        }
        let kept: Vec<Value> = metrics
            .all()?
            .into_iter()
            .filter(|line| line["step"].as_u64().is_some_and(|at| at <= step))
            .collect();
        fewstep_nn::replace(&metrics.lines, |out| {
            kept.iter().try_for_each(|line| writeln!(out, "{line}"))
        })
        .map_err(RunError::write(&metrics.lines))?;
        fewstep_nn::replace(&metrics.events, |out| {
            out.write_all(&tensorboard::version(0.0))?;
            kept.iter().try_for_each(|line| out.write_all(&event(line)))
        })
        .map_err(RunError::write(&metrics.events))?;
        Ok(metrics)
    }

    /// Adds what was measured at a step.
    pub fn add(&self, mut line: Value) -> Result<(), RunError> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        line["time"] = json!(since.map_or(0.0, |d| d.as_secs_f64()));
        let append = |file: &FilePath, bytes: &[u8]| {
            let opened = OpenOptions::new().create(true).append(true).open(file);
            opened
                .and_then(|mut out| out.write_all(bytes))
                .map_err(RunError::write(file))
        };
        let mut bytes = event(&line);
        if !self.events.exists() {
            bytes = [tensorboard::version(0.0), bytes].concat();
        }
        append(&self.events, &bytes)?;
        append(&self.lines, format!("{line}\n").as_bytes())
    }

    /// Whether the bound was measured at a step.
    pub fn measured(&self, step: u64) -> Result<bool, RunError> {
        let there = |line: &Value| {
            line["step"].as_u64() == Some(step) && !line["validation_bound"].is_null()
        };
        Ok(self.all()?.iter().any(there))
    }

    /// Seconds of training, over all interruptions.
    pub fn seconds(&self) -> Result<f64, RunError> {
        let lines = self.all()?;
        Ok(lines.iter().filter_map(|l| l["seconds"].as_f64()).sum())
    }

    /// All lines that were written whole.
    fn all(&self) -> Result<Vec<Value>, RunError> {
        if !self.lines.exists() {
            return Ok(Vec::new());
        }
        let text = fs::read_to_string(&self.lines).map_err(RunError::read(&self.lines))?;
        Ok(text
            .lines()
            .map_while(|line| serde_json::from_str(line).ok())
            .collect())
    }
}

/// A line as a record of an event file.
fn event(line: &Value) -> Vec<u8> {
    let step = line["step"].as_u64().unwrap_or_default();
    let time = line["time"].as_f64().unwrap_or_default();
    let fields = line.as_object().into_iter().flatten();
    let values = fields
        .filter(|(name, _)| !["step", "time"].contains(&name.as_str()))
        .filter_map(|(name, value)| Some((name.as_str(), value.as_f64()?)));
    tensorboard::scalars(time, step, values)
}
