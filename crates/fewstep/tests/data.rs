//! Texts to shards and back: tokenizers, packing, splits, damaged files, interruptions.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use fewstep::data::{
    Characters, Dataset, Documents, Error, Manifest, Options, Packing, Settings, Split, Tokenizer,
    Watch, prepare,
};
use proptest::prelude::*;
use tempfile::{TempDir, tempdir};

fn encode(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    tokenizer.encode(text, &mut ids).unwrap();
    ids
}

/// A folder with files, and options to prepare one of them in it.
fn corpus(name: &str, content: impl AsRef<[u8]>, settings: Settings) -> (TempDir, Options) {
    let folder = tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    let mut options = Options::new(vec![path], folder.path().join("out"));
    options.settings = settings;
    (folder, options)
}

fn byte() -> Settings {
    Settings {
        tokenizer: "byte".into(),
        ..Settings::default()
    }
}

fn failure(options: &Options) -> String {
    prepare(options, &()).unwrap_err().to_string()
}

/// All symbols of a split.
fn symbols(dataset: &Dataset, split: Split) -> Vec<u32> {
    let mut symbols = vec![0; dataset.tokens(split)];
    if !symbols.is_empty() {
        let length = symbols.len();
        dataset.block(split, length, 0, &mut symbols).unwrap();
    }
    symbols.into_iter().map(|symbol| symbol as u32).collect()
}

/// The name and the bytes of each file.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let file = |entry: fs::DirEntry| (entry.file_name().into(), fs::read(entry.path()).unwrap());
    entries.map(file).collect()
}

fn json_lines(texts: &[String]) -> String {
    let line = |text: &String| format!("{}\n", serde_json::json!({"id": 1, "text": text}));
    texts.iter().map(line).collect()
}

/// Documents of different lengths.
fn texts(n: usize) -> Vec<String> {
    let text = |i: usize| format!("Document {i}: {}", "some words, ".repeat(i * 7 % 13));
    (0..n).map(text).collect()
}

#[test]
fn gpt2_has_the_ids_of_tiktoken() {
    let gpt2 = Tokenizer::named("gpt2").unwrap();
    let golden: [(&str, &[u32]); 6] = [
        ("Hello world", &[15496, 995]),
        ("\n\n", &[628]),
        (
            "It's  a   test.\n",
            &[1026, 338, 220, 257, 220, 220, 1332, 13, 198],
        ),
        (
            "na\u{ef}ve caf\u{e9} \u{2013} \u{6771}\u{4eac} \u{1f642}",
            &[2616, 38776, 40304, 784, 10545, 251, 109, 12859, 105, 32485],
        ),
        ("<|endoftext|>", &[27, 91, 437, 1659, 5239, 91, 29]),
        (
            "   \t x1234567",
            &[220, 220, 220, 197, 2124, 10163, 2231, 3134],
        ),
    ];
    for (text, ids) in golden {
        assert_eq!(encode(&gpt2, text), ids, "{text:?}");
        assert_eq!(gpt2.decode(ids), text);
    }
    assert_eq!(gpt2.decode(&[50256]), "<|endoftext|>");
    assert_eq!((gpt2.vocabulary(), gpt2.eos()), (50257, Some(50256)));
}

#[test]
fn symbols_that_are_none_do_not_panic() {
    let characters = Tokenizer::Characters(Characters::new("abc".chars(), true));
    assert_eq!((characters.vocabulary(), characters.eos()), (4, Some(3)));
    assert_eq!(characters.decode(&[0, 3, 4]), "a<|endoftext|>\u{fffd}");
    assert_eq!(
        Tokenizer::Byte.decode(&[97, 256, 257, u32::MAX, 0xff]),
        "a<|endoftext|>\u{fffd}\u{fffd}\u{fffd}"
    );
    assert_eq!(
        Tokenizer::Gpt2.decode(&[15496, 50257, u32::MAX]),
        "Hello\u{fffd}\u{fffd}"
    );
    let unknown = characters.encode("abd", &mut Vec::new()).unwrap_err();
    assert!(unknown.to_string().contains("'d'"), "{unknown}");
}

