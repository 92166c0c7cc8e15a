//! Accepts lines. Submitting a line returns its id immediately. Usually, how the line is handled is decided at that moment, from
//! the session's current state; a line that waits for a command that moves the view is decided when that command has ended. The
//! line then runs in its own task until it ends or is stopped.

use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock, atomic::AtomicBool},
};

use futures_util::FutureExt as _;
use patchbay_agent::Agent;
use patchbay_core::{AgentId, Code, EventKind, LineId, Outcome};
use patchbay_store::QueueRow;
use patchbay_tools::EffectFlag;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{
    client::LineClient,
    context::{LineContext, LineEntry, stopped},
    input::{LineInput, UsedMemory},
    moves::{AfterMove, BehindMove, NotNow},
    order::{CommandKind, OrderedCommand},
    queue::{Arrival, Entered},
    submitted::Submitted,
    typed::{TypedCommand, TypedLine},
};
use crate::{Session, activity::ActivityGuard, builtin::BeginsTurn, session::SessionState, tree::lookup::dead};

/// Length limit of a line in bytes, enough for a whole document.
const LINE_BYTES: usize = 1 << 20;

pub(crate) enum Accepted {
    Message,
    /// The command runs. If it has to wait first, it is resolved again when it begins.
    Command(TypedCommand),
    /// The line is captured for a later `/fork`.
    Captured,
    /// The line was refused, and nothing of it runs.
    Refused(Outcome),
}

/// A line whose agent has not been determined yet.
struct ArrivingLine {
    id: LineId,
    typed: TypedLine,
    input: LineInput,
    /// Whether `/model` is also accepted while a turn runs.
    during_turn: bool,
    agent: Arc<OnceLock<AgentId>>,
    /// The memory for its files, or the outcome if there is not enough.
    memory: Result<Option<UsedMemory>, Outcome>,
    outcome: oneshot::Sender<Outcome>,
    busy: ActivityGuard,
}

struct LineStart {
    accepted: Accepted,
    entry: LineEntry,
    outcome: oneshot::Sender<Outcome>,
    /// Whether later lines that begin a turn wait for this one.
    delays: bool,
    /// Cancelled when the line may begin; `None` if it may begin immediately.
    after: Option<CancellationToken>,
    busy: Option<ActivityGuard>,
}

