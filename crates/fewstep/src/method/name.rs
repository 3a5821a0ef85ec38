//! The methods by name: the one list that options, settings, tables and files share.

/// A method that starts from a trained network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The average generator.
    Dag,
    /// Law matching.
    Law,
    /// Self-distillation through time.
    Sdtt,
    /// Discrete consistency distillation.
    Dcd,
    /// A mixture student.
    Di4c,
    /// One round of rectification.
    Redi,
    /// A one-step generator by token-level distribution matching.
    Dimo,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Dag,
        Self::Law,
        Self::Sdtt,
        Self::Dcd,
        Self::Di4c,
        Self::Redi,
        Self::Dimo,
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dag => "dag",
            Self::Law => "law",
            Self::Sdtt => "sdtt",
            Self::Dcd => "dcd",
            Self::Di4c => "di4c",
            Self::Redi => "redi",
            Self::Dimo => "dimo",
        }
    }

    /// What it is, in a line.
    pub fn about(self) -> &'static str {
        match self {
            Self::Dag => "The average generator, a correction on top of the run",
            Self::Law => "Law matching: the law of each step is made right, from uniform noise",
            Self::Sdtt => "Self-distillation through time",
            Self::Dcd => "DUO's consistency distillation, from uniform noise",
            Self::Di4c => "A mixture student, by a latent behind the sequence",
            Self::Redi => "Rectification on pairs that the run generates, from noise",
            Self::Dimo => "A generator of one step, pulled where two denoisers differ",
        }
    }

    /// By its name.
    pub fn parse(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|m| m.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("'{name}' is no method; there are {names}")
        })
    }
}