#[test]
fn tokenizers_come_back_from_their_description() {
    let characters = Tokenizer::Characters(Characters::new("zebra \u{e4}".chars(), true));
    for tokenizer in [Tokenizer::Byte, Tokenizer::Gpt2, characters] {
        let json = serde_json::to_string(&tokenizer.description()).unwrap();
        let again = Tokenizer::described(&serde_json::from_str(&json).unwrap()).unwrap();
        assert_eq!(again.description(), tokenizer.description());
        assert_eq!(encode(&again, "zebra"), encode(&tokenizer, "zebra"));
        assert_eq!(again.vocabulary(), tokenizer.vocabulary());
    }
    for name in ["char", "gpt5"] {
        assert!(
            matches!(Tokenizer::named(name), Err(Error::Option(_))),
            "{name}"
        );
    }
    let missing = Tokenizer::named("missing/tokenizer.json").unwrap_err();
    assert!(missing.to_string().contains("missing/tokenizer.json"));
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(text in "(?s)[ -~]{0,40}.{0,40}\\s{0,5}.{0,20}") {
        let characters = Tokenizer::Characters(Characters::new(text.chars(), true));
        for tokenizer in [Tokenizer::Byte, Tokenizer::Gpt2, characters] {
            let ids = encode(&tokenizer, &text);
            prop_assert_eq!(tokenizer.decode(&ids), text.clone());
            prop_assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocabulary()));
        }
    }
}

#[test]
fn an_only_document_is_cut_in_two() {
    let text = "words and words ".repeat(100);
    let (folder, options) = corpus("a.txt", &text, byte());
    let prepared = prepare(&options, &()).unwrap();
    assert!(!prepared.already);
    let manifest = &prepared.manifest;
    assert!(
        manifest.split.contains("only document"),
        "{}",
        manifest.split
    );
    assert_eq!(manifest.train.tokens + manifest.validation.tokens, 1600);
    assert!((1520..1530).contains(&manifest.train.tokens));
    let dataset = Dataset::open(&options.out).unwrap();
    assert_eq!(dataset.manifest(), manifest);
    let all = [Split::Train, Split::Validation].map(|split| symbols(&dataset, split));
    assert_eq!(dataset.tokenizer().decode(&all.concat()), text);
    let names: Vec<PathBuf> = contents(&options.out).into_keys().collect();
    let expected = ["manifest.json", "train-00000.bin", "validation-00000.bin"];
    assert_eq!(names, expected.map(PathBuf::from));

    // A second time there is nothing to do; otherwise it says what differs.
    let before = contents(&options.out);
    assert!(prepare(&options, &()).unwrap().already);
    let mut other = options.clone();
    other.settings.tokenizer = "gpt2".into();
    other.settings.seed = 1;
    let message = failure(&other);
    for words in [
        "tokenizer \"byte\", not \"gpt2\"",
        "seed 0, not 1",
        "--overwrite",
    ] {
        assert!(message.contains(words), "{message}");
    }
    fs::write(folder.path().join("a.txt"), text.replace("and", "AND")).unwrap();
    assert!(failure(&options).contains("a.txt has changed"));
    assert_eq!(contents(&options.out), before);
    other.overwrite = true;
    let prepared = prepare(&other, &()).unwrap();
    assert!(!prepared.already && prepared.manifest.vocabulary == 50257);
}

#[test]
fn characters_of_the_corpus() {
    let settings = Settings {
        tokenizer: "char".into(),
        validation: 0.2,
        ..Settings::default()
    };
    let (_folder, options) = corpus("a.md", "to be or not to be", settings);
    let dataset_of = |options: &Options| {
        prepare(options, &()).unwrap();
        Dataset::open(&options.out).unwrap()
    };
    let dataset = dataset_of(&options);
    assert_eq!(
        (dataset.tokenizer().vocabulary(), dataset.tokenizer().eos()),
        (7, None)
    );
    let train = symbols(&dataset, Split::Train);
    assert_eq!(dataset.tokenizer().decode(&train), "to be or not to");

    // Documents need a symbol between them.
    let mut options = options;
    options.settings.documents = Documents::BlankLines;
    fs::write(&options.inputs[0], "ab\nba\n\n \n\nb\r\n\na").unwrap();
    options.overwrite = true;
    let dataset = dataset_of(&options);
    assert_eq!(
        dataset.manifest().train.documents + dataset.manifest().validation.documents,
        3
    );
    assert_eq!(dataset.tokenizer().eos(), Some(3));
}

