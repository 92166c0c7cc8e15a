//! The queue of each agent: lines that wait for their turn. `line::accept` enters each line that begins a turn; fronts show the
//! queue and take lines back.
//!
//! A turn runs while its [`LineTurn`] exists. Dropping it starts the turn of the next line, unless the queue is held: after a
//! turn that failed or was stopped, and in a resumed session, the lines wait until the user releases them or sends a message. The
//! task of a waiting line stores the line; it is deleted from the store in the commit that begins its turn. A message at the head
//! of the queue may join the running turn ([`joining`]).
//!
//! While a command that changes how turns run, such as `/model`, is running, the lines of every agent wait.
//!
//! When no line waits, the agent is reported as idle, and `wake` then looks for its mail. Stopped agents are an
//! exception: they begin no turn by themselves until the user's next message.

mod joining;
mod line_turn;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use patchbay_agent::{Agent, TurnPermit};
use patchbay_core::{AgentId, Code, EventKind, LineId, Outcome};
use patchbay_events::EventLog;
use patchbay_store::QueueRow;
use tokio::sync::{mpsc, oneshot};

use super::input::LineInput;
use crate::activity::{Activity, ActivityGuard};

pub(crate) use joining::{JoinedLines, JoiningLine};
pub(crate) use line_turn::{LineTurn, WaitingTurn};

use line_turn::TurnEnd;

/// Maximum number of waiting lines of a session.
const LINES: usize = 100;
/// Size limit of the text of all waiting lines of a session, in bytes.
const BYTES: usize = 1 << 20;

/// The waiting lines of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// Whether the lines wait until [`Session::release_queue`](crate::Session::release_queue) or the next
    /// message. False if there are none.
    pub held: bool,
    /// The waiting lines, in the order in which they will run.
    pub lines: Vec<QueuedLine>,
}

/// A line that waits for its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedLine {
    /// The id that the line was given when it was submitted.
    pub id: LineId,
    /// The line as it was typed.
    pub text: String,
    /// The names of the files that are attached to it.
    pub attached: Vec<String>,
    /// Whether the line joins the running turn if that turn calls tools. Otherwise it begins a turn of its own.
    pub joins: bool,
}

/// How a line enters the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Whether the line runs before the waiting lines.
    pub(crate) first: bool,
    /// Whether the line enters the queue and waits if a turn is running.
    pub(crate) waits: bool,
    /// Whether a held queue is released.
    pub(crate) releases: bool,
    /// Whether the line is a new or a repeated message from the user.
    pub(crate) is_message: bool,
    /// Whether the line may join the running turn.
    pub(crate) joins: bool,
}

/// The fate of a line that entered the queue.
pub(crate) enum Entered {
    Begins(LineTurn),
    Waits(WaitingTurn),
    /// A turn runs, and the line does not wait.
    Busy,
    Full(Outcome),
}

/// Why a line stops waiting.
pub(crate) enum Wake {
    Begin(LineTurn),
    /// The line joins the running turn.
    Join(JoiningLine),
    /// The line was taken back. The sender is dropped when the line is deleted from the store.
    TakenBack(oneshot::Sender<()>),
}

/// An agent that runs no turn and has no line to run.
pub(crate) struct IdleAgent {
    pub(crate) agent: AgentId,
    pub(crate) busy: ActivityGuard,
}

pub(crate) type IdleAgents = mpsc::UnboundedReceiver<IdleAgent>;

/// The queues of the agents of a session.
pub(crate) struct LineQueue {
    log: Arc<EventLog>,
    activity: Arc<Activity>,
    idle: mpsc::UnboundedSender<IdleAgent>,
    queues: Mutex<BTreeMap<AgentId, AgentQueue>>,
    /// Number of running commands that change how turns run. No waiting line begins while there are any.
    delays: AtomicUsize,
}

#[derive(Default)]
struct AgentQueue {
    /// Whether a [`LineTurn`] of the agent exists.
    active: bool,
    /// Whether the lines wait for the user.
    held: bool,
    /// Whether the agent begins no turn by itself, and until when.
    stopped: Option<StopScope>,
    /// Whether the agent was stopped since its active turn began.
    cancelled: bool,
    /// How often mail has woken the agent since the user's last message to any agent.
    wakes: u32,
    /// Whether the user was told that mail no longer wakes the agent.
    told_limit: bool,
    waiting: VecDeque<WaitingLine>,
}

/// The kind of stop, which determines the messages that end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopScope {
    /// The agent: a message to it ends the stop.
    Agent,
    /// The session: a message to any agent ends the stop.
    Session,
}

/// Whether mail may begin a turn.
pub(crate) enum MailTurn {
    Begins(LineTurn),
    /// The agent is busy or stopped; it looks for mail again later.
    Later,
    /// Mail has already woken the agent as often as it may.
    TooOften,
}

