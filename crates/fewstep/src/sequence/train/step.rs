//! What a training step is for each method.

use fewstep_nn::{Adaptation, Gradient, Learner};

use super::{
    super::{
        Acceleration, Accelerator, Examples, RunError, Setting, Target, Use,
        average::{self, Loss, Method},
        base,
        coupling::{self, Wanted},
        curriculum, times,
    },
    COUPLING, Second, Trainer, Work,
};
use crate::{
    lab::Monitor,
    method::{dcd, di4c, dimo, law, sdtt},
    objective::Pair,
};

/// The smallest shifted probability whose logarithm is taken.
const FLOOR: f64 = 1e-4;

impl Trainer {
    /// Makes the pairs that a rectification is trained on, or reads them; whether they are all there.
    pub(super) fn couple(&mut self, monitor: &dyn Monitor) -> Result<bool, RunError> {
        let (pairs, steps) = match &self.setting.acceleration {
            Some(Acceleration {
                method: Accelerator::Redi { pairs, steps },
                ..
            }) => (*pairs, *steps),
            // What corrects a rectified denoiser is trained where that one was.
            Some(Acceleration { from, .. }) if Setting::of(from)?.paired()? => {
                let labels = self.corpus.labels_in_turn();
                let pairs = coupling::load(&from.join(COUPLING), (&self.path, &labels))?;
                self.coupling = Some(pairs);
                return Ok(true);
            }
            _ => return Ok(true),
        };
        let teacher = self.frozen.as_ref().unwrap_or(&self.network);
        let wanted = Wanted {
            count: pairs,
            length: self.setting.sizes.length,
            carried: self.setting.carried,
            given: self.corpus.given(),
            steps,
            seed: self.setting.optimization.seed,
        };
        let dir = self.dir.join(COUPLING);
        let wanted = (wanted, &self.corpus.labels_in_turn()[..]);
        self.coupling = coupling::make(&dir, wanted, (teacher, &self.path), monitor)?;
        Ok(self.coupling.is_some())
    }

