//! Tests of each time and size limit, with the key that its error names.

use std::{sync::Arc, time::Duration};

use tokio::io::AsyncWriteExt;

use crate::{
    Egress, EgressError, EgressLimits, LimitKey, Request, Resolver, Resolving,
    tests::{
        egress, get, limits,
        server::{OPEN, Server, gzip, ok, piece},
    },
    tls::Trust,
};

/// Returns the error of a request to `server`, which must name `key`.
async fn over(limits: EgressLimits, server: Server, key: &str) -> EgressError {
    let error = egress(limits).send(get(&server.url("/"))).await.unwrap_err();
    assert!(error.to_string().contains(&format!("'egress.{key}'")), "{key}: {error}");
    error
}

#[tokio::test]
async fn gzip_bomb_stops_at_the_body_limit() {
    // It decompresses to a thousand times its size, and is itself within `wire_bytes`.
    let bomb = gzip(&vec![0; 32 << 20]);
    let limits = EgressLimits { wire_bytes: 1 << 20, body_bytes: 1 << 20, ..limits() };
    assert!(bomb.len() < 64 << 10);
    let server = Server::answering(ok("Content-Encoding: gzip\r\n", bomb)).await;
    let mut answer = egress(limits.clone()).open(get(&server.url("/"))).await.unwrap();
    let mut shown = 0;
    let error = loop {
        match answer.chunk().await {
            Ok(chunk) => shown += chunk.unwrap().len() as u64,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, EgressError::TooLarge { key: LimitKey::BodyBytes, .. }), "{error}");
    assert!(shown <= limits.body_bytes);
}

#[tokio::test]
async fn endless_body_stops_at_its_limit() {
    let limits = EgressLimits { wire_bytes: 100_000, body_bytes: 1 << 20, ..limits() };
    let more = "x".repeat(1024);
    for (head, more) in [("HTTP/1.1 200 OK\r\n\r\n", more.clone()), (OPEN, piece(&more))] {
        let error = over(limits.clone(), Server::repeating(head, more, 0).await, "wire_bytes").await;
        assert_eq!(error.kind(), "too-large");
    }
    // If the declared length is over the limit, the body is not read at all.
    let server = Server::silent("HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n").await;
    over(limits.clone(), server, "wire_bytes").await;
    let fits = Server::answering(ok("", vec![b'x'; 100_000])).await;
    assert_eq!(egress(limits).send(get(&fits.url("/"))).await.unwrap().body.len(), 100_000);
}

/// Bytes after the declared length are ignored.
#[tokio::test]
async fn body_ends_at_its_declared_length() {
    let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more").await;
    assert_eq!(egress(limits()).send(get(&server.url("/"))).await.unwrap().body, b"hello");
}

#[tokio::test]
async fn plain_body_counts_against_body_bytes() {
    let limits = EgressLimits { wire_bytes: 100, body_bytes: 50, ..limits() };
    over(limits, Server::answering(ok("", vec![b'x'; 51])).await, "body_bytes").await;
}

#[tokio::test]
async fn silent_server_times_out() {
    let limits = EgressLimits { idle_ms: 50, ..limits() };
    for head in [
        "",
        "HTTP/1.1 200 OK\r\nX: ",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        let error = over(limits.clone(), Server::silent(head).await, "idle_ms").await;
        assert_eq!(error.kind(), "timeout");
    }
}

#[tokio::test]
async fn slow_head_counts_as_silence() {
    let limits = EgressLimits { idle_ms: 100, ..limits() };
    over(limits.clone(), Server::repeating("HTTP/1.1 200 OK\r\n", "X: y\r\n", 5).await, "idle_ms").await;
    over(limits, Server::repeating("", "HTTP/1.1 103 Early Hints\r\n\r\n", 5).await, "idle_ms").await;
}

#[tokio::test]
async fn slow_body_ends_at_the_total_time() {
    let limits = EgressLimits { time_ms: 200, ..limits() };
    let error = over(limits.clone(), Server::repeating("HTTP/1.1 200 OK\r\n\r\n", "x", 5).await, "time_ms").await;
    assert!(matches!(error, EgressError::Timeout { key: LimitKey::TimeMs, ms: 200, .. }));
    // A request may set a shorter timeout, but not a longer one.
    let server = Server::repeating("HTTP/1.1 200 OK\r\n\r\n", "x", 5).await;
    for (timeout, own) in [(Duration::from_millis(50), true), (Duration::ZERO, true), (Duration::MAX, false)] {
        let request = Request { timeout: Some(timeout), ..get(&server.url("/")) };
        let error = egress(limits.clone()).send(request).await.unwrap_err();
        assert_eq!(matches!(error, EgressError::Deadline { .. }), own, "{error}");
        assert_eq!(error.kind(), "timeout");
    }
}

