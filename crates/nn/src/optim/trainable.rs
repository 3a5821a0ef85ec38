//! Which entries of the flat parameter vector are trained, and how they are shared out to threads.
//!
//! Adapting a head trains a few tensors of a large network. Moments and averages are then kept for
//! these alone, packed one range after the other; the frozen rest of the gradient is not even
//! read, so its memory need never be touched.

use std::ops::Range;

use crate::Error;

/// Entries per piece of work: small enough to share out evenly, large enough to be worth it.
const PIECE: usize = 1 << 14;

/// The trained ranges of a vector of `total` parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trainable {
    total: usize,
    /// Ascending, not empty, not touching.
    ranges: Vec<Range<usize>>,
}

impl Trainable {
    /// All of `total` parameters.
    pub fn all(total: usize) -> Self {
        let ranges = std::iter::once(0..total).filter(|all| !all.is_empty());
        Self {
            total,
            ranges: ranges.collect(),
        }
    }

    /// Some ranges of `total` parameters, in ascending order and apart from each other. Ranges
    /// that touch become one.
    pub fn new(total: usize, ranges: &[Range<usize>]) -> Result<Self, Error> {
        let mut merged: Vec<Range<usize>> = Vec::new();
        let mut position = 0;
        for range in ranges {
            if range.start < position || range.end < range.start || range.end > total {
                return Err(Error::Config(format!(
                    "the trainable range {}..{} is not inside {position}..{total}, what the \
                     ranges before it leave of the parameters",
                    range.start, range.end
                )));
            }
            position = range.end;
            match merged.last_mut() {
                _ if range.is_empty() => {}
                Some(last) if last.end == range.start => last.end = range.end,
                _ => merged.push(range.clone()),
            }
        }
        Ok(Self {
            total,
            ranges: merged,
        })
    }

    /// The length of the vector, frozen entries included.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The number of trained entries: the length of a packed vector.
    pub fn count(&self) -> usize {
        self.ranges.iter().map(Range::len).sum()
    }

    /// The ranges, ascending and apart.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// What is left without some ranges, each inside one of these, in ascending order and apart.
    pub fn without(&self, ranges: &[Range<usize>]) -> Result<Self, Error> {
        let mut left = Vec::new();
        let mut others = ranges.iter().filter(|range| !range.is_empty()).peekable();
        for range in &self.ranges {
            let mut start = range.start;
            while let Some(other) = others.next_if(|other| other.end <= range.end) {
                if other.start < start {
                    return Err(not_trained(other));
                }
                left.push(start..other.start);
                start = other.end;
            }
            left.push(start..range.end);
        }
        match others.next() {
            Some(other) => Err(not_trained(other)),
            None => Self::new(self.total, &left),
        }
    }

    /// The trained entries of a full vector, one range after the other.
    pub fn pack<T: Copy>(&self, full: &[T]) -> Vec<T> {
        assert_eq!(full.len(), self.total, "parameters");
        let mut packed = Vec::with_capacity(self.count());
        for range in &self.ranges {
            packed.extend_from_slice(&full[range.clone()]);
        }
        packed
    }

    /// Writes packed entries to their places in a full vector.
    pub fn unpack<T: Copy>(&self, mut packed: &[T], full: &mut [T]) {
        assert_eq!(packed.len(), self.count(), "trained parameters");
        assert_eq!(full.len(), self.total, "parameters");
        for range in &self.ranges {
            let (head, tail) = packed.split_at(range.len());
            full[range.clone()].copy_from_slice(head);
            packed = tail;
        }
    }

    /// The pieces of work in a full vector, in order.
    pub(super) fn pieces<'a, T>(&self, full: &'a [T]) -> Vec<&'a [T]> {
        assert_eq!(full.len(), self.total, "parameters");
        let ranges = self.ranges.iter();
        ranges
            .flat_map(|range| full[range.clone()].chunks(PIECE))
            .collect()
    }

    /// The same pieces, to be changed.
    pub(super) fn pieces_mut<'a, T>(&self, full: &'a mut [T]) -> Vec<&'a mut [T]> {
        assert_eq!(full.len(), self.total, "parameters");
        let (mut rest, mut position) = (full, 0);
        let mut pieces = Vec::new();
        for range in &self.ranges {
            let (head, tail) = rest.split_at_mut(range.end - position);
            pieces.extend(head[range.start - position..].chunks_mut(PIECE));
            (rest, position) = (tail, range.end);
        }
        pieces
    }

    /// The same pieces of a packed vector, to be changed.
    pub(super) fn packed_pieces_mut<'a, T>(&self, packed: &'a mut [T]) -> Vec<&'a mut [T]> {
        assert_eq!(packed.len(), self.count(), "trained parameters");
        let mut rest = packed;
        let mut pieces = Vec::new();
        for range in &self.ranges {
            let (head, tail) = rest.split_at_mut(range.len());
            pieces.extend(head.chunks_mut(PIECE));
            rest = tail;
        }
        pieces
    }
}

fn not_trained(range: &Range<usize>) -> Error {
    let Range { start, end } = range;
    Error::Config(format!(
        "the range {start}..{end} is not inside what is trained and not yet taken"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_ranges_become_one_and_wrong_ones_are_refused() {
        let some = Trainable::new(20, &[2..2, 3..5, 5..7, 9..20]).unwrap();
        assert_eq!(some.ranges(), [3..7, 9..20]);
        assert_eq!((some.total(), some.count()), (20, 15));
        let one = |range| Trainable::new(20, &[3..5, range]);
        assert!(one(4..6).is_err());
        assert!(one(19..21).is_err());
        #[allow(clippy::reversed_empty_ranges)]
        let reversed = one(8..7);
        assert_eq!(
            reversed.unwrap_err().to_string(),
            "the trainable range 8..7 is not inside 5..20, what the ranges before it leave of the \
             parameters"
        );
        assert_eq!(Trainable::all(0).count(), 0);
    }

    #[test]
    fn ranges_can_be_left_out() {
        let some = Trainable::new(20, &[3..7, 9..20]).unwrap();
        let without = |ranges: &[Range<usize>]| some.without(ranges).map(|left| left.ranges);
        assert_eq!(
            without(&[3..4, 5..7, 10..12]).unwrap(),
            [4..5, 9..10, 12..20]
        );
        assert_eq!(without(&[]).unwrap(), [3..7, 9..20]);
        for wrong in [2..4, 6..10, 19..21] {
            assert!(without(std::slice::from_ref(&wrong)).is_err(), "{wrong:?}");
        }
        assert!(without(&[10..12, 11..13]).is_err());
    }

    #[test]
    fn pieces_are_the_ranges_cut_at_the_same_places() {
        let total = 5 * PIECE;
        let some = Trainable::new(total, &[7..9, 100..100 + 2 * PIECE + 5]).unwrap();
        let mut full: Vec<usize> = (0..total).collect();
        let mut packed = some.pack(&full);
        let expected: Vec<Vec<usize>> = some.pieces(&full).iter().map(|p| p.to_vec()).collect();
        let lengths: Vec<usize> = expected.iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, PIECE, PIECE, 5]);
        assert_eq!(expected.concat(), packed);
        assert_eq!(some.pieces_mut(&mut full), expected);
        assert_eq!(some.packed_pieces_mut(&mut packed), expected);
        let mut other = vec![0; total];
        some.unpack(&packed, &mut other);
        assert_eq!(other[6..10], [0, 7, 8, 0]);
        assert_eq!(some.pack(&other), packed);
    }
}
