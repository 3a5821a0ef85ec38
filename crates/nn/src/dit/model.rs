//! The whole network: parameters, the trunk's evaluation, and its way back.

use fewstep_ctmc::random::{Key, Purpose, uniform};
use rayon::prelude::*;

use super::{
    Config, Layout, Positions, Step,
    correction::Corrected,
    frame::Framed,
    head::Pool,
    linear::{Slots, affine, affine_tangent},
    time::Time,
    towers::Towers,
    trunk::{BlockPass, Kept, Matrices, Panels, Scratch, Sizes, Sums, Way, sized},
};
use crate::{
    Adaptation, Batch, Real, Soft, Want, kernel,
    layers::{
        norm::{EPS, Norm, Stats},
        rotary::Angles,
    },
};

/// The network and its parameters.
#[derive(Clone, Debug)]
pub struct Dit<T> {
    pub(super) config: Config,
    pub(super) layout: Layout,
    pub(super) parameters: Vec<T>,
    angles: Angles<T>,
    pub(super) pool: Pool<T>,
    /// Factor on the correction.
    pub gain: f64,
}

/// An evaluation: the features of every position, and what a backward pass needs. Its arrays are
/// used again by the next evaluation.
#[derive(Clone, Debug, Default)]
pub struct Pass<T> {
    pub(super) sizes: Sizes,
    /// The way back it was kept for.
    pub(super) back: Option<Adaptation>,
    /// The rows that can be shown, if not all.
    pub(super) rows: Option<Vec<usize>>,
    pub(super) time: Time<T>,
    /// The symbol of each position, or several, and their weights.
    tokens: Vec<usize>,
    weights: Vec<T>,
    /// `gain (r - t)` of each sequence.
    pub(super) steps: Vec<f64>,
    parts: Vec<Part<T>>,
    panels: Panels<T>,
    pub(super) x: Vec<T>,
    pub(super) dx: Vec<T>,
    stats: Vec<Stats<T>>,
    modulation: Vec<T>,
    pub(super) correction: Corrected<T>,
    pub(super) features: Vec<T>,
    pub(super) tangents: Vec<T>,
    framed: Framed<T>,
    pub(super) towers: Towers<T>,
    /// In the features, of the rows descended from.
    pub(super) gfeatures: Vec<T>,
    pub(super) begun: bool,
    pub(super) descended: bool,
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

