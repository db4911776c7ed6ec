//! NVMe qualified names, checked.

use alloc::string::{String, ToString};
use core::fmt;

/// Well-known name of every discovery subsystem (spec: base 2.0 §3.1.2.3).
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Longest name in bytes (spec: base 2.0 §4.5).
pub const NQN_BYTES_MAX: usize = 223;

/// Bytes of a field that holds a name, padded with zeroes.
pub const NQN_FIELD: usize = 256;

/// A name: `nqn.yyyy-mm.reverse-domain:string` or `nqn.2014-08.org.nvmexpress:uuid:...`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Nqn(String);

/// Why a name is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NqnError {
    /// Longer than [`NQN_BYTES_MAX`], or without an end in its field.
    TooLong,
    /// Not UTF-8, or with control characters or spaces.
    BadCharacter,
    /// Does not start with `nqn.yyyy-mm.` and a domain.
    BadForm,
}

impl fmt::Display for NqnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "a name has at most 223 bytes",
            Self::BadCharacter => "a name has no control characters or spaces",
            Self::BadForm => "a name starts with nqn.yyyy-mm. and a domain",
        })
    }
}

impl core::error::Error for NqnError {}

impl Nqn {
    /// Checks a name.
    ///
    /// # Errors
    /// As [`NqnError`] says.
    pub fn new(text: &str) -> Result<Self, NqnError> {
        if text.len() > NQN_BYTES_MAX {
            return Err(NqnError::TooLong);
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(NqnError::BadCharacter);
        }
        if !is_dated(text.as_bytes()) {
            return Err(NqnError::BadForm);
        }
        Ok(Self(text.to_string()))
    }

    /// The name of the discovery subsystem.
    #[must_use]
    pub fn discovery() -> Self {
        Self(DISCOVERY_NQN.to_string())
    }

    /// Reads a field of 256 bytes.
    ///
    /// # Errors
    /// As [`NqnError`] says.
    pub fn from_field(field: &[u8; NQN_FIELD]) -> Result<Self, NqnError> {
        let end = field.iter().position(|byte| *byte == 0);
        let bytes = end
            .and_then(|end| field.get(..end))
            .ok_or(NqnError::TooLong)?;
        let text = core::str::from_utf8(bytes).map_err(|_| NqnError::BadCharacter)?;
        Self::new(text)
    }

    /// As a field of 256 bytes.
    #[must_use]
    pub fn to_field(&self) -> [u8; NQN_FIELD] {
        let mut field = [0; NQN_FIELD];
        field[..self.0.len()].copy_from_slice(self.0.as_bytes());
        field
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for the well-known discovery name.
    #[must_use]
    pub fn is_discovery(&self) -> bool {
        self.0 == DISCOVERY_NQN
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `nqn.dddd-dd.` and at least one byte more.
fn is_dated(text: &[u8]) -> bool {
    const FORM: &[u8] = b"nqn.dddd-dd.";
    text.len() > FORM.len()
        && text.iter().zip(FORM).all(|(byte, form)| match form {
            b'd' => byte.is_ascii_digit(),
            _ => byte == form,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let name = Nqn::new("nqn.2026-11.io.varve:pool.vol").expect("a good name");
        assert_eq!(Nqn::from_field(&name.to_field()), Ok(name));
        assert!(Nqn::discovery().is_discovery());
        assert_eq!(Nqn::new(DISCOVERY_NQN), Ok(Nqn::discovery()));
        for bad in ["", "iqn.2026-11.io.varve", "nqn.26-11.x", "nqn.2026-11."] {
            assert_eq!(Nqn::new(bad), Err(NqnError::BadForm), "{bad}");
        }
        assert_eq!(Nqn::new("nqn.2026-11.a b"), Err(NqnError::BadCharacter));
        let long = "nqn.2026-11.".to_string() + &"x".repeat(212);
        assert_eq!(Nqn::new(&long), Err(NqnError::TooLong));
        assert!(Nqn::new(&long[..223]).is_ok());
        assert_eq!(Nqn::from_field(&[b'n'; 256]), Err(NqnError::TooLong));
        let mut field = [0; 256];
        field[0] = 0xff;
        assert_eq!(Nqn::from_field(&field), Err(NqnError::BadCharacter));
    }
}
