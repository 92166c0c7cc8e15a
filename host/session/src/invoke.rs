//! Invoking a skill by a command: `/skill NAME` and aliases. No model decides anything here.

use std::{sync::Arc, time::SystemTime};

use patchbay_core::{Asker, CallId, Code, LineId, MessageKind, Outcome, PrincipalId, text};
use patchbay_sandbox::Content;
use patchbay_skill::{InvocationMode, Skill};
use patchbay_tools::{CallContext, ResolvedTool, ToolCall, input_from_text};
use serde_json::json;

use crate::{Session, builtin::Effect, session::State};

/// Invokes the skill `name` with `input` as the person typed it behind `command`.
pub(crate) async fn skill(session: &Arc<Session>, state: &State, name: &str, input: &str, command: &str) -> Effect {
    let Some(skill) = state.snapshot.skill(name) else { return not_found(name).into() };
    match skill.manifest.invocation_mode {
        InvocationMode::ToolDispatch => dispatch(session, state, skill, input, command).await.into(),
        InvocationMode::LlmOrchestration => instruct(session, state, skill, input).await,
    }
}

pub(crate) fn not_found(name: &str) -> Outcome {
    let name = text::excerpt(name, 80);
    Outcome::error(Code::SkillNotFound, format_args!("skill '{name}' not found in snapshot."))
}

/// Calls the skill's `command_tool`.
async fn dispatch(session: &Arc<Session>, state: &State, skill: &Skill, input: &str, command: &str) -> Outcome {
    // A snapshot holds no skill of this mode whose tool is not there.
    let tool = skill.command_tool().unwrap_or_default();
    let resolved = match ResolvedTool::find(&state.snapshot, &[], &tool) {
        Ok(resolved) => resolved,
        Err(error) => return Outcome::error(error.code(), error),
    };
    let hint = skill.manifest.input_hint.as_deref();
    let input = match input_from_text(resolved.spec(), input, command, hint) {
        Ok(input) => input,
        Err(error) => return error.into(),
    };
    let context = Arc::new(CallContext {
        asker: Asker::Person(PrincipalId::LOCAL),
        principal: PrincipalId::LOCAL,
        hold: session.hold().clone(),
        agent: session.agent.id(),
        workspace: session.workspace().to_owned(),
        snapshot: Arc::clone(&state.snapshot),
        progress: session.progress(&tool),
        inference: Some(session.inference()),
    });
    let call = ToolCall::new(CallId::of_line(accepted_now()), resolved, &input);
    match session.host.tools.run(&context, call).await.result {
        Ok(content) => {
            let shown: Vec<_> = content.iter().map(ToString::to_string).collect();
            let content: Vec<_> = content.iter().map(data).collect();
            Outcome::ok(Code::ToolResult, shown.join("\n").trim_end())
                .with_data(json!({"tool": tool, "content": content}))
        }
        Err(error) => {
            let printed: String = error.printed().iter().map(|line| format!("\n  printed: {line}")).collect();
            let outcome = Outcome::error(error.code(), format_args!("{error}{printed}"));
            outcome.with_data(json!({"tool": tool, "kind": error.kind()}))
        }
    }
}

/// The id of a line that is accepted at this moment.
fn accepted_now() -> LineId {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    LineId::new(u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX))
}

/// Puts the skill's instructions into the conversation. With an input a turn runs on them; without, the next message does.
async fn instruct(session: &Session, state: &State, skill: &Skill, input: &str) -> Effect {
    let template = match session.host.tools.instructions(&state.snapshot, skill).await {
        Ok(template) => template,
        Err(error) => return Outcome::error(error.code(), error).into(),
    };
    let takes_input = template.contains("$INPUT");
    let instructions = template.replace("$INPUT", input);
    let about = json!({"skill": skill.name, "digest": skill.digest, "snapshot": state.snapshot.version()});
    let mut messages = vec![session.message(MessageKind::Skill, &instructions, Some(about))];
    if !takes_input && !input.is_empty() {
        messages.push(session.message(MessageKind::User, input, None));
    }
    let message = format!("Skill '{}' is in the conversation. Your next message is its input.", skill.name);
    let outcome = Outcome::ok(Code::SkillAdded, message).with_data(json!({"skill": skill.name}));
    Effect { messages, turn: !input.is_empty(), ..outcome.into() }
}

/// A piece of an answer, for a program. Bytes are named, not copied.
fn data(content: &Content) -> serde_json::Value {
    match content {
        Content::Text(text) => json!({"type": "text", "text": text}),
        Content::Json(value) => json!({"type": "json", "json": value}),
        Content::Blob { media_type, data } => {
            json!({"type": "blob", "media_type": media_type, "size": data.len()})
        }
        Content::Link { path, media_type } => json!({"type": "link", "path": path, "media_type": media_type}),
        Content::Other { name, value } => json!({"type": "other", "name": name, "value": value}),
    }
}
