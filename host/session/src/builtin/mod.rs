//! The built-in commands, one file each. One table of them makes routing, `/commands`, completion and the docs.

mod agent;
mod commands;
mod help;
mod model;
mod providers;
mod quit;
mod reload_skills;
mod skill;
mod skills;

use std::pin::Pin;

use patchbay_agent::Chosen;
use patchbay_command::{HasSpec, Spec};
use patchbay_core::Outcome;
use patchbay_store::NewMessage;

use crate::{building::Built, lines::LineContext, persona::Persona};

/// A built-in command. It returns what it wants to change: nothing is changed before that is committed.
pub(crate) trait BuiltIn: Sync {
    /// Its name, its argument, and its help.
    fn spec(&self) -> &'static Spec;

    /// Works out the effect of the command. `argument` has been checked against the spec.
    fn run<'a>(&'a self, line: &'a LineContext, argument: &'a str) -> EffectFuture<'a>;
}

impl HasSpec for dyn BuiltIn {
    fn spec(&self) -> &Spec {
        self.spec()
    }
}

pub(crate) type EffectFuture<'a> = Pin<Box<dyn Future<Output = Effect> + Send + 'a>>;

/// What a command does.
pub(crate) enum Effect {
    /// Shows an outcome and changes nothing.
    Show(Outcome),
    /// Shows an outcome after a change is committed.
    Change(Outcome, CommandChange),
    /// Begins a turn on these rows; the outcome is the turn's, with `data` added to its own.
    Turn {
        /// Rows that the turn begins with.
        messages: Vec<NewMessage>,
        /// An object.
        data: serde_json::Value,
    },
}

/// What a command changes.
pub(crate) enum CommandChange {
    /// The persona of the session.
    Persona(Persona),
    /// The snapshot of the session.
    Snapshot(Box<Built>),
    /// The model of the line's agent.
    Model(Chosen),
    /// The conversation: rows that come before the command's own.
    Rows(Vec<NewMessage>),
}

impl From<Outcome> for Effect {
    fn from(outcome: Outcome) -> Self {
        Self::Show(outcome)
    }
}

/// The table, in the order of `/commands`.
pub(crate) const TABLE: &[&dyn BuiltIn] = &[
    &skills::SkillsCommand,
    &skill::SkillCommand,
    &reload_skills::ReloadSkillsCommand,
    &agent::AgentCommand,
    &help::HelpCommand,
    &commands::CommandsCommand,
    &model::ModelCommand,
    &providers::ProvidersCommand,
    &quit::QuitCommand,
];

/// The specs of the table. Completion and the generated documents are made of them.
pub fn specs() -> Vec<&'static Spec> {
    TABLE.iter().map(|command| command.spec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_ins_are_reserved_names() {
        for spec in specs() {
            assert!(patchbay_command::RESERVED.contains(&spec.name), "{} is not reserved", spec.name);
        }
        for tool in patchbay_agent::INTERNAL_TOOLS {
            assert!(patchbay_command::RESERVED.contains(tool), "{tool} is not reserved");
        }
    }
}
