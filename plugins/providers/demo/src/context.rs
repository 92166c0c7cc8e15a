//! The answer to `show context`: describes a request, for users and tests.

use patchbay_provider_sdk::{BlobRef, Block, CompletionRequest, Part, Piece, Role, ToolChoice};

use crate::history::clip;

/// Returns one line for each part of the request besides the text itself. Sizes are in bytes.
pub(crate) fn show(request: &CompletionRequest) -> Vec<String> {
    let mut lines = vec![
        format!("model: {}", request.model),
        format!("level: {}", request.thinking.as_deref().unwrap_or("provider default")),
        format!("messages: {}", request.messages.len()),
    ];
    for (number, message) in (1..).zip(&request.messages) {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        lines.push(format!("{number} {role}: {}", list(message.parts.iter().map(part))));
    }
    lines.push(format!("system: {}", request.system.len()));
    let first_line = |text: &String| clip(text.lines().next().unwrap_or_default(), 200).to_owned();
    lines.extend((1..).zip(&request.system).map(|(number, text)| format!("system {number}: {}", first_line(text))));
    lines.push(format!("tools: {}", list(request.tools.iter().map(|tool| tool.name.clone()))));
    let choice = match &request.tool_choice {
        ToolChoice::Auto => "auto",
        ToolChoice::None => "none",
        ToolChoice::Required => "required",
        ToolChoice::Named(name) => name,
    };
    lines.push(format!("tool choice: {choice}"));
    let most = request.max_output_tokens.map_or("provider default".to_owned(), |most| most.to_string());
    lines.push(format!("max output tokens: {most}"));
    let options = request.options.iter().map(|option| format!("{}={}", option.name, option.value));
    lines.push(format!("options: {}", list(options)));
    lines
}

fn part(part: &Part) -> String {
    let block = match &part.block {
        Block::Text(text) => format!("text({})", text.len()),
        Block::Blob(of) => blob(of),
        Block::Thinking(text) => format!("thinking({})", text.len()),
        Block::ToolCall(call) => format!("call({}, {}, {})", call.id, call.name, call.input.len()),
        Block::ToolResult(result) => {
            let pieces = result.content.iter().map(|piece| match piece {
                Piece::Text(text) => format!("text({})", text.len()),
                Piece::Blob(of) => blob(of),
            });
            let how = if result.is_error { "failure" } else { "result" };
            format!("{how}({}, {}, {})", result.call_id, result.name, list(pieces))
        }
        Block::Opaque(data) => format!("opaque({})", data.len()),
    };
    match &part.opaque {
        Some(opaque) => format!("{block} + opaque({})", opaque.len()),
        None => block,
    }
}

fn blob(blob: &BlobRef) -> String {
    match &blob.name {
        Some(name) => format!("{}({}, {name})", blob.media_type, blob.size),
        None => format!("{}({})", blob.media_type, blob.size),
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    match items.collect::<Vec<_>>().join(", ") {
        items if items.is_empty() => "none".to_owned(),
        items => items,
    }
}
