//! `fewstep fill`: what stands between, before and after given text, or in the gaps of a picture.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use fewstep::{
    data::{Tokenizer, gaps},
    sequence::{
        Model,
        sampler::{State, sample},
    },
};

use crate::{Failure, generation::Generation, pictures::Files};

/// Arguments of `fewstep fill`.
#[derive(ClapArgs)]
pub struct Args {
    /// Text with gaps: {20} stands for 20 tokens to be written, {{ for a brace
    #[arg(required_unless_present = "picture", conflicts_with = "picture")]
    template: Option<String>,
    /// A picture with gaps, for runs of pictures: PNG or JPEG in their size and colours
    #[arg(long, value_name = "FILE", requires_all = ["mask", "place"])]
    picture: Option<PathBuf>,
    /// A picture of the same size: black where pixels of --picture are kept, white where they are drawn
    #[arg(long, value_name = "FILE", requires = "picture")]
    mask: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
    /// Versions
    #[arg(long, short = 'n', default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    count: u32,
    #[command(flatten)]
    generation: Generation,
}

/// A piece of a template.
#[derive(Debug, PartialEq)]
enum Piece {
    Text(String),
    Gap(usize),
}

/// Prints the template with its gaps filled, or writes pictures.
pub fn run(args: &Args) -> Result<(), Failure> {
    let pieces = args.template.as_deref().map(pieces).transpose();
    let pieces = pieces.map_err(Failure::Usage)?;
    let model = args.generation.open()?;
    let pixels = args.given(&model, pieces)?;
    // A patch with a gap is drawn whole; its pixels that are known are put back.
    let given = match model.corpus.coder() {
        Some(coder) => coder.encode_known(&pixels),
        None => pixels.clone(),
    };
    let grid = args.generation.grid()?;
    let decoding = args.generation.decoding(&model);
    let seed = args.generation.seed;
    let numbers = (0, args.count as usize);
    let sizes = (given.len(), decoding.latent.carried);
    let state = State::carrying(&model.path, numbers, sizes, seed);
    let mut state = state.labelled(&model.labels);
    let length = state.length();
    for (at, token) in given.iter().enumerate() {
        if let Some(token) = token {
            for sequence in 0..args.count as usize {
                state.x[sequence * length + at] = *token;
                state.fixed[sequence * length + at] = true;
            }
        }
    }
    let (network, path) = (&model.denoiser, &model.path);
    let mut onlooker = args.generation.onlooker(&model, &grid)?;
    onlooker.see(0, &state);
    let seen = |number: usize, state: &State| onlooker.see(number + 1, state);
    let nfe = sample(network, path, &grid, &decoding, &mut state, seed, seen);
    onlooker.finish()?;
    let what = match model.corpus.format() {
        Some(format) => {
            let all: Vec<usize> = state.sequences().flatten().copied().collect();
            let mut all = model.corpus.pixels(&all);
            let known = pixels.iter().cycle();
            for (drawn, known) in all.iter_mut().zip(known) {
                *drawn = known.unwrap_or(*drawn);
            }
            args.files.write(&format, &all)?;
            "pixels drawn"
        }
        None => {
            for sequence in state.sequences() {
                println!("{}", model.corpus.show(sequence));
            }
            "tokens written"
        }
    };
    let unknown = pixels.iter().filter(|token| token.is_none()).count();
    eprintln!(
        "{unknown} of {} {what}, {nfe} network evaluations",
        pixels.len()
    );
    Ok(())
}

impl Args {
    /// What is known of a sequence: pixels of a picture, or tokens of a template.
    fn given(
        &self,
        model: &Model,
        pieces: Option<Vec<Piece>>,
    ) -> Result<Vec<Option<usize>>, Failure> {
        let refuse = |why: String| Err(Failure::Usage(why));
        match (model.corpus.format(), &self.picture, &self.mask, pieces) {
            (Some(format), Some(picture), Some(mask), _) => {
                gaps(&format, picture, mask).map_err(|e| Failure::Usage(e.to_string()))
            }
            (Some(_), ..) => {
                refuse("this run is of pictures; give --picture, --mask and --pictures".into())
            }
            (None, _, _, Some(pieces)) => {
                let Some(tokenizer) = model.corpus.tokenizer() else {
                    return refuse(
                        "this run is of the built-in language, which has no text; use a run on text"
                            .into(),
                    );
                };
                let given = tokens(tokenizer, &pieces)?;
                if given.len() > model.length {
                    return refuse(format!(
                        "the template has {} tokens, the model holds {}",
                        given.len(),
                        model.length
                    ));
                }
                Ok(given)
            }
            (None, ..) => refuse("this run is not of pictures; give a template".into()),
        }
    }
}

/// The tokens of a template; a gap's are unknown.
fn tokens(tokenizer: &Tokenizer, pieces: &[Piece]) -> Result<Vec<Option<usize>>, Failure> {
    let mut all = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => {
                let mut tokens = Vec::new();
                let encoded = tokenizer.encode(text, &mut tokens);
                encoded.map_err(|e| Failure::Usage(e.to_string()))?;
                all.extend(tokens.into_iter().map(|token| Some(token as usize)));
            }
            Piece::Gap(count) => all.extend(std::iter::repeat_n(None, *count)),
        }
    }
    Ok(all)
}

/// Divides a template at its gaps.
fn pieces(template: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('{') {
            text.push('{');
            rest = after;
            continue;
        }
        let (number, after) = rest
            .split_once('}')
            .ok_or("a gap is not closed; write {20} for 20 tokens, {{ for a brace")?;
        let count = number
            .trim()
            .parse::<usize>()
            .ok()
            .filter(|&n| (1..=1 << 20).contains(&n));
        let count = count.ok_or_else(|| {
            format!("'{{{number}}}' is no gap; write {{20}} for 20 tokens, {{{{ for a brace")
        })?;
        if !text.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut text)));
        }
        pieces.push(Piece::Gap(count));
        rest = after;
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    if !pieces.iter().any(|piece| matches!(piece, Piece::Gap(_))) {
        return Err("the template has no gap; write {20} for 20 tokens".into());
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates() {
        let text = |text: &str| Piece::Text(text.into());
        let all = pieces("It {2}was{3}").unwrap();
        assert_eq!(
            all,
            [text("It "), Piece::Gap(2), text("was"), Piece::Gap(3)]
        );
        assert_eq!(pieces("{{a}{1}").unwrap(), [text("{a}"), Piece::Gap(1)]);
        for wrong in ["", "no gap", "{", "{x}", "{0}", "{-1}", "a {3"] {
            assert!(pieces(wrong).is_err(), "{wrong}");
        }
    }
}
