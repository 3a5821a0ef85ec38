//! Where generated pictures go.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use fewstep::{
    image::{self, Format},
    report::atomic,
};

use crate::Failure;

/// Files of pictures.
#[derive(ClapArgs)]
pub struct Files {
    /// Write pictures here: a sheet of all of them if it ends in .png, else a directory of one file each
    #[arg(long = "pictures", value_name = "PLACE")]
    pub place: Option<PathBuf>,
    /// Pictures in a row of a sheet
    #[arg(long, default_value_t = 8, requires = "place", value_parser = clap::value_parser!(u16).range(1..))]
    columns: u16,
    /// Width of a pixel in the file: 4 on a sheet, else 1, so that files can be measured as they are
    #[arg(long, requires = "place", value_parser = clap::value_parser!(u16).range(1..=64))]
    zoom: Option<u16>,
}

impl Files {
    /// Writes pictures `x`, if there is a place for them.
    pub fn write(&self, format: &Format, x: &[usize]) -> Result<(), Failure> {
        let Some(place) = &self.place else {
            return Ok(());
        };
        let failed = Failure::Failed;
        let put = |pictures: &[usize], (columns, zoom): (u16, u16), file: &Path| {
            let zoom = self.zoom.unwrap_or(zoom);
            let png = image::sheet(format, pictures, columns.into(), zoom.into());
            let png = png.map_err(|e| failed(e.to_string()))?;
            atomic(file, &png).map_err(|e| failed(e.to_string()))
        };
        if place.extension().is_some_and(|ending| ending == "png") {
            put(x, (self.columns, 4), place)?;
        } else {
            std::fs::create_dir_all(place)
                .map_err(|e| failed(format!("cannot write {}: {e}", place.display())))?;
            for (number, picture) in x.chunks_exact(format.length()).enumerate() {
                put(picture, (1, 1), &place.join(format!("{number:06}.png")))?;
            }
        }
        println!("{}", place.display());
        Ok(())
    }
}
