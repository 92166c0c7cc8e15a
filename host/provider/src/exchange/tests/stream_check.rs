//! Tests of stream events and actions that break the contract or a limit.

use std::time::Duration;

use patchbay_core::{
    Code,
    completion::{BlockKind, FailureKind, StreamEvent, TokenUsage},
};
use patchbay_sandbox::adapter::{Action, Input, RetryHint};

use super::{
    Bench, Script, delta, emit, end, fail, finish, get,
    server::{Server, hang, ok},
    start,
};
use crate::{ExchangeError, ExchangeLimits};

fn opaque(index: u32) -> Action {
    emit(StreamEvent::BlockStart { index, kind: BlockKind::Opaque("x".to_owned()) })
}

#[tokio::test]
async fn stream_violations_are_named() {
    let many_open: Vec<Action> = (0..101).map(start).collect();
    for (actions, what) in [
        (vec![], "stopped halfway"),
        (vec![start(0), delta(0, "x")], "stopped halfway"),
        (vec![finish(), start(0)], "continued after it had ended"),
        (vec![finish(), finish()], "continued after it had ended"),
        (vec![fail(FailureKind::Server, "x", RetryHint::Backoff), finish()], "continued after it had ended"),
        (vec![fail(FailureKind::Server, "x", RetryHint::Backoff), Action::Send(get("/"))], "continued after"),
        (vec![start(1)], "started block 1, but the next block is 0"),
        (vec![start(0), start(0)], "started block 0, but the next block is 1"),
        (vec![start(0), end(0), start(0)], "started block 0, but the next block is 1"),
        (vec![start(0), start(2)], "started block 2, but the next block is 1"),
        (vec![delta(0, "x")], "added to block 0, which was never started"),
        (vec![start(0), end(0), delta(0, "x")], "added to block 0, which had ended"),
        (vec![end(0)], "ended block 0, which was never started"),
        (vec![start(0), end(0), end(0)], "ended block 0, which had ended"),
        (vec![start(0), finish()], "finished while block 0 was open"),
        (vec![start(0), start(1), end(0), finish()], "finished while block 1 was open"),
        (vec![opaque(0), delta(0, "x")], "added to block 0, which is opaque"),
        (many_open, "had more than 100 blocks open at once"),
    ] {
        let mut bench = Bench::nowhere();
        let script = Script::listing(vec![actions.clone()]);
        let error = bench.run(&script).await.unwrap_err();
        assert_eq!(error.code(), Code::AdapterViolation, "{actions:?}: {error}");
        assert!(error.to_string().starts_with(&format!("provider 'test': its adapter {what}")), "{actions:?}: {error}");
        assert_eq!((bench.heard.retries.len(), script.begun()), (0, 1));
    }
}

#[tokio::test]
async fn events_are_forwarded_unchanged() {
    let usage = |output| StreamEvent::Usage(TokenUsage { output, ..TokenUsage::default() });
    let actions = vec![
        emit(StreamEvent::Started("m-1".to_owned())),
        emit(usage(1)),
        start(0),
        delta(0, "a"),
        opaque(1),
        delta(0, "b"),
        emit(StreamEvent::BlockEnd { index: 1, opaque: Some("s".to_owned()) }),
        delta(0, ""),
        end(0),
        emit(usage(7)),
        finish(),
    ];
    let mut bench = Bench::nowhere();
    // An adapter that sends no requests needs no base URL.
    bench.base = None;
    let completed = bench.run(&Script::listing(vec![actions.clone()])).await.unwrap();
    assert_eq!((completed.usage.output, completed.finish.raw.as_str()), (7, "stop"));
    let told = actions.into_iter().filter_map(|action| match action {
        Action::Emit(StreamEvent::BlockDelta { text, .. }) if text.is_empty() => None,
        Action::Emit(event) => Some(event),
        _ => None,
    });
    assert_eq!(bench.heard.events, told.collect::<Vec<_>>());
}

#[tokio::test]
async fn exchange_limits_are_enforced() {
    let limits = ExchangeLimits { requests: 2, answer_bytes: 10, ..Default::default() };
    let send = || Action::Send(get("/"));
    for (actions, key) in [
        (vec![vec![send(), send(), send()]], "requests"),
        (vec![vec![start(0), delta(0, "12345678901")]], "answer_bytes"),
        (vec![vec![emit(StreamEvent::Extra { name: "123456".to_owned(), value: "12345".to_owned() })]], "answer_bytes"),
        (vec![vec![Action::Wait(Duration::from_secs(u32::MAX.into()))]], "total_ms"),
        (vec![vec![Action::Wait(Duration::MAX)]], "total_ms"),
    ] {
        let mut bench = Bench::nowhere();
        bench.limits = limits.clone();
        let error = bench.run(&Script::listing(actions.clone())).await.unwrap_err();
        assert_eq!(error.code(), Code::LimitExchange, "{actions:?}: {error}");
        assert!(error.to_string().contains(&format!("'exchange.{key}'")), "{actions:?}: {error}");
    }
}