#[test]
fn documents_in_a_text_file() {
    for (documents, text) in [
        (Documents::BlankLines, "\n\none\ntwo\n\n\nthree\n \nfour"),
        (
            Documents::Separator("###".into()),
            "###\none\ntwo\n###\n###\nthree\n### \nfour\n",
        ),
    ] {
        let settings = Settings {
            documents,
            validation: 0.0,
            ..byte()
        };
        let (_folder, options) = corpus("a.txt", text, settings);
        prepare(&options, &()).unwrap();
        let dataset = Dataset::open(&options.out).unwrap();
        let train = symbols(&dataset, Split::Train);
        let end = "<|endoftext|>";
        assert_eq!(
            dataset.tokenizer().decode(&train),
            format!("one\ntwo{end}three{end}four")
        );
        assert_eq!(dataset.tokens(Split::Validation), 0);
    }
}

#[test]
fn the_split_depends_on_the_seed_alone() {
    let lines = json_lines(&texts(200));
    let prepared = |seed, name: &str| {
        let settings = Settings {
            seed,
            validation: 0.2,
            shard_tokens: 5000,
            ..byte()
        };
        let (_folder, options) = corpus(name, &lines, settings);
        let manifest = prepare(&options, &()).unwrap().manifest;
        (manifest.train, manifest.validation)
    };
    let first = prepared(0, "a.jsonl");
    assert_eq!(first, prepared(0, "b.jsonl"));
    assert_ne!(first, prepared(1, "a.jsonl"));
    assert_eq!(first.0.documents + first.1.documents, 200);
    assert!(
        (25..55).contains(&first.1.documents),
        "{}",
        first.1.documents
    );
}

#[test]
fn blocks_cross_shards() {
    let text = "the quick brown fox jumps over the lazy dog ".repeat(30);
    let small = Settings {
        shard_tokens: 100,
        validation: 0.0,
        ..byte()
    };
    let (_folder, options) = corpus("a.txt", &text, small);
    let manifest = prepare(&options, &()).unwrap().manifest;
    let sizes: Vec<u64> = manifest
        .train
        .shards
        .iter()
        .map(|shard| shard.tokens)
        .collect();
    assert_eq!(sizes[..13], [100; 13]);
    assert_eq!(sizes[13..], [20]);
    let dataset = Dataset::open(&options.out).unwrap();
    for length in [1, 7, 99, 100, 101, 250, 1320] {
        let blocks = dataset.blocks(Split::Train, length).unwrap();
        assert_eq!(blocks, 1320 / length);
        let mut block = vec![0; length];
        for i in 0..blocks {
            dataset.block(Split::Train, length, i, &mut block).unwrap();
            let expected = &text.as_bytes()[i * length..(i + 1) * length];
            assert!(
                block
                    .iter()
                    .zip(expected)
                    .all(|(&a, &b)| a == usize::from(b))
            );
        }
        assert!(
            dataset
                .block(Split::Train, length, blocks, &mut block)
                .is_err()
        );
    }
    assert!(dataset.blocks(Split::Train, 0).is_err());
    assert!(dataset.block(Split::Train, 7, 0, &mut [0; 6]).is_err());
}

/// Batches of 1000 documents, an end symbol after each, pieces between two end symbols.
fn wrapped(documents: &[Vec<u32>], length: usize, eos: u32) -> Vec<u32> {
    let mut blocks = Vec::new();
    for batch in documents.chunks(1000) {
        let mut all = Vec::new();
        for document in batch {
            all.extend(document);
            all.push(eos);
        }
        let mut start = 0;
        while start + length - 2 <= all.len() {
            blocks.push(eos);
            blocks.extend(&all[start..start + length - 2]);
            blocks.push(eos);
            start += length - 2;
        }
    }
    blocks
}

