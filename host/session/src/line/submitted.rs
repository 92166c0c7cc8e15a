//! Submitted lines: the handle that a front holds, and the tasks that run the lines.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use parking_lot::Mutex;
use patchbay_core::{AgentId, Code, LineId, Outcome};
use tokio::sync::oneshot;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A submitted line, which is a future of its outcome. Dropping it does not stop the line;
/// [`Session::stop`](crate::Session::stop) does.
#[derive(Debug)]
pub struct Submitted {
    pub(super) id: LineId,
    /// The agent in view, which the line belongs to unless `agent` is set to another one.
    pub(super) view: AgentId,
    /// The agent of the line, set once it is known.
    pub(super) agent: Arc<OnceLock<AgentId>>,
    pub(super) waits_for: Option<LineId>,
    pub(super) is_behind_move: bool,
    pub(super) outcome: oneshot::Receiver<Outcome>,
}

impl Submitted {
    /// Returns the line's id, as in [`EventKind::LineEnded`](patchbay_core::EventKind::LineEnded).
    pub fn id(&self) -> LineId {
        self.id
    }

    /// Returns the agent that the line belongs to: the one in view when it was submitted, or when the earlier lines
    /// that move the view have ended.
    pub fn agent(&self) -> AgentId {
        self.agent.get().copied().unwrap_or(self.view)
    }

    /// Returns the command that has to end before this line begins; `None` if there is none, or
    /// if the line waits in the queue.
    pub fn waits_for(&self) -> Option<LineId> {
        self.waits_for
    }

    /// Returns whether the command of [`Submitted::waits_for`] moves the view. If so, the line belongs to the agent that is in
    /// view after that command.
    pub fn is_behind_move(&self) -> bool {
        self.is_behind_move
    }
}

impl Future for Submitted {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        // The sender is dropped without a value only if the runtime shuts down.
        let outcome = ready!(Pin::new(&mut self.outcome).poll(context));
        Poll::Ready(
            outcome.unwrap_or_else(|_| Outcome::error(Code::Internal, "the process ended before the line was done.")),
        )
    }
}

/// The tasks of a session and its running lines.
#[derive(Default)]
pub(crate) struct RunningLines {
    running: Mutex<HashMap<LineId, (AgentId, CancellationToken)>>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl RunningLines {
    /// Returns a token that is cancelled when the session begins to close.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Spawns a task that [`RunningLines::close`] waits for. The task must end when the session closes.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Stops all lines and waits for all tasks.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Cancels the lines of an agent.
    pub(crate) fn cancel_of(&self, agent: AgentId) {
        self.running.lock().values().filter(|(of, _)| *of == agent).for_each(|(_, stop)| stop.cancel());
    }

    pub(super) fn begin(&self, id: LineId, agent: AgentId) -> CancellationToken {
        let stop = self.closing.child_token();
        self.running.lock().insert(id, (agent, stop.clone()));
        stop
    }

    pub(super) fn end(&self, id: LineId) {
        self.running.lock().remove(&id);
    }

    pub(super) fn has(&self, id: LineId) -> bool {
        self.running.lock().contains_key(&id)
    }

    /// Cancels a line. Returns false if it does not run.
    pub(super) fn stop(&self, id: LineId) -> bool {
        self.running.lock().get(&id).inspect(|(_, stop)| stop.cancel()).is_some()
    }
}
