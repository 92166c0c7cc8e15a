//! The interface to the host's HTTP client, as a trait, so that tests can replace the host.

use patchbay_sdk::http;
pub(crate) use patchbay_sdk::http::{Error, Response};

/// An HTTP client that does not follow redirects.
pub(crate) trait Http {
    /// Sends a GET request.
    fn get(&mut self, url: &str) -> Result<Response, Error>;
}

/// The client of the host, which checks each request against the grants.
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
