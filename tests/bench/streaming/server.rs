//! What stands for a provider: a server on this machine that tells a recorded answer, a write for each chunk.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Barrier, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use super::recording::Recording;

/// A server that sends each chunk only after the previous one was received at the front.
pub struct Patient {
    pub origin: String,
    /// When a chunk was seen.
    pub seen: Sender<Instant>,
    /// From each chunk's write until it was seen, in nanoseconds: one list for each answer.
    pub times: Receiver<Vec<u64>>,
}

impl Patient {
    pub fn new(recording: Arc<Recording>) -> Self {
        let (seen, waiting) = channel();
        let (done, times) = channel();
        let waiting = Mutex::new(waiting);
        let origin = listen(move |stream| {
            let waiting = waiting.lock().unwrap();
            // What the answer before had still to say.
            while waiting.try_recv().is_ok() {}
            begin(stream, &recording);
            // The beginning is through before the first chunk comes.
            thread::sleep(Duration::from_millis(50));
            let mut times = Vec::with_capacity(recording.deltas.len());
            for delta in &recording.deltas {
                let chunk = chunk(delta);
                let start = Instant::now();
                stream.write_all(&chunk).unwrap();
                let seen: Instant = waiting.recv_timeout(Duration::from_secs(10)).expect("each chunk is an event");
                times.push(u64::try_from((seen - start).as_nanos()).unwrap());
            }
            end(stream, &recording);
            let _ = done.send(times);
        });
        Self { origin, seen, times }
    }
}

/// A server that sends as fast as it can, once so many answers have begun. Gives its origin.
pub fn eager(recording: Arc<Recording>, at_once: usize) -> String {
    let barrier = Barrier::new(at_once);
    listen(move |stream| {
        begin(stream, &recording);
        barrier.wait();
        recording.deltas.iter().for_each(|delta| stream.write_all(&chunk(delta)).unwrap());
        end(stream, &recording);
    })
}

fn begin(stream: &mut TcpStream, recording: &Recording) {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&chunk(&recording.begin)).unwrap();
}

fn end(stream: &mut TcpStream, recording: &Recording) {
    // Who asked may go as soon as the last event is there.
    let _ = stream.write_all(&chunk(&recording.end)).and_then(|()| stream.write_all(b"0\r\n\r\n"));
}

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

/// Listens until the process ends; each request is a thread's, and its connection's only one.
fn listen(answer: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                read(&mut stream);
                answer(&mut stream);
            });
        }
    });
    origin
}

/// One request: its head, and as much body as that says.
fn read(stream: &mut TcpStream) {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "a request that breaks off");
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return;
        }
    }
}
