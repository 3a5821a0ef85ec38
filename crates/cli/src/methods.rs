//! The names of methods and their settings, as they are typed.

use clap::{
    ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use fewstep::method::{Divergence, Method, sdtt::Spacing};

/// Methods by their names, each with what it is.
pub fn parser<M: Clone + Send + Sync + 'static>(
    methods: impl IntoIterator<Item = (&'static str, &'static str)>,
    parse: fn(&str) -> Result<M, String>,
) -> impl TypedValueParser<Value = M> {
    let one = |(name, about)| PossibleValue::new(name).help(about);
    let known: Vec<PossibleValue> = methods.into_iter().map(one).collect();
    PossibleValuesParser::new(known).try_map(move |name| parse(&name))
}

/// The methods of `fewstep accelerate`.
pub fn method() -> impl TypedValueParser<Value = Method> {
    parser(Method::ALL.map(|m| (m.name(), m.about())), Method::parse)
}

/// What is made small between student and teacher.
#[derive(Clone, Copy, ValueEnum)]
pub enum DivergenceName {
    /// KL(student || teacher)
    BackwardKl,
    /// KL(teacher || student)
    ForwardKl,
    /// Mean squared difference of log probabilities
    Mse,
    /// Total variation
    Tv,
}

impl From<DivergenceName> for Divergence {
    fn from(name: DivergenceName) -> Self {
        match name {
            DivergenceName::BackwardKl => Self::BackwardKl,
            DivergenceName::ForwardKl => Self::ForwardKl,
            DivergenceName::Mse => Self::Mse,
            DivergenceName::Tv => Self::Tv,
        }
    }
}

/// Where the steps of SDTT's teacher start.
#[derive(Clone, Copy, ValueEnum)]
pub enum SpacingName {
    /// One after the other, as SDTT is described
    Even,
    /// As in its released code
    Released,
}

impl From<SpacingName> for Spacing {
    fn from(name: SpacingName) -> Self {
        match name {
            SpacingName::Even => Self::Even,
            SpacingName::Released => Self::Released,
        }
    }
}
