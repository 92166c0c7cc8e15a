//! Lists in OpenAI's format: `{"data": [{"id", …}]}`, or only the list. Servers add their own fields (checked 2026-11-23):
//!
//! | field | server | source |
//! | --- | --- | --- |
//! | `created`, `shutdown_date` | OpenAI | Python SDK openai 3.54.0, `Model` |
//! | `context_length`, `architecture`, `pricing`, `top_provider`, `supported_parameters`, `reasoning`, `expiration_date`, `links` | OpenRouter | openrouter.ai, "Models" |
//! | `max_model_len` | vLLM | vllm, `ModelCard` |
//! | `context_window`, `max_completion_tokens`, `active` | Groq | console.groq.com, "Models" |
//! | `max_context_length`, `capabilities`, `deprecation`, `deprecation_replacement_model` | Mistral | docs.mistral.ai, "List models" |

use patchbay_provider_sdk::{Failure, HttpRequest, Pair};
use serde_json::Value;

use super::{Api, Facts, Page, amount, contains, date, list, unix_date};
use crate::openai::{CREDENTIAL, get, refused};

/// Words that appear in the ids of models for other purposes.
const OTHER: [&str; 16] = [
    "audio",
    "babbage",
    "computer-use",
    "dall-e",
    "davinci",
    "embed",
    "image",
    "moderation",
    "ocr",
    "realtime",
    "rerank",
    "search",
    "sora",
    "transcribe",
    "tts",
    "whisper",
];

/// Image formats that every API with image input accepts.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A list in OpenAI's format. The function adds the adapter's own knowledge to a model's facts.
#[derive(Debug)]
pub struct OpenaiList<F>(pub F);

impl<F: Fn(&str, &mut Facts)> Api for OpenaiList<F> {
    fn first(&self) -> HttpRequest {
        get("/models", CREDENTIAL)
    }

    fn page(&mut self, page: &Value) -> Option<Page> {
        let data = if page.is_array() { page } else { page.get("data").or_else(|| page.get("models"))? };
        let models = list(data).iter().filter_map(|model| {
            let id = model["id"].as_str()?;
            let mut facts = facts(id, model);
            (self.0)(id, &mut facts);
            facts.of(&model["id"])
        });
        data.is_array().then(|| Page { models: models.collect(), next: next(&page["links"]["next"]) })
    }

    fn refused(&self, status: u16, headers: &[Pair], body: &[u8]) -> Failure {
        refused(status, headers, body)
    }
}

/// Returns true unless the name of a model shows that it is not for conversations.
pub fn is_chat(id: &str) -> bool {
    let id = id.to_ascii_lowercase();
    !OTHER.iter().any(|word| id.contains(word))
}

/// Returns the request for the next page. The server's link has a path, but the operator sets the base path, so only the query is
/// used.
fn next(link: &Value) -> Option<HttpRequest> {
    let (_, query) = link.as_str()?.split_once('?')?;
    let fits = query.len() <= 512 && query.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    fits.then(|| get(&format!("/models?{query}"), CREDENTIAL))
}

fn facts(id: &str, model: &Value) -> Facts {
    let mut facts = Facts::default();
    facts.text("display-name", &model["name"]);
    facts.text("description", &model["description"]);
    let windows = ["context_length", "max_model_len", "context_window", "max_context_length"];
    for window in windows.iter().map(|name| &model[*name]) {
        facts.tokens("context-window", window);
    }
    for output in [&model["top_provider"]["max_completion_tokens"], &model["max_completion_tokens"]] {
        facts.tokens("max-output-tokens", output);
    }
    media(model, &mut facts);
    let speaks = match (&model["architecture"]["output_modalities"], &model["capabilities"]["completion_chat"]) {
        (Value::Array(_), _) => contains(&model["architecture"]["output_modalities"], "text"),
        (_, Value::Bool(speaks)) => *speaks,
        _ => is_chat(id),
    };
    facts.set("purposes", if speaks { vec!["chat"] } else { Vec::new() });
    capabilities(model, &mut facts);
    let price = |name: &str| amount(&model["pricing"][name], 1e6);
    if model["pricing"].is_object() {
        facts.prices(&[
            ("input", price("prompt")),
            ("output", price("completion")),
            ("cache-read", price("input_cache_read")),
            ("cache-write", price("input_cache_write")),
        ]);
    }
    lifecycle(model, &mut facts);
    facts
}

fn media(model: &Value, facts: &mut Facts) {
    let inputs = &model["architecture"]["input_modalities"];
    let vision = match inputs {
        Value::Array(_) => Some(contains(inputs, "image")),
        _ => model["capabilities"]["vision"].as_bool(),
    };
    let mut media: Vec<&str> = Vec::new();
    if vision == Some(true) {
        media.extend(IMAGES);
    }
    if contains(inputs, "file") {
        media.push("application/pdf");
    }
    if vision.is_some() {
        facts.set("input-media", media);
    }
}

fn capabilities(model: &Value, facts: &mut Facts) {
    let supported = &model["supported_parameters"];
    if supported.is_array() {
        facts.within("capabilities", "tools", contains(supported, "tools"));
        facts.within("capabilities", "forced-tool-choice", contains(supported, "tool_choice"));
        facts.within("capabilities", "thinking", contains(supported, "reasoning"));
    } else if let Some(tools) = model["capabilities"]["function_calling"].as_bool() {
        facts.within("capabilities", "tools", tools);
    }
    let efforts = &model["reasoning"]["supported_efforts"];
    if efforts.is_array() {
        let efforts: Vec<&str> = list(efforts).iter().filter_map(Value::as_str).take(16).collect();
        facts.set("efforts", efforts);
    }
}

fn lifecycle(model: &Value, facts: &mut Facts) {
    if let Some(released) = unix_date(&model["created"]) {
        facts.within("lifecycle", "released-on", released);
    }
    let ends = ["shutdown_date", "expiration_date", "deprecation"].into_iter().find_map(|name| date(&model[name]));
    // A list without such a date says nothing about the status, so earlier facts of the model stay valid.
    let status = match (&ends, model["active"].as_bool()) {
        (_, Some(false)) => Some("retired"),
        (Some(_), _) => Some("deprecated"),
        (None, _) => None,
    };
    if let Some(status) = status {
        facts.within("lifecycle", "status", status);
    }
    if let Some(ends) = ends {
        facts.within("lifecycle", "retires-on", ends);
    }
    if let Some(next) = model["deprecation_replacement_model"].as_str() {
        facts.within("lifecycle", "successor", next);
    }
}
