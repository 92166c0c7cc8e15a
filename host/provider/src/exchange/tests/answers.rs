//! Tests of server responses: deadlines, sizes, encodings, and connections that break.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use patchbay_core::{
    Code,
    completion::{FailureKind, StreamEvent},
};
use patchbay_sandbox::adapter::{Action, Input, RetryHint};
use tokio::{io::AsyncWriteExt as _, net::TcpStream, sync::oneshot};

use super::{
    Bench, Script, delta, fail, finish, get,
    server::{OPEN, Server, gzip, hang, ok, piece},
    start,
};
use crate::ExchangeLimits;

/// Returns an adapter that reports a failed connection with its message, without a retry.
fn failing() -> Script {
    Script::new(|input| match input {
        None => vec![Action::Send(get("/"))],
        Some(Input::TransportFailed { message, .. }) => vec![fail(FailureKind::Network, message, RetryHint::Never)],
        Some(Input::End) => vec![finish()],
        Some(_) => vec![],
    })
}

#[tokio::test]
async fn every_status_reaches_the_adapter() {
    for status in [200, 201, 301, 302, 307, 400, 401, 404, 429, 500, 529] {
        let answer = format!(
            "HTTP/1.1 {status} X\r\nLocation: http://127.0.0.1:1/elsewhere\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbody"
        );
        let server = Server::answering(answer).await;
        let mut bench = Bench::at(&server.origin());
        let script = Script::relaying(get("/"));
        bench.run(&script).await.unwrap();
        assert_eq!(bench.heard.events[0], StreamEvent::Started(status.to_string()));
        let Input::Head { headers, .. } = &script.heard()[0] else { panic!("no head") };
        assert!(headers.contains(&("retry-after".to_owned(), "7".to_owned())), "{headers:?}");
        // Also for a redirect, which is not followed.
        assert_eq!((bench.heard.text().as_str(), server.requests().len()), ("body", 1));
    }
}

#[tokio::test]
async fn each_deadline_has_its_own_message() {
    let first_byte = ExchangeLimits { first_byte_ms: 200, ..ExchangeLimits::default() };
    let idle = ExchangeLimits { idle_ms: 200, ..ExchangeLimits::default() };
    for (limits, first, what) in [
        (&first_byte, "", "the first byte of the response took longer than 200 ms, the limit 'exchange.first_byte_ms'"),
        (
            &first_byte,
            OPEN,
            "the first byte of the response took longer than 200 ms, the limit \
            'exchange.first_byte_ms'",
        ),
        (
            &idle,
            "HTTP/1.1 200 OK\r\n\r\nhello",
            "the next part of the response took longer than 200 ms, the limit 'exchange.idle_ms'",
        ),
    ] {
        let server = Server::silent(first).await;
        let mut bench = Bench::at(&server.origin());
        bench.limits = limits.clone();
        let script = failing();
        let error = bench.run(&script).await.unwrap_err();
        assert_eq!(script.lost(), ("timeout", what.to_owned()));
        assert_eq!(error.to_string(), format!("test: {what}"));
    }
    // The connection is never established.
    let mut bench = Bench::nowhere();
    bench.limits.connect_ms = 200;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    bench.base.as_mut().unwrap().origin = format!("https://{}", listener.local_addr().unwrap()).parse().unwrap();
    // The server accepts the connection, but never answers the TLS handshake.
    let script = failing();
    bench.run(&script).await.unwrap_err();
    let (kind, message) = script.lost();
    assert_eq!(
        (kind, message.as_str()),
        ("timeout", "connecting took longer than 200 ms, the limit 'exchange.connect_ms'")
    );
}

#[tokio::test]
async fn total_deadline_ends_without_the_adapter() {
    // The server sends single bytes and is never silent for long.
    let server = Server::repeating(OPEN, piece("x"), 10).await;
    let mut bench = Bench::at(&server.origin());
    bench.limits = ExchangeLimits { idle_ms: 30_000, total_ms: 10_000, ..ExchangeLimits::default() };
    let script = Script::relaying(get("/"));
    let error = bench.run(&script).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), (Code::ProviderTimeout, FailureKind::Timeout));
    assert_eq!(error.to_string(), "test: the answer took longer than 10000 ms, the limit 'exchange.total_ms'");
    assert!(!script.heard().iter().any(|input| matches!(input, Input::TransportFailed { .. })));
    assert!(bench.heard.text().contains('x') && bench.heard.retries.is_empty(), "what came is kept");
    // If no data arrives at all, the adapter receives no input, either.
    let server = Server::silent("").await;
    let mut bench = Bench::at(&server.origin());
    bench.limits.total_ms = 100;
    let error = bench.run(&failing()).await.unwrap_err();
    assert!(error.to_string().contains("'exchange.total_ms'") && bench.heard.retries.is_empty(), "{error}");
}

