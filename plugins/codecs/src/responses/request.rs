//! Converts a completion into a Responses request.

use patchbay_provider_sdk::{
    Block, CompletionRequest, HttpRequest, Message, Part, Piece, Role, ToolChoice, ToolResult,
};
use serde_json::Value;

use crate::body::Json;
use crate::object;
use crate::openai::{Media, cache_key, media, post, system};

/// The smallest limit that the API accepts.
const LEAST_OUTPUT_TOKENS: u32 = 16;

/// The setting for reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reasoning {
    /// The API's name for the effort; `None`: the model's default.
    pub effort: Option<&'static str>,
    /// True if the model may reason. Its encrypted reasoning is then requested; if the API refuses that, the
    /// request is sent again without it.
    pub encrypted: bool,
    /// True if a summary of the reasoning is requested with the effort. OpenAI refuses it
    /// to organisations that are not verified.
    pub summary: bool,
}

/// Creates the request with this body.
pub(super) fn http(body: &Json) -> HttpRequest {
    post("/responses", body)
}

/// Removes the request for a summary from a body. `None` if the body has no effort and therefore no such request.
pub(super) fn drop_summary(body: &mut Json, reasoning: &mut Reasoning) -> Option<()> {
    body.replace("reasoning", object! { "effort": reasoning.effort? });
    reasoning.summary = false;
    Some(())
}

/// Removes the request for encrypted reasoning from a body.
pub(super) fn drop_encrypted(body: &mut Json, reasoning: &mut Reasoning) {
    body.remove("include");
    reasoning.encrypted = false;
}

pub(super) fn body(request: &CompletionRequest, reasoning: Reasoning) -> Json {
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
        let mut asked = object! { "effort": effort };
        if reasoning.summary {
            asked.put("summary", "auto");
        }
        body.put("reasoning", asked);
    }
    if reasoning.encrypted {
        body.put("include", vec!["reasoning.encrypted_content".into()]);
    }
    if let Some(limit) = request.max_output_tokens {
        body.put("max_output_tokens", limit.max(LEAST_OUTPUT_TOKENS));
    }
    if let Some(key) = cache_key(&request.options) {
        body.put("prompt_cache_key", key);
    }
    body
}

fn tool(tool: &patchbay_provider_sdk::Tool) -> Json {
    object! {
        "type": "function",
        "name": &tool.name,
        "description": &tool.description,
        "parameters": Json::raw_object(&tool.input_schema),
        // Few schemas meet the rules of strict mode, which closes every object and requires every property.
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

/// Converts a message into items.
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

/// Converts a tool result: as one string if possible, because every server accepts it; otherwise as pieces. The
/// API has no field for a failure.
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
    // The API refuses reasoning at the end, as in an interrupted answer.
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
                // Without data, the answer was interrupted, and the server could not use the thought.
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

/// Converts a text of the model with the data that [`super::Responses`] attached. Uses the short form of a message: the
/// long form requires the server's id, which the server does not know because it stores nothing.
fn output_message(text: &str, opaque: Option<&str>) -> Json {
    let opaque: Value = opaque.and_then(|opaque| serde_json::from_str(opaque).ok()).unwrap_or_default();
    let mut message = object! { "type": "message", "role": "assistant", "content": text };
    if let Some(phase) = opaque["phase"].as_str() {
        message.put("phase", phase);
    }
    message
}
