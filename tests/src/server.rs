//! A web server of a few lines on this machine: it keeps what it was sent, and answers what the test says.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// Listens until the process ends.
pub struct Server {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// A server on a port of its own. `answer` makes a whole answer of a whole request.
    ///
    /// # Panics
    /// Where there is no port.
    pub fn new(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Some(request) = read(&stream) {
                    let answer = answer(&request);
                    keep.lock().expect("no panic").push(request);
                    // Who asked may have gone.
                    let _ = (&stream).write_all(&answer);
                }
            }
        });
        Self { port, heard }
    }

    /// One that answers each request with the request itself, headers and all.
    ///
    /// # Panics
    /// Where there is no port.
    pub fn echo() -> Self {
        Self::new(page)
    }

    /// `127.0.0.1:PORT`, as grants name it.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The requests so far, whole.
    ///
    /// # Panics
    /// Where a test that listens panicked.
    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("no panic").clone()
    }
}

/// A whole answer that is one page of text.
pub fn page(text: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n", text.len());
    format!("{head}connection: close\r\n\r\n{text}").into_bytes()
}

/// One request: its head, and as much body as that says.
fn read(mut stream: &TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}
