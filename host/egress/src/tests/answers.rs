//! Tests of response heads and bodies: encoded, damaged or truncated.

use std::sync::{Arc, Mutex};

use tokio::{io::AsyncWriteExt, sync::oneshot};

use crate::{
    EgressError, Request,
    tests::{
        egress, get, limits, send,
        server::{Server, gzip, ok},
    },
};

#[tokio::test]
async fn response_is_complete_without_connection_headers() {
    let headers = "X-One: 1\r\nX-Two: a\r\nx-two: ü\r\nKeep-Alive: timeout=5\r\nContent-Type: text/plain\r\n";
    let plain = Server::answering(ok(headers, "hello")).await;
    let response = send(&plain.url("/")).await.unwrap();
    let expected = [("x-one", "1"), ("x-two", "a"), ("x-two", "ü"), ("content-type", "text/plain")]
        .map(|(n, v)| (n.to_owned(), v.to_owned()));
    assert_eq!((response.status, response.body.as_slice()), (200, &b"hello"[..]));
    assert_eq!(response.headers, expected);
    let chunked = "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nx: y\r\n\r\n";
    let response = send(&Server::answering(chunked).await.url("/")).await.unwrap();
    assert_eq!((response.status, response.body.as_slice(), response.headers.len()), (404, &b"abcde"[..], 0));
    // Without a length, the body ends with the connection.
    let closing = Server::closing("HTTP/1.1 200 OK\r\n\r\nto the end").await;
    assert_eq!(send(&closing.url("/")).await.unwrap().body, b"to the end");
}

#[tokio::test]
async fn gzip_is_decompressed() {
    let text = "hello ".repeat(10_000);
    let members = [gzip(b"one "), gzip(b"two")].concat();
    for (headers, body, expected) in [
        ("Content-Encoding: gzip\r\n", gzip(text.as_bytes()), text.as_bytes()),
        ("Content-Encoding: X-GZIP\r\n", gzip(b"x"), b"x"),
        ("Content-Encoding: gzip\r\n", members, b"one two"),
        ("Content-Encoding: gzip\r\n", gzip(b""), b""),
        ("Content-Encoding: identity\r\n", b"x".to_vec(), b"x"),
    ] {
        let response = send(&Server::answering(ok(headers, body)).await.url("/")).await.unwrap();
        assert_eq!(response.body, expected, "{headers}");
        assert_eq!(response.headers, []);
    }
}

