//! Checks an adapter's stream events and forwards them to the sink, without secrets. Fed by `attempt`.
//!
//! Blocks are numbered from 0; each is started once and ended once, and deltas are only for open blocks.

use std::collections::BTreeMap;

use patchbay_core::completion::{BlockKind, StreamEvent, TokenUsage};
use patchbay_egress::{Scrub, Scrubber};

use super::Violation;
use crate::{ExchangeLimits, Sink};

/// The state of the answer that an adapter emits.
#[derive(Default)]
pub(super) struct StreamCheck {
    /// The number of the next block.
    next: u32,
    open: BTreeMap<u32, OpenBlock>,
    /// The usage that the adapter reported last.
    pub(super) usage: TokenUsage,
    /// Bytes of all events so far.
    bytes: u64,
    /// Bytes of text, thinking and inputs of calls so far.
    text_bytes: usize,
}

/// A block that was started but not ended.
struct OpenBlock {
    /// Whether only the adapter can read the block; such a block has no deltas.
    opaque: bool,
    /// Removes secrets that are split across deltas; `None` before the first delta, or if there are no secrets.
    scrubber: Option<Scrubber>,
}

impl StreamCheck {
    /// How many blocks may be open at the same time. Answers have two or three.
    const MAX_OPEN: usize = 100;

    /// Whether a block was started.
    pub(super) fn has_begun(&self) -> bool {
        self.next > 0
    }

    /// Checks an event and forwards it without secrets.
    ///
    /// # Errors
    /// A [`Violation`] for an event that breaks the order of blocks or a limit; it is not forwarded.
    pub(super) fn forward(
        &mut self,
        event: StreamEvent,
        limits: &ExchangeLimits,
        scrub: &Scrub,
        sink: &mut dyn Sink,
    ) -> Result<(), Violation> {
        self.bytes = self.bytes.saturating_add(size(&event));
        let most = limits.answer_bytes;
        if self.bytes > most {
            let what = format!("emitted more than {most} bytes, the limit 'exchange.answer_bytes'");
            return Err(Violation::of_limit(what));
        }
        if let StreamEvent::BlockDelta { text, .. } = &event {
            self.text_bytes = self.text_bytes.saturating_add(text.len());
            let most = limits.text_bytes;
            if self.text_bytes > most {
                let what = format!("emitted more than {most} bytes of text, the limit 'exchange.text_bytes'");
                return Err(Violation::of_limit(what));
            }
        }
        let clean = |text| scrub.clean(text);
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
                flush_block(index, open, sink);
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

    /// Checks that no block is open at the end of an answer.
    ///
    /// # Errors
    /// A [`Violation`] that names the first open block.
    pub(super) fn finish(&self) -> Result<(), Violation> {
        match self.open.first_key_value() {
            Some((index, _)) => Err(Violation::of_contract(format!("finished while block {index} was open"))),
            None => Ok(()),
        }
    }

    /// Forwards the withheld text of the open blocks of an answer that was cut short.
    pub(super) fn flush(&mut self, sink: &mut dyn Sink) {
        while let Some((index, open)) = self.open.pop_first() {
            flush_block(index, open, sink);
        }
    }

    fn start(&mut self, index: u32, kind: &BlockKind) -> Result<(), Violation> {
        if index != self.next {
            let next = self.next;
            return Err(Violation::of_contract(format!("started block {index}, but the next block is {next}")));
        }
        if self.open.len() >= Self::MAX_OPEN {
            return Err(Violation::of_contract(format!("had more than {} blocks open at once", Self::MAX_OPEN)));
        }
        self.next += 1;
        self.open.insert(index, OpenBlock { opaque: matches!(kind, BlockKind::Opaque(_)), scrubber: None });
        Ok(())
    }

    /// Returns the text to forward now: without secrets, and without a tail that may be the beginning of a secret.
    fn delta(&mut self, index: u32, text: String, scrub: &Scrub) -> Result<String, Violation> {
        let Some(open) = self.open.get_mut(&index) else { return Err(self.not_open("added to", index)) };
        if open.opaque {
            return Err(Violation::of_contract(format!("added to block {index}, which is opaque")));
        }
        if scrub.is_empty() {
            return Ok(text);
        }
        let scrubber = open.scrubber.get_or_insert_with(|| scrub.stream());
        Ok(into_text(scrubber.push(text.as_bytes())))
    }

    fn not_open(&self, did: &str, index: u32) -> Violation {
        let why = if index < self.next { "had ended" } else { "was never started" };
        Violation::of_contract(format!("{did} block {index}, which {why}"))
    }
}

/// Forwards the withheld text of a block.
fn flush_block(index: u32, open: OpenBlock, sink: &mut dyn Sink) {
    let text = into_text(open.scrubber.map(|mut scrubber| scrubber.finish()).unwrap_or_default());
    if !text.is_empty() {
        sink.event(StreamEvent::BlockDelta { index, text });
    }
}

/// Converts the output of a scrubber. Secrets are ASCII, so a scrubber never splits a character.
fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Returns the size of an event's strings, in bytes.
fn size(event: &StreamEvent) -> u64 {
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
