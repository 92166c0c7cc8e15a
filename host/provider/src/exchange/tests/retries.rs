//! Tests of which failures are retried, when, and how often.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use patchbay_core::{
    Code,
    completion::{BlockKind, FailureKind, StreamEvent},
};
use patchbay_sandbox::adapter::{Action, AdapterFailure, Input, RetryHint, TransportKind};
use tokio::io::AsyncWriteExt as _;

use super::{
    Bench, Script, delta, emit, end, fail, finish, get,
    server::{OPEN, Server, hang, ok, piece},
    start,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Returns an adapter that fails at every attempt.
fn failing(kind: FailureKind, hint: RetryHint) -> Script {
    Script::new(move |_| vec![fail(kind, "no", hint)])
}

/// Returns an adapter that fails at every attempt, with the status of a response.
fn failing_with_status(kind: FailureKind, status: u16, code: Option<&'static str>) -> Script {
    let hint = RetryHint::After(Duration::from_secs(30));
    Script::new(move |_| {
        let code = code.map(str::to_owned);
        let failure = AdapterFailure { kind, message: "no".to_owned(), http_status: Some(status), code, retry: hint };
        vec![Action::Fail(failure)]
    })
}

#[tokio::test]
async fn retry_delay_is_the_providers_or_grows() {
    let own: &[u64] = &[1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60, 60, 60];
    for (kind, providers, own) in [
        (FailureKind::RateLimit, 10, own),
        (FailureKind::Server, 4, &own[..4]),
        (FailureKind::Timeout, 4, &own[..4]),
        (FailureKind::Network, 4, &own[..4]),
    ] {
        let mut bench = Bench::nowhere();
        let script = failing(kind, RetryHint::After(MINUTE));
        bench.run(&script).await.unwrap_err();
        assert_eq!((script.begun() as usize, bench.waits()), (providers + 1, vec![60; providers]), "{kind:?}");
        let mut bench = Bench::nowhere();
        let script = failing(kind, RetryHint::Backoff);
        bench.run(&script).await.unwrap_err();
        assert_eq!((script.begun() as usize, &*bench.waits()), (own.len() + 1, own), "{kind:?}");
        let mut bench = Bench::nowhere();
        let script = failing(kind, RetryHint::Never);
        bench.run(&script).await.unwrap_err();
        assert_eq!(script.begun(), 1);
    }
}

#[tokio::test]
async fn overloaded_servers_are_given_minutes() {
    for (status, code, retries) in [
        (503, None, 15),
        (529, Some("overloaded_error"), 15),
        (200, Some("overloaded_error"), 15),
        (500, Some("server_is_overloaded"), 15),
        (200, Some("UNAVAILABLE"), 15),
        (500, None, 4),
        (502, Some("api_error"), 4),
    ] {
        let mut bench = Bench::nowhere();
        bench.run(&failing_with_status(FailureKind::Server, status, code)).await.unwrap_err();
        assert_eq!(bench.heard.retries.len(), retries, "{status} {code:?}");
        let last = format!("Retrying in 30 s (attempt {retries} of at most {retries}).");
        assert!(bench.heard.retries[retries - 1].to_string().ends_with(&last), "{:?}", bench.heard.retries);
    }
}

#[tokio::test]
async fn overload_is_reported_apart_from_other_failures() {
    for (kind, status, code, is_overload) in [
        (FailureKind::RateLimit, 429, None, true),
        (FailureKind::Server, 503, None, true),
        (FailureKind::Server, 200, Some("overloaded_error"), true),
        (FailureKind::Server, 500, None, false),
        (FailureKind::Timeout, 504, None, false),
    ] {
        let mut bench = Bench::nowhere();
        let script = failing_with_status(kind, status, code);
        bench.run(&script).await.unwrap_err();
        // The last attempt is reported, too, although no other follows.
        let expected = if is_overload { script.begun() as usize } else { 0 };
        assert_eq!(bench.heard.overloads, expected, "{kind:?} {status} {code:?}");
    }
    let mut bench = Bench::nowhere();
    bench.run(&failing(FailureKind::RateLimit, RetryHint::Never)).await.unwrap_err();
    assert_eq!((bench.heard.overloads, bench.heard.retries.len()), (1, 0));
}

#[tokio::test]
async fn each_retry_is_announced() {
    let mut bench = Bench::nowhere();
    bench.provider = "openai".parse().unwrap();
    let error = bench.run(&failing(FailureKind::RateLimit, RetryHint::After(MINUTE))).await.unwrap_err();
    let announced: Vec<String> = bench.heard.retries.iter().map(ToString::to_string).collect();
    let line = |n| format!("Rate limit exceeded: openai. Retrying in 60 s (attempt {n} of at most 15).");
    assert_eq!(announced, (1..=10).map(line).collect::<Vec<_>>());
    assert_eq!((error.code(), error.again_in()), (Code::ProviderRateLimit, Some(MINUTE)));
    assert_eq!(error.to_string(), "openai: no. Try again in 60 s");
    for (kind, words) in [
        (FailureKind::Server, "Server error: test. Retrying"),
        (FailureKind::Timeout, "Timed out: test. Retrying"),
        (FailureKind::Network, "Connection failed: test. Retrying"),
    ] {
        let mut bench = Bench::nowhere();
        bench.run(&failing(kind, RetryHint::Backoff)).await.unwrap_err();
        assert!(bench.heard.retries[0].to_string().starts_with(words));
    }
}

/// As without a network: nothing listens on this port.
#[tokio::test]
async fn server_that_cannot_be_reached_is_named_with_the_cause() {
    let mut bench = Bench::nowhere();
    let error = bench.run(&Script::relaying(get("/"))).await.unwrap_err();
    let words = "test: cannot connect to http://127.0.0.1:9: ";
    assert_eq!(error.code(), Code::ProviderNetwork);
    assert!(error.to_string().starts_with(words) && error.to_string().len() > words.len(), "{error}");
    let told: Vec<String> = bench.heard.retries.iter().map(ToString::to_string).collect();
    assert!(told.len() == 4 && told[0].starts_with("Connection failed: test. Retrying in "), "{told:?}");
}

#[tokio::test]
async fn second_attempt_may_succeed() {
    let attempts = AtomicU32::new(0);
    let script = Script::new(move |_| match attempts.fetch_add(1, Ordering::SeqCst) {
        0 => vec![emit(StreamEvent::Started("one".to_owned())), fail(FailureKind::Server, "no", RetryHint::Backoff)],
        _ => vec![emit(StreamEvent::Started("two".to_owned())), start(0), delta(0, "yes"), end(0), finish()],
    });
    let mut bench = Bench::nowhere();
    bench.run(&script).await.unwrap();
    assert_eq!((bench.heard.retries.len(), bench.heard.text().as_str()), (1, "yes"));
}

#[tokio::test]
async fn permanent_failures_are_not_retried() {
    for kind in [
        FailureKind::Authentication,
        FailureKind::InvalidRequest,
        FailureKind::NotFound,
        FailureKind::ContentFilter,
        FailureKind::Unknown,
    ] {
        let mut bench = Bench::nowhere();
        let script = failing(kind, RetryHint::Backoff);
        let error = bench.run(&script).await.unwrap_err();
        assert_eq!((script.begun(), error.kind()), (1, kind));
        assert!(bench.heard.retries.is_empty());
    }
}

#[tokio::test]
async fn delay_over_ten_minutes_is_not_waited_for() {
    let mut bench = Bench::nowhere();
    let long = Duration::from_secs(7500);
    let error = bench.run(&failing(FailureKind::RateLimit, RetryHint::After(long))).await.unwrap_err();
    assert!(bench.waits().is_empty() && bench.heard.retries.is_empty());
    assert_eq!(error.again_in(), Some(long));
    assert_eq!(error.to_string(), "test: no. Try again in 2 h 5 min");
}

/// The delay for a header `Retry-After: 0`, or for a date in the past.
#[tokio::test]
async fn delay_of_zero_is_the_hosts() {
    let mut bench = Bench::nowhere();
    let error = bench.run(&failing(FailureKind::Server, RetryHint::After(Duration::ZERO))).await.unwrap_err();
    assert_eq!(bench.waits(), [1, 2, 4, 8]);
    assert_eq!((error.to_string().as_str(), error.again_in()), ("test: no", None));
}

/// Returns the actions of an attempt that begins a block of this kind and breaks off.
fn breaking(block: BlockKind, kind: FailureKind) -> Vec<Action> {
    let begun = emit(StreamEvent::BlockStart { index: 0, kind: block });
    vec![begun, delta(0, "half"), fail(kind, "cut", RetryHint::Backoff)]
}

fn blocks() -> [BlockKind; 3] {
    let call = BlockKind::ToolCall { id: "1".to_owned(), name: "a__b".to_owned() };
    [BlockKind::Text, BlockKind::Thinking, call]
}

#[tokio::test]
async fn answer_that_broke_off_is_requested_again() {
    for kind in [FailureKind::Network, FailureKind::Server, FailureKind::Timeout, FailureKind::RateLimit] {
        for block in blocks() {
            let attempts = AtomicU32::new(0);
            let first = block.clone();
            let script = Script::new(move |_| match attempts.fetch_add(1, Ordering::SeqCst) {
                0 | 1 => breaking(first.clone(), kind),
                _ => vec![start(0), delta(0, "whole"), end(0), finish()],
            });
            let mut bench = Bench::nowhere();
            bench.run(&script).await.unwrap();
            // The second answer begins with block 0 again.
            assert_eq!(bench.heard.text(), "whole");
            let lines: Vec<_> = bench.heard.given_up.iter().map(|(_, retry)| retry.broke_off(true)).collect();
            let line = |n| {
                format!(
                    "The answer broke off; asking again (attempt {n} of 5). Ignore the part that was already printed."
                )
            };
            assert_eq!(lines, [line(2), line(3)], "{kind:?} {block:?}");
            assert!(bench.heard.retries.is_empty());
            assert_eq!(bench.waits(), [1, 2]);
        }
    }
}

#[tokio::test]
async fn fifth_broken_answer_is_kept() {
    for block in blocks() {
        let block = block.clone();
        let script = Script::new(move |_| breaking(block.clone(), FailureKind::Network));
        let mut bench = Bench::nowhere();
        let error = bench.run(&script).await.unwrap_err();
        assert_eq!((script.begun(), error.code()), (5, Code::ProviderNetwork));
        assert_eq!(bench.heard.given_up.len(), 4, "the last one is not given up");
        assert_eq!(bench.heard.text(), "half", "what came of the last attempt is kept");
        let ended = bench.heard.events.iter().any(|event| matches!(event, StreamEvent::BlockEnd { .. }));
        assert!(!ended, "and shows that it is cut");
    }
}

#[tokio::test]
async fn broken_answer_is_not_requested_again_if_that_cannot_help() {
    for (kind, hint) in [
        (FailureKind::Server, RetryHint::Never),
        (FailureKind::ContentFilter, RetryHint::Backoff),
        (FailureKind::InvalidRequest, RetryHint::Backoff),
        (FailureKind::Unknown, RetryHint::Backoff),
    ] {
        let script = Script::new(move |_| vec![start(0), delta(0, "half"), fail(kind, "cut", hint)]);
        let mut bench = Bench::nowhere();
        bench.run(&script).await.unwrap_err();
        assert_eq!((script.begun(), bench.heard.given_up.len()), (1, 0), "{kind:?}");
    }
    // A response over the limit would be as long again.
    let server = Server::with(|_| ok("", "x".repeat(5_000))).await;
    let mut bench = Bench::at(&server.origin());
    bench.limits.answer_bytes = 1_000;
    bench.run(&Script::relaying(get("/"))).await.unwrap_err();
    assert_eq!((server.requests().len(), bench.heard.given_up.len()), (1, 0));
}

/// Overload and attempts that break off are counted separately.
#[tokio::test]
async fn answer_that_broke_off_survives_overload() {
    let attempts = AtomicU32::new(0);
    let script = Script::new(move |_| match attempts.fetch_add(1, Ordering::SeqCst) {
        n @ 0..12 if n % 3 > 0 => vec![fail(FailureKind::RateLimit, "wait", RetryHint::Backoff)],
        0..12 => breaking(BlockKind::Text, FailureKind::Network),
        _ => vec![start(0), delta(0, "whole"), end(0), finish()],
    });
    let mut bench = Bench::nowhere();
    bench.run(&script).await.unwrap();
    let (waits, broken) = (bench.heard.retries.len(), bench.heard.given_up.len());
    assert_eq!((bench.heard.text().as_str(), waits, broken), ("whole", 8, 4));
}

#[tokio::test]
async fn broken_connection_is_opened_again() {
    for first in ["", OPEN, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"] {
        let server = Server::closing(first).await;
        let script = Script::new(|input| match input {
            None => vec![Action::Send(get("/"))],
            Some(Input::TransportFailed { kind, message }) => {
                assert_eq!(*kind, TransportKind::Reset);
                vec![fail(FailureKind::Network, message, RetryHint::Backoff)]
            }
            Some(_) => vec![],
        });
        let mut bench = Bench::at(&server.origin());
        bench.run(&script).await.unwrap_err();
        assert_eq!((script.begun(), server.requests().len()), (5, 5), "{first}");
    }
}

/// Like adapters, the script only reads seconds.
#[tokio::test]
async fn date_of_a_retry_reaches_the_adapter_as_seconds() {
    let asked = AtomicU32::new(0);
    let server = Server::with(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => {
            b"HTTP/1.1 429 No\r\nDate: Mon, 23 Nov 2026 10:00:00 GMT\r\nRetry-After: Mon, 23 Nov 2026 10:00:07 GMT\r\n\
            Content-Length: 4\r\n\r\nwait"
                .to_vec()
        }
        _ => ok("", "hello"),
    })
    .await;
    let mut bench = Bench::at(&server.origin());
    bench.run(&limited()).await.unwrap();
    assert_eq!((bench.heard.text().as_str(), bench.waits()), ("hello", vec![7]));
}

