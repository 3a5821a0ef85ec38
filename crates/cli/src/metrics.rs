//! `fewstep metrics`: how far generated pictures are from others.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use fewstep::{
    lab::Monitor,
    metrics::{Eye, Features, Kept, Measured, MetricError, measure},
};
use serde_json::json;

use crate::{Failure, progress::Progress};

/// FID, Inception Score, precision, recall, density and coverage of pictures, on the features of the FID's
/// Inception network. What it sees is kept beside the pictures and not seen again.
#[derive(ClapArgs)]
pub struct Args {
    /// Generated pictures: a directory of PNG or JPEG files, or an .npz file with their features
    samples: PathBuf,
    /// What they are measured against: a directory of pictures, or an .npz file with features or with mu
    /// and sigma
    #[arg(long)]
    reference: PathBuf,
    /// Weights of the Inception network, for directories
    #[arg(long)]
    inception: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn failed(error: MetricError) -> Failure {
    Failure::Failed(error.to_string())
}

/// Features or statistics of a file, or what the network sees in a directory.
fn held(path: &Path, eye: Option<&Eye>, progress: &Progress) -> Result<Kept, Failure> {
    if !path.exists() {
        return Err(Failure::Failed(format!(
            "{}: there is no such file",
            path.display()
        )));
    }
    if !path.is_dir() {
        return Kept::read(path).map_err(failed);
    }
    let Some(eye) = eye else {
        return Err(Failure::Usage(format!(
            "{} is a directory of pictures; give --inception with the network that is to see them",
            path.display()
        )));
    };
    let stage = format!("seeing {}", path.display());
    let mut begun = false;
    let seen = Features::see(path, eye, |done, all| {
        if !begun {
            progress.begin(&stage, all);
            begun = true;
        }
        progress.advance(&stage, done);
    });
    let (features, kept) = seen.map_err(failed)?;
    if begun {
        progress.end(&stage);
    }
    if let Some(why) = kept {
        eprintln!("fewstep: the features could not be kept: {why}");
    }
    Ok(Kept::Features(features))
}

/// Measures and prints.
pub fn run(args: &Args) -> Result<(), Failure> {
    let progress = Progress::new(None)?;
    let eye = args
        .inception
        .as_deref()
        .map(Eye::open)
        .transpose()
        .map_err(failed)?;
    let Kept::Features(samples) = held(&args.samples, eye.as_ref(), &progress)? else {
        return Err(Failure::Failed(format!(
            "{}: it has statistics alone; samples need features",
            args.samples.display()
        )));
    };
    let reference = held(&args.reference, eye.as_ref(), &progress)?;
    let found = measure(&samples, &reference).map_err(failed)?;
    let others = match &reference {
        Kept::Features(features) => Some(features.count()),
        Kept::Statistics(_) => None,
    };
    if args.json {
        let neighbours = found.neighbours;
        let line = json!({
            "samples": samples.count(),
            "reference": others,
            "dimensions": samples.dimensions,
            "fid": found.fid,
            "inception_score": found.score.map(|(mean, _)| mean),
            "inception_score_deviation": found.score.map(|(_, deviation)| deviation),
            "precision": neighbours.map(|n| n.precision),
            "recall": neighbours.map(|n| n.recall),
            "density": neighbours.map(|n| n.density),
            "coverage": neighbours.map(|n| n.coverage),
            "notes": found.notes,
        });
        println!("{line}");
    } else {
        print!("{}", table(&found, (samples.count(), others)));
    }
    Ok(())
}

fn table(found: &Measured, (samples, others): (usize, Option<usize>)) -> String {
    let mut out = String::new();
    let mut add = |label: &str, value: String| out += &format!("{label:<17}{value}\n");
    let others = others.map_or("statistics".into(), |n| format!("{n} pictures"));
    add("pictures", format!("{samples}, against {others}"));
    add("FID", format!("{:.4}", found.fid));
    if let Some((mean, deviation)) = found.score {
        add("Inception Score", format!("{mean:.3} +- {deviation:.3}"));
    }
    if let Some(n) = found.neighbours {
        add("precision", format!("{:.4}", n.precision));
        add("recall", format!("{:.4}", n.recall));
        add("density", format!("{:.4}", n.density));
        add("coverage", format!("{:.4}", n.coverage));
    }
    for note in &found.notes {
        add("note", note.clone());
    }
    out
}
