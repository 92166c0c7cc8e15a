//! Converts a completion into a Messages request.

use patchbay_provider_sdk::{
    Auth, BlobRef, Block, CompletionRequest, HttpRequest, Message, Pair, Part, Piece, Placement, Role, Tool,
    ToolChoice, ToolResult,
};
use serde_json::Value;

use super::{Settings, Thinking, cache};
use crate::body::Json;
use crate::object;
use crate::options::Extra;

/// A request, kept because it may be sent again with part of the answer.
#[derive(Debug)]
pub(super) struct Request {
    /// The body except `messages`.
    fields: Json,
    messages: Vec<Json>,
    /// True if the body has a setting for bound thinking, which needs a header.
    is_bound: bool,
    /// The tools without eager input, until they are sent.
    plain_tools: Option<Vec<Json>>,
    extra: Extra,
}

impl Request {
    pub(super) fn new(request: &CompletionRequest, settings: Settings, extra: Extra) -> Self {
        let mut fields = object! { "model": &request.model, "max_tokens": settings.max_tokens, "stream": true };
        // The API refuses thinking together with a forced tool; the tool takes precedence.
        let forced = is_forced(request) && settings.forced_tools;
        let mut is_bound = false;
        match settings.thinking {
            Thinking::Unsaid => {}
            Thinking::Off(kind) => fields.put("thinking", object! { "type": kind }),
            _ if forced => {}
            Thinking::Budget(_) if !turn_begins_with_thinking(&request.messages) => {}
            Thinking::Budget(tokens) => {
                fields.put("thinking", object! { "type": "enabled", "budget_tokens": tokens });
            }
            Thinking::Adaptive(effort) => {
                // Since Claude Opus 4.7 the default of `display` is `omitted`, and since 5.5 the text between
                // calls is thinking, too (2026-11-23, platform.claude.com, "Controlling thinking display").
                let mut thinking = object! { "type": "adaptive", "display": "summarized" };
                if settings.bound_thinking {
                    is_bound = true;
                    thinking.put("block_binding", object! { "prefix_mismatch_behavior": "drop_block" });
                }
                fields.put("thinking", thinking);
                if let Some(effort) = effort {
                    fields.put("output_config", object! { "effort": effort });
                }
            }
        }
        let mut system: Vec<Json> = request.system.iter().filter_map(|text| self::text(text)).collect();
        let mut points = cache::MOST;
        if let Some(last) = system.last_mut() {
            cache::mark(last);
            points -= 1;
            fields.put("system", system);
        }
        if !request.tools.is_empty() {
            fields.put("tools", request.tools.iter().map(eager_tool).collect::<Vec<_>>());
            match &request.tool_choice {
                ToolChoice::Auto => {}
                ToolChoice::None => fields.put("tool_choice", object! { "type": "none" }),
                ToolChoice::Required | ToolChoice::Named(_) if !settings.forced_tools => {}
                ToolChoice::Required => fields.put("tool_choice", object! { "type": "any" }),
                ToolChoice::Named(name) => fields.put("tool_choice", object! { "type": "tool", "name": name }),
            }
        }
        let bound_from = host_option(request, "bound-from").and_then(|index| index.parse().ok());
        let is_bound_elsewhere =
            |index: usize| settings.bound_thinking && bound_from.is_some_and(|bound_from: usize| index < bound_from);
        let mut messages: Vec<(Role, Vec<Json>)> = request
            .messages
            .iter()
            .enumerate()
            .map(|(index, message)| (message.role, content(message, is_bound_elsewhere(index))))
            .collect();
        // The API refuses empty messages, and joins adjacent messages of one role.
        messages.retain(|(_, content)| !content.is_empty());
        let writes = host_option(request, "purpose") != Some("summary");
        cache::mark_messages(&mut messages, points, writes);
        let messages = messages.into_iter().map(|(role, content)| message(role, content)).collect();
        let plain_tools = (!request.tools.is_empty()).then(|| request.tools.iter().map(tool).collect());
        Self { fields, messages, is_bound, plain_tools, extra }
    }

    /// Removes [`EAGER`] from the tools. Returns false if no tool has it.
    pub(super) fn drop_eager_input(&mut self) -> bool {
        let Some(tools) = self.plain_tools.take() else { return false };
        self.fields.replace("tools", tools);
        true
    }

