//! Converts the errors of OpenAI's APIs and of compatible servers to failures of the contract.

use patchbay_provider_sdk::{Failure, Pair, Retry};
use serde_json::Value;

use crate::failure::{duration_ms, failure, header, kind_of_status, no_events, retry};

/// Maximum number of characters of an error body that is not JSON.
const EXCERPT: usize = 500;

/// Converts a response without events.
pub fn refused(status: u16, headers: &[Pair], body: &[u8]) -> Failure {
    let error_body = serde_json::from_slice(body).ok().as_ref().and_then(ErrorBody::read);
    let error_body = match error_body {
        Some(error_body) => error_body,
        None if (200..300).contains(&status) => return no_events(status, headers),
        None => ErrorBody { message: words(status, body), ..ErrorBody::default() },
    };
    let kind = match (status, error_body.kind()) {
        (_, Some("content-filter")) => "content-filter",
        // The response itself was successful, so its status says nothing about the error.
        (200..300, kind) => kind.unwrap_or("unknown"),
        (402, _) => "rate-limit",
        _ if error_body.quota() => "rate-limit",
        _ => kind_of_status(status),
    };
    let retry = if status == 402 { Retry::Never } else { error_body.retry(kind, hint(headers)) };
    Failure { http_status: Some(status), code: error_body.code(), retry, ..failure(kind, error_body.message) }
}

/// Converts an error within an answer; `error` is the event or the object in it. An error without a known code or type counts as
/// a server error, which is retried, because the server had accepted the request.
pub(crate) fn api_error(error: &Value) -> Failure {
    let error_body = ErrorBody::read(error).unwrap_or_default();
    let kind = error_body.kind().filter(|kind| *kind != "unknown").unwrap_or("server");
    let (code, retry) = (error_body.code(), error_body.retry(kind, None));
    let message =
        if error_body.message.is_empty() { "the server gave no reason".to_owned() } else { error_body.message };
    Failure { code, retry, ..failure(kind, message) }
}

/// Returns the retry delay in milliseconds: the server's, or otherwise the time until the exhausted limits are fully
/// reset. A shorter wait might be enough.
fn hint(headers: &[Pair]) -> Option<u64> {
    let reset = |limit: &str| {
        let used_up = header(headers, &format!("x-ratelimit-remaining-{limit}")) == Some("0");
        used_up.then(|| header(headers, &format!("x-ratelimit-reset-{limit}")).and_then(duration_ms)).flatten()
    };
    let millis = || header(headers, "retry-after-ms").and_then(|ms| duration_ms(&format!("{ms}ms")));
    let seconds = || header(headers, "retry-after").and_then(duration_ms);
    // A delay of zero is ignored.
    let said = millis().or_else(seconds).filter(|ms| *ms > 0);
    said.or_else(|| reset("requests").max(reset("tokens"))).filter(|ms| *ms > 0)
}

/// Returns the message of a body that is not JSON: plain text, but not the HTML page of a gateway.
fn words(status: u16, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.is_empty() || text.starts_with(['<', '{', '[']) {
        return format!("the server responded with status {status} and no reason");
    }
    text.chars().take(EXCERPT).collect()
}

#[derive(Default)]
struct ErrorBody {
    message: String,
    code: Option<String>,
    class: Option<String>,
}