    /// The loss of a step and, in `gradient`, its gradient.
    pub(super) fn one(
        &self,
        step: u64,
        work: &mut Work,
        gradient: &mut [f32],
    ) -> Result<f64, RunError> {
        let o = self.setting.optimization;
        let length = self.setting.sizes.length;
        // Not drawn where pairs of a coupling are trained on.
        let data = || {
            let what = Use::Training(o.seed, step);
            self.corpus.sequences(what, o.batch, length)
        };
        let mut into = Gradient {
            data: gradient,
            adaptation: self.adaptation,
            accumulate: false,
        };
        let address = (o.seed, step);
        let Some(acceleration) = &self.setting.acceleration else {
            let (network, path, pass) = (&self.network, &self.path, work.passes.both().0);
            let loss = self.setting.loss;
            let (pairs, weights) = loss.times(path, o.batch, address);
            let curriculum = self.setting.curriculum;
            if let Some((tau, c)) = curriculum.and_then(|c| Some((c.tau(step, o.steps)?, c))) {
                let clock = || curriculum::clock(path.symbols());
                let about = (path, self.clock.get_or_init(clock));
                let how = (tau, c.symbols);
                let x1 = data()?;
                let x1 = (&x1[..], self.corpus.given());
                let mut seen = curriculum::soften(about, x1, &pairs, how, address);
                seen.examples = seen.examples.weighing(weights);
                return Ok(base::soft_step(
                    network,
                    path,
                    (&seen, loss),
                    pass,
                    &mut into,
                ));
            }
            let examples = self.corrupted(&data()?, &pairs, address).weighing(weights);
            return Ok(base::step(
                network,
                path,
                (&examples, loss),
                pass,
                &mut into,
            ));
        };
        // With only the correction trained, the network at r = t is the frozen denoiser.
        let frozen = self.frozen.as_ref().unwrap_or(&self.network);
        let networks = (&self.network, frozen);
        let path = &self.path;
        Ok(match &acceleration.method {
            Accelerator::Dag(average) => {
                let pairs = times::pairs(path, &average.pairs, average.at_rest, o.batch, address);
                let examples = match &self.coupling {
                    Some(coupling) => coupling.drawn(path, &pairs, address),
                    None => self.examples(&data()?, &pairs, address),
                };
                let method = Method {
                    loss: match average.target {
                        Target::Linear => Loss::Linear,
                        Target::Shifted => Loss::Shifted { floor: FLOOR },
                    },
                    draws: average.draws,
                };
                let what = (path, method);
                average::step(
                    networks,
                    &examples,
                    what,
                    address,
                    &mut work.passes,
                    &mut into,
                )
            }
            &Accelerator::Sdtt {
                size,
                count,
                spacing,
                divergence,
            } => {
                let steps = sdtt::Steps {
                    size,
                    count,
                    spacing,
                };
                let pairs = times::even(path, o.batch, address);
                let examples = self.corrupted(&data()?, &pairs, address);
                let what = (path, &steps, divergence);
                let passes = work.passes.both();
                sdtt::step(networks, &examples, what, address, passes, &mut into)
            }
            &Accelerator::Dcd {
                distance,
                divergence,
            } => {
                let clock = self.clock.get_or_init(|| dcd::Clock::new(path.symbols()));
                let x1 = data()?;
                let x1 = (&x1[..], self.corpus.given());
                let (early, late) = dcd::examples((path, clock), x1, o.batch, distance, address);
                // DUO compares what its networks say, before the own state is multiplied in.
                let networks = (&self.network.network, &frozen.network);
                let (main, teacher) = work.passes.both();
                let passes = (main.inner(), teacher.inner());
                dcd::step(
                    networks,
                    (&early, &late),
                    (path, divergence),
                    passes,
                    &mut into,
                )
            }
            &Accelerator::Di4c {
                latents,
                carried,
                step,
                near,
            } => {
                let settings = di4c::Settings {
                    step,
                    near,
                    ..di4c::Settings::new(latents, carried)
                };
                let pairs = times::near_and_far(path, near, o.batch, address);
                let examples = self.corrupted(&data()?, &pairs, address);
                let networks = (&self.network, &self.network, frozen);
                let what = (path, &settings);
                di4c::step(
                    networks,
                    &examples,
                    what,
                    address,
                    &mut work.mixture,
                    &mut into,
                )
            }
            Accelerator::Law(matching) => {
                let Some(Second { network, .. }) = &self.second else {
                    return Err(RunError::Refused("law has no conditionals".into()));
                };
                let pairs = times::steps(path, &matching.grids, o.batch, address);
                let examples = self.examples(&data()?, &pairs, address);
                // At rest a correction is zero: the network is the denoiser that it corrects.
                let denoiser = self.frozen.as_ref().unwrap_or(&self.network);
                let side = match (matching.trust, matching.follow) {
                    (true, _) => law::Side::Denoiser(denoiser),
                    (_, true) => law::Side::Both(denoiser),
                    _ => law::Side::Data,
                };
                let held = self.held.as_ref().map(|(kernel, left)| law::Held {
                    kernel,
                    bound: 4.0 * left,
                });
                let Work {
                    matching,
                    second,
                    found,
                    ..
                } = work;
                second.resize(network.parameters().len(), 0.0);
                let mut second = Gradient {
                    data: second,
                    adaptation: Adaptation::Full,
                    accumulate: false,
                };
                let now = law::step(
                    (&self.network, &network.network),
                    (&examples, side),
                    (path, law::POWER, held),
                    address,
                    matching,
                    (&mut into, &mut second),
                );
                let so_far = found.get_or_insert_default();
                so_far.made += now.made;
                so_far.real = now.real.map(|real| so_far.real.unwrap_or(0.0) + real);
                now.ratio
            }
            &Accelerator::Dimo { carried, mix, .. } => {
                let Some(Second { network: fake, .. }) = &self.second else {
                    return Err(RunError::Refused("dimo has no second denoiser".into()));
                };
                let settings = dimo::Settings {
                    batch: o.batch,
                    sizes: (length, carried),
                    mix,
                };
                let Work {
                    generator, second, ..
                } = work;
                second.resize(fake.parameters().len(), 0.0);
                let mut second = Gradient {
                    data: second,
                    adaptation: Adaptation::Full,
                    accumulate: false,
                };
                let (pull, bound) = dimo::step(
                    (&self.network, fake, frozen),
                    (path, &settings, &self.corpus.labels_in_turn()),
                    address,
                    generator,
                    (&mut into, &mut second),
                );
                pull + bound
            }
            Accelerator::Redi { .. } => {
                let (pairs, weights) = times::instants(path, o.batch, address);
                let coupling = self.coupling.as_ref().ok_or_else(|| {
                    RunError::Refused("a coupling has to be made before it is trained on".into())
                })?;
                let examples = coupling.drawn(path, &pairs, address).weighing(weights);
                base::step(
                    &self.network,
                    path,
                    (&examples, base::Loss::Bound),
                    work.passes.both().0,
                    &mut into,
                )
            }
        })
    }

    /// Corrupted sequences, with latents behind them if the network reads one.
    pub(super) fn examples(&self, x1: &[usize], pairs: &[Pair], address: (u64, u64)) -> Examples {
        let examples = self.corrupted(x1, pairs, address);
        examples.carrying((&self.path, self.setting.carried), address)
    }

    /// Corrupted sequences, whose labels are given.
    fn corrupted(&self, x1: &[usize], pairs: &[Pair], address: (u64, u64)) -> Examples {
        Examples::corrupt(&self.path, x1, pairs, address).giving(self.corpus.given())
    }
}