#[tokio::test]
async fn endless_response_stops_at_its_limit() {
    let limits = ExchangeLimits { answer_bytes: 100_000, ..ExchangeLimits::default() };
    // An endless line, and endless lines. If the length is declared, the body is not read at all.
    for (head, more) in [
        ("HTTP/1.1 200 OK\r\n\r\n", "x".repeat(1000)),
        (OPEN, piece("data: x\n\n")),
        ("HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n", "x".repeat(1000)),
    ] {
        let server = Server::repeating(head, more, 0).await;
        let mut bench = Bench::at(&server.origin());
        bench.limits = limits.clone();
        // The adapter requests a retry but gets none, because the next response would be as long.
        let script = Script::new(|input| match input {
            None => vec![Action::Send(get("/"))],
            Some(Input::TransportFailed { .. }) => vec![fail(FailureKind::Server, "broken", RetryHint::Backoff)],
            Some(_) => vec![],
        });
        let error = bench.run(&script).await.unwrap_err();
        let what = "the response is over 100000 bytes, the limit 'exchange.answer_bytes'";
        assert_eq!(script.lost(), ("too-large", what.to_owned()));
        assert_eq!(
            error.to_string(),
            format!("test: broken ({what})"),
            "the limit is named, whatever the adapter says"
        );
        assert!(script.body().len() <= 100_000 && bench.heard.retries.is_empty());
    }
    // An endless header.
    let server = Server::repeating("HTTP/1.1 200 OK\r\nX: ", "y".repeat(1000), 0).await;
    let script = failing();
    Bench::at(&server.origin()).run(&script).await.unwrap_err();
    assert_eq!(script.lost().0, "too-large");
    assert!(!script.lost().1.contains("egress"), "{}", script.lost().1);
}

#[tokio::test]
async fn responses_of_a_completion_share_one_limit() {
    let server = Server::answering(ok("", vec![b'x'; 60])).await;
    let mut bench = Bench::at(&server.origin());
    bench.limits.answer_bytes = 100;
    let script = Script::new(|input| match input {
        None | Some(Input::End) => vec![Action::Send(get("/"))],
        Some(Input::TransportFailed { message, .. }) => vec![fail(FailureKind::Network, message, RetryHint::Backoff)],
        Some(_) => vec![],
    });
    let error = bench.run(&script).await.unwrap_err();
    assert!(error.to_string().contains("'exchange.answer_bytes'"), "{error}");
    assert_eq!(script.body().len(), 60);
}

#[tokio::test]
async fn gzip_bomb_stops_at_the_answer_limit() {
    let server = Server::answering(ok("Content-Encoding: gzip\r\n", gzip(&vec![0; 32 << 20]))).await;
    let mut bench = Bench::at(&server.origin());
    bench.limits.answer_bytes = 1 << 20;
    let script = failing();
    let error = bench.run(&script).await.unwrap_err();
    assert!(
        error.to_string().contains("the response is over 1048576 bytes, the limit 'exchange.answer_bytes'"),
        "{error}"
    );
    assert!(script.body().len() <= 1 << 20);
}

#[tokio::test]
async fn broken_connection_is_reported_to_the_adapter() {
    let cut = Server::closing(format!("{OPEN}{}", piece("data: half"))).await;
    let script = failing();
    let error = Bench::at(&cut.origin()).run(&script).await.unwrap_err();
    assert_eq!((script.lost().0, error.code()), ("reset", Code::ProviderNetwork));
    assert_eq!(script.body(), b"data: half", "what came before it counts");
    let closed = Server::silent("").await.origin();
    tokio::task::yield_now().await;
    let script = failing();
    Bench::at(&closed).run(&script).await.unwrap_err();
    assert_eq!(script.lost().0, "connect");
    let script = failing();
    Bench::at(&Server::answering("SSH-2.0-OpenSSH\r\n").await.origin()).run(&script).await.unwrap_err();
    assert_eq!(script.lost().0, "failed");
}

