//! Invokes a skill for `/skill NAME` or an alias, or one tool for `/tool`. `line::run`, `builtin/skill` and `builtin/tool` call
//! it.

use std::sync::Arc;

use patchbay_agent::has_tools;
use patchbay_core::{Asker, CallId, Code, MessageKind, Outcome, text};
use patchbay_sandbox::Content;
use patchbay_skill::{InvocationMode, Skill, Snapshot, with_arguments};
use patchbay_tools::{CallContext, OutsideTools, ResolvedTool, SkillTool, ToolInvocation, input_from_text};
use serde_json::{Value, json};

use crate::{
    builtin::{BeginsTurn, CommandChange, Effect},
    line::context::LineContext,
};

/// Invokes the skill `name` with the typed `input`. `command` is the typed command without the input.
pub(crate) async fn skill(line: &LineContext, name: &str, input: &str, command: &str) -> Effect {
    let Some(skill) = line.state.snapshot.skill(name) else { return not_found(name).into() };
    line.session.keep_files_for(skill, line.agent.id()).await;
    match skill.manifest.invocation_mode {
        InvocationMode::ToolDispatch => dispatch(line, skill, input, command).await.into(),
        InvocationMode::LlmOrchestration => instruct(line, skill, input).await,
    }
}

/// Returns whether the skill `name` begins a turn with the typed `input`. Without an input, its instructions are for the next
/// message, which waits for them.
pub(crate) fn begins_turn(snapshot: &Snapshot, name: &str, input: &str) -> BeginsTurn {
    match snapshot.skill(name).map(|skill| skill.manifest.invocation_mode) {
        Some(InvocationMode::LlmOrchestration) if input.is_empty() => BeginsTurn::NoButDelays,
        Some(InvocationMode::LlmOrchestration) => BeginsTurn::Yes,
        Some(InvocationMode::ToolDispatch) | None => BeginsTurn::No,
    }
}

/// Returns whether the skill `name` accepts attached files with the typed `input`: its tool does, and so does the turn that an
/// input begins. A missing skill is reported later.
pub(crate) fn takes_files(snapshot: &Snapshot, name: &str, input: &str) -> bool {
    let mode = snapshot.skill(name).map(|skill| skill.manifest.invocation_mode);
    mode != Some(InvocationMode::LlmOrchestration) || !input.is_empty()
}

pub(crate) fn not_found(name: &str) -> Outcome {
    let name = text::excerpt(name, 80);
    Outcome::error(Code::SkillNotFound, format_args!("skill '{name}' not found in snapshot."))
}

/// Calls the skill's `command_tool`.
async fn dispatch(line: &LineContext, skill: &Skill, input: &str, command: &str) -> Outcome {
    // The snapshot only contains skills of this mode whose tool exists.
    let LineContext { session, state, .. } = line;
    let tool = skill.command_tool().unwrap_or_default();
    let found = match SkillTool::find(&state.snapshot, &tool) {
        Ok(found) => found,
        Err(error) => return Outcome::error(error.code(), error),
    };
    let hint = skill.manifest.input_hint.as_deref();
    let typed = input;
    let input = match input_from_text(found.spec(), input, command, hint) {
        Ok(input) => input,
        Err(error) => return error.into(),
    };
    let outside = session.outside_for(skill, line.agent.id(), &line.client).await;
    // The line as typed, except for white space around the input.
    let typed = format!("{command} {typed}").trim_end().to_owned();
    call(line, ResolvedTool::Skill(found), &input, outside, typed).await
}

/// Runs a tool for a command. `outside` contains the tools outside of the sandbox that the tool can use, and `typed` is the
/// command's line as typed.
pub(crate) async fn call(
    line: &LineContext,
    tool: ResolvedTool<'_>,
    input: &Value,
    outside: OutsideTools,
    typed: String,
) -> Outcome {
    let LineContext { session, state, .. } = line;
    let name = tool.full_name();
    let context = Arc::new(CallContext {
        asker: Asker::Person(session.owner.clone()),
        principal: session.owner.clone(),
        hold: session.log().hold().clone(),
        agent: line.agent.id(),
        workspace: session.workspace().to_owned(),
        snapshot: Arc::clone(&state.snapshot),
        outside,
        progress: line.agent.progress(name),
        inference: Some(line.inference()),
        mode: session.approvals.mode().clone(),
        approvals: session.approvals.get(),
        editor: line.client.editor.clone(),
        line: Some(typed),
        effect: line.effect.clone(),
    });
    let mut call = ToolInvocation::new(CallId::of_line(line.line), tool, input);
    call.attachments = match line.blobs().await {
        Ok(attachments) => attachments,
        Err(outcome) => return outcome,
    };
    match session.host.tools.run(&context, call).await.result {
        Ok(content) => {
            let shown: Vec<_> = content.iter().map(ToString::to_string).collect();
            let content: Vec<_> = content.iter().map(data).collect();
            Outcome::ok(Code::ToolResult, shown.join("\n").trim_end())
                .with_data(json!({"tool": name, "content": content}))
        }
        Err(error) => {
            let outcome = Outcome::error(error.code(), error.for_person());
            outcome.with_data(json!({"tool": name, "kind": error.kind()}))
        }
    }
}

/// Adds the skill's instructions to the conversation, followed by its list of files and tool declarations. With an
/// input, a turn starts; without one, the next message starts it.
async fn instruct(line: &LineContext, skill: &Skill, input: &str) -> Effect {
    let LineContext { session, state, .. } = line;
    let template = match session.host.tools.instructions(&state.snapshot, skill).await {
        Ok(template) => template,
        Err(error) => return Outcome::error(error.code(), error).into(),
    };
    let mut instructions = match with_arguments(&template, input) {
        Ok(instructions) => instructions,
        Err(error) => return Outcome::error(error.code(), error).into(),
    };
    let outside = if has_tools(skill) { session.outside_now(&line.client).await } else { OutsideTools::default() };
    let internal = session.tree_tools(&line.agent);
    instructions += &line.agent.skill_supplement(&state.snapshot, internal, &outside, skill).await;
    let version = state.snapshot.version();
    let mut about = json!({"skill": skill.name, "digest": skill.digest, "snapshot": version});
    if !input.is_empty() {
        // For fronts, which show the command and not the instructions.
        about["input"] = input.into();
    }
    let messages = vec![line.message(MessageKind::Skill, &instructions, Some(about))];
    if !input.is_empty() {
        let data = [("skill".to_owned(), json!(skill.name))].into_iter().collect();
        return Effect::Turn { messages, data };
    }
    let message = format!("Skill '{}' is in the conversation. Your next message is its input.", skill.name);
    Effect::Change(
        Outcome::ok(Code::SkillAdded, message).with_data(json!({"skill": skill.name})),
        CommandChange::Rows(messages),
    )
}

/// Converts a piece of a result to JSON. Binary content is described, not copied.
fn data(content: &Content) -> Value {
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
