use patchbay_egress::{EgressError, Target, UrlError};
use patchbay_policy::Host;

use crate::route::Base;

impl Base {
    /// Reads a base URL: `https://HOST[:PORT][/PATH]`, `http` for this machine; with `allow_private` also machines of the
    /// private network, and `http` to these.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn parse(text: &str, allow_private: bool) -> Result<Self, String> {
        if text.contains(['?', '#']) {
            return Err("a base URL has neither query nor fragment".to_owned());
        }
        let target = Target::parse(text).map_err(|error| url_words(&error))?;
        let path = target.path().trim_end_matches('/').to_owned();
        let origin = target.origin().clone();
        let port = (!origin.is_default_port()).then_some(origin.port());
        let Some(host) = Host::exactly(origin.host(), port) else {
            return Err(format!("'{}' is no host that can be asked", origin.host()));
        };
        let checked = if allow_private { target.allow_private(host) } else { target.allow(host) };
        match checked {
            Ok(_) => Ok(Self { origin, path, allow_private }),
            Err(error) => Err(words(&error)),
        }
    }

    /// Whether it is a place of the internet, which a plugin may suggest; this machine and its network are the operator's to
    /// name.
    pub(crate) fn is_public(text: &str) -> bool {
        let any = |target: Target| target.allow(Host::Any).is_ok();
        Target::parse(text).is_ok_and(|target| {
            let local = target.origin().host() == "localhost" || target.origin().host().ends_with(".localhost");
            !local && any(target)
        })
    }
}

/// The words of `error` for a provider's origin. Those of egress are for skills and speak of their grants.
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
            format!("{origin} would be asked without encryption: plain http is only for this machine. Use https")
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
    fn a_base_url_is_an_origin_and_perhaps_a_path() {
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
