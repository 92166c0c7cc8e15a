//! Converts HTTP statuses, headers and retry hints to failures of the contract.

use patchbay_provider_sdk::{Failure, Pair, Retry, TransportFailure};

/// Creates a failure without status or code. Rate limits, server errors, timeouts and network errors are retried with
/// the host's delays; other kinds are not.
pub fn failure(kind: &str, message: impl Into<String>) -> Failure {
    Failure { kind: kind.to_owned(), message: message.into(), http_status: None, code: None, retry: retry(kind, None) }
}

/// Creates the failure for a response that ended early.
pub fn cut() -> Failure {
    failure("network", "the response ended before it was complete")
}

/// Creates the failure for a successful response that has no events, such as the web page of another server. It is not retried,
/// since the server would send the same response again.
pub fn no_events(status: u16, headers: &[Pair]) -> Failure {
    let content_type = header(headers, "content-type").unwrap_or("no content type");
    let content_type: String = content_type.chars().take(100).collect();
    let message = format!(
        "the server responded with '{content_type}' instead of events; check the provider's origin in config.toml"
    );
    Failure { http_status: Some(status), ..failure("unknown", message) }
}

/// Converts a failure of the transport.
pub fn transport(failed: TransportFailure) -> Failure {
    failure(if failed.kind == "timeout" { "timeout" } else { "network" }, failed.message)
}

/// Returns when a failure of this kind may be retried; `hint` is the server's delay in milliseconds.
pub fn retry(kind: &str, hint: Option<u64>) -> Retry {
    match (kind, hint) {
        ("rate-limit" | "server" | "timeout" | "network", Some(ms)) => Retry::AfterMs(ms),
        ("rate-limit" | "server" | "timeout" | "network", None) => Retry::Backoff,
        _ => Retry::Never,
    }
}

/// Returns the kind of failure for an HTTP status.
pub fn kind_of_status(status: u16) -> &'static str {
    match status {
        401 | 403 => "authentication",
        404 => "not-found",
        408 | 504 => "timeout",
        429 => "rate-limit",
        400..=499 => "invalid-request",
        500..=599 => "server",
        _ => "unknown",
    }
}

/// Returns the value of the first header with this name, ignoring case.
pub fn header<'a>(headers: &'a [Pair], name: &str) -> Option<&'a str> {
    headers.iter().find(|pair| pair.name.eq_ignore_ascii_case(name)).map(|pair| pair.value.trim())
}

/// Parses a server's hint into milliseconds, rounded up: `6m0s`, `60s`, `1.5s`, `20ms`, or seconds as a plain number.
/// `None` for anything else, such as a date, which would need a clock.
pub fn duration_ms(hint: &str) -> Option<u64> {
    let mut rest = hint.trim();
    if rest.is_empty() {
        return None;
    }
    if let Some(seconds) = number(rest) {
        return Some(ceil(seconds * 1000.0));
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (value, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let unit_ms = match unit {
            "h" => 3_600_000.0,
            "m" => 60_000.0,
            "s" => 1000.0,
            "ms" => 1.0,
            "us" | "µs" | "μs" => 1e-3,
            "ns" => 1e-6,
            _ => return None,
        };
        total += number(value)? * unit_ms;
        rest = tail;
    }
    Some(ceil(total))
}

/// Parses digits with at most one point; no sign, no exponent, no `inf` or `nan`.
fn number(text: &str) -> Option<f64> {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.').then(|| text.parse().ok()).flatten()
}

// Saturates for very long times.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn ceil(ms: f64) -> u64 {
    ms.ceil() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn statuses_have_their_kind() {
        for (status, kind) in [
            (400, "invalid-request"),
            (401, "authentication"),
            (403, "authentication"),
            (404, "not-found"),
            (408, "timeout"),
            (413, "invalid-request"),
            (418, "invalid-request"),
            (422, "invalid-request"),
            (429, "rate-limit"),
            (500, "server"),
            (502, "server"),
            (503, "server"),
            (504, "timeout"),
            (529, "server"),
            (599, "server"),
            (302, "unknown"),
        ] {
            assert_eq!(kind_of_status(status), kind, "{status}");
        }
    }

    #[test]
    fn only_temporary_failures_are_retried() {
        assert_eq!(retry("rate-limit", Some(60_000)), Retry::AfterMs(60_000));
        assert_eq!(retry("network", None), Retry::Backoff);
        assert_eq!(retry("authentication", Some(1)), Retry::Never);
        assert_eq!(failure("server", "x").retry, Retry::Backoff);
    }

    #[test]
    fn header_names_ignore_case() {
        let headers = [Pair { name: "Retry-After".to_owned(), value: " 7 ".to_owned() }];
        assert_eq!(header(&headers, "retry-after"), Some("7"));
        assert_eq!(header(&headers, "retry"), None);
    }

    #[test]
    fn hints_are_parsed_as_durations() {
        for (hint, ms) in [
            ("60", Some(60_000)),
            ("0", Some(0)),
            ("0.5", Some(500)),
            ("60s", Some(60_000)),
            ("6m0s", Some(360_000)),
            ("1h2m3.5s", Some(3_723_500)),
            ("20ms", Some(20)),
            ("1.2ms", Some(2)),
            ("850µs", Some(1)),
            ("39.256418s", Some(39_257)),
            ("99999999999999999999999999s", Some(u64::MAX)),
            ("", None),
            ("s", None),
            (".", None),
            ("1.2.3s", None),
            ("-1", None),
            ("1e9", None),
            ("inf", None),
            ("5 apples", None),
            ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        ] {
            assert_eq!(duration_ms(hint), ms, "{hint:?}");
        }
    }

    proptest! {
        #[test]
        fn any_hint_is_handled(hint in ".{0,20}|[0-9.hmsnuµ ]{0,20}") {
            let _ = duration_ms(&hint);
        }
    }
}
