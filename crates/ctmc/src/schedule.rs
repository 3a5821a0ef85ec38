//! Noise schedules `kappa_t` of the mixture path (eq. mixture path) and what the method derives
//! from them: `lambda_t`, `omega_{t,r}`, `mu_{t,r}` and `d_t mu_{t,r}`.
//!
//! Every difference that cancels (`1 - kappa` near data, `kappa_r - kappa_t` for a short step,
//! `mu - lambda` in `d_t mu`) has a form that does not, so the limits `r -> t` and `t -> 1` are
//! ordinary arguments and not special cases for the caller.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

use crate::Error;

/// A non-decreasing `kappa: [0, 1] -> [0, 1]`, the share of coordinates that show data at `t`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Schedule {
    /// `kappa_t = t`.
    Linear,
    /// `kappa_t = 1 - cos(pi t / 2)`: a cosine mask ratio.
    Cosine,
    /// `kappa_t = t^n`, `n > 0`.
    Polynomial(f64),
    /// MDLM's and DUO's log-linear noise, `alpha = 1 - (1 - eps)(1 - t)`, which never removes the
    /// last `eps` of signal: `kappa_0 = eps`, not 0. Their default is `eps = 1e-3`.
    LogLinear {
        /// The signal left at `t = 0`.
        eps: f64,
    },
    /// `kappa_t = 1 - (2/pi) arccos t`: MaskGIT's mask ratio.
    Arccos,
}

/// A noise level: `kappa` and `1 - kappa`, both kept to full relative precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The signal, `kappa`.
    pub kappa: f64,
    /// The noise left, `1 - kappa`.
    pub survival: f64,
}

impl Level {
    /// The level at log-time `u = -log(1 - kappa)`, in which the mixture path jumps at unit rate.
    pub fn at_log_time(u: f64) -> Self {
        Self {
            kappa: -(-u).exp_m1(),
            survival: (-u).exp(),
        }
    }

    /// `u = -log(1 - kappa)`; infinite at the data end.
    pub fn log_time(self) -> f64 {
        if self.kappa < 0.5 {
            -(-self.kappa).ln_1p()
        } else {
            -self.survival.ln()
        }
    }
}

impl Schedule {
    /// Checks the parameters.
    pub fn check(self) -> Result<Self, Error> {
        match self {
            Self::Polynomial(n) if !(n.is_finite() && n > 0.0) => Err(Error::range(
                "the exponent of the polynomial schedule",
                n,
                "finite and above 0",
            )),
            Self::LogLinear { eps } if !(0.0..1.0).contains(&eps) => Err(Error::range(
                "eps of the log-linear schedule",
                eps,
                "at least 0 and below 1",
            )),
            _ => Ok(self),
        }
    }

    /// `kappa_t`.
    pub fn kappa(self, t: f64) -> f64 {
        match self {
            Self::Linear => t,
            Self::Cosine if t < 0.5 => 2.0 * (FRAC_PI_2 * t / 2.0).sin().powi(2),
            Self::Cosine => 1.0 - self.survival(t),
            Self::Polynomial(n) => t.powf(n),
            Self::LogLinear { eps } => eps + (1.0 - eps) * t,
            Self::Arccos => FRAC_2_PI * t.asin(),
        }
    }

    /// `1 - kappa_t`, without cancellation near `t = 1`.
    pub fn survival(self, t: f64) -> f64 {
        match self {
            Self::Linear => 1.0 - t,
            Self::Cosine => (FRAC_PI_2 * (1.0 - t)).sin(),
            Self::Polynomial(n) => {
                if t < 0.5 {
                    1.0 - t.powf(n)
                } else {
                    -(n * (t - 1.0).ln_1p()).exp_m1()
                }
            }
            Self::LogLinear { eps } => (1.0 - eps) * (1.0 - t),
            Self::Arccos => FRAC_2_PI * t.acos(),
        }
    }

    /// Both of [`kappa`](Self::kappa) and [`survival`](Self::survival).
    pub fn level(self, t: f64) -> Level {
        Level {
            kappa: self.kappa(t),
            survival: self.survival(t),
        }
    }

    /// The `t` with `kappa_t = kappa`; 0 for a `kappa` below `kappa_0`.
    pub fn inverse(self, kappa: f64) -> f64 {
        match self {
            Self::Linear => kappa,
            Self::Cosine => (kappa / 2.0).sqrt().asin() * 2.0 / FRAC_PI_2,
            Self::Polynomial(n) => kappa.powf(1.0 / n),
            Self::LogLinear { eps } => ((kappa - eps) / (1.0 - eps)).max(0.0),
            Self::Arccos => (FRAC_PI_2 * kappa).sin(),
        }
    }

