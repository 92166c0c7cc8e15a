//! Built-in commands, and the effects that they can request.

use std::pin::Pin;

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

/// A built-in command. It returns its effect; nothing changes before the effect is committed.
pub(crate) trait BuiltIn: Sync {
    /// Returns name, argument and help.
    fn spec(&self) -> &'static Spec;

    /// Returns whether the command begins a turn with this argument.
    fn begins_turn(&self, _snapshot: &Snapshot, _argument: &str) -> BeginsTurn {
        BeginsTurn::No
    }

    /// Returns whether the command takes attached files with this argument; `None` if it never does.
    fn takes_files(&self, _snapshot: &Snapshot, _argument: &str) -> Option<bool> {
        None
    }

    /// Returns which commands it waits for, and which wait for it.
    fn kind(&self) -> CommandKind {
        CommandKind::Changes
    }

    /// Returns whether the command brings another agent into view. Lines behind it belong to that agent.
    fn moves_view(&self) -> bool {
        false
    }

    /// Returns whether the command is refused while a dead agent is in view.
    fn needs_living_agent(&self) -> bool {
        false
    }

    /// Returns whether a stop lets the command end by itself, because it changes files.
    fn ends_itself(&self) -> bool {
        false
    }

    /// Computes the effect of the command. The argument was already checked against the spec.
    fn run<'a>(&'a self, line: &'a LineContext, argument: &'a str) -> EffectFuture<'a>;
}

impl HasSpec for dyn BuiltIn {
    fn spec(&self) -> &Spec {
        self.spec()
    }
}

/// Whether a line begins a turn. Such a line waits while a turn of its agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BeginsTurn {
    /// The line runs at once and begins no turn.
    No,
    /// It runs at once, and changes what turns do: later lines that begin one wait until it has ended.
    NoButDelays,
    /// The line waits until its turn can begin.
    Yes,
    /// It runs before waiting lines if no turn runs, after commands that delay it; if a turn runs, the command is refused.
    IfIdle {
        /// Whether held lines run after it.
        releases: bool,
    },
}

pub(crate) type EffectFuture<'a> = Pin<Box<dyn Future<Output = Effect> + Send + 'a>>;

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

impl From<Outcome> for Effect {
    fn from(outcome: Outcome) -> Self {
        Self::Show(outcome)
    }
}
