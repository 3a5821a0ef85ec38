//! The order in which masked tokens are written, for every command that generates.

use clap::{Args as ClapArgs, ValueEnum};
use fewstep::sequence::{
    Model,
    order::{Order, Ranking, Tokens},
};

use crate::{Failure, parse};

/// Which masked tokens a step writes.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum OrderName {
    /// Each by the chain's own chance
    Chance,
    /// Those whose drawn symbol is likeliest (MaskGIT)
    Confidence,
    /// Those whose law has the least entropy
    Entropy,
    /// Those whose likeliest symbol is furthest above the next
    Margin,
    /// All whose likeliest symbol has at least --threshold
    Threshold,
}

/// How many tokens each step of an order writes.
#[derive(Clone, Copy, ValueEnum)]
enum TokensName {
    /// As MaskGIT's first release and ReDi
    Arccos,
    /// As Di4C
    Differences,
    /// As many in each
    Even,
}

/// Arguments of the order.
#[derive(ClapArgs)]
pub struct OrderArgs {
    /// Which masked tokens a step writes
    #[arg(long, value_enum, default_value = "chance")]
    order: OrderName,
    /// How many of them, with confidence, entropy and margin
    #[arg(long, value_enum, default_value = "arccos")]
    tokens: TokensName,
    /// Gumbel noise on their rank, falling to 0 in the last step; MaskGIT has 4.5
    #[arg(long, default_value_t = 0.0, value_parser = parse::number)]
    order_noise: f64,
    /// The probability that is enough for --order threshold
    #[arg(long, default_value_t = 0.9, value_parser = parse::share)]
    threshold: f64,
}

impl OrderArgs {
    /// Refuses an order among masks where there are none.
    pub fn check(&self, model: &Model) -> Result<(), Failure> {
        if self.order != OrderName::Chance && model.path.mask_symbol().is_none() {
            return Err(Failure::Usage(
                "this run has no masks; --order chooses among masked tokens".into(),
            ));
        }
        Ok(())
    }

    /// The order.
    pub fn order(&self) -> Order {
        let by = match self.order {
            OrderName::Chance => return Order::Chance,
            OrderName::Threshold => return Order::Threshold(self.threshold),
            OrderName::Confidence => Ranking::Confidence,
            OrderName::Entropy => Ranking::Entropy,
            OrderName::Margin => Ranking::Margin,
        };
        Order::Ranked {
            by,
            tokens: match self.tokens {
                TokensName::Arccos => Tokens::Arccos,
                TokensName::Differences => Tokens::Differences,
                TokensName::Even => Tokens::Even,
            },
            noise: self.order_noise,
        }
    }
}