#[test]
fn wrapped_blocks() {
    let texts = texts(2300);
    let settings = Settings {
        tokenizer: "gpt2".into(),
        packing: Packing::Wrapped { length: 64 },
        validation: 0.0,
        shard_tokens: 10_000,
        ..Settings::default()
    };
    let (_folder, options) = corpus("a.jsonl", json_lines(&texts), settings);
    prepare(&options, &()).unwrap();
    let dataset = Dataset::open(&options.out).unwrap();
    let documents: Vec<Vec<u32>> = texts
        .iter()
        .map(|text| encode(&Tokenizer::Gpt2, text))
        .collect();
    let expected = wrapped(&documents, 64, 50256);
    assert_eq!(
        dataset.blocks(Split::Train, 64).unwrap(),
        expected.len() / 64
    );
    let mut block = vec![0; 64];
    for (i, expected) in expected.chunks(64).enumerate() {
        dataset.block(Split::Train, 64, i, &mut block).unwrap();
        assert!(
            block.iter().zip(expected).all(|(&a, &b)| a == b as usize),
            "block {i}"
        );
    }
    let message = dataset.blocks(Split::Train, 32).unwrap_err().to_string();
    assert!(message.contains("packed for 64"), "{message}");

    let mut long = options.clone();
    long.settings.packing = Packing::Wrapped { length: 1 << 20 };
    long.out = options.out.with_file_name("long");
    assert!(failure(&long).contains("too little text"));
    assert!(contents(&long.out).is_empty());
}

#[test]
fn what_is_no_text_is_named() {
    let cases: [(&str, &[u8], &str); 10] = [
        ("empty.txt", b"", "empty.txt: it holds no text"),
        ("blank.jsonl", b"\n\n", "blank.jsonl: it holds no text"),
        (
            "latin.txt",
            b"caf\xe9 au lait",
            "latin.txt: no UTF-8 at byte 3",
        ),
        ("cut.txt", b"caf\xc3", "cut.txt: no UTF-8 at byte 3"),
        ("image.txt", b"abc\0def", "image.txt: a NUL at byte 3"),
        (
            "a.jsonl",
            b"{\"text\": \"a\"}\n\n{\"text\": 3}\n",
            "a.jsonl, line 3: ",
        ),
        ("b.jsonl", b"{\"body\": \"a\"}", "no field \"text\""),
        (
            "c.jsonl",
            b"{\"text\": \"a\"}\n{\"text\": \"\xe9\"}",
            "c.jsonl: no UTF-8 at byte 24",
        ),
        ("d.jsonl", b"{\"text\": \"a", "d.jsonl, line 1: "),
        ("d.parquet", b"PAR1", "d.parquet: "),
    ];
    for (name, content, words) in cases {
        let (_folder, options) = corpus(name, content, byte());
        let message = failure(&options);
        assert!(message.contains(words), "{message}");
        assert!(contents(&options.out).is_empty());
    }
    let lossy = Settings {
        lossy: true,
        validation: 0.0,
        ..byte()
    };
    let (_folder, options) = corpus("a.txt", b"caf\xe9 \0", lossy);
    prepare(&options, &()).unwrap();
    let dataset = Dataset::open(&options.out).unwrap();
    let text = dataset.tokenizer().decode(&symbols(&dataset, Split::Train));
    assert_eq!(text, "caf\u{fffd} \u{fffd}");
}

#[test]
fn bad_bytes_far_into_a_file_are_found_where_they_are() {
    let mut text = "\u{e4}\u{f6}\u{fc} ".repeat(100_000).into_bytes();
    let whole = text.clone();
    text[600_002] = 0xff;
    let (_folder, options) = corpus("a.txt", &text, byte());
    let message = failure(&options);
    assert!(
        message.contains("at byte 600002") || message.contains("at byte 600001"),
        "{message}"
    );
    // In pieces as a whole, with bad bytes and without.
    for (content, lossy) in [(whole, false), (text, true)] {
        let settings = Settings {
            lossy,
            validation: 0.0,
            ..byte()
        };
        let (_folder, options) = corpus("a.txt", &content, settings);
        prepare(&options, &()).unwrap();
        let dataset = Dataset::open(&options.out).unwrap();
        let read = dataset.tokenizer().decode(&symbols(&dataset, Split::Train));
        assert!(read == String::from_utf8_lossy(&content));
    }
}

