//! The order of commands. One agent's commands run one after another, as they were typed: each sees the effects of the
//! command before it, and each result is printed under its own line. A command never waits for a turn. `accept` enters
//! every command that does not begin a turn.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use patchbay_core::{AgentId, LineId};
use tokio::sync::Notify;

/// Which earlier commands of the agent a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandKind {
    /// The command only shows the session: it waits for commands that change the session, and no command waits for it.
    Shows,
    /// The command calls a tool, or does not exist: it waits for all commands that do more than show.
    Calls,
    /// The command changes the session: it waits for all commands that do more than show.
    Changes,
    /// The command waits for no other one, because it must get through while another one hangs. Later commands that call a tool
    /// or change the session wait for it.
    Overtakes,
}

impl CommandKind {
    fn waits_for(self, earlier: Self) -> bool {
        match self {
            Self::Overtakes => false,
            Self::Shows => earlier == Self::Changes,
            Self::Calls | Self::Changes => earlier != Self::Shows,
        }
    }
}

/// The commands of a session that have not ended.
#[derive(Debug, Default)]
pub(crate) struct CommandOrder {
    /// The commands of each agent, in the order of their lines.
    commands: Mutex<HashMap<AgentId, VecDeque<(LineId, CommandKind)>>>,
    /// Notified whenever a command ends.
    ended: Notify,
}

/// The place of one command. Dropping it lets the next command of the agent run.
#[derive(Debug)]
pub(crate) struct OrderedCommand {
    order: Arc<CommandOrder>,
    agent: AgentId,
    line: LineId,
    kind: CommandKind,
    before: Option<LineId>,
}

impl CommandOrder {
    /// Enters a command of `agent` after its commands that have not ended.
    pub(crate) fn enter(self: &Arc<Self>, agent: AgentId, line: LineId, kind: CommandKind) -> OrderedCommand {
        let mut commands = self.commands.lock();
        let of_agent = commands.entry(agent).or_default();
        let before = of_agent.iter().rev().find(|(_, earlier)| kind.waits_for(*earlier)).map(|(line, _)| *line);
        of_agent.push_back((line, kind));
        drop(commands);
        OrderedCommand { order: Arc::clone(self), agent, line, kind, before }
    }

    fn is_reached(&self, OrderedCommand { agent, line, kind, .. }: &OrderedCommand) -> bool {
        let commands = self.commands.lock();
        let earlier = commands.get(agent).into_iter().flatten().take_while(|(entered, _)| entered != line);
        !earlier.into_iter().any(|(_, earlier)| kind.waits_for(*earlier))
    }
}

impl OrderedCommand {
    /// Returns the last command that this one waits for; `None` if there is none.
    pub(crate) fn before(&self) -> Option<LineId> {
        self.before
    }

    /// Waits until the commands that this one waits for have ended. Returns whether there were any.
    pub(crate) async fn reached(&self) -> bool {
        let mut waited = false;
        loop {
            // Created before the check, so an end between the two is not missed.
            let ended = self.order.ended.notified();
            if self.order.is_reached(self) {
                return waited;
            }
            waited = true;
            ended.await;
        }
    }
}

impl Drop for OrderedCommand {
    fn drop(&mut self) {
        let mut commands = self.order.commands.lock();
        if let Some(of_agent) = commands.get_mut(&self.agent) {
            of_agent.retain(|(line, _)| *line != self.line);
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

    use super::{CommandKind::*, *};

    const A: AgentId = AgentId::from_bytes([1; 16]);
    const B: AgentId = AgentId::from_bytes([2; 16]);

    fn is_reached(place: &OrderedCommand) -> bool {
        pin!(place.reached()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn commands_of_an_agent_run_one_after_another() {
        let order = Arc::new(CommandOrder::default());
        let [first, second, third] = [1, 2, 3].map(|line| order.enter(A, LineId::from_bytes([line; 16]), Changes));
        let other = order.enter(B, LineId::from_bytes([4; 16]), Calls);
        assert_eq!([&first, &second, &third, &other].map(is_reached), [true, false, false, true]);
        assert_eq!((first.before(), third.before()), (None, Some(LineId::from_bytes([2; 16]))));
        // A command that is stopped while it waits does not let the next one overtake.
        drop(second);
        assert!(!is_reached(&third));
        drop(first);
        assert!(is_reached(&third));
        drop((third, other));
        assert!(order.commands.lock().is_empty());
    }

    #[test]
    fn command_that_shows_waits_for_changes_alone() {
        let order = Arc::new(CommandOrder::default());
        let kinds = [Calls, Shows, Changes, Shows, Calls, Overtakes];
        let places: Vec<_> =
            (1..).zip(kinds).map(|(line, kind)| order.enter(A, LineId::from_bytes([line; 16]), kind)).collect();
        let reached = |places: &[OrderedCommand]| places.iter().map(is_reached).collect::<Vec<_>>();
        assert_eq!(reached(&places), [true, true, false, false, false, true]);
        let before: Vec<_> = places.iter().map(|place| place.before().map(|line| line.as_bytes()[0])).collect();
        assert_eq!(before, [None, None, Some(1), Some(3), Some(3), None]);
    }

    #[tokio::test]
    async fn waiting_command_is_woken() {
        let order = Arc::new(CommandOrder::default());
        let first = order.enter(A, LineId::from_bytes([1; 16]), Calls);
        let second = order.enter(A, LineId::from_bytes([2; 16]), Changes);
        let waiting = tokio::spawn(async move { second.reached().await });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.unwrap());
    }
}
