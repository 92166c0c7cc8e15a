//! Receives an answer: publishes its pieces as events and collects it for the store. Used by
//! `turn`, `summarise` and `inference`.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use patchbay_core::{
    AgentId, AssistantPart, AssistantRecord, DeltaKind, DeltaPosition, EventKind, FailedAttempts, Retrying,
    completion::{BlockKind, StreamEvent, TokenUsage},
};
use patchbay_provider::{Completed, Sink};
use patchbay_store::PartialPiece;
use tokio::sync::Notify;

use patchbay_events::EventLog;

use crate::{call_tool::unwrapped, partial::Written};

/// Separates the text blocks of one answer.
const BETWEEN: &str = "\n\n";

/// The received part of an answer.
#[derive(Default)]
pub(crate) struct PartialAnswer {
    pub(crate) effective_model: Option<String>,
    pub(crate) parts: Vec<AssistantPart>,
    pub(crate) usage: TokenUsage,
    /// The attempts that failed before.
    pub(crate) failed: FailedAttempts,
    /// How much of the answer is already stored.
    pub(crate) written: Written,
    /// Whether pieces of an attempt that was given up may be stored.
    pub(crate) has_stale_pieces: bool,
    /// Why the provider ended the answer, in its own words, if it sent a reason.
    pub(crate) why_ended: Option<String>,
}

impl PartialAnswer {
    /// Returns the text of the answer.
    pub(crate) fn text(&self) -> String {
        texts(&self.parts).collect::<Vec<_>>().join(BETWEEN)
    }

    /// Returns the tokens that all attempts used.
    pub(crate) fn all_usage(&self) -> TokenUsage {
        self.usage.plus(self.failed.usage)
    }

    /// Records metadata that the provider sends alongside the answer.
    fn extra(&mut self, name: &str, value: String) {
        match name {
            "refusal" | "finish-message" => self.why_ended = Some(value),
            _ => tracing::debug!(name, value, "ignoring unknown metadata from a provider"),
        }
    }

    /// Discards the received text, because the attempt failed and another one follows. `given_up` indicates whether the
    /// attempt had begun an answer. Its token counts are kept.
    fn fail(&mut self, given_up: bool) {
        let failed = FailedAttempts {
            given_up: self.failed.given_up.saturating_add(u32::from(given_up)),
            usage: self.all_usage(),
        };
        *self = Self { failed, has_stale_pieces: given_up, ..Self::default() };
    }
}

/// Returns the text blocks that are not empty.
fn texts(parts: &[AssistantPart]) -> impl Iterator<Item = &str> {
    parts.iter().filter_map(|part| match part {
        AssistantPart::Text { text, .. } if !text.is_empty() => Some(text.as_str()),
        _ => None,
    })
}

/// Returns the length in bytes of the joined text of `parts`.
fn text_length(parts: &[AssistantPart]) -> usize {
    let length: usize = texts(parts).map(|text| BETWEEN.len() + text.len()).sum();
    length.saturating_sub(BETWEEN.len())
}

/// Shared by the receiver of an answer and the task that stores it.
pub(crate) struct AnswerBuffer {
    /// Known before the answer begins: provider, model and level.
    about: AssistantRecord,
    /// The data received so far, and whether it has changed since the last piece for the store.
    received: Mutex<(PartialAnswer, bool)>,
    /// Notified when a block is complete, or an attempt has failed.
    pub(crate) block: Notify,
}

impl AnswerBuffer {
    pub(crate) fn new(about: AssistantRecord) -> Arc<Self> {
        Arc::new(Self { about, received: Mutex::default(), block: Notify::new() })
    }

