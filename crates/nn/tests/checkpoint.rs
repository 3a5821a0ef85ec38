//! Checkpoints as other programs write them, as we write them, and as nobody should.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

#[path = "checkpoint/configs.rs"]
mod configs;
#[path = "checkpoint/damaged.rs"]
mod damaged;
#[path = "checkpoint/formats.rs"]
mod formats;
#[path = "checkpoint/hostile.rs"]
mod hostile;
#[path = "checkpoint/networks.rs"]
mod networks;
#[path = "checkpoint/support.rs"]
mod support;
