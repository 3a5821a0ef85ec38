//! A run is a directory: its manifest is written before any work, so that a directory that cannot
//! be written to is found out at once.

use std::{
    fs::File,
    path::{Path, PathBuf},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use fewstep::{lab::Config, report::atomic};
use serde_json::{Value, json};

use crate::Failure;

/// The directory of a run.
pub struct RunDir {
    path: PathBuf,
    manifest: Value,
    start: Instant,
}

impl RunDir {
    /// Creates the directory and its manifest. An earlier run's report there is removed first, so
    /// that what is found in the directory belongs together.
    pub fn create(path: &Path, config: &Config) -> Result<Self, Failure> {
        let refuse = |what: &Path, e: std::io::Error| {
            Failure::Usage(format!(
                "cannot write to {}: {e}; choose another directory with --out",
                what.display()
            ))
        };
        std::fs::create_dir_all(path).map_err(|e| refuse(path, e))?;
        for name in ["report.html", "report.json", "tv.svg", "split.svg"] {
            let file = path.join(name);
            match std::fs::remove_file(&file) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(refuse(&file, e)),
                _ => {}
            }
        }
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let manifest = json!({
            "program": "fewstep",
            "version": env!("CARGO_PKG_VERSION"),
            "command": std::env::args().collect::<Vec<_>>(),
            "seeds": config.options().seeds,
            "started_unix": since_epoch.map_or(0, |d| d.as_secs()),
            "machine": {
                "os": std::env::consts::OS,
                "arch": std::env::consts::ARCH,
                "cores": std::thread::available_parallelism().map_or(0, usize::from),
                "threads": rayon::current_num_threads(),
            },
            "state": "running",
            "config": config.to_json(),
        });
        let run = Self {
            path: path.to_path_buf(),
            manifest,
            start: Instant::now(),
        };
        run.write_manifest().map_err(|e| match e {
            Failure::Failed(message) => {
                Failure::Usage(format!("{message}; choose another directory with --out"))
            }
            other => other,
        })?;
        Ok(run)
    }

    /// An empty `metrics.jsonl`.
    pub fn metrics(&self) -> Result<File, Failure> {
        let path = self.path.join("metrics.jsonl");
        File::create(&path)
            .map_err(|e| Failure::Usage(format!("cannot write {}: {e}", path.display())))
    }

    /// Records how the run ended.
    pub fn finish(mut self, partial: bool) -> Result<(), Failure> {
        self.manifest["state"] = json!(if partial { "partial" } else { "done" });
        self.manifest["seconds"] = json!(self.start.elapsed().as_secs_f64());
        self.write_manifest()
    }

    fn write_manifest(&self) -> Result<(), Failure> {
        let text = format!("{:#}\n", self.manifest);
        atomic(&self.path.join("manifest.json"), text.as_bytes())
            .map_err(|e| Failure::Failed(e.to_string()))
    }
}
