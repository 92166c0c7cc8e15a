//! The limits of requests: `[egress]` of `config.toml`. `cli` reads them; every step of a request applies its own.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest configurable time, in milliseconds: an hour, because users do not wait longer.
const HOUR: u64 = 3_600_000;
/// The largest configurable number of headers of a request or a response.
const HEADERS: usize = 1_000;
/// The largest configurable size of all headers, in bytes: well below the HTTP library's buffer of about 400 KiB.
const HEADER_BYTES: usize = 256 << 10;
/// The largest configurable size of a body, in bytes.
const GIGABYTE: u64 = 1 << 30;
/// The largest `requests_at_once` and `owner_requests_at_once`: more than a process usually has file descriptors for.
const REQUESTS: usize = 10_000;

/// Limits of one request and of its response. `[egress]` in `config.toml` sets them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EgressLimits {
    /// Time limit of a request, in milliseconds, from the wait for other requests to the last byte of the response. A user may be
    /// waiting for the response. A request may set a shorter limit.
    #[schemars(range(min = 1, max = HOUR))]
    pub time_ms: u64,
    /// Longest silence, in milliseconds: while the request waits for other requests, until the head of the response is complete,
    /// and between two pieces of its body. Enough for a slow server; a request to a server that hangs is abandoned.
    #[schemars(range(min = 1, max = HOUR))]
    pub idle_ms: u64,
    /// Time limit of name lookup, connection and TLS handshake, in milliseconds. Enough to send a lost packet three
    /// times.
    #[schemars(range(min = 1, max = HOUR))]
    pub connect_ms: u64,
    /// Number of headers of a request. Browsers send a dozen.
    #[schemars(range(min = 1, max = HEADERS))]
    pub request_headers: usize,
    /// Size limit of a request's headers, names and values together, in bytes. Common servers reject more.
    #[schemars(range(min = 1, max = HEADER_BYTES))]
    pub request_header_bytes: usize,
    /// Size limit of a request body, in bytes. As much as a plugin can pass in one call.
    #[schemars(range(min = 1, max = GIGABYTE))]
    pub request_bytes: usize,
    /// Number of headers of a response. Few servers send more than forty.
    #[schemars(range(min = 1, max = HEADERS))]
    pub response_headers: usize,
    /// Size limit of a response's headers, names and values together, in bytes. More than common servers send.
    #[schemars(range(min = 1, max = HEADER_BYTES))]
    pub response_header_bytes: usize,
    /// Size limit of a response body as it is transferred, in bytes.
    #[schemars(range(min = 1, max = GIGABYTE))]
    pub wire_bytes: u64,
    /// Size limit of a decompressed response body, in bytes. A body of this size fits into a plugin's memory.
    #[schemars(range(min = 1, max = GIGABYTE))]
    pub body_bytes: u64,
    /// Number of concurrent requests of the process; further requests wait. Each one uses a connection and up to
    /// `body_bytes` of memory.
    #[schemars(range(min = 1, max = REQUESTS))]
    pub requests_at_once: usize,
    /// Number of concurrent requests of one skill; further requests wait. Browsers open six connections to a server.
    /// Keep it lower than `requests_at_once`; otherwise one skill could block all others.
    #[schemars(range(min = 1, max = REQUESTS))]
    pub owner_requests_at_once: usize,
}

/// Names one limit of [`EgressLimits`]. Shown as its key in `config.toml`, without `egress.`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum LimitKey {
    /// [`EgressLimits::time_ms`].
    TimeMs,
    /// [`EgressLimits::idle_ms`].
    IdleMs,
    /// [`EgressLimits::connect_ms`].
    ConnectMs,
    /// [`EgressLimits::request_headers`].
    RequestHeaders,
    /// [`EgressLimits::request_header_bytes`].
    RequestHeaderBytes,
    /// [`EgressLimits::request_bytes`].
    RequestBytes,
    /// [`EgressLimits::response_headers`].
    ResponseHeaders,
    /// [`EgressLimits::response_header_bytes`].
    ResponseHeaderBytes,
    /// [`EgressLimits::wire_bytes`].
    WireBytes,
    /// [`EgressLimits::body_bytes`].
    BodyBytes,
    /// [`EgressLimits::requests_at_once`].
    RequestsAtOnce,
    /// [`EgressLimits::owner_requests_at_once`].
    OwnerRequestsAtOnce,
}

impl Default for EgressLimits {
    fn default() -> Self {
        Self {
            time_ms: 60_000,
            idle_ms: 30_000,
            connect_ms: 10_000,
            request_headers: 64,
            request_header_bytes: 16 << 10,
            request_bytes: 4 << 20,
            response_headers: 100,
            response_header_bytes: 64 << 10,
            wire_bytes: 4 << 20,
            body_bytes: 8 << 20,
            requests_at_once: 64,
            owner_requests_at_once: 16,
        }
    }
}

impl EgressLimits {
    /// Length limit of a URL, in bytes. Servers usually accept about 8 KiB.
    pub(crate) const URL_BYTES: usize = 16 << 10;

    pub(crate) fn idle(&self) -> Duration {
        Duration::from_millis(self.idle_ms)
    }

    pub(crate) fn connect(&self) -> Duration {
        Duration::from_millis(self.connect_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_defaults_and_unknown_ones_are_errors() {
        let parsed: EgressLimits = toml::from_str("wire_bytes = 5").unwrap();
        assert_eq!(parsed, EgressLimits { wire_bytes: 5, ..EgressLimits::default() });
        assert!(toml::from_str::<EgressLimits>("wire_byte = 5").unwrap_err().to_string().contains("wire_byte"));
    }
}
