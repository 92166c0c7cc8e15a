//! What fetching needs of the host.

use patchbay_sdk::http;
pub(crate) use patchbay_sdk::http::{Error, Response};

/// One request; redirects are answers like any other.
pub(crate) trait Http {
    /// Gets what is at `url`.
    fn get(&mut self, url: &str) -> Result<Response, Error>;
}

/// The host's: it checks each request against what the operator granted.
pub(crate) struct Host;

impl Http for Host {
    fn get(&mut self, url: &str) -> Result<Response, Error> {
        let header =
            |name: &str, value: &str| patchbay_sdk::http::Pair { name: name.to_owned(), value: value.to_owned() };
        http::send(&http::Request {
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
}
