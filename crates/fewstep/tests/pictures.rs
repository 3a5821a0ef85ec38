//! Pictures from files: what comes out of every kind, and what is refused.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::{fs, io::Cursor, path::Path};

use fewstep::{
    data::{Dataset, PictureOptions, Split, Tokenizer, prepare_pictures},
    image::{Format, Pixels},
    sequence::{Corpus, Data, Use},
};
use image::{DynamicImage, GrayImage, ImageFormat, Luma, Rgb, RgbImage, Rgba, RgbaImage};
use tempfile::TempDir;

const GREY: Format = Format {
    width: 2,
    height: 2,
    pixels: Pixels::Grey(4),
};

fn options(input: &Path, out: &Path, format: Format) -> PictureOptions {
    PictureOptions {
        input: input.to_owned(),
        out: out.to_owned(),
        format,
        flip: false,
        validation: 0.5,
        seed: 0,
        overwrite: false,
    }
}

/// Everything in a split, block by block.
fn blocks(out: &Path, split: Split, length: usize) -> Vec<Vec<usize>> {
    let data = Dataset::open(out).unwrap();
    (0..data.blocks(split, length).unwrap())
        .map(|i| {
            let mut block = vec![0; length];
            data.block(split, length, i, &mut block).unwrap();
            block
        })
        .collect()
}

fn idx(sizes: &[u32], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, sizes.len() as u8];
    bytes.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
    bytes.extend(data);
    bytes
}

fn mnist(dir: &Path) {
    let put = |name: &str, bytes: Vec<u8>| fs::write(dir.join(name), bytes).unwrap();
    put(
        "train-images-idx3-ubyte",
        idx(&[2, 2, 2], &[0, 255, 85, 170, 255, 0, 0, 0]),
    );
    put("train-labels-idx1-ubyte", idx(&[2], &[2, 0]));
    put("t10k-images-idx3-ubyte", idx(&[1, 2, 2], &[170; 4]));
    put("t10k-labels-idx1-ubyte", idx(&[1], &[1]));
}

