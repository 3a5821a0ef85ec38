//! One block: `x += g1 attn_out(attention(qkv(mod(norm1 x))))`, `x += g2 mlp(mod(norm2 x))`.
//!
//! The modulation row of a sequence is shift1, scale1, g1, shift2, scale2, g2. Of the forward pass
//! a block keeps what is dear to compute again: its input, q, k, v, the attention's output, the
//! MLP's hidden layer before GELU, and both branches' outputs, 11 numbers a channel. Norms, GELU
//! and the state between the branches are recomputed on the way back.

use super::{
    Block,
    linear::{Slots, affine, affine_tangent, back_input, forward},
};
use crate::{
    Real,
    layers::{
        attention::{self, Shape},
        gate::{Gate, add_column_sums},
        gelu::{self, Form},
        norm::{Norm, Stats},
        rotary::{self, Angles},
    },
};

/// Sizes of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Positions `L`.
    pub length: usize,
    /// Heads `H`.
    pub heads: usize,
    /// Channels `C`.
    pub channels: usize,
    /// Channels of the conditioning vector.
    pub conditioning: usize,
    /// Sequences `B`.
    pub batch: usize,
    /// The first sequences, which also have a tangent.
    pub moving: usize,
}

impl Sizes {
    fn shape(&self, sequences: usize) -> Shape {
        Shape {
            heads: sequences * self.heads,
            length: self.length,
            width: self.channels / self.heads,
        }
    }

    fn parts(&self) -> (usize, usize, usize) {
        (self.length, self.heads, self.channels / self.heads)
    }

    /// Entries of a state `[N, C]`.
    pub fn state(&self) -> usize {
        self.batch * self.length * self.channels
    }

    /// Entries of its tangent.
    pub fn moved(&self) -> usize {
        self.moving * self.length * self.channels
    }
}

/// What a block keeps for its backward pass.
#[derive(Clone, Debug, Default)]
pub struct Kept<T> {
    x: Vec<T>,
    qkv: [Vec<T>; 3],
    o: Vec<T>,
    lse: Vec<T>,
    attended: Vec<T>,
    hidden: Vec<T>,
    out: Vec<T>,
    modulation: Vec<T>,
    stats: [Vec<Stats<T>>; 2],
}

/// Arrays that are used again for every block.
#[derive(Clone, Debug, Default)]
pub struct Scratch<T> {
    narrow: [Vec<T>; 4],
    three: Vec<T>,
    wide: [Vec<T>; 2],
}

/// `vec` as `n` entries, whatever they are.
pub fn sized<T: Copy + Default>(vec: &mut Vec<T>, n: usize) -> &mut [T] {
    vec.resize(n, T::default());
    vec
}

fn norm<'a, T>(sizes: &Sizes, weight: &'a [T], modulation: &'a [T], which: usize) -> Norm<'a, T> {
    Norm {
        weight,
        modulation,
        stride: 6 * sizes.channels,
        at: which * 3 * sizes.channels,
        length: sizes.length,
    }
}

fn gate<'a, T>(sizes: &Sizes, modulation: &'a [T], which: usize) -> Gate<'a, T> {
    Gate {
        modulation,
        stride: 6 * sizes.channels,
        at: (which * 3 + 2) * sizes.channels,
        length: sizes.length,
        channels: sizes.channels,
    }
}

/// A block of the network, with the tools of a pass.
pub struct BlockPass<'a, T> {
    /// Sizes of the pass.
    pub sizes: Sizes,
    /// All parameters.
    pub parameters: &'a [T],
    /// Where this block's are.
    pub block: &'a Block,
    /// Rotary angles.
    pub angles: &'a Angles<T>,
    /// Arrays to work in.
    pub scratch: &'a mut Scratch<T>,
}

