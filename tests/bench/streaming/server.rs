//! A server on this machine that sends a recorded answer, with one write for each chunk.

use std::{
    io::Write as _,
    net::TcpStream,
    sync::{
        Arc, Barrier, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::server;

use super::recording::Recording;

/// A server that sends each chunk only after the previous one was received at the front.
pub struct Patient {
    pub origin: String,
    /// Notified when a chunk was seen.
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
            // Notifications that remain from the previous answer.
            while waiting.try_recv().is_ok() {}
            begin(stream, &recording);
            // The events before the first delta are received before the first chunk is sent.
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

/// Starts a server that sends as fast as possible after this many answers have begun. Returns its origin.
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
    // The client may close the connection after the last event.
    let _ = stream.write_all(&chunk(&recording.end)).and_then(|()| stream.write_all(b"0\r\n\r\n"));
}

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

/// Listens until the process ends. Each answer has its own thread and its own connection.
pub fn listen(answer: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> String {
    let answer = Arc::new(answer);
    let port = server::listen(move |mut stream, _| {
        let answer = Arc::clone(&answer);
        thread::spawn(move || {
            stream.set_nodelay(true).unwrap();
            answer(&mut stream);
        });
    });
    format!("http://127.0.0.1:{port}")
}
