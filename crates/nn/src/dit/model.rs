//! The whole network.

use std::ops::Range;

use fewstep_ctmc::random::{Key, Purpose, uniform};
use rayon::prelude::*;

use super::{
    Config, Correction, Layout, Step,
    head::{Head, HeadGradient, Pool},
    linear::{Slots, affine, affine_tangent, back_input, forward},
    time::Time,
    trunk::{BlockPass, Kept, Scratch, Sizes, Sums, sized},
};
use crate::{
    Adaptation, Batch, Gradient, Logits, Network, Real, Rows, Want, kernel,
    layers::{
        gate::add_column_sums,
        gelu::{self, Form},
        norm::{Norm, Stats},
        rotary::Angles,
    },
};

/// The network and its parameters.
#[derive(Clone, Debug)]
pub struct Dit<T> {
    config: Config,
    layout: Layout,
    parameters: Vec<T>,
    angles: Angles<T>,
    pool: Pool<T>,
    /// Factor on the correction.
    pub gain: f64,
}

/// An evaluation: the features of every position, and what a backward pass needs. Its arrays are
/// used again by the next evaluation.
#[derive(Clone, Debug, Default)]
pub struct Pass<T> {
    sizes: Sizes,
    want: Want,
    time: Time<T>,
    tokens: Vec<usize>,
    /// `gain (r - t)` of each sequence.
    steps: Vec<f64>,
    parts: Vec<Part<T>>,
    x: Vec<T>,
    dx: Vec<T>,
    stats: Vec<Stats<T>>,
    modulation: Vec<T>,
    correction: Corrected<T>,
    features: Vec<T>,
    tangents: Vec<T>,
    /// In the features, of the rows descended from.
    gfeatures: Vec<T>,
    begun: bool,
    descended: bool,
}

/// A few sequences that go through the trunk together. Parts are independent, so threads take one
/// each, and small enough for what passes between two operations to stay in a core's cache.
#[derive(Clone, Debug, Default)]
struct Part<T> {
    sizes: Sizes,
    kept: Vec<Kept<T>>,
    scratch: Scratch<T>,
}

/// Numbers of a state `[positions, C]` that a part has at least, unless there are no more. A part is
/// the same whatever the number of threads, and so is the order of every sum.
const PART: usize = 1 << 15;

#[derive(Clone, Debug, Default)]
struct Corrected<T> {
    modulation: Vec<T>,
    stats: Vec<Stats<T>>,
    input: Vec<T>,
    hidden: Vec<T>,
    delta: Vec<T>,
    active: Vec<T>,
}

impl<T: Real> Dit<T> {
    /// A network with PyTorch's initial weights; modulations, head and everything that sees a step
    /// end in zeros.
    pub fn new(config: Config, seed: u64) -> Result<Self, crate::Error> {
        let config = config.checked()?;
        let layout = Layout::new(&config);
        let mut parameters = vec![T::of(0.0); layout.len()];
        let key = Key::new(seed, Purpose::Init);
        for (i, tensor) in layout.tensors.iter().enumerate() {
            let name = &tensor.name[..];
            let out = &mut parameters[tensor.range.clone()];
            if name.contains("norm") {
                out.fill(T::of(1.0));
                continue;
            }
            let zero = [
                "adaLN_modulation",
                "output_layer",
                "step_map.mlp.2",
                "correction.mlp.2",
            ];
            if zero.iter().any(|part| name.contains(part)) {
                continue;
            }
            // A bias follows its weight and has the same bound.
            let fan = if tensor.shape.len() == 2 {
                tensor.shape[1]
            } else {
                layout.tensors[i - 1].shape[1]
            };
            let bound = (fan as f64).sqrt().recip();
            let mut rng = key.at(2, i as u64);
            out.fill_with(|| T::of(bound * (2.0 * uniform(&mut rng) - 1.0)));
        }
        Ok(Self::assemble(config, layout, parameters))
    }

    /// A network of given parameters, in the order of [`Layout`].
    pub fn from_parameters(config: Config, parameters: Vec<T>) -> Result<Self, crate::Error> {
        let config = config.checked()?;
        let layout = Layout::new(&config);
        if parameters.len() != layout.len() {
            return Err(crate::Error::Config(format!(
                "{} parameters for a network of {}",
                parameters.len(),
                layout.len()
            )));
        }
        Ok(Self::assemble(config, layout, parameters))
    }

    fn assemble(config: Config, layout: Layout, parameters: Vec<T>) -> Self {
        Self {
            angles: Angles::new(config.length, config.head_width()),
            config,
            layout,
            parameters,
            pool: Pool::default(),
            gain: 1.0,
        }
    }

