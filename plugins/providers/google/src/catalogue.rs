//! Lists the provider's models with `GET /v1beta/models`, page by page. Checked on 2026-11-23 against Python SDK
//! google-genai 3.4.0 (`Model`) and ai.google.dev, "Models".

use patchbay_codecs::gemini::refused;
use patchbay_codecs::listing::{Api, Facts, Page, Pages, contains, query};
use patchbay_provider_sdk::{
    Auth, Catalogue, Failure, HttpRequest, Input, Listing, ListingAction, Pair, Placement, catalogue,
};
use serde_json::Value;

use crate::{MEDIA, NAME, thinking};

/// Words that appear in the names of Gemini models for other purposes.
const OTHER: [&str; 10] =
    ["audio", "computer-use", "edit", "embedding", "image", "live", "omni", "robotics", "transcribe", "tts"];

/// One listing of the provider's models.
pub struct Models(Pages<GeminiApi>);

impl Catalogue for Models {
    fn begin(listing: Listing) -> (Self, Vec<ListingAction>) {
        let (pages, actions) = Pages::begin(GeminiApi, listing);
        (Self(pages), actions)
    }

    fn resume(&mut self, input: Input) -> Vec<ListingAction> {
        self.0.resume(input)
    }
}

catalogue!(Models);

struct GeminiApi;

impl Api for GeminiApi {
    fn first(&self) -> HttpRequest {
        get("/v1beta/models?pageSize=1000".to_owned())
    }

    fn page(&mut self, page: &Value) -> Option<Page> {
        let models = page["models"].as_array()?.iter().filter_map(|model| {
            let id = model["name"].as_str()?.strip_prefix("models/")?;
            facts(id, model).of(&id.into())
        });
        let token = page["nextPageToken"].as_str().filter(|token| !token.is_empty());
        let next = token.map(|token| get(format!("/v1beta/models?pageSize=1000&pageToken={}", query(token))));
        Some(Page { models: models.collect(), next })
    }

    fn refused(&self, status: u16, headers: &[Pair], body: &[u8]) -> Failure {
        refused(status, headers, body)
    }
}

fn get(path_and_query: String) -> HttpRequest {
    let pair = |name: &str, value: &str| Pair { name: name.to_owned(), value: value.to_owned() };
    HttpRequest {
        method: "GET".to_owned(),
        path_and_query,
        headers: vec![pair("accept", "application/json")],
        auth: vec![Auth { credential: NAME.to_owned(), placement: Placement::Header(pair("x-goog-api-key", "")) }],
        body: Vec::new(),
    }
}

fn facts(id: &str, model: &Value) -> Facts {
    let mut facts = Facts::default();
    facts.text("display-name", &model["displayName"]);
    facts.text("description", &model["description"]);
    facts.tokens("context-window", &model["inputTokenLimit"]);
    facts.tokens("max-output-tokens", &model["outputTokenLimit"]);
    let is_for_text = id.starts_with("gemini-") && !OTHER.iter().any(|word| id.contains(word));
    let is_chat = is_for_text && contains(&model["supportedGenerationMethods"], "generateContent");
    facts.set("purposes", if is_chat { vec!["chat"] } else { Vec::new() });
    if is_chat {
        facts.set("size", if id.contains("flash") { "small" } else { "normal" });
        facts.set("input-media", MEDIA.to_vec());
        if let Some(thinks) = model["thinking"].as_bool() {
            facts.within("capabilities", "thinking", thinks);
        }
        let known = Some(facts.object().clone());
        facts.levels(|level| thinking::explain(id, Some(level), known.as_ref()));
    }
    facts
}

#[cfg(test)]
mod tests;
