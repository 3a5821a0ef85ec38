//! What several tests need.

use std::sync::atomic::{AtomicI64, Ordering};

use fewstep::lab::{Metric, Monitor};

/// A monitor that stops what it watches when it was asked this often.
pub struct Until(AtomicI64);

impl Until {
    pub fn asked(times: i64) -> Self {
        Self(AtomicI64::new(times))
    }
}

impl Monitor for Until {
    fn begin(&self, _: &str, _: u64) {}
    fn advance(&self, _: &str, _: u64) {}
    fn end(&self, _: &str) {}
    fn metric(&self, _: &Metric) {}
    fn stopped(&self) -> bool {
        self.0.fetch_sub(1, Ordering::SeqCst) <= 0
    }
}
