//! One PNG or JPEG file.
//!
//! The header is believed in nothing: sizes are bounded before anything is allocated for them. What would
//! have to be guessed, as what lies behind a transparent pixel or which frame is meant, is refused.

use std::{io::Cursor, path::Path};

use image::{
    ColorType, DynamicImage, ExtendedColorType, ImageDecoder, ImageFormat, ImageResult, Limits,
    RgbImage,
    codecs::{jpeg::JpegDecoder, png::PngDecoder},
};

use super::{SIDE, bad};
use crate::data::Error;

/// Memory that decoding may take.
const MEMORY: u64 = 1 << 30;

/// The pixels of a file's bytes.
pub fn decode(path: &Path, bytes: &[u8]) -> Result<RgbImage, Error> {
    let fault =
        |e: image::ImageError| bad(path, format!("it cannot be decoded ({e}); leave it out"));
    let mut limits = Limits::default();
    limits.max_image_width = Some(SIDE);
    limits.max_image_height = Some(SIDE);
    limits.max_alloc = Some(MEMORY);
    match image::guess_format(bytes) {
        Ok(ImageFormat::Png) => {
            let decoder =
                PngDecoder::with_limits(Cursor::new(bytes), limits.clone()).map_err(fault)?;
            if decoder.is_apng().map_err(fault)? {
                return Err(bad(
                    path,
                    "an animated picture; save the frame that is meant",
                ));
            }
            pixels(path, decoder, limits)
        }
        Ok(ImageFormat::Jpeg) => {
            let decoder = JpegDecoder::new(Cursor::new(bytes)).map_err(fault)?;
            pixels(path, decoder, limits)
        }
        _ => Err(bad(
            path,
            "neither PNG nor JPEG; convert it or leave it out",
        )),
    }
}

fn pixels(path: &Path, mut decoder: impl ImageDecoder, limits: Limits) -> Result<RgbImage, Error> {
    let (w, h) = decoder.dimensions();
    if w == 0 || h == 0 || w > SIDE || h > SIDE {
        return Err(bad(
            path,
            format!("{w} x {h} pixels; 1 to {SIDE} a side are taken"),
        ));
    }
    match (decoder.color_type(), decoder.original_color_type()) {
        (_, ExtendedColorType::Cmyk8) => {
            return Err(bad(path, "four colours for print; convert it to RGB"));
        }
        (ColorType::L8 | ColorType::Rgb8, _) => {}
        (ColorType::La8 | ColorType::Rgba8 | ColorType::La16 | ColorType::Rgba16, _) => {
            return Err(bad(path, "it is transparent; put it on a background"));
        }
        (other, _) => {
            return Err(bad(
                path,
                format!("pixels of {other:?}; convert it to 8 bits a channel"),
            ));
        }
    }
    let decoded = || -> ImageResult<RgbImage> {
        decoder.set_limits(limits)?;
        Ok(DynamicImage::from_decoder(decoder)?.into_rgb8())
    };
    decoded().map_err(|e| bad(path, format!("it cannot be decoded ({e}); leave it out")))
}
