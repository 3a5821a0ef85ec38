//! `fewstep doctor`: what a checkpoint is, and whether it can be loaded.

use std::fmt::Display;

use fewstep_nn::checkpoint::{self, NetworkReport, Report, SizesReport, Weights};

use crate::Failure;

/// Say what a checkpoint is (MDLM, DUO, SDTT, VQGAN, MaskGIT, Inception): family, sizes, averaged weights, tensors that are missing, unexpected
/// or damaged; exit 1 if it cannot be loaded as it is.
#[derive(clap::Args)]
pub struct Args {
    /// A directory with model.safetensors, a .safetensors, .ckpt, .pth or .pt file, or
    /// owner/name[@revision] on Hugging Face
    path: String,
    /// Print JSON instead of lines
    #[arg(long)]
    json: bool,
}

/// Looks and prints.
pub fn run(args: &Args) -> Result<(), Failure> {
    let path = checkpoint::resolve(&args.path);
    let path = path.map_err(|error| Failure::Failed(error.to_string()))?;
    let report = checkpoint::inspect(path);
    if args.json {
        let json = serde_json::to_string_pretty(&report);
        println!("{}", json.map_err(|e| Failure::Failed(e.to_string()))?);
    } else if report.format.is_some() {
        // Of what is no checkpoint at all there is nothing to say but that.
        print!("{}", table(&report));
    }
    match report.failure {
        None => Ok(()),
        Some(why) => Err(Failure::Failed(why)),
    }
}

/// Lines of a label and a value.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, label: &str, value: impl Display) {
        self.0 += &format!("{label:<13}{value}\n");
    }

    /// One line each, the label on the first.
    fn list(&mut self, label: &str, values: impl IntoIterator<Item = impl Display>) {
        let mut label = label;
        for value in values {
            self.add(label, value);
            label = "";
        }
    }
}

fn table(report: &Report) -> String {
    let mut lines = Lines::default();
    lines.add("file", &report.path);
    let size = report.bytes.map(|n| format!(", {}", bytes(n)));
    lines.add(
        "format",
        format!(
            "{}{}",
            report.format.unwrap_or("unknown"),
            size.unwrap_or_default()
        ),
    );
    // Our own files tell the time input themselves.
    let told = report
        .sizes
        .as_ref()
        .is_some_and(|sizes| sizes.time.is_some());
    let unnamed = if told {
        "none of the published"
    } else {
        "unknown"
    };
    let family = match (&report.network, report.family) {
        (Some(network), _) => network.name,
        (None, Some(family)) => family.name(),
        (None, None) => unnamed,
    };
    lines.add("family", family);
    match (&report.sizes, &report.network) {
        (Some(sizes), _) => network(sizes, &mut lines),
        (None, Some(network)) => pictures(network, &mut lines),
        (None, None) => lines.add("network", "unknown"),
    }
    let types = report
        .dtypes
        .iter()
        .map(|(dtype, n)| format!("{n} of {dtype}"));
    let types: Vec<String> = types.collect();
    lines.add(
        "tensors",
        if types.is_empty() {
            "none".into()
        } else {
            types.join(", ")
        },
    );
    lines.add(
        "averaged",
        match &report.average {
            None => "no".into(),
            Some(average) => format!(
                "{} tensors, decay {}, {} updates",
                average.tensors,
                average.decay.map_or("unknown".into(), |x| x.to_string()),
                average.updates.map_or("unknown".into(), |n| n.to_string()),
            ),
        },
    );
    if report.latent {
        lines.add(
            "latent",
            "Di4C's latent token, which this network does not evaluate",
        );
    }
    lines.list("missing", &report.missing);
    lines.list("unexpected", &report.unexpected);
    lines.list("wrong shape", &report.misshapen);
    lines.list("wrong", &report.problems);
    let damage = report.nonfinite.iter().map(|damage| {
        let which = match damage.weights {
            Weights::Raw => "raw",
            Weights::Ema => "averaged",
        };
        format!("{} ({which})", damage.tensor)
    });
    lines.list("not finite", damage);
    lines.list("unreadable", &report.unreadable);
    lines.list("note", &report.notes);
    if report.failure.is_none() {
        lines.add("verdict", "can be loaded");
    }
    lines.0
}

fn network(sizes: &SizesReport, lines: &mut Lines) {
    lines.add(
        "network",
        format!(
            "{}, {} parameters",
            sizes.name.unwrap_or("of no published size"),
            thousands(sizes.parameters)
        ),
    );
    lines.add(
        "sizes",
        format!(
            "width {}, {} blocks, {} heads, conditioning {}, vocabulary {}, length {}",
            sizes.width,
            sizes.blocks,
            sizes.heads,
            sizes.conditioning,
            sizes.vocabulary,
            sizes.length
        ),
    );
    let mask = sizes.mask.map_or("none".into(), |mask| mask.to_string());
    match &sizes.time {
        Some(time) => {
            lines.add("time input", time);
            lines.add("mask", mask);
        }
        None => lines.add("time input", "unknown, and so is the mask"),
    }
    lines.add("step", &sizes.step);
}

fn pictures(network: &NetworkReport, lines: &mut Lines) {
    let total = network.parameters.map(thousands);
    lines.add(
        "network",
        total.map_or("unknown".into(), |total| format!("{total} parameters")),
    );
    if let Some(sizes) = &network.sizes {
        lines.add("sizes", sizes);
    }
}

/// A number of bytes as people read it.
fn bytes(n: u64) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{n} bytes")
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!(thousands(169_627_218), "169,627,218");
        assert_eq!(
            (thousands(0), thousands(1000)),
            ("0".into(), "1,000".into())
        );
        assert_eq!(bytes(678_509_000), "678.5 MB");
        assert_eq!(bytes(999), "999 bytes");
    }
}