impl Session {
    /// Submits a line, as typed, for the agent in view and returns immediately. The line runs even if the result is not awaited;
    /// its outcome is also published as [`EventKind::LineEnded`].
    ///
    /// Commands of an agent that call a tool or change the session run one after another in the order of their lines, even during
    /// a turn. Commands that only show the session wait for earlier commands that change it. `/kill`, `/mode` and `/quit` wait for
    /// no other command. Lines submitted after a `/fork`, `/rewind` or `/switch` that has not ended belong to the agent that it
    /// brings into view, and wait for it, except for commands that only show the session, `/kill`, `/mode` and `/quit`.
    ///
    /// Messages, and commands that begin a turn, also run one after another in the order of their lines. They wait in the queue
    /// ([`Session::queue`]) while an earlier command that changes how turns run, such as `/model`, is running. They also wait there
    /// during a turn, unless they join that turn ([`LineInput::joins`]). They release a held queue and run after its lines, unless
    /// [`LineInput::ahead`] is set. Commands that need an idle agent, such as `/retry` and `/compact`, are refused during a turn
    /// and otherwise run before the waiting lines.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn submit(self: &Arc<Self>, line: &str) -> Submitted {
        self.submit_input(line.into())
    }

    /// Like [`Session::submit`], for a line with attached files: a message, or a command that passes them to a skill.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn submit_input(self: &Arc<Self>, input: LineInput) -> Submitted {
        self.receive(self.host.store.source().line_id(), input, false)
    }

    /// Like [`Session::submit_input`], for a line whose id is already known.
    pub(crate) fn submit_as(self: &Arc<Self>, id: LineId, input: LineInput) -> Submitted {
        self.receive(id, input, false)
    }

    /// Like [`Session::submit`], for a command that is also accepted while a turn runs.
    pub(crate) fn submit_during_turn(self: &Arc<Self>, command: &str) -> Submitted {
        self.receive(self.host.store.source().line_id(), command.into(), true)
    }

    /// Stops a line. If it runs a tool, the tool is stopped. If it runs a turn, the turn is cancelled and keeps the partial answer,
    /// and the queue of its agent is then held. Later lines that wait for it, because it changes how turns run, are held. A line
    /// that waits leaves the queue. Returns false if the line has ended.
    pub fn stop(&self, line: LineId) -> bool {
        match self.moves.remove(line) {
            Some(behind) => {
                behind(AfterMove::Stopped);
                true
            }
            None => self.lines.stop(line),
        }
    }

    /// Returns whether a line has not ended: it runs or waits.
    pub fn is_open(&self, line: LineId) -> bool {
        self.lines.has(line) || self.moves.has(line)
    }

    fn receive(self: &Arc<Self>, id: LineId, input: LineInput, during_turn: bool) -> Submitted {
        let (agent, typed) = (Arc::default(), TypedLine::read(&input.text, &self.snapshot()));
        let (sender, outcome) = oneshot::channel();
        let moves = typed.built_in().is_some_and(|command| command.moves_view);
        let waits = moves || !matches!(typed.kind(), Some(CommandKind::Overtakes | CommandKind::Shows));
        let (memory, busy) = (self.host.file_memory.take(&input.attachments), self.activity.begin());
        let (bytes, of_agent) = (input.text.len(), Arc::clone(&agent));
        let line = ArrivingLine { id, typed, input, during_turn, agent: of_agent, memory, outcome: sender, busy };
        let entered = match waits {
            true => self.moves.enter(id, moves, bytes, line, |line| self.behind_move(line)),
            false => Ok(line),
        };
        let view = self.view();
        let (waits_for, is_behind_move) = match entered {
            Ok(line) => (self.accept(line, None), false),
            Err(NotNow::Behind(move_before)) => (Some(move_before), true),
            Err(NotNow::Full(line, full)) => {
                self.publish_end(id, view, full, line.outcome);
                (None, false)
            }
        };
        Submitted { id, view, agent, waits_for, is_behind_move, outcome }
    }

    /// Returns the function that decides the fate of a line submitted after a command that moves the view.
    fn behind_move(self: &Arc<Self>, line: ArrivingLine) -> BehindMove {
        let session = Arc::downgrade(self);
        Box::new(move |after| {
            let Some(session) = session.upgrade() else { return };
            match after {
                AfterMove::Accepted(begins) => drop(session.accept(line, Some(begins))),
                AfterMove::Stopped => session.publish_end(line.id, session.view(), stopped(), line.outcome),
            }
        })
    }

    /// Decides how a line is handled, and starts it. Returns the command that it waits for.
    fn accept(self: &Arc<Self>, line: ArrivingLine, after: Option<CancellationToken>) -> Option<LineId> {
        let ArrivingLine { id, mut typed, mut input, during_turn, agent: of_agent, memory, outcome, busy } = line;
        let (agent, state) = (self.agent_in_view(), self.state());
        let _ = of_agent.set(agent.id());
        if let (Some(_), TypedLine::Command(command)) = (&after, &mut typed) {
            command.resolve(&state.snapshot);
        }

        // First, decide which effects the line may have.
        let unused_files = typed.drop_unused_files(&mut input, &state.snapshot);
        let mut file_memory = None;
        let checked = check(&agent, &typed, &input, &state).and_then(|()| {
            // Unused files need no memory.
            file_memory = if input.attachments.is_empty() { None } else { memory? };
            Ok(())
        });
        let can_turn = checked.is_ok() && !agent.is_dead();
        let capture = if can_turn { self.captures.ticket(agent.id(), typed.capture_effect()) } else { None };
        let is_captured = capture.as_ref().is_some_and(|ticket| ticket.captured);
        let begins = if can_turn && !is_captured { typed.begins_turn(&state.snapshot) } else { BeginsTurn::No };
        let kind = typed.kind();
        let mut accepted = match (checked, typed) {
            (Err(refused), _) => Accepted::Refused(refused),
            (Ok(()), _) if is_captured => Accepted::Captured,
            (Ok(()), TypedLine::Message) => Accepted::Message,
            (Ok(()), TypedLine::Command(command)) => Accepted::Command(command),
        };

        // Then decide when the line may begin. A line that begins a turn enters its agent's queue before this function returns.
        let delays = begins == BeginsTurn::NoButDelays;
        if delays {
            self.queue.delay();
        }
        let arrival = arrival(begins, &input, &accepted);
        if arrival.is_some_and(|arrival| arrival.is_message) {
            self.message_came(&agent, input.ahead);
        }
        let entry = match arrival.map(|arrival| self.queue.enter(&agent, id, &input, arrival)) {
            None | Some(Entered::Busy) => LineEntry::Direct,
            Some(Entered::Begins(turn)) => LineEntry::Turn(turn),
            Some(Entered::Waits(waiting)) => LineEntry::Waits(waiting),
            Some(Entered::Full(outcome)) => {
                accepted = Accepted::Refused(outcome);
                LineEntry::Direct
            }
        };
        let is_ordered = matches!((&accepted, &entry), (Accepted::Command(_), LineEntry::Direct));
        let place = kind.filter(|_| is_ordered).map(|kind| self.order.enter(agent.id(), id, kind));
        let waits_for = place.as_ref().and_then(OrderedCommand::before);
        let busy = (!matches!(entry, LineEntry::Waits(_))).then_some(busy);
        let mut context = self.context(id, input.text, agent, state);
        (context.new_attachments, context.file_memory) = (input.attachments, file_memory);
        (context.unused_files, context.during_turn) = (unused_files, during_turn);
        (context.capture, context.place) = (capture, place.map(Arc::new));
        if let Some(client) = input.client {
            context.client = client;
        }
        self.start(context, LineStart { accepted, entry, outcome, delays, after, busy });
        waits_for
    }

    /// Returns the context of a line that waits for nothing and has no files.
    fn context(self: &Arc<Self>, id: LineId, text: String, agent: Arc<Agent>, state: SessionState) -> LineContext {
        LineContext {
            session: Arc::clone(self),
            line: id,
            text,
            state,
            stop: self.lines.begin(id, agent.id()),
            effect: EffectFlag::default(),
            turn: None,
            joining: None,
            new_attachments: Vec::new(),
            file_memory: None,
            attachments: Vec::new(),
            ended: CancellationToken::new(),
            during_turn: false,
            queued: AtomicBool::new(false),
            requires_alive: if agent.is_dead() { Vec::new() } else { vec![agent.id()] },
            capture: None,
            place: None,
            unused_files: None,
            client: self.front(),
            agent,
        }
    }

    /// Notes that a command of `agent` that delays turns has ended, and lets the waiting lines run.
    fn delay_ended(&self, agent: AgentId, stopped: bool) {
        self.queue.delay_ended(agent, stopped);
        let agents: Vec<Arc<Agent>> = self.agents().living().cloned().collect();
        agents.iter().for_each(|agent| self.queue.resume(agent));
    }

    /// Notes a message from the user: counts since the last message restart at zero, and stopped agents may continue.
    fn message_came(&self, agent: &Arc<Agent>, ahead: bool) {
        self.requests.message_came();
        self.results.message_came();
        self.queue.message_came(agent.id(), ahead);
        let others: Vec<Arc<Agent>> =
            self.agents().living().filter(|other| other.id() != agent.id()).cloned().collect();
        for other in others {
            self.queue.resume(&other);
        }
    }

    /// Puts the stored lines of a resumed session into the queues of their agents, which are held. Their outcomes are published
    /// as events. `keys` contains the keys of lines that clients sent with a key.
    pub(crate) fn restore_queue(self: &Arc<Self>, rows: Vec<QueueRow>, keys: &BTreeMap<LineId, String>) {
        for row in rows {
            // Lines of agents that were not restored stay in the store.
            let Some(agent) = self.agent(row.agent) else { continue };
            let (entry, state) = (LineEntry::Restored(self.queue.restore(&agent, &row)), self.state());
            let accepted = match TypedLine::read(&row.text, &state.snapshot) {
                TypedLine::Message => Accepted::Message,
                TypedLine::Command(command) => Accepted::Command(command),
            };
            let mut context = self.context(row.line, row.text, agent, state);
            (context.attachments, context.queued) = (row.attachments, AtomicBool::new(true));
            if let Some(key) = keys.get(&row.line) {
                context.client = Arc::new(LineClient { key: Some(key.as_str().into()), ..LineClient::default() });
            }
            let outcome = oneshot::channel().0;
            self.start(context, LineStart { accepted, entry, outcome, delays: false, after: None, busy: None });
        }
    }

    /// Runs a line in a task of its own.
    fn start(self: &Arc<Self>, context: LineContext, start: LineStart) {
        let LineStart { accepted, entry, outcome: sender, delays, after, busy } = start;
        let (id, place, ended) = (context.line, context.place.clone(), context.ended.clone());
        let span = tracing::info_span!("session", id = %self.id(), line = %id);
        let guard = ended.clone().drop_guard();
        self.lines.spawn(
            async move {
                if let Some(after) = after {
                    after.cancelled().await;
                }
                let (session, agent) = (Arc::clone(&context.session), context.agent.id());
                // A panic becomes an outcome, too.
                let ended_with = AssertUnwindSafe(context.run(accepted, entry)).catch_unwind().await;
                let outcome =
                    ended_with.unwrap_or_else(|_| Outcome::error(Code::Internal, "running this line panicked."));
                session.lines.end(id);
                let stopped = outcome.code == Code::TurnCancelled;
                if delays {
                    session.delay_ended(agent, stopped);
                }
                // Lines that waited for a move of the view enter their queues before its outcome is published, and begin
                // afterwards.
                match stopped {
                    true => session.moves.stopped(id, |behind| behind(AfterMove::Stopped)),
                    false => session.moves.ended(id, |behind| behind(AfterMove::Accepted(ended.clone()))),
                }
                session.publish_end(id, agent, outcome, sender);
                // The next command begins only after this one's outcome was published.
                drop(place);
                drop(guard);
                drop(busy);
            }
            .instrument(span),
        );
    }

    fn publish_end(&self, line: LineId, agent: AgentId, outcome: Outcome, sender: oneshot::Sender<Outcome>) {
        self.log().publish(agent, EventKind::LineEnded { line, outcome: outcome.clone() });
        // An error means that the front does not wait for the outcome.
        let _ = sender.send(outcome);
    }
}

