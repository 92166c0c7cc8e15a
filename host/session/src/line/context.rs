//! The context of one running line, with the operations that every line needs: commit changes, build rows, and store and read
//! attached files. Built-in commands receive the context.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use patchbay_agent::{Agent, AgentInference};
use patchbay_core::{AgentId, Attachment, Code, DequeueReason, EventKind, LineId, MessageKind, Outcome};
use patchbay_sandbox::Inference;
use patchbay_store::{MessageRow, NewMessage, RetainedAttachments, SessionChange, StoreError};
use patchbay_tools::EffectFlag;
use tokio_util::sync::CancellationToken;

use super::{
    capture::CaptureTicket,
    client::LineClient,
    input::{NewAttachment, UsedMemory, on_a_thread, refused},
    order::OrderedCommand,
    queue::{JoiningLine, LineTurn, WaitingTurn},
};
use crate::{Session, session::SessionState};

/// The context of a running line: the session, its state, and the agent that the line belongs to.
pub(crate) struct LineContext {
    pub(crate) session: Arc<Session>,
    /// The agent in view when the line was submitted.
    pub(crate) agent: Arc<Agent>,
    pub(crate) line: LineId,
    pub(crate) text: String,
    /// The session's state when the command started.
    pub(crate) state: SessionState,
    /// Cancelled when the line is stopped.
    pub(crate) stop: CancellationToken,
    /// Set when a tool of the line begins its first effect.
    pub(crate) effect: EffectFlag,
    /// The right to run a turn; `None` for a command that begins none.
    pub(crate) turn: Option<LineTurn>,
    /// The turn that the line joins; `None` for any other line.
    pub(super) joining: Option<JoiningLine>,
    /// Attached files that are not stored yet.
    pub(crate) new_attachments: Vec<NewAttachment>,
    /// The memory for these files; `None` without files.
    pub(crate) file_memory: Option<UsedMemory>,
    /// Attached files that are stored.
    pub(crate) attachments: Vec<Attachment>,
    /// Cancelled when the outcome of the line is published.
    pub(crate) ended: CancellationToken,
    /// Whether `/model` is also accepted while a turn runs.
    pub(crate) during_turn: bool,
    /// Whether the line is stored among the waiting lines.
    pub(crate) queued: AtomicBool,
    /// The line's agent, which must still be alive when the line is committed. Empty if the agent was already dead when the line
    /// was submitted.
    pub(super) requires_alive: Vec<AgentId>,
    /// The line's ticket among the lines that begin or end capturing, or may be captured.
    pub(super) capture: Option<CaptureTicket>,
    /// The line's place among the commands of the agent; `None` for a line that waits for none.
    pub(super) place: Option<Arc<OrderedCommand>>,
    /// A notice that the attached files are not used; `None` if they are used, or once the notice was published.
    pub(super) unused_files: Option<String>,
    /// The client that submitted the line.
    pub(crate) client: Arc<LineClient>,
}

/// How a line begins to run.
pub(crate) enum LineEntry {
    /// Immediately; the line begins no turn.
    Direct,
    /// Immediately, with the right to run a turn.
    Turn(LineTurn),
    Waits(WaitingTurn),
    /// After other turns; the line is already stored.
    Restored(WaitingTurn),
}

impl LineContext {
    /// Builds a row for the line's agent.
    pub(crate) fn message(&self, kind: MessageKind, content: &str, data: Option<serde_json::Value>) -> NewMessage {
        let data = self.client.add_key(self.line, data);
        NewMessage { agent: self.agent.id(), kind, content: content.to_owned(), data }
    }

    /// Returns the `inference` capability for a tool of this line.
    pub(crate) fn inference(&self) -> Arc<dyn Inference> {
        Arc::new(AgentInference::new(&self.agent, self.stop.clone()))
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.session.is_closing()
    }

    /// Commits a change of this line. If the line waited, the same commit deletes it from the waiting lines.
    pub(crate) async fn commit_change(
        &self,
        change: SessionChange,
        applied: impl FnOnce() + Send + 'static,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let begins = self.queued.load(Ordering::Relaxed).then_some(self.line);
        let rows = self.session.log().commit(SessionChange { begins, ..change }, applied).await?;
        if begins.is_some() {
            self.left_queue(DequeueReason::Began);
        }
        Ok(rows)
    }

    /// Notes and publishes that the line no longer waits.
    pub(crate) fn left_queue(&self, reason: DequeueReason) {
        if self.queued.swap(false, Ordering::Relaxed) {
            let event = EventKind::LineDequeued { line: self.line, reason };
            self.session.log().publish(self.agent.id(), event);
        }
    }

    /// Stores the attached files that are not stored yet. The returned value keeps them stored until the commit that refers to
    /// them.
    ///
    /// # Errors
    /// The outcome of a line that is not sent: the store failed.
    pub(crate) async fn store_attachments(&mut self) -> Result<Option<RetainedAttachments>, Outcome> {
        if self.new_attachments.is_empty() {
            return Ok(None);
        }
        let (store, new) = (self.session.log().store().clone(), std::mem::take(&mut self.new_attachments));
        let (references, retained) = on_a_thread(move || {
            let references: Vec<Attachment> = new.iter().map(NewAttachment::reference).collect();
            let retained = store.store_attachments(new.iter().map(NewAttachment::content));
            Ok((references, retained.map_err(not_kept)?))
        })
        .await?;
        self.file_memory = None;
        self.attachments.extend(references);
        Ok(Some(retained))
    }

    /// Returns the media type and the content of each attached file, for the tool of a command.
    ///
    /// # Errors
    /// The outcome of a line whose stored files cannot be read.
    pub(crate) async fn blobs(&self) -> Result<Vec<(String, Vec<u8>)>, Outcome> {
        let mut blobs: Vec<_> = self.new_attachments.iter().map(NewAttachment::to_blob).collect();
        if !self.attachments.is_empty() {
            let (store, stored) = (self.session.log().store().clone(), self.attachments.clone());
            let read = move || {
                let read = |file: Attachment| match store.attachment(&file.digest).map_err(not_kept)? {
                    Some(content) => Ok((file.media_type, content)),
                    None => Err(refused(format_args!("'{}' is no longer stored; attach it again.", file.name))),
                };
                stored.into_iter().map(read).collect::<Result<Vec<_>, _>>()
            };
            blobs.extend(on_a_thread(read).await?);
        }
        Ok(blobs)
    }

    /// Checks that the agent's model can read the attached files.
    ///
    /// # Errors
    /// [`Code::AttachmentUnreadable`].
    pub(crate) async fn check_readable(&self) -> Result<(), Outcome> {
        let new = self.new_attachments.iter().map(NewAttachment::name_and_type);
        let stored = self.attachments.iter().map(|stored| (&*stored.name, &*stored.media_type));
        self.session.check_readable(&self.agent, new.chain(stored).collect()).await
    }
}

pub(crate) fn not_kept(error: StoreError) -> Outcome {
    Outcome::error(error.code(), format_args!("{error}. Nothing of this line was kept."))
}

/// The outcome of a line that was stopped before anything was committed.
pub(crate) fn stopped() -> Outcome {
    Outcome::refused(Code::TurnCancelled, "Cancelled. Nothing of this line was kept.")
}
