//! The DiT as a [`Network`]: rows to logits, and the way back.

use std::ops::Range;

use super::{
    Step,
    head::{Head, HeadGradient},
    linear::Slots,
    model::Dit,
    run::Pass,
};
use crate::{
    Adaptation, Batch, Column, Gradient, Learner, Logits, Network, Real, Rows, Soft, Soften, Want,
};

impl<T: Real> Dit<T> {
    /// Features of the rows, of their derivatives, and of the same rows of other evaluations.
    fn gather(&self, pass: &Pass<T>, rows: &Rows<Pass<T>>) -> Vec<Vec<T>> {
        let c = self.config.width;
        for pass in rows.others.iter().copied().chain([pass]) {
            let wanted = |row| {
                pass.rows
                    .as_ref()
                    .is_none_or(|r| r.binary_search(row).is_ok())
            };
            debug_assert!(rows.rows.iter().all(wanted), "rows that were not asked for");
        }
        let of = |features: &[T]| {
            let mut out = Vec::with_capacity(rows.rows.len() * c);
            for &row in rows.rows {
                out.extend_from_slice(&features[row * c..(row + 1) * c]);
            }
            out
        };
        let derivatives = if rows.tangent {
            of(&pass.tangents)
        } else {
            Vec::new()
        };
        let mut sets = vec![of(&pass.features), derivatives];
        sets.extend(rows.others.iter().map(|other| of(&other.features)));
        sets
    }

    /// The position of each row, where positions have their own biases.
    fn places(&self, pass: &Pass<T>, rows: &[usize]) -> Vec<usize> {
        match self.layout.frame {
            Some(_) => rows.iter().map(|row| row % pass.sizes.length).collect(),
            None => Vec::new(),
        }
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
            pass.back == Some(Adaptation::Full) || pass.back == Some(gradient.adaptation),
            "an evaluation that was kept for this way back"
        );
        if std::mem::replace(&mut pass.begun, true) {
            return;
        }
        pass.gfeatures.clear();
        pass.gfeatures.resize(pass.features.len(), T::of(0.0));
        if !gradient.accumulate {
            for tensor in &self.layout.tensors {
                let frame = self.layout.frame.as_ref();
                let added = tensor.shape.len() == 1
                    || tensor.range == self.layout.embedding
                    || Some(&tensor.range) == self.layout.positions.as_ref()
                    || frame.is_some_and(|frame| frame.adds(&tensor.range));
                if added && tensor.range.start >= range.start {
                    let at = tensor.range.start - range.start..tensor.range.end - range.start;
                    gradient.data[at].fill(T::of(0.0));
                }
            }
        }
    }

    /// Goes down from rows and takes the gradient in their features up.
    fn through_head<R>(
        &self,
        pass: &mut Pass<T>,
        rows: Rows<Pass<T>>,
        gradient: &mut Gradient<T>,
        go: impl FnOnce(Head<T>, &[Vec<T>], usize, HeadGradient<T>) -> Vec<R>,
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
            // A tied weight has been cleared for the embedding's part of its gradient.
            accumulate: gradient.accumulate || pass.descended || self.layout.frame.is_some(),
        };
        let places = self.places(pass, rows.rows);
        let answers = go(self.head(&places), &sets, c, into);
        pass.descended |= !rows.rows.is_empty();
        for (&row, g) in rows.rows.iter().zip(gchosen.chunks_exact(c)) {
            pass.gfeatures[row * c..(row + 1) * c].copy_from_slice(g);
        }
        answers
    }

    fn head<'a>(&'a self, places: &'a [usize]) -> Head<'a, T> {
        let frame = self.layout.frame.as_ref();
        Head {
            weight: &self.parameters[self.layout.head.weight.clone()],
            bias: &self.parameters[self.layout.head.bias.clone()],
            symbols: self.symbols(),
            stride: frame.map_or(0, |_| self.config.vocabulary),
            places,
            mask: self.config.mask,
            pool: &self.pool,
        }
    }
}

impl<T: Real> Network<T> for Dit<T> {
    type Pass = Pass<T>;

    fn symbols(&self) -> usize {
        let frame = self.layout.frame.as_ref();
        frame.map_or(self.config.vocabulary, |frame| frame.symbols)
    }

    fn evaluate(&self, batch: Batch, want: Want, pass: &mut Pass<T>) {
        self.run(batch, want, pass);
    }

    fn opposite(&self, batch: Batch, pass: &Pass<T>, to: &mut Pass<T>) {
        match &self.layout.join {
            Some(join) => self.oppose_towers(join, pass, to),
            None => self.evaluate(batch, Want::default(), to),
        }
    }

    fn visit<R: Send>(
        &self,
        pass: &Pass<T>,
        rows: Rows<Pass<T>>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
    ) -> Vec<R> {
        let sets = self.gather(pass, &rows);
        let places = self.places(pass, rows.rows);
        let head = self.head(&places);
        head.visit(&sets, self.config.width, consumer, None)
    }
}

impl<T: Real> Learner<T> for Dit<T> {
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
            (Adaptation::Head, Step::Correction { .. }, Some(step)) => match self.layout.frame {
                Some(_) => self.layout.sigma[0].weight.start,
                None => step[0].weight.start,
            },
            (Adaptation::Head, ..) => self.layout.len(),
        };
        first..self.layout.len()
    }

    fn descend<R: Send>(
        &self,
        pass: &mut Pass<T>,
        rows: Rows<Pass<T>>,
        consumer: impl Fn(usize, Logits<T>) -> R + Sync,
        gradient: &mut Gradient<T>,
    ) -> Vec<R> {
        self.through_head(pass, rows, gradient, |head, sets, c, into| {
            head.visit(sets, c, consumer, Some(into))
        })
    }

    fn descend_column<R: Send>(
        &self,
        pass: &mut Pass<T>,
        rows: Rows<Pass<T>>,
        symbols: &[usize],
        consumer: impl Fn(usize, Column) -> (R, f64) + Sync,
        gradient: &mut Gradient<T>,
    ) -> Vec<R> {
        self.through_head(pass, rows, gradient, |head, sets, c, into| {
            head.columns(sets, c, symbols, consumer, into)
        })
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
        match &self.layout.join {
            None => self.back_trunk(pass, &gfeatures, full, &mut slots),
            Some(join) => self.back_towers(join, pass, &gfeatures, &mut slots),
        }
        pass.gfeatures = gfeatures;
        (pass.begun, pass.descended) = (false, false);
    }
}

impl<T: Real> Soften<T> for Dit<T> {
    fn evaluate_soft(&self, batch: Batch, soft: Soft, want: Want, pass: &mut Pass<T>) {
        assert!(self.layout.join.is_none(), "towers read whole symbols");
        self.run_trunk((batch, Some(soft)), want, pass);
    }
}
