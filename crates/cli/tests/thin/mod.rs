//! A thin Inception network of made-up weights, to be seen with.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::path::Path;

use fewstep_nn::{
    checkpoint::{self, Blueprint},
    inception::{self, Inception},
};

/// The dimensions of its features.
pub const DIMENSIONS: usize = 128;

/// Writes one to a file: uniform weights that enlarge what goes through a little, and norms that do nothing.
pub fn inception(file: &Path, seed: u32) -> Inception<f32> {
    let config = inception::Config {
        first: 2,
        classes: Some(10),
    };
    let tensors = config.tensors();
    let uniform = |i: usize| {
        let mixed = (i as u32 + 1 + seed).wrapping_mul(2_654_435_761);
        let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(2_246_822_519);
        ((mixed ^ (mixed >> 13)) >> 8) as f32 / 16_777_216.0 - 0.5
    };
    let mut parameters = Vec::new();
    for tensor in &tensors {
        let fan: usize = tensor.shape[1..].iter().product();
        let scale = match tensor.shape.len() {
            1 => 0.0,
            _ => (60.0 / fan as f32).sqrt(),
        };
        let middle = f32::from(u8::from(tensor.name.ends_with("var")));
        parameters.extend(tensor.range.clone().map(|i| middle + scale * uniform(i)));
    }
    checkpoint::save_network(file, &tensors, &parameters).unwrap();
    Inception::from_parameters(config, parameters).unwrap()
}
