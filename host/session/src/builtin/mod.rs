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

use std::{pin::Pin, sync::Arc};

use patchbay_agent::Chosen;
use patchbay_command::Spec;
use patchbay_core::Outcome;
use patchbay_store::NewMessage;

use crate::{Session, building::Built, persona::Persona, session::State};

/// A built-in command. What it does to the session is what it gives back: nothing is changed before that is committed.
pub(crate) trait BuiltIn: Sync {
    /// What it is called, takes, and says of itself.
    fn spec(&self) -> &'static Spec;

    /// Works out what the command comes to. `argument` has been checked against the spec.
    fn run<'a>(&'a self, session: &'a Arc<Session>, state: &'a State, argument: &'a str) -> Run<'a>;
}

pub(crate) type Run<'a> = Pin<Box<dyn Future<Output = Effect> + Send + 'a>>;

/// What a line comes to, and what it changes.
pub(crate) struct Effect {
    pub(crate) outcome: Outcome,
    pub(crate) persona: Option<Persona>,
    pub(crate) snapshot: Option<Built>,
    /// The model of the agent in view.
    pub(crate) chosen: Option<Chosen>,
    /// Whether a turn runs on `messages`; the outcome is the turn's then.
    pub(crate) turn: bool,
    /// Rows that come before the command's own.
    pub(crate) messages: Vec<NewMessage>,
}

impl From<Outcome> for Effect {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, persona: None, snapshot: None, chosen: None, turn: false, messages: Vec::new() }
    }
}

/// The table, in the order of `/commands`.
pub(crate) const TABLE: &[&dyn BuiltIn] = &[
    &skills::Skills,
    &skill::Skill,
    &reload_skills::ReloadSkills,
    &agent::Agent,
    &help::Help,
    &commands::Commands,
    &model::Model,
    &providers::Providers,
    &quit::Quit,
];

/// The specs of the table, for whoever routes, documents or completes commands.
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
