//! The bytes of a pickle, taken in order and never beyond their end.

/// A result whose error says what is wrong with the pickle.
pub type Step<T> = Result<T, String>;

/// What is left of the bytes.
pub struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes taken so far.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes not taken yet.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn take(&mut self, n: usize) -> Step<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..n).ok_or("it ends too early")?;
        self.at += n;
        Ok(taken)
    }

    pub fn byte(&mut self) -> Step<u8> {
        Ok(self.take(1)?[0])
    }

    /// A little-endian number of `n` bytes, at most 8.
    pub fn number(&mut self, n: usize) -> Step<u64> {
        let bytes = self.take(n)?.iter().rev();
        Ok(bytes.fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    }

    /// What follows a length of `n` bytes.
    pub fn counted(&mut self, n: usize) -> Step<&'a [u8]> {
        let length = self.number(n)?;
        self.take(usize::try_from(length).map_err(|_| "it ends too early")?)
    }

    /// A line, without its end.
    pub fn line(&mut self) -> Step<String> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|&byte| byte == b'\n');
        let line = &rest[..end.ok_or("a line does not end")?];
        self.at += line.len() + 1;
        Ok(String::from_utf8_lossy(line).into_owned())
    }

    /// A line that is a number.
    pub fn decimal<T: std::str::FromStr>(&mut self) -> Step<T> {
        let line = self.line()?;
        let digits = line.trim().trim_end_matches('L');
        digits.parse().map_err(|_| "a number is malformed".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_beyond_the_end() {
        let mut input = Input::new(b"\x02\x01ab12L\n\xff\xff\xff\xff");
        assert_eq!(input.number(2), Ok(0x0102));
        assert_eq!((input.byte(), input.byte()), (Ok(b'a'), Ok(b'b')));
        assert_eq!(input.decimal(), Ok(12));
        assert_eq!((input.position(), input.left()), (8, 4));
        assert!(input.line().is_err());
        assert!(input.counted(4).is_err());
        assert_eq!(input.left(), 0);
        assert!(input.byte().is_err());
    }
}