    /// Returns the record of an answer with these parts; `completed` is `None` if it is interrupted.
    pub(crate) fn record(
        &self,
        received: &PartialAnswer,
        completed: Option<&Completed>,
        parts: Vec<AssistantPart>,
    ) -> AssistantRecord {
        AssistantRecord {
            effective_model: received.effective_model.clone(),
            usage: received.usage,
            stop: completed.map(|completed| completed.finish.stop),
            raw: completed.map(|completed| completed.finish.raw.clone()),
            interrupted: completed.is_none(),
            failed_attempts: received.failed,
            parts,
            ..self.about.clone()
        }
    }

    /// Returns the text and the record of the answer received so far, or `None` if nothing has arrived.
    pub(crate) fn unfinished(&self) -> Option<(String, AssistantRecord)> {
        let (received, _) = &*self.lock();
        let record = (!received.parts.is_empty()).then(|| self.record(received, None, unwrapped(&received.parts)))?;
        Some((received.text(), record))
    }

    fn lock(&self) -> MutexGuard<'_, (PartialAnswer, bool)> {
        self.received.lock()
    }

    /// Returns the next piece of the answer of `agent` for the store; `None` if nothing has changed.
    pub(crate) fn next_piece(&self, agent: AgentId) -> Option<PartialPiece> {
        let (received, new) = &mut *self.lock();
        if !std::mem::take(new) {
            return None;
        }
        if received.parts.is_empty() {
            return std::mem::take(&mut received.has_stale_pieces).then(|| PartialPiece::nothing(agent));
        }
        // The first piece of an attempt replaces all pieces of the previous attempt.
        received.has_stale_pieces = false;
        let mut written = std::mem::take(&mut received.written);
        let piece = written.next(agent, &received.parts, |added| self.record(received, None, added));
        received.written = written;
        Some(piece)
    }

    /// Makes the next stored piece contain the whole answer so far, because the last write failed.
    pub(crate) fn write_again(&self) {
        self.lock().0.written = Written::default();
    }

    /// Notes that the attempt failed and another one follows.
    fn fail(&self, given_up: bool) {
        let (received, new) = &mut *self.lock();
        received.fail(given_up);
        *new = true;
        self.block.notify_one();
    }

    /// Returns the text and the thinking blocks that this attempt has received so far, and the number of attempts that were given
    /// up.
    pub(crate) fn so_far(&self) -> (String, Vec<(u32, String)>, u32) {
        let (received, _) = &*self.lock();
        let thinking = (0..).zip(&received.parts).filter_map(|(index, part)| match part {
            AssistantPart::Thinking { text, .. } if !text.is_empty() => Some((index, text.clone())),
            _ => None,
        });
        (received.text(), thinking.collect(), received.failed.given_up)
    }

    /// Takes the answer out of the buffer.
    pub(crate) fn take(&self) -> PartialAnswer {
        std::mem::take(&mut self.lock().0)
    }
}

/// Publishes an answer's events and collects them in the buffer.
pub(crate) struct AnswerSink {
    pub(crate) log: Arc<EventLog>,
    pub(crate) agent: AgentId,
    /// Position of the next piece; block and offset are set for each piece.
    pub(crate) at: DeltaPosition,
    pub(crate) buffer: Arc<AnswerBuffer>,
}

