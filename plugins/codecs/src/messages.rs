//! The codec of Anthropic Messages, `POST /v1/messages`.
//!
//! The API's thinking block is attached to the end of the contract's block and sent back unchanged, because its signature
//! covers the exact text. Blocks of unknown kinds (the server's tools) are passed on as opaque blocks in the same way.

mod cache;
mod request;
mod wire;

use std::collections::BTreeMap;

use patchbay_provider_sdk::{Action, BlockKind, CompletionRequest, Failure, HttpRequest, Pair, Retry, ToolHead, Usage};
use serde_json::Value;

pub use request::is_forced;

use crate::body::Json;
use crate::failure::{duration_ms, failure, header, kind_of_status, no_events, retry};
use crate::options::Extra;
use crate::stream::{Codec, Out, Stream};

/// Settings that differ between models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The setting for thinking.
    pub thinking: Thinking,
    /// The limit of the answer in tokens, including its thinking.
    pub max_tokens: u32,
    /// True if the model accepts a tool choice that forces a call. Otherwise `auto` is sent instead, because the API
    /// refuses the request: `claude-opus-5-5`, `claude-sonnet-5-5` and `claude-fable-5-1` (2026-11-23,
    /// platform.claude.com, "What's new in Claude Opus 5.5", "Forced tool use is not supported").
    pub forced_tools: bool,
    /// True if the model binds its thinking to the model, the system context, the tools and the earlier messages. After
    /// a change of any of these, the API refuses bound thinking; with this setting, it drops such thinking instead
    /// (2026-11-23, `block_binding` of the Python SDK anthropic 2.12.0).
    pub bound_thinking: bool,
}

