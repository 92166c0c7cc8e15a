//! Converts a completion into the JSON of a Chat Completions request.

use std::borrow::Cow;

use patchbay_provider_sdk::{
    BlobRef, Block, CompletionRequest, Failure, HttpRequest, Message, Part, Piece, Role, Tool, ToolChoice, ToolResult,
};

use super::calls::extra;
use super::reasoning::Kept;
use crate::body::Json;
use crate::object;
use crate::openai::{Media, cache_key, media, post, system};
use crate::options::Extra;

/// Settings that differ between servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// The API's name for the reasoning effort; `None`: the default.
    pub effort: Option<&'static str>,
    /// The name of the field that limits the answer.
    pub limit: LimitField,
    /// Whether earlier thinking is sent.
    pub history: History,
    /// True if `cache_control` is sent, which makes OpenRouter cache Claude's prompts (2026-11-23, openrouter.ai,
    /// `AnthropicCacheControlDirective`: at the top level it marks the last block that can be cached).
    pub cache: bool,
    /// True if the host's cache key is sent as `prompt_cache_key`. Not all servers know the field.
    pub cache_key: bool,
}

/// Whether the model's earlier thinking is sent back to its server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum History {
    /// Thinking is sent back unchanged.
    #[default]
    Keep,
    /// Thinking is not sent back, for servers that reject their own field.
    Drop,
}

/// Sent for an answer that has neither text nor calls. Kimi and Mistral refuse an empty message, and without any
/// message the roles would not alternate, which many models' templates require.
const NO_TEXT: &str = "(no text)";

/// Mistral's requirements for requests (2026-11-23, anomalyco/opencode#1680; avante-corp/avante.nvim#2695):
/// call ids consist of nine letters and digits, and a user's message must not directly follow a tool's
/// message. Other servers that run Mistral's models require the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mistral(bool);

impl Mistral {
    /// Recognises the models by their names, even with an owner in front: `mistralai/Devstral-2`.
    fn of(model: &str) -> Self {
        let model = model.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        let names = ["mistral", "ministral", "magistral", "codestral", "devstral", "pixtral", "mixtral"];
        Self(names.iter().any(|name| model.contains(name)))
    }

    /// Converts a call id. The result depends only on the id.
    fn id(self, id: &str) -> Cow<'_, str> {
        const LENGTH: usize = 9;
        const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        if !self.0 || id.len() == LENGTH && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Cow::Borrowed(id);
        }
        // FNV-1a: the result must be the same in every build.
        let mut hash = id
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let mut digit = || {
            let digit = DIGITS[(hash % 62) as usize];
            hash /= 62;
            char::from(digit)
        };
        (0..LENGTH).map(|_| digit()).collect::<String>().into()
    }
}

/// The name of the field that limits the answer's tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LimitField {
    /// `max_completion_tokens`, as OpenAI calls it.
    #[default]
    MaxCompletionTokens,
    /// `max_tokens`, the older name. Some servers know only this name and ignore the other.
    MaxTokens,
}

pub(super) fn request(request: &CompletionRequest, settings: Settings) -> Result<HttpRequest, Failure> {
    let extra = Extra::read(&request.options)?;
    let mut messages = Vec::new();
    if let Some(system) = system(request) {
        messages.push(object! { "role": "system", "content": system });
    }
    let mistral = Mistral::of(&request.model);
    let thinking: Vec<Kept> = request.messages.iter().map(|message| kept(message, settings.history)).collect();
    // DeepSeek requires the field in all the model's messages, even in messages written by other models (2026-11-23,
    // MoonshotAI/kimi-cli#2141, openclaw/openclaw#73417).
    let is_deepseek = request.model.starts_with("deepseek-") || thinking.iter().any(Kept::is_deepseek);
    let everywhere = is_deepseek && settings.history == History::Keep;
    for (message, kept) in request.messages.iter().zip(thinking) {
        match message.role {
            Role::User => user(&message.parts, mistral, &mut messages),
            Role::Assistant => messages.push(assistant(message, kept, everywhere, mistral)),
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
    if let Some(key) = cache_key(&request.options).filter(|_| settings.cache_key) {
        body.put("prompt_cache_key", key);
    }
    if settings.cache {
        body.put("cache_control", object! { "type": "ephemeral" });
    }
    extra.merge(&mut body);
    Ok(extra.with_headers(post("/chat/completions", &body)))
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
/// requires; then the user's text and the results' files, which tool messages cannot carry.
fn user(parts: &[Part], mistral: Mistral, messages: &mut Vec<Json>) {
    let mut content = Content::default();
    let mut has_results = false;
    for part in parts {
        if let Block::ToolResult(result) = &part.block {
            has_results = true;
            messages.push(tool_message(result, mistral));
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
        if has_results && mistral.0 {
            messages.push(object! { "role": "assistant", "content": "OK." });
        }
        messages.push(object! { "role": "user", "content": content });
    }
}

/// Converts a tool result to text. The API has no field for a failure, so only the result's text can report it.
fn tool_message(result: &ToolResult, mistral: Mistral) -> Json {
    let texts: Vec<_> = result
        .content
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Blob(_) => None,
        })
        .collect();
    let id = mistral.id(&result.call_id);
    object! { "role": "tool", "tool_call_id": &*id, "content": texts.join("\n") }
}

/// Returns the thinking of a message to send back.
fn kept(message: &Message, history: History) -> Kept {
    let mut kept = Kept::default();
    for part in &message.parts {
        if matches!(part.block, Block::Thinking(_)) && history == History::Keep {
            kept.add(part.opaque.as_deref());
        }
    }
    kept
}

/// Converts a model's message: one text, its thinking in the original field, and the calls. Interrupted
/// thinking and other models' thinking have no data and are left out.
fn assistant(message: &Message, kept: Kept, everywhere: bool, mistral: Mistral) -> Json {
    let (mut text, mut calls) = (String::new(), Vec::new());
    for part in &message.parts {
        match &part.block {
            Block::Text(more) => text.push_str(more),
            Block::ToolCall(call) => {
                let mut sent = object! {
                    "id": &*mistral.id(&call.id),
                    "type": "function",
                    "function": object! { "name": &call.name, "arguments": &call.input },
                };
                if let Some(extra) = part.opaque.as_deref().and_then(extra) {
                    sent.put("extra_content", extra);
                }
                calls.push(sent);
            }
            Block::Blob(_) | Block::Thinking(_) | Block::ToolResult(_) | Block::Opaque(_) => {}
        }
    }
    let content = match text.as_str() {
        "" if calls.is_empty() => NO_TEXT.into(),
        "" => Json::Value(serde_json::Value::Null),
        text => text.into(),
    };
    let mut sent = object! { "role": "assistant" };
    kept.put(&mut sent, content, everywhere);
    if !calls.is_empty() {
        sent.put("tool_calls", calls);
    }
    sent
}

/// Collects a user's message. If all parts are text, they become one string, which every server accepts.
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
