//! SHA-256 digests: the identity of components, skills and snapshots.

use std::{
    fmt,
    io::{self, Read},
    str::FromStr,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest. Its text form is `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// A string that is not a digest.
#[derive(Debug, thiserror::Error)]
#[error("'{}' is not a digest: write sha256: and 64 hexadecimal digits", crate::text::excerpt(.0, 80))]
pub struct DigestError(String);

impl Digest {
    /// Computes the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Computes the digest of everything that `reader` returns, without holding it in memory.
    ///
    /// # Errors
    /// An error returned by the reader.
    pub fn of_reader(reader: &mut impl Read) -> io::Result<Self> {
        let mut hasher = Sha256::new();
        io::copy(reader, &mut hasher)?;
        Ok(Self(hasher.finalize().into()))
    }

    /// Makes a digest from its bytes, such as those computed at build time.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the 32 bytes of the digest.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the 64 hexadecimal digits without `sha256:`, for file names.
    pub fn to_hex(&self) -> String {
        self.hex_digits(|digits| digits.to_owned())
    }

    /// Encodes on the stack, since the journal writes several digests for each call.
    fn hex_digits<T>(&self, work: impl FnOnce(&str) -> T) -> T {
        let mut digits = [0; 64];
        // Neither step can fail: the buffer has two bytes for each byte of the digest, and hexadecimal digits are ASCII.
        let _ = hex::encode_to_slice(self.0, &mut digits);
        work(std::str::from_utf8(&digits).unwrap_or_default())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.hex_digits(|digits| f.write_str(digits))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let error = || DigestError(text.to_owned());
        let digits = text.strip_prefix("sha256:").ok_or_else(error)?;
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| error())?;
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

/// Hashes a sequence of fields. Each field is preceded by its length, because different structures must never hash the same
/// bytes.
#[derive(Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Adds a field, preceded by its length.
    pub fn field(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let bytes = bytes.as_ref();
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// Returns the digest of all fields added so far.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trip() {
        let digest = Digest::of(b"x");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        assert!("sha256:00".parse::<Digest>().is_err());
        assert!("md5:00".parse::<Digest>().is_err());
    }

    #[test]
    fn fields_do_not_run_together() {
        let hash = |fields: &[&str]| {
            let mut hasher = Hasher::default();
            for field in fields {
                hasher.field(field);
            }
            hasher.finish()
        };
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
        assert_ne!(hash(&["a"]), hash(&["a", ""]));
    }
}
