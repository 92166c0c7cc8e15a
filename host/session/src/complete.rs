//! Completion of lines from the built-in commands, the snapshot, the personas and the models. Fronts call it while the user
//! types.

use patchbay_command::Completion;

use crate::{Session, builtin};

/// A completion of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// Text that replaces the line from byte `start` on.
    pub text: String,
    /// Byte offset where the replaced text starts.
    pub start: usize,
    /// Description in one line; may be empty.
    pub summary: String,
    /// Whether an argument may follow.
    pub takes_argument: bool,
}

impl Session {
    /// Returns the completions of the partial `line`, in the order of `/commands` and `/skills`.
    pub async fn complete(&self, line: &str) -> Vec<Suggestion> {
        let Some(typed) = line.strip_prefix('/') else { return Vec::new() };
        match typed.split_once(char::is_whitespace) {
            None => self
                .commands()
                .into_iter()
                .filter(|command| command.name.starts_with(typed))
                .map(|command| Suggestion {
                    text: format!("/{}", command.name),
                    start: 0,
                    takes_argument: command.hint.is_some(),
                    summary: command.summary,
                })
                .collect(),
            Some((name, argument)) => {
                let argument = argument.trim_start();
                let start = line.len() - argument.len();
                let spec = builtin::specs().into_iter().find(|spec| spec.name == name);
                let names = match spec.map_or(Completion::None, |spec| spec.completion) {
                    Completion::None => Vec::new(),
                    Completion::Skills => {
                        let snapshot = self.snapshot();
                        snapshot
                            .skills()
                            .map(|skill| (skill.name.to_string(), skill.manifest.summary.clone()))
                            .collect()
                    }
                    Completion::Personas => match self.host.personas(self.workspace()).await {
                        Ok(personas) => personas.names().into_iter().map(|name| (name, String::new())).collect(),
                        Err(error) => {
                            tracing::warn!("no completion of personas: {error}");
                            Vec::new()
                        }
                    },
                    Completion::Models => {
                        let models = self.host.providers.suggestions().await;
                        models.into_iter().map(|model| (model, String::new())).collect()
                    }
                };
                let names = names.into_iter().filter(|(name, _)| name.starts_with(argument));
                names
                    .map(|(text, summary)| Suggestion { text, start, summary, takes_argument: name == "skill" })
                    .collect()
            }
        }
    }
}

#[cfg(test)]
mod tests;
