//! The URL of a request: the adapter's path below the operator's base URL. The exchange calls [`join`] for each request.
//!
//! An unusual path is rejected and never corrected. Otherwise two readers of a URL (this host, a proxy, a server)
//! could disagree on where it leads.

use patchbay_egress::{CheckedTarget, EgressError, Target, UrlError};
use patchbay_policy::HostPattern;

use super::Base;

/// Why a path cannot be joined to a base URL.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JoinError {
    /// The adapter's path is invalid.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The operator's base URL may not be requested.
    #[error(transparent)]
    Base(#[from] EgressError),
}

/// The problem with an adapter's path and query, as a phrase that follows "which".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    #[error("does not begin with '/'")]
    NoSlash,
    #[error("begins with '//', as a host does")]
    TwoSlashes,
    #[error("contains '{}', which must be percent-encoded", .0.escape_default())]
    Character(char),
    #[error("contains a segment '.' or '..'")]
    Dots,
    #[error("contains '%' without two hexadecimal digits after it")]
    Percent,
    #[error("contains the percent-encoded byte {0:#04x}, which could be read as another path")]
    Encoded(u8),
    #[error("contains percent-encoded bytes that are not UTF-8")]
    Utf8,
    #[error("does not make a URL: {0}")]
    Url(#[from] UrlError),
    #[error("leads out of the base URL")]
    Outside,
}

/// Returns the target of a request for `path_and_query` below `base`.
pub(crate) fn join(base: &Base, path_and_query: &str) -> Result<CheckedTarget, JoinError> {
    check(path_and_query)?;
    let Base { origin, path, allow_private } = base;
    let target = Target::parse(&format!("{origin}{path}{path_and_query}")).map_err(PathError::Url)?;
    // `check` leaves no way out of the base; this repeats the check with the parser that is used to send the request.
    let below = target.path().strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'));
    if target.origin() != origin || !below {
        return Err(PathError::Outside.into());
    }
    let port = (!origin.is_default_port()).then_some(origin.port());
    // A pattern can name every origin that was parsed.
    let exact = HostPattern::exactly(origin.host(), port).ok_or(PathError::Outside)?;
    Ok(if *allow_private { target.allow_private(exact) } else { target.allow(exact) }?)
}

