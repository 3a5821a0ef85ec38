//! `fewstep verify`: every numbered claim of the paper, checked on random instances.
//!
//! A [`Claim`] computes the two sides of a statement independently (a matrix product against a
//! closed form, an integrated equation against enumeration, differences against a derivative) and
//! gives the residual between them. Losses and shifted probabilities come from
//! [`objective`](crate::objective), kernels and rates from `fewstep_ctmc`: what is checked is
//! what the program runs. Each claim also knows one way to be wrong ([`Claim::perturbation`]),
//! and is tested to notice it.
//!
//! A residual is `max |a - b| / max(1, max |a|, max |b|)` over all states, coordinates and
//! symbols. Derivatives in time are Richardson-extrapolated central differences.
//!
//! # Where the paper is imprecise
//!
//! - Appendix sampling (ii): the scales `mu` and `lambda` are said to agree for the linear
//!   schedule only. They agree for every affine `kappa`, so on the log-linear schedule too.
//! - Eq. projection and Prop. projection define `Pi^d` off the diagonal; eq. data-posterior and
//!   eq. loss-general use `q^` at `z^d = x_t^d`, where `lambda q^` is *not* the projected rate of
//!   eq. Q-reparam (whose diagonal is negative) but one minus the other entries. The checks of
//!   rates leave the diagonal out, the checks of `q^` have it in.
//! - Prop. fixed-point assumes `Q` continuous on `[t_0, r]`, which no schedule with `kappa_1 = 1`
//!   meets at `r = 1`, where every sampler ends. The identity holds there too and is checked there;
//!   uniqueness is checked for `r < 1`.
//! - Appendix masked: eq. C-estimator-masked is said to have a lower variance than eq.
//!   C-estimator. It has on all random instances, but not always: see the tests of `estimators`.

mod average;
mod estimators;
mod instance;
mod kolmogorov;
mod losses;
mod matching;
mod model;
mod numeric;
mod ours;
mod parameter;
mod projection;
mod sampling;
mod transport;
mod uniform_state;

use std::sync::atomic::{AtomicUsize, Ordering};

use fewstep_ctmc::Error;
use rayon::prelude::*;
use serde::Serialize;

use instance::Instance;
use numeric::worse;

/// The largest residual of a claim of equality.
pub const EQUAL: f64 = 1e-8;

/// The deviation that a claim of difference must reach on some instance.
pub const DIFFERS: f64 = 1e-3;

/// Whether two sides are claimed equal, or claimed not to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The largest residual stays below [`EQUAL`].
    Equal,
    /// The sides are different things: the largest deviation exceeds [`DIFFERS`].
    Differs,
}

/// The residual of a claim on an instance; `None` where the claim does not apply.
type Residual = Result<Option<f64>, Error>;

/// A statement and its check.
pub struct Claim {
    /// What it is called in tables.
    pub name: &'static str,
    /// The paper's label; `ours` for what the paper does not state.
    pub label: &'static str,
    /// The formula.
    pub statement: &'static str,
    /// What the perturbed form breaks.
    pub perturbation: &'static str,
    /// What passes.
    pub kind: Kind,
    check: fn(&Instance, bool) -> Residual,
}

/// What a run computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Seed of the instances.
    pub seed: u64,
    /// Number of instances; a hundred meet every schedule on every process and target.
    pub instances: usize,
    /// Whether to break every claim by its perturbation, to see it fail.
    pub perturbed: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            instances: 100,
            perturbed: false,
        }
    }
}

/// What a run found of a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// [`Claim::name`].
    pub name: &'static str,
    /// [`Claim::label`].
    pub label: &'static str,
    /// [`Claim::statement`].
    pub statement: &'static str,
    /// [`Claim::kind`].
    pub kind: Kind,
    /// Instances the claim applies to.
    pub instances: usize,
    /// The smallest residual.
    pub smallest: f64,
    /// The largest residual; NaN if any is, or if an instance could not be computed.
    pub worst: f64,
    /// What `worst` is compared with: [`EQUAL`] or [`DIFFERS`].
    pub tolerance: f64,
    /// Whether the claim held. A claim that applied nowhere did not.
    pub passed: bool,
}

/// All claims, in the order of the paper.
pub fn claims() -> impl Iterator<Item = &'static Claim> {
    [
        kolmogorov::CLAIMS,
        average::CLAIMS,
        projection::CLAIMS,
        parameter::CLAIMS,
        transport::CLAIMS,
        estimators::CLAIMS,
        losses::CLAIMS,
        sampling::CLAIMS,
        uniform_state::CLAIMS,
        ours::CLAIMS,
        matching::CLAIMS,
    ]
    .into_iter()
    .flatten()
}

/// Checks all claims on all instances. `progress` is told `(done, total)` instances, from any
/// thread. The result does not depend on the number of threads.
pub fn run(options: Options, progress: &(dyn Fn(usize, usize) + Sync)) -> Vec<Outcome> {
    let done = AtomicUsize::new(0);
    let residuals: Vec<Vec<Option<f64>>> = (0..options.instances)
        .into_par_iter()
        .with_max_len(1)
        .map(|index| {
            let row = on_instance(options, index as u64);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, options.instances);
            row
        })
        .collect();
    claims()
        .enumerate()
        .map(|(i, claim)| outcome(claim, residuals.iter().filter_map(|row| row[i])))
        .collect()
}

/// The residuals of all claims on one instance. What cannot be computed is NaN: a failure.
fn on_instance(options: Options, index: u64) -> Vec<Option<f64>> {
    let instance = Instance::draw(options.seed, index);
    claims()
        .map(|claim| match &instance {
            Ok(i) => (claim.check)(i, options.perturbed).unwrap_or(Some(f64::NAN)),
            Err(_) => Some(f64::NAN),
        })
        .collect()
}

