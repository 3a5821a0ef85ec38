//! `fewstep eval`: numbers about sequences from a run.
//!
//! Likelihood comes from the law of the data where it is known, else from a hidden Markov language
//! fitted to them; the rows of real sequences and of samplers that know only frequencies stand
//! beside, so that a number that can be gamed shows it. With `--judge` a pretrained language model
//! reads the text of every row too.

use std::{path::PathBuf, time::Instant};

use clap::Args as ClapArgs;
use fewstep::{
    image::PIXELS,
    judge::Protocol,
    sequence::{
        Corpus, Model, Use,
        evaluate::{Diversity, Quality, diversity, quality},
        sampler::{Decoding, Guidance},
    },
    text::{Control, control},
};
use fewstep_ctmc::{Grid, Language};
use serde_json::{Value, json};

use crate::{Failure, judge::Bench, order::OrderArgs, parse};

/// Arguments of `fewstep eval`.
#[derive(ClapArgs)]
pub struct Args {
    /// The run or checkpoint to evaluate
    #[arg(long)]
    from: PathBuf,
    /// Numbers of steps
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64, 128],
          value_parser = clap::value_parser!(u32).range(1..))]
    steps: Vec<u32>,
    /// Points of any other grid, increasing from 0 to 1, as in 0,0.3,0.7,1
    #[arg(long, conflicts_with = "steps", allow_hyphen_values = true, value_parser = parse::grid)]
    grid: Option<Grid>,
    /// Temperatures
    #[arg(long, value_delimiter = ',', default_values_t = [1.0], value_parser = parse::positive)]
    temperatures: Vec<f64>,
    #[command(flatten)]
    order: OrderArgs,
    /// Gains on the correction
    #[arg(long, value_delimiter = ',', default_values_t = [1.0], value_parser = parse::number)]
    gains: Vec<f64>,
    /// Scales of classifier-free guidance, where there are classes
    #[arg(long, value_delimiter = ',', default_values_t = [0.0], value_parser = parse::number)]
    guidance: Vec<f64>,
    /// Sequences of each setting
    #[arg(long, default_value_t = 256)]
    samples: usize,
    /// Estimate the conditional total correlation too, from this many walks of each of --sources sources.
    /// It is biased upwards; walks with symbols exchanged among them stand beside
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    walks: Option<u32>,
    /// Sources that --walks starts from
    #[arg(long, default_value_t = 128, requires = "walks", value_parser = clap::value_parser!(u32).range(1..))]
    sources: u32,
    /// Seed of the draws
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A language model to judge the text by: a .gguf file, or a Hugging Face directory of a GPT-2
    /// or Llama
    #[arg(long, value_name = "PATH")]
    judge: Option<PathBuf>,
    /// What the judge's perplexity counts: as MDLM and DUO, or as ReDi
    #[arg(long, default_value_t, requires = "judge", value_name = "duo|redi")]
    protocol: Protocol,
    /// One line of JSON a setting
    #[arg(long)]
    json: bool,
}

impl Args {
    fn grids(&self) -> Result<Vec<Grid>, Failure> {
        let grids: Result<Vec<Grid>, _> = match &self.grid {
            Some(grid) => Ok(vec![grid.clone()]),
            None => self
                .steps
                .iter()
                .map(|&k| Grid::uniform(k as usize))
                .collect(),
        };
        grids.map_err(|e| Failure::Usage(e.to_string()))
    }

    /// Reads generated pictures back, where that can be done: a line for each setting.
    fn read_back(&self, model: &mut Model) -> Result<(), Failure> {
        let Corpus::Figures(figures, _) = &model.corpus else {
            return Err(Failure::Usage(
                "pictures from files have no law to be compared with; look at them with `fewstep sample \
                 --pictures sheet.png`"
                    .into(),
            ));
        };
        let (figures, classes) = (figures.clone(), model.corpus.classes().len());
        let unsaid = model.corpus.label(classes);
        if !self.json {
            println!("{:36}  nfe  accuracy  unread  TV of attributes", "");
        }
        for grid in self.grids()? {
            for &gain in &self.gains {
                for &temperature in &self.temperatures {
                    for &scale in &self.guidance {
                        let how = Decoding {
                            temperature,
                            order: self.order.order(),
                            guidance: Guidance {
                                scale,
                                rises: false,
                                unsaid,
                            },
                            ..Decoding::default()
                        };
                        let (x, nfe) =
                            model.generate(&grid, (how, gain), (self.samples, self.seed));
                        let pixels = model.corpus.pixels(&x);
                        let pictures = pixels.chunks_exact(PIXELS).zip((0..classes).cycle());
                        let found = figures.quality(pictures);
                        let k = grid.steps();
                        if self.json {
                            let line = json!({
                                "k": k, "nfe": nfe, "temperature": temperature, "gain": gain,
                                "guidance": scale, "quality": found,
                            });
                            println!("{line}");
                            continue;
                        }
                        let name = format!("K {k}, T {temperature}, gain {gain}, guidance {scale}");
                        println!(
                            "{name:36}  {nfe:3}  {:8.4}  {:6.4}  {:6.4}",
                            found.accuracy, found.unread, found.tv
                        );
                    }
                }
            }
        }
        Ok(())
    }
}

