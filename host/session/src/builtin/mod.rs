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
pub(crate) use effect::{BeginsTurn, BuiltIn, CommandChange, Effect, EffectFuture};

/// All built-in commands, in the order of `/commands`.
pub(crate) const TABLE: &[&dyn BuiltIn] = &[
    &skills::SkillsCommand,
    &skill::SkillCommand,
    &tool::ToolCommand,
    &reload_skills::ReloadSkillsCommand,
    &agent::AgentCommand,
    &help::HelpCommand,
    &commands::CommandsCommand,
    &mode::ModeCommand,
    &model::ModelCommand,
    &fork::ForkCommand,
    &kill::KillCommand,
    &agents::AgentsCommand,
    &switch::SwitchCommand,
    &capture::CaptureCommand,
    &cancel::CancelCommand,
    &mail_send::MailSendCommand,
    &mail_check::MailCheckCommand,
    &mail_read::MailReadCommand,
    &mail_delete::MailDeleteCommand,
    &mail_filter::MailFilterCommand,
    &retry::RetryCommand,
    &drop::DropCommand,
    &diff::DiffCommand,
    &undo::UndoCommand,
    &rewind::RewindCommand,
    &history::HistoryCommand,
    &compact::CompactCommand,
    &context::ContextCommand,
    &usage::UsageCommand,
    &providers::ProvidersCommand,
    &rename::RenameCommand,
    &quit::QuitCommand,
];

/// Returns the specs of all built-in commands, for completion and the generated documents.
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
