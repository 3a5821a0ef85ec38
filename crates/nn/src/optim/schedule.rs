//! The learning rate of every step, as a value.

/// A linear warm-up to a peak, then a decay.
///
/// The rate of step `n` (from 0) is `min(1, (n + 1)/warmup)` times the decay's value at `n`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// The highest rate.
    pub peak: f64,
    /// Steps until the rate is not held back any more; 0 and 1 both mean no warm-up.
    pub warmup: u64,
    /// What comes with the steps.
    pub decay: Decay,
}

/// How a rate falls. The warm-up is part of the steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decay {
    /// Not at all.
    Constant,
    /// `floor + (peak - floor) (1 + cos(pi n/steps))/2`, and `floor` after the last step.
    Cosine {
        /// The length of the run.
        steps: u64,
        /// The rate at its end.
        floor: f64,
    },
}

impl Schedule {
    /// The same rate always.
    pub fn constant(rate: f64) -> Self {
        Self {
            peak: rate,
            warmup: 0,
            decay: Decay::Constant,
        }
    }

    /// A warm-up, then a cosine to zero at `steps`.
    pub fn cosine(peak: f64, warmup: u64, steps: u64) -> Self {
        Self {
            peak,
            warmup,
            decay: Decay::Cosine { steps, floor: 0.0 },
        }
    }

    /// The learning rate of step `step`, counted from 0.
    pub fn rate(&self, step: u64) -> f64 {
        let ramp = ((step + 1) as f64 / self.warmup.max(1) as f64).min(1.0);
        match self.decay {
            Decay::Constant => self.peak * ramp,
            Decay::Cosine { steps, floor } => {
                let progress = (step as f64 / steps.max(1) as f64).min(1.0);
                let height = (self.peak - floor) * ramp * 0.5;
                floor * ramp + height * (1.0 + (std::f64::consts::PI * progress).cos())
            }
        }
    }
}

/// PyTorch's default for AdamW: `1e-3` always.
impl Default for Schedule {
    fn default() -> Self {
        Self::constant(1e-3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_warms_up_and_falls_to_zero() {
        let schedule = Schedule::cosine(1.0, 10, 100);
        assert_eq!(schedule.rate(0), 0.1);
        assert!((schedule.rate(50) - 0.5).abs() < 1e-12);
        assert!(schedule.rate(99) < 0.001);
        assert_eq!(schedule.rate(100), 0.0);
        assert_eq!(schedule.rate(150), 0.0);
    }

    /// The numbers of the lab's runs depend on the order of the products.
    #[test]
    fn without_a_floor_the_products_are_taken_from_the_left() {
        for step in 0..1000 {
            let ramp = ((step + 1) as f64 / 100.0).min(1.0);
            let cosine = (std::f64::consts::PI * (step as f64 / 1000.0)).cos();
            let expected = 2e-3 * ramp * 0.5 * (1.0 + cosine);
            assert_eq!(Schedule::cosine(2e-3, 100, 1000).rate(step), expected);
        }
    }

    #[test]
    fn a_floor_is_where_the_cosine_ends() {
        let schedule = Schedule {
            decay: Decay::Cosine {
                steps: 100,
                floor: 0.25,
            },
            ..Schedule::cosine(1.0, 10, 100)
        };
        assert!((schedule.rate(50) - 0.625).abs() < 1e-12);
        assert_eq!(schedule.rate(100), 0.25);
        assert_eq!(schedule.rate(1000), 0.25);
    }

    #[test]
    fn a_constant_rate_may_warm_up() {
        assert_eq!(Schedule::default().rate(0), 1e-3);
        let schedule = Schedule {
            warmup: 4,
            ..Schedule::constant(1.0)
        };
        let rates: Vec<f64> = (0..6).map(|step| schedule.rate(step)).collect();
        assert_eq!(rates, [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]);
    }
}