    /// Of parts that belong together.
    pub(crate) fn assemble(config: Config, layout: Layout, parameters: Vec<T>) -> Self {
        Self {
            angles: match (&layout.frame, config.positions) {
                (Some(_), _) => Angles::still(config.length, config.head_width()),
                (None, Positions::Line) => Angles::new(config.length, config.head_width()),
                (None, Positions::Grid { columns, .. }) => {
                    Angles::grid(config.length, config.head_width(), columns)
                }
            },
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

    /// The trunk on whole sequences, or the towers.
    pub(super) fn run(&self, batch: Batch, want: Want, pass: &mut Pass<T>) {
        match &self.layout.join {
            None => self.run_trunk((batch, None), want, pass),
            Some(join) => self.run_towers(join, batch, want, pass),
        }
    }

    /// The trunk on the symbols of a batch, or on combinations of some in their place.
    pub(super) fn run_trunk(
        &self,
        (batch, soft): (Batch, Option<Soft>),
        want: Want,
        pass: &mut Pass<T>,
    ) {
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
            causal: self.layout.join.is_some(),
            exact: self.layout.frame.is_some(),
        };
        pass.sizes = sizes;
        pass.back = want.back;
        pass.rows = want.rows.map(<[usize]>::to_vec);
        pass.begun = false;
        pass.descended = false;
        let about = (&self.config, layout);
        pass.time = Time::new(about, p, (batch.t, batch.r), sizes.moving);
        pass.tokens.clear();
        pass.weights.clear();
        match soft {
            None => pass.tokens.extend_from_slice(batch.x),
            Some(Soft { symbols, weights }) => {
                assert!(symbols.len() == weights.len() && symbols.len() >= batch.x.len());
                assert!(symbols.len().is_multiple_of(batch.x.len()));
                pass.tokens.extend_from_slice(symbols);
                pass.weights.extend(weights.iter().map(|w| T::of(*w)));
            }
        }
        pass.steps.clear();
        let steps = batch.t.iter().zip(batch.r);
        pass.steps.extend(steps.map(|(t, r)| self.gain * (r - t)));

        let embedding = &p[layout.embedding.clone()];
        let x = sized(&mut pass.x, sizes.state());
        let (several, of) = (pass.tokens.len() / batch.x.len(), |token: usize| {
            &embedding[token * c..(token + 1) * c]
        });
        let rows = x.chunks_exact_mut(c).zip(pass.tokens.chunks_exact(several));
        if pass.weights.is_empty() {
            rows.for_each(|(row, token)| row.copy_from_slice(of(token[0])));
        } else {
            for ((row, tokens), weights) in rows.zip(pass.weights.chunks_exact(several)) {
                row.fill(T::of(0.0));
                for (&token, w) in tokens.iter().zip(weights) {
                    let parts = row.iter_mut().zip(of(token));
                    parts.for_each(|(x, e)| *x += *w * *e);
                }
            }
        }
        if let Some(positions) = &layout.positions {
            // A sequence may be shorter than the grid, or go on behind it.
            for sequence in x.chunks_exact_mut(length * c) {
                let cells = sequence.iter_mut().zip(&p[positions.clone()]);
                cells.for_each(|(x, p)| *x += *p);
            }
        }
        if let Some(frame) = &layout.frame {
            frame.enter(p, sizes, x, &mut pass.framed);
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
        let last = layout.blocks.len() - 1;
        let chunk = together * length * c;
        let mut moved: Vec<&mut [T]> = dx.chunks_mut(chunk).collect();
        moved.resize_with(parts, Default::default);
        let (trunk, e) = (&pass.time.trunk, together * sizes.conditioning);
        let alone = parts >= rayon::current_num_threads();
        for (block, at) in layout.blocks.iter().zip(0..) {
            let room = (parts > 1).then_some(&mut pass.panels);
            let matrices = Matrices::new((p, block, c), Way::There, room);
            pass.parts
                .par_iter_mut()
                .zip(x.par_chunks_mut(chunk))
                .zip(&mut moved)
                .enumerate()
                .for_each(|(i, ((part, x), dx))| {
                    let value = chunk_of(&trunk.value, i, e);
                    let tangent = chunk_of(&trunk.tangent, i, e);
                    // Of several sequences that go together all rows are computed.
                    let chosen = want.rows.filter(|_| at == last && part.sizes.batch == 1);
                    let chosen = chosen.map(|rows| rows_of(rows, i * together * length, length));
                    let rows = chosen.as_deref().filter(|rows| rows.len() < length);
                    let kept = &mut part.kept[at.min(every - 1)];
                    let about = (part.sizes, p, block, &self.angles);
                    let mut here = BlockPass::new(about, matrices, &mut part.scratch);
                    kernel::alone(alone, || {
                        here.forward((value, tangent), (x, dx), rows, kept)
                    });
                });
        }
        self.finish(pass);
    }

    /// The last norm, and the correction.
    fn finish(&self, pass: &mut Pass<T>) {
        let (layout, p, s) = (&self.layout, &self.parameters[..], pass.sizes);
        let rows = s.batch * s.length;
        if let Some(frame) = &layout.frame {
            let features = sized(&mut pass.features, s.state());
            let tangents = sized(&mut pass.tangents, s.moved());
            let states = (&pass.x[..], &pass.dx[..]);
            frame.leave(p, s, states, (features, tangents), &mut pass.framed);
            return self.correct(pass);
        }
        let trunk = &pass.time.trunk;
        pass.modulation = affine(p, &layout.modulation, s.conditioning, &trunk.value);
        let dmodulation = affine_tangent(p, &layout.modulation, s.conditioning, &trunk.tangent);
        let norm = self.norm(&p[layout.norm.clone()], &pass.modulation, s);
        let features = sized(&mut pass.features, s.state());
        norm.forward(&pass.x, features, sized(&mut pass.stats, rows));
        let tangents = sized(&mut pass.tangents, s.moved());
        norm.tangent((&pass.x, &pass.stats), (&pass.dx, &dmodulation), tangents);
        self.correct(pass);
    }

    pub(super) fn norm<'a>(&self, weight: &'a [T], modulation: &'a [T], s: Sizes) -> Norm<'a, T> {
        Norm {
            weight,
            modulation,
            stride: 2 * s.channels,
            at: 0,
            length: s.length,
            eps: EPS,
        }
    }

    pub(super) fn back_trunk(
        &self,
        pass: &mut Pass<T>,
        gfeatures: &[T],
        full: bool,
        gradient: &mut Slots<T>,
    ) {
        let (layout, p, s) = (&self.layout, &self.parameters[..], pass.sizes);
        let mut gx = vec![T::of(0.0); if full { s.state() } else { 0 }];
        let gcorrection = layout
            .correction
            .as_ref()
            .map(|at| self.back_correction(pass, at, gfeatures, &mut gx, gradient));
        let mut gtrunk = None;
        if full {
            let mut gc = vec![T::of(0.0); pass.time.trunk.value.len()];
            let c = &pass.time.trunk.value;
            if let Some(frame) = &layout.frame {
                frame.back_leave(p, &pass.framed, (&pass.x, gfeatures), &mut gx, gradient);
            } else {
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
                let inner = (s.conditioning, &c[..]);
                gradient.affine(p, &layout.modulation, inner, &gmods, Some(&mut gc));
            }
            let chunk = part_of(s.length, s.channels) * s.length * s.channels;
            let alone = pass.parts.len() >= rayon::current_num_threads();
            for (at, block) in layout.blocks.iter().enumerate().rev() {
                let room = (pass.parts.len() > 1).then_some(&mut pass.panels);
                let matrices = Matrices::new((p, block, s.channels), Way::Back, room);
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
                        let about = (*sizes, p, block, &self.angles);
                        let mut here = BlockPass::new(about, matrices, scratch);
                        kernel::alone(alone, || here.backward(&kept[at], gx))
                    })
                    .collect();
                let mut gmods = Vec::new();
                for (i, (part, sums)) in pass.parts.iter_mut().zip(sums).enumerate() {
                    let accumulate = gradient.accumulate;
                    gradient.accumulate |= i > 0;
                    part.scratch.weights(block, s.channels, gradient);
                    gradient.accumulate = accumulate;
                    sums.add(block, gradient);
                    gmods.extend(sums.modulation);
                }
                let inner = (s.conditioning, &c[..]);
                gradient.affine(p, &block.modulation, inner, &gmods, Some(&mut gc));
            }
            if let Some(frame) = &layout.frame {
                frame.back_enter(p, s, &pass.framed, &mut gx, gradient);
            }
            if let Some(positions) = &layout.positions {
                let gpositions = gradient.at(positions);
                for sequence in gx.chunks_exact(s.length * s.channels) {
                    let cells = gpositions.iter_mut().zip(sequence);
                    cells.for_each(|(p, g)| *p += *g);
                }
            }
            let gembedding = gradient.at(&layout.embedding);
            let several = pass.tokens.len() / (s.batch * s.length);
            for (i, &token) in pass.tokens.iter().enumerate() {
                let at = i / several * s.channels;
                let g = &gx[at..at + s.channels];
                let to = &mut gembedding[token * s.channels..(token + 1) * s.channels];
                match pass.weights.get(i) {
                    None => to.iter_mut().zip(g).for_each(|(t, g)| *t += *g),
                    Some(w) => to.iter_mut().zip(g).for_each(|(t, g)| *t += *w * *g),
                }
            }
            gtrunk = Some(gc);
        }
        let about = (&self.config, layout);
        pass.time.backward(about, p, gtrunk, gcorrection, gradient);
    }
}

/// Sequences of a part.
fn part_of(length: usize, channels: usize) -> usize {
    PART.div_ceil(length * channels)
}

/// The rows of the sequence that begins at row `start`, counted from there; its first one if there
/// are none, so that no product is empty.
fn rows_of(rows: &[usize], start: usize, length: usize) -> Vec<usize> {
    let rows = &rows[rows.partition_point(|&row| row < start)..];
    let rows = &rows[..rows.partition_point(|&row| row < start + length)];
    match rows {
        [] => vec![0],
        rows => rows.iter().map(|row| row - start).collect(),
    }
}

/// Chunk `i` of `size` entries, or what there is of it.
fn chunk_of<T>(all: &[T], i: usize, size: usize) -> &[T] {
    let end = all.len().min((i + 1) * size);
    &all[end.min(i * size)..end]
}
