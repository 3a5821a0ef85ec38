//! What the symbols of a picture look like.

use serde::{Deserialize, Serialize};

/// The colours of the built-in pictures, the background first.
const FIGURES: [[u8; 3]; super::SYMBOLS] =
    [[24, 26, 34], [232, 93, 76], [86, 180, 150], [242, 196, 77]];

/// What a symbol stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pixels {
    /// A colour of the built-in pictures.
    Figures,
    /// One of so many levels of grey, black first.
    Grey(usize),
    /// Red, green and blue, each one of so many levels, red counting slowest.
    Colour(usize),
}

/// The size of pictures and what their symbols are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    /// Pixels of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// What a symbol stands for.
    pub pixels: Pixels,
}

impl Format {
    /// Of the built-in pictures.
    pub const FIGURES: Self = Self {
        width: super::SIDE,
        height: super::SIDE,
        pixels: Pixels::Figures,
    };

    /// Symbols.
    pub fn symbols(&self) -> usize {
        match self.pixels {
            Pixels::Figures => FIGURES.len(),
            Pixels::Grey(levels) => levels,
            Pixels::Colour(levels) => levels.pow(3),
        }
    }

    /// A symbol in digits: how many, and the values of each. A colour is its three channels.
    pub fn digits(&self) -> (usize, usize) {
        match self.pixels {
            Pixels::Figures => (1, FIGURES.len()),
            Pixels::Grey(levels) => (1, levels),
            Pixels::Colour(levels) => (3, levels),
        }
    }

    /// Pixels of a picture: the length of its sequence.
    pub fn length(&self) -> usize {
        self.width * self.height
    }

    /// What is wrong with it, if anything is.
    pub fn fault(&self) -> Option<String> {
        let (most, levels) = match self.pixels {
            Pixels::Figures => return None,
            Pixels::Grey(levels) => (256, levels),
            // 4096 colours.
            Pixels::Colour(levels) => (16, levels),
        };
        if !(2..=most).contains(&levels) {
            return Some(format!("{levels} levels; use 2 to {most}"));
        }
        let side = 1..=1024;
        (!side.contains(&self.width) || !side.contains(&self.height)).then(|| {
            format!(
                "pictures of {} x {} pixels; use 1 to 1024 a side",
                self.width, self.height
            )
        })
    }

    /// The colour of a symbol; what is none is grey, as a mask.
    pub fn colour(&self, symbol: usize) -> [u8; 3] {
        let shade = |level: usize, levels: usize| (level * 255 / (levels - 1)) as u8;
        match self.pixels {
            _ if symbol >= self.symbols() => [128; 3],
            Pixels::Figures => FIGURES[symbol],
            Pixels::Grey(levels) => [shade(symbol, levels); 3],
            Pixels::Colour(n) => {
                [symbol / (n * n), symbol / n % n, symbol % n].map(|l| shade(l, n))
            }
        }
    }

    /// The symbol nearest to a colour; its grey is that of BT.601, as elsewhere.
    pub fn symbol(&self, [r, g, b]: [u8; 3]) -> usize {
        let level =
            |value: f64, levels: usize| (value / 255.0 * (levels - 1) as f64).round() as usize;
        match self.pixels {
            Pixels::Figures => {
                let apart = |colour: &[u8; 3]| -> u32 {
                    let pairs = colour.iter().zip([r, g, b]);
                    pairs.map(|(&a, b)| u32::from(a.abs_diff(b)).pow(2)).sum()
                };
                let nearest = FIGURES.iter().enumerate().min_by_key(|(_, c)| apart(c));
                nearest.map_or(0, |(symbol, _)| symbol)
            }
            Pixels::Grey(levels) => {
                let [r, g, b] = [r, g, b].map(f64::from);
                level(0.299 * r + 0.587 * g + 0.114 * b, levels)
            }
            Pixels::Colour(n) => {
                let [r, g, b] = [r, g, b].map(|value| level(f64::from(value), n));
                (r * n + g) * n + b
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_their_own_colours_symbols() {
        let kinds = [
            Pixels::Figures,
            Pixels::Grey(2),
            Pixels::Grey(256),
            Pixels::Colour(5),
        ];
        for pixels in kinds {
            let format = Format {
                pixels,
                ..Format::FIGURES
            };
            assert_eq!(format.fault(), None);
            for symbol in 0..format.symbols() {
                assert_eq!(format.symbol(format.colour(symbol)), symbol, "{pixels:?}");
            }
        }
        let grey = |levels| Format {
            width: 28,
            height: 28,
            pixels: Pixels::Grey(levels),
        };
        assert_eq!(grey(4).symbol([255, 255, 255]), 3);
        assert_eq!(grey(4).symbol([100, 100, 100]), 1);
        assert!(grey(1).fault().is_some() && grey(257).fault().is_some());
        let flat = Format {
            width: 0,
            ..grey(4)
        };
        assert!(flat.fault().is_some());
    }
}