    /// The same network with another way to see a step, whose new parts are initialised to leave
    /// its predictions as they are.
    pub fn adapted(self, step: Step, seed: u64) -> Result<Self, crate::Error> {
        let config = Config {
            step,
            ..self.config.clone()
        };
        let mut adapted = Self::new(config, seed)?;
        for tensor in &adapted.layout.tensors {
            let same = |other: &&super::Tensor| other.name == tensor.name;
            if let Some(old) = self.layout.tensors.iter().find(same)
                && old.shape == tensor.shape
            {
                adapted.parameters[tensor.range.clone()]
                    .copy_from_slice(&self.parameters[old.range.clone()]);
            }
        }
        Ok(adapted)
    }

    /// Its sizes.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where its tensors lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    fn run(&self, batch: Batch, want: Want, pass: &mut Pass<T>) {
        let count = batch.t.len();
        assert!(count > 0 && batch.r.len() == count && batch.x.len().is_multiple_of(count));
        let length = batch.x.len() / count;
        assert!(
            (1..=self.config.length).contains(&length),
            "sequences of {length} for a network of {}",
            self.config.length
        );
        let (layout, p, c) = (&self.layout, &self.parameters[..], self.config.width);
        let sizes = Sizes {
            length,
            heads: self.config.heads,
            channels: c,
            conditioning: self.config.conditioning,
            batch: count,
            moving: want.moving.min(count),
        };
        pass.sizes = sizes;
        pass.want = want;
        pass.begun = false;
        pass.descended = false;
        let about = (&self.config, layout);
        pass.time = Time::new(about, p, (batch.t, batch.r), sizes.moving);
        pass.tokens.clear();
        pass.tokens.extend_from_slice(batch.x);
        pass.steps.clear();
        let steps = batch.t.iter().zip(batch.r);
        pass.steps.extend(steps.map(|(t, r)| self.gain * (r - t)));

