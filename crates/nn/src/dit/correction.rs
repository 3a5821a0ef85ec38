//! The correction: a small head on the trunk's state that adds `gain (r - t) delta(x, t, r)` to the
//! features, its tangent, and its way back.

use super::{
    Correction,
    linear::{Slots, affine, affine_tangent, back_input, forward},
    model::Dit,
    run::Pass,
    trunk::sized,
};
use crate::{
    Real,
    layers::{
        gate::add_column_sums,
        gelu::{self, Form},
        norm::Stats,
    },
};

/// What an evaluation keeps of it.
#[derive(Clone, Debug, Default)]
pub struct Corrected<T> {
    modulation: Vec<T>,
    stats: Vec<Stats<T>>,
    input: Vec<T>,
    hidden: Vec<T>,
    delta: Vec<T>,
    active: Vec<T>,
}

impl<T: Real> Dit<T> {
    /// Adds the correction to the features, and its tangent to theirs, if there is one.
    pub(super) fn correct(&self, pass: &mut Pass<T>) {
        let (p, s) = (&self.parameters[..], pass.sizes);
        let (Some(at), Some(time)) = (&self.layout.correction, &pass.time.correction) else {
            return;
        };
        let rows = s.batch * s.length;
        let (features, tangents) = (&mut pass.features[..], &mut pass.tangents[..]);
        let k = &mut pass.correction;
        let width = at.up.bias.len();
        k.modulation = affine(p, &at.modulation, s.conditioning, &time.value);
        let dmodulation = affine_tangent(p, &at.modulation, s.conditioning, &time.tangent);
        let norm = self.norm(&p[at.norm.clone()], &k.modulation, s);
        let input = sized(&mut k.input, s.state());
        norm.forward(&pass.x, input, sized(&mut k.stats, rows));
        let hidden = sized(&mut k.hidden, rows * width);
        let active = sized(&mut k.active, rows * width);
        forward(&p[at.up.weight.clone()], s.channels, input, hidden);
        gelu::forward(Form::Tanh, hidden, &p[at.up.bias.clone()], active);
        let delta = sized(&mut k.delta, s.state());
        forward(&p[at.down.weight.clone()], width, active, delta);
        let bias = &p[at.down.bias.clone()];
        let one = s.length * s.channels;
        for (i, (delta, features)) in delta
            .chunks_mut(one)
            .zip(features.chunks_mut(one))
            .enumerate()
        {
            let step = T::of(pass.steps[i]);
            let lines = delta.chunks_exact_mut(s.channels);
            for (delta, f) in lines.zip(features.chunks_exact_mut(s.channels)) {
                for ((d, f), b) in delta.iter_mut().zip(f).zip(bias) {
                    *d += *b;
                    *f += step * *d;
                }
            }
        }
        if s.moving == 0 {
            return;
        }
        // The head of the tangent: (r - t) delta' - delta, all times the gain.
        let mut dinput = vec![T::of(0.0); s.moved()];
        norm.tangent((&pass.x, &k.stats), (&pass.dx, &dmodulation), &mut dinput);
        let mut dhidden = vec![T::of(0.0); s.moving * s.length * width];
        forward(&p[at.up.weight.clone()], s.channels, &dinput, &mut dhidden);
        gelu::chain(Form::Tanh, &k.hidden[..dhidden.len()], &mut dhidden);
        forward(&p[at.down.weight.clone()], width, &dhidden, &mut dinput);
        for (i, tangents) in tangents.chunks_mut(one).enumerate() {
            let (step, gain) = (T::of(pass.steps[i]), T::of(self.gain));
            let at = i * one..(i + 1) * one;
            for ((t, dd), d) in tangents
                .iter_mut()
                .zip(&dinput[at.clone()])
                .zip(&k.delta[at])
            {
                *t += step * *dd - gain * *d;
            }
        }
    }

    /// Returns the gradient in the correction's conditioning; adds to `gx` if it is wanted.
    pub(super) fn back_correction(
        &self,
        pass: &Pass<T>,
        at: &Correction,
        gfeatures: &[T],
        gx: &mut Vec<T>,
        gradient: &mut Slots<T>,
    ) -> Vec<T> {
        let (p, s, k) = (&self.parameters[..], pass.sizes, &pass.correction);
        let (c, width) = (s.channels, at.up.bias.len());
        let one = s.length * c;
        let mut gdelta = gfeatures.to_vec();
        for (g, step) in gdelta.chunks_mut(one).zip(&pass.steps) {
            let step = T::of(*step);
            g.iter_mut().for_each(|g| *g = *g * step);
        }
        let mut ghidden = vec![T::of(0.0); k.hidden.len()];
        gradient.weight(&at.down.weight, width, &k.active, &gdelta);
        add_column_sums(&gdelta, gradient.at(&at.down.bias));
        let down = &p[at.down.weight.clone()];
        back_input(down, width, &gdelta, &mut ghidden, false);
        gelu::chain(Form::Tanh, &k.hidden, &mut ghidden);
        gradient.weight(&at.up.weight, c, &k.input, &ghidden);
        add_column_sums(&ghidden, gradient.at(&at.up.bias));
        back_input(&p[at.up.weight.clone()], c, &ghidden, &mut gdelta, false);
        let norm = self.norm(&p[at.norm.clone()], &k.modulation, s);
        let mut gmods = vec![T::of(0.0); k.modulation.len()];
        let mut unused = Vec::new();
        let gx = if gx.is_empty() {
            unused.resize(s.state(), T::of(0.0));
            &mut unused
        } else {
            gx
        };
        let gweight = gradient.at(&at.norm);
        norm.backward((&pass.x, &k.stats), &gdelta, gx, &mut gmods, gweight);
        let mut gc = Vec::new();
        if let Some(time) = &pass.time.correction {
            let inner = (s.conditioning, &time.value[..]);
            gradient.affine(p, &at.modulation, inner, &gmods, Some(&mut gc));
        }
        gc
    }
}