/// Measures what is asked for, a line each.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut model = Model::open(&args.from).map_err(|e| Failure::Usage(e.to_string()))?;
    args.order.check(&model)?;
    if args.samples < 2 {
        return Err(Failure::Usage("--samples must be at least 2".into()));
    }
    if model.corpus.format().is_some() {
        return args.read_back(&mut model);
    }
    let bench = match &args.judge {
        Some(path) => Some(Bench::open(path, args.protocol, &model.corpus)?),
        None => None,
    };
    let failed = |e: fewstep::sequence::RunError| Failure::Failed(e.to_string());
    let judge = model.corpus.judge(model.length).map_err(failed)?;
    let mut table = Table {
        length: model.length,
        language: judge.as_ref().map(|(language, _)| language),
        bench,
        json: args.json,
    };
    if !args.json {
        println!("{}", about(judge.as_ref().map(|(_, exact)| *exact)));
        if let Some(path) = &args.judge {
            println!(
                "judge ppl by {}, protocol {}",
                path.display(),
                args.protocol
            );
        }
        println!();
        table.head();
    }
    // Real sequences, where there are some.
    if let Ok(x) = model
        .corpus
        .sequences(Use::Validation, args.samples, model.length)
    {
        table.row("data", json!({}), (&model.corpus, &x))?;
    }
    if let Some(language) = table.language {
        for of in [Control::Unigram, Control::Bigram] {
            let x = control(language, of, (args.samples, model.length), args.seed);
            table.row(of.name(), json!({}), (&model.corpus, &x))?;
        }
    }
    for grid in args.grids()? {
        for &gain in &args.gains {
            for &temperature in &args.temperatures {
                let how = Decoding {
                    temperature,
                    order: args.order.order(),
                    ..Decoding::default()
                };
                let of = (args.samples, args.seed);
                let start = Instant::now();
                let (x, nfe) = model.generate(&grid, (how, gain), of);
                let steps = grid.steps();
                let seconds = start.elapsed().as_secs_f64();
                let correlation = args.walks.map(|walks| {
                    let of = (args.sources as usize, walks as usize);
                    model.correlation(&grid, how, of, args.seed)
                });
                let way = json!({
                    "k": steps, "grid": args.grid.as_ref().map(Grid::points), "nfe": nfe,
                    "temperature": temperature, "gain": gain, "seconds": seconds,
                    "conditional_total_correlation": correlation,
                });
                let name = format!("K {steps}, T {temperature}, gain {gain}");
                table.row(&name, way, (&model.corpus, &x))?;
                if let (Some(found), false) = (correlation, args.json) {
                    println!(
                        "{:26}conditional total correlation {:.4} nats by frequencies, {:.4} with symbols \
                         exchanged",
                        "", found.plug_in, found.exchanged
                    );
                }
            }
        }
    }
    Ok(())
}

fn about(exact: Option<bool>) -> &'static str {
    match exact {
        Some(true) => "judged by the law of the data itself",
        Some(false) => "judged by a hidden Markov language fitted to the training data",
        None => "no judge for so many symbols: variety only",
    }
}

/// Over the judge's numbers.
const HEAD: &str = "   judge ppl   tokens";

/// The rows that are printed.
struct Table<'a> {
    length: usize,
    language: Option<&'a Language>,
    bench: Option<Bench>,
    json: bool,
}

impl Table<'_> {
    fn head(&self) {
        let judged = "      NLL            bigram TV  trigram  skip-gram";
        println!(
            "{:26}{}  entropy  distinct 1, 2, 3     repeated{}",
            "",
            if self.language.is_some() { judged } else { "" },
            if self.bench.is_some() { HEAD } else { "" },
        );
    }

    fn row(
        &mut self,
        name: &str,
        way: Value,
        (corpus, x): (&Corpus, &[usize]),
    ) -> Result<(), Failure> {
        let varied: Diversity = diversity(x, self.length);
        let found: Option<Quality> = self.language.map(|l| quality(l, x, self.length));
        let read = match &mut self.bench {
            Some(bench) => {
                let texts = x.chunks_exact(self.length).map(|x| corpus.show(x));
                Some((
                    bench.score(name, &texts.collect::<Vec<_>>())?,
                    bench.protocol,
                ))
            }
            None => None,
        };
        if self.json {
            let mut line = json!({ "name": name, "quality": found, "diversity": varied });
            let judged = read.map(|(score, protocol)| {
                json!({
                    "judge_perplexity": score.perplexity, "judge_tokens": score.tokens,
                    "protocol": protocol.name(),
                })
            });
            for more in [Some(way), judged].into_iter().flatten() {
                if let (Some(line), Value::Object(more)) = (line.as_object_mut(), more) {
                    line.extend(more);
                }
            }
            println!("{line}");
            return Ok(());
        }
        let judged = found.map_or_else(String::new, |q| {
            let trigram = q.trigram.map_or("      –".into(), |tv| format!("{tv:7.4}"));
            format!(
                "{:8.4} +- {:.4}  {:9.4}  {trigram}  {:7.4}",
                q.nll, q.nll_error, q.bigram, q.skipgram
            )
        });
        let read = read.map_or_else(String::new, |(score, _)| {
            format!("  {:9.2}  {:7}", score.perplexity, score.tokens)
        });
        let [one, two, three] = varied.distinct;
        println!(
            "{name:26}{judged}  {:7.4}  {one:.4} {two:.4} {three:.4}  {:7.4}{read}",
            varied.entropy, varied.repetition
        );
        Ok(())
    }
}
