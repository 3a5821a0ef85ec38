//! `fewstep data` as a user types it.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use assert_cmd::cargo::cargo_bin;
use fewstep::data::{Dataset, Split};
use tempfile::tempdir;

/// The command in a folder, with the words of a line.
fn fewstep(folder: &Path, words: &str) -> Command {
    let mut command = Command::new(cargo_bin!("fewstep"));
    command.current_dir(folder).arg("data");
    command.args(words.split_whitespace());
    command
}

fn run(folder: &Path, words: &str) -> Output {
    fewstep(folder, words).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn contents(directory: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let file = |entry: fs::DirEntry| (entry.file_name(), fs::read(entry.path()).unwrap());
    entries.map(file).collect()
}

#[test]
fn a_text_is_prepared_once() {
    let folder = tempdir().unwrap();
    let play = "First Citizen:\nBefore we proceed any further, hear me speak.\n\n".repeat(50);
    fs::write(folder.path().join("play.txt"), &play).unwrap();
    let result = run(folder.path(), "play.txt --out play --documents blank-lines");
    assert_eq!(result.status.code(), Some(0), "{result:?}");
    let summary = text(&result.stdout);
    for expected in [
        "sources      1\n",
        "documents    4",
        "symbols      ",
        "bytes a symbol\n",
        "tokenizer    gpt2, 50257 symbols, end of document 50256\n",
        "packing      plain\n",
        "validation   whole documents, drawn by seed and number\n",
        "shards       2\n",
        "begins       \"First Citizen:\\nBefore we proceed any further, hear me speak.<|endoftext|>First",
    ] {
        assert!(summary.contains(expected), "{expected}{summary}");
    }
    let before = contents(&folder.path().join("play"));
    let shown = run(folder.path(), "--show play");
    assert_eq!(
        (shown.status.code(), text(&shown.stdout)),
        (Some(0), summary)
    );
    let again = run(folder.path(), "play.txt --out play --documents blank-lines");
    assert_eq!(again.status.code(), Some(0));
    assert!(text(&again.stdout).starts_with("play is prepared already\n"));
    let other = run(folder.path(), "play.txt --out play --tokenizer byte");
    assert_eq!(other.status.code(), Some(1));
    let message = text(&other.stderr);
    assert!(
        message.contains("tokenizer \"gpt2\", not \"byte\"") && message.contains("--overwrite"),
        "{message}"
    );
    assert_eq!(contents(&folder.path().join("play")), before);
    let words = "play.txt --out play --tokenizer char --packing wrapped --length 32 --overwrite";
    let other = run(folder.path(), words);
    assert_eq!(other.status.code(), Some(0), "{other:?}");
    let summary = text(&other.stdout);
    assert!(
        summary.contains("packing      wrapped, blocks of 32\n"),
        "{summary}"
    );
    let dataset = Dataset::open(folder.path().join("play")).unwrap();
    assert!(dataset.blocks(Split::Train, 32).unwrap() > 90);
}

#[test]
fn what_does_not_work_is_one_line() {
    let folder = tempdir().unwrap();
    for (name, content) in [
        ("a.txt", &b"text"[..]),
        ("empty.txt", b""),
        ("latin.txt", b"caf\xe9"),
        ("image.txt", b"\x89PNG\0"),
        ("a.jsonl", b"{\"body\": \"a\"}"),
    ] {
        fs::write(folder.path().join(name), content).unwrap();
    }
    for (words, code, expected) in [
        ("empty.txt --out o", 1, "empty.txt: it holds no text"),
        ("latin.txt --out o", 1, "latin.txt: no UTF-8 at byte 3"),
        ("image.txt --out o", 1, "image.txt: a NUL at byte 4"),
        ("a.jsonl --out o", 1, "a.jsonl, line 1: no field \"text\""),
        ("missing.txt --out o", 1, "missing.txt"),
        ("a.txt --out a.txt", 1, "a.txt"),
        ("--show o", 1, "o/manifest.json"),
        ("", 2, "required"),
        ("a.txt", 2, "--out"),
        ("a.txt --out o --show o", 2, "--show"),
        ("a.txt --out o --packing wrapped", 2, "needs --length"),
        (
            "a.txt --out o --packing wrapped --length 2",
            2,
            "at least 3",
        ),
        ("a.txt --out o --length 64", 2, "--packing wrapped"),
        ("a.txt --out o --validation 1", 2, "less than 1"),
        ("a.txt --out o --tokenizer gpt5", 2, "no tokenizer \"gpt5\""),
        ("a.txt --out o --documents pages", 2, "line=SEPARATOR"),
        ("a.txt --out o --seed x", 2, "--seed"),
    ] {
        let result = run(folder.path(), words);
        assert_eq!(result.status.code(), Some(code), "{words}: {result:?}");
        let message = text(&result.stderr);
        assert!(message.contains(expected), "{words}: {message}");
        assert!(
            result.stdout.is_empty() && message.lines().count() == 1,
            "{message}"
        );
    }
    let lossy = run(folder.path(), "latin.txt --out o --lossy --tokenizer byte");
    assert_eq!(lossy.status.code(), Some(0), "{lossy:?}");
}

#[cfg(unix)]
#[test]
fn a_killed_preparation_is_continued() {
    let folder = tempdir().unwrap();
    let line = |i: usize| {
        format!(
            "{{\"text\": \"Line {i} of many, with {} in it.\"}}\n",
            i * i
        )
    };
    let lines: String = (0..150_000).map(line).collect();
    fs::write(folder.path().join("a.jsonl"), lines).unwrap();
    let words = "a.jsonl --shard-tokens 150000 --threads 1 --out";
    let whole = run(folder.path(), &format!("{words} whole"));
    assert_eq!(whole.status.code(), Some(0), "{whole:?}");
    let out = folder.path().join("killed");
    let mut kills = 0;
    for _ in 0..3 {
        let before = fs::read(out.join("progress.json")).ok();
        let mut child = fewstep(folder.path(), &format!("{words} killed"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let start = Instant::now();
        // Until it has got further than before.
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            let now = fs::read(out.join("progress.json")).ok();
            if now.is_some() && now != before {
                break None;
            }
            assert!(start.elapsed() < Duration::from_secs(120), "no progress");
            std::thread::sleep(Duration::from_millis(2));
        };
        if ended.is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
        }
    }
    assert!(kills > 0, "it was never killed");
    let last = run(folder.path(), &format!("{words} killed"));
    assert_eq!(last.status.code(), Some(0), "{last:?}");
    assert!(contents(&out) == contents(&folder.path().join("whole")));
}
