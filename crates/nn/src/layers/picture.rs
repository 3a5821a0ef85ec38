//! Pictures as the convolutional layers see them, and the windows that slide over them.
//!
//! Channels come last: a picture is `[H, W, C]`, several are `[B, H, W, C]`. The numbers of a pixel
//! then lie side by side, a line of a window is one run of memory, and a convolution is a matrix
//! product whose rows are pixels, as everywhere else in this crate.

/// `B` pictures of `H x W` pixels with `C` channels each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pictures {
    /// `B`.
    pub count: usize,
    /// `H`.
    pub height: usize,
    /// `W`.
    pub width: usize,
    /// `C`.
    pub channels: usize,
}

impl Pictures {
    /// The same pictures with other channels.
    pub fn with(self, channels: usize) -> Self {
        Self { channels, ..self }
    }

    /// Pixels of all pictures.
    pub fn pixels(&self) -> usize {
        self.count * self.height * self.width
    }

    /// Numbers of one picture.
    pub fn one(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// Numbers of all pictures.
    pub fn size(&self) -> usize {
        self.count * self.one()
    }
}

/// A window of `size` pixels that moves by `stride` over pictures with a border of `before` lines
/// and columns in front and `after` behind them. Sizes are `[vertical, horizontal]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Lines and columns of the window.
    pub size: [usize; 2],
    /// How far it moves, both ways.
    pub stride: usize,
    /// Border above and on the left.
    pub before: [usize; 2],
    /// Border below and on the right.
    pub after: [usize; 2],
}

impl Window {
    /// A window that moves by one pixel and, with an odd size, leaves the size of pictures as it is.
    pub const fn same(height: usize, width: usize) -> Self {
        let border = [height / 2, width / 2];
        Self {
            size: [height, width],
            stride: 1,
            before: border,
            after: border,
        }
    }

    /// A window that never leaves the picture.
    pub const fn inside(side: usize, stride: usize) -> Self {
        Self {
            size: [side, side],
            stride,
            before: [0, 0],
            after: [0, 0],
        }
    }

    /// What comes out where one number is made of every place of the window, for `channels`.
    pub fn out(&self, pictures: Pictures, channels: usize) -> Pictures {
        let along = |n: usize, axis: usize| {
            let all = n + self.before[axis] + self.after[axis];
            (all.saturating_sub(self.size[axis])
                + usize::from(all >= self.size[axis]) * self.stride)
                / self.stride
        };
        Pictures {
            count: pictures.count,
            height: along(pictures.height, 0),
            width: along(pictures.width, 1),
            channels,
        }
    }

    /// Pixels of the window.
    pub fn area(&self) -> usize {
        self.size[0] * self.size[1]
    }

    /// The places along an axis of `n` that the window sees at position `at`: the first, how many,
    /// and how many of the window lie before it, outside.
    pub(super) fn seen(&self, axis: usize, n: usize, at: usize) -> (usize, usize, usize) {
        let start = at * self.stride;
        let outside = self.before[axis].saturating_sub(start).min(self.size[axis]);
        let first = (start + outside).saturating_sub(self.before[axis]).min(n);
        (first, (self.size[axis] - outside).min(n - first), outside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_see_what_lies_inside() {
        let pictures = Pictures {
            count: 2,
            height: 5,
            width: 4,
            channels: 3,
        };
        assert_eq!(Window::same(3, 3).out(pictures, 7), pictures.with(7));
        assert_eq!(Window::same(1, 7).out(pictures, 3), pictures);
        let halves = Window::inside(3, 2).out(pictures, 1);
        assert_eq!((halves.height, halves.width), (2, 1));
        assert_eq!(Window::inside(6, 1).out(pictures, 1).size(), 0);
        // Along five places with a border of one: outside, the middle, outside behind.
        let same = Window::same(3, 3);
        assert_eq!(same.seen(0, 5, 0), (0, 2, 1));
        assert_eq!(same.seen(0, 5, 2), (1, 3, 0));
        assert_eq!(same.seen(0, 5, 4), (3, 2, 0));
        // A border as wide as the window.
        assert_eq!(Window::same(5, 5).seen(0, 1, 0), (0, 1, 2));
    }
}
