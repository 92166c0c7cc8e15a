//! Lists the provider's models with `GET /v1/models`, in OpenAI's format. Sources of 2026-11-23: juspay/neurolink,
//! "Meta Model API" (the endpoint exists and needs a key), and apache/maka#5381 (it has OpenAI's fields).

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

fn complete(id: &str, facts: &mut Facts) {
    // Meta may train on requests to a contributor variant. It must therefore be chosen by name.
    let is_offered = id.starts_with("muse-") && is_chat(id) && !id.ends_with("-contributor") && !id.contains("voice");
    facts.set("purposes", if is_offered { vec!["chat"] } else { Vec::new() });
    if is_offered {
        facts.levels(|level| thinking::thinking(id, Some(level)).1);
    }
}

#[cfg(test)]
mod tests;