struct WaitingLine {
    id: LineId,
    /// Whether the line also runs while the queue is held.
    ahead: bool,
    position: i64,
    text: Arc<str>,
    attached: Vec<String>,
    /// Whether the line may join the running turn once it is stored.
    joins: bool,
    is_stored: bool,
    wake: oneshot::Sender<Wake>,
}

impl LineQueue {
    /// Creates the queues of a session, which report idle agents to `idle`.
    pub(crate) fn new(
        log: Arc<EventLog>,
        activity: Arc<Activity>,
        idle: mpsc::UnboundedSender<IdleAgent>,
    ) -> Arc<Self> {
        Arc::new(Self { log, activity, idle, queues: Mutex::default(), delays: AtomicUsize::new(0) })
    }

    /// Returns the right to run the first turn of `agent`, which is new.
    pub(crate) fn begin_first(self: &Arc<Self>, agent: &Arc<Agent>) -> LineTurn {
        {
            let mut queues = self.lock();
            let queue = queues.entry(agent.id()).or_default();
            queue.begin();
            queue.cancelled = queue.stopped.is_some();
        }
        self.turn(agent, agent.try_begin_turn())
    }

    /// Returns the right to run a turn of `agent` that its mail begins. Mail may wake the agent `limit` times.
    pub(crate) fn begin_by_mail(self: &Arc<Self>, agent: &Arc<Agent>, limit: u32) -> MailTurn {
        {
            let mut queues = self.lock();
            let queue = queues.entry(agent.id()).or_default();
            if queue.active || queue.stopped.is_some() || queue.has_next() {
                return MailTurn::Later;
            }
            if queue.wakes >= limit {
                return MailTurn::TooOften;
            }
            queue.wakes += 1;
            queue.begin();
        }
        MailTurn::Begins(self.turn(agent, agent.try_begin_turn()))
    }

    /// Uncounts a turn that mail did not begin after all.
    pub(crate) fn uncount_wake(&self, agent: AgentId) {
        if let Some(queue) = self.lock().get_mut(&agent) {
            queue.wakes = queue.wakes.saturating_sub(1);
        }
    }

    /// Notes that mail no longer wakes an agent. Returns true the first time since the user's last message.
    pub(crate) fn note_limit(&self, agent: AgentId) -> bool {
        self.lock().get_mut(&agent).is_some_and(|queue| !std::mem::replace(&mut queue.told_limit, true))
    }

    /// Notes a message from the user to `agent`: the agents of the session may be woken again, and agents that were stopped with
    /// the session may continue. Their lines stay held if `ahead` is true. The caller then calls [`LineQueue::resume`] for the
    /// other agents.
    pub(crate) fn message_came(&self, agent: AgentId, ahead: bool) {
        let mut released = Vec::new();
        for (id, queue) in &mut *self.lock() {
            queue.wakes = 0;
            queue.told_limit = false;
            let ends = *id == agent || queue.stopped == Some(StopScope::Session);
            if queue.stopped.is_some() && ends {
                queue.stopped = None;
                if *id != agent && !ahead && queue.release() {
                    released.push(*id);
                }
            }
        }
        for id in released {
            self.publish_held(id, false);
        }
    }

    /// Starts the next line of an agent that may begin turns by itself, or reports it as idle.
    pub(crate) fn resume(self: &Arc<Self>, agent: &Arc<Agent>) {
        self.start_next(agent, None);
    }

    /// Holds the lines of `agent` and keeps it from beginning turns by itself. Returns whether one of its turns is running or
    /// about to start.
    pub(crate) fn stop(&self, agent: AgentId, scope: StopScope) -> bool {
        let mut queues = self.lock();
        let queue = queues.entry(agent).or_default();
        // A message to another agent must not end the stop of this one.
        if queue.stopped != Some(StopScope::Agent) {
            queue.stopped = Some(scope);
        }
        let is_active = queue.active;
        queue.cancelled = is_active;
        let newly_held = !std::mem::replace(&mut queue.held, true) && !queue.waiting.is_empty();
        drop(queues);
        if newly_held {
            self.publish_held(agent, true);
        }
        is_active
    }

    /// Returns whether the agent begins no turn by itself until the user's next message.
    pub(crate) fn is_stopped(&self, agent: AgentId) -> bool {
        self.lock().get(&agent).is_some_and(|queue| queue.stopped.is_some())
    }

    /// Returns whether a turn of the agent is running or about to run.
    pub(crate) fn is_active(&self, agent: AgentId) -> bool {
        self.lock().get(&agent).is_some_and(|queue| queue.active)
    }

    /// Returns whether the agent was stopped since its turn began.
    pub(crate) fn is_cancelled(&self, agent: AgentId) -> bool {
        self.lock().get(&agent).is_some_and(|queue| queue.cancelled)
    }