/// Returns an adapter that requests a retry after the delay in the header `retry-after`.
fn limited() -> Script {
    Script::new(|input| match input {
        None => vec![Action::Send(get("/"))],
        Some(Input::Head { status: 429, headers }) => {
            let seconds = headers.iter().find(|(name, _)| name == "retry-after").unwrap().1.parse().unwrap();
            vec![fail(FailureKind::RateLimit, "slow down", RetryHint::After(Duration::from_secs(seconds)))]
        }
        Some(Input::Head { .. }) => vec![start(0)],
        Some(Input::Chunk(bytes)) => vec![delta(0, std::str::from_utf8(bytes).unwrap())],
        Some(_) => vec![end(0), finish()],
    })
}

#[tokio::test]
async fn recovering_server_is_retried() {
    let asked = AtomicU32::new(0);
    let server = Server::with(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Length: 4\r\n\r\nwait".to_vec(),
        _ => ok("", "hello"),
    })
    .await;
    let script = limited();
    let mut bench = Bench::at(&server.origin());
    bench.run(&script).await.unwrap();
    assert_eq!(bench.heard.text(), "hello");
    assert_eq!(bench.waits(), [2, 2]);
    assert_eq!((script.begun(), server.requests().len()), (3, 3));
}

/// A timeout is retried, and each attempt has the full time.
#[tokio::test]
async fn silent_server_is_retried() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let server = Server::then(move |mut stream| {
        let silent = count.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if !silent {
                stream.write_all(format!("{OPEN}{}0\r\n\r\n", piece("hello")).as_bytes()).await.unwrap();
            }
            hang(stream).await;
        }
    })
    .await;
    let script = Script::new(|input| match input {
        None => vec![Action::Send(get("/"))],
        Some(Input::TransportFailed { kind: TransportKind::Timeout, message }) => {
            vec![fail(FailureKind::Timeout, message, RetryHint::Backoff)]
        }
        Some(Input::End) => vec![finish()],
        Some(_) => vec![],
    });
    let mut bench = Bench::at(&server.origin());
    bench.limits.first_byte_ms = 10_000;
    bench.run(&script).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn failure_message_names_the_remedy() {
    let told =
        async |mut bench: Bench, kind| bench.run(&failing(kind, RetryHint::Never)).await.unwrap_err().to_string();
    assert_eq!(
        told(Bench::nowhere().with_key(true), FailureKind::Authentication).await,
        "test: no. Check PATCHBAY_TEST_NO_SUCH_KEY or credentials.json"
    );
    assert_eq!(
        told(Bench::nowhere(), FailureKind::Authentication).await,
        "test: no. It has no key: set env = \"NAME\" in [providers.test] of config.toml, and the variable NAME"
    );
    assert_eq!(
        told(Bench::nowhere(), FailureKind::NotFound).await,
        "test: no. Check the model's name, and origin in [providers.test] of config.toml if it is set there"
    );
    assert_eq!(told(Bench::nowhere(), FailureKind::Server).await, "test: no");
}

#[tokio::test]
async fn attempt_span_names_provider_and_model() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let writer = Mutex::new(log.reopen().unwrap());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
    let _subscriber = tracing::subscriber::set_default(subscriber);
    // With only one subscriber, the first thread to reach a span would turn it off for all threads if that thread has
    // no subscriber.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let script = Script::new(|_| {
        tracing::info!("a step");
        vec![fail(FailureKind::Server, "no", RetryHint::Backoff)]
    });
    Bench::nowhere().run(&script).await.unwrap_err();
    let log = std::fs::read_to_string(log.path()).unwrap();
    let lines: Vec<_> = log.lines().filter(|line| line.ends_with(": a step")).collect();
    assert_eq!(lines.len(), 5, "{log}");
    for (attempt, line) in (1..).zip(lines) {
        assert!(line.contains(&format!("exchange{{provider=\"test\" model=\"m\" attempt={attempt}}}")), "{line}");
    }
}
