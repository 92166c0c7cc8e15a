//! The options that fronts offer in menus: the model of the agent in view, its thinking level, the persona and the mode. A choice
//! in a menu submits the command `/model`, `/agent` or `/mode`. The only difference from typing the command is that `/model` is
//! also accepted during a turn.

use std::{collections::BTreeSet, sync::Arc};

use patchbay_core::{Code, EventKind, Outcome, completion::ThinkingLevel, text};
use patchbay_provider::{Choice, ReadyModel};

use patchbay_tools::Mode;

use crate::Session;

/// Maximum number of choices of one option. Providers may list thousands of models; `/model` accepts all of them.
const CHOICES: usize = 200;
/// Maximum number of names in an error.
const NAMES: usize = 12;
/// The value if no thinking level is chosen, which means the provider's default.
const DEFAULT_LEVEL: &str = "default";

/// An option of a session that clients can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// The model of the agent in view.
    Model,
    /// The thinking level of that model.
    Thinking,
    /// The persona, from the next turn on.
    Persona,
    /// How far tools may go, from their next effect on.
    Mode,
}

/// An option of a session with its choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOption {
    /// Which of the options this is.
    pub kind: OptionKind,
    /// The value in force, which is one of the choices.
    pub current: String,
    /// The choices that are offered; at most 200.
    pub choices: Vec<OptionChoice>,
}

/// One of the values that an option can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionChoice {
    /// The value that [`Session::set_option`] accepts.
    pub value: String,
    /// The name that is shown to the user.
    pub name: String,
    /// A description of the choice; `None` if the name is enough.
    pub description: Option<String>,
}

impl OptionChoice {
    fn named(value: impl Into<String>) -> Self {
        let value = value.into();
        Self { name: value.clone(), value, description: None }
    }
}

impl Session {
    /// Returns the options with their choices. For a model without thinking levels, the option for the level is missing.
    pub async fn options(&self) -> Vec<SessionOption> {
        let model = self.model_chosen().await;
        let mut options = vec![self.model_option(&model).await];
        if let Ok(choice) = &model {
            options.extend(self.thinking_option(choice).await);
        }
        options.push(self.persona_option().await);
        options.push(self.mode_option());
        options
    }

    /// Returns whether the options may differ after an event. The caller compares them.
    pub fn may_change_options(event: &EventKind) -> bool {
        match event {
            EventKind::LineEnded { outcome, .. } => outcome.code != Code::Answered,
            EventKind::ViewMoved | EventKind::Notice { .. } => true,
            kind => kind.tool_result().is_some_and(|result| result.name == "set_agent_model"),
        }
    }

    /// Sets an option for the agent in view by running the option's command, which is stored as if it had been typed. A model is
    /// used from the next request on, even during a turn.
    ///
    /// # Errors
    /// The outcome of the command. If the value is not among the choices, an outcome that names them.
    pub async fn set_option(self: &Arc<Self>, kind: OptionKind, value: &str) -> Result<(), Outcome> {
        let line = match kind {
            OptionKind::Model => format!("/model {value}"),
            OptionKind::Thinking => {
                let choice = self.model_chosen().await?;
                let levels = self.thinking_option(&choice).await;
                let levels = levels.map_or_else(|| vec![OptionChoice::named(DEFAULT_LEVEL)], |option| option.choices);
                check(&levels, value, Code::InvalidThinkingLevel, "Invalid thinking level", "Valid levels")?;
                let choice = Choice { level: ThinkingLevel::from_word(value), ..choice };
                format!("/model {}", choice.as_argument())
            }
            OptionKind::Persona => {
                let personas = self.persona_option().await.choices;
                check(&personas, value, Code::PersonaNotFound, "Unknown persona", "Personas")?;
                format!("/agent {value}")
            }
            OptionKind::Mode => {
                check(&self.mode_option().choices, value, Code::InvalidArgs, "Unknown mode", "Modes")?;
                format!("/mode {value}")
            }
        };
        let outcome = self.submit_during_turn(&line).await;
        if outcome.is_ok() { Ok(()) } else { Err(outcome) }
    }

    /// Returns the model of the next request of the agent in view.
    async fn model_chosen(&self) -> Result<Choice, Outcome> {
        self.agent_in_view().chosen().effective(self.host.providers.as_ref()).await
    }

    /// Returns the option for the model: first the models in use, then the models that can answer, in the order of the providers'
    /// lists.
    async fn model_option(&self, current: &Result<Choice, Outcome>) -> SessionOption {
        let in_use: Vec<Choice> = self.agents().living().filter_map(|agent| agent.chosen().model).collect();
        let listed = self.host.providers.ready_models().await;
        let mut choices = Choices::default();
        let current = match current {
            Ok(choice) => choices.add_model(choice, &listed),
            Err(why) => {
                let description = Some(text::excerpt(why.message.lines().next().unwrap_or_default(), 200));
                choices.add(OptionChoice { description, ..OptionChoice::named("no model answers") })
            }
        };
        for choice in &in_use {
            choices.add_model(choice, &listed);
        }
        for ReadyModel { provider, id, .. } in listed.iter().filter(|model| !model.needs_key) {
            let choice = Choice { provider: provider.clone(), model: id.clone(), level: None };
            choices.add_model(&choice, &listed);
        }
        SessionOption { kind: OptionKind::Model, current, choices: choices.list }
    }

