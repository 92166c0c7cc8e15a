//! Lists the provider's models with `GET /v1/models`, page by page.
//!
//! Checked on 2026-11-23 against `ModelInfo` of the Python SDK anthropic 2.12.0.

use patchbay_codecs::listing::{Api, Facts, Page, Pages, date, query};
use patchbay_codecs::messages::refused;
use patchbay_provider_sdk::{
    Auth, Catalogue, Failure, HttpRequest, Input, Listing, ListingAction, Pair, Placement, catalogue,
};
use serde_json::Value;

use crate::thinking;

/// A listing in progress. [`Pages`] drives it; this adapter only supplies the requests and reads the pages.
pub struct Models(Pages<MessagesApi>);

impl Catalogue for Models {
    fn begin(listing: Listing) -> (Self, Vec<ListingAction>) {
        let (pages, actions) = Pages::begin(MessagesApi, listing);
        (Self(pages), actions)
    }

    fn resume(&mut self, input: Input) -> Vec<ListingAction> {
        self.0.resume(input)
    }
}

catalogue!(Models);

struct MessagesApi;

impl Api for MessagesApi {
    fn first(&self) -> HttpRequest {
        get("/v1/models?limit=1000".to_owned())
    }

    fn page(&mut self, page: &Value) -> Option<Page> {
        let models = page["data"].as_array()?.iter().filter_map(|model| facts(model).of(&model["id"])).collect();
        let last = page["last_id"].as_str().filter(|_| page["has_more"] == true);
        Some(Page { models, next: last.map(|last| get(format!("/v1/models?limit=1000&after_id={}", query(last)))) })
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
        headers: vec![pair("accept", "application/json"), pair("anthropic-version", "2023-06-01")],
        auth: vec![Auth { credential: "api-key".to_owned(), placement: Placement::Header(pair("x-api-key", "")) }],
        body: Vec::new(),
    }
}

fn facts(model: &Value) -> Facts {
    let mut facts = Facts::default();
    facts.text("display-name", &model["display_name"]);
    facts.set("purposes", vec!["chat"]);
    // `line` is the product line. A new line has no size until it is added here.
    let size = match model["line"].as_str() {
        Some("haiku") => Some("small"),
        Some("sonnet") => Some("normal"),
        Some("opus" | "fable" | "mythos") => Some("large"),
        _ => None,
    };
    if let Some(size) = size {
        facts.set("size", size);
    }
    facts.tokens("context-window", &model["max_input_tokens"]);
    facts.tokens("max-output-tokens", &model["max_tokens"]);
    let capabilities = &model["capabilities"];
    if capabilities.is_object() {
        add_capabilities(capabilities, &mut facts);
    }
    let status = model["lifecycle"].as_str().filter(|status| ["active", "deprecated", "retired"].contains(status));
    for (name, value) in [
        ("status", status.map(str::to_owned)),
        ("released-on", date(&model["created_at"])),
        ("deprecated-on", date(&model["deprecated_at"])),
        ("retires-on", date(&model["retires_at"])),
    ] {
        if let Some(value) = value {
            facts.within("lifecycle", name, value);
        }
    }
    // This comes last, because the levels of a model that the adapter does not know depend on the facts above.
    if let Some(id) = model["id"].as_str() {
        let known = thinking::Known::of(id, Some(facts.object()));
        facts.levels(|level| thinking::explain(&known, Some(level)));
        facts.within("capabilities", "forced-tool-choice", known.forced_tools());
    }
    facts
}

/// Adds the facts in the API's `capabilities`. The API does not report support for tools, which is assumed.
fn add_capabilities(capabilities: &Value, facts: &mut Facts) {
    let supports = |name: &str| capabilities[name]["supported"] == true;
    let mut media = Vec::new();
    if supports("image_input") {
        media.extend(["image/png", "image/jpeg", "image/gif", "image/webp"]);
    }
    if supports("pdf_input") {
        media.push("application/pdf");
    }
    facts.set("input-media", media);
    let supported = |object: &Value, names: &[&'static str]| -> Vec<&'static str> {
        names.iter().copied().filter(|name| object[*name]["supported"] == true).collect()
    };
    // The host stores `efforts` and `thinking-types`, and passes them back in the option `host:model-facts`. They tell the adapter
    // the settings of a model that is newer than its own table; see `thinking::Known`.
    let efforts = supported(&capabilities["effort"], &["low", "medium", "high", "xhigh", "max"]);
    let types = supported(&capabilities["thinking"]["types"], &["adaptive", "enabled", "disabled", "between_tools"]);
    let off = types.iter().any(|name| ["disabled", "between_tools"].contains(name));
    facts.within("capabilities", "thinking-off", off);
    facts.set("efforts", efforts);
    facts.set("thinking-types", types);
    facts.within("capabilities", "tools", true);
}

#[cfg(test)]
mod tests;
