//! `fewstep data`: text and pictures to symbols in shards that training reads.

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use clap::ValueEnum;
use fewstep::{
    data::{
        self, Dataset, Description, Documents, Error, Manifest, Options, Packing, PictureOptions,
        Settings, Split, Watch, prepare, prepare_pictures,
    },
    image::{Format, Pixels},
};
use indicatif::{DecimalBytes, HumanCount, ProgressBar, ProgressStyle};

use crate::Failure;

/// Symbols of the excerpt in the summary.
const EXCERPT: usize = 24;

/// Turn text or pictures into symbols to train on: documents are split into training and validation, encoded,
/// packed and written to a directory. An interrupted preparation is continued by the same command.
#[derive(clap::Args)]
pub struct Args {
    /// Text files, .jsonl files with a document a line, .parquet files, and folders of these; with
    /// --pixels, one directory of IDX files (MNIST), CIFAR's .bin files, or PNG and JPEG files in a folder
    /// for each class
    #[arg(required_unless_present = "show")]
    inputs: Vec<PathBuf>,
    /// The directory to write
    #[arg(long, value_name = "DIR", required_unless_present = "show")]
    out: Option<PathBuf>,
    /// byte, char (the characters that occur), gpt2, or the path of a tokenizer.json
    #[arg(long, default_value = "gpt2", value_name = "NAME")]
    tokenizer: String,
    /// Pictures: a symbol for each pixel, grey:LEVELS or colour:LEVELS (of each of three channels)
    #[arg(long, value_name = "WHAT", value_parser = pixels, conflicts_with_all = ["tokenizer", "packing", "length", "documents", "field", "lossy", "shard_tokens"])]
    pixels: Option<Pixels>,
    /// Pictures: width and height in pixels, to which they are cropped at the centre and resized
    #[arg(long, value_name = "WxH", value_parser = size, default_value = "28x28", requires = "pixels")]
    size: (usize, usize),
    /// Pictures: mirror those to train on, too
    #[arg(long, requires = "pixels")]
    flip: bool,
    /// How documents are put together
    #[arg(long, value_enum, default_value_t)]
    packing: PackingName,
    /// Symbols of a block of wrapped packing
    #[arg(long, value_name = "SYMBOLS")]
    length: Option<usize>,
    /// The fraction of documents that is kept aside; of an only document, its end
    #[arg(long, default_value_t = 0.05, value_name = "FRACTION")]
    validation: f64,
    /// What a document is in a text file: file, blank-lines (between them), or line=SEPARATOR
    /// (between lines that are exactly this)
    #[arg(long, default_value = "file", value_name = "WHAT", value_parser = documents)]
    documents: Documents,
    /// The field of JSON lines, or column of Parquet files, with the text
    #[arg(long, default_value = "text", value_name = "NAME")]
    field: String,
    /// Which documents are kept aside
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The most symbols of a file
    #[arg(long, default_value_t = 64 << 20, value_name = "SYMBOLS")]
    shard_tokens: u64,
    /// Replace bytes that are no text instead of refusing the file
    #[arg(long)]
    lossy: bool,
    /// Begin anew where there are data already
    #[arg(long)]
    overwrite: bool,
    /// Say what is in a directory of prepared data
    #[arg(long, value_name = "DIR", exclusive = true)]
    show: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum PackingName {
    /// One after the other, the end symbol between them
    #[default]
    Plain,
    /// As DUO and MDLM do: pieces of documents between two end symbols, of one length
    Wrapped,
}

fn documents(text: &str) -> Result<Documents, String> {
    match (text, text.strip_prefix("line=")) {
        ("file", _) => Ok(Documents::File),
        ("blank-lines", _) => Ok(Documents::BlankLines),
        (_, Some(separator)) if !separator.trim_end().is_empty() => {
            Ok(Documents::Separator(separator.trim_end().into()))
        }
        _ => Err("use file, blank-lines or line=SEPARATOR".into()),
    }
}

fn pixels(text: &str) -> Result<Pixels, String> {
    let usage = || "use grey:LEVELS or colour:LEVELS".to_string();
    let (kind, levels) = text.split_once(':').ok_or_else(usage)?;
    let levels = levels.parse().map_err(|_| usage())?;
    match kind {
        "grey" => Ok(Pixels::Grey(levels)),
        "colour" => Ok(Pixels::Colour(levels)),
        _ => Err(usage()),
    }
}

fn size(text: &str) -> Result<(usize, usize), String> {
    let usage = || "use WIDTHxHEIGHT, as 28x28".to_string();
    let (width, height) = text.split_once('x').ok_or_else(usage)?;
    let side = |text: &str| text.parse().map_err(|_| usage());
    Ok((side(width)?, side(height)?))
}

/// Prepares pictures.
fn pictures(args: &Args, pixels: Pixels) -> Result<(), Failure> {
    let [input] = &args.inputs[..] else {
        return Err(Failure::Usage(
            "--pixels takes one directory of pictures".into(),
        ));
    };
    let (width, height) = args.size;
    let options = PictureOptions {
        input: input.clone(),
        out: args.out.clone().unwrap_or_else(|| "data".into()),
        format: Format {
            width,
            height,
            pixels,
        },
        flip: args.flip,
        validation: args.validation,
        seed: args.seed,
        overwrite: args.overwrite,
    };
    let prepared = prepare_pictures(&options).map_err(failure)?;
    if prepared.already {
        print(&format!("{} is prepared already\n", options.out.display()));
    }
    show(&options.out)
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(directory) = &args.show {
        return show(directory);
    }
    if let Some(pixels) = args.pixels {
        return pictures(args, pixels);
    }
    let options = options(args)?;
    let progress = Progress::new()?;
    let prepared = prepare(&options, &progress).map_err(failure)?;
    if prepared.already {
        print(&format!("{} is prepared already\n", options.out.display()));
    }
    show(&options.out)
}

/// What was typed, as far as it makes sense together.
fn options(args: &Args) -> Result<Options, Failure> {
    let packing = match (args.packing, args.length) {
        (PackingName::Plain, None) => Packing::Plain,
        (PackingName::Wrapped, Some(length)) => Packing::Wrapped { length },
        (PackingName::Plain, Some(_)) => {
            return Err(Failure::Usage(
                "--length is for --packing wrapped; plain data are cut when they are read".into(),
            ));
        }
        (PackingName::Wrapped, None) => {
            return Err(Failure::Usage("--packing wrapped needs --length".into()));
        }
    };
    let settings = Settings {
        tokenizer: args.tokenizer.clone(),
        packing,
        validation: args.validation,
        seed: args.seed,
        documents: args.documents.clone(),
        field: args.field.clone(),
        lossy: args.lossy,
        shard_tokens: args.shard_tokens,
    };
    Ok(Options {
        settings,
        overwrite: args.overwrite,
        ..Options::new(
            args.inputs.clone(),
            args.out.clone().unwrap_or_else(|| "data".into()),
        )
    })
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Option(message) => Failure::Usage(message),
        Error::Stopped => {
            eprintln!("fewstep: {error}");
            Failure::Interrupted
        }
        error => Failure::Failed(error.to_string()),
    }
}

