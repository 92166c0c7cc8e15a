//! The limits of requests: `[egress]` of `config.toml`. `cli` reads them; every step of a request applies its own.

use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::EgressError;

/// The most that a limit can be meant to be. An hour is longer than anybody waits; a header buffer of the HTTP library holds
/// some 400 KiB in all.
const HOUR: u64 = 3_600_000;
const HEADERS: usize = 1_000;
const HEADER_BYTES: usize = 256 << 10;
const GIGABYTE: u64 = 1 << 30;
/// Requests at once: more than a process has file descriptors for.
const REQUESTS: usize = 10_000;

/// Limits of one request and of its response. `[egress]` in `config.toml` sets them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EgressLimits {
    /// From the look-up of the name to the last byte, in milliseconds. A person waits. A request may ask for
    /// less.
    #[schemars(range(min = 1, max = HOUR))]
    pub time_ms: u64,
    /// The longest silence, in milliseconds: until the head of the answer is whole, and between two pieces of its body.
    /// A server that thinks is given that long, one that hangs no longer.
    #[schemars(range(min = 1, max = HOUR))]
    pub idle_ms: u64,
    /// Looking up, connecting and agreeing on keys, in milliseconds: three tries of a lost packet.
    #[schemars(range(min = 1, max = HOUR))]
    pub connect_ms: u64,
    /// Headers of a request. Browsers send a dozen.
    #[schemars(range(min = 1, max = HEADERS))]
    pub request_headers: usize,
    /// Bytes of a request's headers, names and values. Common servers refuse more.
    #[schemars(range(min = 1, max = HEADER_BYTES))]
    pub request_header_bytes: usize,
    /// Bytes of a request's body: as much as a plugin can hand over in one call.
    #[schemars(range(min = 1, max = GIGABYTE))]
    pub request_bytes: usize,
    /// Headers of an answer. Servers with much to say send forty.
    #[schemars(range(min = 1, max = HEADERS))]
    pub response_headers: usize,
    /// Bytes of an answer's headers, names and values. More than common servers ever send.
    #[schemars(range(min = 1, max = HEADER_BYTES))]
    pub response_header_bytes: usize,
    /// Bytes of an answer's body as they come over the wire.
    #[schemars(range(min = 1, max = GIGABYTE))]
    pub wire_bytes: u64,
    /// Bytes of an answer's body once it is decompressed: what fits a plugin's memory with room to work.
    #[schemars(range(min = 1, max = GIGABYTE))]
    pub body_bytes: u64,
    /// Requests of the process that run at once; the next one waits. Each holds a connection and up to `body_bytes`, so that this
    /// bounds both.
    #[schemars(range(min = 1, max = REQUESTS))]
    pub requests_at_once: usize,
    /// Requests of one skill that run at once; the next one waits. Browsers open six connections to a server; no skill keeps all
    /// others from the network.
    #[schemars(range(min = 1, max = REQUESTS))]
    pub owner_requests_at_once: usize,
}

/// Names one limit of [`EgressLimits`]. Shown as its key in `config.toml`, without `egress.`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimeMs => "time_ms",
            Self::IdleMs => "idle_ms",
            Self::ConnectMs => "connect_ms",
            Self::RequestHeaders => "request_headers",
            Self::RequestHeaderBytes => "request_header_bytes",
            Self::RequestBytes => "request_bytes",
            Self::ResponseHeaders => "response_headers",
            Self::ResponseHeaderBytes => "response_header_bytes",
            Self::WireBytes => "wire_bytes",
            Self::BodyBytes => "body_bytes",
            Self::RequestsAtOnce => "requests_at_once",
            Self::OwnerRequestsAtOnce => "owner_requests_at_once",
        })
    }
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
    /// Bytes of a URL. Servers take 8 KiB or so.
    pub(crate) const URL_BYTES: usize = 16 << 10;

    /// # Errors
    /// [`EgressError::Limit`] names a key whose value cannot be meant.
    pub(crate) fn check(&self) -> Result<(), EgressError> {
        for (key, value, most) in [
            (LimitKey::TimeMs, self.time_ms, HOUR),
            (LimitKey::IdleMs, self.idle_ms, HOUR),
            (LimitKey::ConnectMs, self.connect_ms, HOUR),
            (LimitKey::RequestHeaders, self.request_headers as u64, HEADERS as u64),
            (LimitKey::RequestHeaderBytes, self.request_header_bytes as u64, HEADER_BYTES as u64),
            (LimitKey::RequestBytes, self.request_bytes as u64, GIGABYTE),
            (LimitKey::ResponseHeaders, self.response_headers as u64, HEADERS as u64),
            (LimitKey::ResponseHeaderBytes, self.response_header_bytes as u64, HEADER_BYTES as u64),
            (LimitKey::WireBytes, self.wire_bytes, GIGABYTE),
            (LimitKey::BodyBytes, self.body_bytes, GIGABYTE),
            (LimitKey::RequestsAtOnce, self.requests_at_once as u64, REQUESTS as u64),
            (LimitKey::OwnerRequestsAtOnce, self.owner_requests_at_once as u64, REQUESTS as u64),
        ] {
            if !(1..=most).contains(&value) {
                return Err(EgressError::Limit { key, value, most });
            }
        }
        Ok(())
    }

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
    fn the_defaults_hold_and_mistakes_are_named() {
        assert_eq!(EgressLimits::default().check(), Ok(()));
        let zero = EgressLimits { idle_ms: 0, ..EgressLimits::default() };
        assert_eq!(zero.check().unwrap_err().to_string(), "egress.idle_ms is 0; it must be from 1 to 3600000");
        let parsed: EgressLimits = toml::from_str("wire_bytes = 5").unwrap();
        assert_eq!(parsed, EgressLimits { wire_bytes: 5, ..EgressLimits::default() });
        assert!(toml::from_str::<EgressLimits>("wire_byte = 5").unwrap_err().to_string().contains("wire_byte"));
    }
}
