//! Tests of the content of requests, and of how they are sent.

use bytes::Bytes;

use crate::{
    EgressError, EgressLimits, Request, RequestError,
    tests::{
        egress, get, limits,
        server::{Server, ok},
    },
};

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[tokio::test]
async fn request_is_built_from_its_parts() {
    let server = Server::answering(ok("", "")).await;
    let egress = egress(limits());
    let url = server.url("/a%20b/../c?x=1&y=%0d%0a#fragment");
    let host = format!("localhost:{}", server.address.port());
    egress.send(get(&url)).await.unwrap();
    let post = Request {
        method: "POST".to_owned(),
        headers: vec![
            pair("X-Twice", "1"),
            pair("x-twice", "2"),
            pair("user-agent", "mine"),
            pair("accept", "text/html"),
        ],
        body: Bytes::from_static(b"GET / HTTP/1.1\r\nHost: smuggled\r\n\r\n"),
        ..get(&url)
    };
    egress.send(post).await.unwrap();
    egress.send(Request { method: "POST".to_owned(), ..get(&url) }).await.unwrap();
    let lines = |request: &str| {
        let mut lines: Vec<String> = request.split("\r\n").map(str::to_owned).collect();
        let headers = lines.iter().position(String::is_empty).unwrap();
        lines[1..headers].sort();
        lines
    };
    let requests = server.requests();
    assert_eq!(
        lines(&requests[0]),
        [
            "GET /c?x=1&y=%0d%0a HTTP/1.1",
            "accept-encoding: gzip",
            "accept: */*",
            &format!("host: {host}"),
            concat!("user-agent: patchbay/", env!("CARGO_PKG_VERSION")),
            "",
            "",
        ]
    );
    assert_eq!(
        lines(&requests[1])[..9],
        [
            "POST /c?x=1&y=%0d%0a HTTP/1.1",
            "accept-encoding: gzip",
            "accept: text/html",
            "content-length: 34",
            &format!("host: {host}"),
            "user-agent: mine",
            "x-twice: 1",
            "x-twice: 2",
            "",
        ]
    );
    assert!(requests[1].ends_with("\r\n\r\nGET / HTTP/1.1\r\nHost: smuggled\r\n\r\n"));
    // Without a body, the length 0 is sent; otherwise the server might wait for a body.
    assert_eq!(requests[2].matches("content-length: 0\r\n").count(), 1, "{}", requests[2]);
    assert_eq!(requests.len(), 3);
}

#[tokio::test]
async fn smuggling_headers_are_refused_and_not_sent() {
    let server = Server::answering(ok("", "")).await;
    let url = server.url("/");
    let egress = egress(limits());
    for (name, value) in [
        ("Host", "other"),
        ("Content-Length", "0"),
        ("content-length", "5"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "keep-alive, x"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Authorization", "x"),
        ("Proxy-Connection", "x"),
        ("TE", "trailers"),
        ("Trailer", "x"),
        ("Upgrade", "h2c"),
        ("Expect", "100-continue"),
        ("Accept-Encoding", "br"),
        ("HTTP2-Settings", "x"),
    ] {
        let error = egress.send(Request { headers: vec![pair(name, value)], ..get(&url) }).await.unwrap_err();
        assert_eq!(error, RequestError::ReservedHeader(name.to_lowercase()).into());
        assert_eq!(error.kind(), "invalid");
    }
    for (name, value) in
        [("x", "a\r\nhost: b"), ("x", "a\nb"), ("x", "a\0"), ("x\r\nhost", "b"), ("x y", "b"), ("", "b"), ("x:", "b")]
    {
        let error = egress.send(Request { headers: vec![pair(name, value)], ..get(&url) }).await.unwrap_err();
        assert_eq!(error.kind(), "invalid", "{name:?}: {value:?}");
    }
    for method in ["get", "CONNECT", "TRACE", "PRI", "GET / HTTP/1.1\r\nx:", ""] {
        let error = egress.send(Request { method: method.to_owned(), ..get(&url) }).await.unwrap_err();
        assert!(matches!(error, EgressError::Request(RequestError::Method(_))), "{method:?}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn request_over_a_limit_names_the_key() {
    let server = Server::answering(ok("", "")).await;
    let small = EgressLimits { request_headers: 1, request_header_bytes: 8, request_bytes: 4, ..limits() };
    let egress = egress(small);
    let request = get(&server.url("/"));
    for (request, key) in [
        (Request { headers: vec![pair("a", ""), pair("b", "")], ..request.clone() }, "request_headers"),
        (Request { headers: vec![pair("a", "12345678")], ..request.clone() }, "request_header_bytes"),
        (Request { body: Bytes::from_static(b"12345"), ..request.clone() }, "request_bytes"),
    ] {
        let error = egress.send(request).await.unwrap_err();
        assert!(matches!(error, EgressError::TooLarge { key: found, .. } if found.to_string() == key), "{error}");
        assert!(error.to_string().contains(&format!("'egress.{key}'")), "{error}");
    }
    assert_eq!(server.connections(), 0);
    let fits = Request {
        method: "PUT".to_owned(),
        headers: vec![pair("a", "1234567")],
        body: Bytes::from_static(b"1234"),
        ..request
    };
    assert_eq!(egress.send(fits).await.unwrap().status, 200);
}