impl<T: Real> BlockPass<'_, T> {
    /// Moves the state `x [N, C]` through the block, and the tangent of its first sequences.
    pub fn forward(
        &mut self,
        (c, dc): (&[T], &[T]),
        x: &mut [T],
        dx: &mut [T],
        kept: &mut Kept<T>,
    ) {
        let (s, p, b) = (self.sizes, self.parameters, self.block);
        let (n, m, width) = (s.state(), s.moved(), s.channels);
        let scratch = &mut *self.scratch;
        let [h, dh, moved, _] = &mut scratch.narrow;
        let (h, dh, moved) = (sized(h, n), sized(dh, m), sized(moved, m));
        let [wide, dwide] = &mut scratch.wide;

        kept.modulation = affine(p, &b.modulation, s.conditioning, c);
        let dmodulation = affine_tangent(p, &b.modulation, s.conditioning, dc);
        let mods = &kept.modulation[..];
        kept.x.clear();
        kept.x.extend_from_slice(x);
        let rows = n / width;
        let [stats1, stats2] = &mut kept.stats;
        let norm1 = norm(&s, &p[b.norm1.clone()], mods, 0);
        norm1.forward(&kept.x, h, sized(stats1, rows));
        let three = sized(&mut scratch.three, 3 * n);
        forward(&p[b.qkv.clone()], width, h, three);
        let [q, k, v] = &mut kept.qkv;
        let parts = [sized(q, n), sized(k, n), sized(v, n)];
        rotary::split(self.angles, (s.length, s.heads), three, parts);
        let o = sized(&mut kept.o, n);
        let lse = sized(&mut kept.lse, rows * s.heads);
        attention::forward(s.shape(s.batch), [q, k, v], o, lse);
        rotary::merge(s.parts(), o, h);
        let attended = sized(&mut kept.attended, n);
        forward(&p[b.out.clone()], width, h, attended);
        let gate1 = gate(&s, mods, 0);
        gate1.forward(attended, None, x);

        if m > 0 {
            norm1.tangent((&kept.x, stats1), (dx, &dmodulation), dh);
            let three = &mut three[..3 * m];
            forward(&p[b.qkv.clone()], width, dh, three);
            let dparts = &mut sized(wide, 3 * m)[..];
            let (dq, rest) = dparts.split_at_mut(m);
            let (dk, dv) = rest.split_at_mut(m);
            rotary::split(self.angles, (s.length, s.heads), three, [dq, dk, dv]);
            let (shape, at) = (s.shape(s.moving), ..m);
            attention::tangent(
                shape,
                [&q[at], &k[at], &v[at]],
                [dq, dk, dv],
                (&o[at], &lse[..m / width * s.heads]),
                moved,
            );
            rotary::merge(s.parts(), moved, dh);
            forward(&p[b.out.clone()], width, dh, moved);
            gate1.tangent(&attended[..m], (moved, &dmodulation), dx);
        }

        let norm2 = norm(&s, &p[b.norm2.clone()], mods, 1);
        norm2.forward(x, h, sized(stats2, rows));
        if m > 0 {
            norm2.tangent((x, stats2), (dx, &dmodulation), dh);
        }
        let hidden = sized(&mut kept.hidden, 4 * n);
        let active = sized(wide, 4 * n);
        forward(&p[b.up.weight.clone()], width, h, hidden);
        gelu::forward(Form::Tanh, hidden, &p[b.up.bias.clone()], active);
        let out = sized(&mut kept.out, n);
        forward(&p[b.down.weight.clone()], 4 * width, active, out);
        let gate2 = gate(&s, mods, 1);
        gate2.forward(out, Some(&p[b.down.bias.clone()]), x);
        if m > 0 {
            let dwide = sized(dwide, 4 * m);
            forward(&p[b.up.weight.clone()], width, dh, dwide);
            gelu::chain(Form::Tanh, &hidden[..4 * m], dwide);
            forward(&p[b.down.weight.clone()], 4 * width, dwide, moved);
            gate2.tangent(&out[..m], (moved, &dmodulation), dx);
        }
    }

    /// Turns the gradient `gx` in the block's output into that in its input, and adds to `gc` that
    /// in the conditioning vector.
    pub fn backward(
        &mut self,
        c: &[T],
        kept: &Kept<T>,
        gx: &mut [T],
        gc: &mut Vec<T>,
        gradient: &mut Slots<T>,
    ) {
        let (s, p, b) = (self.sizes, self.parameters, self.block);
        let (n, width) = (s.state(), s.channels);
        let rows = n / width;
        let scratch = &mut *self.scratch;
        let [h, middle, gy, gh] = &mut scratch.narrow;
        let (h, middle) = (sized(h, n), sized(middle, n));
        let (gy, gh) = (sized(gy, n), sized(gh, n));
        let [active, gwide] = &mut scratch.wide;
        let (active, gwide) = (sized(active, 4 * n), sized(gwide, 4 * n));
        let mods = &kept.modulation[..];
        let mut gmods = vec![T::of(0.0); mods.len()];

        // The MLP.
        let gate2 = gate(&s, mods, 1);
        let gbias = gradient.at(&b.down.bias);
        gate2.backward(&kept.out, gx, gy, &mut gmods, Some(gbias));
        gelu::value(Form::Tanh, &kept.hidden, active);
        gradient.weight(&b.down.weight, 4 * width, active, gy);
        back_input(&p[b.down.weight.clone()], 4 * width, gy, gwide, false);
        gelu::chain(Form::Tanh, &kept.hidden, gwide);
        add_column_sums(gwide, gradient.at(&b.up.bias));
        middle.copy_from_slice(&kept.x);
        let gate1 = gate(&s, mods, 0);
        // The state between the branches, by the operations of the forward pass.
        gh.copy_from_slice(&kept.attended);
        gate1.forward(gh, None, middle);
        let norm2 = norm(&s, &p[b.norm2.clone()], mods, 1);
        let mut stats = vec![Stats::default(); rows];
        norm2.forward(middle, h, &mut stats);
        gradient.weight(&b.up.weight, width, h, gwide);
        back_input(&p[b.up.weight.clone()], width, gwide, gh, false);
        let gweight = gradient.at(&b.norm2);
        norm2.backward((middle, &stats), gh, gx, &mut gmods, gweight);

        // Attention.
        gate1.backward(&kept.attended, gx, gy, &mut gmods, None);
        rotary::merge(s.parts(), &kept.o, h);
        gradient.weight(&b.out, width, h, gy);
        back_input(&p[b.out.clone()], width, gy, gh, false);
        let go = &mut gy[..];
        rotary::divide(s.parts(), gh, go);
        let (gq, rest) = gwide.split_at_mut(n);
        let (gk, rest) = rest.split_at_mut(n);
        let [q, k, v] = &kept.qkv;
        attention::backward(
            s.shape(s.batch),
            [q, k, v],
            (&kept.o, &kept.lse),
            go,
            [gq, gk, &mut rest[..n]],
        );
        let three = sized(&mut scratch.three, 3 * n);
        let parts = [&*gq, &*gk, &rest[..n]];
        rotary::join(self.angles, (s.length, s.heads), parts, three);
        let norm1 = norm(&s, &p[b.norm1.clone()], mods, 0);
        norm1.forward(&kept.x, h, &mut stats);
        gradient.weight(&b.qkv, width, h, three);
        back_input(&p[b.qkv.clone()], width, three, gh, false);
        let gweight = gradient.at(&b.norm1);
        norm1.backward((&kept.x, &stats), gh, gx, &mut gmods, gweight);

        gradient.affine(p, &b.modulation, (s.conditioning, c), &gmods, Some(gc));
    }
}