#[tokio::test]
async fn total_time_ends_a_silent_request() {
    let limits = EgressLimits { time_ms: 50, ..limits() };
    for head in ["", "HTTP/1.1 200 OK\r\n\r\nhello"] {
        over(limits.clone(), Server::silent(head).await, "time_ms").await;
    }
}

#[tokio::test]
async fn unestablished_connection_times_out() {
    struct Never;
    impl Resolver for Never {
        fn resolve(&self, _: &str) -> Resolving {
            Box::pin(std::future::pending())
        }
    }
    let limits = EgressLimits { connect_ms: 50, ..limits() };
    let egress = Egress::with(limits, Arc::new(Never), Trust::System);
    let error = egress.send(get("http://localhost:9/")).await.unwrap_err();
    assert!(matches!(error, EgressError::Timeout { key: LimitKey::ConnectMs, .. }), "{error}");
}

#[tokio::test]
async fn response_head_is_limited() {
    let limits = EgressLimits { response_headers: 10, response_header_bytes: 1000, ..limits() };
    let many = "X: y\r\n".repeat(11);
    let error = over(limits.clone(), Server::answering(ok(&many, "")).await, "response_headers").await;
    assert!(matches!(error, EgressError::HeadTooLarge { headers: 10, bytes: 1000 }));
    let long = format!("X: {}\r\n", "y".repeat(1000));
    let error = over(limits.clone(), Server::answering(ok(&long, "")).await, "response_header_bytes").await;
    assert!(matches!(error, EgressError::TooLarge { key: LimitKey::ResponseHeaderBytes, .. }));
    // Reading stops at the limit, both for one endless header and for an endless number of headers.
    for (head, more) in [("HTTP/1.1 200 OK\r\nX: ", "y".repeat(1000)), ("HTTP/1.1 200 OK\r\n", "X: y\r\n".repeat(100))]
    {
        let error = over(limits.clone(), Server::repeating(head, more, 0).await, "response_header_bytes").await;
        assert_eq!(error.kind(), "too-large");
    }
}

/// Starts a server that answers after 100 ms. Returns it with the current and the highest number of waiting requests.
async fn slow() -> (Server, Arc<std::sync::Mutex<(usize, usize)>>) {
    let counts = Arc::new(std::sync::Mutex::new((0, 0)));
    let shared = counts.clone();
    let server = Server::then(move |mut stream| {
        let counts = shared.clone();
        async move {
            {
                let mut counts = counts.lock().unwrap();
                counts.0 += 1;
                counts.1 = counts.1.max(counts.0);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            counts.lock().unwrap().0 -= 1;
            stream.write_all(&ok("", "x")).await.unwrap();
        }
    })
    .await;
    (server, counts)
}

#[tokio::test]
async fn concurrent_requests_are_limited_by_owner_and_in_total() {
    for (owners, at_once) in [(1, 2), (3, 5)] {
        let (server, counts) = slow().await;
        let limits = EgressLimits { requests_at_once: 5, owner_requests_at_once: 2, ..limits() };
        let egress = egress(limits);
        let requests = (0..24).map(|number| {
            let request = Request { owner: format!("owner {}", number % owners), ..get(&server.url("/")) };
            let egress = egress.clone();
            tokio::spawn(async move { egress.send(request).await.unwrap() })
        });
        for answer in requests.collect::<Vec<_>>() {
            assert_eq!(answer.await.unwrap().body, b"x");
        }
        assert_eq!(counts.lock().unwrap().1, at_once);
    }
}

#[tokio::test]
async fn response_occupies_its_slot_until_it_ends() {
    let server = Server::answering(ok("", "hello")).await;
    let limits = EgressLimits { owner_requests_at_once: 1, idle_ms: 10_000, ..limits() };
    let egress = egress(limits);
    let mut first = egress.open(get(&server.url("/"))).await.unwrap();
    let error = egress.open(get(&server.url("/"))).await.unwrap_err();
    assert!(error.to_string().starts_with("waiting for other requests took longer than 10000 ms"), "{error}");
    // Another owner has permits of its own.
    let other = Request { owner: "other".to_owned(), ..get(&server.url("/")) };
    assert_eq!(egress.send(other).await.unwrap().body, b"hello");
    while first.chunk().await.unwrap().is_some() {}
    let second = egress.open(get(&server.url("/"))).await.unwrap();
    drop(second);
    assert_eq!(egress.send(get(&server.url("/"))).await.unwrap().body, b"hello");
}
