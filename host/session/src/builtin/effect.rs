//! Built-in commands, and the effects that they can request.

use futures_util::future::BoxFuture;
use patchbay_agent::Chosen;
use patchbay_command::{HasSpec, Spec};
use patchbay_core::Outcome;
use patchbay_skill::Snapshot;
use patchbay_store::{DroppedMessage, NewMessage};

use crate::{
    building::Built,
    line::{context::LineContext, order::CommandKind},
    persona::Persona,
    prepared::Prepare,
    unanswered::UnansweredMessage,
};

/// A built-in command. It returns its effect, and stored state changes only when the effect is committed. The exception is `/mode`,
/// which sets the mode directly, because modes are not stored.
pub(crate) struct BuiltIn {
    /// Name, argument and help.
    pub(crate) spec: Spec,
    /// Which commands it waits for, and which wait for it.
    pub(crate) kind: CommandKind,
    /// Whether the command begins a turn with this argument.
    pub(crate) begins_turn: fn(&Snapshot, &str) -> BeginsTurn,
    /// Whether the command accepts attached files with this argument; `None` if it never does.
    pub(crate) takes_files: fn(&Snapshot, &str) -> Option<bool>,
    /// Whether the command brings another agent into view. Lines submitted after it belong to that agent.
    pub(crate) moves_view: bool,
    /// Whether the command is refused while a dead agent is in view.
    pub(crate) needs_living_agent: bool,
    /// Whether a stopped command ends by itself instead of being aborted, because it changes files.
    pub(crate) ends_itself: bool,
    /// Computes the effect of the command. The argument was already checked against the spec.
    pub(crate) run: RunBuiltIn,
}

type RunBuiltIn = for<'a> fn(&'a LineContext, &'a str) -> BoxFuture<'a, Effect>;

impl BuiltIn {
    /// Returns a command that changes the session, begins no turn and accepts no files.
    pub(crate) const fn new(spec: Spec, run: RunBuiltIn) -> Self {
        Self {
            spec,
            kind: CommandKind::Changes,
            begins_turn: |_, _| BeginsTurn::No,
            takes_files: |_, _| None,
            moves_view: false,
            needs_living_agent: false,
            ends_itself: false,
            run,
        }
    }
}

impl HasSpec for BuiltIn {
    fn spec(&self) -> &Spec {
        &self.spec
    }
}

/// Whether a line begins a turn. Such a line waits while a turn of its agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BeginsTurn {
    /// The line runs immediately and begins no turn.
    No,
    /// The line runs immediately and changes how turns run: later lines that begin a turn wait until it has ended.
    NoButDelays,
    /// The line waits until its turn can begin.
    Yes,
    /// If no turn is running, the line runs before waiting lines, but after commands that delay turns. If a turn is running, the
    /// command is refused.
    IfIdle {
        /// Whether a held queue is released, so its lines run after this one.
        releases: bool,
    },
}

pub(crate) enum Effect {
    /// Show an outcome without a change.
    Show(Outcome),
    /// Commit a change, then show an outcome.
    Change(Outcome, CommandChange),
    /// Work out a change while no other commit can happen, commit it, then show its outcome.
    Prepare(Prepare),
    /// Start a turn with these rows. The outcome is the turn's, with `data` added.
    Turn {
        /// The first rows of the turn.
        messages: Vec<NewMessage>,
        data: serde_json::Map<String, serde_json::Value>,
    },
    /// Start the turn of a stored message again.
    Retry(UnansweredMessage),
}

/// The change that a command commits.
pub(crate) enum CommandChange {
    /// Replace the session's title.
    Title(String),
    /// Replace the session's persona.
    Persona(Persona),
    /// Replace the session's snapshot.
    Snapshot(Box<Built>),
    /// Change the model of the line's agent.
    Model(Chosen),
    /// Add rows to the conversation, before the command's own row.
    Rows(Vec<NewMessage>),
    /// Take a message out of the conversation.
    Drop(DroppedMessage),
}

impl<T: Into<Effect>> From<Result<T, Outcome>> for Effect {
    fn from(result: Result<T, Outcome>) -> Self {
        result.map_or_else(Self::Show, Into::into)
    }
}

impl From<Outcome> for Effect {
    fn from(outcome: Outcome) -> Self {
        Self::Show(outcome)
    }
}
