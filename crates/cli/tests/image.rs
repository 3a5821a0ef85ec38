//! From nothing to a page of pictures through the binary; pictures from files; what is typed wrong.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

mod thin;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use fewstep::{
    image::Format,
    metrics::{Eye, Features, Kept, measure},
};
use serde_json::Value;

fn fewstep(dir: &Path, line: &str) -> Output {
    Command::new(assert_cmd::cargo::cargo_bin!("fewstep"))
        .current_dir(dir)
        .args(line.split_whitespace())
        .output()
        .unwrap()
}

fn done(dir: &Path, line: &str) -> String {
    let out = fewstep(dir, line);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{line}: {errors}");
    String::from_utf8(out.stdout).unwrap()
}

/// Refused with one line that says `why`.
fn refused(dir: &Path, line: &str, why: &str) {
    let out = fewstep(dir, line);
    let errors = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{line}: {errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains(why), "{line}: {errors}");
}

const TINY: &str = "--width 16 --blocks 1 --heads 2 --batch 2";

#[test]
fn one_command_makes_a_page_of_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let line = format!(
        "image --out run {TINY} --tokenizer-steps 4 --base-steps 6 --acceleration-steps 3 --steps 1,2 --samples 12 --gains 1,2"
    );
    let said = done(dir, &line);
    for word in [
        "tokenizer: ",
        "perplexity",
        "class accuracy at K =",
        "uniform, exact denoiser",
        "uniform, linear, gain 2",
        "guidance 1",
    ] {
        assert!(said.contains(word), "{said}");
    }
    let report: Value =
        serde_json::from_str(&fs::read_to_string(dir.join("run/report.json")).unwrap()).unwrap();
    let points = report["points"].as_array().unwrap();
    // The data; the exact denoiser; the base plain, cool and guided; the correction with a gain too.
    assert_eq!(points.len(), 1 + 2 * (1 + 3 + 4));
    let data = &points[0];
    assert_eq!(
        (&data["method"], &data["quality"]["accuracy"]),
        (&"data".into(), &1.0.into())
    );
    for point in points {
        let way = &point["way"];
        let twice = if way["guidance"] == 0.0 { 1 } else { 2 };
        assert_eq!(point["nfe"].as_u64(), way["k"].as_u64().map(|k| k * twice));
        assert_eq!(point["pictures"].as_array().unwrap().len(), 12 * 144);
    }
    let page = fs::read_to_string(dir.join("run/report.html")).unwrap();
    assert!(page.contains("data:image/png;base64,iVBOR"));
    let sheets = fs::read_dir(dir.join("run/pictures")).unwrap().count();
    assert_eq!(sheets, points.len());
    refused(dir, &line, "--resume");
    assert_eq!(done(dir, &format!("{line} --resume")), said);
    // Pixels in the place of codes: no tokenizer.
    let pixels = line.replace("--out run", "--out pixels --tokens pixels");
    let said = done(dir, &pixels.replace("--tokenizer-steps 4", ""));
    assert!(!said.contains("tokenizer"), "{said}");
    let other = line.replace("--out run", "--out other");
    refused(dir, &format!("{other} --patch 5"), "do not divide");
    refused(dir, &format!("{other} --codes 1"), "codes; use 2");
    assert!(!dir.join("other").exists());
    refused(
        dir,
        &format!("{line} --resume --seeds 4"),
        "another experiment",
    );
}

