//! A server on loopback for the tests of downloads and registries: it responds as a test specifies, and records the requests.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
    time::{Duration, sleep},
};

/// The response to a request, after which the server closes the connection.
pub(crate) enum StubReply {
    Whole(Vec<u8>),
    /// Sends a head, then single bytes forever, with this pause after each.
    Drip(String, Duration),
}

/// A request as it was received.
#[derive(Clone, Debug)]
pub(crate) struct StubRequest {
    /// Method and path, such as `GET /v2/`.
    pub(crate) line: String,
    /// The head, in lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Stub {
    pub(crate) port: u16,
    received: Arc<Mutex<Vec<StubRequest>>>,
    task: JoinHandle<()>,
}

impl Stub {
    pub(crate) async fn new(answer: impl Fn(&StubRequest) -> StubReply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (received.clone(), Arc::new(answer));
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (log, answer) = (log.clone(), answer.clone());
                tokio::spawn(async move {
                    let Some(request) = read(&mut stream).await else { return };
                    let reply = answer(&request);
                    log.lock().unwrap().push(request);
                    match reply {
                        StubReply::Whole(bytes) => drop(stream.write_all(&bytes).await),
                        StubReply::Drip(head, pause) => {
                            let mut sent = stream.write_all(head.as_bytes()).await;
                            while sent.is_ok() {
                                sleep(pause).await;
                                sent = stream.write_all(b"x").await;
                            }
                        }
                    }
                });
            }
        });
        Self { port, received, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.port)
    }

    pub(crate) fn received(&self) -> Vec<StubRequest> {
        self.received.lock().unwrap().clone()
    }

    /// Returns the first line of each request.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.received().into_iter().map(|request| request.line).collect()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(stream: &mut tokio::net::TcpStream) -> Option<StubRequest> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let lower = head.to_ascii_lowercase();
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if bytes.len() >= end + 4 + length.unwrap_or(0) {
                let line = head.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned();
                return Some(StubRequest { line, head: lower, body: bytes[end + 4..].to_vec() });
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// Returns a response with this body and these headers, each of which must end with CRLF.
pub(crate) fn reply(status: u16, headers: &str, body: impl AsRef<[u8]>) -> StubReply {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status} x\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    StubReply::Whole([head.as_bytes(), body].concat())
}
