//! What `fewstep sample` and `fewstep fill` have in common: the run, the grid and the draws.

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, ValueEnum};
use fewstep::{
    image,
    report::atomic,
    sequence::{
        Model,
        sampler::{Decoding, Guidance, Kernel, State},
        trace::Recording,
    },
};
use fewstep_ctmc::Grid;

use crate::{Failure, order::OrderArgs, parse, watch::Screen};

/// Pictures in a row of an animation, and the width of a pixel.
const ANIMATED_COLUMNS: usize = 4;
const ANIMATED_ZOOM: usize = 6;

/// The kernel of a step.
#[derive(Clone, Copy, ValueEnum)]
enum KernelName {
    /// The bridge averaged over the prediction; DUO's ancestral step
    Average,
    /// A first-order step with the rate of its start
    Euler,
}

/// Arguments of every command that generates.
#[derive(ClapArgs)]
pub struct Generation {
    /// The run to generate from
    #[arg(long)]
    from: PathBuf,
    /// Steps K of a uniform grid
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Points of any other grid, increasing from 0 to 1, as in 0,0.3,0.7,1
    #[arg(long, conflicts_with = "steps", allow_hyphen_values = true, value_parser = parse::grid)]
    grid: Option<Grid>,
    /// Divides the logits
    #[arg(long, default_value_t = 1.0, value_parser = parse::positive)]
    temperature: f64,
    /// Multiplies the correction; 0 is the denoiser alone
    #[arg(long, default_value_t = 1.0, value_parser = parse::number)]
    gain: f64,
    /// Kernel of a step
    #[arg(long, value_enum, default_value = "average")]
    kernel: KernelName,
    /// Take the likeliest symbol in the last step instead of a draw, as DUO's noise removal
    #[arg(long)]
    greedy_tail: bool,
    #[command(flatten)]
    order: OrderArgs,
    /// Classes to generate in turn, by number or name, if not all
    #[arg(long, value_delimiter = ',', value_name = "CLASS")]
    classes: Option<Vec<String>>,
    /// Scale w of classifier-free guidance, for which the network is evaluated twice a step
    #[arg(long, default_value_t = 0.0, value_parser = parse::number, allow_negative_numbers = true)]
    guidance: f64,
    /// Let it rise from 0 in the first step to w in the last, as MaskGIT does
    #[arg(long)]
    ramp: bool,
    /// Seed of the draws
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Show the first sequence forming, on a terminal
    #[arg(long)]
    watch: bool,
    /// Write a page that replays the first sequences step by step, in any browser; of pictures, an
    /// animation of the first ones if it ends in .png
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

impl Generation {
    /// The run's model, with the gain set.
    pub fn open(&self) -> Result<Model, Failure> {
        let mut model = Model::open(&self.from).map_err(|e| Failure::Usage(e.to_string()))?;
        if self.gain != 1.0 && !model.corrected() {
            eprintln!("fewstep: this run has no correction; --gain changes nothing");
        }
        self.order.check(&model)?;
        self.choose(&mut model)?;
        model.denoiser.network.gain = self.gain;
        Ok(model)
    }

