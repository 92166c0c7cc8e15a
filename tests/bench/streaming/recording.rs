//! A recorded answer, repeated to the needed length.

use std::{fs, path::Path};

use serde_json::Value;

/// A recorded answer of the Messages API, whose deltas are repeated.
pub struct Recording {
    /// The events before the first delta.
    pub begin: String,
    /// The events of deltas, each a chunk.
    pub deltas: Vec<String>,
    /// The events after the last delta.
    pub end: String,
    /// The whole text of the answer.
    pub text: String,
}

impl Recording {
    pub fn new(chunks: usize) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/codecs/recordings/messages/text.sse");
        let recorded = fs::read_to_string(file).unwrap();
        let events: Vec<String> = recorded.split_inclusive("\n\n").map(str::to_owned).collect();
        let is_delta = |event: &&String| event.starts_with("event: content_block_delta");
        let begin = events.iter().take_while(|event| !is_delta(event)).cloned().collect();
        let end = events.iter().rev().take_while(|event| !is_delta(event)).collect::<Vec<_>>();
        let end = end.into_iter().rev().cloned().collect();
        let deltas: Vec<_> = events.iter().filter(is_delta).cycle().take(chunks).cloned().collect();
        let text = |event: &String| {
            let data: Value = serde_json::from_str(event.split_once("data: ").unwrap().1).unwrap();
            data["delta"]["text"].as_str().unwrap().to_owned()
        };
        let text = deltas.iter().map(text).collect();
        Self { begin, deltas, end, text }
    }

    /// Returns the whole answer.
    pub fn body(&self) -> String {
        [&self.begin, &self.deltas.concat(), &self.end].map(String::as_str).concat()
    }
}
