//! Describes the changes from one registry to the next, for the user. A reload sends these notices.

use patchbay_store::StoreError;

use super::consent::{self, Consents};
use crate::{
    readiness::Readiness,
    registry::{Entry, EntrySource, Registry},
};

/// Returns a sentence for each provider that is new, changed or gone, and for each file that is newly invalid.
pub(super) fn changes(before: &Registry, after: &Registry, consents: &Result<Consents, StoreError>) -> Vec<String> {
    let mut notices = Vec::new();
    for entry in after.shown() {
        let name = &entry.name;
        let state = match consent::readiness(consents, entry) {
            Readiness::Ready => "it is ready.".to_owned(),
            Readiness::Pending(why) => format!("{why} To allow it: patchbay provider allow {name}"),
            refused => format!("it cannot be used: {}", refused.why(name).unwrap_or_default()),
        };
        match before.get(name.as_str()) {
            None => notices.push(format!("Provider '{name}' is new: {state}")),
            Some(old) if !same(old, entry) => notices.push(format!("Provider '{name}' has changed: {state}")),
            Some(_) => {}
        }
    }
    for entry in before.shown() {
        if after.get(entry.name.as_str()).is_none() {
            notices.push(format!("Provider '{}' is gone.", entry.name));
        }
    }
    for (file, why) in &after.found.invalid {
        if before.found.invalid.get(file) != Some(why) {
            let has_earlier_version =
                after.get(file.trim_end_matches(".wasm")).is_some_and(|entry| entry.source == EntrySource::File);
            let what = if has_earlier_version { "cannot be used" } else { "is not a provider" };
            notices.push(format!("The file '{file}' {what}, and is ignored: {why}"));
        }
    }
    notices
}

/// Whether two versions of a provider are the same for the user.
fn same(a: &Entry, b: &Entry) -> bool {
    a.adapter.digest == b.adapter.digest
        && a.base_url == b.base_url
        && a.key == b.key
        && a.prefixes == b.prefixes
        && a.models == b.models
        && a.configured == b.configured
        && a.options == b.options
        && a.refused == b.refused
}
