//! What OpenAI's two APIs share, and with them the servers that speak like them: how a request goes out, what stands for
//! bytes, how errors are told, how hard a model thinks.

mod error;
#[cfg(test)]
pub(crate) mod fixtures;

use patchbay_provider_sdk::{Auth, BlobRef, CompletionRequest, HttpRequest, Pair, Placement, ThinkingPlan};
use serde_json::Value;

use crate::body::Json;
use crate::thinking::{Level, plan};

pub(crate) use error::{api_error, refused};

/// What these APIs' adapters call their one credential, in their manifests and in each request.
pub const CREDENTIAL: &str = "api-key";

/// A request whose answer is to come as events, with the key as a bearer.
pub(crate) fn post(path: &str, body: Json) -> HttpRequest {
    let pair = |name: &str, value: &str| Pair { name: name.to_owned(), value: value.to_owned() };
    HttpRequest {
        method: "POST".to_owned(),
        path_and_query: path.to_owned(),
        headers: vec![pair("content-type", "application/json"), pair("accept", "text/event-stream")],
        auth: vec![Auth {
            credential: CREDENTIAL.to_owned(),
            placement: Placement::Header(pair("authorization", "Bearer ")),
        }],
        body: body.into_body(),
    }
}

/// The system context as one text; none if there is none.
pub(crate) fn system(request: &CompletionRequest) -> Option<String> {
    (!request.system.is_empty()).then(|| request.system.join("\n\n"))
}

/// How a blob may go out.
pub(crate) enum Media {
    /// An image, as a data URL.
    Image(Json),
    /// A PDF, as its name and a data URL.
    Pdf(String, Json),
    /// Not at all: words that stand in its place, so that the model knows of it.
    Words(String),
}

pub(crate) fn media(blob: &BlobRef) -> Media {
    let url = || Json::blob(format!("data:{};base64,", blob.media_type), blob.id);
    match blob.media_type.as_str() {
        image if image.starts_with("image/") => Media::Image(url()),
        "application/pdf" => Media::Pdf(blob.name.clone().unwrap_or_else(|| "document.pdf".to_owned()), url()),
        other => {
            let name = blob.name.as_deref().unwrap_or("a file");
            Media::Words(format!("[{name}: {other}, {} bytes, which this API does not take]", blob.size))
        }
    }
}

/// What a level comes to where all that an adapter knows is that models take an effort: the word that is sent, and the
/// words for the person. `none` cannot be said to all of them, so that nothing is sent for it.
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

/// A string of an event; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A number of an event, by its way in; 0 if there is none.
pub(crate) fn count(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}
