//! Tests of secrets in requests, and of their removal from responses and errors.

use std::cell::RefCell;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};

use crate::{
    EgressError, Origin, Placed, Placement, Request, RequestError, Scrub, Secret,
    tests::{
        egress, get, limits,
        server::{Server, gzip, ok},
    },
};

/// A secret with characters that encoders change.
const SENTINEL: &str = "sk-Sentinel/42+\"<&>'=%";

fn placed(url: &str, placement: Placement) -> Placed {
    let origin: Origin = url.parse().unwrap();
    Placed { secret: Secret::new(SENTINEL).unwrap(), placement, origin }
}

fn bearer(url: &str) -> Placed {
    placed(url, Placement::Header { name: "Authorization".to_owned(), prefix: "Bearer ".to_owned() })
}

#[tokio::test]
async fn secret_is_sent_at_its_placement() {
    let server = Server::answering(ok("", "")).await;
    let url = server.url("");
    let secrets = vec![bearer(&url), placed(&url, Placement::Query("key".to_owned()))];
    let request = Request { secrets, ..get(&server.url("/path?a=b")) };
    assert!(!format!("{request:?}").contains("Sentinel"));
    egress(limits()).send(request).await.unwrap();
    let seen = &server.requests()[0];
    assert!(seen.starts_with("GET /path?a=b&key=sk-Sentinel%2F42%2B%22%3C%26%3E%27%3D%25 HTTP/1.1\r\n"), "{seen}");
    assert_eq!(seen.matches(&format!("authorization: Bearer {SENTINEL}\r\n")).count(), 1, "{seen}");
}

