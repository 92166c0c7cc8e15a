//! The GET request of the skill.

use patchbay_sdk::http::{self, Error, Pair, Request, Response};

/// Sends a GET request. The host checks it against the grants and does not follow redirects.
pub(crate) fn get(url: &str) -> Result<Response, Error> {
    let header = |name: &str, value: &str| Pair { name: name.to_owned(), value: value.to_owned() };
    http::send(&Request {
        method: "GET".to_owned(),
        url: url.to_owned(),
        headers: vec![
            header("accept", "text/markdown, text/html, application/xhtml+xml, text/plain;q=0.9, */*;q=0.8"),
            header("user-agent", concat!("patchbay-web/", env!("CARGO_PKG_VERSION"))),
        ],
        auth: Vec::new(),
        body: None,
        timeout_ms: None,
    })
}