/// Checks that a path begins with one `/`, is printable ASCII, and contains nothing that a server could read as `..`.
fn check(written: &str) -> Result<(), PathError> {
    let rest = written.strip_prefix('/').ok_or(PathError::NoSlash)?;
    if rest.starts_with('/') {
        return Err(PathError::TwoSlashes);
    }
    if let Some(bad) = written.chars().find(|c| !c.is_ascii_graphic() || matches!(c, '\\' | '#')) {
        return Err(PathError::Character(bad));
    }
    let path = written.split_once('?').map_or(written, |(path, _)| path);
    // Some servers read `..;x` as `..`.
    let names = path.split('/').filter_map(|segment| segment.split(';').next());
    if names.into_iter().any(|name| name == "." || name == "..") {
        return Err(PathError::Dots);
    }
    let mut decoded = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(PathError::Percent) };
        let byte = high << 4 | low;
        if matches!(byte, b'.' | b'/' | b'\\' | b'%') || byte.is_ascii_control() {
            return Err(PathError::Encoded(byte));
        }
        decoded.push(byte);
    }
    // An overlong encoding of a dot is invalid UTF-8, and some servers decode it to a dot.
    std::str::from_utf8(&decoded).map_err(|_| PathError::Utf8).map(drop)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn base(origin: &str, path: &str, allow_private: bool) -> Base {
        Base { origin: origin.parse().unwrap(), path: path.to_owned(), allow_private }
    }

    #[test]
    fn valid_paths_are_joined_to_the_base() {
        for path in ["", "/v1", "/compat/v1"] {
            let base = base("https://api.example.com", path, false);
            for asked in [
                "/",
                "/messages",
                "/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
                "/a/b?q=../../x&u=https://evil.example/%2e%2e%2f%00#",
                "/ft%3Agpt-4o/%E2%82%AC",
                "/a//b",
                "/...",
                "/.well-known/x",
                "/a..b/c.",
                "/a;x=..",
                "/@evil.example",
                "/:443",
                "/?",
            ] {
                let asked = asked.trim_end_matches('#');
                let checked = join(&base, asked).unwrap_or_else(|error| panic!("{asked}: {error}"));
                assert_eq!(*checked.origin(), base.origin, "{asked}");
            }
        }
    }

    #[test]
    fn path_escapes_are_refused() {
        use PathError::{Character, Dots, Encoded, NoSlash, Percent, TwoSlashes, Utf8};
        let base = base("https://api.example.com", "/v1", false);
        for (asked, error) in [
            ("", NoSlash),
            ("messages", NoSlash),
            ("?x", NoSlash),
            ("@evil.example/", NoSlash),
            (".evil.example/", NoSlash),
            (":8443/", NoSlash),
            ("https://evil.example/", NoSlash),
            ("\\evil.example", NoSlash),
            (" /a", NoSlash),
            ("//evil.example/", TwoSlashes),
            ("//", TwoSlashes),
            ("/\\evil.example", Character('\\')),
            ("/a\\..\\b", Character('\\')),
            ("/a?b\\c", Character('\\')),
            ("/a b", Character(' ')),
            ("/a#b", Character('#')),
            ("/a?b#c", Character('#')),
            ("/a\r\nHost: evil.example", Character('\r')),
            ("/a\tb", Character('\t')),
            ("/.\t./", Character('\t')),
            ("/a\0", Character('\0')),
            ("/a\u{7f}", Character('\u{7f}')),
            ("/ä", Character('ä')),
            ("/\u{ff0e}\u{ff0e}/", Character('\u{ff0e}')),
            ("/.", Dots),
            ("/..", Dots),
            ("/../", Dots),
            ("/a/../../b", Dots),
            ("/a/./b", Dots),
            ("/a/..?x", Dots),
            ("/..;/b", Dots),
            ("/a/..;x=y/b", Dots),
            ("/.;", Dots),
            ("/%2e%2e/", Encoded(b'.')),
            ("/%2E./", Encoded(b'.')),
            ("/.%2e/", Encoded(b'.')),
            ("/a%2fb", Encoded(b'/')),
            ("/a%2Fb", Encoded(b'/')),
            ("/a%5cb", Encoded(b'\\')),
            ("/a%5Cb", Encoded(b'\\')),
            ("/a%00", Encoded(0)),
            ("/a%0d%0ab", Encoded(b'\r')),
            ("/a%7f", Encoded(0x7f)),
            ("/%252e%252e/", Encoded(b'%')),
            ("/%c0%ae%c0%ae/", Utf8),
            ("/%e0%80%ae/", Utf8),
            ("/%ff", Utf8),
            ("/%", Percent),
            ("/%2", Percent),
            ("/%zz", Percent),
            ("/%u002e", Percent),
        ] {
            assert_eq!(join(&base, asked).map(drop), Err(JoinError::Path(error)), "{asked:?}");
        }
        let long = format!("/{}", "a".repeat(20_000));
        assert!(matches!(join(&base, &long), Err(JoinError::Path(PathError::Url(_)))));
    }

    #[test]
    fn private_and_plain_origins_need_permission() {
        for (origin, without, with) in [
            ("https://api.example.com", true, true),
            ("http://api.example.com", false, true), // It may be a name of the local network, which its addresses will show.
            ("http://localhost:8080", true, true),
            ("http://127.0.0.1:8080", true, true),
            ("https://192.168.1.5", true, true),
            ("http://192.168.1.5:8080", false, true),
            ("http://8.8.8.8", false, false),
            ("https://169.254.169.254", false, false),
        ] {
            assert_eq!(join(&base(origin, "", false), "/").is_ok(), without, "{origin}");
            assert_eq!(join(&base(origin, "", true), "/").is_ok(), with, "{origin}, private");
        }
    }

    /// Whether a lenient server, which decodes a path up to three times, could read a `.` or `..` segment in it.
    fn climbs(path: &str) -> bool {
        let decoded = |text: &str| {
            let mut out = Vec::new();
            let mut bytes = text.bytes();
            while let Some(b) = bytes.next() {
                let rest: Vec<u8> = bytes.clone().take(2).collect();
                match std::str::from_utf8(&rest).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                    Some(byte) if b == b'%' && rest.len() == 2 => {
                        out.push(byte);
                        bytes.nth(1);
                    }
                    _ => out.push(b),
                }
            }
            String::from_utf8_lossy(&out).into_owned()
        };
        let thrice = decoded(&decoded(&decoded(path)));
        thrice.split(['/', '\\']).any(|segment| matches!(segment.split(';').next(), Some("." | "..")))
    }

    proptest! {
        #[test]
        fn random_paths_stay_below_the_base(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("/"), Just("//"), Just("\\"), Just("."), Just(".."), Just("%2e"), Just("%2E"), Just("%2f"), Just("%5c"),
                    Just("%25"), Just("%00"), Just("%c0%ae"), Just("?"), Just("#"), Just("@"), Just(":"), Just("evil.example"),
                    Just("https:"), Just("v1"), Just("a"), Just(";"), Just("\t"), Just("\r\n"), Just(" "), Just("é"),
                ],
                0..12,
            ),
            lead: bool,
        ) {
            let asked = if lead { format!("/{}", parts.concat()) } else { parts.concat() };
            let base = base("https://api.example.com", "/v1", false);
            if join(&base, &asked).is_ok() {
                let path = asked.split('?').next().unwrap();
                prop_assert!(asked.starts_with('/') && !asked.starts_with("//"), "{}", asked);
                prop_assert!(!climbs(path), "{}", asked);
                let url = url::Url::parse(&format!("https://api.example.com/v1{asked}")).unwrap();
                prop_assert_eq!(url.origin().ascii_serialization(), "https://api.example.com");
                prop_assert!(url.path().starts_with("/v1/"), "{}", asked);
                // The path is sent as it was written.
                prop_assert_eq!(url.path(), format!("/v1{path}"));
            }
        }

        #[test]
        fn joining_never_panics(asked in "\\PC{0,40}", any in "[/%.;?#\\\\0-9a-f]{0,20}") {
            for text in [asked, any.clone(), format!("/{any}")] {
                let _ = join(&base("https://api.example.com", "", false), &text);
            }
        }
    }
}