fn report(dir: &Path) -> Value {
    let text = fs::read_to_string(dir.join("report.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What the network saw of the validation, in an experiment's directory.
fn reference(dir: &Path) -> Kept {
    let files = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let npz = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "npz");
    let kept: Vec<_> = files.filter(npz).collect();
    assert_eq!(kept.len(), 1);
    Kept::read(&kept[0]).unwrap()
}

/// Every point is measured by what the network sees in its pictures and in as many of the validation.
#[test]
fn an_inception_looks_at_every_point() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let weights = dir.join("thin.safetensors");
    thin::inception(&weights, 0);
    // As many pictures as a point keeps.
    let said = done(
        dir,
        &format!(
            "image --out run {TINY} --tokens pixels --base-steps 2 --acceleration-steps 2 --steps 2 --samples 12 \
             --gains 1 --temperatures 1 --inception thin.safetensors"
        ),
    );
    for word in [
        "FID at K =",
        "Inception Score at K =",
        "note: 12 pictures for 128 dimensions",
        "they need 20 pictures on both sides",
    ] {
        assert!(said.contains(word), "{said}");
    }
    let eye = Eye::open(&weights).unwrap();
    let kept = reference(&dir.join("run"));
    let found = report(&dir.join("run"));
    let points = found["points"].as_array().unwrap();
    assert_eq!(points.len(), 1 + 1 + 2 + 2);
    for point in points {
        let pixels = point["pictures"].as_array().unwrap().iter();
        let colours = pixels.flat_map(|p| Format::FIGURES.colour(p.as_u64().unwrap() as usize));
        let pictures: Vec<u8> = colours.collect();
        assert_eq!(pictures.len(), 12 * 144 * 3);
        let seen = Features::of(&pictures, (12, 12), &eye, |_, _| true).unwrap();
        let measured = measure(&seen.unwrap(), &kept).unwrap();
        let fid = point["measured"]["fid"].as_f64().unwrap();
        // The reference is kept in single precision.
        assert!((fid - measured.fid).abs() < 1e-4 * (1.0 + fid), "{fid}");
        assert!(fid > 0.0 && point["measured"]["score"][0].as_f64().unwrap() >= 1.0);
    }
    let page = fs::read_to_string(dir.join("run/report.html")).unwrap();
    for heading in ["Against steps", "FID", "On the same features", "Guidance"] {
        assert!(page.contains(&format!("<h2>{heading}</h2>")), "{heading}");
    }

    // What is no Inception is found out before anything is done.
    fs::write(dir.join("wrong.safetensors"), b"no weights").unwrap();
    for file in ["wrong.safetensors", "nothing.safetensors"] {
        let out = fewstep(dir, &format!("image --out other --inception {file}"));
        let line = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(1), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.contains(file), "{line}");
        assert!(!dir.join("other").exists());
    }
}

/// An experiment without an Inception is measured by one later: its pictures are drawn again and are the
/// same. What was measured is not measured again, and not by another network.
#[test]
fn an_inception_looks_later() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let line = format!(
        "image --out run {TINY} --tokenizer-steps 2 --base-steps 2 --acceleration-steps 2 --steps 1,2 --samples 20 \
         --gains 1 --temperatures 1 --guidance 1,2"
    );
    let said = done(dir, &line);
    assert!(!said.contains("FID"), "{said}");
    let mut before = report(&dir.join("run"));
    assert!(before["points"][0].get("measured").is_none());
    thin::inception(&dir.join("thin.safetensors"), 0);
    thin::inception(&dir.join("other.safetensors"), 1);
    let line = format!("{line} --resume");
    let with = format!("{line} --inception thin.safetensors");
    let said = done(dir, &with);
    assert!(said.contains("FID at K ="), "{said}");
    let after = report(&dir.join("run"));
    let points = after["points"].as_array().unwrap();
    assert_eq!(points.len(), 1 + 2 * (1 + 3 + 3));
    for (point, before) in points.iter().zip(before["points"].as_array_mut().unwrap()) {
        for share in ["precision", "recall", "density", "coverage"] {
            let value = point["measured"]["neighbours"][share].as_f64().unwrap();
            assert!((0.0..=20.0).contains(&value), "{share} {value}");
        }
        before["measured"] = point["measured"].clone();
        assert_eq!(point, before);
    }
    let page = fs::read_to_string(dir.join("run/report.html")).unwrap();
    for words in [
        "precision, recall (dashed)",
        "K = 2, 1: FID ",
        "(dashed, right)",
    ] {
        assert!(page.contains(words), "{words}");
    }

    let again = fewstep(dir, &with);
    let errors = String::from_utf8(again.stderr).unwrap();
    assert!(
        !errors.contains("seeing") && !errors.contains("pictures"),
        "{errors}"
    );
    assert_eq!(String::from_utf8(again.stdout).unwrap(), said);
    assert_eq!(done(dir, &line), said);
    refused(
        dir,
        &format!("{line} --inception other.safetensors"),
        "another Inception",
    );
}

