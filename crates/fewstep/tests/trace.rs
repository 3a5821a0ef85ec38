//! A recorded generation: what the page says is what the sampler did, and nothing in it is markup
//! that was not ours.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report.

use std::{fs, path::Path as FilePath};

use fewstep::{
    data::{Options, prepare},
    sequence::{
        Chain, Corpus, Data, Oracle,
        sampler::{Decoding, State, generate, watched},
        trace::{Kind, MASK, Recording, Replay},
    },
};
use fewstep_ctmc::{Grid, Language, Path};

const LENGTH: usize = 12;

fn language() -> Language {
    Language::default_with(5, 4, 3).unwrap()
}

/// The recording of a generation by the exact denoiser, which must not notice it.
fn recorded(chain: Chain, count: usize) -> (Recording, Vec<usize>) {
    let path = chain.path(5).unwrap();
    let oracle = Oracle {
        law: language(),
        path: path.clone(),
    };
    let grid = Grid::new(vec![0.0, 0.3, 0.7, 1.0]).unwrap();
    let (how, sizes) = (Decoding::default(), (count, LENGTH, 10));
    let mut recording = Recording::new(&path, &grid);
    let (x, nfe) = watched(
        &oracle,
        &path,
        &grid,
        (&how, &[]),
        sizes,
        2,
        |done, state| {
            recording.see(done, state);
        },
    );
    assert_eq!(
        (x.clone(), nfe),
        generate(&oracle, &path, &grid, &how, sizes, 2)
    );
    (recording, x)
}

/// The JSON of a page.
fn replay(page: &str) -> Replay {
    let (_, rest) = page
        .split_once("<script type=\"application/json\" id=\"trace\">")
        .unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// The text of every moment of a sequence, from the differences alone.
fn texts(replay: &Replay, sequence: usize) -> Vec<String> {
    let mut cells = vec![String::new(); 1];
    let moments = replay.moments.iter().map(|moment| {
        for cell in &moment.cells[sequence] {
            cells.resize(cells.len().max(cell.0 + 1), String::new());
            cells[cell.0] = cell.1.clone();
        }
        cells.join(&replay.separator)
    });
    moments.collect()
}

#[test]
fn a_page_has_every_step() {
    let corpus = Corpus::Language(language());
    for chain in [Chain::Masked, Chain::Uniform, Chain::UniformState] {
        // More than one batch: only the first is kept, and of it the first eight.
        let (recording, x) = recorded(chain, 14);
        assert_eq!(recording.moments().len(), 4);
        assert_eq!(recording.moments()[3].frames.len(), 8);
        let page = recording.page(&corpus, "a <b>");
        assert!(page.contains("<h1>a &lt;b&gt;</h1>") && !page.contains("<b>"));
        assert!(!page.contains("http"), "nothing is fetched");
        let replay = replay(&page);
        assert_eq!(replay, recording.replay(&corpus));
        let times: Vec<f64> = replay.moments.iter().map(|m| m.t).collect();
        assert_eq!(times, [0.0, 0.3, 0.7, 1.0]);
        assert_eq!(replay.moments[3].nfe, 3);
        for sequence in 0..8 {
            let texts = texts(&replay, sequence);
            for (text, moment) in texts.iter().zip(recording.moments()) {
                assert_eq!(*text, moment.frames[sequence].text(&corpus));
                assert!(page.contains(&format!("<pre>{text}</pre>")), "{text}");
            }
            let own = &x[sequence * LENGTH..][..LENGTH];
            assert_eq!(texts[3], corpus.show(own));
        }
    }
}

#[test]
fn noise_masks_and_changes_are_told() {
    for chain in [Chain::Masked, Chain::Uniform, Chain::UniformState] {
        let (recording, _) = recorded(chain, 2);
        let kinds = |moment: usize| recording.moments()[moment].frames[1].kinds.clone();
        let (other, begin) = match chain {
            Chain::Masked => (Kind::Noise, Kind::Masked),
            _ => (Kind::Masked, Kind::Noise),
        };
        assert_eq!(kinds(0), vec![begin; LENGTH], "{chain:?}");
        assert_eq!(kinds(3), vec![Kind::Drawn; LENGTH], "{chain:?}");
        let middle = kinds(1);
        assert!(!middle.contains(&other) && middle.contains(&Kind::Drawn));
        // What is still noise has not changed; behind a mask, all that is drawn has.
        for (i, kind) in middle.iter().enumerate() {
            let changed = recording.changed(1, 1, i);
            assert!(!(changed && *kind == begin), "{chain:?} at {i}");
            assert!(chain != Chain::Masked || changed == (*kind == Kind::Drawn));
        }
        assert!((0..LENGTH).all(|i| !recording.changed(0, 1, i)));
    }
}

/// A corpus of text on disk.
fn prepared(dir: &FilePath, text: &str, tokenizer: &str) -> Corpus {
    let file = dir.join("a.txt");
    fs::write(&file, text.repeat(100)).unwrap();
    let out = dir.join(tokenizer);
    let mut options = Options::new(vec![file], out.clone());
    options.settings.tokenizer = tokenizer.into();
    options.overwrite = true;
    prepare(&options, &()).unwrap();
    Corpus::open(&Data::Shards(out)).unwrap()
}

/// A recording of a state that is this text, with a mask in the middle at first.
fn written(corpus: &Corpus, text: &str) -> (Recording, usize) {
    let mut tokens = Vec::new();
    corpus
        .tokenizer()
        .unwrap()
        .encode(text, &mut tokens)
        .unwrap();
    let path: Path = Chain::Masked.path(corpus.symbols()).unwrap();
    let mut state = State::noise(&path, (0, 1), tokens.len(), 0);
    let mut recording = Recording::new(&path, &Grid::uniform(1).unwrap());
    for (i, &token) in tokens.iter().enumerate() {
        state.x[i] = token as usize;
    }
    let (hidden, whole) = (tokens.len() / 2, state.clone());
    state.x[hidden] = path.mask().unwrap();
    recording.see(0, &state);
    recording.see(1, &whole);
    (recording, hidden)
}

#[test]
fn text_is_escaped_and_characters_stay_whole() {
    let dir = tempfile::tempdir().unwrap();
    let text = "</script><script>alert('é€😀')</script>&amp;\n";
    for tokenizer in ["byte", "char", "gpt2"] {
        let corpus = prepared(dir.path(), text, tokenizer);
        let (recording, hidden) = written(&corpus, text);
        let page = recording.page(&corpus, "t");
        assert_eq!(page.matches("<script").count(), 2, "{tokenizer}");
        assert_eq!(page.matches("</script").count(), 2, "{tokenizer}");
        assert!(page.contains("&lt;script&gt;alert(&#39;é€😀&#39;)&lt;/script&gt;&amp;amp;\n"));
        let texts = texts(&replay(&page), 0);
        assert_eq!(texts[1], text, "{tokenizer}");
        assert!(texts[0].contains(MASK) && texts[0] != texts[1]);
        let changed = &recording.replay(&corpus).moments[1].changed;
        assert_eq!(*changed, [[hidden]], "{tokenizer}");
    }
    // A character that was never finished is shown as what it is.
    let corpus = prepared(dir.path(), "x", "byte");
    let (recording, _) = written(&corpus, "é");
    let frame = &recording.moments()[0].frames[0];
    assert_eq!(frame.text(&corpus), format!("\u{fffd}{MASK}"));
}
