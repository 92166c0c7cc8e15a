//! Downloads package files from `https://` addresses that a user typed, and blobs from a registry.
//!
//! Unlike all other requests of Patchbay, these follow redirects, because releases and registries serve their files from other
//! hosts. Each hop must be public https and carries no credential. The user may also name a server on this machine, which is then
//! the only local server that downloads reach.

use std::{
    io::{self, Write},
    time::Duration,
};

use patchbay_core::{Code, Digest};
use patchbay_egress::{Answer, CheckedTarget, Egress, EgressError, EgressLimits, Origin, Request, Target, UrlError};
use patchbay_policy::HostPattern;
use ring::digest::{Context, SHA256};
use tokio::time::{Instant, timeout};

/// Maximum number of redirects that are followed. Two or three are usual.
const REDIRECTS: usize = 5;
/// The owner of these requests. Egress limits concurrent requests and reuses connections per owner.
pub(crate) const OWNER: &str = "plugin";

/// Limits of one download.
#[derive(Clone, Copy, Debug)]
pub struct DownloadLimits {
    /// Size limit of a file, in bytes.
    pub bytes: u64,
    /// Time limit from the first DNS lookup to the last byte, over all redirects.
    pub time: Duration,
    /// The interval at which the speed is checked, and the longest time without any data.
    pub window: Duration,
    /// The minimum number of bytes that must arrive in each window.
    pub window_bytes: u64,
}

impl Default for DownloadLimits {
    /// The size limit of a package; ten minutes, enough for a package of that size at 1 Mbit/s; and at least 1 KiB/s.
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            time: Duration::from_secs(600),
            window: Duration::from_secs(30),
            window_bytes: 30 << 10,
        }
    }
}

/// Why a file was not downloaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadError {
    /// The address is not a URL that can be requested.
    #[error("invalid address: {0}")]
    Url(#[from] UrlError),
    /// Plain HTTP to another machine.
    #[error("{0} is not encrypted: use https, or http on this machine (http://localhost:8080/…)")]
    Plain(Origin),
    /// The host is, or resolves to, an address that is not public.
    #[error(
        "'{host}' is {what}: packages can only come from public addresses, or from this machine by name (localhost, \
         127.0.0.1)"
    )]
    Address {
        /// The host in the URL.
        host: String,
        /// The class of its address.
        what: String,
    },
    /// A redirect leads to an address that is refused.
    #[error("{from} redirects, which is not followed: {source}")]
    Redirect {
        /// The origin that redirected.
        from: Origin,
        /// Why the new address is refused.
        source: Box<DownloadError>,
    },
    /// The download was redirected too often.
    #[error("more than {REDIRECTS} redirects; the last one was by {0}")]
    Redirects(Origin),
    /// The server does not have the file, or refuses to send it.
    #[error("{origin} responded with status {status}{}", .hint.unwrap_or_default())]
    Status {
        /// The origin that responded.
        origin: Origin,
        /// The HTTP status.
        status: u16,
        /// What to do next, after a `:`.
        hint: Option<&'static str>,
    },
    /// The file is too large.
    #[error("the file from {origin} has more than {limit} bytes, the limit of a package")]
    TooLarge {
        /// The origin that sends it.
        origin: Origin,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The server is silent, or sends too little in a window.
    #[error("{0} sends too slowly; try again later")]
    Slow(Origin),
    /// The whole download takes too long.
    #[error("not complete within {} seconds; try again later", .0.as_secs_f64())]
    Time(Duration),
    /// The file does not have the expected digest.
    #[error("expected {expected}, received {found}; nothing was added")]
    Digest {
        /// The digest that the file should have.
        expected: Digest,
        /// The digest of the received file.
        found: Digest,
    },
    /// The file's size differs from the size in the manifest.
    #[error("expected {expected} bytes, received {found}; nothing was added")]
    Size {
        /// The size in the manifest.
        expected: u64,
        /// The number of received bytes.
        found: u64,
    },
    /// Any other failure of the exchange.
    #[error(transparent)]
    Egress(EgressError),
    /// The file could not be stored.
    #[error("cannot store the download: {0}")]
    Store(#[from] io::Error),
}

impl DownloadError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> Code {
        match self {
            Self::Url(_) => Code::InvalidArgs,
            Self::Digest { .. } | Self::Size { .. } => Code::DigestMismatch,
            Self::Store(_) => Code::FolderUnusable,
            _ => Code::DownloadFailed,
        }
    }

    fn redirected(self, from: &Origin) -> Self {
        Self::Redirect { from: from.clone(), source: Box::new(self) }
    }

    /// Converts an error of egress. The messages there name grants and `config.toml` keys that do not apply to downloads.
    pub(crate) fn of(error: EgressError, origin: &Origin, limits: &DownloadLimits) -> Self {
        match error {
            EgressError::PlainHttp { origin } => Self::Plain(origin),
            EgressError::Address { host, what, .. } => Self::Address { host, what },
            EgressError::TooLarge { .. } => Self::TooLarge { origin: origin.clone(), limit: limits.bytes },
            EgressError::Timeout { .. } | EgressError::Deadline { .. } => Self::Slow(origin.clone()),
            other => Self::Egress(other),
        }
    }
}

/// A downloaded file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Download {
    /// The digest of its bytes.
    pub digest: Digest,
    /// Its size, in bytes.
    pub bytes: u64,
}

/// The digest and size that a download must have, if they are known.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpectedFile {
    /// The digest.
    pub digest: Option<Digest>,
    /// The size, in bytes.
    pub bytes: Option<u64>,
}

