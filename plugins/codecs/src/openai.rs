//! Common parts of OpenAI's two APIs and of compatible servers: requests, blobs, errors, reasoning effort.

mod error;
#[cfg(test)]
pub(crate) mod fixtures;

use patchbay_provider_sdk::{Auth, BlobRef, CompletionRequest, HttpRequest, Pair, Placement, ThinkingPlan};
use serde_json::Value;

use crate::body::Json;
use crate::thinking::{Level, plan};

pub(crate) use error::api_error;
pub use error::refused;

/// The id of the only credential of these adapters.
pub const CREDENTIAL: &str = "api-key";

/// Creates a request for a response of events, with the key as bearer token.
pub(crate) fn post(path: &str, body: &Json) -> HttpRequest {
    let pair = |name: &str, value: &str| Pair { name: name.to_owned(), value: value.to_owned() };
    HttpRequest {
        method: "POST".to_owned(),
        path_and_query: path.to_owned(),
        headers: vec![pair("content-type", "application/json"), pair("accept", "text/event-stream")],
        auth: vec![Auth {
            credential: CREDENTIAL.to_owned(),
            placement: Placement::Header(pair("authorization", "Bearer ")),
        }],
        body: body.body(),
    }
}

/// Creates a request for JSON, with the key as bearer token.
pub fn get(path: &str, credential: &str) -> HttpRequest {
    let pair = |name: &str, value: &str| Pair { name: name.to_owned(), value: value.to_owned() };
    HttpRequest {
        method: "GET".to_owned(),
        path_and_query: path.to_owned(),
        headers: vec![pair("accept", "application/json")],
        auth: vec![Auth {
            credential: credential.to_owned(),
            placement: Placement::Header(pair("authorization", "Bearer ")),
        }],
        body: Vec::new(),
    }
}

/// Joins the system context into one string; `None` if it is empty.
pub(crate) fn system(request: &CompletionRequest) -> Option<String> {
    (!request.system.is_empty()).then(|| request.system.join("\n\n"))
}

/// The form in which a blob is sent.
pub(crate) enum Media {
    Image(Json),
    /// A PDF, as its name and a data URL.
    Pdf(String, Json),
    /// A text that tells the model about a blob that cannot be sent.
    Words(String),
}

pub(crate) fn media(blob: &BlobRef) -> Media {
    let url = || Json::blob(format!("data:{};base64,", blob.media_type), blob.id);
    match blob.media_type.as_str() {
        image if image.starts_with("image/") => Media::Image(url()),
        "application/pdf" => Media::Pdf(blob.name.clone().unwrap_or_else(|| "document.pdf".to_owned()), url()),
        other => {
            let name = blob.name.as_deref().unwrap_or("a file");
            Media::Words(format!("[{name}: {other}, {} bytes, which this API does not accept]", blob.size))
        }
    }
}

/// Returns the effort for a level, and its description, if all that is known about a model is that it accepts an
/// effort. For `none` nothing is sent, because not all models accept it.
pub fn by_effort(level: Option<&str>) -> (Option<&'static str>, ThinkingPlan) {
    match level.and_then(Level::parse) {
        None => (None, plan("Thinking: provider default")),
        Some(Level::None) => {
            let warning = "This provider cannot be asked to disable thinking".to_owned();
            (None, ThinkingPlan { warning: Some(warning), ..plan("Thinking: provider default") })
        }
        Some(level) => (Some(level.word()), plan(format!("Thinking: {} effort", level.word()))),
    }
}

/// Returns the value of one of the operator's options, which must be one of two values; `None` if it is not set.
///
/// # Errors
/// A message for the operator if it has another value.
pub fn one_of<'a>(options: &[Pair], name: &str, values: [&'a str; 2]) -> Result<Option<&'a str>, String> {
    let Some(option) = options.iter().find(|option| option.name == name) else { return Ok(None) };
    let found = values.into_iter().find(|value| *value == option.value);
    let [one, two] = values;
    let message = || format!("option '{name}' of this provider must be '{one}' or '{two}', not '{}'", option.value);
    found.map(Some).ok_or_else(message)
}

/// Returns the host's key for caches, at most 64 characters: OpenAI, Azure and Meta refuse longer ones (2026-11-23,
/// theopenco/llmgateway#3110).
pub(crate) fn cache_key(options: &[Pair]) -> Option<String> {
    let key = options.iter().find(|option| option.name == "host:cache-key")?;
    Some(key.value.chars().take(64).collect())
}

/// Returns a string field of an event; empty if it is missing.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a number of an event by its path; 0 if it is missing.
pub(crate) fn count(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}
