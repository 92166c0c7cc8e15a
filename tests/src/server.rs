//! A small HTTP server on the loopback address. It records requests and sends the responses that the test chooses. Use it in
//! place of a provider or a website.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// An action of a scripted server on a connection, which is closed after the last step.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends these bytes.
    Bytes(Vec<u8>),
    /// Waits this many milliseconds.
    Pause(u64),
    /// Sends these bytes repeatedly, this many milliseconds apart, until the client disconnects.
    Endless(Vec<u8>, u64),
}

/// A server on a free port of the loopback address. It listens until the process ends.
pub struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server. `answer` maps a complete request to a complete response.
    pub fn new(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Self {
        Self::serve(move |stream, request| {
            let answer = answer(&request);
            // Fails if the client has disconnected.
            move || drop((&stream).write_all(&answer))
        })
    }

    /// Starts a server that returns the same complete response to every request.
    pub fn always(response: Vec<u8>) -> Self {
        Self::new(move |_| response.clone())
    }

    /// Starts a server that holds the requests for which `is_held` is true until `count` of them are waiting, and then responds to
    /// all of them. It responds to other requests immediately.
    pub fn holding(
        count: usize,
        is_held: impl Fn(&str) -> bool + Send + 'static,
        answer: impl Fn(&str) -> Vec<u8> + Send + 'static,
    ) -> Self {
        let held: Mutex<Vec<(TcpStream, Vec<u8>)>> = Mutex::default();
        Self::serve(move |stream, request| {
            let answered = (stream, answer(&request));
            let mut ready = Vec::new();
            if is_held(&request) {
                let mut held = held.lock().expect("no panic");
                held.push(answered);
                if held.len() >= count {
                    ready = std::mem::take(&mut *held);
                }
            } else {
                ready.push(answered);
            }
            move || {
                for (stream, response) in ready {
                    // Fails if the client has disconnected.
                    drop((&stream).write_all(&response));
                }
            }
        })
    }

    /// Starts a server that performs the steps that `script` returns for a request. It serves connections concurrently.
    pub fn scripted(script: impl Fn(&str) -> Vec<Step> + Send + 'static) -> Self {
        Self::serve(move |stream, request| {
            let steps = script(&request);
            move || drop(thread::spawn(move || follow(&stream, steps)))
        })
    }

    /// Starts a server. `answer` returns an action that sends the response; it runs after the request is recorded.
    fn serve<A: FnOnce()>(answer: impl Fn(TcpStream, String) -> A + Send + 'static) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&requests);
        let port = listen(move |stream, request| {
            let answer = answer(stream, request.clone());
            keep.lock().expect("no panic").push(request);
            answer();
        });
        Self { port, requests }
    }

    /// Starts a server that echoes each complete request, with its headers, in the body of the response.
    pub fn echo() -> Self {
        Self::new(page)
    }

    /// Returns `127.0.0.1:PORT`, as grants expect it.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the complete requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }
}

/// Listens on a free port of the loopback address until the process ends, and passes each complete request and its connection to
/// `answer`. Returns the port.
pub fn listen(answer: impl Fn(TcpStream, String) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if let Some(request) = read(&stream) {
                answer(stream, request);
            }
        }
    });
    port
}

/// Returns a complete response with this plain text.
pub fn page(text: &str) -> Vec<u8> {
    response("200 OK", "text/plain", text)
}

/// Returns a complete response with this status and media type.
pub fn response(status: &str, media: &str, body: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {media}\r\ncontent-length: {}\r\n", body.len());
    format!("{head}connection: close\r\n\r\n{body}").into_bytes()
}

/// Returns the body of a complete request.
pub fn body(request: &str) -> &str {
    request.split_once("\r\n\r\n").expect("a complete request").1
}

/// Performs the steps in order until the client disconnects.
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

/// Reads one request: its head, and a body of the length that the head declares.
fn read(stream: &TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let (mut reader, mut bytes) = (BufReader::new(stream), Vec::new());
    while !bytes.ends_with(b"\r\n\r\n") {
        if reader.read_until(b'\n', &mut bytes).ok()? == 0 {
            return None;
        }
    }
    let head = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let start = bytes.len();
    bytes.resize(start + length.unwrap_or(0), 0);
    reader.read_exact(&mut bytes[start..]).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
