//! The queue of each agent: lines that wait for their turn. `lines` puts each line that begins a turn into it; fronts show the
//! queue and take lines back.
//!
//! A turn runs while its [`LineTurn`] exists. Dropping it starts the turn of the next line, unless the queue is held: after a
//! turn that failed or was stopped, and in a resumed session, the lines wait until the user releases them or sends a message.
//! The task of a waiting line stores the line; it is deleted from the store in the commit with which its turn begins.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use patchbay_agent::{Agent, TurnPermit};
use patchbay_core::{AgentId, Code, EventKind, LineId, Outcome};
use patchbay_events::EventLog;
use patchbay_store::QueueRow;
use tokio::sync::oneshot;

use crate::Session;

/// Limit of the waiting lines of a session.
const LINES: usize = 100;
/// Limit of the text of all waiting lines of a session, in bytes.
const BYTES: usize = 1 << 20;

/// The waiting lines of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// Whether the lines wait until [`Session::release_queue`] or the next message. False if there are none.
    pub held: bool,
    /// The waiting lines, in the order in which they will run.
    pub lines: Vec<QueuedLine>,
}

/// A line that waits for its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedLine {
    /// The id that the line got when it was submitted.
    pub id: LineId,
    /// The line as it was typed.
    pub text: String,
}

/// How a line enters the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Whether the line runs before the waiting lines.
    pub(crate) first: bool,
    /// Whether the line waits if a turn runs. If not, it does not enter the queue.
    pub(crate) waits: bool,
    /// Whether a held queue is released.
    pub(crate) releases: bool,
}

/// What became of a line that entered the queue.
pub(crate) enum Entered {
    /// Its turn begins now.
    Begins(LineTurn),
    /// It waits.
    Waits(WaitingTurn),
    /// A turn runs, and the line does not wait.
    Busy,
    /// Too many lines wait.
    Full(Outcome),
}

/// Why a line stops waiting.
pub(crate) enum Wake {
    /// Its turn begins.
    Begin(LineTurn),
    /// It was taken back. The sender is dropped when the line is deleted from the store.
    TakenBack(oneshot::Sender<()>),
}

/// The queues of the agents of a session.
pub(crate) struct LineQueue {
    log: Arc<EventLog>,
    queues: Mutex<BTreeMap<AgentId, AgentQueue>>,
}

#[derive(Default)]
struct AgentQueue {
    /// Whether a [`LineTurn`] of the agent exists.
    active: bool,
    held: bool,
    waiting: VecDeque<WaitingLine>,
}

struct WaitingLine {
    id: LineId,
    position: i64,
    text: Arc<str>,
    wake: oneshot::Sender<Wake>,
}

impl LineQueue {
    pub(crate) fn new(log: Arc<EventLog>) -> Arc<Self> {
        Arc::new(Self { log, queues: Mutex::default() })
    }

    /// Puts a line into the queue of `agent`, or starts its turn.
    pub(crate) fn enter(self: &Arc<Self>, agent: &Arc<Agent>, id: LineId, text: &str, arrival: Arrival) -> Entered {
        let mut queues = self.lock();
        let queue = queues.entry(agent.id()).or_default();
        let begins = !queue.active && (arrival.first || queue.waiting.is_empty());
        if begins {
            queue.active = true;
            let released = arrival.releases && queue.release();
            drop(queues);
            if released {
                self.publish_held(agent.id(), false);
            }
            let mut turn = self.turn(agent, agent.try_begin_turn());
            turn.released = released;
            return Entered::Begins(turn);
        }
        if !arrival.waits {
            return Entered::Busy;
        }
        if let Err(full) = check_room(&queues, text) {
            return Entered::Full(full);
        }
        let position = position(&queues, arrival.first);
        let (wake, woken) = oneshot::channel();
        let line = WaitingLine { id, position, text: text.into(), wake };
        let queue = queues.entry(agent.id()).or_default();
        if arrival.first {
            queue.waiting.push_front(line);
        } else {
            queue.waiting.push_back(line);
        }
        drop(queues);
        if arrival.releases {
            self.release(agent);
        }
        Entered::Waits(WaitingTurn { queue: Arc::clone(self), agent: agent.id(), id, position, woken })
    }

