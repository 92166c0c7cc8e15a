//! Tests of Google's errors and their retry delays.

use patchbay_provider_sdk::{Action, Failure, Input, Pair, ResponseHead, Retry};
use serde_json::{Value, json};

use super::{Gemini, answer, completion_of, stream};
use crate::stream::Codec;

fn head(status: u16, content_type: &str) -> Input {
    let headers = vec![Pair { name: "content-type".to_owned(), value: content_type.to_owned() }];
    Input::ResponseHead(ResponseHead { status, headers })
}

/// Returns the failure for a response with this status and body.
fn refusal(status: u16, headers: &[Pair], body: &str) -> Failure {
    Gemini::new(&completion_of(Vec::new())).refused(status, headers, body.as_bytes())
}

fn error(code: u16, word: &str, details: Value) -> Value {
    json!({"error": {"code": code, "message": format!("It is {word}."), "status": word, "details": details}})
}

#[test]
fn refusals_by_status() {
    for (status, word, kind, retry) in [
        (400, "INVALID_ARGUMENT", "invalid-request", Retry::Never),
        (400, "FAILED_PRECONDITION", "invalid-request", Retry::Never),
        (401, "UNAUTHENTICATED", "authentication", Retry::Never),
        (403, "PERMISSION_DENIED", "authentication", Retry::Never),
        (404, "NOT_FOUND", "not-found", Retry::Never),
        (429, "RESOURCE_EXHAUSTED", "rate-limit", Retry::Backoff),
        (500, "INTERNAL", "server", Retry::Backoff),
        (503, "UNAVAILABLE", "server", Retry::Backoff),
        (504, "DEADLINE_EXCEEDED", "timeout", Retry::Backoff),
    ] {
        let body = error(status, word, json!([]));
        let expected = Failure {
            kind: kind.to_owned(),
            message: format!("It is {word}."),
            http_status: Some(status),
            code: Some(word.to_owned()),
            retry,
        };
        assert_eq!(refusal(status, &[], &body.to_string()), expected);
        // The same error in an array, with a successful status, and in the middle of an answer.
        assert_eq!(refusal(status, &[], &json!([body]).to_string()), expected);
        assert_eq!(refusal(200, &[], &json!([body]).to_string()), expected);
        let mut actions = answer(&completion_of(Vec::new()), std::slice::from_ref(&body));
        assert_eq!(actions.pop(), Some(Action::Fail(expected.clone())));
        // With the status name alone.
        let word = json!({"error": {"status": word, "message": expected.message}});
        let mut actions = answer(&completion_of(Vec::new()), &[word]);
        assert_eq!(actions.pop(), Some(Action::Fail(Failure { http_status: None, ..expected })));
    }
}

#[test]
fn unknown_errors_within_an_answer_are_server_failures() {
    for error in
        [json!({"message": "m"}), json!({"message": "m", "status": "NEW"}), json!({"message": "m", "code": 13})]
    {
        let mut actions = answer(&completion_of(Vec::new()), &[json!({"error": error})]);
        let Some(Action::Fail(failed)) = actions.pop() else { panic!("{actions:?}") };
        assert_eq!(
            (failed.kind.as_str(), failed.http_status, failed.retry),
            ("server", None, Retry::Backoff),
            "{error}"
        );
    }
}

#[test]
fn invalid_key_is_an_authentication_failure() {
    let details = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]);
    let failed = refusal(400, &[], &error(400, "INVALID_ARGUMENT", details).to_string());
    assert_eq!((failed.kind.as_str(), failed.http_status), ("authentication", Some(400)));
}

#[test]
fn retry_delays_are_read() {
    let delay = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "60s"});
    let quota = |id: &str| {
        json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
            {"quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests", "quotaId": id}
        ]})
    };
    let minute = quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier");
    let day = quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier");
    let after = [Pair { name: "Retry-After".to_owned(), value: "7".to_owned() }];
    for (status, headers, details, retry) in [
        (429, &[][..], json!([delay]), Retry::AfterMs(60_000)),
        (429, &after[..], json!([minute, delay]), Retry::AfterMs(60_000)),
        (429, &after, json!([minute]), Retry::AfterMs(7_000)),
        (429, &[], json!([{"retryDelay": "39.256418s"}]), Retry::AfterMs(39_257)),
        (429, &[], json!([{"retryDelay": "soon"}, 7, null]), Retry::Backoff),
        (429, &[], json!([day, delay]), Retry::Never),
        (429, &after, json!([delay, minute, day]), Retry::Never),
        (503, &[], json!([delay]), Retry::AfterMs(60_000)),
        (400, &[], json!([delay]), Retry::Never),
    ] {
        let failed = refusal(status, headers, &error(status, "RESOURCE_EXHAUSTED", details.clone()).to_string());
        assert_eq!(failed.retry, retry, "{details}");
    }
}

#[test]
fn refusals_without_a_message_have_one() {
    for body in
        ["", "<html>Bad Gateway</html>", "{}", "[]", "null", r#"{"error": "no"}"#, r#"{"error": {"code": "x"}}"#]
    {
        let failed = refusal(502, &[], body);
        assert_eq!(failed.message, "the server responded with status 502 and no explanation", "{body}");
        assert_eq!((failed.kind.as_str(), failed.code, failed.retry), ("server", None, Retry::Backoff));
    }
    let json = Pair { name: "content-type".to_owned(), value: "application/json".to_owned() };
    let failed = refusal(200, &[json], r#"[{"candidates": []}]"#);
    assert_eq!((failed.kind.as_str(), failed.retry), ("unknown", Retry::Never));
    assert!(failed.message.contains("'application/json' instead of events"), "{failed:?}");
}

#[test]
fn refusal_is_reported_through_the_stream() {
    let mut stream = stream(&completion_of(Vec::new()));
    assert_eq!(stream.resume(head(404, "application/json; charset=UTF-8")), []);
    let body = error(404, "NOT_FOUND", json!([])).to_string();
    assert_eq!(stream.resume(Input::BodyChunk(body.into_bytes())), []);
    let actions = stream.resume(Input::BodyEnd);
    assert!(matches!(actions.as_slice(), [Action::Fail(failed)] if failed.kind == "not-found"), "{actions:?}");
}
