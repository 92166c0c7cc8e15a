//! A completion as a request.

use patchbay_provider_sdk::{
    Block, CompletionRequest, HttpRequest, Message, Part, Piece, Role, ToolChoice, ToolResult,
};
use serde_json::Value;

use crate::body::Json;
use crate::object;
use crate::openai::{Media, media, post, system};

/// The API refuses a smaller limit.
const LEAST_OUTPUT_TOKENS: u32 = 16;

/// How a model is asked to reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reasoning {
    /// The API's word for the effort; none: the model's default.
    pub effort: Option<&'static str>,
    /// Whether the model reasons, so that its reasoning can be asked for, encrypted: the API refuses that for others.
    pub encrypted: bool,
}

pub(super) fn request(request: &CompletionRequest, reasoning: Reasoning) -> HttpRequest {
    let mut body = object! {
        "model": &request.model,
        "input": request.messages.iter().flat_map(items).collect::<Vec<_>>(),
        "store": false,
        "stream": true,
    };
    if let Some(system) = system(request) {
        body.put("instructions", system);
    }
    if !request.tools.is_empty() {
        body.put("tools", request.tools.iter().map(tool).collect::<Vec<_>>());
        body.put("tool_choice", tool_choice(&request.tool_choice));
    }
    if let Some(effort) = reasoning.effort {
        body.put("reasoning", object! { "effort": effort, "summary": "auto" });
    }
    if reasoning.encrypted {
        body.put("include", vec!["reasoning.encrypted_content".into()]);
    }
    if let Some(limit) = request.max_output_tokens {
        body.put("max_output_tokens", limit.max(LEAST_OUTPUT_TOKENS));
    }
    post("/responses", body)
}

fn tool(tool: &patchbay_provider_sdk::Tool) -> Json {
    object! {
        "type": "function",
        "name": &tool.name,
        "description": &tool.description,
        "parameters": Json::raw_object(&tool.input_schema),
        // Strict schemas must close every object and require every property: few do.
        "strict": false,
    }
}

fn tool_choice(choice: &ToolChoice) -> Json {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Named(name) => object! { "type": "function", "name": name },
    }
}

/// The items that a message comes to.
fn items(message: &Message) -> Vec<Json> {
    match message.role {
        Role::User => user_items(&message.parts),
        Role::Assistant => assistant_items(&message.parts),
    }
}

fn user_items(parts: &[Part]) -> Vec<Json> {
    let mut items = Vec::new();
    let mut content = Vec::new();
    for part in parts {
        match &part.block {
            Block::Text(text) => content.push(input_text(text)),
            Block::Blob(blob) => content.push(input_blob(blob)),
            Block::ToolResult(result) => {
                items.extend(user_message(std::mem::take(&mut content)));
                let output = output(result);
                items.push(object! { "type": "function_call_output", "call_id": &result.call_id, "output": output });
            }
            Block::Thinking(_) | Block::ToolCall(_) | Block::Opaque(_) => {}
        }
    }
    items.extend(user_message(content));
    items
}

fn user_message(content: Vec<Json>) -> Option<Json> {
    (!content.is_empty()).then(|| object! { "type": "message", "role": "user", "content": content })
}

fn input_text(text: &str) -> Json {
    object! { "type": "input_text", "text": text }
}

fn input_blob(blob: &patchbay_provider_sdk::BlobRef) -> Json {
    match media(blob) {
        Media::Image(url) => object! { "type": "input_image", "detail": "auto", "image_url": url },
        Media::Pdf(name, url) => object! { "type": "input_file", "filename": name, "file_data": url },
        Media::Words(words) => input_text(&words),
    }
}

/// A tool's answer: a text where it is one, which every server takes; else its pieces. That it failed has no field.
fn output(result: &ToolResult) -> Json {
    let texts: Option<Vec<_>> = result
        .content
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Blob(_) => None,
        })
        .collect();
    match texts {
        Some(texts) => texts.join("\n").into(),
        None => {
            let pieces = result.content.iter().map(|piece| match piece {
                Piece::Text(text) => input_text(text),
                Piece::Blob(blob) => input_blob(blob),
            });
            pieces.collect::<Vec<_>>().into()
        }
    }
}

fn assistant_items(parts: &[Part]) -> Vec<Json> {
    let mut items = Vec::new();
    // The API refuses reasoning that nothing follows, as an answer that was cut short leaves it.
    let mut reasoning = Vec::new();
    for part in parts {
        let item = match &part.block {
            Block::Text(text) if !text.is_empty() => output_message(text, part.opaque.as_deref()),
            Block::ToolCall(call) => object! {
                "type": "function_call",
                "call_id": &call.id,
                "name": &call.name,
                "arguments": &call.input,
            },
            Block::Thinking(_) => {
                // Without it the answer was interrupted, and the server would not know the thought.
                reasoning.extend(part.opaque.as_deref().and_then(Json::raw));
                continue;
            }
            _ => continue,
        };
        items.append(&mut reasoning);
        items.push(item);
    }
    items
}

/// What the model said, with what [`super::Responses`] attached to it. In the short form of a message: the long one must have
/// the id that the server gave it, and the server, which stores nothing, would not know it again.
fn output_message(text: &str, opaque: Option<&str>) -> Json {
    let opaque: Value = opaque.and_then(|opaque| serde_json::from_str(opaque).ok()).unwrap_or_default();
    let mut message = object! { "type": "message", "role": "assistant", "content": text };
    if let Some(phase) = opaque["phase"].as_str() {
        message.put("phase", phase);
    }
    message
}
