//! The built-in commands, one file each. Routing, `/commands`, completion and the documents use the table [`TABLE`].

mod agent;
mod agents;
mod cancel;
mod capture;
mod commands;
mod compact;
mod context;
mod diff;
mod drop;
mod effect;
mod fork;
mod help;
mod history;
mod kill;
mod mail_check;
mod mail_delete;
mod mail_filter;
mod mail_read;
mod mail_send;
mod mode;
mod model;
mod providers;
mod quit;
mod reload_skills;
mod rename;
mod retry;
mod rewind;
mod skill;
mod skills;
mod switch;
mod tool;
mod undo;
mod usage;

use patchbay_command::Spec;

use crate::line::order::CommandKind;
pub(crate) use effect::{BeginsTurn, BuiltIn, CommandChange, Effect};

/// All built-in commands, in the order of `/commands`.
pub(crate) static TABLE: &[&BuiltIn] = &[
    &skills::COMMAND,
    &skill::COMMAND,
    &tool::COMMAND,
    &reload_skills::COMMAND,
    &agent::COMMAND,
    &help::COMMAND,
    &commands::COMMAND,
    &mode::COMMAND,
    &model::COMMAND,
    &fork::COMMAND,
    &kill::COMMAND,
    &agents::COMMAND,
    &switch::COMMAND,
    &capture::COMMAND,
    &cancel::COMMAND,
    &mail_send::COMMAND,
    &mail_check::COMMAND,
    &mail_read::COMMAND,
    &mail_delete::COMMAND,
    &mail_filter::COMMAND,
    &retry::COMMAND,
    &drop::COMMAND,
    &diff::COMMAND,
    &undo::COMMAND,
    &rewind::COMMAND,
    &history::COMMAND,
    &compact::COMMAND,
    &context::COMMAND,
    &usage::COMMAND,
    &providers::COMMAND,
    &rename::COMMAND,
    &quit::COMMAND,
];

/// Returns the specs of all built-in commands, for completion and the generated documents.
pub fn specs() -> Vec<&'static Spec> {
    TABLE.iter().map(|command| &command.spec).collect()
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