/// Prints what is in a directory.
fn show(directory: &Path) -> Result<(), Failure> {
    let dataset = Dataset::open(directory).map_err(failure)?;
    let length = match dataset.manifest().settings.packing {
        Packing::Plain => EXCERPT.min(dataset.tokens(Split::Train)),
        Packing::Wrapped { length } | Packing::Whole { length } => length,
    };
    let mut symbols = vec![0; length];
    let first = dataset.block(Split::Train, length, 0, &mut symbols);
    first.map_err(failure)?;
    let ids: Vec<u32> = symbols.iter().take(EXCERPT).map(|&id| id as u32).collect();
    let begins = dataset.tokenizer().decode(&ids);
    let table = table(dataset.manifest());
    print(&format!("{table}begins       {begins:?}\n"));
    Ok(())
}

/// A closed pipe is no reason to fail.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn table(manifest: &Manifest) -> String {
    let [train, validation] = [&manifest.train, &manifest.validation];
    let sum = |get: fn(&data::Part) -> u64| {
        let [train, validation] = [get(train), get(validation)].map(HumanCount);
        format!("{train} to train on, {validation} kept aside")
    };
    let text = train.text_bytes + validation.text_bytes;
    let tokens = train.tokens + validation.tokens;
    let tokenizer = match &manifest.tokenizer {
        Description::Byte => "byte",
        Description::Characters { .. } => "char",
        Description::Gpt2 => "gpt2",
        Description::HuggingFace { .. } | Description::Pictures(_) => &manifest.settings.tokenizer,
    };
    let eos = manifest.eos.map_or("none".into(), |eos| eos.to_string());
    let packing = match manifest.settings.packing {
        Packing::Plain => "plain".into(),
        Packing::Wrapped { length } => format!("wrapped, blocks of {length}"),
        Packing::Whole { length } => format!(
            "pictures, {} {} and a class",
            length - 1,
            match &manifest.tokenizer {
                Description::Pictures(pictures) if pictures.codes.is_some() => "codes",
                _ => "pixels",
            }
        ),
    };
    let lines = [
        (
            "sources",
            HumanCount(manifest.sources.len() as u64).to_string(),
        ),
        ("documents", sum(|part| part.documents)),
        ("symbols", sum(|part| part.tokens)),
        (
            "text",
            format!(
                "{}, {:.2} bytes a symbol",
                DecimalBytes(text),
                text as f64 / tokens.max(1) as f64
            ),
        ),
        (
            "tokenizer",
            format!(
                "{tokenizer}, {} symbols, end of document {eos}",
                manifest.vocabulary
            ),
        ),
        ("packing", packing),
        ("validation", manifest.split.clone()),
        (
            "shards",
            HumanCount((train.shards.len() + validation.shards.len()) as u64).to_string(),
        ),
    ];
    let line = |(label, value): (&str, String)| format!("{label:<13}{value}\n");
    lines.into_iter().map(line).collect()
}

