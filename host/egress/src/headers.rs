//! Decides which headers a plugin may set, and which response headers it sees. Called by `request` and `answer`.

use patchbay_core::text;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::{EgressError, EgressLimits, LimitKey, RequestError, Scrub};

/// Headers that delimit a request, name its host or control the connection. Only the host sets them.
const HOSTS: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Response headers that concern the transfer. Plugins do not see them.
const TRANSFERS: &[&str] = &["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];

/// Headers that describe the body as it was sent. They would be wrong for plugins, which receive the body decompressed
/// and scrubbed.
const BODIES: &[&str] = &["content-encoding", "content-length"];

/// Whether only the host may set the header `name`. Ignores case.
pub fn is_reserved_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    HOSTS.contains(&name.as_str()) || name.starts_with("proxy-")
}

/// Parses the header `name: value` of a request.
///
/// # Errors
/// [`RequestError`], if it is reserved or invalid.
pub(crate) fn checked(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), RequestError> {
    if is_reserved_header(name) {
        return Err(RequestError::ReservedHeader(name.to_ascii_lowercase()));
    }
    let named =
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| RequestError::HeaderName(text::excerpt(name, 40)))?;
    let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| RequestError::HeaderValue(named.to_string()))?;
    Ok((named, value))
}

/// Parses the headers of a request and checks their limits.
pub(crate) fn of_request(written: &[(String, String)], limits: &EgressLimits) -> Result<HeaderMap, EgressError> {
    if written.len() > limits.request_headers {
        let limit = limits.request_headers as u64;
        return Err(EgressError::TooLarge { what: "number of request headers", key: LimitKey::RequestHeaders, limit });
    }
    let bytes: usize = written.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > limits.request_header_bytes {
        let limit = limits.request_header_bytes as u64;
        return Err(EgressError::TooLarge { what: "request headers", key: LimitKey::RequestHeaderBytes, limit });
    }
    let mut headers = HeaderMap::new();
    for (name, value) in written {
        let (name, value) = checked(name, value)?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// Returns the response headers that a plugin may see, scrubbed. If the response is `bodiless`, the headers about a
/// body are kept.
pub(crate) fn of_answer(
    headers: &HeaderMap,
    bodiless: bool,
    limits: &EgressLimits,
    scrub: &Scrub,
) -> Result<Vec<(String, String)>, EgressError> {
    if headers.len() > limits.response_headers {
        let limit = limits.response_headers as u64;
        return Err(EgressError::TooLarge {
            what: "number of response headers",
            key: LimitKey::ResponseHeaders,
            limit,
        });
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > limits.response_header_bytes {
        let limit = limits.response_header_bytes as u64;
        return Err(EgressError::TooLarge { what: "response headers", key: LimitKey::ResponseHeaderBytes, limit });
    }
    let shown = |name: &str| !TRANSFERS.contains(&name) && (bodiless || !BODIES.contains(&name));
    Ok(headers
        .iter()
        .filter(|(name, _)| shown(name.as_str()))
        .map(|(name, value)| {
            let value = scrub.bytes(value.as_bytes());
            (scrub.text(name.as_str()), String::from_utf8_lossy(&value).into_owned())
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_cannot_set_reserved_or_invalid_headers() {
        for (name, value) in
            [("x-a", "b"), ("Authorization", "Bearer x"), ("cookie", "a=b"), ("x-a", "tab\tand ü"), ("x", "")]
        {
            assert!(checked(name, value).is_ok(), "{name}: {value}");
        }
        for name in HOSTS.iter().copied().chain(["Host", "CONTENT-LENGTH", "Proxy-Authorization", "proxy-connection"]) {
            assert_eq!(checked(name, "x"), Err(RequestError::ReservedHeader(name.to_ascii_lowercase())));
        }
        for name in ["", " host", "host ", "a b", "a:b", ":path", "a\r\nb", "a\0", "ü", "(x)"] {
            assert!(matches!(checked(name, "x"), Err(RequestError::HeaderName(_))), "{name:?}");
        }
        for value in ["a\r\nhost: b", "a\nb", "a\rb", "a\0b", "\x1b", "\x7f"] {
            assert_eq!(checked("x-a", value), Err(RequestError::HeaderValue("x-a".to_owned())), "{value:?}");
        }
    }

    #[test]
    fn header_count_and_size_are_limited() {
        let limits = EgressLimits { request_headers: 2, request_header_bytes: 10, ..EgressLimits::default() };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert!(of_request(&[pair("a", "1234"), pair("a", "1234")], &limits).is_ok());
        for written in [vec![pair("a", ""); 3], vec![pair("a", "1234567890")]] {
            assert_eq!(of_request(&written, &limits).unwrap_err().kind(), "too-large");
        }
    }
}