#[test]
fn documents_that_do_not_fit_into_memory_are_named() {
    let lines = "{\"text\": \"short\"}\n{\"text\": \"a text that is far too long\"}\n";
    let (_folder, mut options) = corpus("a.jsonl", lines, byte());
    options.document_bytes = 30;
    let message = failure(&options);
    assert!(
        message.contains("a.jsonl, line 2: a document of more than 30 bytes"),
        "{message}"
    );
    options.document_bytes = 40;
    prepare(&options, &()).unwrap();

    let (_folder, mut options) = corpus("a.txt", "a\n\nb\nccccccccc\n", byte());
    options.settings.documents = Documents::BlankLines;
    options.document_bytes = 8;
    let message = failure(&options);
    assert!(message.contains("a.txt, line 3"), "{message}");
    // A file that is one document comes in pieces and has no limit.
    options.settings.documents = Documents::File;
    prepare(&options, &()).unwrap();
}

#[test]
fn folders_and_what_makes_no_sense() {
    let folder = tempdir().unwrap();
    let (inner, out) = (folder.path().join("b"), folder.path().join("out"));
    fs::create_dir(&inner).unwrap();
    let mut options = Options::new(vec![folder.path().into()], out);
    options.settings = byte();
    assert!(failure(&options).contains("no .txt"));
    for (name, text) in [
        ("a.txt", "A"),
        ("b/b.md", "B"),
        ("b/c.jsonl", "{\"text\": \"C\"}"),
        ("d.png", "\0"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    options.settings.validation = 0.0;
    let manifest = prepare(&options, &()).unwrap().manifest;
    let sources: Vec<&str> = manifest
        .sources
        .iter()
        .map(|source| source.path.as_str())
        .collect();
    assert!(
        sources[0].ends_with("a.txt")
            && sources[1].ends_with("b.md")
            && sources[2].ends_with("c.jsonl")
    );
    let dataset = Dataset::open(&options.out).unwrap();
    assert_eq!(symbols(&dataset, Split::Train), [65, 256, 66, 256, 67]);

    options.inputs = vec![folder.path().join("missing.txt")];
    assert!(failure(&options).contains("missing.txt"));
    for change in [
        |settings: &mut Settings| settings.validation = 1.0,
        |settings: &mut Settings| settings.validation = f64::NAN,
        |settings: &mut Settings| settings.packing = Packing::Wrapped { length: 2 },
        |settings: &mut Settings| settings.shard_tokens = 0,
        |settings: &mut Settings| settings.tokenizer = "gpt5".into(),
    ] {
        let mut options = options.clone();
        change(&mut options.settings);
        assert!(matches!(prepare(&options, &()), Err(Error::Option(_))));
    }
    // A manifest of something else is not ours to replace.
    let foreign = folder.path().join("run");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("manifest.json"), "{\"program\": \"fewstep\"}").unwrap();
    options.inputs = vec![folder.path().join("a.txt")];
    options.out = foreign;
    options.overwrite = true;
    assert!(failure(&options).contains("no manifest of prepared data"));
}

#[test]
fn damaged_data_are_named() {
    let small = Settings {
        shard_tokens: 100,
        ..byte()
    };
    let (_folder, options) = corpus("a.txt", "word ".repeat(100), small);
    prepare(&options, &()).unwrap();
    let shard = options.out.join("train-00002.bin");
    let whole = fs::read(&shard).unwrap();
    let message = || Dataset::open(&options.out).unwrap_err().to_string();
    for size in [0, 150, 202] {
        let mut bytes = whole.clone();
        bytes.resize(size, 0);
        fs::write(&shard, bytes).unwrap();
        let message = message();
        let words = format!("train-00002.bin: it has {size} bytes and should have 200");
        assert!(message.contains(&words), "{message}");
    }
    fs::remove_file(&shard).unwrap();
    assert!(message().contains("train-00002.bin"));
    let mut bytes = whole;
    bytes[1] = 0xff;
    fs::write(&shard, bytes).unwrap();
    let dataset = Dataset::open(&options.out).unwrap();
    let mut block = vec![0; 100];
    let error = dataset
        .block(Split::Train, 100, 2, &mut block)
        .unwrap_err()
        .to_string();
    assert!(error.contains("train-00002.bin: symbol "), "{error}");

    let path = options.out.join("manifest.json");
    let manifest = fs::read_to_string(&path).unwrap();
    for (old, new, words) in [
        ("\"version\": 1", "\"version\": 2", "version 2"),
        ("\"vocabulary\": 257", "\"vocabulary\": 9", "vocabulary"),
        ("\"symbol_bytes\": 2", "\"symbol_bytes\": 3", "2 nor 4"),
        (
            "\"tokens\": 100",
            "\"tokens\": 18446744073709551615",
            "add up",
        ),
        ("{", "", "manifest.json"),
    ] {
        fs::write(&path, manifest.replacen(old, new, 1)).unwrap();
        assert!(message().contains(words), "{}", message());
    }
    fs::remove_file(&path).unwrap();
    assert!(message().contains("manifest.json"));
}

/// Stops after so many batches of the second pass.
struct StopAfter {
    batches: AtomicUsize,
    encoding: AtomicBool,
}

impl StopAfter {
    fn new(batches: usize) -> Self {
        Self {
            batches: AtomicUsize::new(batches),
            encoding: AtomicBool::new(false),
        }
    }
}

impl Watch for StopAfter {
    fn begin(&self, stage: &str, _: u64) {
        self.encoding.store(stage == "encoding", Ordering::Relaxed);
    }
    fn advance(&self, _: u64) {}
    fn end(&self) {}
    fn stopped(&self) -> bool {
        self.encoding.load(Ordering::Relaxed) && self.batches.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

/// One thread, so that batches are small.
fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    pool.install(work)
}

#[test]
fn an_interrupted_preparation_ends_like_another() {
    let text = "It's a text,  of many words\nand of lines.\n\n".repeat(150_000);
    let lines = json_lines(&texts(20_000));
    let plain = Settings {
        shard_tokens: 300_000,
        ..byte()
    };
    let blocks = Settings {
        packing: Packing::Wrapped { length: 100 },
        validation: 0.3,
        ..plain.clone()
    };
    let groups = Settings {
        documents: Documents::BlankLines,
        ..plain.clone()
    };
    for (name, content, settings) in [
        ("a.txt", &text, &plain),
        ("a.txt", &text, &blocks),
        ("a.txt", &text, &groups),
        ("a.jsonl", &lines, &plain),
        ("a.jsonl", &lines, &blocks),
    ] {
        let (folder, mut options) = corpus(name, content, settings.clone());
        // A second file, so that there is a boundary.
        let second = folder.path().join("z.txt");
        fs::write(&second, &text).unwrap();
        if name != "a.txt" {
            options.inputs.push(second);
        }
        prepare(&options, &()).unwrap();
        let whole = contents(&options.out);
        options.out = folder.path().join("again");
        let mut stops = 0;
        loop {
            let watch = StopAfter::new(1 + stops % 2);
            match alone(|| prepare(&options, &watch)) {
                Err(Error::Stopped) => stops += 1,
                result => {
                    assert!(!result.unwrap().already);
                    break;
                }
            }
            // As after a crash: more was written than was noted.
            damage_tails(&options.out);
            assert!(stops < 100, "no end");
        }
        assert!(stops >= 3, "{stops}");
        assert!(contents(&options.out) == whole, "{name} {settings:?}");
    }
}

/// Lets unfinished shards be longer or finished, and leaves others behind.
fn damage_tails(directory: &Path) {
    for (name, mut bytes) in contents(directory) {
        let name = name.to_str().unwrap();
        let Some(finished) = name.strip_suffix(".part") else {
            continue;
        };
        bytes.extend([1, 2, 3]);
        fs::write(directory.join(name), bytes).unwrap();
        if name.starts_with("validation") {
            fs::rename(directory.join(name), directory.join(finished)).unwrap();
        }
    }
    fs::write(directory.join("train-00099.bin.part"), "left").unwrap();
    fs::write(directory.join("validation-00099.bin"), "left").unwrap();
}

#[test]
fn a_note_that_does_not_fit_is_refused() {
    let text = "word ".repeat(1_000_000);
    let small = Settings {
        shard_tokens: 900_000,
        ..byte()
    };
    let (_folder, options) = corpus("a.txt", &text, small);
    let watch = StopAfter::new(1);
    assert!(matches!(
        alone(|| prepare(&options, &watch)),
        Err(Error::Stopped)
    ));
    assert!(options.out.join("progress.json").exists());
    assert!(Manifest::read(&options.out).is_err());
    let mut other = options.clone();
    other.settings.seed = 3;
    assert!(failure(&other).contains("seed 0, not 3"));
    let shard = options.out.join("train-00000.bin");
    let whole = fs::read(&shard).unwrap();
    fs::write(&shard, &whole[..10]).unwrap();
    let message = failure(&options);
    assert!(
        message.contains("train-00000.bin: it has 10 bytes"),
        "{message}"
    );
    other.overwrite = true;
    assert_eq!(prepare(&other, &()).unwrap().manifest.settings.seed, 3);
    assert!(!options.out.join("progress.json").exists());
}

#[cfg(not(feature = "tokenizers"))]
#[test]
fn without_the_feature_a_tokenizer_file_is_refused() {
    let (_folder, options) = corpus("tokenizer.json", "{}", byte());
    let path = options.inputs[0].to_str().unwrap();
    let message = Tokenizer::named(path).unwrap_err().to_string();
    assert!(message.contains("--features tokenizers"), "{message}");
}

#[cfg(feature = "tokenizers")]
#[test]
fn a_tokenizer_file() {
    let json = r#"{"version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "added_tokens": [{"id": 3, "content": "</s>", "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true}],
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "to": 1, "be": 2}, "unk_token": "[UNK]"}}"#;
    let (folder, mut options) = corpus("tokenizer.json", json, byte());
    let path = options.inputs[0].to_str().unwrap().to_owned();
    let tokenizer = Tokenizer::named(&path).unwrap();
    assert_eq!((tokenizer.vocabulary(), tokenizer.eos()), (4, Some(3)));
    assert_eq!(encode(&tokenizer, "to be or"), [1, 2, 0]);
    assert_eq!(tokenizer.decode(&[1, 2, 99]), "to be");
    let text = folder.path().join("a.txt");
    fs::write(&text, "to be\n\nor\n\nto").unwrap();
    options.inputs = vec![text];
    options.settings.tokenizer = path;
    options.settings.documents = Documents::BlankLines;
    options.settings.validation = 0.0;
    prepare(&options, &()).unwrap();
    fs::remove_file(&options.settings.tokenizer).unwrap();
    let dataset = Dataset::open(&options.out).unwrap();
    assert_eq!(symbols(&dataset, Split::Train), [1, 2, 3, 0, 3, 1]);
    assert!(Tokenizer::named(options.out.join("manifest.json").to_str().unwrap()).is_err());
}