    /// `d kappa_t / dt`.
    pub fn kappa_dot(self, t: f64) -> f64 {
        match self {
            Self::Linear => 1.0,
            Self::Cosine => FRAC_PI_2 * (FRAC_PI_2 * t).sin(),
            Self::Polynomial(n) => n * t.powf(n - 1.0),
            Self::LogLinear { eps } => 1.0 - eps,
            Self::Arccos => FRAC_2_PI / ((1.0 - t) * (1.0 + t)).sqrt(),
        }
    }

    /// `d^2 kappa_t / dt^2`.
    pub fn kappa_ddot(self, t: f64) -> f64 {
        match self {
            Self::Linear | Self::LogLinear { .. } => 0.0,
            Self::Cosine => FRAC_PI_2 * FRAC_PI_2 * (FRAC_PI_2 * t).cos(),
            Self::Polynomial(n) => n * (n - 1.0) * t.powf(n - 2.0),
            Self::Arccos => FRAC_2_PI * t / ((1.0 - t) * (1.0 + t)).powf(1.5),
        }
    }

    /// `lambda_t = kappa'_t / (1 - kappa_t)`, the jump rate of a coordinate; infinite at `t = 1`.
    pub fn lambda(self, t: f64) -> f64 {
        self.kappa_dot(t) / self.survival(t)
    }

    /// `kappa_r - kappa_t`, to full relative precision for a short step.
    pub fn increment(self, t: f64, r: f64) -> f64 {
        let h = r - t;
        match self {
            Self::Linear => h,
            Self::Cosine => 2.0 * (FRAC_PI_2 * (t + h / 2.0)).sin() * (FRAC_PI_2 * h / 2.0).sin(),
            Self::Polynomial(n) if t > 0.0 => t.powf(n) * (n * (h / t).ln_1p()).exp_m1(),
            Self::Polynomial(n) => r.powf(n),
            Self::LogLinear { eps } => (1.0 - eps) * h,
            Self::Arccos => {
                let below = |x: f64| ((1.0 - x) * (1.0 + x)).sqrt();
                let sum = r * below(t) + t * below(r);
                // arcsin r - arcsin t = arcsin(r below(t) - t below(r)), made rational.
                if h == 0.0 {
                    0.0
                } else {
                    FRAC_2_PI * (h * (r + t) / sum).min(1.0).asin()
                }
            }
        }
    }

    /// `omega_{t,r} = (kappa_r - kappa_t)/(1 - kappa_t)`: the probability that a coordinate jumps
    /// on `[t, r]` under the conditional path. One when `r = 1`.
    pub fn omega(self, t: f64, r: f64) -> f64 {
        if r >= 1.0 {
            1.0
        } else {
            self.increment(t, r) / self.survival(t)
        }
    }

    /// `mu_{t,r} = omega_{t,r} / (r - t)` (eq. U-param), with the limit `lambda_t` at `r = t`.
    pub fn mu(self, t: f64, r: f64) -> f64 {
        if r == t {
            self.lambda(t)
        } else {
            self.omega(t, r) / (r - t)
        }
    }

    /// `d_t mu_{t,r} = (mu - lambda)/(r - t) + lambda mu` at fixed `r`.
    ///
    /// The quotient is the second divided difference `kappa[t,t,r]` over `1 - kappa_t`. For a
    /// step much shorter than the distance to either end it is taken as
    /// `int_0^1 (1 - s) kappa''(t + s h) ds` (Hermite-Genocchi), which has no difference in it.
    pub fn mu_dot(self, t: f64, r: f64) -> f64 {
        let h = r - t;
        let (lambda, mu) = (self.lambda(t), self.mu(t, r));
        let quotient = if h < 0.1 * t.min(1.0 - t) {
            let second: f64 = GAUSS_LEGENDRE
                .iter()
                .map(|&(s, w)| w * (1.0 - s) * self.kappa_ddot(t + s * h))
                .sum();
            second / self.survival(t)
        } else if h > 0.0 {
            (mu - lambda) / h
        } else {
            self.kappa_ddot(t) / 2.0 / self.survival(t)
        };
        quotient + lambda * mu
    }
}

