//! Refuses requests that don't name this server in `Host`, or that were sent by a web page of another origin. This
//! stops DNS rebinding: a page whose host name was pointed at this machine still sends its own name. Used by `gate` and
//! by `patchbay serve`.

use http::{HeaderMap, HeaderValue, header, request::Parts};
use patchbay_core::Digest;

/// The names under which clients reach a server.
pub struct HostGate {
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// The header that names another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misdirected {
    /// `Host` is missing, occurs twice, or names another server.
    Host,
    /// `Origin` is a page of another server.
    Origin,
}

impl HostGate {
    /// Returns the gate of a server whose URLs begin with `scheme`, such as `http`, and one of `hosts`, with the port.
    pub fn new(scheme: &str, hosts: Vec<String>) -> Self {
        let origins = hosts.iter().map(|host| format!("{scheme}://{host}")).collect();
        Self { hosts, origins }
    }

    /// Checks the head of a request.
    ///
    /// # Errors
    /// The header that names another server.
    pub fn check(&self, head: &Parts) -> Result<(), Misdirected> {
        let is_own = |host: &[u8]| self.hosts.iter().any(|own| host.eq_ignore_ascii_case(own.as_bytes()));
        if !only(&head.headers, header::HOST).is_some_and(is_own) {
            return Err(Misdirected::Host);
        }
        // The URI in the request line can also name a host.
        if head.uri.authority().is_some_and(|named| !self.hosts.iter().any(|own| own == named.as_str())) {
            return Err(Misdirected::Host);
        }
        let is_ours = |origin: &[u8]| self.origins.iter().any(|own| origin == own.as_bytes());
        if head.headers.contains_key(header::ORIGIN) && !only(&head.headers, header::ORIGIN).is_some_and(is_ours) {
            return Err(Misdirected::Origin);
        }
        Ok(())
    }
}

/// Returns the digest of the token in `Authorization: Bearer TOKEN`. Returns `None` if the header is missing, has another scheme or
/// occurs twice. Callers compare digests, because comparing tokens would leak information about them through its timing.
pub fn bearer_digest(headers: &HeaderMap) -> Option<Digest> {
    let (scheme, token) = only(headers, header::AUTHORIZATION)?.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| Digest::of(token.trim_ascii()))
}

/// Returns the value of a header that occurs once.
fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<&[u8]> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none()).map(HeaderValue::as_bytes)
}
