//! Lists the provider's models with `GET /v1/models`. The API reports little about a model (2026-11-23, Python SDK
//! openai 3.54.0, `Model`), so its purpose and its way of thinking are derived from its name.

use patchbay_codecs::listing::openai::{OpenaiList, is_chat};
use patchbay_codecs::listing::{Facts, Pages};
use patchbay_provider_sdk::{Catalogue, Input, Listing, ListingAction, catalogue};

use crate::thinking;

type Complete = fn(&str, &mut Facts);

/// One listing of the provider's models.
pub struct Models(Pages<OpenaiList<Complete>>);

impl Catalogue for Models {
    fn begin(listing: Listing) -> (Self, Vec<ListingAction>) {
        let (pages, actions) = Pages::begin(OpenaiList(complete as Complete), listing);
        (Self(pages), actions)
    }

    fn resume(&mut self, input: Input) -> Vec<ListingAction> {
        self.0.resume(input)
    }
}

catalogue!(Models);

/// Returns true for conversation models. Snapshots (`gpt-5.4-2026-03-05`), research models and fine-tuned models are not
/// offered: they can only be chosen by name.
fn is_offered(id: &str) -> bool {
    let is = |word: &str| id.split('-').any(|part| part == word);
    let is_dated = id.split('-').any(|part| part.len() == 4 && part.starts_with("20") || part == "0613");
    let other = ["instruct", "research", "cyber", "rosalind", "law", "daybreak"].into_iter().any(is);
    let family = ["gpt-", "o1", "o3", "o4"].iter().any(|family| id.starts_with(family));
    family && is_chat(id) && !is_dated && !other
}

fn complete(id: &str, facts: &mut Facts) {
    let is_offered = is_offered(id);
    facts.set("purposes", if is_offered { vec!["chat"] } else { Vec::new() });
    if is_offered {
        let is = |words: &[&str]| id.split('-').any(|part| words.contains(&part));
        let size = match () {
            () if is(&["nano", "mini", "luna"]) => "small",
            () if is(&["astra", "pro"]) => "large",
            () => "normal",
        };
        facts.set("size", size);
        if thinking::is_known(id) {
            facts.levels(|level| thinking::thinking(id, Some(level), None).plan);
        }
    }
}

#[cfg(test)]
mod tests;
