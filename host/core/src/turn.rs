//! Why a turn begins and how it ends. The store keeps both; events carry them to fronts.

use serde::{Deserialize, Serialize};

/// The reason why a turn began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum TurnCause {
    /// The user: a message, a command, or the prompt of `/fork`.
    Person,
    /// The prompt of the tool `fork`.
    Fork,
    /// The agent had unread mail.
    Mail,
}

/// The state of a turn, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum TurnState {
    /// It is stored and has not begun.
    Waiting,
    /// The turn is running at the moment.
    Running,
    /// It ended by itself, with an error, or because it was stopped.
    Done,
    /// Its process ended or its agent was killed before the turn ended.
    Interrupted,
}

impl TurnCause {
    /// Returns the word that the store uses.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Parses the store's word; `None` if it is unknown.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Person, Self::Fork, Self::Mail].into_iter().find(|cause| cause.as_str() == word)
    }
}

impl TurnState {
    /// Returns the word that the store uses.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Parses the store's word; `None` if it is unknown.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Waiting, Self::Running, Self::Done, Self::Interrupted].into_iter().find(|state| state.as_str() == word)
    }
}
