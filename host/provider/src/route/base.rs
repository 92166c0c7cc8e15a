//! The base URL of a provider: parsed and checked once, when the registry is built.

use patchbay_egress::{EgressError, Origin, Target, UrlError};
use patchbay_policy::HostPattern;

/// The base URL of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    /// The server that every request goes to.
    pub(crate) origin: Origin,
    /// The beginning of every path: empty, or a path that begins with `/` and does not end with `/`.
    pub(crate) path: String,
    /// Whether names may resolve to private addresses, and plain `http` may be used for private addresses.
    pub(crate) allow_private: bool,
}

impl Base {
    /// Parses a base URL: `https://HOST[:PORT][/PATH]`, or `http` for this machine. `allow_private` also allows plain `http` to the
    /// private network, and names that resolve to private addresses. Names are looked up later, for each request.
    ///
    /// # Errors
    /// A description of the problem for the operator.
    pub(crate) fn parse(text: &str, allow_private: bool) -> Result<Self, String> {
        if text.contains(['?', '#']) {
            return Err("a base URL has neither query nor fragment".to_owned());
        }
        let target = Target::parse(text).map_err(|error| url_words(&error))?;
        let path = target.path().trim_end_matches('/').to_owned();
        let origin = target.origin().clone();
        let port = (!origin.is_default_port()).then_some(origin.port());
        let Some(host) = HostPattern::exactly(origin.host(), port) else {
            return Err(format!("'{}' is not a valid host", origin.host()));
        };
        let checked = if allow_private { target.allow_private(host) } else { target.allow(host) };
        match checked {
            Ok(_) => Ok(Self { origin, path, allow_private }),
            Err(error) => Err(words(&error)),
        }
    }

    /// Whether requests go to this machine.
    pub(crate) fn is_local(&self) -> bool {
        let host = self.origin.host();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
        address.map_or_else(|_| is_localhost(host), |address| address.is_loopback())
    }

    /// Whether a base URL uses https and does not itself name this machine or a private address. Names are not looked up. A plugin
    /// may suggest only such a URL; only the operator can name this machine or its network.
    pub(crate) fn is_public(text: &str) -> bool {
        let any = |target: Target| target.allow(HostPattern::Any).is_ok();
        Target::parse(text).is_ok_and(|target| !is_localhost(target.origin().host()) && any(target))
    }
}

fn is_localhost(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost")
}

/// Describes an error to the operator of a provider. The messages of egress are for skills and mention their grants.
fn url_words(error: &UrlError) -> String {
    match error {
        UrlError::Host(host) => {
            format!("its host '{host}' must be a name without a dot at the end, or an IPv4 address")
        }
        error => error.to_string(),
    }
}

fn words(error: &EgressError) -> String {
    match error {
        EgressError::Url(error) => url_words(error),
        EgressError::PlainHttp { origin } => {
            format!("requests to {origin} would be unencrypted: plain http is only allowed for this machine. Use https")
        }
        EgressError::Address { host, address, what, next } => {
            let next = if next.contains("grant") { String::new() } else { format!(": {next}") };
            format!("'{host}' is {address}, {what}, which a provider may not reach{next}")
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_url_is_an_origin_and_optional_path() {
        let parsed =
            |text: &str, private| Base::parse(text, private).map(|base| format!("{}|{}", base.origin, base.path));
        for (text, private, expected) in [
            ("https://api.example.com", false, Ok("https://api.example.com|")),
            ("https://api.example.com/v1/", false, Ok("https://api.example.com|/v1")),
            ("http://localhost:11434/v1", false, Ok("http://localhost:11434|/v1")),
            ("http://192.168.1.5:8000/v1", true, Ok("http://192.168.1.5:8000|/v1")),
            ("http://192.168.1.5:8000/v1", false, Err(())),
            ("http://api.example.com", false, Err(())),
            ("https://169.254.169.254/", true, Err(())),
            ("https://user:pass@example.com/", false, Err(())),
            ("https://api.example.com/v1?x", false, Err(())),
            ("ftp://example.com", false, Err(())),
            ("example.com", false, Err(())),
        ] {
            assert_eq!(parsed(text, private).map_err(drop), expected.map(str::to_owned), "{text}");
        }
        for text in [
            "http://api.example.com",
            "http://192.168.1.5:8000",
            "https://169.254.169.254/",
            "https://127.0.0.1.",
            "https://[::1]/",
        ] {
            for private in [false, true] {
                let words = parsed(text, private).map_or_else(|words| words, |_| String::new());
                assert!(!words.contains("grant"), "{text}: {words}");
            }
        }
        assert!(Base::is_public("https://api.example.com/v1"));
        for text in ["http://localhost/", "https://localhost/", "https://10.0.0.1/", "http://example.com/", "x"] {
            assert!(!Base::is_public(text), "{text}");
        }
    }
}
