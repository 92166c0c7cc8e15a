//! An answer as it comes: told at once, and kept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patchbay_core::{
    AgentId, DeltaKind, EventKind,
    completion::{BlockKind, StreamEvent, TokenUsage},
};
use patchbay_provider::{Retrying, Sink};
use tokio::sync::Notify;

use crate::{Feed, record::AnswerPart};

/// What stands between two blocks of text of one answer.
const BETWEEN: &str = "\n\n";

/// What has come of an answer so far.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) effective_model: Option<String>,
    pub(crate) parts: Vec<AnswerPart>,
    pub(crate) usage: TokenUsage,
}

impl Received {
    /// The text of the answer.
    pub(crate) fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            AnswerPart::Text { text, .. } if !text.is_empty() => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join(BETWEEN)
    }
}

/// What is shared by who receives an answer and who keeps it.
#[derive(Default)]
pub(crate) struct Desk {
    received: Mutex<(Received, bool)>,
    /// A block is whole.
    pub(crate) block: Notify,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, (Received, bool)> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what there is, if there is something and it has grown since the last time.
    pub(crate) fn if_new<T>(&self, look: impl FnOnce(&Received) -> T) -> Option<T> {
        let (received, new) = &mut *self.lock();
        (std::mem::take(new) && !received.parts.is_empty()).then(|| look(received))
    }

    /// Takes all there is.
    pub(crate) fn take(&self) -> Received {
        std::mem::take(&mut self.lock().0)
    }
}

/// Tells of an answer and lays it on the desk.
pub(crate) struct Receiver {
    pub(crate) feed: Arc<Feed>,
    pub(crate) agent: AgentId,
    pub(crate) desk: Arc<Desk>,
}

impl Sink for Receiver {
    fn event(&mut self, event: StreamEvent) {
        let (received, new) = &mut *self.desk.lock();
        *new = true;
        match event {
            StreamEvent::Started(model) => received.effective_model = Some(model).filter(|model| !model.is_empty()),
            // Blocks are numbered from 0 in the order of their starts: the driver has checked it.
            StreamEvent::BlockStart { kind, .. } => received.parts.push(match kind {
                BlockKind::Text => AnswerPart::Text { text: String::new(), opaque: None },
                BlockKind::Thinking => AnswerPart::Thinking { text: String::new(), opaque: None },
                BlockKind::ToolCall { id, name } => {
                    AnswerPart::ToolCall { id, name, input: String::new(), opaque: None }
                }
                BlockKind::Opaque(data) => AnswerPart::Opaque { data, opaque: None },
            }),
            StreamEvent::BlockDelta { index, mut text } => {
                let earlier = received.parts.get(..index as usize).unwrap_or_default();
                let follows =
                    earlier.iter().any(|part| matches!(part, AnswerPart::Text { text, .. } if !text.is_empty()));
                let told = match received.parts.get_mut(index as usize) {
                    Some(AnswerPart::Text { text: so_far, .. }) => {
                        let begins = so_far.is_empty() && !text.is_empty();
                        so_far.push_str(&text);
                        // The pieces together are the answer's text.
                        if begins && follows {
                            text.insert_str(0, BETWEEN);
                        }
                        DeltaKind::Text
                    }
                    Some(AnswerPart::Thinking { text: so_far, .. }) => {
                        so_far.push_str(&text);
                        DeltaKind::Thinking
                    }
                    Some(AnswerPart::ToolCall { input, .. }) => return input.push_str(&text),
                    Some(AnswerPart::Opaque { .. }) | None => return,
                };
                self.feed.tell(self.agent, EventKind::Delta { block: told, text });
            }
            StreamEvent::BlockEnd { index, opaque: attached } => {
                if let Some(part) = received.parts.get_mut(index as usize) {
                    let (AnswerPart::Text { opaque, .. }
                    | AnswerPart::Thinking { opaque, .. }
                    | AnswerPart::ToolCall { opaque, .. }
                    | AnswerPart::Opaque { opaque, .. }) = part;
                    *opaque = attached;
                }
                self.desk.block.notify_one();
            }
            StreamEvent::Usage(usage) => received.usage = usage,
            StreamEvent::Extra { name, value } => tracing::debug!(name, value, "a provider says more than is known"),
        }
    }

    fn retrying(&mut self, retrying: &Retrying) {
        // Nothing has come but perhaps what the attempt that failed said of itself.
        self.desk.take();
        self.feed.tell(self.agent, EventKind::Notice { text: retrying.to_string() });
    }
}

/// Takes the text of an answer, and tells nobody.
#[derive(Default)]
pub(crate) struct Quiet(pub(crate) Received);

impl Sink for Quiet {
    fn event(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::BlockStart { kind, .. } => self.0.parts.push(match kind {
                BlockKind::Text => AnswerPart::Text { text: String::new(), opaque: None },
                _ => AnswerPart::Opaque { data: String::new(), opaque: None },
            }),
            StreamEvent::BlockDelta { index, text } => {
                if let Some(AnswerPart::Text { text: so_far, .. }) = self.0.parts.get_mut(index as usize) {
                    so_far.push_str(&text);
                }
            }
            StreamEvent::Usage(usage) => self.0.usage = usage,
            StreamEvent::Started(_) | StreamEvent::BlockEnd { .. } | StreamEvent::Extra { .. } => {}
        }
    }

    fn retrying(&mut self, retrying: &Retrying) {
        self.0 = Received::default();
        tracing::info!("{retrying}");
    }
}
