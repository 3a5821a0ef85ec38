//! Target laws that are known exactly because their states can be enumerated.

use rand::RngExt;
use rand_distr::Gamma;

use crate::{
    Error, Space,
    random::{Key, Purpose, normal},
};

/// A family of target laws; a seed picks the member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// `q(x) ~ exp(beta sum_{i<j} 1[x^i = x^j] + eps_x)`, `eps_x ~ noise N(0, 1)` drawn once
    /// (appendix sim-exact: `beta = 1.5`, `noise = 0.3`).
    Potts {
        /// Coupling of every pair of coordinates.
        beta: f64,
        /// Standard deviation of the perturbation of each state.
        noise: f64,
    },
    /// A stationary-start Markov chain whose transition rows are Dirichlet draws.
    Markov {
        /// Concentration of the Dirichlet; below one the rows are peaked.
        concentration: f64,
    },
    /// Independent energies: `q(x) ~ exp(sigma eps_x)`, `eps_x ~ N(0, 1)`. No structure at all.
    RandomEnergy {
        /// Standard deviation of the energies.
        sigma: f64,
    },
    /// `q(x) ~ exp(-beta sum_{i<j} 1[x^i = x^j])`: equal symbols repel. The seed changes nothing.
    Repelling {
        /// Strength of the repulsion.
        beta: f64,
    },
}

impl Target {
    /// The Potts law of the paper.
    pub const PAPER: Self = Self::Potts {
        beta: 1.5,
        noise: 0.3,
    };

    /// Checks the parameters.
    pub fn check(self) -> Result<Self, Error> {
        let finite = |what, value: f64| {
            if value.is_finite() && value.abs() <= 50.0 {
                Ok(())
            } else {
                Err(Error::range(what, value, "between -50 and 50"))
            }
        };
        match self {
            Self::Potts { beta, noise } => {
                finite("beta", beta)?;
                finite("the perturbation", noise)?;
            }
            Self::Markov { concentration } => {
                if !(concentration.is_finite() && concentration >= 0.01) {
                    return Err(Error::range(
                        "the Dirichlet concentration",
                        concentration,
                        "finite and at least 0.01",
                    ));
                }
            }
            Self::RandomEnergy { sigma } => finite("sigma", sigma)?,
            Self::Repelling { beta } => finite("beta", beta)?,
        }
        Ok(self)
    }

    /// The law over all states of `space`, positive everywhere.
    pub fn law(self, space: &Space, seed: u64) -> Result<Vec<f64>, Error> {
        self.check()?;
        let key = Key::new(seed, Purpose::Target);
        let noise = |x: usize| normal(&mut key.at(0, x as u64));
        let states = 0..space.len();
        Ok(match self {
            Self::Potts { beta, noise: scale } => {
                gibbs(states.map(|x| beta * equal_pairs(space, x) + scale * noise(x)))
            }
            Self::RandomEnergy { sigma } => gibbs(states.map(|x| sigma * noise(x))),
            Self::Repelling { beta } => gibbs(states.map(|x| -beta * equal_pairs(space, x))),
            Self::Markov { concentration } => {
                let rows = markov_rows(space.symbols(), concentration, &key);
                gibbs(states.map(|x| {
                    (1..space.coords())
                        .map(|d| rows[space.symbol(x, d - 1)][space.symbol(x, d)].ln())
                        .sum::<f64>()
                }))
            }
        })
    }
}

fn equal_pairs(space: &Space, x: usize) -> f64 {
    let symbols = space.decode(x);
    let mut pairs = 0u32;
    for i in 0..symbols.len() {
        pairs += symbols[i + 1..]
            .iter()
            .filter(|&&s| s == symbols[i])
            .count() as u32;
    }
    f64::from(pairs)
}

/// Transition rows, with a floor that keeps the law positive.
fn markov_rows(symbols: usize, concentration: f64, key: &Key) -> Vec<Vec<f64>> {
    let gamma = Gamma::new(concentration, 1.0).expect("a checked concentration");
    (0..symbols)
        .map(|from| {
            let mut rng = key.at(1, from as u64);
            let draws: Vec<f64> = (0..symbols).map(|_| rng.sample(gamma)).collect();
            let total: f64 = draws.iter().sum::<f64>().max(1e-300);
            draws.iter().map(|g| g / total + 1e-6).collect()
        })
        .collect()
}

/// `exp(energy)`, normalised.
fn gibbs(energies: impl Iterator<Item = f64>) -> Vec<f64> {
    let energies: Vec<f64> = energies.collect();
    let top = energies.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut law: Vec<f64> = energies.iter().map(|e| (e - top).exp()).collect();
    let total: f64 = law.iter().sum();
    law.iter_mut().for_each(|p| *p /= total);
    law
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_are_positive_and_normalised_and_reproducible() {
        let space = Space::new(3, 4).unwrap();
        for target in [
            Target::PAPER,
            Target::Markov { concentration: 0.3 },
            Target::RandomEnergy { sigma: 2.0 },
            Target::Repelling { beta: 1.0 },
        ] {
            let law = target.law(&space, 5).unwrap();
            assert!((law.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            assert!(law.iter().all(|&p| p > 0.0));
            assert_eq!(law, target.law(&space, 5).unwrap());
            let other = target.law(&space, 6).unwrap();
            assert_eq!(law == other, matches!(target, Target::Repelling { .. }));
        }
    }

    #[test]
    fn potts_without_noise_is_its_formula() {
        let space = Space::new(2, 3).unwrap();
        let law = Target::Potts {
            beta: 1.0,
            noise: 0.0,
        }
        .law(&space, 0)
        .unwrap();
        // 000 has three equal pairs, 001 one: the ratio is e^2.
        assert!((law[0] / law[1] - 2f64.exp()).abs() < 1e-12);
        assert!((law[0] - law[7]).abs() < 1e-15);
    }

    #[test]
    fn a_markov_law_has_the_markov_property() {
        let space = Space::new(3, 3).unwrap();
        let law = Target::Markov { concentration: 0.3 }
            .law(&space, 2)
            .unwrap();
        // p(a, b, c) p(a', b, c') = p(a, b, c') p(a', b, c).
        for b in 0..3 {
            let p = |a, c| law[space.encode(&[a, b, c])];
            assert!((p(0, 0) * p(1, 2) / (p(0, 2) * p(1, 0)) - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn bad_parameters_are_refused() {
        let space = Space::new(2, 2).unwrap();
        for target in [
            Target::Potts {
                beta: f64::NAN,
                noise: 0.3,
            },
            Target::Potts {
                beta: 1.0,
                noise: f64::INFINITY,
            },
            Target::Markov { concentration: 0.0 },
            Target::RandomEnergy { sigma: 1e9 },
        ] {
            assert!(target.law(&space, 0).is_err());
        }
    }
}