    /// Returns the levels of a model; `None` if it has none.
    async fn thinking_option(&self, choice: &Choice) -> Option<SessionOption> {
        let known = self.host.providers.model(&choice.provider, &choice.model).await.unwrap_or_default();
        let mut levels = known.levels;
        // The chosen level is listed even if the model does not have it. It is then sent as the nearest one.
        levels.extend(choice.level);
        levels.sort_unstable();
        levels.dedup();
        if levels.is_empty() {
            return None;
        }
        let words = std::iter::once(DEFAULT_LEVEL).chain(levels.iter().map(|level| level.as_str()));
        Some(SessionOption {
            kind: OptionKind::Thinking,
            current: choice.level.map_or(DEFAULT_LEVEL, ThinkingLevel::as_str).to_owned(),
            choices: words.map(OptionChoice::named).collect(),
        })
    }

    fn mode_option(&self) -> SessionOption {
        let choice = |mode: Mode| OptionChoice {
            description: Some(mode.meaning().to_owned()),
            ..OptionChoice::named(mode.as_str())
        };
        let choices = Mode::ALL.into_iter().map(choice).collect();
        SessionOption { kind: OptionKind::Mode, current: self.mode().to_string(), choices }
    }

    async fn persona_option(&self) -> SessionOption {
        let current = self.state().persona.name.to_string();
        let mut choices = Choices::default();
        choices.add(OptionChoice::named(&*current));
        let names = match self.host.personas(self.workspace()).await {
            Ok(personas) => personas.names(),
            Err(error) => {
                tracing::warn!("cannot list the personas: {error}");
                BTreeSet::new()
            }
        };
        for name in names {
            choices.add(OptionChoice::named(name));
        }
        SessionOption { kind: OptionKind::Persona, current, choices: choices.list }
    }
}

/// Choices of one option, each value once.
#[derive(Default)]
struct Choices {
    list: Vec<OptionChoice>,
    values: BTreeSet<String>,
}

impl Choices {
    /// Adds a choice, if there is room for it. Returns its value.
    fn add(&mut self, choice: OptionChoice) -> String {
        let value = choice.value.clone();
        if self.list.len() < CHOICES && self.values.insert(value.clone()) {
            self.list.push(choice);
        }
        value
    }

    fn add_model(&mut self, choice: &Choice, listed: &[ReadyModel]) -> String {
        let value = Choice { level: None, ..choice.clone() }.as_argument();
        let of_choice = |model: &&ReadyModel| model.provider == choice.provider && model.id == choice.model;
        let name = listed.iter().find(of_choice).map_or_else(|| value.clone(), |model| model.name.clone());
        self.add(OptionChoice { value, name, description: Some(choice.provider.to_string()) })
    }
}

/// Checks that a value is one of the choices.
fn check(choices: &[OptionChoice], value: &str, code: Code, what: &str, valid: &str) -> Result<(), Outcome> {
    if choices.iter().any(|choice| choice.value == value) {
        return Ok(());
    }
    let mut names: Vec<&str> = choices.iter().take(NAMES).map(|choice| &*choice.value).collect();
    let more = choices.len().saturating_sub(NAMES);
    let rest = format!("… and {more} more");
    if more > 0 {
        names.push(&rest);
    }
    Err(Outcome::refused(code, format!("{what}: {}\n{valid}: {}", text::excerpt(value, 80), names.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_bounded_and_each_is_there_once() {
        let mut choices = Choices::default();
        for number in 0..1_000 {
            choices.add(OptionChoice::named(format!("{}", number / 2)));
        }
        let values: Vec<&str> = choices.list.iter().map(|choice| &*choice.value).collect();
        assert_eq!((values.len(), values[0], values[1], values[199]), (CHOICES, "0", "1", "199"));
    }

    #[test]
    fn error_names_the_first_choices() {
        let choices: Vec<_> = (0..20).map(|number| OptionChoice::named(format!("p{number}"))).collect();
        assert!(check(&choices, "p19", Code::PersonaNotFound, "Unknown persona", "Personas").is_ok());
        let refused = check(&choices, "x\u{1b}y", Code::PersonaNotFound, "Unknown persona", "Personas").unwrap_err();
        let expected = "Unknown persona: xy\nPersonas: p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, … and 8 more";
        assert_eq!((refused.code, &*refused.message), (Code::PersonaNotFound, expected));
    }
}
