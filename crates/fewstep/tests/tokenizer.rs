//! Pictures in codes: what a tokenizer sees of them, its training when stopped, its shards, and the way back
//! to pixels.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

mod common;

use std::{fs, path::Path};

use common::Until;
use fewstep::{
    data::{Dataset, PictureOptions, Split, prepare_codes, prepare_pictures},
    image::{COUNT, Coder, Figures, Format, PIXELS, Pixels, SHAPES, Tokenization, tokenize},
    lab::{Monitor, Silent},
    sequence::{Chain, Corpus, Data, Exact, Use},
};
use fewstep_nn::vq::Vq;
use image::{Rgb, RgbImage};

const COLOURS: Format = Format {
    width: 4,
    height: 2,
    pixels: Pixels::Colour(3),
};

fn coder(format: Format, patch: usize, codes: usize) -> Coder {
    let asked = Tokenization {
        codes,
        hidden: 8,
        embedding: 3,
        ..Tokenization::of(format)
    };
    let asked = Tokenization { patch, ..asked };
    let network = Vq::new(asked.sizes(format).unwrap(), 1).unwrap();
    Coder::new(format, patch, network).unwrap()
}

#[test]
fn pixels_are_digits_of_patches() {
    let coder = coder(COLOURS, 2, 4);
    assert_eq!((coder.cells().rows, coder.cells().columns), (1, 2));
    // Symbols count red slowest: 9 r + 3 g + b.
    let pixels = [0, 1, 2, 3, 9, 13, 26, 18];
    let digits = coder.digits(&pixels);
    let expected = [
        [0, 0, 0],
        [0, 0, 1],
        [1, 0, 0],
        [1, 1, 1],
        [0, 0, 2],
        [0, 1, 0],
        [2, 2, 2],
        [2, 0, 0],
    ];
    assert_eq!(digits, expected.concat());
    // A network of other patches is refused.
    assert!(Coder::new(COLOURS, 1, coder.network.clone()).is_err());
    assert!(Coder::new(COLOURS, 3, coder.network.clone()).is_err());
    // Where a mask is, no pixel is; elsewhere there are pixels.
    let shown = coder.decode(&[1, 4, 4, 0]);
    let masked = |at: &usize| *at == COLOURS.symbols();
    let right = |at: usize| at % 4 >= 2;
    for (at, pixel) in shown.iter().enumerate() {
        assert_eq!(masked(pixel), right(at) == (at < 8), "{at}");
    }
    // A patch with a gap has no code.
    let mut known: Vec<Option<usize>> = pixels.iter().copied().map(Some).collect();
    let codes = coder.encode(&pixels);
    known[6] = None;
    assert_eq!(coder.encode_known(&known), [Some(codes[0]), None]);
}

fn short() -> Tokenization {
    Tokenization {
        patch: 6,
        codes: 16,
        hidden: 16,
        embedding: 4,
        steps: 12,
        batch: 8,
        ..Tokenization::of(Format::FIGURES)
    }
}

#[test]
fn a_training_that_was_stopped_ends_with_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let [whole, parts] = ["whole", "parts"].map(|name| dir.path().join(name));
    let (data, asked) = (Data::Figures, short());
    let run = |dir: &Path, resume: bool, monitor: &dyn Monitor| {
        tokenize(dir, &data, (&asked, None), resume, monitor)
    };
    let found = run(&whole, false, &Silent).unwrap().unwrap();
    for looks in [5, 3] {
        let stopped = run(&parts, true, &Until::asked(looks));
        assert_eq!(stopped.unwrap(), None);
        assert!(!parts.join("reconstruction.json").exists());
    }
    let again = run(&parts, true, &Silent).unwrap().unwrap();
    for file in ["model.safetensors", "config.json", "state.safetensors"] {
        let [a, b] = [&whole, &parts].map(|dir| fs::read(dir.join(file)).unwrap());
        assert!(a == b, "{file}");
    }
    assert_eq!((found.nll, found.perplexity), (again.nll, again.perplexity));
    // Done is done; another one needs another place.
    assert_eq!(run(&whole, true, &Silent).unwrap(), Some(found));
    let error = |r: Result<_, fewstep::sequence::RunError>| r.unwrap_err().to_string();
    assert!(error(run(&whole, false, &Silent)).contains("--resume"));
    let other = Tokenization { seed: 1, ..short() };
    let other = tokenize(&whole, &data, (&other, None), true, &Silent);
    assert!(error(other).contains("another experiment"));
    // Codes are no pictures to make codes of.
    let codes = Data::Shards(whole.clone());
    let twice = tokenize(&parts.join("x"), &codes, (&short(), None), false, &Silent);
    assert!(error(twice).contains("pictures in pixels"));
    // Damaged, it is refused in one line.
    let file = whole.join("model.safetensors");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let said = Coder::open(&whole).unwrap_err().to_string();
    assert!(
        said.contains("whole") && said.lines().count() == 1,
        "{said}"
    );
    fs::write(&file, &bytes).unwrap();
    fs::write(whole.join("config.json"), "{\"model_type\": \"mdlm\"}").unwrap();
    let said = Coder::open(&whole).unwrap_err().to_string();
    assert!(said.contains("tokenizer of pictures"), "{said}");
}