/// Set by Ctrl-C.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Bytes, rate and time left on a terminal, a line per pass elsewhere.
struct Progress(Mutex<(String, ProgressBar, Instant)>);

impl Progress {
    /// Starts to listen for Ctrl-C.
    fn new() -> Result<Self, Failure> {
        ctrlc::set_handler(|| {
            if STOPPED.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
        })
        .map_err(|e| Failure::Failed(format!("cannot listen for Ctrl-C: {e}")))?;
        let nothing = (String::new(), ProgressBar::hidden(), Instant::now());
        Ok(Self(Mutex::new(nothing)))
    }

    fn pass(&self) -> std::sync::MutexGuard<'_, (String, ProgressBar, Instant)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Progress {
    fn begin(&self, stage: &str, bytes: u64) {
        let bar = ProgressBar::new(bytes);
        let style = "{msg:10} {bar:32} {decimal_bytes}/{decimal_total_bytes}  {decimal_bytes_per_sec}  {eta} left";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        bar.set_message(stage.to_owned());
        *self.pass() = (stage.to_owned(), bar, Instant::now());
    }

    fn advance(&self, bytes: u64) {
        self.pass().1.set_position(bytes);
    }

    fn end(&self) {
        let (stage, bar, start) = &*self.pass();
        bar.finish_and_clear();
        if !std::io::stderr().is_terminal() {
            eprintln!("{stage:10} {:.1} s", start.elapsed().as_secs_f64());
        }
    }

    fn stopped(&self) -> bool {
        STOPPED.load(Ordering::SeqCst)
    }
}
