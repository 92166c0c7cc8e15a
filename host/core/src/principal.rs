//! The user that a session works for.

use std::{fmt, str::FromStr};

use crate::text::excerpt;

/// The id of a user who owns sessions. It is empty in a local installation, which has one user; a service for several
/// users assigns each an id.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrincipalId(Option<Box<str>>);

/// A string that is not the id of a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid user id '{}': use 1 to 128 ASCII letters, digits, '-', '_', '.' and '@'",
    excerpt(.0, 80)
)]
pub struct PrincipalError(String);

impl PrincipalId {
    /// The only user of a local installation.
    pub const LOCAL: Self = Self(None);

    const BYTES: usize = 128;

    /// Returns the id as it is stored: empty for the local user.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

/// Writes `person` for the local user, otherwise `person:ID`.
impl fmt::Display for PrincipalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("person"),
            Some(id) => write!(f, "person:{id}"),
        }
    }
}

/// Parses the form of [`PrincipalId::as_str`].
impl FromStr for PrincipalId {
    type Err = PrincipalError;

    fn from_str(id: &str) -> Result<Self, PrincipalError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
        match id {
            "" => Ok(Self::LOCAL),
            id if id.len() <= Self::BYTES && id.chars().all(allowed) => Ok(Self(Some(id.into()))),
            id => Err(PrincipalError(id.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_plain_words() {
        let id: PrincipalId = "ada@example.org".parse().unwrap();
        assert_eq!((id.as_str(), id.to_string().as_str()), ("ada@example.org", "person:ada@example.org"));
        assert_eq!((PrincipalId::LOCAL.as_str(), PrincipalId::LOCAL.to_string().as_str()), ("", "person"));
        assert_eq!("".parse(), Ok(PrincipalId::LOCAL));
        for text in ["a b", "a:b", "a/b", "ä", "a\n", &"a".repeat(129)] {
            assert!(text.parse::<PrincipalId>().is_err(), "{text}");
        }
    }
}