impl Sink for AnswerSink {
    fn event(&mut self, event: StreamEvent) {
        let (received, new) = &mut *self.buffer.lock();
        *new = true;
        match event {
            StreamEvent::Started(model) => received.effective_model = Some(model).filter(|model| !model.is_empty()),
            // Blocks are numbered from 0 in the order of their starts; the provider has checked this.
            StreamEvent::BlockStart { kind, .. } => received.parts.push(match kind {
                BlockKind::Text => AssistantPart::Text { text: String::new(), opaque: None },
                BlockKind::Thinking => AssistantPart::Thinking { text: String::new(), opaque: None },
                BlockKind::ToolCall { id, name } => {
                    AssistantPart::ToolCall { id, name, input: String::new(), opaque: None, call_tool: None }
                }
                BlockKind::Opaque(data) => AssistantPart::Opaque { data, opaque: None },
            }),
            StreamEvent::BlockDelta { index, mut text } => {
                // Where this block starts in the text of the answer.
                let before = text_length(received.parts.get(..index as usize).unwrap_or_default());
                let offset;
                let block = match received.parts.get_mut(index as usize) {
                    Some(AssistantPart::Text { text: so_far, .. }) => {
                        let begins = so_far.is_empty() && !text.is_empty();
                        offset = match before {
                            0 => so_far.len(),
                            before if begins => before,
                            before => before + BETWEEN.len() + so_far.len(),
                        };
                        so_far.push_str(&text);
                        // The pieces, joined, must equal the answer's text.
                        if begins && before > 0 {
                            text.insert_str(0, BETWEEN);
                        }
                        DeltaKind::Text
                    }
                    Some(AssistantPart::Thinking { text: so_far, .. }) => {
                        offset = so_far.len();
                        so_far.push_str(&text);
                        DeltaKind::Thinking
                    }
                    Some(AssistantPart::ToolCall { input, .. }) => return input.push_str(&text),
                    Some(AssistantPart::Opaque { .. }) | None => return,
                };
                let at = DeltaPosition { index, offset: offset as u64, ..self.at };
                self.log.publish(self.agent, EventKind::Delta { block, text, at });
            }
            StreamEvent::BlockEnd { index, opaque: attached } => {
                if let Some(part) = received.parts.get_mut(index as usize) {
                    let (AssistantPart::Text { opaque, .. }
                    | AssistantPart::Thinking { opaque, .. }
                    | AssistantPart::ToolCall { opaque, .. }
                    | AssistantPart::Opaque { opaque, .. }) = part;
                    *opaque = attached;
                }
                self.buffer.block.notify_one();
            }
            StreamEvent::Usage(usage) => received.usage = usage,
            StreamEvent::Extra { name, value } => received.extra(&name, value),
        }
    }

    fn retrying(&mut self, retrying: &Retrying) {
        self.buffer.fail(false);
        self.log.publish(self.agent, EventKind::Retrying(retrying.clone()));
    }

    fn given_up(&mut self, retrying: &Retrying) {
        self.buffer.fail(true);
        self.at.given_up = self.at.given_up.saturating_add(1);
        let DeltaPosition { turn, answer, given_up, .. } = self.at;
        self.log.publish(self.agent, EventKind::GivenUp { turn, answer, given_up, retry: retrying.clone() });
    }
}

/// Collects the text of an answer without publishing it, for summaries and `inference`. Retries are published.
pub(crate) struct SummarySink {
    pub(crate) received: PartialAnswer,
    on_retry: RetryNotice,
}

pub(crate) type RetryNotice = Arc<dyn Fn(&Retrying) + Send + Sync>;

impl SummarySink {
    pub(crate) fn new(on_retry: RetryNotice) -> Self {
        Self { received: PartialAnswer::default(), on_retry }
    }
}

impl Sink for SummarySink {
    fn event(&mut self, event: StreamEvent) {
        let received = &mut self.received;
        match event {
            StreamEvent::BlockStart { kind, .. } => received.parts.push(match kind {
                BlockKind::Text => AssistantPart::Text { text: String::new(), opaque: None },
                _ => AssistantPart::Opaque { data: String::new(), opaque: None },
            }),
            StreamEvent::BlockDelta { index, text } => {
                if let Some(AssistantPart::Text { text: so_far, .. }) = received.parts.get_mut(index as usize) {
                    so_far.push_str(&text);
                }
            }
            StreamEvent::Usage(usage) => received.usage = usage,
            StreamEvent::Extra { name, value } => received.extra(&name, value),
            StreamEvent::Started(_) | StreamEvent::BlockEnd { .. } => {}
        }
    }

    fn retrying(&mut self, retrying: &Retrying) {
        self.received.fail(false);
        (self.on_retry)(retrying);
    }
}
