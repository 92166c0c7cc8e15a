//! Downloads from a server on loopback that redirects, drips and lies.

use super::*;
use crate::stub::{Stub, StubReply, StubRequest, reply};

fn limits() -> DownloadLimits {
    DownloadLimits { bytes: 1000, ..DownloadLimits::default() }
}

async fn fetched(
    url: &str,
    expected: ExpectedFile,
    limits: DownloadLimits,
) -> Result<(Download, Vec<u8>), DownloadError> {
    let mut file = Vec::new();
    let download = Downloads::new(limits).fetch(url, expected, &mut file).await?;
    Ok((download, file))
}

async fn refused(url: &str) -> String {
    fetched(url, ExpectedFile::default(), limits()).await.unwrap_err().to_string()
}

#[tokio::test]
async fn file_is_hashed_and_compared_while_it_arrives() {
    let server = Stub::new(|_| reply(200, "Content-Encoding: gzip\r\n", "not gzip")).await;
    let url = server.url("/greet.wasm");
    let digest = Digest::of(b"not gzip");
    let known = ExpectedFile { digest: Some(digest), bytes: Some(8) };
    // Like curl, a download stores the file exactly as it was sent, whatever encoding its headers declare.
    let (download, file) = fetched(&url, known, limits()).await.unwrap();
    assert_eq!((download, &*file), (Download { digest, bytes: 8 }, &b"not gzip"[..]));
    assert!(server.received()[0].head.contains("\r\naccept-encoding: identity"), "{:?}", server.received());

    let other = Digest::of(b"other");
    let error = fetched(&url, ExpectedFile { digest: Some(other), bytes: None }, limits()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("expected {other}, received {digest}; nothing was added"));
    assert_eq!(error.code(), Code::DigestMismatch);
    for bytes in [7, 9] {
        let error =
            fetched(&url, ExpectedFile { digest: Some(digest), bytes: Some(bytes) }, limits()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("expected {bytes} bytes, received 8; nothing was added"));
    }
}

#[tokio::test]
async fn size_time_and_pace_are_limited() {
    let large = Stub::new(|_| reply(200, "", vec![0; 1001])).await;
    let error = refused(&large.url("/")).await;
    assert_eq!(
        error,
        format!("the file from http://localhost:{} has more than 1000 bytes, the limit of a package", large.port)
    );
    // The limit also holds without a Content-Length.
    let endless = Stub::new(|_| StubReply::Whole([&b"HTTP/1.1 200 x\r\n\r\n"[..], &[0; 5000]].concat())).await;
    assert!(refused(&endless.url("/")).await.contains("more than 1000 bytes"));

    let head = "HTTP/1.1 200 x\r\n\r\n".to_owned();
    let drip = Stub::new(move |_| StubReply::Drip(head.clone(), Duration::from_millis(5))).await;
    let window = Duration::from_millis(50);
    let slow = DownloadLimits { window, window_bytes: 100, ..limits() };
    let error = fetched(&drip.url("/"), ExpectedFile::default(), slow).await.unwrap_err();
    assert!(matches!(error, DownloadError::Slow(_)), "{error}");
    let long = DownloadLimits { time: window, ..limits() };
    let error = fetched(&drip.url("/"), ExpectedFile::default(), long).await.unwrap_err();
    assert!(matches!(error, DownloadError::Time(_) | DownloadError::Slow(_)), "{error}");
    let silent = Stub::new(|_| StubReply::Drip(String::new(), Duration::from_secs(9))).await;
    let error =
        fetched(&silent.url("/"), ExpectedFile::default(), DownloadLimits { window, ..limits() }).await.unwrap_err();
    assert!(matches!(error, DownloadError::Slow(_)), "{error}");
}

#[tokio::test]
async fn only_public_addresses_and_the_named_server_are_asked() {
    for (url, words) in [
        ("http://example.com/x.wasm", "http://example.com is not encrypted: use https, or http on"),
        (
            "https://10.0.0.1/x.wasm",
            "'10.0.0.1' is a private address: packages can only come from public addresses, or from",
        ),
        ("https://169.254.169.254/", "'169.254.169.254' is a link-local address, where clouds serve their metadata:"),
        ("https://me:secret@example.com/", "invalid address: it contains a user name or a password"),
        ("ftp://example.com/", "invalid address: its scheme is 'ftp'"),
        ("example.com", "invalid address: "),
    ] {
        let error = refused(url).await;
        assert!(error.starts_with(words), "{url}: {error}");
        assert!(!error.contains("secret@"));
    }
}

/// Returns a server that redirects `/N` to `/N-1`, `/to/URL` to that URL, and has a file at `/0`.
async fn redirecting() -> Stub {
    Stub::new(|StubRequest { line, .. }| {
        let path = line.trim_start_matches("GET /");
        match (path.strip_prefix("to/"), path.parse::<usize>()) {
            (Some(url), _) => reply(307, &format!("Location: {url}\r\n"), ""),
            (None, Ok(0)) => reply(200, "", "file"),
            (None, Ok(number)) => reply(302, &format!("Location: /{}\r\n", number - 1), ""),
            (None, Err(_)) => reply(404, "", ""),
        }
    })
    .await
}

#[tokio::test]
async fn five_redirects_are_followed_and_none_leads_inwards() {
    let (server, inner) = (redirecting().await, redirecting().await);
    let (_, file) = fetched(&server.url("/5"), ExpectedFile::default(), limits()).await.unwrap();
    assert_eq!(file, b"file");
    assert_eq!(
        refused(&server.url("/6")).await,
        format!("more than 5 redirects; the last one was by {}", server.url(""))
    );
    for (to, words) in [
        (inner.url("/0"), format!("{} is not encrypted", inner.url(""))),
        (format!("https://127.0.0.1:{}/", inner.port), "'127.0.0.1' is a loopback address".to_owned()),
        (format!("https://localhost:{}/", inner.port), "'localhost' is a loopback address".to_owned()),
        ("https://192.168.0.1/".to_owned(), "'192.168.0.1' is a private address".to_owned()),
        ("https://[::1]/".to_owned(), "invalid address: ".to_owned()),
        ("file:///etc/passwd".to_owned(), "invalid address: its scheme is 'file'".to_owned()),
    ] {
        let error = refused(&server.url(&format!("/to/{to}"))).await;
        let begin = format!("{} redirects, which is not followed: {words}", server.url(""));
        assert!(error.starts_with(&begin), "{to}: {error}");
    }
    assert_eq!(inner.lines(), [""; 0]);
    let error = refused(&server.url("/none")).await;
    assert_eq!(error, format!("{} responded with status 404: check the address", server.url("")));
    assert!(refused(&server.url("/to/")).await.contains("more than 5 redirects"), "an empty reference is the same URL");
}