/// Downloads files. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Downloads {
    pub(crate) egress: Egress,
    pub(crate) limits: DownloadLimits,
}

impl Downloads {
    /// Prepares downloads within `limits`, without using the network or files yet.
    pub fn new(limits: DownloadLimits) -> Self {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let egress = Egress::new(EgressLimits {
            time_ms: milliseconds(limits.time),
            idle_ms: milliseconds(limits.window),
            request_bytes: usize::try_from(limits.bytes).unwrap_or(usize::MAX),
            wire_bytes: limits.bytes,
            body_bytes: limits.bytes,
            ..EgressLimits::default()
        });
        Self { egress, limits }
    }

    /// Downloads the file at `url` into `file`. After an error, `file` may contain the beginning of it.
    ///
    /// # Errors
    /// [`DownloadError`].
    pub async fn fetch(
        &self,
        url: &str,
        expected: ExpectedFile,
        file: &mut impl Write,
    ) -> Result<Download, DownloadError> {
        let target = Target::parse(url)?;
        let named = target.origin().clone();
        let target = permit(target, &named).map_err(|error| DownloadError::of(error, &named, &self.limits))?;
        self.fetch_from(Request::get(OWNER, target), &named, expected, file).await
    }

    /// Sends `first`, follows redirects, and downloads the body of the last response. Redirected requests don't carry the secrets
    /// of `first`. `named` is the origin that the user named.
    pub(crate) async fn fetch_from(
        &self,
        first: Request,
        named: &Origin,
        expected: ExpectedFile,
        file: &mut impl Write,
    ) -> Result<Download, DownloadError> {
        let whole = async {
            let (mut answer, origin) = self.follow(first, named).await?;
            self.receive(&mut answer, &origin, expected, file).await
        };
        timeout(self.limits.time, whole).await.unwrap_or(Err(DownloadError::Time(self.limits.time)))
    }

    /// Follows redirects. Returns the first response that is not a redirect, and its origin.
    async fn follow(&self, mut request: Request, named: &Origin) -> Result<(Answer, Origin), DownloadError> {
        let mut from: Option<Origin> = None;
        for _ in 0..=REDIRECTS {
            request.verbatim = true;
            let (target, origin) = (request.target.clone(), request.target.origin().clone());
            let answer = self.egress.open(request).await;
            let answer = answer.map_err(|error| match (DownloadError::of(error, &origin, &self.limits), &from) {
                (source @ DownloadError::Address { .. }, Some(from)) => source.redirected(from),
                (other, _) => other,
            })?;
            let hint = match answer.status {
                200 => return Ok((answer, origin)),
                301 | 302 | 303 | 307 | 308 => None,
                401 | 403 => Some(": packages are downloaded without a credential"),
                404 => Some(": check the address"),
                _ => Some(": try again later"),
            };
            let location = answer.headers.iter().find(|(name, _)| name == "location").filter(|_| hint.is_none());
            let Some((_, location)) = location else {
                return Err(DownloadError::Status { origin, status: answer.status, hint });
            };
            let next = target.location(location).map_err(DownloadError::Url).and_then(|next| {
                let to = next.origin().clone();
                permit(next, named).map_err(|error| DownloadError::of(error, &to, &self.limits))
            });
            request = Request::get(OWNER, next.map_err(|error| error.redirected(&origin))?);
            from = Some(origin);
        }
        Err(DownloadError::Redirects(request.target.origin().clone()))
    }

    /// Writes the body to `file` and hashes it on the way.
    async fn receive(
        &self,
        answer: &mut Answer,
        origin: &Origin,
        expected: ExpectedFile,
        file: &mut impl Write,
    ) -> Result<Download, DownloadError> {
        let DownloadLimits { window, window_bytes, .. } = self.limits;
        let (mut hash, mut bytes) = (Context::new(&SHA256), 0);
        let (mut since, mut in_window) = (Instant::now(), 0);
        loop {
            let piece = answer.chunk().await.map_err(|error| DownloadError::of(error, origin, &self.limits))?;
            let Some(piece) = piece else { break };
            bytes += piece.len() as u64;
            if let Some(expected) = expected.bytes.filter(|expected| bytes > *expected) {
                return Err(DownloadError::Size { expected, found: bytes });
            }
            hash.update(&piece);
            file.write_all(&piece)?;
            in_window += piece.len() as u64;
            if since.elapsed() >= window {
                if in_window < window_bytes {
                    return Err(DownloadError::Slow(origin.clone()));
                }
                (since, in_window) = (Instant::now(), 0);
            }
        }
        if let Some(expected) = expected.bytes.filter(|expected| bytes != *expected) {
            return Err(DownloadError::Size { expected, found: bytes });
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(hash.finish().as_ref());
        let digest = Digest::from_bytes(digest);
        match expected.digest {
            Some(expected) if expected != digest => Err(DownloadError::Digest { expected, found: digest }),
            _ => Ok(Download { digest, bytes }),
        }
    }
}

/// Returns the target if a download may go there: the server on this machine that was `named`, or a public one.
pub(crate) fn permit(target: Target, named: &Origin) -> Result<CheckedTarget, EgressError> {
    let origin = target.origin();
    let exact = HostPattern::exactly(origin.host(), Some(origin.port()));
    match exact.filter(|_| origin == named && origin.is_this_machine()) {
        Some(exact) => target.allow(exact),
        None => target.allow_public(),
    }
}

#[cfg(test)]
mod tests;
