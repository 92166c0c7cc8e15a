//! The order of commands: those of one agent run one after another, as they were typed, so each sees what the one before it did
//! and each result stands under its own line. `lines` enters every command that begins no turn, except the ones that must get
//! through while another hangs ([`BuiltIn::overtakes`](crate::builtin::BuiltIn::overtakes)).

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use patchbay_core::{AgentId, LineId};
use tokio::sync::Notify;

/// The commands of a session that have not ended.
#[derive(Debug, Default)]
pub(crate) struct CommandOrder {
    /// The commands of each agent, the running one first.
    commands: Mutex<HashMap<AgentId, VecDeque<LineId>>>,
    /// Notified whenever a command ends.
    ended: Notify,
}

/// The place of one command. Dropping it lets the next command of the agent run.
#[derive(Debug)]
pub(crate) struct CommandPlace {
    order: Arc<CommandOrder>,
    agent: AgentId,
    line: LineId,
    before: Option<LineId>,
}

impl CommandOrder {
    /// Enters a command of `agent` behind those that have not ended.
    pub(crate) fn enter(self: &Arc<Self>, agent: AgentId, line: LineId) -> CommandPlace {
        let mut commands = self.commands.lock();
        let of_agent = commands.entry(agent).or_default();
        let before = of_agent.back().copied();
        of_agent.push_back(line);
        drop(commands);
        CommandPlace { order: Arc::clone(self), agent, line, before }
    }

    fn is_first(&self, agent: AgentId, line: LineId) -> bool {
        self.commands.lock().get(&agent).and_then(VecDeque::front) == Some(&line)
    }
}

impl CommandPlace {
    /// Returns the command that was in front when this one was entered; `None` if there was none.
    pub(crate) fn before(&self) -> Option<LineId> {
        self.before
    }

    /// Waits until all earlier commands of the agent have ended. Returns whether there were any.
    pub(crate) async fn reached(&self) -> bool {
        let mut waited = false;
        loop {
            // Made before the check, so an end between the two is not missed.
            let ended = self.order.ended.notified();
            if self.order.is_first(self.agent, self.line) {
                return waited;
            }
            waited = true;
            ended.await;
        }
    }
}

impl Drop for CommandPlace {
    fn drop(&mut self) {
        let mut commands = self.order.commands.lock();
        if let Some(of_agent) = commands.get_mut(&self.agent) {
            of_agent.retain(|line| *line != self.line);
            if of_agent.is_empty() {
                commands.remove(&self.agent);
            }
        }
        drop(commands);
        self.order.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Waker},
    };

    use super::*;

    const A: AgentId = AgentId::from_bytes([1; 16]);
    const B: AgentId = AgentId::from_bytes([2; 16]);

    fn is_reached(place: &CommandPlace) -> bool {
        pin!(place.reached()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn commands_of_an_agent_run_one_after_another() {
        let order = Arc::new(CommandOrder::default());
        let [first, second, third] = [1, 2, 3].map(|line| order.enter(A, LineId::from_bytes([line; 16])));
        let other = order.enter(B, LineId::from_bytes([4; 16]));
        assert_eq!([&first, &second, &third, &other].map(is_reached), [true, false, false, true]);
        assert_eq!((first.before(), third.before()), (None, Some(LineId::from_bytes([2; 16]))));
        // A command that is stopped while it waits does not let the one behind it overtake.
        drop(second);
        assert!(!is_reached(&third));
        drop(first);
        assert!(is_reached(&third));
        drop((third, other));
        assert!(order.commands.lock().is_empty());
    }

    #[tokio::test]
    async fn waiting_command_is_woken() {
        let order = Arc::new(CommandOrder::default());
        let first = order.enter(A, LineId::from_bytes([1; 16]));
        let second = order.enter(A, LineId::from_bytes([2; 16]));
        let waiting = tokio::spawn(async move { second.reached().await });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.unwrap());
    }
}
