//! Tests of adapter requests: paths, bodies, headers, and requests that must not be sent.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use patchbay_core::Code;
use patchbay_sandbox::adapter::{AdapterRequest, BodyPiece};

use super::{
    Bench, Script, get, post,
    server::{Server, ok},
};
use crate::ExchangeLimits;

#[tokio::test]
async fn request_arrives_as_composed() {
    let server = Server::answering(ok("X-One: 1\r\n", "hello")).await;
    let image: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    let body = vec![
        BodyPiece::Bytes(b"{\"image\":\"".to_vec()),
        BodyPiece::BlobBase64(1),
        BodyPiece::Bytes(b"\",\"small\":\"".to_vec()),
        BodyPiece::BlobBase64(0),
        BodyPiece::Bytes(b"\"}".to_vec()),
    ];
    let mut bench = Bench::at(&server.origin());
    bench.base.as_mut().unwrap().path = "/v1".to_owned();
    let request = AdapterRequest {
        headers: vec![("X-Beta".to_owned(), "a, b".to_owned())],
        path_and_query: "/messages?x=1".to_owned(),
        ..post(body)
    };
    let script = Script::relaying(request).with_blobs(&[b"a", &image]);
    bench.run(&script).await.unwrap();
    assert_eq!(bench.heard.text(), "hello");
    let seen = &server.requests()[0];
    let expected = format!("{{\"image\":\"{}\",\"small\":\"YQ==\"}}", STANDARD.encode(&image));
    assert!(seen.starts_with("POST /v1/messages?x=1 HTTP/1.1\r\n"), "{}", &seen[..200]);
    assert!(seen.contains("x-beta: a, b\r\n") && seen.ends_with(&format!("\r\n\r\n{expected}")));
}

#[tokio::test]
async fn invalid_request_is_a_violation_and_not_sent() {
    let server = Server::answering(ok("", "")).await;
    let with =
        |name: &str, value: &str| AdapterRequest { headers: vec![(name.to_owned(), value.to_owned())], ..get("/") };
    let many = AdapterRequest { headers: vec![("x".to_owned(), String::new()); 65], ..get("/") };
    for (request, what) in [
        (get("/../x"), "requested the path '/../x', which contains a segment '.' or '..'"),
        (get("//evil.example/"), "requested the path '//evil.example/', which begins with '//', as a host does"),
        (get("https://evil.example/"), "requested the path 'https://evil.example/', which does not begin with '/'"),
        (get("/a\r\nx: y"), "requested the path '/a x: y', which contains '\\r', which must be percent-encoded"),
        (with("Host", "evil.example"), "made a request that cannot be sent: the header 'host' is set by the host"),
        (with("Transfer-Encoding", "chunked"), "made a request that cannot be sent: the header 'transfer-encoding'"),
        (with("Proxy-Authorization", "x"), "made a request that cannot be sent: the header 'proxy-authorization'"),
        (with("x", "a\r\nHost: b"), "made a request that cannot be sent: the value of the header 'x'"),
        (
            with("x\r\ny", "a"),
            "made a request that cannot be sent: invalid header name 'x y': use letters, digits and '-'",
        ),
        (
            AdapterRequest { method: "CONNECT".to_owned(), ..get("/") },
            "made a request that cannot be sent: unsupported method",
        ),
        (many, "made a request that cannot be sent: the number of request headers is over 64"),
        (post(vec![BodyPiece::BlobBase64(0)]), "put blob 0 into a body, but it does not exist"),
    ] {
        let error = Bench::at(&server.origin()).run(&Script::relaying(request.clone())).await.unwrap_err();
        assert_eq!(error.code(), Code::AdapterViolation, "{request:?}: {error}");
        assert!(error.to_string().contains(what), "{request:?}: {error}");
    }
    let mut bench = Bench::at(&server.origin());
    bench.base = None;
    let error = bench.run(&Script::relaying(get("/"))).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "provider 'test': its adapter made a request, but the provider has no base URL: set origin in [providers.test]"
    );
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn body_size_is_checked_before_it_is_built() {
    let server = Server::answering(ok("", "")).await;
    let limits = ExchangeLimits { request_bytes: 100, ..ExchangeLimits::default() };
    for (bytes, blobs, fits) in [(100, 0, true), (101, 0, false), (0, 1, true), (1, 1, false), (0, 2, false)] {
        let mut bench = Bench::at(&server.origin());
        bench.limits = limits.clone();
        let mut body = vec![BodyPiece::BlobBase64(0); blobs];
        body.push(BodyPiece::Bytes(vec![b'x'; bytes]));
        // 73 bytes are 100 in base64.
        let result = bench.run(&Script::relaying(post(body)).with_blobs(&[&[0; 73]])).await;
        assert_eq!(result.is_ok(), fits, "{bytes}, {blobs}: {result:?}");
        if let Err(error) = result {
            assert_eq!(error.code(), Code::LimitExchange);
            assert!(error.to_string().contains("'exchange.request_bytes'"), "{error}");
        }
    }
    // A body that repeats one blob is refused before memory is allocated.
    let body = vec![BodyPiece::BlobBase64(0); 100_000];
    let error = Bench::at(&server.origin())
        .run(&Script::relaying(post(body)).with_blobs(&[&vec![0; 1 << 20]]))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::LimitExchange);
}

#[tokio::test]
async fn forbidden_base_url_is_a_configuration_error() {
    for (origin, private, what) in [
        ("http://192.168.1.5", false, "set allow_private = true in [providers.test]"),
        ("http://api.example.com", false, "refusing to send an unencrypted request"),
        ("https://169.254.169.254", false, "a link-local address"),
        ("https://169.254.169.254", true, "no grant can allow it"),
        ("http://8.8.8.8", true, "plain http is only allowed for private and loopback addresses; use https"),
    ] {
        let mut bench = Bench::at(origin);
        bench.base.as_mut().unwrap().allow_private = private;
        let error = bench.run(&Script::relaying(get("/"))).await.unwrap_err();
        assert_eq!(error.code(), Code::ProviderNetwork, "{origin}");
        assert!(error.to_string().contains(what), "{origin}: {error}");
        assert!(bench.heard.retries.is_empty());
    }
}
