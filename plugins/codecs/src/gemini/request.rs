//! Converts a completion into a Gemini request.

use patchbay_provider_sdk::{
    Auth, BlobRef, Block, CompletionRequest, Failure, HttpRequest, Message, Pair, Part, Piece, Placement, Role,
    ToolCall, ToolChoice, ToolResult,
};

use super::is_known;
use crate::{body::Json, object, options::Extra};

/// The signature for calls of another model, which Google documents for transferred histories.
const NOT_OURS: &str = "skip_thought_signature_validator";

/// Settings that differ between models and providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect<'a> {
    /// The id of the credential for `x-goog-api-key`.
    pub credential: &'a str,
    /// The setting for thinking; `None`: nothing is sent.
    pub thinking: Option<Thinking>,
    /// True if the model refuses a history in which the first call of a message has no signature.
    pub signed_calls: bool,
}

/// The setting for thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// A budget in tokens; 0 turns thinking off.
    Budget(u32),
    /// A level by the API's name.
    Level(&'static str),
}

/// Creates the request for a completion.
///
/// # Errors
/// Fails if the operator's options are invalid.
pub fn request(request: &CompletionRequest, dialect: Dialect<'_>) -> Result<HttpRequest, Failure> {
    let extra = Extra::read(&request.options)?;
    let mut body = body(request, dialect);
    extra.merge(&mut body);
    let header = |name: &str, value: &str| Pair { name: name.to_owned(), value: value.to_owned() };
    Ok(extra.with_headers(HttpRequest {
        method: "POST".to_owned(),
        path_and_query: format!("/v1beta/models/{}:streamGenerateContent?alt=sse", encoded(&request.model)),
        headers: vec![header("content-type", "application/json")],
        auth: vec![Auth {
            credential: dialect.credential.to_owned(),
            placement: Placement::Header(header("x-goog-api-key", "")),
        }],
        body: body.into_body(),
    }))
}

/// Encodes a model's name as one segment of a path.
fn encoded(model: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    model.bytes().map(byte).collect()
}

fn body(request: &CompletionRequest, dialect: Dialect<'_>) -> Json {
    let contents = request.messages.iter().filter_map(|message| content(message, dialect));
    let mut body = object! { "contents": contents.collect::<Vec<_>>() };
    let system: Vec<_> = request.system.iter().filter(|text| !text.is_empty()).map(text).collect();
    if !system.is_empty() {
        body.put("systemInstruction", object! { "parts": system });
    }
    if !request.tools.is_empty() {
        let declarations = request.tools.iter().map(|tool| {
            object! {
                "name": &tool.name,
                "description": &tool.description,
                "parametersJsonSchema": Json::raw_object(&tool.input_schema),
            }
        });
        body.put("tools", vec![object! { "functionDeclarations": declarations.collect::<Vec<_>>() }]);
        if let Some(config) = calling(&request.tool_choice) {
            body.put("toolConfig", object! { "functionCallingConfig": config });
        }
    }
    let config = generation(request.max_output_tokens, dialect.thinking);
    if config != (object! {}) {
        body.put("generationConfig", config);
    }
    body
}

fn calling(choice: &ToolChoice) -> Option<Json> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(object! { "mode": "NONE" }),
        ToolChoice::Required => Some(object! { "mode": "ANY" }),
        ToolChoice::Named(name) => Some(object! { "mode": "ANY", "allowedFunctionNames": vec![Json::from(name)] }),
    }
}

fn generation(most: Option<u32>, thinking: Option<Thinking>) -> Json {
    let mut config = object! {};
    if let Some(most) = most {
        config.put("maxOutputTokens", most);
    }
    match thinking {
        // Thoughts may only be requested if the model thinks.
        Some(Thinking::Budget(0)) => config.put("thinkingConfig", object! { "thinkingBudget": 0u32 }),
        Some(Thinking::Budget(tokens)) => {
            config.put("thinkingConfig", object! { "thinkingBudget": tokens, "includeThoughts": true });
        }
        Some(Thinking::Level(level)) => {
            config.put("thinkingConfig", object! { "thinkingLevel": level, "includeThoughts": true });
        }
        None => {}
    }
    config
}

