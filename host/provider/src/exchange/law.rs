//! The law of blocks, and what of them is told.

use std::collections::BTreeMap;

use patchbay_core::{
    Code,
    completion::{BlockKind, StreamEvent, TokenUsage},
};
use patchbay_egress::{Scrub, Scrubber};

use super::Breach;
use crate::Sink;

/// What an adapter has told of its answer.
#[derive(Default)]
pub(super) struct Law {
    /// The number of the next block.
    next: u32,
    open: BTreeMap<u32, Open>,
    /// The last that was told.
    pub(super) usage: TokenUsage,
    /// Bytes of text.
    told: u64,
}

/// A block that has begun and not ended.
struct Open {
    /// Whether only the adapter reads it: it has no deltas.
    opaque: bool,
    /// What takes the secret out of its deltas, wherever it is cut.
    scrubber: Option<Scrubber>,
}

impl Law {
    /// Blocks that are open at once. Answers have two or three.
    const OPEN: usize = 100;

    /// Whether a block has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.next > 0
    }

    /// Judges an event and tells it, without the secret. `most`: bytes that may be told in all.
    pub(super) fn tell(
        &mut self,
        event: StreamEvent,
        most: u64,
        scrub: &Scrub,
        sink: &mut dyn Sink,
    ) -> Result<(), Breach> {
        self.told = self.told.saturating_add(weight(&event));
        if self.told > most {
            let what = format!("told more than {most} bytes, the limit 'exchange.answer_bytes'");
            return Err(Breach { code: Code::LimitExchange, what });
        }
        let clean = |text: String| scrub.text(&text);
        let event = match event {
            StreamEvent::BlockStart { index, kind } => {
                self.start(index, &kind)?;
                let kind = match kind {
                    BlockKind::ToolCall { id, name } => BlockKind::ToolCall { id: clean(id), name: clean(name) },
                    BlockKind::Opaque(data) => BlockKind::Opaque(clean(data)),
                    kind @ (BlockKind::Text | BlockKind::Thinking) => kind,
                };
                StreamEvent::BlockStart { index, kind }
            }
            StreamEvent::BlockDelta { index, text } => {
                let text = self.delta(index, text, scrub)?;
                if text.is_empty() {
                    return Ok(());
                }
                StreamEvent::BlockDelta { index, text }
            }
            StreamEvent::BlockEnd { index, opaque } => {
                let open = self.open.remove(&index).ok_or_else(|| self.not_open("ended", index))?;
                rest(index, open, sink);
                StreamEvent::BlockEnd { index, opaque: opaque.map(clean) }
            }
            StreamEvent::Usage(usage) => {
                self.usage = usage;
                StreamEvent::Usage(usage)
            }
            StreamEvent::Started(model) => StreamEvent::Started(clean(model)),
            StreamEvent::Extra { name, value } => StreamEvent::Extra { name: clean(name), value: clean(value) },
        };
        sink.event(event);
        Ok(())
    }

    /// That no block is open at the end of an answer.
    pub(super) fn finish(&self) -> Result<(), Breach> {
        match self.open.first_key_value() {
            Some((index, _)) => Err(Breach::violation(format!("finished while block {index} was open"))),
            None => Ok(()),
        }
    }

    /// Tells what was held back of an answer that goes no further.
    pub(super) fn cut(&mut self, sink: &mut dyn Sink) {
        while let Some((index, open)) = self.open.pop_first() {
            rest(index, open, sink);
        }
    }

    fn start(&mut self, index: u32, kind: &BlockKind) -> Result<(), Breach> {
        if index != self.next {
            let next = self.next;
            return Err(Breach::violation(format!("started block {index} where block {next} is next")));
        }
        if self.open.len() >= Self::OPEN {
            return Err(Breach::violation(format!("had more than {} blocks open at once", Self::OPEN)));
        }
        self.next += 1;
        self.open.insert(index, Open { opaque: matches!(kind, BlockKind::Opaque(_)), scrubber: None });
        Ok(())
    }

    /// What of a delta may be told by now.
    fn delta(&mut self, index: u32, text: String, scrub: &Scrub) -> Result<String, Breach> {
        let Some(open) = self.open.get_mut(&index) else { return Err(self.not_open("added to", index)) };
        if open.opaque {
            return Err(Breach::violation(format!("added to block {index}, which is opaque")));
        }
        if scrub.is_empty() {
            return Ok(text);
        }
        let scrubber = open.scrubber.get_or_insert_with(|| scrub.stream());
        Ok(as_text(scrubber.push(text.as_bytes())))
    }

    fn not_open(&self, did: &str, index: u32) -> Breach {
        let why = if index < self.next { "had ended" } else { "was never started" };
        Breach::violation(format!("{did} block {index}, which {why}"))
    }
}

/// Tells what was held back of a block.
fn rest(index: u32, open: Open, sink: &mut dyn Sink) {
    let text = as_text(open.scrubber.map(|mut scrubber| scrubber.finish()).unwrap_or_default());
    if !text.is_empty() {
        sink.event(StreamEvent::BlockDelta { index, text });
    }
}

/// Secrets are ASCII, so that no character is ever cut.
fn as_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The bytes that an event holds.
fn weight(event: &StreamEvent) -> u64 {
    let bytes = match event {
        StreamEvent::Started(text) | StreamEvent::BlockDelta { text, .. } => text.len(),
        StreamEvent::BlockStart { kind: BlockKind::ToolCall { id, name }, .. } => id.len() + name.len(),
        StreamEvent::BlockStart { kind: BlockKind::Opaque(data), .. } => data.len(),
        StreamEvent::BlockEnd { opaque, .. } => opaque.as_ref().map_or(0, String::len),
        StreamEvent::Extra { name, value } => name.len() + value.len(),
        StreamEvent::BlockStart { .. } | StreamEvent::Usage(_) => 0,
    };
    bytes as u64
}