    /// Creates the request; `partial` is the part of the answer that has arrived.
    pub(super) fn http(&self, partial: &[Json]) -> HttpRequest {
        let mut messages = self.messages.clone();
        let partial = without_last_thinking(partial.to_vec());
        if !partial.is_empty() {
            messages.push(message(Role::Assistant, partial));
        }
        let mut body = self.fields.clone();
        body.put("messages", messages);
        self.extra.merge(&mut body);
        let header = |name: &str, value: &str| Pair { name: name.to_owned(), value: value.to_owned() };
        let mut headers = vec![
            header("content-type", "application/json"),
            header("accept", "text/event-stream"),
            header("anthropic-version", "2023-06-01"),
        ];
        if self.is_bound {
            headers.push(header("anthropic-beta", "thinking-binding-controls-2026-08-01"));
        }
        self.extra.with_headers(HttpRequest {
            method: "POST".to_owned(),
            path_and_query: "/v1/messages".to_owned(),
            headers,
            auth: vec![Auth {
                credential: "api-key".to_owned(),
                placement: Placement::Header(header("x-api-key", "")),
            }],
            body: body.into_body(),
        })
    }
}

/// Returns true if the request forces a call of a tool.
pub fn is_forced(request: &CompletionRequest) -> bool {
    !request.tools.is_empty() && matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Named(_))
}

/// Creates a text block; `None` for blank text, which the API refuses.
pub(super) fn text(text: &str) -> Option<Json> {
    (!text.trim().is_empty()).then(|| object! { "type": "text", "text": text })
}

/// Creates a thinking block, in the form that is attached to its end and sent back.
pub(super) fn thinking(thinking: &str, signature: &str) -> String {
    serde_json::json!({ "type": "thinking", "thinking": thinking, "signature": signature }).to_string()
}

/// Creates a tool call of the assistant.
pub(super) fn tool_use(id: &str, name: &str, input: &str) -> Json {
    object! { "type": "tool_use", "id": tool_id(id), "name": name, "input": Json::raw_object(input) }
}

/// Converts an id to the characters that the API accepts: letters, digits, `_` and `-`. Other ids come from models of
/// other providers; a call and its result get the same converted id.
fn tool_id(id: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if id.is_empty() {
        return "_".to_owned();
    }
    let mut fitting = String::new();
    for byte in id.bytes() {
        if fits(byte) {
            fitting.push(byte.into());
        } else {
            fitting.push_str(&format!("_{byte:02x}"));
        }
    }
    fitting
}

/// The field of a tool that requests the input of its calls while the model is still writing it. Without this field the API sends
/// each value only when it is complete; a long value can mean minutes without data, and the connection times out (2026-11-24,
/// platform.claude.com, "Fine-grained tool streaming": for all models; `ToolParam` of the Python SDK anthropic 2.12.0;
/// github/copilot-cli#4286).
pub(super) const EAGER: &str = "eager_input_streaming";

fn eager_tool(tool: &Tool) -> Json {
    let mut written = self::tool(tool);
    written.put(EAGER, true);
    written
}

fn tool(tool: &Tool) -> Json {
    let mut written = object! { "name": &tool.name };
    if !tool.description.is_empty() {
        written.put("description", &tool.description);
    }
    written.put("input_schema", Json::raw_object(&tool.input_schema));
    written
}

fn message(role: Role, content: Vec<Json>) -> Json {
    let role = match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    object! { "role": role, "content": content }
}

/// Returns an option of the host.
fn host_option<'a>(request: &'a CompletionRequest, name: &str) -> Option<&'a str> {
    let option = |option: &&Pair| option.name.strip_prefix("host:") == Some(name);
    request.options.iter().find(option).map(|option| option.value.as_str())
}

/// Returns the blocks of a message, tool results first, as the API requires. Thinking at the end of an answer is left
/// out: the answer was interrupted, or reached its limit while the model was thinking. All thinking is left out if it is
/// bound to another beginning of the conversation. The API would drop it, too, but only after it was sent, and only for
/// accounts that may use this setting.
fn content(message: &Message, is_bound_elsewhere: bool) -> Vec<Json> {
    let (results, others): (Vec<&Part>, Vec<&Part>) =
        message.parts.iter().partition(|part| matches!(part.block, Block::ToolResult(_)));
    let mut blocks: Vec<Json> =
        results.into_iter().chain(others).filter_map(|part| block(part, message.role)).collect();
    if is_bound_elsewhere {
        blocks.retain(|block| !is_thinking(block));
    }
    without_last_thinking(blocks)
}

