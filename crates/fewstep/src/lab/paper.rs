//! The two rows of the paper's table (tab. sim-full), to stand beside ours.

/// The numbers of steps of the table.
pub const STEPS: [usize; 9] = [2, 3, 4, 6, 8, 12, 16, 24, 32];

/// "Baseline": the base denoiser.
pub const BASELINE: [f64; 9] = [
    0.6020, 0.3707, 0.2456, 0.1351, 0.0907, 0.0508, 0.0356, 0.0225, 0.0136,
];

/// "Ours": the paper's Discrete Average Generator.
pub const OURS: [f64; 9] = [
    0.5381, 0.3170, 0.1934, 0.0957, 0.0517, 0.0181, 0.0116, 0.0080, 0.0053,
];