/// Thinking and the texts of all blocks count together. Text before the limit is forwarded.
#[tokio::test]
async fn text_of_an_answer_is_bounded() {
    let limits = ExchangeLimits { text_bytes: 400, ..ExchangeLimits::default() };
    let text = "x".repeat(100);
    let thinking = emit(StreamEvent::BlockStart { index: 0, kind: BlockKind::Thinking });
    let mut actions = vec![thinking, delta(0, &text), end(0), start(1)];
    actions.extend((0..3).map(|_| delta(1, &text)));
    let whole = [actions.clone(), vec![end(1), finish()]].concat();
    let mut bench = Bench::nowhere();
    bench.limits = limits.clone();
    bench.run(&Script::listing(vec![whole])).await.unwrap();
    actions.push(delta(1, "x"));
    let mut bench = Bench::nowhere();
    bench.limits = limits;
    let error = bench.run(&Script::listing(vec![actions])).await.unwrap_err();
    let words = "provider 'test': its adapter emitted more than 400 bytes of text, the limit 'exchange.text_bytes'";
    assert_eq!((error.code(), error.to_string().as_str()), (Code::LimitExchange, words));
    assert_eq!((bench.heard.text().len(), bench.heard.retries.len()), (400, 0));
}

#[tokio::test]
async fn second_timer_replaces_the_first() {
    let script = Script::listing(vec![
        vec![Action::Wait(Duration::from_secs(3600 * 24)), Action::Wait(Duration::from_millis(1))],
        vec![finish()],
    ]);
    Bench::nowhere().run(&script).await.unwrap();
    assert_eq!(script.heard(), [Input::Timer]);
}

#[tokio::test]
async fn request_and_timer_are_pending_together() {
    // The timer ends first, before the server answers; then the response arrives.
    let (asked, wait) = tokio::sync::watch::channel(false);
    let server = Server::then(move |mut stream| {
        let mut wait = wait.clone();
        async move {
            use tokio::io::AsyncWriteExt as _;
            wait.wait_for(|asked| *asked).await.unwrap();
            stream.write_all(&ok("", "x")).await.unwrap();
            hang(stream).await;
        }
    })
    .await;
    let script = Script::new(move |input| match input {
        None => vec![Action::Send(get("/")), Action::Wait(Duration::from_millis(10))],
        Some(Input::Timer) => {
            asked.send_replace(true);
            // No new action is needed: the request is still pending.
            vec![]
        }
        Some(Input::End) => vec![finish()],
        Some(_) => vec![],
    });
    Bench::at(&server.origin()).run(&script).await.unwrap();
    let head = matches!(script.heard()[1], Input::Head { status: 200, .. });
    assert!(script.heard()[0] == Input::Timer && head && script.body() == b"x", "{:?}", script.heard());
    // The response arrives first; the timer stays pending and ends later.
    let server = Server::answering(ok("", "x")).await;
    let script = Script::new(|input| match input {
        None => vec![Action::Wait(Duration::from_secs(10)), Action::Send(get("/"))],
        Some(Input::Timer) => vec![finish()],
        Some(_) => vec![],
    });
    Bench::at(&server.origin()).run(&script).await.unwrap();
    assert_eq!(script.heard()[2..], [Input::End, Input::Timer]);
}

/// A server that never pauses does not delay the timer.
#[tokio::test]
async fn timer_precedes_an_endless_response() {
    let server = Server::repeating("HTTP/1.1 200 OK\r\n\r\n", "x".repeat(1 << 14), 0).await;
    let script = Script::new(|input| match input {
        None => vec![Action::Send(get("/")), Action::Wait(Duration::from_millis(1))],
        Some(Input::Timer) => vec![finish()],
        Some(_) => vec![],
    });
    Bench::at(&server.origin()).run(&script).await.unwrap();
}

#[tokio::test]
async fn new_request_drops_the_old_body() {
    let server = Server::silent("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nold\r\n").await;
    let script = Script::new(|input| match input {
        None => vec![Action::Send(get("/dropped-unsent")), Action::Send(get("/one"))],
        Some(Input::Head { .. }) => vec![Action::Send(get("/two")), start(0), end(0), finish()],
        Some(_) => panic!("of a body that was dropped"),
    });
    Bench::at(&server.origin()).run(&script).await.unwrap();
    assert_eq!(server.requests().len(), 1, "what is replaced at once, or never listened to, is never sent");
    assert!(server.requests()[0].starts_with("GET /one "));
    let new = Server::answering(ok("", "new")).await;
    let twice = Script::new(|input| match input {
        None => vec![Action::Send(get("/one"))],
        Some(Input::Head { .. }) => vec![],
        Some(Input::Chunk(_)) => vec![Action::Send(get("/two"))],
        _ => vec![finish()],
    });
    let mut bench = Bench::at(&new.origin());
    bench.limits.requests = 3;
    let error = bench.run(&twice).await.unwrap_err();
    assert_eq!(error.code(), Code::LimitExchange, "it asks again and again: {error}");
    let paths: Vec<String> = new.requests().iter().map(|request| request[..8].to_owned()).collect();
    assert_eq!(paths, ["GET /one", "GET /two", "GET /two"]);
}

#[tokio::test]
async fn step_without_actions_after_the_end_is_a_violation() {
    let server = Server::answering(ok("", "x")).await;
    let script = Script::new(|input| if input.is_none() { vec![Action::Send(get("/"))] } else { vec![] });
    let error = Bench::at(&server.origin()).run(&script).await.unwrap_err();
    assert!(matches!(error, ExchangeError::Adapter { code: Code::AdapterViolation, .. }), "{error}");
    assert_eq!(script.heard().last(), Some(&Input::End));
}
