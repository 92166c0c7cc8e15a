//! A web server of a few lines on this machine: it keeps what it was sent, and answers what the test says.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// One thing that a scripted server does with a connection. After the last one it closes.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends these bytes.
    Bytes(Vec<u8>),
    /// Is silent for so many milliseconds.
    Pause(u64),
    /// Sends these bytes again and again, with so many milliseconds between, until nobody is there any more.
    Endless(Vec<u8>, u64),
}

/// Listens until the process ends.
pub struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// A server on a port of its own. `answer` makes a whole answer of a whole request.
    ///
    /// # Panics
    /// Where there is no port.
    pub fn new(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Self {
        Self::serve(move |stream, request| {
            let answer = answer(&request);
            // Who asked may have gone.
            move || drop((&stream).write_all(&answer))
        })
    }

    /// A server on a port of its own that follows what `script` gives for a whole request, several at once.
    ///
    /// # Panics
    /// Where there is no port.
    pub fn scripted(script: impl Fn(&str) -> Vec<Step> + Send + 'static) -> Self {
        Self::serve(move |stream, request| {
            let steps = script(&request);
            move || drop(thread::spawn(move || follow(&stream, steps)))
        })
    }

    /// `answer` makes what is to be done for a request once that is among those that were requests.
    fn serve<A: FnOnce()>(answer: impl Fn(TcpStream, String) -> A + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Some(request) = read(&stream) {
                    let answer = answer(stream, request.clone());
                    keep.lock().expect("no panic").push(request);
                    answer();
                }
            }
        });
        Self { port, requests }
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
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}

/// A whole answer that is one page of text.
pub fn page(text: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n", text.len());
    format!("{head}connection: close\r\n\r\n{text}").into_bytes()
}

/// Does one step after the other, as long as somebody is there.
fn follow(mut stream: &TcpStream, steps: Vec<Step>) {
    for step in steps {
        match step {
            Step::Bytes(bytes) => {
                if stream.write_all(&bytes).is_err() {
                    return;
                }
            }
            Step::Pause(ms) => thread::sleep(Duration::from_millis(ms)),
            Step::Endless(bytes, ms) => {
                while stream.write_all(&bytes).is_ok() {
                    thread::sleep(Duration::from_millis(ms));
                }
                return;
            }
        }
    }
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
