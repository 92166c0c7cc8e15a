//! Messages that join a running turn after tool results. The turn takes them from the head of the queue, one after another, and
//! waits until each message's task has committed its row. Then the turn sends the model its next request.

use std::sync::Arc;

use patchbay_agent::MessageJoin;
use patchbay_core::{AgentId, Code, Outcome};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{AgentQueue, LineQueue, WaitingLine, Wake};
use crate::activity::ActivityGuard;

/// The lines that have joined one turn. They end with it.
pub(crate) struct JoinedLines {
    queue: Arc<LineQueue>,
    agent: AgentId,
    /// The number of the turn's first row.
    began: u64,
    /// Cancels the turn.
    cancel: CancellationToken,
    ended: watch::Sender<Option<Outcome>>,
}

/// The connection of a line to the turn that it joins.
pub(crate) struct JoiningLine {
    /// The number of the turn's first row.
    pub(crate) began: u64,
    /// The turn waits until this is dropped.
    waits: Option<oneshot::Sender<()>>,
    cancel: CancellationToken,
    ended: watch::Receiver<Option<Outcome>>,
    _busy: ActivityGuard,
}

impl JoinedLines {
    /// Returns the lines that have joined a turn of `agent`, initially none. `began` is the number of the turn's first row.
    pub(crate) fn new(queue: &Arc<LineQueue>, agent: AgentId, began: u64, cancel: CancellationToken) -> Arc<Self> {
        Arc::new(Self { queue: Arc::clone(queue), agent, began, cancel, ended: watch::Sender::new(None) })
    }

    /// Returns the callback by which the turn lets messages join.
    pub(crate) fn message_join(self: &Arc<Self>) -> MessageJoin {
        let lines = Arc::clone(self);
        Box::new(move || {
            let lines = Arc::clone(&lines);
            Box::pin(async move { lines.join().await })
        })
    }

    /// Lets the messages at the head of the queue join the turn. When this returns, their rows are committed.
    async fn join(&self) {
        while !self.cancel.is_cancelled()
            && let Some(line) = self.queue.take_joining(self.agent)
        {
            let (sender, committed) = oneshot::channel();
            let joining = JoiningLine {
                began: self.began,
                waits: Some(sender),
                cancel: self.cancel.clone(),
                ended: self.ended.subscribe(),
                _busy: self.queue.activity.begin(),
            };
            // An error means that the line ended at this moment. Its task removes it from the store.
            if line.wake.send(Wake::Join(joining)).is_ok() {
                let _ = committed.await;
            }
        }
    }

    /// Returns whether a line has joined the turn and is waiting for its end.
    pub(crate) fn is_any(&self) -> bool {
        self.ended.receiver_count() > 0
    }

    /// Ends the lines with the outcome of the turn.
    pub(crate) fn end(&self, outcome: &Outcome) {
        self.ended.send_replace(Some(outcome.clone()));
    }
}

impl JoiningLine {
    /// Lets the turn continue, and returns its outcome. If `stop` is cancelled, the turn is stopped.
    pub(crate) async fn joined(mut self, stop: &CancellationToken) -> Outcome {
        self.waits = None;
        if let Some(outcome) = stop.run_until_cancelled(self.end()).await {
            return outcome;
        }
        self.cancel.cancel();
        self.end().await
    }

    async fn end(&mut self) -> Outcome {
        match self.ended.wait_for(Option::is_some).await.map(|outcome| outcome.clone()) {
            Ok(Some(outcome)) => outcome,
            // The sender is dropped without an outcome only after a panic.
            Ok(None) | Err(_) => Outcome::error(Code::Internal, "running the turn of this line panicked."),
        }
    }
}

impl LineQueue {
    /// Removes the first line of `agent` if it may join the running turn, and returns it.
    fn take_joining(&self, agent: AgentId) -> Option<WaitingLine> {
        let mut queues = self.lock();
        // Checked under the lock: a line submitted after a command that changes how turns run must wait for that command.
        let is_delayed = self.is_delayed();
        queues.get_mut(&agent).filter(|queue| !is_delayed && queue.first_joins())?.waiting.pop_front()
    }
}

impl AgentQueue {
    fn first_joins(&self) -> bool {
        let may_go_on = self.active && !self.held && !self.cancelled && self.stopped.is_none();
        may_go_on && self.waiting.front().is_some_and(|line| line.joins && line.is_stored)
    }
}
