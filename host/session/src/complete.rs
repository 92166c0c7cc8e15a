//! Completes the line being typed, with built-in commands, skills, tools, personas, models, agents, messages and workspace files.
//! Fronts call it while the user types.

use patchbay_command::Completion;
use patchbay_core::{ToolSpec, text};
use patchbay_provider::SuggestedModel;
use patchbay_skill::Skill;
use patchbay_store::MessageRow;

use crate::{AgentTree, CommandInfo, Session, builtin, filter, recap, workspace_files::PathToken};

/// A completion of the line being typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suggestion {
    /// Text that replaces the bytes from `start` to `end`.
    pub text: String,
    /// Byte offset where the replaced text starts.
    pub start: usize,
    /// Byte offset where the replaced text ends.
    pub end: usize,
    /// Description in one line; may be empty.
    pub summary: String,
    /// Whether more text may follow.
    pub takes_argument: bool,
    /// Heading of the suggestion's group, such as a model's provider. `None` if the suggestions are not grouped.
    pub group: Option<String>,
    /// Whether the suggestion cannot be used yet. The group's heading names the missing setup, such as a key.
    pub is_unready: bool,
}

impl Session {
    /// Returns the completions at the byte `cursor` of `text`: workspace paths after `@`, otherwise completions for the
    /// command being typed. Suggestions that are not ready are last.
    pub async fn complete_at(&self, text: &str, cursor: usize) -> Vec<Suggestion> {
        if let Some(token) = PathToken::at(text, cursor) {
            let sign = if text.starts_with('/') { "" } else { "@" };
            return self.complete_path(&token, sign).await;
        }
        if cursor == text.len() && !text.contains('\n') {
            let mut suggestions = self.complete(text).await;
            // A stable sort keeps the groups together.
            suggestions.sort_by_key(|suggestion| suggestion.is_unready);
            return suggestions;
        }
        Vec::new()
    }

    /// Returns the matching paths, prefixed with `sign`: `@` in a message, where it attaches the file, and nothing in a command.
    /// Paths with whitespace are quoted.
    async fn complete_path(&self, token: &PathToken<'_>, sign: &str) -> Vec<Suggestion> {
        let paths = self.files.find(token.typed).await;
        let suggestion = |path: String| Suggestion {
            text: if path.contains(char::is_whitespace) {
                format!("{sign}\"{path}\"")
            } else {
                format!("{sign}{path}")
            },
            start: token.start,
            end: token.end,
            takes_argument: true,
            ..Suggestion::default()
        };
        paths.into_iter().map(suggestion).collect()
    }

    /// Returns the completions of the partial `line`, in the order of `/commands` and `/skills`: entries that begin with the
    /// typed text or, if there are none, entries that contain its letters in the same order.
    pub async fn complete(&self, line: &str) -> Vec<Suggestion> {
        let Some(typed) = line.strip_prefix('/') else { return Vec::new() };
        let Some((name, argument)) = typed.split_once(char::is_whitespace) else {
            let commands = filter::by_name(self.commands(), typed, |command| &command.name);
            let suggestion = |command: CommandInfo| Suggestion {
                text: format!("/{}", command.name),
                end: line.len(),
                takes_argument: command.hint.is_some(),
                summary: command.summary,
                ..Suggestion::default()
            };
            return commands.into_iter().map(suggestion).collect();
        };
        let argument = argument.trim_start();
        let spec = builtin::specs().into_iter().find(|spec| spec.name == name);
        let named = |(text, summary)| Suggestion { text, summary, ..Suggestion::default() };
        let mut suggestions: Vec<Suggestion> = match spec.map_or(Completion::None, |spec| spec.completion) {
            Completion::None => Vec::new(),
            Completion::Skills => {
                let snapshot = self.snapshot();
                let skills = snapshot.skills().filter(|skill| skill.manifest.audience.menus);
                skills.map(|skill| named((skill.name.to_string(), skill.manifest.summary.clone()))).collect()
            }
            Completion::Tools => self.suggested_tools().await,
            Completion::Personas => match self.host.personas(self.workspace()).await {
                Ok(personas) => personas.names().into_iter().map(|name| named((name, String::new()))).collect(),
                Err(error) => {
                    tracing::warn!("cannot complete personas: {error}");
                    Vec::new()
                }
            },
            Completion::Models => self.suggested_models().await,
            Completion::Agents => self.suggested_agents(name).await,
            Completion::Messages => self.suggested_messages().await,
            Completion::Words(words) => words.iter().map(|word| named(((*word).to_owned(), String::new()))).collect(),
        };
        suggestions = filter::by_name(suggestions, argument, |suggestion| &suggestion.text);
        for suggestion in &mut suggestions {
            (suggestion.start, suggestion.end) = (line.len() - argument.len(), line.len());
            suggestion.takes_argument = matches!(name, "skill" | "tool");
        }
        suggestions
    }

