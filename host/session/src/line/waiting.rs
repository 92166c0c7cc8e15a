//! Lines that wait for their turns: how a line waits and leaves the queue, and the operations of fronts on the queue.

use std::sync::atomic::Ordering;

use patchbay_core::{AgentId, Code, DequeueReason, EventKind, LineId, Outcome};
use patchbay_store::QueueRow;

use super::{
    context::{LineContext, LineEntry, not_kept, stopped},
    queue::{QueueView, QueuedLine, WaitingTurn, Wake},
};
use crate::Session;

impl LineContext {
    /// Waits until the line may run. Returns whether it waited in the queue.
    ///
    /// # Errors
    /// The outcome of a line that does not run.
    pub(crate) async fn enter(&mut self, entry: LineEntry) -> Result<bool, Outcome> {
        match entry {
            LineEntry::Direct => Ok(false),
            LineEntry::Turn(turn) => {
                self.turn = Some(turn);
                Ok(false)
            }
            LineEntry::Waits(waiting) | LineEntry::Restored(waiting) => {
                match self.wait(waiting).await? {
                    Wake::Begin(turn) => self.turn = Some(turn),
                    Wake::Join(joining) => self.joining = Some(joining),
                    Wake::TakenBack(removed) => {
                        self.remove_from_store().await;
                        drop(removed);
                        let message = "Taken back. Nothing of this line was kept.";
                        return Err(Outcome::refused(Code::LineTakenBack, message));
                    }
                }
                Ok(true)
            }
        }
    }

    /// Stores the line among the waiting lines and waits until it leaves them.
    async fn wait(&mut self, mut waiting: WaitingTurn) -> Result<Wake, Outcome> {
        let early = waiting.try_wake();
        if early.is_none() && !self.queued.load(Ordering::Relaxed) {
            // A running command may choose another model. The files are checked again when the turn begins.
            if !self.session.queue.is_delayed() {
                self.check_readable().await?;
            }
            let retained = self.store_attachments().await?;
            let row = QueueRow {
                line: self.line,
                agent: self.agent.id(),
                position: waiting.position(),
                text: self.text.clone(),
                attachments: self.attachments.clone(),
            };
            let log = self.session.log();
            log.store().queue_line(log.hold(), row, retained).await.map_err(not_kept)?;
            self.queued.store(true, Ordering::Relaxed);
            waiting.stored();
            log.publish(self.agent.id(), EventKind::LineQueued { line: self.line, text: self.text.clone() });
        }
        let wake = match early {
            Some(wake) => Some(wake),
            None => tokio::select! {
                biased;
                wake = waiting.wake() => wake,
                () = self.stop.cancelled() => return Err(stopped()),
            },
        };
        wake.ok_or_else(|| Outcome::error(Code::Internal, "the queue of the line is gone."))
    }

    /// Deletes the line from the store if it ended while it waited. If the session is closing, the line stays stored.
    pub(crate) async fn end_waiting(&self, outcome: Outcome) -> Outcome {
        if !self.queued.load(Ordering::Relaxed) {
            return outcome;
        }
        if self.is_closing() {
            let message = "The session is closed. This line waits in it until the session is resumed.";
            return Outcome::refused(Code::LineWaits, message);
        }
        self.remove_from_store().await;
        outcome
    }

    async fn remove_from_store(&self) {
        if !self.queued.load(Ordering::Relaxed) {
            return;
        }
        let log = self.session.log();
        if let Err(error) = log.store().remove_queued_line(log.hold(), self.line).await {
            tracing::error!("cannot delete a waiting line: {error}");
        }
        self.left_queue(DequeueReason::TakenBack);
    }
}

impl Session {
    /// Returns the waiting lines of the agent in view.
    pub fn queue(&self) -> QueueView {
        self.queue.view(self.agent_in_view().id())
    }

    /// Takes back a line that waits: it ends with [`Code::LineTakenBack`] and is deleted from the store. Returns its text, or
    /// `None` if the line does not wait.
    pub async fn take_back(&self, line: LineId) -> Option<String> {
        let (text, removed) = self.queue.take_back(line)?;
        // An error means that the line was deleted.
        let _ = removed.await;
        Some(text)
    }

    /// Takes back the waiting lines of all agents, as [`Session::take_back`] does. For fronts that cannot show a queue. Returns
    /// the lines in the order in which they were submitted.
    pub async fn take_back_all(&self) -> Vec<QueuedLine> {
        let mut taken = Vec::new();
        for line in self.queue.lines_of_all() {
            // A line whose turn begins at this moment is no longer waiting.
            taken.extend(self.take_back(line.id).await.map(|_| line));
        }
        taken
    }

    /// Runs the waiting lines of the agent in view, one after another, if they are held. Returns whether they were.
    pub fn release_queue(&self) -> bool {
        self.queue.release(&self.agent_in_view())
    }

    /// Like [`Session::release_queue`], for the lines of any agent.
    pub fn release_queue_of(&self, agent: AgentId) -> bool {
        self.agent(agent).is_some_and(|agent| self.queue.release(&agent))
    }
}
