//! The conditioning vectors `[B, E]` of a batch, from `t` and `r`.
//!
//! `c = SiLU(sigma_map(s(t)) [+ step_map(r - t)])`, each map being Linear, SiLU, Linear of the
//! sinusoid `[cos(u f_j), sin(u f_j)]`, `f_j = 10000^{-j/half}`. The derivative in `t` at fixed `r`
//! goes through `s'(t)` and `d(r - t)/dt = -1`.

use super::{
    Affine, Config, FEATURES, Layout, Sight, Step,
    linear::{Slots, affine, affine_tangent},
};
use crate::{Real, silu};

/// What the trunk is conditioned on, what the correction is conditioned on, and what their
/// backward passes need.
#[derive(Clone, Debug, Default)]
pub struct Time<T> {
    sigma: Option<Map<T>>,
    step: Option<Map<T>>,
    /// For trunk and last layer, `[B, E]`.
    pub trunk: Activated<T>,
    /// For the correction, if there is one.
    pub correction: Option<Activated<T>>,
}

/// `SiLU` of something.
#[derive(Clone, Debug, Default)]
pub struct Activated<T> {
    /// `[B, E]`.
    pub value: Vec<T>,
    /// Derivative in `t` of the first rows.
    pub tangent: Vec<T>,
    slope: Vec<T>,
}

impl<T: Real> Activated<T> {
    fn new(mut value: Vec<T>, mut tangent: Vec<T>) -> Self {
        let mut slope = vec![T::of(0.0); value.len()];
        silu::forward(&mut value, &mut slope);
        silu::chain(&slope, &mut tangent);
        Self {
            value,
            tangent,
            slope,
        }
    }
}

