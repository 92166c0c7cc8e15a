//! A server on this machine that sends exact bytes. Used by the tests of this crate and by the tests of exchanges in `provider`.

#![allow(dead_code, reason = "each of the two crates needs only a part of it")]

use std::{
    future::Future,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A server without an HTTP library, which lets it violate the protocol.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    requests: Vec<String>,
}

impl Server {
    /// Answers each request with these bytes and keeps the connection open.
    pub(super) async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::with(move |_| answer.clone()).await
    }

    /// Answers each request with the result of `answer`, which is called with the request's text.
    pub(super) async fn with(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        Self::raw("127.0.0.1:0", move |mut stream, log| {
            let answer = answer.clone();
            async move {
                while let Some(request) = read_request(&mut stream).await {
                    log(request.clone());
                    if stream.write_all(&answer(&request)).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await
    }

    /// Reads one request from each connection, runs `after`, and closes the connection.
    pub(super) async fn then<F>(after: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let after = Arc::new(after);
        Self::raw("127.0.0.1:0", move |mut stream, log| {
            let after = after.clone();
            async move {
                if let Some(request) = read_request(&mut stream).await {
                    log(request);
                    after(stream).await;
                }
            }
        })
        .await
    }

    /// Reads one request from each connection, sends these bytes, and closes the connection.
    pub(super) async fn closing(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::then(move |mut stream| {
            let answer = answer.clone();
            async move { drop(stream.write_all(&answer).await) }
        })
        .await
    }

    /// Reads one request from each connection, sends these bytes, and then nothing.
    pub(super) async fn silent(first: &'static str) -> Self {
        Self::then(move |mut stream| async move {
            let _ = stream.write_all(first.as_bytes()).await;
            hang(stream).await;
        })
        .await
    }

    /// Reads one request from each connection, sends `head`, and repeats `more` with pauses until the client closes the
    /// connection.
    pub(super) async fn repeating(head: &'static str, more: impl Into<Vec<u8>>, pause_ms: u64) -> Self {
        let more = more.into();
        Self::then(move |mut stream| {
            let more = more.clone();
            async move {
                let _ = stream.write_all(head.as_bytes()).await;
                while stream.write_all(&more).await.is_ok() {
                    if pause_ms > 0 {
                        tokio::time::sleep(std::time::Duration::from_millis(pause_ms)).await;
                    }
                }
            }
        })
        .await
    }

    /// Runs `each` for each connection.
    pub(super) async fn raw<F>(
        address: &str,
        each: impl Fn(TcpStream, Box<dyn Fn(String) + Send + Sync>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = seen.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                drop(stream.set_nodelay(true));
                shared.lock().unwrap().connections += 1;
                let shared = shared.clone();
                let log = Box::new(move |request| shared.lock().unwrap().requests.push(request));
                tokio::spawn(each(stream, log));
            }
        });
        Self { address, seen, task }
    }

    /// Returns `http://localhost:PORT` followed by `path`.
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.address.port())
    }

    /// Returns `http://127.0.0.1:PORT`.
    pub(super) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().requests.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads a request: its head, and its body if the head declares a length. Returns `None` at the end of the connection.
pub(super) async fn read_request<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if bytes.len() >= end + 4 + length.unwrap_or(0) {
                return Some(String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        match stream.read_buf(&mut bytes).await {
            Ok(read) if read > 0 && bytes.len() < 16 << 20 => {}
            _ => return None,
        }
    }
}

/// Waits until the other side closes the connection.
pub(super) async fn hang<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    let mut nothing = [0; 64];
    while stream.read(&mut nothing).await.is_ok_and(|read| read > 0) {}
}

/// Returns a `200 OK` with this body and these headers, each of which includes its line end.
pub(super) fn ok(headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut answer = format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    answer
}

/// The head of a chunked response.
pub(super) const OPEN: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Returns a chunk of a chunked response.
pub(super) fn piece(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;

    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
