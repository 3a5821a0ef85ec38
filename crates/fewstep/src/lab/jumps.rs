//! The jumps `x -> x^{e->s}` by which `Gamma` is had, exactly or from draws.
//!
//! Both are a weighted list of jumps: all of them with their probabilities, or a few drawn ones
//! with equal shares. The network is evaluated at where the jumps lead.

use fewstep_ctmc::{
    Chain,
    random::{Key, categorical, index},
    transport,
};

use super::batch::Rows;
use crate::objective::Transport;

/// The jumps of all rows of a step.
pub struct Jumps {
    /// Where they lead, at the time of the row they start from.
    pub rows: Rows,
    links: Vec<Link>,
}

/// A jump of coordinate `e` from row `row`, with its share of the estimate.
struct Link {
    row: usize,
    e: usize,
    share: f64,
}

impl Jumps {
    /// The jumps from `rows`, whose frozen posterior is `posterior` (`[R, D, S]`); drawn ones from
    /// the generators of `key` at `step`.
    pub fn new(
        chain: &Chain,
        transport: Transport,
        rows: &Rows,
        posterior: &[f64],
        (key, step): (&Key, u64),
    ) -> Self {
        let (coords, symbols) = (chain.states().coords(), chain.path().symbols());
        let mut jumps = Self {
            rows: Rows::default(),
            links: Vec::new(),
        };
        for (row, &x) in rows.states().iter().enumerate() {
            let law = |e: usize| &posterior[(row * coords + e) * symbols..][..symbols];
            let movable = movable(chain, x);
            match transport {
                Transport::Exact => {
                    for &e in &movable {
                        for s in 0..symbols {
                            let share = law(e)[s] / movable.len() as f64;
                            jumps.push(chain, rows, Link { row, e, share }, s);
                        }
                    }
                }
                Transport::Draws(draws) => {
                    let mut rng = key.at(step, row as u64);
                    for _ in (0..draws).filter(|_| !movable.is_empty()) {
                        let e = movable[index(&mut rng, movable.len())];
                        let s = categorical(&mut rng, law(e));
                        let share = f64::from(draws).recip();
                        jumps.push(chain, rows, Link { row, e, share }, s);
                    }
                }
            }
        }
        jumps
    }

    /// Adds a jump, unless it stays where it is: that contributes nothing.
    fn push(&mut self, chain: &Chain, rows: &Rows, link: Link, s: usize) {
        let x = rows.states()[link.row];
        let y = chain.states().with(x, link.e, s);
        if y != x {
            let batch = rows.batch();
            self.rows
                .push(chain, y, batch.t[link.row], batch.r[link.row]);
            self.links.push(link);
        }
    }

    /// `Gamma` (eq. Gamma) of every row, `[R, D, S]`, from the prediction at the rows and at the
    /// jumps: `C + p~ - p_{1|t}`, which on the masked path is `C_cross` (eq. C-masked).
    pub fn gamma(
        &self,
        chain: &Chain,
        rows: &Rows,
        posterior: &[f64],
        here: &[f64],
        there: &[f64],
    ) -> Vec<f64> {
        let coords = chain.states().coords();
        let width = coords * chain.path().symbols();
        let masked = chain.path().mask().is_some();
        let mut gamma: Vec<f64> = if masked {
            vec![0.0; here.len()]
        } else {
            here.iter().zip(posterior).map(|(p, q)| p - q).collect()
        };
        for (link, there) in self.links.iter().zip(there.chunks_exact(width)) {
            let table = link.row * width..(link.row + 1) * width;
            let (here, out) = (&here[table.clone()], &mut gamma[table]);
            if masked {
                let count = movable(chain, rows.states()[link.row]).len();
                transport::draw_c_cross(count, link.e, coords, here, there, link.share, out);
            } else {
                transport::draw_c(coords, here, there, link.share, out);
            }
        }
        gamma
    }
}

/// The coordinates that may jump: on the masked path the masked ones.
fn movable(chain: &Chain, x: usize) -> Vec<usize> {
    let states = chain.states();
    (0..states.coords())
        .filter(|&d| {
            let mask = chain.path().mask();
            mask.is_none_or(|mask| states.symbol(x, d) == mask)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fewstep_ctmc::{Path, Process, Schedule, Source, Space, Target, random::Purpose};

    fn chain(source: Source) -> Chain {
        let path = Path::new(Schedule::Linear, Process::Mixture(source), 3).unwrap();
        let law = Target::PAPER.law(&Space::new(3, 2).unwrap(), 1).unwrap();
        Chain::new(path, 2, law).unwrap()
    }

    /// All jumps against the closed form over whole tables, and many draws against all jumps.
    #[test]
    fn exact_and_drawn_gamma_agree_with_the_closed_form() {
        for source in [Source::Uniform, Source::Masked] {
            let chain = chain(source);
            let states = chain.states();
            let posterior = chain.posterior(Schedule::Linear.level(0.3));
            // Any prediction that carries over will do: the posterior at another time, cooled.
            let prediction: Vec<f64> = posterior
                .chunks_exact(3)
                .flat_map(|p| {
                    let total: f64 = p.iter().map(|p| p * p).sum();
                    p.iter().map(move |p| p * p / total)
                })
                .collect();
            let c = transport::c_term(states, &posterior, &prediction);
            let rows = Rows::all_states(&chain, &[(0.3, 0.8)]);
            let key = Key::new(0, Purpose::Check);
            let gamma = |transport| {
                let jumps = Jumps::new(&chain, transport, &rows, &posterior, (&key, 0));
                let there: Vec<f64> = jumps
                    .rows
                    .states()
                    .iter()
                    .flat_map(|&y| prediction[y * 6..(y + 1) * 6].to_vec())
                    .collect();
                jumps.gamma(&chain, &rows, &posterior, &prediction, &there)
            };
            let (exact, drawn) = (gamma(Transport::Exact), gamma(Transport::Draws(20_000)));
            for i in 0..exact.len() {
                let expected = c[i] + prediction[i] - posterior[i];
                assert!(
                    (exact[i] - expected).abs() < 1e-14,
                    "{} {expected}",
                    exact[i]
                );
                assert!(
                    (drawn[i] - expected).abs() < 0.03,
                    "{} {expected}",
                    drawn[i]
                );
            }
        }
    }
}