impl<T: Real> Activated<T> {
    /// Of a trunk that is told nothing.
    fn nothing(width: usize, count: usize, moving: usize) -> Self {
        let zeros = |rows: usize| vec![T::of(0.0); rows * width];
        Self {
            value: zeros(count),
            tangent: zeros(moving),
            slope: zeros(count),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Map<T> {
    features: Vec<T>,
    hidden: Activated<T>,
    out: Vec<T>,
    tangent: Vec<T>,
}

impl<T: Real> Map<T> {
    /// Of numbers `u` with derivatives `du`; tangents for the first `moving` of them.
    fn new(parameters: &[T], layers: &[Affine; 2], points: &[(f64, f64)], moving: usize) -> Self {
        let half = FEATURES / 2;
        let (mut features, mut dfeatures) = (Vec::new(), Vec::new());
        for (i, &(u, du)) in points.iter().enumerate() {
            let angle = |j: usize| {
                let f = (-(10_000f64.ln()) * j as f64 / half as f64).exp();
                (u * f, du * f)
            };
            features.extend((0..half).map(|j| T::of(angle(j).0.cos())));
            features.extend((0..half).map(|j| T::of(angle(j).0.sin())));
            if i < moving {
                dfeatures.extend((0..half).map(|j| T::of(-angle(j).0.sin() * angle(j).1)));
                dfeatures.extend((0..half).map(|j| T::of(angle(j).0.cos() * angle(j).1)));
            }
        }
        let width = layers[0].bias.len();
        let hidden = Activated::new(
            affine(parameters, &layers[0], FEATURES, &features),
            affine_tangent(parameters, &layers[0], FEATURES, &dfeatures),
        );
        Self {
            out: affine(parameters, &layers[1], width, &hidden.value),
            tangent: affine_tangent(parameters, &layers[1], width, &hidden.tangent),
            features,
            hidden,
        }
    }

    fn backward(
        &self,
        parameters: &[T],
        layers: &[Affine; 2],
        gout: &[T],
        gradient: &mut Slots<T>,
    ) {
        let width = layers[0].bias.len();
        let mut g = Vec::new();
        gradient.affine(
            parameters,
            &layers[1],
            (width, &self.hidden.value),
            gout,
            Some(&mut g),
        );
        silu::chain(&self.hidden.slope, &mut g);
        gradient.affine(parameters, &layers[0], (FEATURES, &self.features), &g, None);
    }
}

fn sum<T: Real>(a: &[T], b: &[T]) -> Vec<T> {
    a.iter().zip(b).map(|(a, b)| *a + *b).collect()
}

impl<T: Real> Time<T> {
    /// The conditioning of times `t` and steps to `r`; tangents for the first `moving`.
    pub fn new(
        (config, layout): (&Config, &Layout),
        parameters: &[T],
        (t, r): (&[f64], &[f64]),
        moving: usize,
    ) -> Self {
        let blind = layout.frame.is_some() && config.step != Step::Trunk;
        if layout.frame.is_some() && config.step == Step::None {
            return Self {
                trunk: Activated::nothing(config.conditioning, t.len(), moving),
                ..Self::default()
            };
        }
        let points: Vec<_> = t.iter().map(|&t| config.time.value(t)).collect();
        let sigma = Map::new(parameters, &layout.sigma, &points, moving);
        let step = layout.step.as_ref().map(|layers| {
            let point = |(t, r): (&f64, &f64)| match config.sight {
                Sight::Whole => (r - t, -1.0),
                Sight::Others { .. } => ((r - t).abs(), 0.0),
            };
            let points: Vec<_> = t.iter().zip(r).map(point).collect();
            Map::new(parameters, layers, &points, moving)
        });
        let alone = || Activated::new(sigma.out.clone(), sigma.tangent.clone());
        let both = |step: &Map<T>| {
            Activated::new(
                sum(&sigma.out, &step.out),
                sum(&sigma.tangent, &step.tangent),
            )
        };
        let (trunk, correction) = match (config.step, &step) {
            (Step::Trunk, Some(step)) => (both(step), None),
            (Step::Correction { .. }, Some(step)) => (alone(), Some(both(step))),
            _ => (alone(), None),
        };
        let trunk = if blind {
            Activated::nothing(config.conditioning, t.len(), moving)
        } else {
            trunk
        };
        Self {
            sigma: Some(sigma),
            step,
            trunk,
            correction,
        }
    }

    /// The maps' gradients from those in the conditioning vectors. Without `gtrunk` the trunk is
    /// frozen, and its map with it.
    pub fn backward(
        &self,
        (config, layout): (&Config, &Layout),
        parameters: &[T],
        gtrunk: Option<Vec<T>>,
        gcorrection: Option<Vec<T>>,
        gradient: &mut Slots<T>,
    ) {
        let through = |at: &Activated<T>, mut g: Vec<T>| {
            silu::chain(&at.slope, &mut g);
            g
        };
        let full = gtrunk.is_some();
        let gtrunk = gtrunk.map(|g| through(&self.trunk, g));
        let gcorrection = match (&self.correction, gcorrection) {
            (Some(at), Some(g)) => Some(through(at, g)),
            _ => None,
        };
        let gstep = if config.step == Step::Trunk {
            gtrunk.clone()
        } else {
            gcorrection.clone()
        };
        if let (Some(map), Some(layers), Some(g)) = (&self.step, &layout.step, gstep) {
            map.backward(parameters, layers, &g, gradient);
        }
        let Some(sigma) = &self.sigma else {
            return;
        };
        // The map of a MaskGIT's correction is part of it; of any other, the trunk's.
        if let (Some(_), Step::Correction { .. }, Some(g)) =
            (&layout.frame, config.step, &gcorrection)
        {
            sigma.backward(parameters, &layout.sigma, g, gradient);
        } else if full {
            let mut g = gtrunk.unwrap_or_default();
            for (g, extra) in g.iter_mut().zip(gcorrection.iter().flatten()) {
                *g += *extra;
            }
            sigma.backward(parameters, &layout.sigma, &g, gradient);
        }
    }
}