#[test]
fn idx_files_are_their_pixels_and_labels() {
    let (dir, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    mnist(dir.path());
    let asked = options(dir.path(), out.path(), GREY);
    let prepared = prepare_pictures(&asked).unwrap();
    assert!(!prepared.already);
    // Four levels, then the classes.
    assert_eq!(
        blocks(out.path(), Split::Train, 5),
        [[0, 3, 1, 2, 6], [3, 0, 0, 0, 4]]
    );
    assert_eq!(blocks(out.path(), Split::Validation, 5), [[2, 2, 2, 2, 5]]);
    assert!(prepare_pictures(&asked).unwrap().already);
    let other = PictureOptions {
        format: Format {
            pixels: Pixels::Grey(2),
            ..GREY
        },
        ..asked.clone()
    };
    let error = prepare_pictures(&other).unwrap_err().to_string();
    assert!(error.contains("other pictures"), "{error}");
    let flipped = PictureOptions {
        flip: true,
        overwrite: true,
        ..asked
    };
    prepare_pictures(&flipped).unwrap();
    let all = blocks(out.path(), Split::Train, 5);
    assert_eq!(all[..2], [[0, 3, 1, 2, 6], [3, 0, 2, 1, 6]]);
    assert_eq!(blocks(out.path(), Split::Validation, 5).len(), 1);
}

/// A corpus gives pictures with their labels, some of which say no class in training, none in validation.
#[test]
fn labels_stand_behind_pictures() {
    let (dir, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    mnist(dir.path());
    prepare_pictures(&options(dir.path(), out.path(), GREY)).unwrap();
    let corpus = Corpus::open(&Data::Shards(out.path().to_owned())).unwrap();
    assert_eq!(
        (corpus.symbols(), corpus.labels(), corpus.given()),
        (4, 4, 1)
    );
    assert_eq!(corpus.classes(), ["0", "1", "2"]);
    assert!(corpus.tokenizer().is_none());
    let drawn = corpus.sequences(Use::Training(3, 0), 400, 4).unwrap();
    let mut unsaid = 0;
    for picture in drawn.chunks_exact(5) {
        // Label 4 is the place of a mask, then the classes, then none.
        match (&picture[..4], picture[4]) {
            (_, 8) => unsaid += 1,
            ([0, 3, 1, 2], 7) | ([3, 0, 0, 0], 5) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!((20..=65).contains(&unsaid), "{unsaid}");
    let kept = corpus.sequences(Use::Validation, 50, 4).unwrap();
    assert!(
        kept.chunks_exact(5)
            .all(|picture| picture == [2, 2, 2, 2, 6])
    );
    assert!(corpus.sequences(Use::Validation, 1, 9).is_err());
}

#[test]
fn cifar_files_are_planes_of_colour() {
    let (dir, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let record = |label: u8, colour: [u8; 3]| {
        let planes = colour.iter().flat_map(|&c| vec![c; 1024]);
        [label].into_iter().chain(planes).collect::<Vec<u8>>()
    };
    let train = [record(3, [255, 0, 128]), record(9, [0, 255, 0])].concat();
    fs::write(dir.path().join("data_batch_1.bin"), &train).unwrap();
    fs::write(dir.path().join("test_batch.bin"), record(0, [0; 3])).unwrap();
    let format = Format {
        width: 4,
        height: 4,
        pixels: Pixels::Colour(3),
    };
    prepare_pictures(&options(dir.path(), out.path(), format)).unwrap();
    let all = blocks(out.path(), Split::Train, 17);
    assert_eq!(all[0], [vec![2 * 9 + 1; 16], vec![27 + 3]].concat());
    assert_eq!(all[1], [vec![2 * 3; 16], vec![27 + 9]].concat());
    let Tokenizer::Pictures(pictures) = Dataset::open(out.path()).unwrap().tokenizer().clone()
    else {
        panic!("pictures");
    };
    assert_eq!(pictures.classes[3], "cat");
    for (bytes, word) in [
        (&train[..100], "bytes"),
        (&record(10, [0; 3])[..], "label 10"),
        (&[], "bytes"),
    ] {
        fs::write(dir.path().join("data_batch_1.bin"), bytes).unwrap();
        let out = TempDir::new().unwrap();
        let error = prepare_pictures(&options(dir.path(), out.path(), format))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(word) && error.contains("data_batch_1.bin"),
            "{error}"
        );
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
    }
}

fn png(image: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.into().write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// A picture whose middle third is white: what a centre crop leaves.
fn wide() -> RgbImage {
    RgbImage::from_fn(12, 4, |x, _| {
        Rgb([if (4..8).contains(&x) { 255 } else { 0 }; 3])
    })
}

#[test]
fn folders_are_classes() {
    let (dir, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for (place, bytes) in [
        ("train/white/a.png", png(wide(), ImageFormat::Png)),
        (
            "train/black/b.JPG",
            png(RgbImage::new(5, 9), ImageFormat::Jpeg),
        ),
        ("train/black/notes.txt", b"no picture".to_vec()),
        (
            "val/white/c.png",
            png(GrayImage::from_pixel(3, 3, Luma([255])), ImageFormat::Png),
        ),
    ] {
        let file = dir.path().join(place);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }
    prepare_pictures(&options(dir.path(), out.path(), GREY)).unwrap();
    let mut train = blocks(out.path(), Split::Train, 5);
    train.sort();
    // Black comes before white.
    assert_eq!(train, [[0, 0, 0, 0, 4], [3, 3, 3, 3, 5]]);
    assert_eq!(blocks(out.path(), Split::Validation, 5), [[3, 3, 3, 3, 5]]);
}

/// A PNG with a chunk before the pixels.
fn with_chunk(png: &[u8], name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut chunk = (data.len() as u32).to_be_bytes().to_vec();
    let body = [&name[..], data].concat();
    let sum = body.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |c, _| {
            (c >> 1) ^ (0xedb8_8320 & (c & 1).wrapping_neg())
        })
    });
    chunk.extend(body);
    chunk.extend((!sum).to_be_bytes());
    // Behind the signature and the header.
    [&png[..33], &chunk, &png[33..]].concat()
}

/// A PNG that claims a size, with the header's sum put right.
fn claiming(width: u32, height: u32) -> Vec<u8> {
    let plain = png(RgbImage::new(1, 1), ImageFormat::Png);
    let header = [
        &width.to_be_bytes()[..],
        &height.to_be_bytes(),
        &plain[24..29],
    ]
    .concat();
    let whole = with_chunk(&plain, b"IHDR", &header);
    [&whole[..8], &whole[33..58], &whole[58..]].concat()
}

#[test]
fn what_is_no_picture_is_refused_by_name() {
    let good = png(wide(), ImageFormat::Png);
    let jpeg = png(wide(), ImageFormat::Jpeg);
    let deep = image::ImageBuffer::<Luma<u16>, Vec<u16>>::new(3, 3);
    let clear = RgbaImage::from_pixel(3, 3, Rgba([1, 2, 3, 4]));
    let cases = [
        ("cut.png", good[..good.len() / 2].to_vec(), "decoded"),
        ("cut.jpg", jpeg[..30].to_vec(), "decoded"),
        ("empty.png", Vec::new(), "neither PNG nor JPEG"),
        ("text.png", b"no picture".to_vec(), "neither PNG nor JPEG"),
        (
            "gif.png",
            b"GIF89a and so on".to_vec(),
            "neither PNG nor JPEG",
        ),
        (
            "deep.png",
            png(DynamicImage::ImageLuma16(deep), ImageFormat::Png),
            "8 bits",
        ),
        ("clear.png", png(clear, ImageFormat::Png), "transparent"),
        (
            "moving.png",
            with_chunk(&good, b"acTL", &[0, 0, 0, 2, 0, 0, 0, 0]),
            "animated",
        ),
        ("zero.png", claiming(0, 4), "decoded"),
        ("huge.png", claiming(1 << 20, 1 << 20), "pixels|decoded"),
    ];
    for (name, bytes, word) in cases {
        let (dir, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let class = dir.path().join("class");
        fs::create_dir_all(&class).unwrap();
        fs::write(class.join("fine.png"), &good).unwrap();
        fs::write(class.join(name), bytes).unwrap();
        let error = prepare_pictures(&options(dir.path(), out.path(), GREY))
            .unwrap_err()
            .to_string();
        let said = word.split('|').any(|word| error.contains(word));
        assert!(
            said && error.contains(name) && !error.contains('\n'),
            "{name}: {error}"
        );
        assert_eq!(
            fs::read_dir(out.path()).unwrap().count(),
            0,
            "{name} left something"
        );
    }
}

#[test]
fn damaged_idx_files_and_wrong_wishes_are_refused() {
    let refused = |bytes: Vec<u8>, labels: Vec<u8>| {
        let (dir, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        fs::write(dir.path().join("train-images-idx3-ubyte"), bytes).unwrap();
        fs::write(dir.path().join("train-labels-idx1-ubyte"), labels).unwrap();
        prepare_pictures(&options(dir.path(), out.path(), GREY))
            .unwrap_err()
            .to_string()
    };
    let labels = || idx(&[1], &[0]);
    let good = idx(&[1, 2, 2], &[0; 4]);
    assert!(refused(good[..18].to_vec(), labels()).contains("cut off"));
    assert!(refused(good[..7].to_vec(), labels()).contains("no IDX file"));
    assert!(refused(idx(&[u32::MAX; 3], &[0; 4]), labels()).contains("cut off"));
    assert!(refused(idx(&[1, 0, 2], &[]), labels()).contains("pixels a side"));
    assert!(refused(good.clone(), idx(&[2], &[0, 0])).contains("2 labels for 1 pictures"));
    // Nothing to keep aside.
    assert!(refused(good, labels()).contains("0 to keep aside"));
    let (dir, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let asked = |format| {
        prepare_pictures(&options(dir.path(), out.path(), format))
            .unwrap_err()
            .to_string()
    };
    assert!(asked(GREY).contains("no PNG, JPEG, IDX or CIFAR file"));
    let flat = Format { width: 0, ..GREY };
    assert!(asked(flat).contains("0 x 2"));
    let missing = dir.path().join("nowhere");
    let error = prepare_pictures(&options(&missing, out.path(), GREY))
        .unwrap_err()
        .to_string();
    assert!(error.contains("nowhere"), "{error}");
}