/// The setting for thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// No setting for thinking is sent.
    Unsaid,
    /// Thinking is turned off with this type: `disabled` or `between_tools`.
    Off(&'static str),
    /// A budget for thinking, in tokens.
    Budget(u32),
    /// Adaptive thinking with an effort: `low`, `medium`, `high`; `None`: the model's default.
    Adaptive(Option<&'static str>),
}

/// Maximum number of pauses of one completion. Without a limit, a server could pause endlessly.
const MAX_PAUSES: u32 = 16;

/// The state of one completion.
#[derive(Debug)]
pub struct Messages {
    request: request::Request,
    /// Blocks of the assistant's message, for the request after a pause: the blocks before the last pause, then the current blocks.
    content: Vec<Json>,
    /// The open blocks, by the API's index.
    open: BTreeMap<u64, Open>,
    /// Token usage before the last pause; `usage` has the usage since then.
    before: Usage,
    usage: wire::Usage,
    stop: Option<String>,
    started: bool,
    pauses: u32,
}

/// An open block, with its index in the contract's numbering.
#[derive(Debug)]
enum Open {
    Text { index: u32, text: String },
    Thinking { index: u32, text: String, signature: String },
    Call { index: u32, head: ToolHead, start: Value, input: String },
    Opaque { index: u32, start: Value, input: String },
}

impl Messages {
    /// Begins the completion, and returns its first actions.
    pub fn begin(request: &CompletionRequest, settings: Settings) -> (Stream<Self>, Vec<Action>) {
        let extra = Extra::read(&request.options);
        let request = request::Request::new(request, settings, extra.clone().unwrap_or_default());
        let first = extra.map(|_| request.http(&[]));
        let codec = Self {
            request,
            content: Vec::new(),
            open: BTreeMap::new(),
            before: nothing(),
            usage: wire::Usage::default(),
            stop: None,
            started: false,
            pauses: 0,
        };
        Stream::begin_or_fail(codec, first)
    }

    fn start_block(&mut self, at: u64, block: Value, out: &mut Out) {
        let word = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let open = match word("type").as_str() {
            "text" => {
                let index = out.start(BlockKind::Text);
                let text = word("text");
                out.delta(index, text.as_str());
                Open::Text { index, text }
            }
            "thinking" => {
                let index = out.start(BlockKind::Thinking);
                let text = word("thinking");
                out.delta(index, text.as_str());
                Open::Thinking { index, text, signature: word("signature") }
            }
            "tool_use" => {
                let head = ToolHead { id: word("id"), name: word("name") };
                let index = out.start(BlockKind::ToolCall(head.clone()));
                let start = block.get("input").cloned().unwrap_or_default();
                Open::Call { index, head, start, input: String::new() }
            }
            kind => {
                let index = out.start(BlockKind::Opaque(kind.to_owned()));
                Open::Opaque { index, start: block, input: String::new() }
            }
        };
        self.open.insert(at, open);
    }

    fn grow_block(&mut self, at: u64, delta: wire::Delta, out: &mut Out) {
        match (self.open.get_mut(&at), delta) {
            (Some(Open::Text { index, text }), wire::Delta::Text { text: more }) => {
                text.push_str(&more);
                out.delta(*index, more);
            }
            (Some(Open::Thinking { index, text, .. }), wire::Delta::Thinking { thinking: more }) => {
                text.push_str(&more);
                out.delta(*index, more);
            }
            (Some(Open::Thinking { signature, .. }), wire::Delta::Signature { signature: more }) => {
                signature.push_str(&more);
            }
            (Some(Open::Call { index, input, .. }), wire::Delta::Input { partial_json: more }) => {
                input.push_str(&more);
                out.delta(*index, more);
            }
            (Some(Open::Opaque { input, .. }), wire::Delta::Input { partial_json: more }) => {
                input.push_str(&more);
            }
            // Unknown, or without a representation in the contract.
            _ => {}
        }
    }

    fn end_block(&mut self, at: u64, out: &mut Out) {
        match self.open.remove(&at) {
            Some(Open::Text { index, text }) => {
                out.end(index, None);
                self.content.extend(request::text(&text));
            }
            Some(Open::Thinking { index, text, signature }) => {
                // Without a signature, the API would not accept the block back.
                let block = (!signature.is_empty()).then(|| request::thinking(&text, &signature));
                out.end(index, block.clone());
                self.content.extend(block.and_then(|block| Json::raw(&block)));
            }
            Some(Open::Call { index, head, start, mut input }) => {
                if input.is_empty() {
                    input = if start.is_object() { start.to_string() } else { "{}".to_owned() };
                    out.delta(index, input.as_str());
                }
                out.end(index, None);
                self.content.push(request::tool_use(&head.id, &head.name, &input));
            }
            Some(Open::Opaque { index, mut start, input }) => {
                if let (Some(block), Ok(input)) = (start.as_object_mut(), serde_json::from_str(&input)) {
                    block.insert("input".to_owned(), input);
                }
                out.end(index, Some(start.to_string()));
                self.content.push(start.into());
            }
            None => {}
        }
    }

    fn emit_usage(&mut self, more: wire::Usage, out: &mut Out) {
        self.usage.update(more);
        out.usage(sum(&self.before, &self.usage.total()));
    }

    fn end_of_message(&mut self, out: &mut Out) {
        let raw = self.stop.take().unwrap_or_default();
        if raw == "pause_turn" && self.pauses < MAX_PAUSES {
            return self.continue_after_pause(out);
        }
        let stop = match raw.as_str() {
            "end_turn" | "stop_sequence" => "end-turn",
            "tool_use" => "tool-use",
            "max_tokens" => "max-tokens",
            "model_context_window_exceeded" => "context-window",
            "refusal" => "refusal",
            _ => "other",
        };
        out.finish(stop, &raw);
    }

    /// Continues after a pause: the API expects its unfinished message back.
    fn continue_after_pause(&mut self, out: &mut Out) {
        for at in self.open.keys().copied().collect::<Vec<_>>() {
            self.end_block(at, out);
        }
        self.before = sum(&self.before, &self.usage.total());
        self.usage = wire::Usage::default();
        self.pauses += 1;
        out.send(self.request.http(&self.content));
    }
}

impl Codec for Messages {
    fn event(&mut self, _: &str, data: &str, out: &mut Out) {
        // The type is read from the data, because some proxies drop the event's name.
        let event = match serde_json::from_str(data) {
            Ok(event) => event,
            Err(error) => {
                if let Some(error) = wire::refusal(data.as_bytes()) {
                    return out.fail(error_failure(error));
                }
                return out.fail(failure("server", format!("an event of the response cannot be read: {error}")));
            }
        };
        match event {
            wire::Event::MessageStart { message } => {
                if !std::mem::replace(&mut self.started, true) {
                    out.started(&message.model);
                }
                self.emit_usage(message.usage, out);
            }
            wire::Event::ContentBlockStart { index, content_block } => self.start_block(index, content_block, out),
            wire::Event::ContentBlockDelta { index, delta } => self.grow_block(index, delta, out),
            wire::Event::ContentBlockStop { index } => self.end_block(index, out),
            wire::Event::MessageDelta { delta, usage } => {
                if delta.stop_reason.is_some() {
                    self.stop = delta.stop_reason;
                }
                if let Some(explanation) = delta.stop_details.and_then(|details| details.explanation) {
                    out.extra("refusal", explanation);
                }
                self.emit_usage(usage, out);
            }
            wire::Event::MessageStop => self.end_of_message(out),
            wire::Event::Error { error } => out.fail(error_failure(error)),
            wire::Event::Unknown => {}
        }
    }

    /// Sends the request again without eager input if the server does not know that field: Amazon Bedrock and some
    /// gateways accept no unknown fields (2026-11-24, vercel/ai#17179, zed-industries/zed#62806:
    /// "tools.0.custom.eager_input_streaming: Extra inputs are not permitted").
    fn retry_refused(&mut self, status: u16, body: &[u8]) -> Option<HttpRequest> {
        let is_named = [400, 422].contains(&status) && String::from_utf8_lossy(body).contains(request::EAGER);
        (is_named && self.request.drop_eager_input()).then(|| self.request.http(&self.content))
    }

    fn refused(&mut self, status: u16, headers: &[Pair], body: &[u8]) -> Failure {
        refused(status, headers, body)
    }
}

/// Converts a response whose status is not 2xx.
pub fn refused(status: u16, headers: &[Pair], body: &[u8]) -> Failure {
    let error = wire::refusal(body);
    if error.is_none() && (200..300).contains(&status) {
        return no_events(status, headers);
    }
    let used_up = error.as_ref().is_some_and(wire::Error::is_credit_used_up);
    let kind = match &error {
        _ if used_up => "rate-limit",
        Some(error) if status < 400 => kind_of_type(&error.kind).unwrap_or("server"),
        _ => kind_of_status(status),
    };
    let hint = header(headers, "retry-after").and_then(duration_ms);
    let retry = match header(headers, "x-should-retry") {
        _ if used_up => Retry::Never,
        Some("false") => Retry::Never,
        _ => retry(kind, hint),
    };
    let (code, message) = match error {
        Some(error) => (error.code(), error.words()),
        None => (None, format!("the server responded with status {status} and no readable reason")),
    };
    Failure { kind: kind.to_owned(), message, http_status: Some(status), code, retry }
}

/// Converts an error within an answer.
fn error_failure(error: wire::Error) -> Failure {
    if error.is_credit_used_up() {
        return Failure { code: error.code(), retry: Retry::Never, ..failure("rate-limit", error.words()) };
    }
    let kind = kind_of_type(&error.kind).unwrap_or("server");
    Failure { code: error.code(), ..failure(kind, error.words()) }
}

/// Returns the kind of failure for an error type.
fn kind_of_type(word: &str) -> Option<&'static str> {
    match word {
        "invalid_request_error" | "request_too_large" => Some("invalid-request"),
        "authentication_error" | "permission_error" => Some("authentication"),
        "not_found_error" => Some("not-found"),
        "rate_limit_error" => Some("rate-limit"),
        "timeout_error" => Some("timeout"),
        "api_error" | "overloaded_error" => Some("server"),
        _ => None,
    }
}

fn nothing() -> Usage {
    Usage { input_tokens: 0, output_tokens: 0, thinking_tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0 }
}

fn sum(a: &Usage, b: &Usage) -> Usage {
    Usage {
        input_tokens: a.input_tokens.saturating_add(b.input_tokens),
        output_tokens: a.output_tokens.saturating_add(b.output_tokens),
        thinking_tokens: a.thinking_tokens.saturating_add(b.thinking_tokens),
        cache_read_tokens: a.cache_read_tokens.saturating_add(b.cache_read_tokens),
        cache_write_tokens: a.cache_write_tokens.saturating_add(b.cache_write_tokens),
    }
}

#[cfg(test)]
mod tests;
