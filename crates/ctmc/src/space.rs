//! The states of `S'^D` as numbers `0..N`, first coordinate most significant.

use crate::Error;

/// All sequences of `coords` coordinates over `symbols` symbols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    symbols: usize,
    strides: Vec<usize>,
    len: usize,
}

impl Space {
    /// Most states of a table `[N, D, S]`: a few hundred megabytes.
    pub const MAX_STATES: usize = 1 << 20;

    /// The space of `symbols^coords` states, if it can be enumerated.
    pub fn new(symbols: usize, coords: usize) -> Result<Self, Error> {
        if symbols < 2 {
            return Err(Error::range("the number of symbols", symbols, "at least 2"));
        }
        if coords < 1 {
            return Err(Error::range(
                "the number of coordinates",
                coords,
                "at least 1",
            ));
        }
        let len = u32::try_from(coords)
            .ok()
            .and_then(|d| symbols.checked_pow(d))
            .filter(|&n| n <= Self::MAX_STATES)
            .ok_or(Error::TooManyStates {
                symbols,
                coords,
                limit: Self::MAX_STATES,
            })?;
        let mut strides = vec![1; coords];
        for d in (1..coords).rev() {
            strides[d - 1] = strides[d] * symbols;
        }
        Ok(Self {
            symbols,
            strides,
            len,
        })
    }

    /// Number of states `N`.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Symbols per coordinate.
    pub fn symbols(&self) -> usize {
        self.symbols
    }

    /// Coordinates `D`.
    pub fn coords(&self) -> usize {
        self.strides.len()
    }

    /// `x^d`.
    pub fn symbol(&self, state: usize, d: usize) -> usize {
        state / self.strides[d] % self.symbols
    }

    /// `x^{d -> s}`: the state with its `d`-th coordinate replaced.
    pub fn with(&self, state: usize, d: usize, s: usize) -> usize {
        state - self.symbol(state, d) * self.strides[d] + s * self.strides[d]
    }

    /// The distance in numbers between states that differ by one in coordinate `d`.
    pub fn stride(&self, d: usize) -> usize {
        self.strides[d]
    }

    /// The symbols of a state, in order.
    pub fn decode(&self, state: usize) -> Vec<usize> {
        (0..self.coords()).map(|d| self.symbol(state, d)).collect()
    }

    /// The state with these symbols.
    pub fn encode(&self, symbols: &[usize]) -> usize {
        symbols.iter().zip(&self.strides).map(|(s, k)| s * k).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_symbols_correspond() {
        let space = Space::new(3, 4).unwrap();
        assert_eq!(space.len(), 81);
        for x in 0..space.len() {
            let symbols = space.decode(x);
            assert_eq!(space.encode(&symbols), x);
            for d in 0..4 {
                for s in 0..3 {
                    let mut changed = symbols.clone();
                    changed[d] = s;
                    assert_eq!(space.with(x, d, s), space.encode(&changed));
                }
            }
        }
        assert_eq!(space.decode(1), [0, 0, 0, 1]);
    }

    #[test]
    fn what_cannot_be_enumerated_is_refused() {
        for (symbols, coords) in [(4, 40), (1 << 20, 2), (2, 21), (50258, 1024)] {
            assert!(matches!(
                Space::new(symbols, coords),
                Err(Error::TooManyStates { .. })
            ));
        }
        assert!(Space::new(1, 3).is_err());
        assert!(Space::new(3, 0).is_err());
        assert_eq!(Space::new(2, 20).unwrap().len(), Space::MAX_STATES);
    }
}
