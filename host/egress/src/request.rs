//! A request as its caller describes it, and its conversion to the HTTP request that `egress` sends.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{
    Method,
    header::{ACCEPT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderValue, USER_AGENT},
};

use crate::{CheckedTarget, EgressError, EgressLimits, LimitKey, Origin, Placed, Placement, Scrub, headers};

/// A request to a target that a permit covers.
#[derive(Clone, Debug)]
pub struct Request {
    /// The owner: a skill's identity or a provider's name. Owners never share connections.
    pub owner: String,
    /// One of `GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE`, `OPTIONS`.
    pub method: String,
    /// The checked destination of the request.
    pub target: CheckedTarget,
    /// The headers in the order in which they are sent. A name may occur twice; names for which
    /// [`crate::is_reserved_header`] is true are refused.
    pub headers: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: Bytes,
    /// Whether the body is wanted as the server stores it: no compression is offered, and none is removed. For files whose digest
    /// is checked.
    pub verbatim: bool,
    /// The time for the whole request, if shorter than [`EgressLimits::time_ms`].
    pub timeout: Option<Duration>,
    /// The secrets of the request, which are added last.
    pub secrets: Vec<Placed>,
    /// Removes the secrets that are bound to the target's origin from the response. The request's own secrets are always removed.
    pub scrub: Scrub,
}

/// Why a request is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The method is not supported.
    #[error("unsupported method '{0}'; use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")]
    Method(String),
    /// The header's name is invalid.
    #[error("invalid header name '{0}': use letters, digits and '-'")]
    HeaderName(String),
    /// The header's value contains a line break or another control character.
    #[error("the value of the header '{0}' contains a control character")]
    HeaderValue(String),
    /// Only the host may set the header.
    #[error("the header '{0}' is set by the host: leave it out")]
    ReservedHeader(String),
    /// A header for a secret is set already.
    #[error("the header '{0}' carries a credential: leave it out of the other headers, and name it once")]
    HeaderTwice(String),
    /// A query parameter for a secret is set already.
    #[error("the query parameter '{0}' carries a credential: leave it out of the URL, and name it once")]
    QueryTwice(String),
    /// The URL has a character that must be percent-encoded.
    #[error("the URL contains a character that must be percent-encoded")]
    Url,
}

impl Request {
    /// Returns a `GET` request without headers and body.
    pub fn get(owner: impl Into<String>, target: CheckedTarget) -> Self {
        Self {
            owner: owner.into(),
            method: "GET".to_owned(),
            target,
            headers: Vec::new(),
            body: Bytes::new(),
            verbatim: false,
            timeout: None,
            secrets: Vec::new(),
            scrub: Scrub::default(),
        }
    }

    /// Builds the request that is sent, and the scrub for its response.
    pub(crate) fn build(&self, limits: &EgressLimits) -> Result<(reqwest::Request, Scrub), EgressError> {
        let method = match self.method.as_str() {
            "GET" => Method::GET,
            "HEAD" => Method::HEAD,
            "POST" => Method::POST,
            "PUT" => Method::PUT,
            "PATCH" => Method::PATCH,
            "DELETE" => Method::DELETE,
            "OPTIONS" => Method::OPTIONS,
            other => return Err(RequestError::Method(patchbay_core::text::excerpt(other, 20)).into()),
        };
        if self.body.len() > limits.request_bytes {
            let limit = limits.request_bytes as u64;
            return Err(EgressError::TooLarge { what: "request body", key: LimitKey::RequestBytes, limit });
        }
        let mut headers = headers::of_request(&self.headers, limits)?;
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(concat!("patchbay/", env!("CARGO_PKG_VERSION"))));
        let encoding = if self.verbatim { "identity" } else { "gzip" };
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(encoding));
        let mut url = self.target.url().clone();
        for placed in &self.secrets {
            place(placed, self.target.origin(), &mut headers, &mut url)?;
        }
        // For methods that usually have a body, servers expect an explicit length of 0 if there is none. With a body,
        // the library sets the length.
        if self.body.is_empty() && matches!(method, Method::POST | Method::PUT | Method::PATCH) {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let mut request = reqwest::Request::new(method, url);
        *request.headers_mut() = headers;
        if !self.body.is_empty() {
            *request.body_mut() = Some(self.body.clone().into());
        }
        Ok((request, self.scrub.and(self.secrets.iter().map(|placed| &placed.secret))))
    }
}

/// Adds a secret to the request, if it is bound to `origin`.
fn place(placed: &Placed, origin: &Origin, headers: &mut HeaderMap, url: &mut url::Url) -> Result<(), EgressError> {
    if placed.origin != *origin {
        return Err(EgressError::Origin { bound: placed.origin.clone(), origin: origin.clone() });
    }
    let secret = placed.secret.expose();
    match &placed.placement {
        Placement::Header { name, prefix } => {
            let (name, mut value) = headers::checked(name, &format!("{prefix}{secret}"))?;
            value.set_sensitive(true);
            if headers.contains_key(&name) {
                return Err(RequestError::HeaderTwice(name.to_string()).into());
            }
            headers.insert(name, value);
        }
        Placement::Query(name) => {
            if url.query_pairs().any(|(there, _)| there == name.as_str()) {
                return Err(RequestError::QueryTwice(patchbay_core::text::excerpt(name, 40)).into());
            }
            url.query_pairs_mut().append_pair(name, secret);
        }
    }
    Ok(())
}
