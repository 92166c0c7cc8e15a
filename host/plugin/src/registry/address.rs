//! The address of a package in a registry: `oci://HOST/PATH:VERSION` or `oci://HOST/PATH@sha256:…`.

use std::{fmt, str::FromStr};

use patchbay_core::{Digest, text};
use patchbay_egress::Origin;
use semver::Version;

pub(crate) const SCHEME: &str = "oci://";
/// Size limit of an address, in bytes.
const BYTES: usize = 1024;

/// A package in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryAddress {
    /// The registry's origin: https, or http on this machine.
    pub(crate) origin: Origin,
    /// The host as it was written, with its port if it has one.
    host: String,
    /// The path of the repository, such as `acme/greet`.
    pub(crate) path: String,
    pub(crate) reference: Reference,
}

/// Selects one package of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A tag that is a version. The registry can move a tag to other contents.
    Version(Version),
    /// The digest of the manifest, which always names the same bytes.
    Digest(Digest),
}

/// Why a string is not the address of a package in a registry, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryAddressError {
    /// The string does not begin with `oci://`, or has no host or path.
    #[error(
        "'{0}' is not the address of a package; write oci://HOST/PATH:VERSION, such as oci://ghcr.io/acme/greet:1.2.0"
    )]
    Form(String),
    /// The host is not a registry.
    #[error("invalid registry '{host}': {why}")]
    Host {
        /// The host, as it was written.
        host: String,
        /// What is wrong with it, and what to write.
        why: String,
    },
    /// The path has characters that a repository cannot have.
    #[error("invalid repository '{0}': use lower-case letters and digits, with '.', '_', '-' and '/' between them")]
    Path(String),
    /// The address names neither a version nor a digest.
    #[error("'{0}' has no version; write {0}:VERSION, such as {0}:1.2.0")]
    NoVersion(String),
    /// `latest` can name another package after each push.
    #[error("':latest' changes with each release; write the version, such as {0}:1.2.0")]
    Latest(String),
    /// A tag that GitHub's web pages show for an attestation, not for a package.
    #[error("the tag 'sha256-…' belongs to attestations; for the package itself, write {0}@sha256:{1}")]
    Attestation(String, String),
    /// Any other tag that is not a version.
    #[error("the tag '{0}' is not a version such as 1.2.0; write a version, or the digest after '@'")]
    Tag(String),
    /// The digest uses another algorithm or has the wrong length.
    #[error("'{0}' is not a digest: write sha256: and 64 hexadecimal digits")]
    Digest(String),
}

impl RegistryAddress {
    /// Returns the same repository with another reference.
    #[must_use]
    pub fn at(&self, reference: Reference) -> Self {
        Self { reference, ..self.clone() }
    }

    /// Returns the version or digest that selects the package.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// Returns the registry's origin. The credential is sent only to this origin and to the issuer of its tokens.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the last segment of the path, which usually is the package's name.
    pub fn last_segment(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the address without version and digest.
    pub fn repository(&self) -> String {
        format!("{SCHEME}{}/{}", self.host, self.path)
    }
}

impl fmt::Display for RegistryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reference {
            Reference::Version(version) => write!(f, "{}:{version}", self.repository()),
            Reference::Digest(digest) => write!(f, "{}@{digest}", self.repository()),
        }
    }
}

impl FromStr for RegistryAddress {
    type Err = RegistryAddressError;

    fn from_str(written: &str) -> Result<Self, RegistryAddressError> {
        let form = || RegistryAddressError::Form(text::excerpt(written, 200));
        let rest = written.strip_prefix(SCHEME).filter(|_| written.len() <= BYTES).ok_or_else(form)?;
        let (host, rest) = rest.split_once('/').ok_or_else(form)?;
        let origin = origin(host)?;
        let (path, tag, digest) = match rest.split_once('@') {
            // A tag before a digest adds nothing, because the digest selects the package.
            Some((path, digest)) => (path.split_once(':').map_or(path, |(path, _)| path), None, Some(digest)),
            None => match rest.split_once(':') {
                Some((path, tag)) => (path, Some(tag), None),
                None => (rest, None, None),
            },
        };
        if !is_path(path) {
            return Err(RegistryAddressError::Path(text::excerpt(path, 200)));
        }
        let repository = format!("{SCHEME}{host}/{path}");
        let reference = match (tag, digest) {
            (_, Some(digest)) => {
                let parsed = digest.parse().map_err(|_| RegistryAddressError::Digest(text::excerpt(digest, 100)));
                Reference::Digest(parsed?)
            }
            (Some(tag), None) => Reference::Version(version(&repository, tag)?),
            (None, None) => return Err(RegistryAddressError::NoVersion(repository)),
        };
        Ok(Self { origin, host: host.to_owned(), path: path.to_owned(), reference })
    }
}

fn origin(host: &str) -> Result<Origin, RegistryAddressError> {
    let refused = |why: String| RegistryAddressError::Host { host: text::excerpt(host, 100), why };
    if matches!(host, "docker.io" | "index.docker.io" | "hub.docker.com") {
        return Err(refused("its registry is registry-1.docker.io".to_owned()));
    }
    let plain: Origin = format!("http://{host}").parse().map_err(|error| refused(format!("{error}")))?;
    match plain.is_this_machine() {
        true => Ok(plain),
        false => format!("https://{host}").parse().map_err(|error| refused(format!("{error}"))),
    }
}

