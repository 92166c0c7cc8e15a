//! Facts and instructions that all agents of a session get at its start. `session` reads them once and stores them with the session;
//! `conversation` puts them into each request.

use serde::{Deserialize, Serialize};

/// Texts that follow the first introduction of each conversation. They never change, because providers
/// cache the beginning of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// The date, the system, the workspace, and its checked-out branch or commit; empty in sessions of earlier builds.
    pub facts: String,
    /// The instructions of the folders above the workspace, one text for each folder, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<String>,
}

impl Surroundings {
    /// Returns the texts in their order.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.facts).chain(&self.instructions).map(String::as_str)
    }

    /// Returns whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.texts().all(str::is_empty)
    }
}