/// Converts a message; `None` if no part can be sent, because the API refuses empty messages.
fn content(message: &Message, dialect: Dialect<'_>) -> Option<Json> {
    let (role, parts) = match message.role {
        Role::User => ("user", user_parts(&message.parts)),
        Role::Assistant => ("model", answered(&message.parts, dialect)),
    };
    (!parts.is_empty()).then(|| object! { "role": role, "parts": parts })
}

/// Returns the parts of a user's message. The results of all calls come first, because they must not be separated.
fn user_parts(parts: &[Part]) -> Vec<Json> {
    let (mut results, mut others) = (Vec::new(), Vec::new());
    for part in parts {
        match &part.block {
            Block::ToolResult(result) => {
                results.push(function_response(result));
                others.extend(result.content.iter().filter_map(|piece| match piece {
                    Piece::Blob(blob) => Some(inline_data(blob)),
                    Piece::Text(_) => None,
                }));
            }
            Block::Text(said) if !said.is_empty() => others.push(text(said)),
            Block::Blob(blob) => others.push(inline_data(blob)),
            _ => {}
        }
    }
    results.append(&mut others);
    results
}

/// Returns the parts of a model's message with their signatures.
fn answered(parts: &[Part], dialect: Dialect<'_>) -> Vec<Json> {
    let first_call = parts.iter().position(|part| matches!(part.block, Block::ToolCall(_)));
    let part = |(at, part): (usize, &Part)| {
        let mut signature = part.opaque.as_deref();
        let mut json = match &part.block {
            Block::Text(said) if !said.is_empty() || signature.is_some() => text(said),
            // A thought without a signature is useless to the model.
            Block::Thinking(thought) if signature.is_some() => object! { "text": thought, "thought": true },
            Block::ToolCall(call) => {
                if dialect.signed_calls && first_call == Some(at) {
                    signature = signature.or(Some(NOT_OURS));
                }
                function_call(call)
            }
            Block::Blob(blob) => inline_data(blob),
            // A whole part, unchanged.
            Block::Opaque(part) => return Some(Json::raw_object(part)).filter(|part| *part != object! {}),
            _ => return None,
        };
        if let Some(signature) = signature {
            json.put("thoughtSignature", signature);
        }
        Some(json)
    };
    let mut sent: Vec<Json> = parts.iter().enumerate().filter_map(part).collect();
    // A thought at the end belongs to an interrupted answer, and is useless on its own.
    while sent.last().is_some_and(is_thought) {
        sent.pop();
    }
    sent
}

fn is_thought(part: &Json) -> bool {
    match part {
        Json::Object(entries) => entries.iter().any(|(key, _)| key == "thought"),
        Json::Raw(part) => part.read().is_some_and(|part| part["thought"] == true),
        Json::Value(_) | Json::Blob(..) | Json::Array(_) => false,
    }
}

fn text(text: &String) -> Json {
    object! { "text": text }
}

fn inline_data(blob: &BlobRef) -> Json {
    object! { "inlineData": object! { "mimeType": &blob.media_type, "data": Json::blob("", blob.id) } }
}

fn function_call(call: &ToolCall) -> Json {
    let mut json = object! { "name": &call.name, "args": Json::raw_object(&call.input) };
    if is_known(&call.id) {
        json.put("id", &call.id);
    }
    object! { "functionCall": json }
}

fn function_response(result: &ToolResult) -> Json {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Blob(blob) => format!("[{} attached]", blob.name.as_ref().unwrap_or(&blob.media_type)),
    };
    let said = result.content.iter().map(piece).collect::<Vec<_>>().join("\n");
    let response = if result.is_error {
        object! { "error": said }
    } else {
        object! { "result": said }
    };
    let mut json = object! { "name": &result.name, "response": response };
    if is_known(&result.call_id) {
        json.put("id", &result.call_id);
    }
    object! { "functionResponse": json }
}
