//! Lists a server's models with `GET {base}/models`. Servers report different fields; see
//! [`patchbay_codecs::listing::openai`].

use patchbay_codecs::listing::openai::OpenaiList;
use patchbay_codecs::listing::{Facts, Pages};
use patchbay_provider_sdk::{Catalogue, Input, Listing, ListingAction, catalogue};

use crate::levels;

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

/// Adds the levels if the server reports whether the model thinks. Otherwise the levels are unknown.
fn complete(_: &str, facts: &mut Facts) {
    if facts.get("efforts").is_some() || facts.get("capabilities").is_some_and(|can| can["thinking"].is_boolean()) {
        let known = facts.object().clone();
        facts.levels(|level| levels::effort(Some(level), Some(&known)).1);
    }
}

#[cfg(test)]
mod tests;