impl ErrorBody {
    /// Parses `{"error": {"message", "type", "code"}}` and the forms of other servers: `{"error": "…"}` with a `code`
    /// next to it, any of these in an array, the inner error alone, and `{"detail": "…"}`.
    fn read(value: &Value) -> Option<Self> {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let error = value.get("error").filter(|error| error.is_object()).unwrap_or(value);
        let word = |name: &str| match error.get(name)? {
            Value::String(word) if !word.is_empty() => Some(word.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let message = ["message", "error", "detail", "title"].into_iter().find_map(word)?;
        // `error` is only the type of the event.
        let class = word("type").filter(|class| class != "error");
        Some(Self { message, code: word("code"), class })
    }

    /// Returns the code, or the type if there is none.
    fn code(&self) -> Option<String> {
        self.code.clone().or_else(|| self.class.clone())
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        [self.code.as_deref(), self.class.as_deref()].into_iter().flatten()
    }

    /// Returns true if the paid quota is used up. A retry cannot help then.
    fn quota(&self) -> bool {
        let words = ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active"];
        self.words().any(|word| words.contains(&word))
    }

    fn retry(&self, kind: &str, hint: Option<u64>) -> Retry {
        if self.quota() { Retry::Never } else { retry(kind, hint) }
    }

    /// Returns the kind for the code, otherwise for the type.
    fn kind(&self) -> Option<&'static str> {
        if self.quota() { Some("rate-limit") } else { self.words().find_map(kind) }
    }
}

fn kind(word: &str) -> Option<&'static str> {
    if let Ok(status) = word.parse() {
        return Some(kind_of_status(status));
    }
    Some(match word {
        "rate_limit_exceeded" | "rate_limit_error" | "too_many_requests" => "rate-limit",
        "server_error"
        | "internal_error"
        | "internal_server_error"
        | "api_error"
        | "server_overloaded"
        | "overloaded_error"
        | "service_unavailable"
        | "unavailable_error"
        | "server_is_overloaded"
        | "slow_down" => "server",
        "timeout" | "timeout_error" => "timeout",
        "invalid_api_key" | "authentication_error" | "permission_error" => "authentication",
        "model_not_found" | "not_found_error" => "not-found",
        "content_filter" | "content_policy_violation" | "image_content_policy_violation" => "content-filter",
        "context_length_exceeded" | "exceed_context_size_error" => "invalid-request",
        word if word.starts_with("invalid_") || word.contains("image") => "invalid-request",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn headers(list: &[(&str, &str)]) -> Vec<Pair> {
        list.iter().map(|(name, value)| Pair { name: (*name).to_owned(), value: (*value).to_owned() }).collect()
    }

    /// Returns kind, code and retry of an error in OpenAI's form.
    fn classify(status: u16, code: &str, class: &str, list: &[(&str, &str)]) -> (String, Option<String>, Retry) {
        let body = json!({"error": {"message": "why", "type": class, "param": null, "code": code}}).to_string();
        let failure = refused(status, &headers(list), body.as_bytes());
        assert_eq!((failure.message.as_str(), failure.http_status), ("why", Some(status)));
        (failure.kind, failure.code, failure.retry)
    }

    #[test]
    fn statuses_have_their_kind_and_codes_are_kept() {
        for (status, code, class, kind, retry) in [
            (400, "context_length_exceeded", "invalid_request_error", "invalid-request", Retry::Never),
            (400, "content_policy_violation", "invalid_request_error", "content-filter", Retry::Never),
            (401, "invalid_api_key", "invalid_request_error", "authentication", Retry::Never),
            (402, "insufficient_balance", "billing_error", "rate-limit", Retry::Never),
            (403, "unsupported_country_region_territory", "request_forbidden", "authentication", Retry::Never),
            (404, "model_not_found", "invalid_request_error", "not-found", Retry::Never),
            (408, "timeout", "timeout", "timeout", Retry::Backoff),
            (413, "too_large", "invalid_request_error", "invalid-request", Retry::Never),
            (429, "rate_limit_exceeded", "tokens", "rate-limit", Retry::Backoff),
            (429, "insufficient_quota", "insufficient_quota", "rate-limit", Retry::Never),
            (403, "billing_not_active", "billing_not_active", "rate-limit", Retry::Never),
            (500, "server_error", "server_error", "server", Retry::Backoff),
            (502, "bad_gateway", "server_error", "server", Retry::Backoff),
            (503, "server_overloaded", "server_error", "server", Retry::Backoff),
            (504, "gateway_timeout", "server_error", "timeout", Retry::Backoff),
        ] {
            assert_eq!(classify(status, code, class, &[]), (kind.to_owned(), Some(code.to_owned()), retry), "{status}");
        }
    }

    #[test]
    fn retry_after_takes_precedence_over_limit_resets() {
        let requests = [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "6m0s")];
        let tokens = [("x-ratelimit-remaining-tokens", "0"), ("X-RateLimit-Reset-Tokens", "17ms")];
        let free = [("x-ratelimit-remaining-tokens", "12"), ("x-ratelimit-reset-tokens", "9h")];
        let (after, millis) = ([("retry-after", "20")], [("Retry-After-Ms", "1500.5")]);
        let date = [("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")];
        for (list, retry) in [
            ([requests, tokens].concat(), Retry::AfterMs(360_000)),
            (tokens.to_vec(), Retry::AfterMs(17)),
            ([requests, free].concat(), Retry::AfterMs(360_000)),
            ([&free[..], &after].concat(), Retry::AfterMs(20_000)),
            ([&requests[..], &after].concat(), Retry::AfterMs(20_000)),
            ([&tokens[..], &[("retry-after", "0")]].concat(), Retry::AfterMs(17)),
            ([&after[..], &millis].concat(), Retry::AfterMs(1501)),
            (date.to_vec(), Retry::Backoff),
            (vec![("retry-after", "0")], Retry::Backoff),
            (vec![("retry-after", "-5")], Retry::Backoff),
        ] {
            assert_eq!(classify(429, "rate_limit_exceeded", "requests", &list).2, retry, "{list:?}");
            assert_eq!(classify(429, "insufficient_quota", "insufficient_quota", &list).2, Retry::Never, "{list:?}");
            assert_eq!(classify(400, "invalid_value", "invalid_request_error", &list).2, Retry::Never, "{list:?}");
        }
        assert_eq!(classify(503, "slow_down", "server_error", &after).2, Retry::AfterMs(20_000));
    }

    #[test]
    fn error_forms_of_other_servers_are_read() {
        for (status, body, kind, code, message) in [
            (404, r#"{"error":"model 'x' not found"}"#, "not-found", None, "model 'x' not found"),
            (400, r#"{"code":"invalid-argument","error":"bad"}"#, "invalid-request", Some("invalid-argument"), "bad"),
            (503, r#"{"error":{"code":503,"message":"Loading model"}}"#, "server", Some("503"), "Loading model"),
            (
                400,
                r#"{"object":"error","message":"m","type":"BadRequestError","code":400}"#,
                "invalid-request",
                Some("400"),
                "m",
            ),
            (400, r#"[{"error":{"code":400,"message":"arr"}}]"#, "invalid-request", Some("400"), "arr"),
            (401, r#"{"detail":"no key"}"#, "authentication", None, "no key"),
            (200, r#"{"error":{"message":"m","type":"server_error"}}"#, "server", Some("server_error"), "m"),
            (502, "<html>Bad Gateway</html>", "server", None, "the server responded with status 502 and no reason"),
            (503, " upstream is down\n", "server", None, "upstream is down"),
            (500, "", "server", None, "the server responded with status 500 and no reason"),
            (500, r#"{"error":{"mess"#, "server", None, "the server responded with status 500 and no reason"),
        ] {
            let failure = refused(status, &[], body.as_bytes());
            let found = (failure.kind.as_str(), failure.code.as_deref(), failure.message.as_str());
            assert_eq!(found, (kind, code, message), "{body}");
        }
        assert_eq!(refused(500, &[], "é".repeat(9999).as_bytes()).message.chars().count(), EXCERPT);
        assert_eq!(refused(500, &[], b"\xff\xfe").message, "\u{fffd}\u{fffd}");
        // A whole answer instead of events.
        let whole = refused(200, &headers(&[("content-type", "application/json")]), br#"{"choices": []}"#);
        assert_eq!((whole.kind.as_str(), whole.retry), ("unknown", Retry::Never));
        assert!(
            whole.message.contains("'application/json' instead of events; check the provider's origin"),
            "{whole:?}"
        );
    }

    #[test]
    fn errors_within_an_answer_have_the_kind_of_their_code() {
        for (error, kind, code, retry) in [
            (json!({"code": "server_error", "message": "m"}), "server", Some("server_error"), Retry::Backoff),
            (
                json!({"code": "rate_limit_exceeded", "message": "m"}),
                "rate-limit",
                Some("rate_limit_exceeded"),
                Retry::Backoff,
            ),
            (
                json!({"code": "insufficient_quota", "message": "m"}),
                "rate-limit",
                Some("insufficient_quota"),
                Retry::Never,
            ),
            (
                json!({"code": "invalid_prompt", "message": "m"}),
                "invalid-request",
                Some("invalid_prompt"),
                Retry::Never,
            ),
            (
                json!({"code": "empty_image_file", "message": "m"}),
                "invalid-request",
                Some("empty_image_file"),
                Retry::Never,
            ),
            (json!({"code": "new", "message": "m", "type": "server_error"}), "server", Some("new"), Retry::Backoff),
            (json!({"type": "error", "code": null, "message": "m"}), "server", None, Retry::Backoff),
            (json!({"error": {"message": "m"}}), "server", None, Retry::Backoff),
            (json!({"error": {"message": "m", "code": "1234"}}), "server", Some("1234"), Retry::Backoff),
            (
                json!({"error": {"type": "error", "code": "429", "message": "m"}}),
                "rate-limit",
                Some("429"),
                Retry::Backoff,
            ),
            (json!({"error": {"code": 503, "message": "m"}}), "server", Some("503"), Retry::Backoff),
        ] {
            let failure = api_error(&error);
            let found = (failure.kind.as_str(), failure.code.as_deref(), failure.retry, failure.message.as_str());
            assert_eq!(found, (kind, code, retry, "m"), "{error}");
            assert_eq!(failure.http_status, None);
        }
        assert_eq!(api_error(&json!(null)).message, "the server gave no reason");
    }
}