/// Checks a line before any part of it runs.
fn check(agent: &Agent, typed: &TypedLine, input: &LineInput, state: &SessionState) -> Result<(), Outcome> {
    let bytes = input.text.len();
    if bytes > LINE_BYTES {
        let message = format!("a line of {bytes} bytes exceeds the limit of {LINE_BYTES}; it was discarded.");
        return Err(Outcome::error(Code::LineTooLong, message));
    }
    typed.check_files(input, &state.snapshot)?;
    if matches!(typed, TypedLine::Message) && agent.is_dead() { Err(dead(agent.id())) } else { Ok(()) }
}

/// Returns how a line enters the queue of its agent; `None` if it begins no turn.
fn arrival(begins: BeginsTurn, input: &LineInput, accepted: &Accepted) -> Option<Arrival> {
    let ahead = input.ahead;
    let joins = input.joins && !ahead && matches!(accepted, Accepted::Message);
    match begins {
        BeginsTurn::No | BeginsTurn::NoButDelays => None,
        BeginsTurn::Yes => Some(Arrival { first: ahead, waits: true, releases: !ahead, is_message: true, joins }),
        BeginsTurn::IfIdle { releases } => {
            Some(Arrival { first: true, waits: false, releases: releases && !ahead, is_message: releases, joins })
        }
    }
}