fn version(repository: &str, tag: &str) -> Result<Version, RegistryAddressError> {
    let repository = repository.to_owned();
    if tag == "latest" {
        return Err(RegistryAddressError::Latest(repository));
    }
    if let Some(hex) = tag.strip_prefix("sha256-") {
        let digits = hex.split('.').next().unwrap_or_default();
        return Err(RegistryAddressError::Attestation(repository, text::excerpt(digits, 64)));
    }
    parse_version(tag).ok_or_else(|| RegistryAddressError::Tag(text::excerpt(tag, 128)))
}

/// Parses a tag as a version. A tag cannot contain `+`, so build metadata is not accepted.
pub(super) fn parse_version(tag: &str) -> Option<Version> {
    let version = Version::parse(tag).ok()?;
    (tag.len() <= 128 && version.build.is_empty()).then_some(version)
}

/// Returns whether `path` is the name of a repository: segments of lower-case letters and digits, with separators in between.
fn is_path(path: &str) -> bool {
    let is_segment = |segment: &str| {
        let edges = [segment.bytes().next(), segment.bytes().last()];
        edges.iter().flatten().filter(|byte| byte.is_ascii_alphanumeric()).count() == 2
            && segment.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'))
            && !segment.contains("..")
    };
    path.len() <= 255 && path.split('/').all(is_segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_names_registry_repository_and_version() {
        let address: RegistryAddress = "oci://ghcr.io/acme/tools/greet:1.2.0-rc.1".parse().unwrap();
        assert_eq!((address.origin.to_string(), &*address.path), ("https://ghcr.io".to_owned(), "acme/tools/greet"));
        assert_eq!(address.reference, Reference::Version("1.2.0-rc.1".parse().unwrap()));
        assert_eq!(
            (address.last_segment(), address.repository()),
            ("greet", "oci://ghcr.io/acme/tools/greet".to_owned())
        );
        for written in
            ["oci://ghcr.io/acme/greet:1.2.0", "oci://localhost:5000/greet:1.2.0", "oci://127.0.0.1:5000/a/b:0.1.0"]
        {
            let address: RegistryAddress = written.parse().unwrap();
            assert_eq!(address.to_string(), written);
            assert_eq!(address.origin.is_plain(), address.origin.is_this_machine(), "{written}");
        }
        let digest = Digest::of(b"x");
        let pinned: RegistryAddress = format!("oci://ghcr.io/acme/greet:1.2.0@{digest}").parse().unwrap();
        assert_eq!(pinned.to_string(), format!("oci://ghcr.io/acme/greet@{digest}"));
    }

    #[test]
    fn refusals_say_what_to_write() {
        for (written, words) in [
            (
                "ghcr.io/acme/greet:1",
                "'ghcr.io/acme/greet:1' is not the address of a package; write oci://HOST/PATH:VERSION",
            ),
            ("oci://ghcr.io", "'oci://ghcr.io' is not the address of a package; write oci://HOST/PATH:VERSION"),
            ("oci://docker.io/acme/greet:1.0.0", "invalid registry 'docker.io': its registry is registry-1.docker.io"),
            ("oci://me:pw@ghcr.io/x:1.0.0", "invalid registry 'me:pw@ghcr.io': it contains a user name or a password"),
            ("oci://ghcr.io/Acme/Greet:1.0.0", "invalid repository 'Acme/Greet': use lower-case letters"),
            ("oci://ghcr.io/../x:1.0.0", "invalid repository '../x'"),
            ("oci://ghcr.io/a//b:1.0.0", "invalid repository 'a//b'"),
            ("oci://ghcr.io/a?b:1.0.0", "invalid repository 'a?b'"),
            (
                "oci://ghcr.io/acme/greet",
                "'oci://ghcr.io/acme/greet' has no version; write oci://ghcr.io/acme/greet:VERSION, such as \
                 oci://ghcr.io/acme/greet:1.2.0",
            ),
            (
                "oci://ghcr.io/acme/greet:latest",
                "':latest' changes with each release; write the version, such as oci://ghcr.io/acme/greet:1.2.0",
            ),
            (
                "oci://ghcr.io/acme/greet:sha256-0a1b.sig",
                "the tag 'sha256-…' belongs to attestations; for the package itself, write oci://ghcr.io/acme/greet@sha256:0a1b",
            ),
            (
                "oci://ghcr.io/acme/greet:stable",
                "the tag 'stable' is not a version such as 1.2.0; write a version, or the digest after '@'",
            ),
            ("oci://ghcr.io/acme/greet:1.2.0+build", "the tag '1.2.0+build' is not a version"),
            (
                "oci://ghcr.io/acme/greet@sha512:00",
                "'sha512:00' is not a digest: write sha256: and 64 hexadecimal digits",
            ),
        ] {
            let error = written.parse::<RegistryAddress>().unwrap_err().to_string();
            assert!(error.starts_with(words), "{written}: {error}");
        }
    }
}
