//! A model on the loopback address whose answers arrive in pieces: [`Script`].

use std::sync::mpsc::{Sender, channel};

use patchbay_tests::{
    binary::Patchbay,
    format::{CHAT, KEY, chat_end, chat_event, event_stream},
    server::{Server, Step},
};
use serde_json::{Value, json};

use crate::stage::{Stage, Window};

/// Milliseconds that leave enough time to look at the screen.
const LONG_MS: u64 = 300_000;

/// One answer in the format of Chat Completions.
pub(crate) struct Script {
    steps: Vec<Step>,
    /// The pause after each piece in milliseconds.
    pause: u64,
}

impl Script {
    pub(crate) fn new() -> Self {
        Self { steps: vec![Step::Bytes(event_stream(b""))], pause: 0 }
    }

    /// Like [`Script::new`], with a pause after each piece.
    pub(crate) fn slow(pause_ms: u64) -> Self {
        Self { pause: pause_ms, ..Self::new() }
    }

    /// Sends text in pieces of one word.
    pub(crate) fn text(self, text: &str) -> Self {
        text.split_inclusive(' ').fold(self, |script, piece| script.piece(&json!({ "content": piece })))
    }

    /// Sends thinking in pieces of one word.
    pub(crate) fn thinking(self, text: &str) -> Self {
        text.split_inclusive(' ').fold(self, |script, piece| script.piece(&json!({ "reasoning_content": piece })))
    }

    fn piece(mut self, delta: &Value) -> Self {
        self.steps.push(Step::Bytes(chat_event(delta, &Value::Null).into_bytes()));
        if self.pause > 0 {
            self.steps.push(Step::Pause(self.pause));
        }
        self
    }

    /// Sends nothing more, but does not end the answer.
    pub(crate) fn stall(mut self) -> Vec<Step> {
        self.steps.push(Step::Pause(LONG_MS));
        self.steps
    }

    /// Ends the answer after a pause of a second, in which everything before it is shown.
    pub(crate) fn pause_and_end(mut self) -> Vec<Step> {
        self.steps.push(Step::Pause(1_000));
        self.end()
    }

    pub(crate) fn end(mut self) -> Vec<Step> {
        self.steps.push(Step::Bytes(chat_end("stop").into_bytes()));
        self.steps
    }
}

impl Stage {
    /// Creates a home in which a model answers with `script`.
    pub(crate) fn model(&self, script: impl Fn() -> Vec<Step> + Send + 'static) -> Patchbay {
        self.model_at(&Server::scripted(move |_| script()))
    }

    /// Creates a home with a model whose every answer waits until the test sends it.
    pub(crate) fn gated_model(&self) -> (Patchbay, Sender<Vec<Step>>) {
        let (answers, gate) = channel();
        let is_for_model = |request: &str| request.starts_with("POST");
        let script =
            move |request: &str| if is_for_model(request) { gate.recv().unwrap_or_default() } else { Vec::new() };
        (self.model_at(&Server::scripted(script)), answers)
    }

    fn model_at(&self, server: &Server) -> Patchbay {
        let table = CHAT.table(server);
        let mut patchbay = self.home(&format!("default_model = \"{}\"\n{table}", CHAT.model));
        patchbay.set(CHAT.variable, KEY);
        patchbay
    }

    /// Opens a terminal in which an answer begins with `text` and never ends.
    pub(crate) fn stalled(&self, text: &'static str) -> Window {
        let terminal = self.open(self.model(move || Script::new().text(text).stall()));
        terminal.press("How do I move the shop?\r");
        terminal.wait_for_prefix(text.trim_end());
        terminal
    }
}
