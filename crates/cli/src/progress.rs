//! Progress on long work: a bar with rate and time left on a terminal, a line per stage elsewhere;
//! metrics to a file; and the switch that Ctrl-C turns.

use std::{
    fs::File,
    io::{IsTerminal, Write},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use fewstep::lab::{Metric, Monitor};
use indicatif::{ProgressBar, ProgressStyle};

use crate::Failure;

/// Set by the first Ctrl-C; the second ends the process.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Watches an experiment for the person at the terminal.
pub struct Progress {
    stage: Mutex<Option<Stage>>,
    metrics: Option<Mutex<File>>,
    /// The first error in writing the metrics.
    error: Mutex<Option<std::io::Error>>,
}

struct Stage {
    name: String,
    bar: ProgressBar,
    start: Instant,
}

impl Progress {
    /// Starts to listen for Ctrl-C.
    pub fn new(metrics: Option<File>) -> Result<Self, Failure> {
        ctrlc::set_handler(|| {
            if STOPPED.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
            eprintln!("\nfewstep: stopping; the partial report follows (Ctrl-C again to quit now)");
        })
        .map_err(|e| Failure::Failed(format!("cannot listen for Ctrl-C: {e}")))?;
        Ok(Self {
            stage: Mutex::new(None),
            metrics: metrics.map(Mutex::new),
            error: Mutex::new(None),
        })
    }

    /// Reports what went wrong with the metrics, if anything did.
    pub fn finish(self) -> Result<(), Failure> {
        match lock(&self.error).take() {
            Some(e) => Err(Failure::Failed(format!("cannot write metrics.jsonl: {e}"))),
            None => Ok(()),
        }
    }
}

/// The data of a mutex, whatever happened to its last holder.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Monitor for Progress {
    fn begin(&self, name: &str, total: u64) {
        let bar = ProgressBar::new(total);
        let style = "{msg:24} {bar:32} {pos:>6}/{len}  {per_sec:>12}  {eta:>4} left";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        bar.set_message(name.to_string());
        *lock(&self.stage) = Some(Stage {
            name: name.into(),
            bar,
            start: Instant::now(),
        });
    }

    fn advance(&self, done: u64) {
        if let Some(stage) = lock(&self.stage).as_ref() {
            stage.bar.set_position(done);
        }
    }

    fn end(&self) {
        if let Some(stage) = lock(&self.stage).take() {
            stage.bar.finish_and_clear();
            let seconds = stage.start.elapsed().as_secs_f64();
            if std::io::stderr().is_terminal() {
                stage
                    .bar
                    .println(format!("{:24} {seconds:.1} s", stage.name));
            } else {
                eprintln!("{:24} {seconds:.1} s", stage.name);
            }
        }
    }

    fn metric(&self, metric: &Metric) {
        let Some(file) = &self.metrics else { return };
        let written = serde_json::to_string(metric)
            .map_err(std::io::Error::from)
            .and_then(|line| writeln!(lock(file), "{line}"));
        if let Err(e) = written {
            lock(&self.error).get_or_insert(e);
        }
    }

    fn stopped(&self) -> bool {
        STOPPED.load(Ordering::SeqCst)
    }
}
