//! Verifies OpenSSH signatures (`ssh-keygen -Y sign -n patchbay-plugin`). Patchbay itself never signs anything.
//!
//! A valid signature proves that the owner of one key signed exactly these bytes, as a Patchbay plugin. Whether that key may sign a
//! package is decided elsewhere: `[publishers.NAME]` in `config.toml` contains the operator's rules, and `packages.lock` pins the
//! first key that was seen.

mod key;
mod wire;

use std::str;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use patchbay_core::text;
use ring::digest::{SHA256, SHA512, digest};

pub use self::key::{Fingerprint, FingerprintError};
use self::{
    key::{KEY_KINDS, PublicKey},
    wire::{MalformedField, WireFields, put_string},
};

/// The namespace of plugin signatures: the argument of `ssh-keygen -n`.
pub const SIGNATURE_NAMESPACE: &str = "patchbay-plugin";
/// Size limit of a signature, in bytes. `ssh-keygen` writes a few hundred.
pub const SIGNATURE_BYTES: usize = 16 << 10;

const MAGIC: &[u8] = b"SSHSIG";
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";

/// Why a signature is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The signature is larger than [`SIGNATURE_BYTES`].
    #[error("the signature has {bytes} bytes; at most {} are read", SIGNATURE_BYTES)]
    TooLarge {
        /// The number of bytes that were read, which may not be all.
        bytes: usize,
    },
    /// The lines around the base64 text are missing, or the text is damaged.
    #[error("not an OpenSSH signature: expected base64 text between '{BEGIN}' and '{END}'")]
    Armor,
    /// A field inside the signature is missing, too long or malformed.
    #[error("damaged OpenSSH signature: {0}")]
    Malformed(&'static str),
    /// The signature was made for another purpose.
    #[error(
        "the signature is for the namespace '{0}', not '{SIGNATURE_NAMESPACE}'. Sign with: ssh-keygen -Y sign -n {SIGNATURE_NAMESPACE} -f KEY FILE"
    )]
    Namespace(String),
    /// The signed digest is neither SHA-256 nor SHA-512.
    #[error("unsupported hash '{0}' in the signature; use sha512 or sha256")]
    Hash(String),
    /// Keys of this kind are not accepted.
    #[error("keys of the kind '{0}' are not accepted; sign with one of {kinds}", kinds = KEY_KINDS.join(", "))]
    KeyKind(String),
    /// The security key signed without a touch.
    #[error("the security key signed without being touched; use a key that was made without 'no-touch-required'")]
    NotPresent,
    /// The key did not sign these bytes.
    #[error("the signature by {0} does not match: the signed file or the signature was changed")]
    Mismatch(Fingerprint),
}

impl From<MalformedField> for SignatureError {
    fn from(MalformedField(what): MalformedField) -> Self {
        Self::Malformed(what)
    }
}

/// Checks `signature`, the contents of a `.sig` file, against the signed bytes, and returns the fingerprint of the key.
///
/// # Errors
/// [`SignatureError`] if `signature` is not a valid plugin signature of `signed`.
pub fn verify_signature(signature: &[u8], signed: &[u8]) -> Result<Fingerprint, SignatureError> {
    if signature.len() > SIGNATURE_BYTES {
        return Err(SignatureError::TooLarge { bytes: signature.len() });
    }
    let blob = unarmored(signature).ok_or(SignatureError::Armor)?;
    let mut fields = WireFields::new(blob.strip_prefix(MAGIC).ok_or(MalformedField("it does not begin with SSHSIG"))?);
    if fields.number()? != 1 {
        return Err(SignatureError::Malformed("its version is not 1"));
    }
    let key_blob = fields.string()?;
    let (namespace, _reserved, hash) = (fields.string()?, fields.string()?, fields.string()?);
    let raw = fields.string()?;
    fields.end()?;
    if namespace != SIGNATURE_NAMESPACE.as_bytes() {
        return Err(SignatureError::Namespace(quotable(namespace)));
    }
    let algorithm = match hash {
        b"sha512" => &SHA512,
        b"sha256" => &SHA256,
        other => return Err(SignatureError::Hash(quotable(other))),
    };
    let key = PublicKey::parse(key_blob)?;
    let mut covered = MAGIC.to_vec();
    // The reserved field is unused, and always empty in signatures by ssh-keygen.
    for field in [namespace, b"", hash, digest(algorithm, signed).as_ref()] {
        put_string(&mut covered, field);
    }
    key.verify(&covered, raw)?;
    Ok(key.fingerprint())
}

/// Decodes the base64 text between the `BEGIN` and `END` lines; `None` if a line is missing or the text is not base64.
fn unarmored(signature: &[u8]) -> Option<Vec<u8>> {
    let text = str::from_utf8(signature).ok()?.trim();
    let text = text.strip_prefix(BEGIN)?.strip_suffix(END)?;
    let base64: String = text.split_ascii_whitespace().collect();
    STANDARD.decode(base64).ok()
}

/// Cleans a field for an error message.
fn quotable(bytes: &[u8]) -> String {
    text::excerpt(&String::from_utf8_lossy(bytes), 60)
}

#[cfg(test)]
mod tests;
