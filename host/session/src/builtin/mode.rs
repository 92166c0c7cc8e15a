//! `/mode ask|edits|plan`: sets how far tools may go without asking. The mode applies from the next effect of any agent on, even
//! within a running call.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome, text};
use patchbay_tools::Mode;
use serde_json::json;

use super::{BuiltIn, Effect};
use crate::line::order::CommandKind;

pub(super) static COMMAND: BuiltIn = BuiltIn {
    kind: CommandKind::Overtakes,
    ..BuiltIn::new(
        Spec {
            name: "mode",
            argument: Argument::Optional { usage: "[ask|edits|plan]" },
            summary: "Show or set how far tools may go without asking",
            completion: Completion::Words(&["ask", "edits", "plan"]),
        },
        |line, word| {
            Box::pin(async move {
                let word = word.trim();
                let mode = if word.is_empty() { Ok(line.session.mode()) } else { word.parse::<Mode>() };
                let Ok(mode) = mode else {
                    let word = text::excerpt(word, 40);
                    let message = format!("unknown mode '{word}'; use ask, edits or plan.");
                    return Outcome::error(Code::InvalidArgs, message).into();
                };
                if !word.is_empty() && !line.client.may_answer() {
                    let message = "this client may not answer questions, so it may not set a mode that answers them.";
                    return Outcome::error(Code::Denied, message).into();
                }
                if !word.is_empty() {
                    line.session.set_mode(mode);
                }
                let message = format!("Mode: {mode}. {}", mode.meaning());
                Effect::Show(Outcome::ok(Code::ModeSet, message).with_data(json!({"mode": mode.as_str()})))
            })
        },
    )
};
