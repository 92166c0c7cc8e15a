//! Tests of key commands: when they run, and what happens after a server rejects a key.

use patchbay_core::{Code, completion::FailureKind};
use patchbay_sandbox::adapter::{Action, AdapterFailure, AdapterRequest, Input, RetryHint};

use super::{
    Bench, Script, bearer, delta, end, finish, get,
    server::{Server, ok},
    start,
};

/// The body of a script that prints `key-number-1`, then `key-number-2`, and so on.
const NUMBERED: &str = "echo key-number-$n";
const REJECTED: &str = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n";

/// Returns an adapter that sends a request with its key, and reports the status 401 as a failure of this kind.
fn asking(kind: FailureKind) -> Script {
    Script::new(move |input| match input {
        None => vec![Action::Send(AdapterRequest { auth: vec![bearer()], ..get("/") })],
        Some(Input::Head { status: 401, .. }) => vec![Action::Fail(AdapterFailure {
            kind,
            message: "no such key: key-number-1".to_owned(),
            http_status: None,
            code: None,
            retry: RetryHint::Never,
        })],
        Some(Input::Head { .. }) => vec![start(0)],
        Some(Input::Chunk(bytes)) => vec![delta(0, &String::from_utf8_lossy(bytes))],
        Some(_) => vec![end(0), finish()],
    })
}

/// Returns a server that accepts only this key.
async fn accepting(key: &'static str) -> Server {
    Server::with(move |request| match request.contains(&format!("authorization: Bearer {key}\r\n")) {
        true => ok("", "keys: key-number-1 key-number-2 key-number-3"),
        false => REJECTED.into(),
    })
    .await
}

#[tokio::test]
async fn command_is_run_once_for_several_completions() {
    let server = accepting("key-number-1").await;
    let mut bench = Bench::at(&server.origin()).with_key_command(NUMBERED);
    for _ in 0..3 {
        bench.run(&asking(FailureKind::Authentication)).await.unwrap();
    }
    assert_eq!((bench.runs(), server.requests().len()), (1, 3));
    // Only the command's output is a secret.
    assert!(bench.heard.text().starts_with("keys: [secret] key-number-2 key-number-3"), "{}", bench.heard.text());
}

#[tokio::test]
async fn rejected_key_is_replaced_once_and_both_are_scrubbed() {
    let server = accepting("key-number-2").await;
    let mut bench = Bench::at(&server.origin()).with_key_command(NUMBERED);
    // The response's status decides, not the failure that the adapter reports.
    bench.run(&asking(FailureKind::Unknown)).await.unwrap();
    assert_eq!((bench.runs(), server.requests().len()), (2, 2));
    assert_eq!(bench.heard.text(), "keys: [secret] [secret] key-number-3");
    // It does not count as a retry, which would be announced to the user.
    assert!(bench.heard.retries.is_empty());
    bench.run(&asking(FailureKind::Unknown)).await.unwrap();
    assert_eq!((bench.runs(), server.requests().len()), (2, 3));
}

#[tokio::test]
async fn second_rejected_key_is_an_error_that_names_the_command() {
    let server = accepting("no key at all").await;
    let mut bench = Bench::at(&server.origin()).with_key_command(NUMBERED);
    let error = bench.run(&asking(FailureKind::Authentication)).await.unwrap_err();
    assert_eq!(error.code(), Code::ProviderAuthentication);
    let words = error.to_string();
    assert!(words.starts_with("test: no such key: [secret]. Check its key command: /"), "{words}");
    assert!(words.ends_with("/give-key") && !words.contains("key-number"), "{words}");
    assert_eq!((bench.runs(), server.requests().len()), (2, 2));
    // The second key was rejected, too.
    bench.run(&asking(FailureKind::Authentication)).await.unwrap_err();
    assert_eq!((bench.runs(), server.requests().len()), (4, 4));
}

#[tokio::test]
async fn failed_command_sends_nothing_and_shows_nothing() {
    let server = accepting("key-number-1").await;
    let mut bench = Bench::at(&server.origin()).with_key_command("echo key-number-1; echo key-number-1 >&2; exit 1");
    let error = bench.run(&asking(FailureKind::Authentication)).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), (Code::KeyCommandFailed, FailureKind::Authentication));
    let words = error.to_string();
    assert!(words.starts_with("the key command of 'test' failed (exit 1). Run it yourself to see why: /"), "{words}");
    assert!(!format!("{error:?}").contains("key-number"), "{error:?}");
    assert!(server.requests().is_empty() && bench.heard.retries.is_empty());
}

/// A 401 for a stored key changes nothing, because no other key is available.
#[tokio::test]
async fn rejected_stored_key_is_not_sent_again() {
    let server = accepting("no key at all").await;
    let mut bench = Bench::at(&server.origin()).with_key(true);
    let error = bench.run(&asking(FailureKind::Authentication)).await.unwrap_err();
    assert_eq!((error.code(), server.requests().len()), (Code::ProviderAuthentication, 1));
}