#[test]
fn pictures_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for chain in ["masked --loss arccos", "uniform"] {
        let (out, _) = chain.split_once(' ').unwrap_or((chain, ""));
        done(
            dir,
            &format!("train --figures --out {out} --chain {chain} --steps 60 {TINY}"),
        );
        done(
            dir,
            &format!("accelerate --from {out} --out {out}-fast --steps 2 --batch 2 --correction 8"),
        );
        let sample = format!("sample --from {out}-fast --steps 3 -n 4 --classes plus,0 --json");
        let plain = done(dir, &sample);
        assert_eq!(plain.lines().count(), 4);
        assert_eq!(plain, done(dir, &format!("{sample} --guidance 0")));
        // What so short a training knows of classes has to be magnified to be seen.
        assert_ne!(plain, done(dir, &format!("{sample} --guidance 1000")));
        let rows = done(
            dir,
            &format!("eval --from {out}-fast --steps 1,2 --samples 6 --guidance 0,1 --json"),
        );
        let nfe: Vec<u64> = rows
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["nfe"]
                    .as_u64()
                    .unwrap()
            })
            .collect();
        assert_eq!(nfe, [1, 2, 2, 4]);
    }
    // The first step of a rising guidance has none and costs no second evaluation.
    let out = fewstep(
        dir,
        "sample --from masked --steps 3 -n 2 --guidance 2 --ramp --pictures sheet.png",
    );
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(
        out.status.success() && said.contains("5 network evaluations"),
        "{said}"
    );
    assert!(
        fs::read(dir.join("sheet.png"))
            .unwrap()
            .starts_with(b"\x89PNG")
    );
    done(
        dir,
        "sample --from masked --order confidence -n 3 --steps 2 --pictures each",
    );
    assert_eq!(fs::read_dir(dir.join("each")).unwrap().count(), 3);
    // In their own pixels: the width stands in the header.
    let one = fs::read(dir.join("each/000000.png")).unwrap();
    assert_eq!(one[16..20], 12u32.to_be_bytes());
    refused(
        dir,
        "sample --from masked --classes circle",
        "no class circle",
    );
    refused(dir, "sample --from masked --classes 6", "no class 6");
    // Pairs are made with a label, and a latent stands behind it.
    for method in ["redi --pairs 20 --pair-steps 2", "di4c --latents 2"] {
        let (name, _) = method.split_once(' ').unwrap();
        done(
            dir,
            &format!(
                "accelerate --from uniform --out {name} --method {method} --steps 2 --batch 2"
            ),
        );
        let line = format!("sample --from {name} --steps 2 -n 2 --guidance 1 --json");
        assert_eq!(done(dir, &line).lines().count(), 2);
    }
    done(
        dir,
        "eval --from redi --steps 2 --samples 6 --walks 2 --sources 2",
    );
    refused(
        dir,
        "train --figures --out x --length 100 --steps 1",
        "144 pixels",
    );
    refused(
        dir,
        "train --figures --out x --chain uniform --loss arccos",
        "masked chain",
    );
}

#[test]
fn digits_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::create_dir(dir.join("digits")).unwrap();
    for (split, count) in [("train", 4u8), ("t10k", 2)] {
        let head = |dimensions: u8, sizes: &[u32]| {
            let mut bytes = vec![0, 0, 8, dimensions];
            bytes.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
            bytes
        };
        let mut images = head(3, &[count.into(), 4, 4]);
        images.extend((0..count).flat_map(|n| vec![n * 60; 16]));
        let mut labels = head(1, &[count.into()]);
        labels.extend(0..count);
        fs::write(
            dir.join(format!("digits/{split}-images-idx3-ubyte")),
            images,
        )
        .unwrap();
        fs::write(
            dir.join(format!("digits/{split}-labels-idx1-ubyte")),
            labels,
        )
        .unwrap();
    }
    let said = done(dir, "data digits --out data --pixels grey:4 --size 4x4");
    assert!(said.contains("pictures, 16 pixels and a class"), "{said}");
    done(
        dir,
        &format!(
            "image --data data --out run {TINY} --tokenizer-steps 3 --base-steps 3 --acceleration-steps 2 --steps 2 --samples 8"
        ),
    );
    assert!(dir.join("run/report.html").exists());
    // Against both of the validation's pictures.
    thin::inception(&dir.join("thin.safetensors"), 0);
    let said = done(
        dir,
        &format!(
            "image --data data --out seen {TINY} --tokenizer-steps 2 --base-steps 2 --acceleration-steps 2 --steps 2 \
             --samples 8 --gains 1 --inception thin.safetensors"
        ),
    );
    assert!(said.contains("FID at K ="), "{said}");
    let Kept::Features(seen) = reference(&dir.join("seen")) else {
        panic!("no features");
    };
    assert_eq!((seen.dimensions, seen.count()), (thin::DIMENSIONS, 2));
    done(
        dir,
        "sample --from run/runs/uniform-base-0 --steps 2 -n 8 --pictures a.png --classes 3",
    );
    refused(dir, "eval --from run/runs/uniform-base-0", "no law");
    refused(
        dir,
        "data digits --out other --pixels grey:1 --size 4x4",
        "levels",
    );
    refused(
        dir,
        "data digits --out other --pixels blue:3",
        "grey:LEVELS",
    );
    refused(
        dir,
        "data digits digits --out other --pixels grey:3",
        "one directory",
    );
}

