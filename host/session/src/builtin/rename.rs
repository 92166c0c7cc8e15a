//! `/rename TITLE`: gives the session a title, which session lists show instead of its first words.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome, text};
use serde_json::json;

use super::{BuiltIn, CommandChange, Effect};

/// Length limit of a title in characters.
const TITLE: usize = 100;

pub(super) static COMMAND: BuiltIn = BuiltIn::new(
    Spec {
        name: "rename",
        argument: Argument::Required { usage: "TITLE", what: "a title" },
        summary: "Give the session a title, for lists of sessions",
        completion: Completion::None,
    },
    |_, title| Box::pin(async move { rename(title).into() }),
);

fn rename(title: &str) -> Result<Effect, Outcome> {
    let title = text::clean_line(title).trim().to_owned();
    let length = title.chars().count();
    if title.is_empty() {
        return Err(Outcome::error(Code::InvalidArgs, "/rename requires a title."));
    }
    if length > TITLE {
        let message = format_args!("a title of {length} characters is over the limit of {TITLE}.");
        return Err(Outcome::error(Code::InvalidArgs, message));
    }
    let outcome =
        Outcome::ok(Code::Renamed, format!("This session is now '{title}'.")).with_data(json!({"title": title}));
    Ok(Effect::Change(outcome, CommandChange::Title(title)))
}