fn outcome(claim: &Claim, residuals: impl Iterator<Item = f64>) -> Outcome {
    let (mut instances, mut smallest, mut worst) = (0, f64::INFINITY, 0.0);
    for residual in residuals {
        instances += 1;
        smallest = residual.min(smallest);
        worst = worse(worst, residual);
    }
    let tolerance = match claim.kind {
        Kind::Equal => EQUAL,
        Kind::Differs => DIFFERS,
    };
    let held = match claim.kind {
        Kind::Equal => worst <= tolerance,
        Kind::Differs => worst >= tolerance,
    };
    Outcome {
        name: claim.name,
        label: claim.label,
        statement: claim.statement,
        kind: claim.kind,
        instances,
        smallest,
        worst,
        tolerance,
        passed: held && instances > 0,
    }
}

/// Whether every claim held.
pub fn passed(outcomes: &[Outcome]) -> bool {
    !outcomes.is_empty() && outcomes.iter().all(|o| o.passed)
}

/// The outcomes as text, at most 120 columns wide.
pub fn table(outcomes: &[Outcome]) -> String {
    let width = |of: fn(&Outcome) -> &str| outcomes.iter().map(|o| of(o).len()).max().unwrap_or(0);
    let (name, label) = (width(|o| o.name).max(5), width(|o| o.label).max(11));
    let mut out = format!(
        "{:name$}  {:label$}  instances    worst residual  result\n",
        "claim", "paper label"
    );
    for o in outcomes {
        let residual = match (o.instances, o.kind) {
            (0, _) => "-".to_owned(),
            (_, Kind::Equal) => format!("{:.1e}", o.worst),
            (_, Kind::Differs) => format!("{:.1e} .. {:.1e}", o.smallest, o.worst),
        };
        let result = if o.passed { "pass" } else { "FAIL" };
        out += &format!(
            "{:name$}  {:label$}  {:>9}  {residual:>16}  {result}\n",
            o.name, o.label, o.instances
        );
    }
    let equal = || outcomes.iter().filter(|o| o.kind == Kind::Equal);
    let worst = equal().map(|o| o.worst).fold(0.0, worse);
    out += &format!(
        "\n{} of {} claims hold.\n\
         {} state that two sides are equal: worst residual {worst:.1e}, bar {EQUAL:.0e}.\n\
         {} state that two sides differ: smallest and largest deviation, the latter above {DIFFERS:.0e}.\n",
        outcomes.iter().filter(|o| o.passed).count(),
        outcomes.len(),
        equal().count(),
        outcomes.len() - equal().count(),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: Options = Options {
        seed: 11,
        instances: 60,
        perturbed: false,
    };

    #[test]
    fn every_claim_holds_and_applies_often_enough() {
        let outcomes = run(OPTIONS, &|_, _| {});
        for o in &outcomes {
            assert!(o.passed, "{}: {o:?}", o.name);
            assert!(
                o.instances >= 10,
                "{} applies {} times",
                o.name,
                o.instances
            );
        }
        assert!(passed(&outcomes));
        let text = table(&outcomes);
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
    }

    /// Broken on purpose, an equality fails by far and a difference disappears.
    #[test]
    fn every_claim_fails_when_perturbed() {
        let perturbed = Options {
            perturbed: true,
            ..OPTIONS
        };
        for (claim, o) in claims().zip(run(perturbed, &|_, _| {})) {
            assert!(
                !o.passed,
                "{} passes although it {}",
                o.name, claim.perturbation
            );
            match o.kind {
                Kind::Equal => assert!(o.worst > 1e-4, "{}: {o:?}", o.name),
                Kind::Differs => assert!(o.worst < EQUAL, "{}: {o:?}", o.name),
            }
        }
    }

    #[test]
    fn the_thread_count_changes_nothing() {
        let few = Options {
            instances: 8,
            ..OPTIONS
        };
        let run_on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.expect("a thread pool")
                .install(|| run(few, &|_, _| {}))
        };
        let residuals = |outcomes: Vec<Outcome>| -> Vec<u64> {
            outcomes.iter().map(|o| o.worst.to_bits()).collect()
        };
        assert_eq!(residuals(run_on(1)), residuals(run_on(3)));
    }

    #[test]
    fn names_are_unique_and_progress_is_told() {
        let mut names: Vec<_> = claims().map(|c| c.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), claims().count());
        let told = AtomicUsize::new(0);
        let two = Options {
            instances: 2,
            ..OPTIONS
        };
        run(two, &|_, total| {
            assert_eq!(total, 2);
            told.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(told.into_inner(), 2);
    }

    #[test]
    fn nothing_passes_by_absence_or_nan() {
        let claim = Claim {
            name: "n",
            label: "l",
            statement: "s",
            perturbation: "p",
            kind: Kind::Equal,
            check: |_, _| Ok(None),
        };
        assert!(!outcome(&claim, [].into_iter()).passed);
        assert!(!outcome(&claim, [0.0, f64::NAN, 0.0].into_iter()).passed);
        assert!(outcome(&claim, [0.0].into_iter()).passed);
        let differs = Claim {
            kind: Kind::Differs,
            ..claim
        };
        assert!(!outcome(&differs, [0.5, f64::NAN].into_iter()).passed);
        assert!(!outcome(&differs, [1e-5].into_iter()).passed);
        assert!(outcome(&differs, [1e-5, 0.5].into_iter()).passed);
        assert!(!passed(&[]));
    }
}