/// Removes thinking from the end. The API refuses it in every later request: "The final block in an assistant message
/// cannot be thinking" (2026-11-23, tailcallhq/forgecode#3071, NousResearch/hermes-agent#13010).
fn without_last_thinking(mut blocks: Vec<Json>) -> Vec<Json> {
    while blocks.last().is_some_and(is_thinking) {
        blocks.pop();
    }
    blocks
}

/// Returns true for a block that [`super::Messages`] attached to thinking. Any other thinking is never sent.
fn is_thinking(block: &Json) -> bool {
    let kind = match block {
        Json::Value(block) => block["type"].as_str().map(str::to_owned),
        Json::Raw(block) => block.read().and_then(|block| block["type"].as_str().map(str::to_owned)),
        Json::Blob(..) | Json::Array(_) | Json::Object(_) => None,
    };
    kind.is_some_and(|kind| kind == "thinking" || kind == "redacted_thinking")
}

/// Converts a part; `None` if the API cannot represent it.
fn block(part: &Part, role: Role) -> Option<Json> {
    match &part.block {
        Block::Text(written) => text(written),
        Block::Blob(blob) => Some(if role == Role::User { media(blob) } else { mention(blob) }),
        // Only complete blocks of this codec have data: thinking of an interrupted answer has no signature.
        Block::Thinking(_) | Block::Opaque(_) => part.opaque.as_deref().and_then(carried).map(Json::from),
        Block::ToolCall(call) => Some(tool_use(&call.id, &call.name, &call.input)),
        Block::ToolResult(result) => Some(tool_result(result)),
    }
}

/// Parses the API's block that this codec attached to the end of a contract's block.
fn carried(opaque: &str) -> Option<Value> {
    serde_json::from_str::<Value>(opaque).ok().filter(|block| block.get("type").is_some_and(Value::is_string))
}

fn tool_result(result: &ToolResult) -> Json {
    let content: Vec<Json> = result
        .content
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text(written) => text(written),
            Piece::Blob(blob) => Some(media(blob)),
        })
        .collect();
    let mut written = object! { "type": "tool_result", "tool_use_id": tool_id(&result.call_id) };
    if !content.is_empty() {
        written.put("content", content);
    } else if result.is_error {
        // The API refuses an error without content.
        written.put("content", "(no output)");
    }
    if result.is_error {
        written.put("is_error", true);
    }
    written
}

fn media(blob: &BlobRef) -> Json {
    let kind = match blob.media_type.as_str() {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" => "image",
        "application/pdf" => "document",
        _ => return mention(blob),
    };
    let source = object! { "type": "base64", "media_type": &blob.media_type, "data": Json::blob("", blob.id) };
    let mut written = object! { "type": kind, "source": source };
    if let (Some(name), "document") = (&blob.name, kind) {
        written.put("title", name);
    }
    written
}

/// Returns the text for a blob that cannot be sent.
fn mention(blob: &BlobRef) -> Json {
    let name = blob.name.as_deref().unwrap_or("without a name");
    let said = format!("[a file that cannot be shown here: {name}, {}, {} bytes]", blob.media_type, blob.size);
    object! { "type": "text", "text": said }
}

/// Returns true if thinking with a budget may be requested. Between calls and their results, the API requires that the
/// turn began with thinking, which is not the case if another model began it or thinking was off.
fn turn_begins_with_thinking(messages: &[Message]) -> bool {
    let calls_back = |message: &&Message| message.parts.iter().any(|part| matches!(part.block, Block::ToolResult(_)));
    // Pairs of messages from the end: results, and the calls to which they belong.
    let first = messages.rchunks(2).take_while(|pair| pair.last().as_ref().is_some_and(calls_back)).last();
    let Some(first) = first.and_then(|pair| pair.first()).filter(|message| message.role == Role::Assistant) else {
        return true;
    };
    let thinks = |part: &Part| match (&part.block, part.opaque.as_deref().and_then(carried)) {
        (Block::Thinking(_), Some(_)) => true,
        (_, carried) => carried.is_some_and(|block| block["type"] == "redacted_thinking"),
    };
    first.parts.iter().find(|part| block(part, first.role).is_some()).is_some_and(thinks)
}