#[test]
fn codes_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let said = done(
        dir,
        "tokenizer --out vq --patch 2 --codes 16 --tokenizer-steps 5",
    );
    assert!(said.contains("of 16 codes occur"), "{said}");
    let looked = done(dir, "doctor vq");
    assert!(
        looked.contains("16 codes of 16 channels, patches of 4 digits of 4 values"),
        "{looked}"
    );
    done(
        dir,
        &format!("train --data vq --out run --chain uniform --steps 3 {TINY}"),
    );
    done(
        dir,
        "accelerate --from run --out fast --steps 2 --batch 2 --correction 8",
    );
    done(
        dir,
        "sample --from fast --steps 2 -n 3 --pictures sheet.png --zoom 1 --trace film.png",
    );
    let sheet = image::open(dir.join("sheet.png")).unwrap().into_rgb8();
    assert_eq!(sheet.dimensions(), (3 * 12 + 2 * 2, 12));
    assert!(done(dir, "eval --from fast --steps 2 --samples 6").contains("accuracy"));
    // Known pixels stay, to the pixel, though patches with a gap are drawn whole.
    let ground = [24, 26, 34];
    png(&dir.join("picture.png"), 12, |_, _| ground);
    png(&dir.join("mask.png"), 12, |x, _| {
        [if x > 4 { 255 } else { 0 }; 3]
    });
    let out = fewstep(
        dir,
        "fill --from run --steps 2 --zoom 1 --picture picture.png --mask mask.png --pictures filled.png",
    );
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains("84 of 144 pixels drawn"), "{said}");
    let filled = image::open(dir.join("filled.png")).unwrap().into_rgb8();
    assert!((0..60).all(|i| filled.get_pixel(i % 5, i / 5).0 == ground));
    // The codes belong to their tokenizer, and a network to its codes.
    refused(dir, "tokenizer --out vq", "--resume");
    refused(dir, "tokenizer --data vq --out x", "pictures in pixels");
    refused(dir, "tokenizer --out x --patch 7", "do not divide");
    refused(
        dir,
        "train --data vq --out x --length 144 --steps 1",
        "36 codes",
    );
    done(
        dir,
        "tokenizer --out more --patch 2 --codes 64 --tokenizer-steps 2",
    );
    refused(
        dir,
        "accelerate --from run --data more --out x --steps 1",
        "a network over 16 symbols, the data have 64",
    );
    let bytes = fs::read(dir.join("vq/model.safetensors")).unwrap();
    fs::write(dir.join("vq/model.safetensors"), &bytes[..100]).unwrap();
    refused(dir, "sample --from run", "tokenizer vq");
    assert_eq!(fewstep(dir, "doctor vq").status.code(), Some(1));
    assert!(!dir.join("x").exists());
}

/// A PNG of `side` pixels a side.
fn png(file: &Path, side: u32, colour: impl Fn(u32, u32) -> [u8; 3]) {
    let picture = image::RgbImage::from_fn(side, side, |x, y| image::Rgb(colour(x, y)));
    picture.save(file).unwrap();
}