    /// Removes the queue of an agent that was killed. Its lines end as taken back; the kill has deleted them from the store.
    pub(crate) fn remove_agent(&self, agent: AgentId) {
        let Some(queue) = self.lock().remove(&agent) else { return };
        for line in queue.waiting {
            let (sender, _) = oneshot::channel();
            // An error means that the line has ended.
            let _ = line.wake.send(Wake::TakenBack(sender));
        }
    }

    /// Returns the texts of the waiting lines of `agent`.
    pub(crate) fn texts(&self, agent: AgentId) -> Vec<String> {
        self.view(agent).lines.into_iter().map(|line| line.text).collect()
    }

    /// Reports an agent that has no line to run.
    pub(crate) fn report_idle(&self, agent: AgentId) {
        // An error means that the session is closed.
        let _ = self.idle.send(IdleAgent { agent, busy: self.activity.begin() });
    }

    /// Registers the start of a command that affects turns, such as `/model`. Later lines wait until
    /// [`LineQueue::delay_ended`].
    pub(crate) fn delay(&self) {
        self.delays.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns whether a command that affects turns is running.
    pub(crate) fn is_delayed(&self) -> bool {
        self.delays.load(Ordering::SeqCst) > 0
    }

    /// Notes that a command of `agent` that affects turns has ended. If it was stopped, the lines that waited for it are held, as
    /// after a stopped turn. The caller then calls [`LineQueue::resume`] for all agents.
    pub(crate) fn delay_ended(&self, agent: AgentId, stopped: bool) {
        let newly_held = stopped && self.lock().get_mut(&agent).is_some_and(AgentQueue::hold_delayed);
        self.delays.fetch_sub(1, Ordering::SeqCst);
        if newly_held {
            self.publish_held(agent, true);
        }
    }

    /// Puts a line into the queue of `agent`, or starts its turn.
    pub(crate) fn enter(
        self: &Arc<Self>,
        agent: &Arc<Agent>,
        id: LineId,
        input: &LineInput,
        arrival: Arrival,
    ) -> Entered {
        let mut queues = self.lock();
        let queue = queues.entry(agent.id()).or_default();
        let begins = !queue.active && (arrival.first || queue.waiting.is_empty()) && !self.is_delayed();
        if begins {
            queue.begin();
            let released = arrival.releases && queue.release();
            drop(queues);
            if released {
                self.publish_held(agent.id(), false);
            }
            let mut turn = self.turn(agent, agent.try_begin_turn());
            turn.released = released;
            return Entered::Begins(turn);
        }
        // A line that only waits for a command counts like a running turn.
        if !arrival.waits && (queue.active || queue.has_next()) {
            return Entered::Busy;
        }
        let text = &*input.text;
        let waiting = queues.values().flat_map(|queue| &queue.waiting).map(|line| line.text.len());
        if let Err(full) = check_room(waiting, text.len()) {
            return Entered::Full(full);
        }
        let position = position(&queues, arrival.first);
        let (wake, woken) = oneshot::channel();
        let attached = input.names();
        let Arrival { first: ahead, joins, .. } = arrival;
        let line = WaitingLine { id, ahead, position, text: text.into(), attached, joins, is_stored: false, wake };
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
        let QueueRow { line: id, position, text, attachments, .. } = row;
        let (wake, woken) = oneshot::channel();
        let mut queues = self.lock();
        let queue = queues.entry(agent.id()).or_default();
        queue.held = true;
        let text = text.as_str().into();
        let attached = attachments.iter().map(|file| file.name.clone()).collect();
        let line = WaitingLine {
            id: *id,
            ahead: false,
            position: *position,
            text,
            attached,
            joins: false,
            is_stored: true,
            wake,
        };
        queue.waiting.push_back(line);
        WaitingTurn { queue: Arc::clone(self), agent: agent.id(), id: *id, position: *position, woken }
    }

    /// Releases the held queue of `agent`: its lines run one after another, even if the agent was stopped. Returns
    /// false if it was not held or is empty.
    pub(crate) fn release(self: &Arc<Self>, agent: &Arc<Agent>) -> bool {
        let mut queues = self.lock();
        let queue = queues.entry(agent.id()).or_default();
        let released = queue.release();
        if released {
            queue.stopped = None;
        }
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

    /// Removes a waiting line. Returns its text, and a receiver that signals its deletion from the store; `None` if it does not
    /// wait.
    pub(super) fn take_back(&self, id: LineId) -> Option<(String, oneshot::Receiver<()>)> {
        let line = self.lock().values_mut().find_map(|queue| queue.remove(id))?;
        let (sender, removed) = oneshot::channel();
        // An error means that the line ended at this moment; its task removes it from the store.
        let _ = line.wake.send(Wake::TakenBack(sender));
        Some((line.text.to_string(), removed))
    }

    pub(super) fn view(&self, agent: AgentId) -> QueueView {
        let queues = self.lock();
        let Some(queue) = queues.get(&agent) else { return QueueView::default() };
        let mut lines: Vec<QueuedLine> = queue.waiting.iter().map(WaitingLine::to_queued).collect();
        // A line cannot join a turn if a line before it does not join.
        lines.iter_mut().skip_while(|line| line.joins).for_each(|line| line.joins = false);
        QueueView { held: queue.held && !queue.waiting.is_empty(), lines }
    }

    /// Returns the waiting lines of all agents, in the order in which they were submitted.
    pub(super) fn lines_of_all(&self) -> Vec<QueuedLine> {
        let queues = self.lock();
        let mut lines: Vec<&WaitingLine> = queues.values().flat_map(|queue| &queue.waiting).collect();
        lines.sort_by_key(|line| line.position);
        lines.into_iter().map(WaitingLine::to_queued).collect()
    }

    /// Starts the turn of the next line with `permit`, unless a turn is running or the queue is held.
    fn start_next(self: &Arc<Self>, agent: &Arc<Agent>, mut permit: Option<TurnPermit>) {
        loop {
            let next = {
                let mut queues = self.lock();
                let queue = queues.entry(agent.id()).or_default();
                let is_delayed = queue.has_next() && self.is_delayed();
                if queue.active || queue.stopped.is_some() || agent.is_dead() || is_delayed {
                    return;
                }
                let next = if queue.has_next() { queue.waiting.pop_front() } else { None };
                let Some(next) = next else {
                    drop(queues);
                    return self.report_idle(agent.id());
                };
                queue.begin();
                next
            };
            let permit_now = permit.take().or_else(|| agent.try_begin_turn());
            match next.wake.send(Wake::Begin(self.turn(agent, permit_now))) {
                Ok(()) | Err(Wake::Join(_) | Wake::TakenBack(_)) => return,
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

    /// Starts the next turn, or holds the queue if `hold` is true. If the user stopped the turn, the agent is stopped.
    fn turn_ended(self: &Arc<Self>, agent: &Arc<Agent>, permit: Option<TurnPermit>, hold: bool, stopped: bool) {
        let newly_held = {
            let mut queues = self.lock();
            // The queue of an agent that was killed is gone.
            let Some(queue) = queues.get_mut(&agent.id()) else { return };
            queue.active = false;
            // A message may have ended the stop of the session before the turn ended.
            let goes_on = stopped && queue.cancelled && queue.stopped.is_none();
            let hold = hold && !goes_on;
            if stopped && !goes_on {
                queue.stopped.get_or_insert(StopScope::Agent);
            }
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
        let (queue, busy) = (Arc::clone(self), self.activity.begin());
        LineTurn {
            queue,
            agent: Arc::clone(agent),
            permit,
            released: false,
            end: TurnEnd::Failed,
            armed: true,
            _busy: busy,
        }
    }

    fn publish_held(&self, agent: AgentId, held: bool) {
        self.log.publish(agent, EventKind::QueueHeld { held });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentId, AgentQueue>> {
        self.queues.lock()
    }
}

impl WaitingLine {
    fn to_queued(&self) -> QueuedLine {
        QueuedLine { id: self.id, text: self.text.to_string(), attached: self.attached.clone(), joins: self.joins }
    }
}

impl AgentQueue {
    /// Returns whether the first line may run when no turn is running.
    fn has_next(&self) -> bool {
        self.waiting.front().is_some_and(|line| line.ahead || !self.held)
    }

    /// Notes that a turn begins.
    fn begin(&mut self) {
        self.active = true;
        self.cancelled = false;
    }

    /// Ends the hold. Returns whether any lines were held.
    fn release(&mut self) -> bool {
        std::mem::take(&mut self.held) && !self.waiting.is_empty()
    }

    /// Holds the lines that wait for a command. Returns whether they were not held before.
    fn hold_delayed(&mut self) -> bool {
        if self.active || self.waiting.is_empty() {
            return false;
        }
        self.waiting.iter_mut().for_each(|line| line.ahead = false);
        !std::mem::replace(&mut self.held, true)
    }

    fn remove(&mut self, id: LineId) -> Option<WaitingLine> {
        let at = self.waiting.iter().position(|line| line.id == id)?;
        self.waiting.remove(at)
    }
}

/// Checks that a line of `new` bytes may wait in addition to lines of these lengths.
///
/// # Errors
/// The outcome of the line, `queue_full`: more than 100 lines or 1 MiB would wait.
pub fn check_room(waiting: impl Iterator<Item = usize> + Clone, new: usize) -> Result<(), Outcome> {
    let lines = waiting.clone().count();
    let bytes = waiting.sum::<usize>().saturating_add(new);
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
