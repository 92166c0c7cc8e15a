//! The public keys that may sign plugins, and their fingerprints.

use std::{fmt, str::FromStr};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use patchbay_core::{Digest, text};
use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, UnparsedPublicKey, VerificationAlgorithm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SignatureError, wire::WireFields};

const ED25519_KIND: &str = "ssh-ed25519";
const SK_ED25519_KIND: &str = "sk-ssh-ed25519@openssh.com";
const P256_KIND: &str = "ecdsa-sha2-nistp256";
const SK_P256_KIND: &str = "sk-ecdsa-sha2-nistp256@openssh.com";
/// The accepted kinds, as `ssh-keygen` names them.
pub(super) const KEY_KINDS: &[&str] = &[ED25519_KIND, SK_ED25519_KIND, P256_KIND, SK_P256_KIND];

/// The flag in a security key's signature that the user touched the key.
const USER_PRESENT: u8 = 1;

/// The SHA-256 of a public key, as `ssh-keygen -l` prints it: `SHA256:` and 43 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Fingerprint(Digest);

/// Why a string is neither a fingerprint nor a public key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FingerprintError {
    /// The string has neither of the two forms.
    #[error(
        "'{0}' is neither a fingerprint (SHA256: and 43 characters, as ssh-keygen -l prints it) nor the line of a .pub file"
    )]
    Form(String),
    /// The string is a public key, but it cannot sign plugins.
    #[error(transparent)]
    Key(#[from] SignatureError),
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHA256:{}", STANDARD_NO_PAD.encode(self.0.as_bytes()))
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    /// Parses a fingerprint, or the line of a `.pub` file: its kind, the key in base64, and an optional comment.
    fn from_str(written: &str) -> Result<Self, FingerprintError> {
        let form = || FingerprintError::Form(text::excerpt(written, 80));
        if let Some(base64) = written.strip_prefix("SHA256:") {
            let bytes = STANDARD_NO_PAD.decode(base64).map_err(|_| form())?;
            let bytes: [u8; 32] = bytes.try_into().map_err(|_| form())?;
            return Ok(Self(Digest::from_bytes(bytes)));
        }
        let mut words = written.split_ascii_whitespace();
        let (kind, base64) = words.next().zip(words.next()).ok_or_else(form)?;
        let blob = STANDARD.decode(base64).map_err(|_| form())?;
        let key = PublicKey::parse(&blob)?;
        if key.kind() == kind { Ok(key.fingerprint()) } else { Err(form()) }
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = FingerprintError;

    fn try_from(written: String) -> Result<Self, FingerprintError> {
        written.parse()
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.to_string()
    }
}

/// A public key of one of [`KEY_KINDS`].
pub(super) struct PublicKey<'a> {
    blob: &'a [u8],
    is_p256: bool,
    /// The Ed25519 key, or the point on the P-256 curve.
    point: &'a [u8],
    /// For security keys, the application that the signature is bound to, such as `ssh:`.
    application: Option<&'a [u8]>,
}

impl<'a> PublicKey<'a> {
    pub(super) fn parse(blob: &'a [u8]) -> Result<Self, SignatureError> {
        let mut fields = WireFields::new(blob);
        let kind = fields.string()?;
        let known = KEY_KINDS.iter().find(|known| known.as_bytes() == kind);
        let known = *known.ok_or_else(|| SignatureError::KeyKind(super::quotable(kind)))?;
        let is_p256 = matches!(known, P256_KIND | SK_P256_KIND);
        if is_p256 && fields.string()? != b"nistp256" {
            return Err(SignatureError::Malformed("its key is on another curve than its kind requires"));
        }
        let point = fields.string()?;
        let is_sk = matches!(known, SK_ED25519_KIND | SK_P256_KIND);
        let application = is_sk.then(|| fields.string()).transpose()?;
        fields.end()?;
        if point.len() != if is_p256 { 65 } else { 32 } {
            return Err(SignatureError::Malformed("its key has the wrong length"));
        }
        Ok(Self { blob, is_p256, point, application })
    }

    fn kind(&self) -> &'static str {
        match (self.is_p256, self.application) {
            (false, None) => ED25519_KIND,
            (false, Some(_)) => SK_ED25519_KIND,
            (true, None) => P256_KIND,
            (true, Some(_)) => SK_P256_KIND,
        }
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        Fingerprint(Digest::of(self.blob))
    }

    /// Checks `signature`, which begins with its kind, against `message`.
    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), SignatureError> {
        let mut fields = WireFields::new(signature);
        if fields.string()? != self.kind().as_bytes() {
            return Err(SignatureError::Malformed("its key and its signature are of different kinds"));
        }
        let raw = fields.string()?;
        let (algorithm, raw): (&'static dyn VerificationAlgorithm, Vec<u8>) = if self.is_p256 {
            let mut numbers = WireFields::new(raw);
            let fixed = [numbers.integer::<32>()?, numbers.integer()?].concat();
            numbers.end()?;
            (&ECDSA_P256_SHA256_FIXED, fixed)
        } else {
            (&ED25519, raw.to_vec())
        };
        let Some(application) = self.application else {
            fields.end()?;
            return self.check(algorithm, message, &raw);
        };
        let (flags, counter) = (fields.byte()?, fields.number()?);
        fields.end()?;
        let mut covered = Digest::of(application).as_bytes().to_vec();
        covered.push(flags);
        covered.extend_from_slice(&counter.to_be_bytes());
        covered.extend_from_slice(Digest::of(message).as_bytes());
        self.check(algorithm, &covered, &raw)?;
        if flags & USER_PRESENT == 0 { Err(SignatureError::NotPresent) } else { Ok(()) }
    }

    fn check(
        &self,
        algorithm: &'static dyn VerificationAlgorithm,
        message: &[u8],
        raw: &[u8],
    ) -> Result<(), SignatureError> {
        let key = UnparsedPublicKey::new(algorithm, self.point);
        key.verify(message, raw).map_err(|_| SignatureError::Mismatch(self.fingerprint()))
    }
}
