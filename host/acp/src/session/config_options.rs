//! The options that the client offers in menus: model, thinking level, persona and permissions. `task` sends them with the response
//! that opens the session, and again whenever they change.

use patchbay_core::text;
use patchbay_session::{OptionChoice, OptionKind, SessionOption};
use serde_json::{Value, json};

use patchbay_jsonrpc::RpcError;

const ALL: [OptionKind; 4] = [OptionKind::Model, OptionKind::Thinking, OptionKind::Persona, OptionKind::Mode];

/// Returns the id of an option, its category and its name. Custom categories begin with `_`.
/// Source: <https://agentclientprotocol.com/protocol/session-config-options>, 2026-11-23.
fn words(kind: OptionKind) -> (&'static str, &'static str, &'static str) {
    match kind {
        OptionKind::Model => ("model", "model", "Model"),
        OptionKind::Thinking => ("thought_level", "thought_level", "Thinking"),
        OptionKind::Persona => ("mode", "mode", "Persona"),
        OptionKind::Mode => ("permissions", "_permissions", "Permissions"),
    }
}

/// Returns the option with this id.
///
/// # Errors
/// Error -32602 (invalid params), with the valid ids.
pub(crate) fn option_kind(id: &str) -> Result<OptionKind, RpcError> {
    ALL.into_iter().find(|kind| words(*kind).0 == id).ok_or_else(|| {
        let ids: Vec<&str> = ALL.into_iter().map(|kind| words(kind).0).collect();
        RpcError::invalid_params(format_args!("unknown option '{}'; use {}.", text::excerpt(id, 80), ids.join(", ")))
    })
}

/// The options that were sent last; `None` before the response that opens the session.
#[derive(Default)]
pub(super) struct SentOptions(Option<Vec<SessionOption>>);

impl SentOptions {
    /// Returns the whole list for a response.
    pub(super) fn answer(&mut self, options: Vec<SessionOption>) -> Value {
        let list = options.iter().map(option).collect();
        self.0 = Some(options);
        list
    }

    /// Returns the update with the whole list, if it differs from the one that was sent last.
    pub(super) fn update(&mut self, options: Vec<SessionOption>) -> Option<Value> {
        let is_changed = self.0.as_ref().is_some_and(|sent| *sent != options);
        is_changed.then(|| json!({"sessionUpdate": "config_option_update", "configOptions": self.answer(options)}))
    }
}

fn option(SessionOption { kind, current, choices }: &SessionOption) -> Value {
    let choices: Vec<Value> = choices.iter().map(choice).collect();
    let (id, category, name) = words(*kind);
    json!({"type": "select", "id": id, "name": name, "category": category, "currentValue": current, "options": choices})
}

fn choice(OptionChoice { value, name, description }: &OptionChoice) -> Value {
    let mut choice = json!({"value": value, "name": name});
    if let Some(description) = description {
        choice["description"] = description.as_str().into();
    }
    choice
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(current: &str) -> Vec<SessionOption> {
        let choice = |word: &str| OptionChoice { value: word.to_owned(), name: word.to_owned(), description: None };
        let choices = ["default", "low"].map(choice).to_vec();
        vec![SessionOption { kind: OptionKind::Thinking, current: current.to_owned(), choices }]
    }

    #[test]
    fn list_is_sent_whole_when_it_changed() {
        let mut sent = SentOptions::default();
        assert_eq!(sent.update(levels("low")), None);
        let expected = |current| {
            json!([{
                "type": "select", "id": "thought_level", "name": "Thinking", "category": "thought_level",
                "currentValue": current,
                "options": [{"value": "default", "name": "default"}, {"value": "low", "name": "low"}],
            }])
        };
        assert_eq!(sent.answer(levels("low")), expected("low"));
        assert_eq!(sent.update(levels("low")), None);
        let update = sent.update(levels("default")).unwrap();
        assert_eq!(update, json!({"sessionUpdate": "config_option_update", "configOptions": expected("default")}));
    }

    #[test]
    fn unknown_option_is_refused_with_the_ids() {
        assert_eq!(option_kind("mode"), Ok(OptionKind::Persona));
        let refused = option_kind("colour").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "unknown option 'colour'; use model, thought_level, mode, permissions. (-32602)"
        );
    }
}