#[cfg(feature = "parquet")]
#[test]
fn a_column_of_a_parquet_file() {
    use parquet::{
        data_type::{ByteArray, ByteArrayType, Int32Type},
        file::writer::SerializedFileWriter,
        schema::parser::parse_message_type,
    };
    use std::sync::Arc;

    let (_folder, mut options) = corpus("a.parquet", "", byte());
    let schema = "message texts { required int32 id; required binary body (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = fs::File::create(&options.inputs[0]).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Default::default()).unwrap();
    for group in [["one", "two"], ["three", "four"]] {
        let mut rows = writer.next_row_group().unwrap();
        let mut ids = rows.next_column().unwrap().unwrap();
        ids.typed::<Int32Type>()
            .write_batch(&[1, 2], None, None)
            .unwrap();
        ids.close().unwrap();
        let mut texts = rows.next_column().unwrap().unwrap();
        let values = group.map(ByteArray::from);
        texts
            .typed::<ByteArrayType>()
            .write_batch(&values, None, None)
            .unwrap();
        texts.close().unwrap();
        rows.close().unwrap();
    }
    writer.close().unwrap();
    let message = failure(&options);
    assert!(
        message.contains("no column \"text\" but id, body"),
        "{message}"
    );
    options.settings.field = "body".into();
    options.settings.validation = 0.0;
    prepare(&options, &()).unwrap();
    let dataset = Dataset::open(&options.out).unwrap();
    let end = "<|endoftext|>";
    let text = dataset.tokenizer().decode(&symbols(&dataset, Split::Train));
    assert_eq!(text, format!("one{end}two{end}three{end}four"));
    options.settings.field = "id".into();
    options.overwrite = true;
    assert!(failure(&options).contains("a.parquet, line 1"));
}
