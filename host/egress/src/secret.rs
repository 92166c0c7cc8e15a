//! A secret, and where it goes in a request. `secrets` reads it; `request` adds it last.

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::Origin;

/// A secret of the operator. It cannot be printed, compared or serialised; only a request can contain it.
#[derive(Clone)]
pub struct Secret(Arc<str>);

/// Where in a request a secret goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Into the header `name`, after `prefix` (such as `Bearer `).
    Header {
        /// The name of the header that holds the secret.
        name: String,
        /// The text before the secret.
        prefix: String,
    },
    /// Into the query, as the value of this parameter.
    Query(String),
}

/// A secret, its place in a request, and the only origin that may receive it.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The secret that is put into the request.
    pub secret: Secret,
    /// Its place in the request.
    pub placement: Placement,
    /// The origin that the operator bound it to.
    pub origin: Origin,
}

/// Why a text cannot be used as a secret. The error does not contain the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Too short to be removed from a response without damaging other text, or too long for a header.
    #[error("a secret must have {shortest} to {longest} characters; this one has {length}", shortest = Secret::SHORTEST, longest = Secret::LONGEST)]
    Length {
        /// Its length, in characters.
        length: usize,
    },
    /// It has characters that neither a header nor a query can contain.
    #[error("a secret must be printable ASCII, without a space at either end")]
    Characters,
}

impl Secret {
    /// Minimum length of a secret, in characters. Shorter strings occur by chance.
    pub const SHORTEST: usize = 8;
    /// Maximum length of a secret, in characters. Signed tokens have one or two thousand.
    pub const LONGEST: usize = 4096;

    /// Returns `text` as a secret.
    ///
    /// # Errors
    /// [`SecretError`], if it cannot be sent, or cannot be removed from a response.
    pub fn new(text: &str) -> Result<Self, SecretError> {
        let length = text.chars().count();
        if !(Self::SHORTEST..=Self::LONGEST).contains(&length) {
            return Err(SecretError::Length { length });
        }
        if !text.bytes().all(|b| (b' '..=b'~').contains(&b)) || text.trim() != text {
            return Err(SecretError::Characters);
        }
        Ok(Self(text.into()))
    }

    /// Returns the value that HTTP Basic authentication sends for a secret of the form `USER:PASSWORD`; `None` for any
    /// other secret.
    ///
    /// # Errors
    /// [`SecretError::Length`], if it would be too long.
    pub fn basic(&self) -> Option<Result<Self, SecretError>> {
        self.0.contains(':').then(|| Self::new(&STANDARD.encode(self.0.as_bytes())))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Whether `other` is the same text.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_has_valid_characters_and_length() {
        assert!(Secret::new("sk-12345").is_ok());
        assert!(Secret::new("with space").is_ok());
        for (text, error) in [
            ("", SecretError::Length { length: 0 }),
            ("sk-1234", SecretError::Length { length: 7 }),
            ("sk-12345\r\nx: y", SecretError::Characters),
            ("sk-12345\n", SecretError::Characters),
            (" sk-12345", SecretError::Characters),
            ("schlüssel", SecretError::Characters),
        ] {
            assert_eq!(Secret::new(text).unwrap_err(), error, "{text:?}");
            assert!(!error.to_string().contains("12345"));
        }
        assert_eq!(Secret::new(&"x".repeat(5000)).unwrap_err(), SecretError::Length { length: 5000 });
    }

    #[test]
    fn basic_needs_a_user_name() {
        assert!(Secret::new("password").unwrap().basic().is_none());
        let basic = Secret::new("ada:password").unwrap().basic().unwrap().unwrap();
        assert_eq!(basic.expose(), "YWRhOnBhc3N3b3Jk");
        assert!(Secret::new(&format!("a:{}", "x".repeat(4090))).unwrap().basic().unwrap().is_err());
    }

    #[test]
    fn debug_output_hides_the_secret() {
        let placed = Placed {
            secret: Secret::new("sk-12345").unwrap(),
            placement: Placement::Query("key".to_owned()),
            origin: "https://a.org".parse().unwrap(),
        };
        assert!(!format!("{placed:?}").contains("sk-12345"));
    }
}