    /// Puts a stored line into the queue of `agent`, which is held from then on.
    pub(crate) fn restore(self: &Arc<Self>, agent: &Arc<Agent>, row: &QueueRow) -> WaitingTurn {
        let QueueRow { line: id, position, text, .. } = row;
        let (wake, woken) = oneshot::channel();
        let mut queues = self.lock();
        let queue = queues.entry(agent.id()).or_default();
        queue.held = true;
        queue.waiting.push_back(WaitingLine { id: *id, position: *position, text: text.as_str().into(), wake });
        WaitingTurn { queue: Arc::clone(self), agent: agent.id(), id: *id, position: *position, woken }
    }

    /// Releases the held queue of `agent`: its lines run one after another. Returns false if it was not held or is empty.
    pub(crate) fn release(self: &Arc<Self>, agent: &Arc<Agent>) -> bool {
        let mut queues = self.lock();
        let queue = queues.entry(agent.id()).or_default();
        let released = queue.release();
        let idle = !queue.active;
        drop(queues);
        if released {
            self.publish_held(agent.id(), false);
        }
        if idle {
            self.start_next(agent, None);
        }
        released
    }

    /// Removes a waiting line and returns its text and the signal of its end; `None` if it does not wait.
    fn take_back(&self, id: LineId) -> Option<(String, oneshot::Receiver<()>)> {
        let line = self.lock().values_mut().find_map(|queue| queue.remove(id))?;
        let (sender, removed) = oneshot::channel();
        // An error means that the line ended at this moment; its task removes it from the store.
        let _ = line.wake.send(Wake::TakenBack(sender));
        Some((line.text.to_string(), removed))
    }

    fn view(&self, agent: AgentId) -> QueueView {
        let queues = self.lock();
        let Some(queue) = queues.get(&agent) else { return QueueView::default() };
        let lines = queue.waiting.iter().map(|line| QueuedLine { id: line.id, text: line.text.to_string() });
        QueueView { held: queue.held && !queue.waiting.is_empty(), lines: lines.collect() }
    }

    /// Starts the turn of the next line with `permit`, unless a turn runs or the queue is held.
    fn start_next(self: &Arc<Self>, agent: &Arc<Agent>, mut permit: Option<TurnPermit>) {
        loop {
            let next = {
                let mut queues = self.lock();
                let Some(queue) = queues.get_mut(&agent.id()).filter(|queue| !queue.active && !queue.held) else {
                    return;
                };
                let Some(next) = queue.waiting.pop_front() else { return };
                queue.active = true;
                next
            };
            let permit_now = permit.take().or_else(|| agent.try_begin_turn());
            match next.wake.send(Wake::Begin(self.turn(agent, permit_now))) {
                Ok(()) | Err(Wake::TakenBack(_)) => return,
                // The line ended at this moment. The next one gets the turn.
                Err(Wake::Begin(mut turn)) => {
                    permit = turn.permit.take();
                    turn.disarm();
                    if let Some(queue) = self.lock().get_mut(&agent.id()) {
                        queue.active = false;
                    }
                }
            }
        }
    }

    /// Starts the next turn, or holds the queue if `hold` is true.
    fn turn_ended(self: &Arc<Self>, agent: &Arc<Agent>, permit: Option<TurnPermit>, hold: bool) {
        let newly_held = {
            let mut queues = self.lock();
            let queue = queues.entry(agent.id()).or_default();
            queue.active = false;
            let newly_held = hold && !queue.held;
            queue.held |= hold;
            newly_held && !queue.waiting.is_empty()
        };
        if newly_held {
            self.publish_held(agent.id(), true);
        }
        self.start_next(agent, permit);
    }

