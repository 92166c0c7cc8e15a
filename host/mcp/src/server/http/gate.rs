//! Decides which requests are read. They must address this server by its own name, must not come from a web page of another origin,
//! and must carry the token.

use http::{StatusCode, request::Parts};
use patchbay_core::Digest;

use super::host_gate::{HostGate, Misdirected, bearer_digest};

/// The path of the endpoint.
pub(super) const PATH: &str = "/mcp";
/// Names under which a client of this machine reaches 127.0.0.1.
const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];

/// Checks the heads of requests.
pub(super) struct Gate {
    hosts: HostGate,
    token: String,
    authorization: Digest,
}

/// Why a request is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    WrongHost,
    ForeignOrigin,
    UnknownPath,
    NoToken,
}

impl Refused {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::WrongHost => StatusCode::MISDIRECTED_REQUEST,
            Self::ForeignOrigin => StatusCode::FORBIDDEN,
            Self::UnknownPath => StatusCode::NOT_FOUND,
            Self::NoToken => StatusCode::UNAUTHORIZED,
        }
    }

    /// Returns the message for the client. It repeats nothing from the request.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::WrongHost => "The header Host does not name this server; use the URL that 'patchbay mcp' printed.",
            Self::ForeignOrigin => "Web pages of other origins may not use this server.",
            Self::UnknownPath => "The endpoint is /mcp.",
            Self::NoToken => {
                "The header 'Authorization: Bearer TOKEN' is missing, or its token is not the one that 'patchbay \
                 mcp' printed."
            }
        }
    }
}

impl Gate {
    /// Returns the gate of the server on `port`, with a new token.
    pub(super) fn new(port: u16) -> Self {
        let token = hex::encode(rand::random::<[u8; 32]>());
        let hosts = HostGate::new("http", NAMES.map(|name| format!("{name}:{port}")).into());
        Self { hosts, authorization: Digest::of(token.as_bytes()), token }
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Checks the head of a request. If several checks fail, the first one is reported.
    ///
    /// # Errors
    /// Why the request was [`Refused`].
    pub(super) fn check(&self, head: &Parts) -> Result<(), Refused> {
        self.hosts.check(head).map_err(|misdirected| match misdirected {
            Misdirected::Host => Refused::WrongHost,
            Misdirected::Origin => Refused::ForeignOrigin,
        })?;
        if head.uri.path() != PATH {
            return Err(Refused::UnknownPath);
        }
        if bearer_digest(&head.headers) == Some(self.authorization) { Ok(()) } else { Err(Refused::NoToken) }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const GOOD_HOST: (&str, &str) = ("host", "127.0.0.1:4000");

    fn checked(gate: &Gate, uri: &str, headers: &[(&str, &str)]) -> Result<(), Refused> {
        let mut request = Request::post(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        gate.check(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn only_requests_with_host_and_token_pass() {
        let gate = Gate::new(4000);
        let bearer = format!("Bearer {}", gate.token());
        let token = ("authorization", bearer.as_str());
        for host in ["127.0.0.1:4000", "localhost:4000", "LocalHost:4000"] {
            assert_eq!(checked(&gate, "/mcp", &[("host", host), token]), Ok(()), "{host}");
        }
        for host in ["127.0.0.1", "127.0.0.1:4001", "evil.example:4000", "localhost:4000.evil.example", ""] {
            assert_eq!(checked(&gate, "/mcp", &[("host", host), token]), Err(Refused::WrongHost), "{host}");
        }
        assert_eq!(checked(&gate, "/mcp", &[token]), Err(Refused::WrongHost));
        assert_eq!(checked(&gate, "/mcp", &[GOOD_HOST, GOOD_HOST, token]), Err(Refused::WrongHost));
        assert_eq!(checked(&gate, "http://evil.example/mcp", &[GOOD_HOST, token]), Err(Refused::WrongHost));
        assert_eq!(checked(&gate, "/other", &[GOOD_HOST, token]), Err(Refused::UnknownPath));
        let half = &bearer[..bearer.len() - 1];
        for wrong in ["", "Bearer ", half, gate.token(), "Basic eDp5"] {
            let refused = checked(&gate, "/mcp", &[GOOD_HOST, ("authorization", wrong)]);
            assert_eq!(refused, Err(Refused::NoToken), "{wrong}");
        }
        assert_eq!(checked(&gate, "/mcp", &[GOOD_HOST]), Err(Refused::NoToken));
        assert_eq!(checked(&gate, "/mcp", &[GOOD_HOST, token, token]), Err(Refused::NoToken));
    }

    #[test]
    fn foreign_origins_are_refused_also_with_the_token() {
        let gate = Gate::new(4000);
        let bearer = format!("Bearer {}", gate.token());
        let with = |origin| checked(&gate, "/mcp", &[GOOD_HOST, ("authorization", &bearer), ("origin", origin)]);
        assert_eq!(with("http://127.0.0.1:4000"), Ok(()));
        for origin in ["http://evil.example", "null", "", "https://127.0.0.1:4000", "http://127.0.0.1:4001"] {
            assert_eq!(with(origin), Err(Refused::ForeignOrigin), "{origin}");
        }
    }

    #[test]
    fn tokens_differ_and_are_long() {
        let (one, two) = (Gate::new(1), Gate::new(1));
        assert_ne!(one.token(), two.token());
        assert_eq!(one.token().len(), 64);
    }
}
