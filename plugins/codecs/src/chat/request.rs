//! Converts a completion into the JSON of a Chat Completions request.

use patchbay_provider_sdk::{
    BlobRef, Block, CompletionRequest, HttpRequest, Message, Part, Piece, Role, Tool, ToolChoice, ToolResult,
};

use crate::body::Json;
use crate::object;
use crate::openai::{Media, media, post, system};

/// Settings that differ between servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// The API's word for the reasoning effort; `None`: the default.
    pub effort: Option<&'static str>,
    /// The name of the field for the limit of the answer.
    pub limit: LimitField,
}

/// The name of the field for the limit of the answer's tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LimitField {
    /// `max_completion_tokens`, as OpenAI calls it.
    #[default]
    MaxCompletionTokens,
    /// `max_tokens`, the older name. Some servers know only this one and ignore the other.
    MaxTokens,
}

pub(super) fn request(request: &CompletionRequest, settings: Settings) -> HttpRequest {
    let mut messages = Vec::new();
    if let Some(system) = system(request) {
        messages.push(object! { "role": "system", "content": system });
    }
    for message in &request.messages {
        match message.role {
            Role::User => user(&message.parts, &mut messages),
            Role::Assistant => messages.push(assistant(message)),
        }
    }
    let mut body = object! {
        "model": &request.model,
        "messages": messages,
        "stream": true,
        "stream_options": object! { "include_usage": true },
    };
    if !request.tools.is_empty() {
        body.put("tools", request.tools.iter().map(tool).collect::<Vec<_>>());
        body.put("tool_choice", tool_choice(&request.tool_choice));
    }
    if let Some(effort) = settings.effort {
        body.put("reasoning_effort", effort);
    }
    if let Some(limit) = request.max_output_tokens {
        match settings.limit {
            LimitField::MaxCompletionTokens => body.put("max_completion_tokens", limit),
            LimitField::MaxTokens => body.put("max_tokens", limit),
        }
    }
    post("/chat/completions", body)
}

fn tool(tool: &Tool) -> Json {
    object! {
        "type": "function",
        "function": object! {
            "name": &tool.name,
            "description": &tool.description,
            "parameters": Json::raw_object(&tool.input_schema),
        },
    }
}

fn tool_choice(choice: &ToolChoice) -> Json {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Named(name) => object! { "type": "function", "function": object! { "name": name } },
    }
}

/// Converts a user's message: tool results first, each as a message of its own directly after the calls, as the API
/// requires; then the person's text and any content of results that is not text, which tool messages cannot carry.
fn user(parts: &[Part], messages: &mut Vec<Json>) {
    let mut content = Content::default();
    for part in parts {
        if let Block::ToolResult(result) = &part.block {
            messages.push(tool_message(result));
            for piece in &result.content {
                if let Piece::Blob(blob) = piece {
                    content.text(&format!("From the tool {}:", result.name));
                    content.blob(blob);
                }
            }
        }
    }
    for part in parts {
        match &part.block {
            Block::Text(text) => content.text(text),
            Block::Blob(blob) => content.blob(blob),
            Block::ToolResult(_) | Block::Thinking(_) | Block::ToolCall(_) | Block::Opaque(_) => {}
        }
    }
    if let Some(content) = content.into_json() {
        messages.push(object! { "role": "user", "content": content });
    }
}

/// Converts a tool result to text. The API has no field for a failure, so the text says it.
fn tool_message(result: &ToolResult) -> Json {
    let texts: Vec<_> = result
        .content
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Blob(_) => None,
        })
        .collect();
    object! { "role": "tool", "tool_call_id": &result.call_id, "content": texts.join("\n") }
}

/// Converts a model's message: one text and the calls. Thinking is not sent.
fn assistant(message: &Message) -> Json {
    let (mut text, mut calls) = (String::new(), Vec::new());
    for part in &message.parts {
        match &part.block {
            Block::Text(more) => text.push_str(more),
            Block::ToolCall(call) => calls.push(object! {
                "id": &call.id,
                "type": "function",
                "function": object! { "name": &call.name, "arguments": &call.input },
            }),
            Block::Blob(_) | Block::Thinking(_) | Block::ToolResult(_) | Block::Opaque(_) => {}
        }
    }
    if calls.is_empty() {
        // An empty text keeps the roles alternating, as the templates of many models require.
        return object! { "role": "assistant", "content": text };
    }
    let content = if text.is_empty() { Json::Value(serde_json::Value::Null) } else { text.into() };
    object! { "role": "assistant", "content": content, "tool_calls": calls }
}

/// Creates a user's message. If all parts are texts, they become one text, which every server accepts.
#[derive(Default)]
struct Content {
    texts: Vec<String>,
    parts: Vec<Json>,
    bytes: bool,
}

impl Content {
    fn text(&mut self, text: &str) {
        self.texts.push(text.to_owned());
        self.parts.push(object! { "type": "text", "text": text });
    }

    fn blob(&mut self, blob: &BlobRef) {
        let part = match media(blob) {
            Media::Image(url) => object! { "type": "image_url", "image_url": object! { "url": url } },
            Media::Pdf(name, url) => {
                object! { "type": "file", "file": object! { "filename": name, "file_data": url } }
            }
            Media::Words(words) => return self.text(&words),
        };
        self.bytes = true;
        self.parts.push(part);
    }

    fn into_json(self) -> Option<Json> {
        if self.bytes {
            return Some(self.parts.into());
        }
        (!self.texts.is_empty()).then(|| self.texts.join("\n\n").into())
    }
}
