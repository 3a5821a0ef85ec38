//! A picture with gaps, from two files: the picture, and which of its pixels are to be drawn.
//!
//! What is known is kept exactly, so nothing is rounded: a colour that the pictures of a run do not have
//! is refused, as is a mask that is neither black nor white.

use std::path::Path;

use image::RgbImage;

use super::{bad, decode::decode, read};
use crate::{data::Error, image::Format};

/// The symbol of each pixel, row by row, or none where `mask` is white and a pixel is to be drawn.
/// Both files may be magnified: each pixel a square of one colour.
pub fn gaps(format: &Format, picture: &Path, mask: &Path) -> Result<Vec<Option<usize>>, Error> {
    let known = plain(format, mask)?
        .into_iter()
        .enumerate()
        .map(|(at, colour)| match colour {
            Some([0, 0, 0]) => Ok(true),
            Some([255, 255, 255]) => Ok(false),
            _ => Err(bad(
                mask,
                format!(
                    "{} is neither black, for a pixel that is kept, nor white, for one that is drawn",
                    place(format, at)
                ),
            )),
        });
    let known = known.collect::<Result<Vec<bool>, Error>>()?;
    if known.iter().all(|known| *known) {
        return Err(bad(mask, "it is all black; make white what is to be drawn"));
    }
    let pixels = plain(format, picture)?.into_iter().zip(known).enumerate();
    let symbol = |(at, (colour, known)): (usize, (Option<[u8; 3]>, bool))| {
        if !known {
            return Ok(None);
        }
        let Some(colour) = colour else {
            return Err(bad(
                picture,
                format!(
                    "{} is a square of several colours; give it one",
                    place(format, at)
                ),
            ));
        };
        let symbol = format.symbol(colour);
        let near = format.colour(symbol);
        if near != colour {
            let [is, near] = [colour, near].map(|[r, g, b]| format!("#{r:02x}{g:02x}{b:02x}"));
            return Err(bad(
                picture,
                format!(
                    "{} is {is}, which no pixel of these pictures can be; the nearest is {near}",
                    place(format, at)
                ),
            ));
        }
        Ok(Some(symbol))
    };
    pixels.map(symbol).collect()
}

/// The colour of each pixel of a file; none where a magnified one has several.
fn plain(format: &Format, path: &Path) -> Result<Vec<Option<[u8; 3]>>, Error> {
    let pixels: RgbImage = decode(path, &read(path)?)?;
    let (w, h) = (format.width as u32, format.height as u32);
    let zoom = pixels.width() / w;
    if zoom == 0 || pixels.dimensions() != (w * zoom, h * zoom) {
        return Err(bad(
            path,
            format!(
                "{} x {} pixels; these pictures have {w} x {h}, or both sides a whole number of times that",
                pixels.width(),
                pixels.height()
            ),
        ));
    }
    let one = |at: u32| {
        let (top, left) = (at / w * zoom, at % w * zoom);
        let colour = pixels.get_pixel(left, top);
        let square = (0..zoom * zoom).map(|i| (left + i % zoom, top + i / zoom));
        let same = square
            .into_iter()
            .all(|(x, y)| pixels.get_pixel(x, y) == colour);
        same.then_some(colour.0)
    };
    Ok((0..w * h).map(one).collect())
}

fn place(format: &Format, at: usize) -> String {
    format!("row {}, column {}", at / format.width, at % format.width)
}
