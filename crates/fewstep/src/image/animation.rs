//! A generation as an animated PNG, which browsers play and others show the first frame of.
//!
//! An APNG is a PNG in which every frame's pixels are there as a PNG would have them, under other names
//! and numbered: so frames are encoded as sheets and taken apart.

use image::ImageError;

use super::{Format, sheet};

/// The first bytes of every PNG.
const SIGNATURE: usize = 8;
/// Hundredths of a second that a step stays, and the last one.
const STAY: u16 = 15;
const STAY_LAST: u16 = 150;

/// An animation of `frames`, each pictures `[N, length]` as of a [`sheet`], all of the same number.
/// It begins with the last frame, which is all that some programs show.
pub fn animation(
    format: &Format,
    frames: &[Vec<usize>],
    columns: usize,
    zoom: usize,
) -> Result<Vec<u8>, ImageError> {
    let mut out = Vec::new();
    let (mut number, count) = (0u32, frames.len() as u32);
    let order = frames
        .last()
        .into_iter()
        .chain(frames.iter().rev().skip(1).rev());
    for (i, pictures) in order.enumerate() {
        let png = sheet(format, pictures, columns, zoom)?;
        let (mut size, mut controlled) = (Vec::new(), false);
        for (name, data) in chunks(&png) {
            match name {
                b"IHDR" => {
                    size.extend_from_slice(&data[..8]);
                    if i == 0 {
                        out.extend_from_slice(&png[..SIGNATURE]);
                        put(&mut out, name, &[data]);
                        // So many frames, again and again.
                        put(&mut out, b"acTL", &[&count.to_be_bytes(), &[0; 4]]);
                    }
                }
                b"IDAT" => {
                    if !controlled {
                        controlled = true;
                        let stay = if i == 0 { STAY_LAST } else { STAY };
                        let stay = [stay.to_be_bytes(), 100u16.to_be_bytes()].concat();
                        // At the upper left corner, for so long, in the place of what was there.
                        let about = [&number.to_be_bytes()[..], &size, &[0; 8], &stay, &[0, 0]];
                        put(&mut out, b"fcTL", &about);
                        number += 1;
                    }
                    if i == 0 {
                        put(&mut out, name, &[data]);
                    } else {
                        put(&mut out, b"fdAT", &[&number.to_be_bytes(), data]);
                        number += 1;
                    }
                }
                _ => {}
            }
        }
    }
    put(&mut out, b"IEND", &[]);
    Ok(out)
}

/// The chunks of a PNG.
fn chunks(png: &[u8]) -> impl Iterator<Item = (&[u8; 4], &[u8])> {
    let mut rest = png.get(SIGNATURE..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (name, after) = after.split_first_chunk::<4>()?;
        let (data, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        // Its checksum.
        rest = after.get(4..)?;
        Some((name, data))
    })
}

/// Writes a chunk of several pieces.
fn put(out: &mut Vec<u8>, name: &[u8; 4], pieces: &[&[u8]]) {
    let data = pieces.concat();
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    let start = out.len();
    out.extend_from_slice(name);
    out.extend_from_slice(&data);
    let sum = checksum(&out[start..]);
    out.extend_from_slice(&sum.to_be_bytes());
}

/// The CRC of ISO 3309, as PNG has it.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 }
        })
    })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use image::{AnimationDecoder, codecs::png::PngDecoder};

    use super::*;
    use crate::image::Figures;

    #[test]
    fn a_decoder_plays_the_frames() {
        let (format, figures) = (Format::FIGURES, Figures::default());
        let frames: Vec<Vec<usize>> = (0..3)
            .map(|n| [figures.picture(n), figures.picture(n + 50)].concat())
            .collect();
        let bytes = animation(&format, &frames, 2, 3).unwrap();
        let decoder = PngDecoder::new(Cursor::new(&bytes[..])).unwrap();
        assert!(decoder.is_apng().unwrap());
        let played = decoder
            .apng()
            .unwrap()
            .into_frames()
            .collect_frames()
            .unwrap();
        assert_eq!(played.len(), 3);
        for (frame, of) in played.iter().zip([2, 0, 1]) {
            let still = sheet(&format, &frames[of], 2, 3).unwrap();
            let still = image::load_from_memory(&still).unwrap().into_rgba8();
            assert_eq!(frame.buffer(), &still);
        }
        // What does not play animations shows the end of this one.
        let still = image::load_from_memory(&bytes).unwrap().into_rgb8();
        let end = image::load_from_memory(&sheet(&format, &frames[2], 2, 3).unwrap()).unwrap();
        assert_eq!(still, end.into_rgb8());
        assert_eq!(checksum(b"IEND"), 0xae42_6082);
    }
}
