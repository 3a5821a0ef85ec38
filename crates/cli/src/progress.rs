//! Progress on long work: a bar with rate and time left on a terminal, a line per stage elsewhere;
//! metrics to a file; and the switch that Ctrl-C turns.

use std::{
    collections::HashMap,
    fs::File,
    io::{IsTerminal, Write},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use fewstep::lab::{Metric, Monitor};
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};

use crate::Failure;

/// Set by the first Ctrl-C; the second ends the process.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Watches an experiment for the person at the terminal.
pub struct Progress {
    bars: MultiProgress,
    stages: Mutex<HashMap<String, Stage>>,
    metrics: Option<Mutex<File>>,
    /// The first error in writing the metrics.
    error: Mutex<Option<std::io::Error>>,
}

struct Stage {
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
            eprintln!("\nfewstep: stopping; what is done is kept (Ctrl-C again to quit now)");
        })
        .map_err(|e| Failure::Failed(format!("cannot listen for Ctrl-C: {e}")))?;
        Ok(Self {
            bars: MultiProgress::new(),
            stages: Mutex::default(),
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
    fn begin(&self, stage: &str, total: u64) {
        let bar = self.bars.add(ProgressBar::new(total));
        let style = "{msg:24} {bar:32} {pos:>6}/{len}  {rate:>7}/s  {eta:>4} left";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.with_key(
                "rate",
                |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                    let _ = write!(out, "{:.0}", state.per_sec());
                },
            ));
        }
        bar.set_message(stage.to_string());
        let start = Instant::now();
        lock(&self.stages).insert(stage.into(), Stage { bar, start });
    }

    fn advance(&self, stage: &str, done: u64) {
        if let Some(stage) = lock(&self.stages).get(stage) {
            stage.bar.set_position(done);
        }
    }

    fn end(&self, name: &str) {
        if let Some(Stage { bar, start }) = lock(&self.stages).remove(name) {
            let line = format!("{name:24} {:.1} s", start.elapsed().as_secs_f64());
            bar.finish_and_clear();
            self.bars.remove(&bar);
            if std::io::stderr().is_terminal() {
                // An error here is a closed terminal, of which there is no one to tell.
                let _ = self.bars.println(line);
            } else {
                eprintln!("{line}");
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
