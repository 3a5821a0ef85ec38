//! What of a text is read and counted. The two published ways differ, and with them the numbers.

use std::{fmt, str::FromStr};

use super::JudgeError;

/// A published way to measure generative perplexity. Both decode a sample with its special tokens,
/// take the judge's tokens of that text, and divide the sum of surprises over all samples by the
/// number of tokens that count; the first token of a text never does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// MDLM's and DUO's: texts are cut to the judge's context, and of the ends of documents only
    /// the first counts; text after it does.
    #[default]
    Duo,
    /// ReDi's: nothing is cut and everything counts.
    Redi,
}

/// All protocols.
const ALL: [Protocol; 2] = [Protocol::Duo, Protocol::Redi];

impl Protocol {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Duo => "duo",
            Self::Redi => "redi",
        }
    }

    /// Cuts a text to what is read of it.
    pub fn cut(self, tokens: &mut Vec<u32>, context: usize) {
        match self {
            Self::Duo => tokens.truncate(context),
            Self::Redi => {}
        }
    }

    /// Whether each position from the second on counts. An end at the first position is the first
    /// end all the same.
    pub fn counted(self, tokens: &[u32], eos: Option<u32>) -> Vec<bool> {
        let mut ended = false;
        let each = tokens.iter().map(|&token| match self {
            Self::Duo => {
                let end = Some(token) == eos;
                let again = end && ended;
                ended |= end;
                !again
            }
            Self::Redi => true,
        });
        each.skip(1).collect()
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Protocol {
    type Err = JudgeError;

    fn from_str(name: &str) -> Result<Self, JudgeError> {
        let found = ALL.into_iter().find(|protocol| protocol.name() == name);
        found.ok_or_else(|| JudgeError::Refused(format!("no protocol {name:?}; use duo or redi")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u32 = 50;

    fn kept(protocol: Protocol, tokens: &[u32]) -> Vec<u32> {
        let counted = protocol.counted(tokens, Some(END));
        assert_eq!(counted.len(), tokens.len().saturating_sub(1));
        let pairs = tokens.iter().skip(1).zip(counted);
        pairs
            .filter(|(_, counts)| *counts)
            .map(|(&t, _)| t)
            .collect()
    }

    #[test]
    fn duo_counts_the_first_end_and_the_text_after_it() {
        let x = [1, 2, END, 3, END, END, 4];
        assert_eq!(kept(Protocol::Duo, &x), [2, END, 3, 4]);
        // The first end is at the first position, which is not counted.
        let x = [END, 1, END, 2, END];
        assert_eq!(kept(Protocol::Duo, &x), [1, 2]);
        assert!(kept(Protocol::Duo, &[1]).is_empty());
        assert!(kept(Protocol::Duo, &[]).is_empty());
        let all = Protocol::Duo.counted(&[END, END, END], None);
        assert_eq!(all, [true, true]);
    }

    #[test]
    fn redi_counts_everything_but_the_first() {
        let x = [END, 1, END, END];
        assert_eq!(kept(Protocol::Redi, &x), [1, END, END]);
    }

    #[test]
    fn only_duo_cuts() {
        let mut x = vec![1, 2, 3];
        Protocol::Redi.cut(&mut x, 2);
        assert_eq!(x, [1, 2, 3]);
        Protocol::Duo.cut(&mut x, 2);
        assert_eq!(x, [1, 2]);
    }

    #[test]
    fn names_lead_back() {
        for protocol in ALL {
            assert_eq!(protocol.name().parse::<Protocol>().unwrap(), protocol);
        }
        let error = "sdtt".parse::<Protocol>().unwrap_err().to_string();
        assert_eq!(error, "no protocol \"sdtt\"; use duo or redi");
    }
}
