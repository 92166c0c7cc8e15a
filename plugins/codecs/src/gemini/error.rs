//! Converts Google's errors, `{"error": {"code", "message", "status", "details"}}`, alone or in an array.

use patchbay_provider_sdk::{Failure, Pair, Retry};
use serde_json::Value;

use crate::failure::{duration_ms, failure, header, kind_of_status, no_events, retry};

/// Converts a response whose status is not 2xx.
pub fn refused(status: u16, headers: &[Pair], body: &[u8]) -> Failure {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    // The API returns an array with one error if it fails before it reads that events were requested.
    let error = body.get(0).unwrap_or(&body).get("error").unwrap_or(&Value::Null);
    let went_well = (200..300).contains(&status);
    if went_well && error.is_null() {
        return no_events(status, headers);
    }
    let status = code(error).filter(|_| went_well).unwrap_or(status);
    read(error, Some(status), header(headers, "retry-after").and_then(duration_ms))
}

/// Converts an error in the middle of an answer. Numbers other than failure status codes are ignored.
pub(super) fn in_answer(error: &Value) -> Failure {
    read(error, code(error).filter(|code| kind_of_status(*code) != "unknown"), None)
}

fn code(error: &Value) -> Option<u16> {
    error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok())
}

/// Converts an error. `hint` is the retry delay in milliseconds, used if the error itself has none.
fn read(error: &Value, status: Option<u16>, hint: Option<u64>) -> Failure {
    let text = |name: &str| error.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let word = text("status");
    let details: &[Value] = error.get("details").and_then(Value::as_array).map_or(&[], Vec::as_slice);
    let kind = match status {
        // Google reports an invalid key as an invalid argument.
        _ if details.iter().any(is_bad_key) => "authentication",
        Some(status) => kind_of_status(status),
        None => kind_of_word(word.unwrap_or_default()),
    };
    let unexplained = || match status {
        Some(status) => format!("the server responded with status {status} and no explanation"),
        None => "the response broke off with an error that explains nothing".to_owned(),
    };
    let hint = details.iter().find_map(delay).or(hint);
    Failure {
        http_status: status,
        code: word.map(str::to_owned),
        retry: if details.iter().any(is_used_up) { Retry::Never } else { retry(kind, hint) },
        ..failure(kind, text("message").map_or_else(unexplained, str::to_owned))
    }
}

/// Returns the kind of failure for Google's status name, for errors without a number. These occur only within an answer, when
/// the server has already accepted the request; an unknown name therefore counts as a server error.
fn kind_of_word(word: &str) -> &'static str {
    match word {
        "UNAUTHENTICATED" | "PERMISSION_DENIED" => "authentication",
        "RESOURCE_EXHAUSTED" => "rate-limit",
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE" => "invalid-request",
        "NOT_FOUND" => "not-found",
        "DEADLINE_EXCEEDED" => "timeout",
        _ => "server",
    }
}

fn is_bad_key(detail: &Value) -> bool {
    detail.get("reason").and_then(Value::as_str).is_some_and(|reason| reason.starts_with("API_KEY_"))
}

/// Reads the delay of `google.rpc.RetryInfo`.
fn delay(detail: &Value) -> Option<u64> {
    detail.get("retryDelay").and_then(Value::as_str).and_then(duration_ms)
}

/// Returns true for a `google.rpc.QuotaFailure` of a daily quota, for which no delay is long enough.
fn is_used_up(detail: &Value) -> bool {
    let violations = detail.get("violations").and_then(Value::as_array).into_iter().flatten();
    let mut ids = violations.filter_map(|violation| violation.get("quotaId").and_then(Value::as_str));
    ids.any(|id| id.contains("PerDay"))
}