    /// Returns the tools of the snapshot's skills, then the tools outside of the sandbox. Starts no MCP server to list them.
    async fn suggested_tools(&self) -> Vec<Suggestion> {
        let (snapshot, outside) = (self.snapshot(), self.outside_now(&self.front()).await);
        let skills = snapshot.skills().filter(|skill| skill.manifest.audience.menus);
        let of_skill = |skill: &Skill| -> Vec<(String, String)> {
            let named = |tool: &ToolSpec| (format!("{}__{}", skill.name, tool.name), tool.description.clone());
            skill.tools.iter().map(named).collect()
        };
        let of_servers =
            outside.iter().map(|tool| (tool.spec().name().to_owned(), tool.spec().description().to_owned()));
        let suggestion = |(text, description): (String, String)| Suggestion {
            text,
            summary: text::clean_line(description.lines().next().unwrap_or_default()),
            ..Suggestion::default()
        };
        skills.flat_map(of_skill).chain(of_servers).map(suggestion).collect()
    }

    /// Returns the short ids of the living agents. For `/switch`, `parent` and `root` come first.
    async fn suggested_agents(&self, command: &str) -> Vec<Suggestion> {
        let tree = self.agent_tree().await.unwrap_or_else(|error| {
            tracing::warn!("cannot complete agents: {error}");
            AgentTree::default()
        });
        let words = if command == "switch" { &["parent", "root"][..] } else { &[] };
        let words = words.iter().map(|word| Suggestion { text: (*word).to_owned(), ..Suggestion::default() });
        let agents = tree.living.iter().map(|agent| Suggestion {
            text: agent.id.short(),
            summary: format!("{} {}", agent.state.as_str(), agent.model),
            ..Suggestion::default()
        });
        words.chain(agents).collect()
    }

    /// Returns the numbers of the messages to the agent in view, newest first.
    async fn suggested_messages(&self) -> Vec<Suggestion> {
        let messages = self.log().store().messages_to(self.view()).await.unwrap_or_else(|error| {
            tracing::warn!("cannot complete messages: {error}");
            Vec::new()
        });
        let suggestion = |(at, row): (usize, &MessageRow)| Suggestion {
            text: (at + 1).to_string(),
            summary: recap::typed_excerpt(row),
            ..Suggestion::default()
        };
        messages.iter().enumerate().rev().map(suggestion).collect()
    }

    /// Returns the models, grouped by provider. The model in use is marked.
    async fn suggested_models(&self) -> Vec<Suggestion> {
        let models = self.host.providers.suggestions().await;
        let current = self.model_of(&self.agent_in_view()).await.ok();
        let is_current = |model: &SuggestedModel| {
            current.as_ref().is_some_and(|choice| {
                let level = choice.level.map(|level| format!("/{}", level.as_str())).unwrap_or_default();
                choice.provider == model.provider && model.model == format!("{}{level}", choice.model)
            })
        };
        let suggestion = |model: SuggestedModel| Suggestion {
            summary: if is_current(&model) { "in use".to_owned() } else { String::new() },
            group: Some(match model.needs_key {
                true => format!("{} · needs key", model.provider),
                false => model.provider.to_string(),
            }),
            is_unready: model.needs_key,
            text: model.model,
            ..Suggestion::default()
        };
        models.into_iter().map(suggestion).collect()
    }
}

#[cfg(test)]
mod tests;
