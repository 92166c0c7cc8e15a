//! Parses the address of a page and resolves redirects.

use patchbay_sdk::{Failure, Result};
use url::Url;

/// Maximum number of characters of an address in a message.
const MOST: usize = 200;

/// Parses an address. Without a scheme it is https.
pub(crate) fn read(written: &str) -> Result<Url> {
    let written = written.trim();
    if written.is_empty() {
        return Err(Failure::invalid("the address is empty; use one such as https://example.com/page"));
    }
    let url = match written.contains("://") {
        true => Url::parse(written),
        false => Url::parse(&format!("https://{written}")),
    };
    let wrong = |why: &str| {
        Failure::invalid(format!(
            "'{}' is not an address: {why}; use one such as https://example.com/page",
            clip(written)
        ))
    };
    // The URL parser would silently drop or encode white space, but it usually separates a second address.
    if written.contains(char::is_whitespace) {
        return Err(wrong("it contains white space"));
    }
    checked(url.map_err(|error| wrong(&error.to_string()))?).map_err(|scheme| wrong(&scheme))
}

/// Returns the address to which the response of `from` redirects.
pub(crate) fn redirected(from: &Url, location: &str) -> Result<Url> {
    let wrong = |why: &str| {
        Failure::new(
            "bad-redirect",
            format!("{from} redirects to '{}', which is not an address: {why}", clip(location)),
        )
    };
    let url = from.join(location.trim()).map_err(|error| wrong(&error.to_string()))?;
    checked(url).map_err(|scheme| wrong(&scheme))
}

/// Removes the fragment, which is not sent to servers.
fn checked(mut url: Url) -> Result<Url, String> {
    match url.scheme() {
        _ if !url.username().is_empty() || url.password().is_some() => {
            Err("it contains a user name or a password, which would be shown in the answer".to_owned())
        }
        "http" | "https" => {
            url.set_fragment(None);
            Ok(url)
        }
        scheme => Err(format!("its scheme is '{scheme}', not https")),
    }
}

/// Shortens a string for quoting.
pub(crate) fn clip(text: &str) -> String {
    match text.char_indices().nth(MOST) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_scheme_is_https() {
        for (written, url) in [
            ("example.com", "https://example.com/"),
            (" example.com/a?b=c#d ", "https://example.com/a?b=c"),
            ("localhost:8080/x", "https://localhost:8080/x"),
            ("http://example.com", "http://example.com/"),
            ("HTTPS://Example.com:443/ä", "https://example.com/%C3%A4"),
            ("bücher.example", "https://xn--bcher-kva.example/"),
        ] {
            assert_eq!(read(written).map(String::from).as_deref(), Ok(url), "{written}");
        }
    }

    #[test]
    fn invalid_addresses_are_reported() {
        let refused = |written: &str| read(written).expect_err("a refusal").to_string();
        assert_eq!(refused(" "), "the address is empty; use one such as https://example.com/page");
        assert_eq!(
            refused("ftp://example.com"),
            "'ftp://example.com' is not an address: its scheme is 'ftp', not https; use one such as \
             https://example.com/page"
        );
        assert!(refused("a b").contains("it contains white space"));
        assert!(refused("https://").contains("'https://' is not an address: empty host"), "{}", refused("https://"));
        assert!(refused("me:secret@example.com").contains("it contains a user name or a password"));
        assert!(refused("mailto:me@example.com").contains("is not an address"));
        assert!(refused(&"[".repeat(100_000)).len() < 500);
    }

    #[test]
    fn redirects_are_relative_to_their_page() {
        let from = read("https://example.com/a/b?c").expect("an address");
        let to = |location: &str| redirected(&from, location).map(String::from).map_err(|failure| failure.to_string());
        assert_eq!(to("d").as_deref(), Ok("https://example.com/a/d"));
        assert_eq!(to("//other.example/x#y").as_deref(), Ok("https://other.example/x"));
        assert_eq!(to("http://example.com/").as_deref(), Ok("http://example.com/"));
        assert_eq!(
            to("javascript:alert(1)").expect_err("a refusal"),
            "https://example.com/a/b?c redirects to 'javascript:alert(1)', which is not an address: its scheme is \
             'javascript', not https"
        );
    }
}
