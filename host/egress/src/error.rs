//! Why a request got no response. Tools pass the error on to their plugin, and exchanges with a provider pass it on to
//! the adapter.

use std::net::IpAddr;

use patchbay_policy::HostPattern;

use crate::{LimitKey, Origin, RequestError, UrlError};

/// Why a request got no response. No message contains a secret, a path or a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// The URL is invalid, or of a kind that is never requested.
    #[error("cannot request the URL: {0}")]
    Url(#[from] UrlError),
    /// The method, a header or the placement of a secret is invalid.
    #[error("cannot send the request: {0}")]
    Request(#[from] RequestError),
    /// The permit does not cover the origin.
    #[error("'http:{rule}' does not cover {origin}")]
    NotCovered {
        /// The hosts that the permit covers.
        rule: HostPattern,
        /// The origin that the request was for.
        origin: Origin,
    },
    /// Plain HTTP to another machine.
    #[error(
        "refusing to send an unencrypted request to {origin}: plain http is only allowed for this machine, with a \
         grant that names its host exactly, such as 'http:localhost:8080'. Use https"
    )]
    PlainHttp {
        /// The origin that the request was for.
        origin: Origin,
    },
    /// The host is, or resolves to, an address that the permit does not cover.
    #[error("'{host}' is {address}, {what}, which this request may not reach: {next}")]
    Address {
        /// The host, as it is written in the URL.
        host: String,
        /// The address that was refused.
        address: IpAddr,
        /// The class of the address.
        what: String,
        /// Advice about how the request could be allowed.
        next: &'static str,
    },
    /// A secret is bound to another origin.
    #[error("credential is bound to {bound}; refusing to send it to {origin}")]
    Origin {
        /// The origin that the secret is bound to.
        bound: Origin,
        /// The origin that the request was for.
        origin: Origin,
    },
    /// A part of the request or the response exceeds a limit.
    #[error("the {what} is over {limit}, the limit 'egress.{key}'")]
    TooLarge {
        /// The part of the exchange that is too large.
        what: &'static str,
        /// The key of the limit in `config.toml`.
        key: LimitKey,
        /// The configured value of the limit.
        limit: u64,
    },
    /// The response head is too large and was not read to its end.
    #[error(
        "the response has more than {headers} headers, the limit 'egress.response_headers', or over {bytes} bytes \
         of them, the limit 'egress.response_header_bytes'"
    )]
    HeadTooLarge {
        /// The maximum number of headers.
        headers: u64,
        /// The size limit of all headers together, in bytes.
        bytes: u64,
    },
    /// A time limit of the exchange ran out.
    #[error("{what} took longer than {ms} ms, the limit 'egress.{key}'")]
    Timeout {
        /// The operation that took too long.
        what: &'static str,
        /// The key of the limit in `config.toml`.
        key: LimitKey,
        /// The value of the limit, in milliseconds.
        ms: u64,
    },
    /// The request's own timeout, shorter than the limit, ran out.
    #[error("response not complete within the request's {ms} ms timeout")]
    Deadline {
        /// The timeout, in milliseconds.
        ms: u64,
    },
    /// The host name has no address.
    #[error("cannot resolve '{host}': {cause}")]
    Resolve {
        /// The host name that was looked up.
        host: String,
        /// The error reported by the resolver.
        cause: String,
    },
    /// The server could not be reached.
    #[error("cannot connect to {origin}: {cause}")]
    Connect {
        /// The origin that the request was for.
        origin: Origin,
        /// The error reported by the operating system.
        cause: String,
    },
    /// The server's certificate is invalid, or the server supports no safe version of TLS.
    #[error("cannot establish a secure connection to {origin}: {cause}")]
    Tls {
        /// The origin that the request was for.
        origin: Origin,
        /// A description of the problem.
        cause: String,
    },
    /// The connection ended before the response was complete.
    #[error("the response from {origin} was cut short")]
    Truncated {
        /// The origin that the connection was made to.
        origin: Origin,
    },
    /// The response is not valid HTTP.
    #[error("cannot read the response from {origin}: {cause}")]
    Protocol {
        /// The origin of the server that sent the response.
        origin: Origin,
        /// A description of the problem.
        cause: String,
    },
    /// The body has an encoding that was not offered, or is damaged.
    #[error("cannot decompress the response from {origin}: {cause}")]
    Encoding {
        /// The origin of the server that sent the response.
        origin: Origin,
        /// A description of the problem.
        cause: String,
    },
    /// This machine lacks something that requests need, such as certificates.
    #[error("cannot make requests from this machine: {cause}")]
    Setup {
        /// The reason, as part of a sentence.
        cause: String,
    },
}

impl EgressError {
    /// Returns the kind of the error in the plugin contract: `denied`, `invalid`, `too-large`, `timeout`, `unavailable` or
    /// `failed`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Url(_) | Self::Request(_) => "invalid",
            Self::NotCovered { .. } | Self::PlainHttp { .. } | Self::Address { .. } | Self::Origin { .. } => "denied",
            Self::TooLarge { .. } | Self::HeadTooLarge { .. } => "too-large",
            Self::Timeout { .. } | Self::Deadline { .. } => "timeout",
            Self::Setup { .. } => "unavailable",
            Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Tls { .. }
            | Self::Truncated { .. }
            | Self::Protocol { .. }
            | Self::Encoding { .. } => "failed",
        }
    }
}
