//! A model on the loopback address. The measurement itself writes the answers and therefore knows when each piece was sent.

use std::{
    fmt::Write as _,
    io::Write as _,
    net::TcpStream,
    sync::mpsc::{Receiver, channel},
    time::Instant,
};

use patchbay_tests::{
    PATIENCE,
    binary::Patchbay,
    format::{CHAT, KEY, chat_end, chat_event, event_stream},
};
use serde_json::{Value, json};

use crate::streaming::server::listen;

/// A server whose requests wait until [`Model::answer`] begins their answers.
pub struct Model {
    pub origin: String,
    requests: Receiver<TcpStream>,
}

impl Model {
    pub fn new() -> Self {
        let (sender, requests) = channel();
        let origin = listen(move |stream| {
            let _ = sender.send(stream.try_clone().unwrap());
        });
        Self { origin, requests }
    }

    /// Makes this the model of a home, and installs `skills` skills without components, each with a command `/zNNN-skill`.
    pub fn home(&self, skills: usize) -> Patchbay {
        let mut patchbay = Patchbay::new();
        patchbay.set(CHAT.variable, KEY);
        // `answer` takes the next request, whatever it asks for, so nothing may request the list of models.
        let config = format!(
            "default_model = \"{}\"\n[catalogue]\nrefresh_hours = 0\n[providers.{}]\norigin = \"{}/v1\"\nenv = \"{}\"\n",
            CHAT.model, CHAT.provider, self.origin, CHAT.variable
        );
        patchbay.write("home/config/config.toml", config);
        for number in 0..skills {
            let frontmatter = format!("command: z{number:03}-skill\nsummary: Skill number {number} of a thousand");
            patchbay.skill(&format!("z{number:03}"), &frontmatter, "Repeat the answer of the person.");
        }
        patchbay
    }

    /// Waits for the next request and begins its answer.
    pub fn answer(&self) -> Answer {
        let mut stream = self.requests.recv_timeout(PATIENCE).expect("a request");
        stream.write_all(&event_stream(b"")).unwrap();
        Answer(stream)
    }
}

/// An answer that is being sent.
pub struct Answer(TcpStream);

impl Answer {
    /// Sends a piece of text, and returns the time just before.
    pub fn send(&mut self, text: &str) -> Instant {
        let event = event(text);
        let start = Instant::now();
        self.0.write_all(event.as_bytes()).unwrap();
        start
    }

    /// Sends a text as fast as possible, in pieces of about 60 bytes.
    pub fn send_all(&mut self, text: &str) {
        let mut events = String::new();
        for piece in pieces(text) {
            let _ = events.write_str(&event(piece));
            if events.len() > 16 << 10 {
                self.0.write_all(events.as_bytes()).unwrap();
                events.clear();
            }
        }
        self.0.write_all(events.as_bytes()).unwrap();
    }

    /// Ends the answer with the reason `stop`.
    pub fn end(mut self) {
        self.0.write_all(chat_end("stop").as_bytes()).unwrap();
    }
}

fn event(text: &str) -> String {
    chat_event(&json!({ "content": text }), &Value::Null)
}

/// Cuts an ASCII text into pieces.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.as_bytes().chunks(60).map(|piece| std::str::from_utf8(piece).unwrap())
}