    fn turn(self: &Arc<Self>, agent: &Arc<Agent>, permit: Option<TurnPermit>) -> LineTurn {
        let queue = Arc::clone(self);
        LineTurn { queue, agent: Arc::clone(agent), permit, released: false, end: TurnEnd::Failed, armed: true }
    }

    fn publish_held(&self, agent: AgentId, held: bool) {
        self.log.publish(agent, EventKind::QueueHeld { held });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, AgentQueue>> {
        self.queues.lock()
    }
}

impl AgentQueue {
    /// Ends the hold. Returns whether lines waited for that.
    fn release(&mut self) -> bool {
        std::mem::take(&mut self.held) && !self.waiting.is_empty()
    }

    fn remove(&mut self, id: LineId) -> Option<WaitingLine> {
        let at = self.waiting.iter().position(|line| line.id == id)?;
        self.waiting.remove(at)
    }
}

/// Checks that one more line may wait in the session.
fn check_room(queues: &BTreeMap<AgentId, AgentQueue>, text: &str) -> Result<(), Outcome> {
    let waiting = || queues.values().flat_map(|queue| &queue.waiting);
    let lines = waiting().count();
    let bytes = waiting().map(|line| line.text.len()).sum::<usize>().saturating_add(text.len());
    let full = |what: String| {
        Outcome::error(
            Code::QueueFull,
            format_args!("{what}. Nothing of this line was kept; send it again when the queue is shorter."),
        )
    };
    if lines >= LINES {
        return Err(full(format!("{lines} lines wait for their turns; more than {LINES} cannot wait")));
    }
    if bytes > BYTES {
        return Err(full(format!("with this line, {bytes} bytes would wait for their turns; the limit is {BYTES}")));
    }
    Ok(())
}

/// Returns the position of a new line before or after all waiting lines of the session.
fn position(queues: &BTreeMap<AgentId, AgentQueue>, first: bool) -> i64 {
    let positions = queues.values().flat_map(|queue| &queue.waiting).map(|line| line.position);
    if first {
        positions.min().map_or(0, |least| least.saturating_sub(1))
    } else {
        positions.max().map_or(0, |greatest| greatest.saturating_add(1))
    }
}

/// The right of one line to run a turn of its agent. When it is dropped, the next line runs. Unless
/// [`LineTurn::succeeded`] or [`LineTurn::unused`] was called, the queue is held instead.
pub(crate) struct LineTurn {
    queue: Arc<LineQueue>,
    agent: Arc<Agent>,
    /// `None` until [`LineTurn::ready`].
    permit: Option<TurnPermit>,
    /// Whether the line released a held queue.
    released: bool,
    end: TurnEnd,
    /// False if the turn was never given to its line.
    armed: bool,
}

#[derive(Clone, Copy, Debug)]
enum TurnEnd {
    /// The turn failed, was stopped, or its task panicked.
    Failed,
    Succeeded,
    /// The line ran no turn.
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

    /// Gives the right back without a turn. The queue is held again if this line released it.
    pub(crate) fn unused(mut self) {
        self.end = TurnEnd::Unused;
    }

    fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for LineTurn {
    fn drop(&mut self) {
        if self.armed {
            let hold = match self.end {
                TurnEnd::Failed => true,
                TurnEnd::Succeeded => false,
                TurnEnd::Unused => self.released,
            };
            self.queue.turn_ended(&self.agent, self.permit.take(), hold);
        }
    }
}

/// A line's place in the queue. The line leaves the queue when this is dropped.
pub(crate) struct WaitingTurn {
    queue: Arc<LineQueue>,
    agent: AgentId,
    id: LineId,
    position: i64,
    woken: oneshot::Receiver<Wake>,
}

impl WaitingTurn {
    /// Returns the line's position for the store.
    pub(crate) fn position(&self) -> i64 {
        self.position
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

    /// Runs the waiting lines of the agent in view, one after another, if they are held. Returns whether they were.
    pub fn release_queue(&self) -> bool {
        self.queue.release(&self.agent_in_view())
    }
}
