//! Prepared pictures again, in the codes of a tokenizer: the same shards, shorter sequences.

use std::{fs, path::Path};

use crate::{
    data::{
        Dataset, Description, Error, Manifest, Packing, Part, Pictures, Settings, Split, Tokenizer,
        manifest,
        prepare::{lock, remove, write_json},
        shard::{Writer, Written, remove_shards},
    },
    image::Coder,
};

/// Pictures that are encoded together.
const TOGETHER: usize = 256;

/// Writes the codes of prepared pictures to the directory `out`, in the place of what is there.
/// `done(pictures)` is called on the way.
pub fn prepare_codes(
    dataset: &Dataset,
    coder: &Coder,
    out: &Path,
    mut done: impl FnMut(u64),
) -> Result<Manifest, Error> {
    let from = dataset.manifest();
    let pictures = match dataset.tokenizer() {
        Tokenizer::Pictures(pictures) if pictures.codes.is_none() => pictures,
        _ => {
            return Err(Error::Option(
                "the data are no pictures in pixels; prepare them with `fewstep data --pixels`"
                    .into(),
            ));
        }
    };
    if pictures.format != coder.format() {
        let [of, is] = [coder.format(), pictures.format].map(|f| {
            format!(
                "{} x {} pixels of {} symbols",
                f.width,
                f.height,
                f.symbols()
            )
        });
        return Err(Error::Option(format!(
            "the tokenizer is for pictures of {of}, the data are {is}; train one on them"
        )));
    }
    let pictures = Pictures {
        codes: Some(coder.codes()),
        ..pictures.clone()
    };
    let length = coder.cells().count() + 1;
    let settings = Settings {
        tokenizer: "codes".into(),
        packing: Packing::Whole { length },
        ..from.settings.clone()
    };
    fs::create_dir_all(out).map_err(Error::write(out))?;
    let _lock = lock(out)?;
    remove(&out.join(manifest::FILE))?;
    remove_shards(out, &[])?;
    let mut finished = 0;
    let mut part = |split: Split| {
        let mut writer = Writer::open(out, split, (2, settings.shard_tokens), Written::default())?;
        let (symbols, one) = (coder.format().symbols(), coder.format().length() + 1);
        let count = dataset.blocks(split, one)?;
        let mut block = vec![0; one];
        for first in (0..count).step_by(TOGETHER) {
            let (mut pixels, mut classes) = (Vec::new(), Vec::new());
            for i in first..count.min(first + TOGETHER) {
                dataset.block(split, one, i, &mut block)?;
                let class = block[one - 1].saturating_sub(symbols);
                if block[..one - 1].iter().any(|&s| s >= symbols) {
                    return Err(Error::Option(format!(
                        "picture {i} has a pixel that is a class"
                    )));
                }
                pixels.extend_from_slice(&block[..one - 1]);
                classes.push(class + coder.codes());
            }
            let codes = coder.encode(&pixels);
            let rows = codes.chunks_exact(length - 1).zip(&classes);
            let rows = rows.flat_map(|(codes, class)| codes.iter().chain([class]));
            writer.push(&rows.map(|&symbol| symbol as u32).collect::<Vec<u32>>())?;
            finished += classes.len() as u64;
            done(finished);
        }
        let tokens = (count * length) as u64;
        Ok::<_, Error>(Part {
            documents: count as u64,
            tokens,
            text_bytes: tokens,
            shards: writer.finish()?,
        })
    };
    let (train, validation) = (part(Split::Train)?, part(Split::Validation)?);
    let (format, version) = Manifest::format();
    let manifest = Manifest {
        format,
        version,
        vocabulary: pictures.symbols() + pictures.classes.len(),
        tokenizer: Description::Pictures(pictures),
        eos: None,
        symbol_bytes: 2,
        split: from.split.clone(),
        sources: from.sources.clone(),
        settings,
        train,
        validation,
    };
    write_json(&out.join(manifest::FILE), &manifest)?;
    Ok(manifest)
}