#[test]
fn gaps_of_a_picture() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    done(
        dir,
        &format!("train --figures --out run --chain uniform --steps 3 {TINY}"),
    );
    let (ground, red) = ([24, 26, 34], [232, 93, 76]);
    let figure = |x: u32, y: u32| if x < 5 && y < 7 { red } else { ground };
    let gap = |x: u32, y: u32| [if x + y > 9 { 255 } else { 0 }; 3];
    png(&dir.join("picture.png"), 12, figure);
    png(&dir.join("mask.png"), 12, gap);
    // Under the gap anything may stand; both files may be magnified.
    let odd = |x: u32, y: u32| match gap(x, y)[0] {
        0 => figure(x, y),
        _ => [(x * 20) as u8, 3, 200],
    };
    png(&dir.join("large.png"), 36, |x, y| odd(x / 3, y / 3));
    png(&dir.join("large-mask.png"), 24, |x, y| gap(x / 2, y / 2));
    let fill = "fill --from run --steps 3 -n 3 --zoom 1 --columns 3 --classes plus";
    let out = fewstep(
        dir,
        &format!(
            "{fill} --picture picture.png --mask mask.png --pictures filled.png --trace film.png"
        ),
    );
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success(), "{said}");
    let drawn = (0..144).filter(|i| gap(i % 12, i / 12)[0] == 255).count();
    assert!(
        said.contains(&format!("{drawn} of 144 pixels drawn")),
        "{said}"
    );
    let filled = image::open(dir.join("filled.png")).unwrap().into_rgb8();
    assert_eq!(filled.dimensions(), (3 * 12 + 2 * 2, 12));
    let mut changed = 0;
    for (version, x, y) in (0..3 * 144).map(|i| (i / 144, i % 12, i / 12 % 12)) {
        let seen = filled.get_pixel(version * 14 + x, y).0;
        if gap(x, y)[0] == 0 {
            assert_eq!(seen, figure(x, y), "{version} at {x}, {y}");
        }
        changed += u32::from(seen != figure(x, y));
    }
    assert!(changed > 100, "so short a training draws noise: {changed}");
    let film = fs::read(dir.join("film.png")).unwrap();
    assert!(film.windows(4).any(|name| name == b"acTL"));
    done(
        dir,
        &format!("{fill} --picture large.png --mask large-mask.png --pictures again.png"),
    );
    let files = ["filled.png", "again.png"].map(|file| fs::read(dir.join(file)).unwrap());
    assert_eq!(files[0], files[1]);

    png(&dir.join("small.png"), 10, figure);
    png(&dir.join("grey.png"), 12, |_, _| [128; 3]);
    png(&dir.join("black.png"), 12, |_, _| [0; 3]);
    png(&dir.join("pink.png"), 12, |_, _| [255, 0, 255]);
    png(&dir.join("rough.png"), 24, |x, _| {
        if x == 1 { red } else { ground }
    });
    fs::write(dir.join("text.png"), "no picture").unwrap();
    let cut = fs::read(dir.join("picture.png")).unwrap();
    fs::write(dir.join("cut.png"), &cut[..cut.len() / 2]).unwrap();
    for (picture, mask, why) in [
        ("small.png", "mask.png", "10 x 10 pixels"),
        ("picture.png", "small.png", "10 x 10 pixels"),
        (
            "picture.png",
            "grey.png",
            "row 0, column 0 is neither black",
        ),
        ("picture.png", "black.png", "all black"),
        ("pink.png", "mask.png", "row 0, column 0 is #ff00ff"),
        ("rough.png", "mask.png", "several colours"),
        ("text.png", "mask.png", "neither PNG nor JPEG"),
        ("cut.png", "mask.png", "cannot be decoded"),
        ("none.png", "mask.png", "none.png"),
        ("film.png", "mask.png", "animated"),
    ] {
        refused(
            dir,
            &format!("{fill} --picture {picture} --mask {mask} --pictures refused.png"),
            why,
        );
    }
    refused(dir, "fill {3} --from run", "of pictures");
    assert!(!dir.join("refused.png").exists());
    // What else is missing is said by the parser of arguments.
    for line in ["--mask mask.png", "--picture picture.png --mask mask.png"] {
        let out = fewstep(dir, &format!("fill --from run {line}"));
        assert_eq!(out.status.code(), Some(2), "{line}");
    }
    // Pictures are animated, text is not.
    done(
        dir,
        "sample --from run --steps 2 -n 2 --trace two.png --pictures still.png",
    );
    assert!(
        fs::read(dir.join("two.png"))
            .unwrap()
            .starts_with(b"\x89PNG")
    );
    done(
        dir,
        "train --out words --steps 1 --width 16 --blocks 1 --heads 2 --batch 2",
    );
    refused(dir, "sample --from words --trace x.png", "end in .html");
    refused(
        dir,
        "fill --from words --picture picture.png --mask mask.png --pictures x.png",
        "not of pictures",
    );
}
