//! Pictures as PNG files: one, or many side by side.

use std::io::Cursor;

use image::{ImageError, ImageFormat, Rgb, RgbImage};

use super::Format;

/// Pixels between two pictures of a sheet.
const GAP: u32 = 2;

/// A PNG of pictures `[N, length]` in reading order, `columns` a row, each pixel `zoom` wide.
pub fn sheet(
    format: &Format,
    pictures: &[usize],
    columns: usize,
    zoom: usize,
) -> Result<Vec<u8>, ImageError> {
    let count = pictures.len() / format.length();
    let columns = columns.clamp(1, count.max(1));
    let rows = count.div_ceil(columns);
    let [width, height, zoom, across, down] =
        [format.width, format.height, zoom.max(1), columns, rows].map(|n| n as u32);
    let (w, h) = (width * zoom, height * zoom);
    let size = |each: u32, n: u32| (n * (each + GAP)).saturating_sub(GAP).max(1);
    let mut out = RgbImage::from_pixel(size(w, across), size(h, down), Rgb([255; 3]));
    for (number, picture) in pictures.chunks_exact(format.length()).enumerate() {
        let (row, column) = ((number / columns) as u32, (number % columns) as u32);
        let (top, left) = (row * (h + GAP), column * (w + GAP));
        for y in 0..h {
            for x in 0..w {
                let at = (y / zoom * width + x / zoom) as usize;
                out.put_pixel(left + x, top + y, Rgb(format.colour(picture[at])));
            }
        }
    }
    let mut bytes = Cursor::new(Vec::new());
    out.write_to(&mut bytes, ImageFormat::Png)?;
    Ok(bytes.into_inner())
}

/// Bytes as base64, for pictures that stand in a page.
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let all = (0..3).fold(0u32, |all, i| {
            all << 8 | u32::from(three.get(i).copied().unwrap_or(0))
        });
        for i in 0..4 {
            let digit = DIGITS[(all >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= three.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Figures;

    #[test]
    fn a_sheet_shows_its_pictures() {
        let figures = Figures::default();
        let pictures: Vec<usize> = (0..5)
            .flat_map(|n| figures.picture(n * 40))
            .copied()
            .collect();
        let bytes = sheet(&Format::FIGURES, &pictures, 3, 2).unwrap();
        let read = image::load_from_memory(&bytes).unwrap().into_rgb8();
        assert_eq!(read.dimensions(), (3 * 26 - 2, 2 * 26 - 2));
        for number in 0..5u32 {
            let (left, top) = (number % 3 * 26, number / 3 * 26);
            let seen: Vec<usize> = (0..144)
                .map(|at| read.get_pixel(left + at % 12 * 2 + 1, top + at / 12 * 2).0)
                .map(|colour| Format::FIGURES.symbol(colour))
                .collect();
            assert_eq!(figures.read(&seen), Some(number as usize * 40));
        }
        assert!(sheet(&Format::FIGURES, &[], 3, 2).is_ok());
    }

    #[test]
    fn base64_is_that_of_the_standard() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in cases {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
