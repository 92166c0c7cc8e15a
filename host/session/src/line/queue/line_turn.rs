//! The guards of a line in its agent's queue: its place while it waits, and the right to run a turn. Dropping a guard releases
//! the place or the right. Used by `turns` and `wake`.

use std::sync::Arc;

use patchbay_agent::{Agent, TurnPermit};
use patchbay_core::{AgentId, LineId};
use tokio::sync::oneshot;

use super::{LineQueue, Wake};
use crate::activity::ActivityGuard;

/// The right of one line to run a turn of its agent. When it is dropped, the next line runs. Unless
/// [`LineTurn::succeeded`] or [`LineTurn::unused`] was called, the queue is held instead.
pub(crate) struct LineTurn {
    pub(super) queue: Arc<LineQueue>,
    pub(super) agent: Arc<Agent>,
    /// `None` until [`LineTurn::ready`].
    pub(super) permit: Option<TurnPermit>,
    /// Whether the line released a held queue.
    pub(super) released: bool,
    pub(super) end: TurnEnd,
    /// False if the right was never passed to its line.
    pub(super) armed: bool,
    pub(super) _busy: ActivityGuard,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum TurnEnd {
    /// The turn failed, or its task panicked.
    Failed,
    /// The user stopped the turn.
    Stopped,
    Succeeded,
    Unused,
}

impl LineTurn {
    /// Waits until no other turn of the agent runs.
    pub(crate) async fn ready(&mut self) {
        if self.permit.is_none() {
            self.permit = Some(self.agent.begin_turn().await);
        }
    }

    /// Ends the turn; the next line runs.
    pub(crate) fn succeeded(mut self) {
        self.end = TurnEnd::Succeeded;
    }

    /// Ends the turn, which the user stopped. The agent begins no turn by itself until the next message.
    pub(crate) fn stopped(mut self) {
        self.end = TurnEnd::Stopped;
    }

    /// Releases the right without a turn. The queue is held again if this line released it.
    pub(crate) fn unused(mut self) {
        self.end = TurnEnd::Unused;
    }

    pub(super) fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for LineTurn {
    fn drop(&mut self) {
        if self.armed {
            let (hold, stopped) = match self.end {
                TurnEnd::Failed => (true, false),
                TurnEnd::Stopped => (true, true),
                TurnEnd::Succeeded => (false, false),
                TurnEnd::Unused => (self.released, false),
            };
            self.queue.turn_ended(&self.agent, self.permit.take(), hold, stopped);
        }
    }
}

/// A line's place in the queue. The line leaves the queue when this is dropped.
pub(crate) struct WaitingTurn {
    pub(super) queue: Arc<LineQueue>,
    pub(super) agent: AgentId,
    pub(super) id: LineId,
    pub(super) position: i64,
    pub(super) woken: oneshot::Receiver<Wake>,
}

impl WaitingTurn {
    /// Returns the line's position for the store.
    pub(crate) fn position(&self) -> i64 {
        self.position
    }

    /// Notes that the line is stored. From now on it can join a turn.
    pub(crate) fn stored(&self) {
        let mut queues = self.queue.lock();
        let waiting = queues.get_mut(&self.agent).map(|queue| &mut queue.waiting);
        waiting.into_iter().flatten().filter(|line| line.id == self.id).for_each(|line| line.is_stored = true);
    }

    /// Returns why the line no longer waits; `None` while it waits.
    pub(crate) fn try_wake(&mut self) -> Option<Wake> {
        self.woken.try_recv().ok()
    }

    /// Waits until the line's turn begins or the line is taken back; `None` if the queue is gone. The future is cancel-safe.
    pub(crate) async fn wake(&mut self) -> Option<Wake> {
        (&mut self.woken).await.ok()
    }
}

impl Drop for WaitingTurn {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.lock().get_mut(&self.agent) {
            queue.remove(self.id);
        }
        // The line may have ended at the moment when its turn began.
        self.woken.close();
        if let Some(Wake::Begin(turn)) = self.try_wake() {
            turn.unused();
        }
    }
}
