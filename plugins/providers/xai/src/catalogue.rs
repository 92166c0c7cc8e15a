//! Lists the provider's models with `GET /v1/language-models`. Checked on 2026-11-23 against xAI's OpenAPI description
//! (`ListLanguageModelsResponse`). Prices are in US cents per 100 million tokens. The API reports no context windows.

use patchbay_codecs::listing::{Api, Facts, Page, Pages, amount, contains, list, unix_date};
use patchbay_codecs::openai::{CREDENTIAL, get, refused};
use patchbay_provider_sdk::{Catalogue, Failure, HttpRequest, Input, Listing, ListingAction, Pair, catalogue};
use serde_json::Value;

use crate::thinking;

/// One listing of the provider's models.
pub struct Models(Pages<LanguageModels>);

impl Catalogue for Models {
    fn begin(listing: Listing) -> (Self, Vec<ListingAction>) {
        let (pages, actions) = Pages::begin(LanguageModels, listing);
        (Self(pages), actions)
    }

    fn resume(&mut self, input: Input) -> Vec<ListingAction> {
        self.0.resume(input)
    }
}

catalogue!(Models);

struct LanguageModels;

impl Api for LanguageModels {
    fn first(&self) -> HttpRequest {
        get("/language-models", CREDENTIAL)
    }

    fn page(&mut self, page: &Value) -> Option<Page> {
        let mut models = Vec::new();
        for model in page["models"].as_array()? {
            models.extend(model["id"].as_str().and_then(|id| facts(id, model).of(&model["id"])));
            // Aliases can be used by name, but are not offered.
            for alias in list(&model["aliases"]).iter().take(16) {
                let mut facts = Facts::default();
                facts.text("alias-of", &model["id"]);
                models.extend(facts.of(alias));
            }
        }
        Some(Page { models, next: None })
    }

    fn refused(&self, status: u16, headers: &[Pair], body: &[u8]) -> Failure {
        refused(status, headers, body)
    }
}

fn facts(id: &str, model: &Value) -> Facts {
    let mut facts = Facts::default();
    let speaks = contains(&model["output_modalities"], "text");
    facts.set("purposes", if speaks { vec!["chat"] } else { Vec::new() });
    let sees = contains(&model["input_modalities"], "image");
    facts.set("input-media", if sees { vec!["image/png", "image/jpeg"] } else { Vec::new() });
    let price = |name: &str| amount(&model[name], 1e-4).filter(|price| price != "0");
    facts.prices(&[
        ("input", price("prompt_text_token_price")),
        ("output", price("completion_text_token_price")),
        ("cache-read", price("cached_prompt_text_token_price")),
    ]);
    if let Some(released) = unix_date(&model["created"]) {
        facts.within("lifecycle", "released-on", released);
    }
    facts.levels(|level| thinking::thinking(id, Some(level)).1);
    facts
}

#[cfg(test)]
mod tests;