/// Nodes and weights of the five-point rule on `[0, 1]`: exact for polynomials of degree 9.
const GAUSS_LEGENDRE: [(f64, f64); 5] = [
    (0.046_910_077_030_668_004, 0.118_463_442_528_094_54),
    (0.230_765_344_947_158_45, 0.239_314_335_249_683_23),
    (0.5, 0.284_444_444_444_444_44),
    (0.769_234_655_052_841_5, 0.239_314_335_249_683_23),
    (0.953_089_922_969_332, 0.118_463_442_528_094_54),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all() -> [Schedule; 6] {
        [
            Schedule::Linear,
            Schedule::Cosine,
            Schedule::Polynomial(2.0),
            Schedule::Polynomial(3.5),
            Schedule::LogLinear { eps: 1e-3 },
            Schedule::Arccos,
        ]
    }

    fn assert_close(a: f64, b: f64, tolerance: f64, what: &str) {
        let scale = a.abs().max(b.abs()).max(1e-300);
        assert!((a - b).abs() / scale < tolerance, "{what}: {a} against {b}");
    }

    #[test]
    fn known_values() {
        assert_close(
            Schedule::Cosine.kappa(0.5),
            1.0 - 0.5f64.sqrt(),
            1e-15,
            "cosine",
        );
        assert_close(Schedule::Arccos.kappa(0.5), 1.0 / 3.0, 1e-15, "arccos");
        assert_close(Schedule::Polynomial(3.0).kappa(0.5), 0.125, 1e-15, "cubic");
        assert_close(
            Schedule::LogLinear { eps: 1e-3 }.kappa(0.0),
            1e-3,
            1e-15,
            "log-linear",
        );
        // The reverse mask probability of a step of the linear schedule, 0.25 -> 0.75.
        assert_close(
            Schedule::Linear.omega(0.25, 0.75),
            2.0 / 3.0,
            1e-15,
            "omega",
        );
        for s in all() {
            assert_eq!(s.kappa(1.0), 1.0);
            assert!(s.survival(1.0).abs() < 1e-300);
            assert_eq!(s.omega(0.3, 1.0), 1.0);
            assert_eq!(s.inverse(0.0), 0.0);
            assert!(s.lambda(1.0).is_infinite());
        }
    }

    #[test]
    fn parameters_are_checked() {
        for n in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Schedule::Polynomial(n).check().is_err());
        }
        for eps in [-0.1, 1.0, f64::NAN] {
            assert!(Schedule::LogLinear { eps }.check().is_err());
        }
    }

    proptest! {
        #[test]
        fn inverse_undoes_kappa(t in 0.0..=1.0f64) {
            for s in all() {
                prop_assert!((s.inverse(s.kappa(t)) - t).abs() < 1e-12, "{s:?} {t}");
            }
        }

        #[test]
        fn survival_complements_kappa(t in 0.0..=1.0f64) {
            for s in all() {
                prop_assert!((s.kappa(t) + s.survival(t) - 1.0).abs() < 4e-16);
            }
        }

        #[test]
        fn level_round_trips_through_log_time(u in 1e-9..60.0f64) {
            assert_close(Level::at_log_time(u).log_time(), u, 1e-14, "log time");
        }

        #[test]
        fn derivatives_agree_with_differences(t in 0.05..0.95f64) {
            let h = 1e-5;
            for s in all() {
                assert_close(s.kappa_dot(t), s.increment(t - h, t + h) / (2.0 * h), 1e-6, "kappa'");
                let second = (s.kappa_dot(t + h) - s.kappa_dot(t - h)) / (2.0 * h);
                prop_assert!((s.kappa_ddot(t) - second).abs() < 1e-5 * (1.0 + second.abs()));
            }
        }

        /// A step shortened to nothing keeps full relative precision, against the Taylor series.
        #[test]
        fn short_steps_do_not_cancel(t in 0.05..0.95f64, exponent in 9..15i32) {
            let h = 10f64.powi(-exponent);
            let r = t + h;
            let h = r - t;
            for s in all() {
                let series = s.kappa_dot(t) * h + s.kappa_ddot(t) * h * h / 2.0;
                assert_close(s.increment(t, r), series, 1e-12, "increment");
                assert_close(s.mu(t, r), s.lambda(t), 1e-5, "mu -> lambda");
                let limit = s.kappa_ddot(t) / 2.0 / s.survival(t) + s.lambda(t).powi(2);
                assert_close(s.mu_dot(t, r), limit, 1e-5, "d_t mu");
            }
        }

        #[test]
        fn mu_dot_is_the_derivative_of_mu(t in 0.02..0.9f64, w in 0.001..1.0f64) {
            for s in all() {
                let r = t + w * (1.0 - t);
                let h = 1e-4 * t.min(r - t).min(1.0 - t);
                let numeric = (8.0 * (s.mu(t + h, r) - s.mu(t - h, r))
                    - (s.mu(t + 2.0 * h, r) - s.mu(t - 2.0 * h, r))) / (12.0 * h);
                prop_assert!((s.mu_dot(t, r) - numeric).abs() < 1e-6 * (1.0 + numeric.abs()),
                    "{s:?} t {t} r {r}: {} against {numeric}", s.mu_dot(t, r));
            }
        }
    }
}