#[tokio::test]
async fn available_chunks_are_joined_and_large_ones_split() {
    // Large chunks are split.
    let body: Vec<u8> = (0..1_000_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let script = Script::relaying(get("/"));
    Bench::at(&Server::answering(ok("", &body)).await.origin()).run(&script).await.unwrap();
    let heard = script.heard();
    let largest = heard.iter().filter_map(|input| match input {
        Input::Chunk(bytes) => Some(bytes.len()),
        _ => None,
    });
    assert!(script.body() == body && largest.max().unwrap() <= 16 << 10);
    // Small chunks that have arrived are joined: a thousand chunks take only a few steps.
    let small: String = (0..1000).map(|n| piece(&format!("data: {n}\n\n"))).collect();
    let server = Server::answering(format!("{OPEN}{small}0\r\n\r\n")).await;
    let script = Script::relaying(get("/"));
    Bench::at(&server.origin()).run(&script).await.unwrap();
    let expected: String = (0..1000).map(|n| format!("data: {n}\n\n")).collect();
    assert_eq!(String::from_utf8(script.body()).unwrap(), expected);
    assert!(script.heard().len() < 100, "{} steps", script.heard().len());
}

#[tokio::test]
async fn chunk_is_delivered_before_the_next_arrives() {
    let (seen, wait) = oneshot::channel::<()>();
    let (seen, wait) = (Mutex::new(Some(seen)), Arc::new(Mutex::new(Some(wait))));
    let server = Server::then(move |mut stream| {
        let wait = wait.lock().unwrap().take();
        async move {
            stream.write_all(format!("{OPEN}{}", piece("data: 1\n\n")).as_bytes()).await.unwrap();
            // The server sends the second chunk after the adapter has received the first one.
            wait.unwrap().await.unwrap();
            stream.write_all(format!("{}0\r\n\r\n", piece("data: 2\n\n")).as_bytes()).await.unwrap();
            hang(stream).await;
        }
    })
    .await;
    let script = Script::new(move |input| match input {
        None => vec![Action::Send(get("/"))],
        Some(Input::Chunk(_)) => {
            if let Some(seen) = seen.lock().unwrap().take() {
                seen.send(()).unwrap();
            }
            vec![]
        }
        Some(Input::End) => vec![finish()],
        Some(_) => vec![],
    });
    Bench::at(&server.origin()).run(&script).await.unwrap();
    assert_eq!(script.body(), b"data: 1\n\ndata: 2\n\n");
}

/// The host buffers at most one step of a response, however long it is; the server has to wait.
#[tokio::test]
async fn unread_response_is_not_buffered() {
    let written = Arc::new(AtomicU64::new(0));
    let counted = written.clone();
    let server = Server::then(move |mut stream| {
        let written = counted.clone();
        async move {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            while stream.write_all(&[b'x'; 1 << 14]).await.is_ok() {
                written.fetch_add(1 << 14, Ordering::SeqCst);
            }
        }
    })
    .await;
    // The adapter receives one chunk, then blocks until the server cannot write any more.
    let script = Script::new(move |input| match input {
        None => vec![Action::Send(get("/"))],
        Some(Input::Chunk(_)) => {
            let mut before = u64::MAX;
            for _ in 0..200 {
                std::thread::sleep(Duration::from_millis(50));
                let now = written.load(Ordering::SeqCst);
                if now == before {
                    break;
                }
                before = now;
            }
            // More than the system's buffers can hold.
            assert!(before < 32 << 20, "{before} bytes were taken in");
            vec![finish()]
        }
        Some(_) => vec![],
    });
    // Runs in a separate thread, because the server and the connection must continue while the adapter blocks.
    let origin = server.origin();
    let asking = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async { Bench::at(&origin).run(&script).await.map(drop) })
    });
    asking.await.unwrap().unwrap();
}

#[tokio::test]
async fn dropping_the_future_closes_the_connection() {
    for first in ["", OPEN, "HTTP/1.1 200 OK\r\n\r\ndata: 1"] {
        let (arrived, closed) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
        let (seen, gone) = (arrived.clone(), closed.clone());
        let server = Server::then(move |mut stream: TcpStream| {
            let (seen, gone) = (seen.clone(), gone.clone());
            async move {
                stream.write_all(first.as_bytes()).await.unwrap();
                seen.notify_one();
                // Returns when the other side closes.
                hang(stream).await;
                gone.notify_one();
            }
        })
        .await;
        let script = Script::new(|input| match input {
            None => vec![start(0), delta(0, "x"), Action::Send(get("/"))],
            Some(_) => vec![],
        });
        let weak = Arc::downgrade(&script.heard);
        {
            let mut bench = Bench::at(&server.origin());
            let run = bench.run(&script);
            tokio::select! {
                result = run => panic!("{result:?}"),
                () = async { arrived.notified().await; tokio::time::sleep(Duration::from_millis(20)).await } => {}
            }
            // Only the test still has the script: the instance was dropped with the future.
            assert_eq!(weak.strong_count(), 1);
            tokio::time::timeout(Duration::from_secs(30), closed.notified())
                .await
                .expect("a connection that is closed");
        }
    }
}