/// With a codebook for every kind of patch, the built-in pictures come back, and their posterior in codes is
/// that of Bayes.
#[test]
fn the_built_in_pictures_in_codes() {
    let dir = tempfile::tempdir().unwrap();
    let asked = Tokenization {
        codes: 64,
        hidden: 128,
        embedding: 16,
        steps: 1200,
        batch: 32,
        rate: 4e-3,
        ..short()
    };
    let found = tokenize(dir.path(), &Data::Figures, (&asked, None), false, &Silent);
    let found = found.unwrap().unwrap();
    assert!(found.pictures > 0.9, "{found:?}");
    assert!(found.used > 20 && found.perplexity > 4.0, "{found:?}");
    let corpus = Corpus::open(&Data::Shards(dir.path().into())).unwrap();
    assert_eq!((corpus.length(), corpus.symbols()), (Some(4), 64));
    assert_eq!(corpus.format(), Some(Format::FIGURES));
    let Corpus::Figures(figures, Some(coder)) = &corpus else {
        panic!("no figures");
    };
    let plain = Figures::default();
    let mut right = 0;
    for number in 0..COUNT {
        let codes = coder.encode(plain.picture(number));
        assert_eq!(figures.sequence(number), codes);
        right += usize::from(corpus.pixels(&codes) == plain.picture(number));
    }
    assert!(right * 10 > COUNT * 9, "{right}");
    // Training sequences are codes of pictures of the class behind them.
    let x = corpus.sequences(Use::Validation, 40, 4).unwrap();
    for row in x.chunks_exact(5) {
        let class = row[4] - 64 - 1;
        let mine = |n: usize| figures.sequence(n) == &row[..4];
        assert!(Figures::of_class(class).any(mine));
    }
    assert!(corpus.sequences(Use::Validation, 1, PIXELS).is_err());
    let path = Chain::Masked.path(64).unwrap();
    let (class, number) = (2, Figures::of_class(2).start + 7);
    let mut state = vec![64; 4];
    state.push(corpus.label(class));
    state[1] = figures.sequence(number)[1];
    let mut p = vec![0.0; 5 * 64];
    figures.denoise(&path, path.schedule().level(0.4), &state, &mut p);
    let of = |holds: &dyn Fn(&[usize]) -> bool| -> f64 {
        let all = Figures::of_class(class).filter(|&n| holds(figures.sequence(n)));
        all.map(|n| figures.law()[n] * SHAPES.len() as f64).sum()
    };
    let seen = of(&|s| s[1] == state[1]);
    for code in 0..64 {
        let expected = of(&|s| s[1] == state[1] && s[3] == code) / seen;
        assert!((p[3 * 64 + code] - expected).abs() < 1e-12);
    }
}

#[test]
fn shards_of_codes() {
    let dir = tempfile::tempdir().unwrap();
    let [input, pixels, codes, again] = ["in", "px", "vq", "vq2"].map(|n| dir.path().join(n));
    for class in ["day", "night"] {
        fs::create_dir_all(input.join(class)).unwrap();
        for i in 0..6u32 {
            let shade = |x: u32, y: u32| (x * 90 + y * 60 + i * 40 + class.len() as u32 * 9) as u8;
            let picture = RgbImage::from_fn(4, 2, |x, y| Rgb([shade(x, y), shade(y, x), 128]));
            picture
                .save(input.join(format!("{class}/{i}.png")))
                .unwrap();
        }
    }
    let options = PictureOptions {
        input,
        out: pixels.clone(),
        format: COLOURS,
        flip: false,
        validation: 0.5,
        seed: 0,
        overwrite: false,
    };
    prepare_pictures(&options).unwrap();
    let asked = Tokenization {
        patch: 2,
        steps: 5,
        ..short()
    };
    let data = Data::Shards(pixels.clone());
    tokenize(&codes, &data, (&asked, None), false, &Silent).unwrap();
    // The same tokenizer as it is.
    tokenize(&again, &data, (&asked, Some(&codes)), false, &Silent).unwrap();
    let [from, to, copy] = [&pixels, &codes, &again].map(|dir| Dataset::open(dir).unwrap());
    let coder = to.coder().unwrap();
    for split in [Split::Train, Split::Validation] {
        let count = from.blocks(split, 9).unwrap();
        assert!(count > 0);
        assert_eq!(to.blocks(split, 3).unwrap(), count);
        for i in 0..count {
            let (mut whole, mut coded, mut same) = ([0; 9], [0; 3], [0; 3]);
            from.block(split, 9, i, &mut whole).unwrap();
            to.block(split, 3, i, &mut coded).unwrap();
            copy.block(split, 3, i, &mut same).unwrap();
            assert_eq!(coded[..2], coder.encode(&whole[..8]));
            assert_eq!(coded[2] - 16, whole[8] - COLOURS.symbols());
            assert_eq!(same, coded);
        }
    }
    let corpus = Corpus::open(&Data::Shards(codes.clone())).unwrap();
    assert_eq!((corpus.length(), corpus.symbols()), (Some(2), 16));
    assert_eq!(corpus.classes(), ["day", "night"]);
    assert_eq!(corpus.pixels(&[1, 2]).len(), 8);
    // Another format, another tokenizer beside the codes, none.
    let figures = dir.path().join("figures");
    tokenize(&figures, &Data::Figures, (&short(), None), false, &Silent).unwrap();
    let of_figures = Coder::open(&figures).unwrap();
    let refused = prepare_codes(&from, &of_figures, &again, |_| {}).unwrap_err();
    assert!(refused.to_string().contains("12 x 12"), "{refused}");
    assert!(
        Dataset::open(&again).is_ok(),
        "what was there is left alone"
    );
    for name in ["model.safetensors", "config.json"] {
        fs::copy(figures.join(name), codes.join(name)).unwrap();
    }
    let said = Dataset::open(&codes).unwrap_err().to_string();
    assert!(said.contains("another tokenizer"), "{said}");
    fs::remove_file(codes.join("model.safetensors")).unwrap();
    let said = Dataset::open(&codes).unwrap_err().to_string();
    assert!(said.lines().count() == 1 && said.contains("vq"), "{said}");
}