#[tokio::test]
async fn secret_is_sent_only_to_its_origin() {
    let server = Server::answering(ok("", "")).await;
    let port = server.address.port();
    for bound in [
        "https://api.example.com".to_owned(),
        "http://localhost:1".to_owned(),
        format!("https://localhost:{port}"),
        format!("http://127.0.0.1:{port}"),
        format!("http://app.localhost:{port}"),
    ] {
        let request = Request { secrets: vec![bearer(&bound)], ..get(&server.url("/")) };
        let error = egress(limits()).send(request).await.unwrap_err();
        assert!(matches!(error, EgressError::Origin { .. }), "{bound}: {error}");
        assert_eq!(error.kind(), "denied");
        assert!(!format!("{error} {error:?}").contains("Sentinel"));
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn secret_placement_must_be_unused() {
    let server = Server::answering(ok("", "")).await;
    let (base, url) = (server.url(""), server.url("/?Key=1&k%65y=2"));
    let header = |name: &str, prefix: &str| {
        placed(&base, Placement::Header { name: name.to_owned(), prefix: prefix.to_owned() })
    };
    let query = |name: &str| placed(&base, Placement::Query(name.to_owned()));
    let guest = vec![("authorization".to_owned(), "Bearer other".to_owned())];
    for (headers, secrets, error) in [
        (guest, vec![bearer(&base)], RequestError::HeaderTwice("authorization".to_owned())),
        (vec![], vec![bearer(&base), bearer(&base)], RequestError::HeaderTwice("authorization".to_owned())),
        (vec![], vec![query("key")], RequestError::QueryTwice("key".to_owned())),
        (vec![], vec![query("q"), query("q")], RequestError::QueryTwice("q".to_owned())),
        (vec![], vec![header("Host", "")], RequestError::ReservedHeader("host".to_owned())),
        (vec![], vec![header("user-agent", "")], RequestError::HeaderTwice("user-agent".to_owned())),
        (vec![], vec![header("x-key", "a\r\nb: ")], RequestError::HeaderValue("x-key".to_owned())),
        (vec![], vec![header("x key", "")], RequestError::HeaderName("x key".to_owned())),
    ] {
        let error = EgressError::from(error);
        assert_eq!(egress(limits()).send(Request { headers, secrets, ..get(&url) }).await, Err(error));
    }
    assert_eq!(server.connections(), 0);
}

/// Returns the secret in every form in which a server might echo it by accident.
fn echoes() -> Vec<String> {
    let percent = |upper: bool| -> String {
        SENTINEL.bytes().map(|b| if upper { format!("%{b:02X}") } else { format!("%{b:02x}") }).collect()
    };
    vec![
        SENTINEL.to_owned(),
        SENTINEL.to_uppercase(),
        percent(true),
        percent(false),
        "sk-Sentinel%2F42%2B%22%3C%26%3E%27%3D%25".to_owned(),
        SENTINEL.replace('"', "\\\""),
        SENTINEL.replace('"', "\\u0022").replace('<', "\\u003C").replace('&', "\\u0026").replace('/', "\\/"),
        SENTINEL
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;")
            .replace('\'', "&#39;"),
        hex::encode(SENTINEL),
        hex::encode_upper(SENTINEL),
        STANDARD.encode(SENTINEL),
        URL_SAFE.encode(SENTINEL),
        STANDARD.encode(format!("u:{SENTINEL}")),
        STANDARD.encode(format!("user{SENTINEL}:x")),
    ]
}

/// Whether `text` contains any form of the secret, or a recognisable part of one.
fn tells(text: &str) -> bool {
    let text = text.to_lowercase();
    let telling = |form: &String| {
        let form = form.to_lowercase();
        // The middle of the form is recognisable, even if its ends were cut off.
        text.contains(&form[form.len() / 4..form.len() * 3 / 4])
    };
    echoes().iter().any(telling)
}

#[tokio::test]
async fn echoed_secret_is_removed() {
    assert!(echoes().iter().all(|echo| tells(echo)));
    for echo in echoes() {
        let headers = format!("X-Echo: a {echo} b\r\nX-{}: x\r\n", hex::encode(SENTINEL));
        for (encoding, body) in [("", echo.clone().into_bytes()), ("Content-Encoding: gzip\r\n", gzip(echo.as_bytes()))]
        {
            let server = Server::answering(ok(&format!("{headers}{encoding}"), body)).await;
            let request = Request { secrets: vec![bearer(&server.url(""))], ..get(&server.url("/")) };
            let response = egress(limits()).send(request).await.unwrap();
            let all = format!("{response:?} {}", String::from_utf8_lossy(&response.body));
            assert!(!tells(&all), "{echo}: {all}");
            assert!(response.headers[0].1.starts_with("a [secret]") || response.headers[0].1.contains("[secret]"));
            assert_eq!(response.headers[1].0, "x-[secret]");
            assert!(String::from_utf8_lossy(&response.body).contains("[secret]"), "{echo}");
        }
    }
}

/// The request does not contain the secret, but the secret is bound to the server.
#[tokio::test]
async fn secret_is_scrubbed_although_the_request_lacks_it() {
    let wrapped: Vec<_> =
        hex::encode(SENTINEL).as_bytes().chunks(2).map(String::from_utf8_lossy).map(String::from).collect();
    let mut forms = echoes();
    forms.push(wrapped.join(":"));
    for echo in forms {
        let server = Server::answering(ok(&format!("X-Echo: {echo}\r\n"), format!("stored: {echo}"))).await;
        let secret = Secret::new(SENTINEL).unwrap();
        let request = Request { scrub: Scrub::new([&secret]), ..get(&server.url("/")) };
        let response = egress(limits()).send(request).await.unwrap();
        let body = String::from_utf8(response.body).unwrap();
        assert!(body.contains("[secret]") && response.headers[0].1.contains("[secret]"), "{echo}: {body}");
        assert!(!tells(&format!("{body}{:?}", response.headers)), "{echo}: {body}");
    }
}

/// The server sends the secret in pieces, cut at any byte.
#[tokio::test]
async fn secret_echoed_in_pieces_is_removed() {
    use tokio::io::AsyncWriteExt;

    let server = Server::then(|mut stream| async move {
        stream.set_nodelay(true).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await.unwrap();
        for byte in format!("data: {SENTINEL}, {}.", STANDARD.encode(SENTINEL)).bytes() {
            stream.write_all(&[b"1\r\n", &[byte][..], b"\r\n"].concat()).await.unwrap();
            stream.flush().await.unwrap();
        }
        stream.write_all(b"0\r\n\r\n").await.unwrap();
    })
    .await;
    let request = Request { secrets: vec![bearer(&server.url(""))], ..get(&server.url("/")) };
    let mut answer = egress(limits()).open(request).await.unwrap();
    let mut text = String::new();
    while let Some(chunk) = answer.chunk().await.unwrap() {
        let chunk = String::from_utf8(chunk).unwrap();
        assert!(!tells(&chunk));
        text.push_str(&chunk);
    }
    assert!(text.starts_with("data: [secret], [secret]") && text.len() < 40, "{text}");
}

#[tokio::test]
async fn errors_do_not_contain_the_secret() {
    for answer in [
        format!("HTTP/1.1 200 OK\r\nContent-Encoding: {SENTINEL}\r\n\r\n"),
        // The padding moves the secret to the place where long strings are truncated.
        format!("HTTP/1.1 200 OK\r\nContent-Encoding: {}{SENTINEL}\r\n\r\n", "x".repeat(22)),
        format!("HTTP/1.1 200 OK\r\nX{SENTINEL}: x\r\n\r\n"),
        format!("HTTP/9 {SENTINEL}\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{SENTINEL}\r\n"),
    ] {
        let server = Server::answering(answer).await;
        let url = server.url("");
        let secrets = vec![bearer(&url), placed(&url, Placement::Query("key".to_owned()))];
        let error = egress(limits()).send(Request { secrets, ..get(&server.url("/path")) }).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(!tells(&text) && !text.contains("key=") && !text.contains("/path"), "{text}");
    }
}

thread_local! {
    /// Receives all log lines of this thread, including the HTTP libraries' lines.
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct Log;

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.with_borrow_mut(|log| log.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn logs_do_not_contain_the_secret() {
    // Installed for all threads: `tracing` caches whether a line is enabled when it is first reached, in any test.
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(|| Log).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let server = Server::answering(ok(&format!("X-Echo: {SENTINEL}\r\n"), SENTINEL)).await;
    let url = server.url("");
    let secrets = vec![bearer(&url), placed(&url, Placement::Query("key".to_owned()))];
    egress(limits()).send(Request { secrets, ..get(&server.url("/path?private=1")) }).await.unwrap();
    let text = String::from_utf8(LOG.take()).unwrap();
    assert!(text.contains("answered") && text.contains("localhost"), "{text}");
    assert!(!tells(&text) && !text.contains("private") && !text.contains("/path"), "{text}");
}
