//! A line as it was typed. It is parsed once, and its command is resolved when it is submitted. A command that has to wait is
//! resolved again when it begins.

use patchbay_command::{Line, Resolved, resolve};
use patchbay_core::{Name, Outcome};
use patchbay_skill::Snapshot;

use super::{
    capture::CaptureEffect,
    input::{LineInput, refused},
    order::CommandKind,
};
use crate::{
    builtin::{BeginsTurn, BuiltIn, TABLE},
    invoke,
};

pub(crate) enum TypedLine {
    /// Text for the model: the whole line.
    Message,
    Command(TypedCommand),
}

pub(crate) struct TypedCommand {
    /// The name without `/`; empty if the line has none.
    name: String,
    pub(crate) argument: String,
    target: Result<CommandTarget, Outcome>,
}

#[derive(Clone)]
pub(crate) enum CommandTarget {
    BuiltIn(&'static BuiltIn),
    Skill(Name),
}

impl TypedLine {
    /// Parses `line`, and resolves its command with `snapshot`.
    pub(crate) fn read(line: &str, snapshot: &Snapshot) -> Self {
        match Line::parse(line) {
            Ok(Line::Conversation(_)) => Self::Message,
            Ok(Line::Command { name, argument }) => {
                let (target, name) = (CommandTarget::find(name, snapshot), name.to_owned());
                Self::Command(TypedCommand { name, argument: argument.to_owned(), target })
            }
            Err(outcome) => {
                Self::Command(TypedCommand { name: String::new(), argument: String::new(), target: Err(outcome) })
            }
        }
    }

    /// Returns the built-in command; `None` for any other line.
    pub(crate) fn built_in(&self) -> Option<&'static BuiltIn> {
        match self {
            Self::Command(TypedCommand { target: Ok(CommandTarget::BuiltIn(command)), .. }) => Some(*command),
            _ => None,
        }
    }

    /// Returns the kind of the command, which determines the commands that it waits for; `None` for a message.
    pub(crate) fn kind(&self) -> Option<CommandKind> {
        match self {
            Self::Message => None,
            Self::Command(_) => Some(self.built_in().map_or(CommandKind::Calls, |command| command.kind)),
        }
    }

    /// Returns how the line affects capturing. Skills cannot take the names of these commands.
    pub(crate) fn capture_effect(&self) -> CaptureEffect {
        match self {
            Self::Message => CaptureEffect::Message,
            Self::Command(command) => match &*command.name {
                "capture" => CaptureEffect::Begins,
                "fork" | "cancel" => CaptureEffect::Ends,
                _ => CaptureEffect::None,
            },
        }
    }

    /// Returns whether the line begins a turn.
    pub(crate) fn begins_turn(&self, snapshot: &Snapshot) -> BeginsTurn {
        let Self::Command(TypedCommand { argument, target, .. }) = self else { return BeginsTurn::Yes };
        match target {
            Ok(CommandTarget::BuiltIn(command)) => (command.begins_turn)(snapshot, argument),
            Ok(CommandTarget::Skill(skill)) => invoke::begins_turn(snapshot, skill.as_str(), argument),
            Err(_) => BeginsTurn::No,
        }
    }

    /// Removes the files of a built-in command that does not accept any. Returns a notice about them.
    pub(crate) fn drop_unused_files(&self, input: &mut LineInput, snapshot: &Snapshot) -> Option<String> {
        let Self::Command(TypedCommand { argument, .. }) = self else { return None };
        let command = self.built_in().filter(|command| (command.takes_files)(snapshot, argument).is_none())?;
        let (name, files) = (command.spec.name, std::mem::take(&mut input.attachments));
        match &*files {
            [] => None,
            [file] => Some(format!("/{name} does not accept attachments; '{}' was not used.", file.name_and_type().0)),
            files => Some(format!("/{name} does not accept attachments; {} were not used.", files.len())),
        }
    }

    /// Checks the files of the line together, before any part of it runs. A command that ignores files is not refused.
    ///
    /// # Errors
    /// The outcome of a line that is refused.
    pub(crate) fn check_files(&self, input: &LineInput, snapshot: &Snapshot) -> Result<(), Outcome> {
        if input.attachments.is_empty() {
            return Ok(());
        }
        let Self::Command(TypedCommand { name, argument, target }) = self else { return input.check_files(true) };
        let takes = match target {
            Ok(CommandTarget::BuiltIn(command)) => (command.takes_files)(snapshot, argument),
            Ok(CommandTarget::Skill(skill)) => Some(invoke::takes_files(snapshot, skill.as_str(), argument)),
            // The line is refused later.
            Err(_) => Some(true),
        };
        match takes {
            None => Ok(()),
            Some(true) => input.check_files(false),
            Some(false) => Err(refused(format_args!(
                "/{name} accepts attached files only together with an input; nothing was \
                    run."
            ))),
        }
    }
}

impl TypedCommand {
    /// Resolves the command again, because the state may have changed since it was submitted.
    pub(crate) fn resolve(&mut self, snapshot: &Snapshot) {
        if !self.name.is_empty() {
            self.target = CommandTarget::find(&self.name, snapshot);
        }
    }

    /// Returns the command as typed, without its argument.
    pub(crate) fn typed_name(&self) -> String {
        format!("/{}", self.name)
    }

    /// Returns the target that runs the command.
    ///
    /// # Errors
    /// The outcome of a line that names no command.
    pub(crate) fn target(&self) -> Result<CommandTarget, Outcome> {
        self.target.clone()
    }
}

impl CommandTarget {
    fn find(name: &str, snapshot: &Snapshot) -> Result<Self, Outcome> {
        Ok(match resolve(name, TABLE, snapshot)? {
            Resolved::BuiltIn(command) => Self::BuiltIn(command),
            Resolved::Alias(skill) => Self::Skill(skill.clone()),
        })
    }
}