        let embedding = &p[layout.embedding.clone()];
        let x = sized(&mut pass.x, sizes.state());
        for (row, &token) in x.chunks_exact_mut(c).zip(batch.x) {
            row.copy_from_slice(&embedding[token * c..(token + 1) * c]);
        }
        pass.dx.clear();
        let dx = sized(&mut pass.dx, sizes.moved());
        let every = if want.back == Some(Adaptation::Full) {
            layout.blocks.len()
        } else {
            1
        };
        let together = part_of(length, c);
        let parts = count.div_ceil(together);
        pass.parts.resize_with(parts, Part::default);
        for (i, part) in pass.parts.iter_mut().enumerate() {
            let first = i * together;
            part.sizes = Sizes {
                batch: together.min(count - first),
                moving: sizes.moving.saturating_sub(first).min(together),
                ..sizes
            };
            part.kept.resize_with(every, Kept::default);
        }
        let chunk = together * length * c;
        let mut moved: Vec<&mut [T]> = dx.chunks_mut(chunk).collect();
        moved.resize_with(parts, Default::default);
        let (trunk, e) = (&pass.time.trunk, together * sizes.conditioning);
        let alone = parts >= rayon::current_num_threads();
        pass.parts
            .par_iter_mut()
            .zip(x.par_chunks_mut(chunk))
            .zip(moved)
            .enumerate()
            .for_each(|(i, ((part, x), dx))| {
                let value = chunk_of(&trunk.value, i, e);
                let tangent = chunk_of(&trunk.tangent, i, e);
                for (block, at) in layout.blocks.iter().zip(0..) {
                    let kept = &mut part.kept[at.min(every - 1)];
                    let about = (part.sizes, p, block, &self.angles);
                    let mut here = BlockPass::new(about, &mut part.scratch);
                    kernel::alone(alone, || here.forward((value, tangent), x, dx, kept));
                }
            });
        self.finish(pass);
    }

    /// The last norm, and the correction.
    fn finish(&self, pass: &mut Pass<T>) {
        let (layout, p, s) = (&self.layout, &self.parameters[..], pass.sizes);
        let rows = s.batch * s.length;
        let trunk = &pass.time.trunk;
        pass.modulation = affine(p, &layout.modulation, s.conditioning, &trunk.value);
        let dmodulation = affine_tangent(p, &layout.modulation, s.conditioning, &trunk.tangent);
        let norm = self.norm(&p[layout.norm.clone()], &pass.modulation, s);
        let features = sized(&mut pass.features, s.state());
        norm.forward(&pass.x, features, sized(&mut pass.stats, rows));
        let tangents = sized(&mut pass.tangents, s.moved());
        norm.tangent((&pass.x, &pass.stats), (&pass.dx, &dmodulation), tangents);
        let (Some(at), Some(time)) = (&layout.correction, &pass.time.correction) else {
            return;
        };

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

    fn norm<'a>(&self, weight: &'a [T], modulation: &'a [T], s: Sizes) -> Norm<'a, T> {
        Norm {
            weight,
            modulation,
            stride: 2 * s.channels,
            at: 0,
            length: s.length,
        }
    }

    /// Features of the rows, of their derivatives, and of the same rows of another evaluation.
    fn gather(&self, pass: &Pass<T>, rows: &Rows<Pass<T>>) -> [Vec<T>; 3] {
        let c = self.config.width;
        let of = |features: &[T]| {
            let mut out = Vec::with_capacity(rows.rows.len() * c);
            for &row in rows.rows {
                out.extend_from_slice(&features[row * c..(row + 1) * c]);
            }
            out
        };
        [
            of(&pass.features),
            if rows.tangent {
                of(&pass.tangents)
            } else {
                Vec::new()
            },
            rows.other
                .map_or_else(Vec::new, |other| of(&other.features)),
        ]
    }

    /// Clears, once an evaluation, what the way back only ever adds to; products overwrite.
    fn begin(&self, pass: &mut Pass<T>, gradient: &mut Gradient<T>) {
        let range = self.trainable(gradient.adaptation);
        assert_eq!(
            gradient.data.len(),
            range.len(),
            "a gradient of what is trained"
        );
        assert!(
            pass.want.back == Some(Adaptation::Full) || pass.want.back == Some(gradient.adaptation),
            "an evaluation that was kept for this way back"
        );
        if std::mem::replace(&mut pass.begun, true) {
            return;
        }
        pass.gfeatures.clear();
        pass.gfeatures.resize(pass.sizes.state(), T::of(0.0));
        if !gradient.accumulate {
            for tensor in &self.layout.tensors {
                let added = tensor.shape.len() == 1 || tensor.range == self.layout.embedding;
                if added && tensor.range.start >= range.start {
                    let at = tensor.range.start - range.start..tensor.range.end - range.start;
                    gradient.data[at].fill(T::of(0.0));
                }
            }
        }
    }

    fn head(&self) -> Head<'_, T> {
        Head {
            weight: &self.parameters[self.layout.head.weight.clone()],
            bias: &self.parameters[self.layout.head.bias.clone()],
            mask: self.config.mask,
            pool: &self.pool,
        }
    }

    fn back_trunk(&self, pass: &mut Pass<T>, gfeatures: &[T], full: bool, gradient: &mut Slots<T>) {
        let (layout, p, s) = (&self.layout, &self.parameters[..], pass.sizes);
        let mut gx = vec![T::of(0.0); if full { s.state() } else { 0 }];
        let gcorrection = layout
            .correction
            .as_ref()
            .map(|at| self.back_correction(pass, at, gfeatures, &mut gx, gradient));
        let mut gtrunk = None;
        if full {
            let mut gc = vec![T::of(0.0); pass.time.trunk.value.len()];
            let norm = self.norm(&p[layout.norm.clone()], &pass.modulation, s);
            let mut gmods = vec![T::of(0.0); pass.modulation.len()];
            let gweight = gradient.at(&layout.norm);
            norm.backward(
                (&pass.x, &pass.stats),
                gfeatures,
                &mut gx,
                &mut gmods,
                gweight,
            );
            let c = &pass.time.trunk.value;
            let inner = (s.conditioning, &c[..]);
            gradient.affine(p, &layout.modulation, inner, &gmods, Some(&mut gc));
            let chunk = part_of(s.length, s.channels) * s.length * s.channels;
            let alone = pass.parts.len() >= rayon::current_num_threads();
            for (at, block) in layout.blocks.iter().enumerate().rev() {
                let about = |part: Sizes| (part, p, block, &self.angles);
                let sums: Vec<Sums<T>> = pass
                    .parts
                    .par_iter_mut()
                    .zip(gx.par_chunks_mut(chunk))
                    .map(|(part, gx)| {
                        let Part {
                            sizes,
                            kept,
                            scratch,
                        } = part;
                        let mut here = BlockPass::new(about(*sizes), scratch);
                        kernel::alone(alone, || here.backward(&kept[at], gx))
                    })
                    .collect();
                let mut gmods = Vec::new();
                for (i, (part, sums)) in pass.parts.iter_mut().zip(sums).enumerate() {
                    let accumulate = gradient.accumulate;
                    gradient.accumulate |= i > 0;
                    BlockPass::new(about(part.sizes), &mut part.scratch).weights(gradient);
                    gradient.accumulate = accumulate;
                    sums.add(block, gradient);
                    gmods.extend(sums.modulation);
                }
                let inner = (s.conditioning, &c[..]);
                gradient.affine(p, &block.modulation, inner, &gmods, Some(&mut gc));
            }
            let gembedding = gradient.at(&layout.embedding);
            for (&token, g) in pass.tokens.iter().zip(gx.chunks_exact(s.channels)) {
                let to = &mut gembedding[token * s.channels..(token + 1) * s.channels];
                to.iter_mut().zip(g).for_each(|(t, g)| *t += *g);
            }
            gtrunk = Some(gc);
        }
        let about = (&self.config, layout);
        pass.time.backward(about, p, gtrunk, gcorrection, gradient);
    }

    /// Returns the gradient in the correction's conditioning; adds to `gx` if it is wanted.
    fn back_correction(
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

/// Sequences of a part.
fn part_of(length: usize, channels: usize) -> usize {
    PART.div_ceil(length * channels)
}

/// Chunk `i` of `size` entries, or what there is of it.
fn chunk_of<T>(all: &[T], i: usize, size: usize) -> &[T] {
    let end = all.len().min((i + 1) * size);
    &all[end.min(i * size)..end]
}

impl<T: Real> Network<T> for Dit<T> {
    type Pass = Pass<T>;

    fn symbols(&self) -> usize {
        self.config.vocabulary
    }

    fn parameters(&self) -> &[T] {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut [T] {
        &mut self.parameters
    }

    /// The last parameters of the vector. Without a correction, [`Adaptation::Head`] has nothing
    /// to train.
    fn trainable(&self, adaptation: Adaptation) -> Range<usize> {
        let first = match (adaptation, self.config.step, &self.layout.step) {
            (Adaptation::Full, ..) => 0,
            (Adaptation::Head, Step::Correction { .. }, Some(step)) => step[0].weight.start,
            (Adaptation::Head, ..) => self.layout.len(),
        };
        first..self.layout.len()
    }

    fn evaluate(&self, batch: Batch, want: Want, pass: &mut Pass<T>) {
        self.run(batch, want, pass);
    }

    fn visit<R: Send>(
        &self,
        pass: &Pass<T>,
        rows: Rows<Pass<T>>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
    ) -> Vec<R> {
        let sets = self.gather(pass, &rows);
        let sets = sets.each_ref().map(|set| &set[..]);
        self.head().visit(sets, self.config.width, consumer, None)
    }

    fn descend<R: Send>(
        &self,
        pass: &mut Pass<T>,
        rows: Rows<Pass<T>>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
        gradient: &mut Gradient<T>,
    ) -> Vec<R> {
        self.begin(pass, gradient);
        let c = self.config.width;
        let sets = self.gather(pass, &rows);
        let mut gchosen = vec![T::of(0.0); sets[0].len()];
        let parameters = (gradient.adaptation == Adaptation::Full).then(|| {
            let at = &self.layout.head;
            let (weight, rest) = gradient.data.split_at_mut(at.bias.start);
            (&mut weight[at.weight.clone()], &mut rest[..at.bias.len()])
        });
        let into = HeadGradient {
            features: &mut gchosen,
            parameters,
            accumulate: gradient.accumulate || pass.descended,
        };
        let views = sets.each_ref().map(|set| &set[..]);
        let answers = self.head().visit(views, c, consumer, Some(into));
        pass.descended |= !rows.rows.is_empty();
        for (&row, g) in rows.rows.iter().zip(gchosen.chunks_exact(c)) {
            pass.gfeatures[row * c..(row + 1) * c].copy_from_slice(g);
        }
        answers
    }

    fn backward(&self, pass: &mut Pass<T>, gradient: &mut Gradient<T>) {
        self.begin(pass, gradient);
        let full = gradient.adaptation == Adaptation::Full;
        if full && !pass.descended && !gradient.accumulate {
            gradient.data[self.layout.head.weight.clone()].fill(T::of(0.0));
        }
        let mut slots = Slots {
            base: self.trainable(gradient.adaptation).start,
            data: gradient.data,
            accumulate: gradient.accumulate,
        };
        let gfeatures = std::mem::take(&mut pass.gfeatures);
        self.back_trunk(pass, &gfeatures, full, &mut slots);
        pass.gfeatures = gfeatures;
        (pass.begun, pass.descended) = (false, false);
    }
}