#[tokio::test]
async fn bodiless_responses_have_no_body() {
    let egress = egress(limits());
    let head =
        Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\nContent-Encoding: gzip\r\n\r\n").await;
    let response = egress.send(Request { method: "HEAD".to_owned(), ..get(&head.url("/")) }).await.unwrap();
    assert_eq!(response.body, b"");
    assert_eq!(
        response.headers,
        [("content-length", "999999999999"), ("content-encoding", "gzip")].map(|(n, v)| (n.to_owned(), v.to_owned()))
    );
    for status in ["204 No Content", "304 Not Modified"] {
        let server = Server::answering(format!("HTTP/1.1 {status}\r\nContent-Encoding: gzip\r\n\r\n")).await;
        assert_eq!(egress.send(get(&server.url("/"))).await.unwrap().body, b"");
    }
    for empty in ["Content-Length: 0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"] {
        let server = Server::answering(format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n{empty}")).await;
        assert_eq!(egress.send(get(&server.url("/"))).await.unwrap().body, b"");
    }
}

#[tokio::test]
async fn unoffered_encoding_is_refused() {
    for coding in ["br", "deflate", "gzip, gzip", "gzip\r\nContent-Encoding: gzip", "zstd", "x\u{202e}y"] {
        let server = Server::answering(ok(&format!("Content-Encoding: {coding}\r\n"), gzip(b"x"))).await;
        let error = send(&server.url("/")).await.unwrap_err();
        assert!(matches!(error, EgressError::Encoding { .. }), "{coding}: {error}");
        assert!(
            error.to_string().contains("only gzip was offered") && !error.to_string().contains('\u{202e}'),
            "{error}"
        );
    }
}

#[tokio::test]
async fn truncated_body_is_an_error() {
    let whole = gzip(&b"hello".repeat(1000));
    let cut = &whole[..whole.len() - 9];
    for answer in [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello".to_vec(),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello".to_vec(),
        ok("Content-Encoding: gzip\r\n", cut),
        ok("Content-Encoding: gzip\r\n", &whole[..5]),
        b"HTTP/1.1 200 OK\r\nContent-Le".to_vec(),
        b"".to_vec(),
    ] {
        let text = String::from_utf8_lossy(&answer).into_owned();
        let error = send(&Server::closing(answer).await.url("/")).await.unwrap_err();
        assert!(matches!(error, EgressError::Truncated { .. }), "{text}: {error}");
    }
}

#[tokio::test]
async fn damaged_body_is_an_error() {
    let mut damaged = gzip(&b"hello".repeat(1000));
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    for body in [damaged, b"no gzip at all".to_vec(), [gzip(b"x"), b"and garbage".to_vec()].concat()] {
        let server = Server::answering(ok("Content-Encoding: gzip\r\n", body)).await;
        let error = send(&server.url("/")).await.unwrap_err();
        assert!(matches!(error, EgressError::Encoding { .. }), "{error}");
    }
}

#[tokio::test]
async fn invalid_http_is_an_error() {
    for answer in [
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        "HTTP/1.1 999999 OK\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    ] {
        let server = Server::answering(answer).await;
        let error = send(&server.url("/")).await.unwrap_err();
        assert!(matches!(error, EgressError::Protocol { .. }), "{answer}: {error:?}");
    }
}

/// Surplus bytes after a response must not be read as the response to a later request.
#[tokio::test]
async fn surplus_response_is_discarded() {
    let server = Server::answering([ok("", "mine"), ok("", "poison")].concat()).await;
    let egress = egress(limits());
    for _ in 0..5 {
        assert_eq!(egress.send(get(&server.url("/"))).await.unwrap().body, b"mine");
    }
    assert_eq!(server.connections(), 5);
}

#[tokio::test]
async fn body_is_streamed_as_it_is_sent() {
    use std::io::Write;

    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(b"first").unwrap();
    encoder.flush().unwrap();
    let first = encoder.get_ref().clone();
    encoder.write_all(b"second").unwrap();
    let second = encoder.finish().unwrap()[first.len()..].to_vec();
    for (headers, first, second) in
        [("", b"first".to_vec(), b"second".to_vec()), ("Content-Encoding: gzip\r\n", first, second)]
    {
        let (seen, wait) = oneshot::channel::<()>();
        let wait = Arc::new(Mutex::new(Some(wait)));
        let server = Server::then(move |mut stream| {
            let (first, second, wait) = (first.clone(), second.clone(), wait.lock().unwrap().take());
            async move {
                stream.write_all(format!("HTTP/1.1 200 OK\r\n{headers}\r\n").as_bytes()).await.unwrap();
                stream.write_all(&first).await.unwrap();
                // The server sends the second piece after the first one has been read.
                wait.unwrap().await.unwrap();
                stream.write_all(&second).await.unwrap();
            }
        })
        .await;
        let mut answer = egress(limits()).open(get(&server.url("/"))).await.unwrap();
        assert_eq!(answer.chunk().await.unwrap().unwrap(), b"first");
        // No more data is available yet, and a cancelled read loses none.
        assert_eq!(answer.chunk_ready(), None);
        assert!(tokio::time::timeout(std::time::Duration::ZERO, answer.chunk()).await.is_err());
        seen.send(()).unwrap();
        let mut rest = Vec::new();
        while let Some(chunk) = answer.chunk().await.unwrap() {
            rest.extend(chunk);
        }
        assert_eq!(rest, b"second");
        assert_eq!(answer.chunk().await, Ok(None));
        assert_eq!(answer.chunk_ready(), Some(Ok(None)));
    }
}

#[tokio::test]
async fn verbatim_body_is_left_as_it_was_sent() {
    let packed = gzip(b"hello");
    let server = Server::answering(ok("Content-Encoding: gzip\r\n", &packed)).await;
    let verbatim = Request { verbatim: true, ..get(&server.url("/")) };
    assert_eq!(egress(limits()).send(verbatim).await.unwrap().body, packed);
    assert_eq!(send(&server.url("/")).await.unwrap().body, b"hello");
    let asked: Vec<bool> =
        server.requests().iter().map(|request| request.contains("accept-encoding: identity")).collect();
    assert_eq!(asked, [true, false]);
}

#[tokio::test]
async fn stream_error_is_repeated_on_every_read() {
    let server = Server::closing("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello").await;
    let mut answer = egress(limits()).open(get(&server.url("/"))).await.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), b"hello");
    for _ in 0..3 {
        assert!(matches!(answer.chunk().await, Err(EgressError::Truncated { .. })));
    }
    // A response can be dropped before its end.
    let endless = Server::silent("HTTP/1.1 200 OK\r\n\r\nhello").await;
    drop(egress(limits()).open(get(&endless.url("/"))).await.unwrap());
}