    /// Sets the classes that are generated.
    fn choose(&self, model: &mut Model) -> Result<(), Failure> {
        let names = model.corpus.classes();
        if names.is_empty() && (self.classes.is_some() || self.guidance != 0.0) {
            return Err(Failure::Usage(
                "this run knows no classes; leave out --classes and --guidance".into(),
            ));
        }
        let Some(wanted) = &self.classes else {
            return Ok(());
        };
        let label = |class: &String| {
            let number = class.parse().ok().filter(|&n: &usize| n < names.len());
            let found = names.iter().position(|name| name == class).or(number);
            let known = names.join(", ");
            found
                .map(|number| model.corpus.label(number))
                .ok_or_else(|| Failure::Usage(format!("no class {class}; there are {known}")))
        };
        model.labels = wanted.iter().map(label).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// The grid to walk.
    pub fn grid(&self) -> Result<Grid, Failure> {
        match &self.grid {
            Some(grid) => Ok(grid.clone()),
            None => Grid::uniform(self.steps as usize).map_err(|e| Failure::Usage(e.to_string())),
        }
    }

    /// How predictions of `model` are turned into draws.
    pub fn decoding(&self, model: &Model) -> Decoding {
        Decoding {
            temperature: self.temperature,
            kernel: match self.kernel {
                KernelName::Average => Kernel::Average,
                KernelName::Euler => Kernel::Euler,
            },
            greedy_tail: self.greedy_tail,
            order: self.order.order(),
            guidance: Guidance {
                scale: self.guidance,
                rises: self.ramp,
                unsaid: model.corpus.label(model.corpus.classes().len()),
            },
            latent: model.latent,
            steps: model.corrected(),
            ..Decoding::default()
        }
    }

    /// Who looks on while `model` walks `grid`, if anyone.
    pub fn onlooker<'a>(&self, model: &'a Model, grid: &Grid) -> Result<Onlooker<'a>, Failure> {
        if let Some(file) = &self.trace {
            // Found before the work and not after it.
            if animates(file) && model.corpus.format().is_none() {
                return Err(Failure::Usage(
                    "this run is of text, which is replayed by a page; let --trace end in .html"
                        .into(),
                ));
            }
            let directory = file.parent().filter(|dir| !dir.as_os_str().is_empty());
            if directory.is_some_and(|dir| !dir.is_dir()) || file.is_dir() {
                let file = file.display();
                return Err(Failure::Usage(format!(
                    "--trace {file} is no place for a file"
                )));
            }
        }
        let screen = if self.watch { Screen::open(grid) } else { None };
        let wanted = screen.is_some() || self.trace.is_some();
        let from = self.from.display();
        Ok(Onlooker {
            model,
            recording: wanted.then(|| Recording::new(&model.path, grid)),
            screen,
            file: self.trace.clone(),
            title: format!("{from}, {} steps, seed {}", grid.steps(), self.seed),
        })
    }
}

/// Shows and keeps a generation as it goes.
pub struct Onlooker<'a> {
    model: &'a Model,
    recording: Option<Recording>,
    screen: Option<Screen>,
    file: Option<PathBuf>,
    title: String,
}

impl Onlooker<'_> {
    /// Is given the state after `done` steps.
    pub fn see(&mut self, done: usize, state: &State) {
        let Some(recording) = &mut self.recording else {
            return;
        };
        if recording.see(done, state).is_some()
            && let Some(screen) = &self.screen
        {
            screen.show(recording, &self.model.corpus);
        }
    }

    /// Clears the screen and writes the page.
    pub fn finish(self) -> Result<(), Failure> {
        if let Some(screen) = self.screen {
            screen.close();
        }
        let (Some(recording), Some(file)) = (self.recording, self.file) else {
            return Ok(());
        };
        let failed = |e: String| Failure::Failed(e);
        match self.model.corpus.format().filter(|_| animates(&file)) {
            Some(format) => {
                let moments = recording.moments().iter();
                let frames = moments.map(|moment| {
                    let symbols = moment.frames.iter().map(|frame| &frame.symbols[..]);
                    self.model
                        .corpus
                        .pixels(&symbols.collect::<Vec<_>>().concat())
                });
                let frames: Vec<Vec<usize>> = frames.collect();
                let png = image::animation(&format, &frames, ANIMATED_COLUMNS, ANIMATED_ZOOM);
                let png = png.map_err(|e| failed(e.to_string()))?;
                atomic(&file, &png).map_err(|e| failed(e.to_string()))?;
            }
            None => recording
                .write(&self.model.corpus, &self.title, &file)
                .map_err(|e| failed(e.to_string()))?,
        }
        eprintln!("{}", file.display());
        Ok(())
    }
}

/// Whether a trace is an animation and no page.
fn animates(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "png")
}
