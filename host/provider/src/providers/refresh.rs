//! Asks the APIs of providers for their models: at the operator's request, and in the background for providers that
//! this home has used.
//!
//! A refresh is claimed in the store, which prevents many processes from asking at once. The models are swapped as a
//! whole and apply from the next line on.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
    time::Duration,
};

use patchbay_core::{Name, text};
use patchbay_sandbox::adapter::{Coverage, ListingEnd};
use patchbay_store::{ListingChange, ListingCoverage, NewListing, StoreError};
use tokio::task::{JoinHandle, JoinSet};

use super::Providers;
use crate::{
    ExchangeError, ModelError,
    catalogue::Catalogue,
    exchange::{self, Listed},
    facts::ModelFacts,
    registry::Entry,
};

/// Seconds after which a failed listing is repeated.
const AFTER_FAILURE_S: i64 = 3_600;
/// The longest time, in seconds, for which an adapter can declare its list fresh.
const FRESH_S: i64 = 7 * 86_400;
/// How often the background task checks whether a provider's list is due.
const LOOK: Duration = Duration::from_secs(600);
/// How long the background task waits after the start, to avoid competing with the user's first actions.
const FIRST_LOOK: Duration = Duration::from_secs(2);
/// Length limit of a stored problem, in characters.
const PROBLEM_CHARS: usize = 300;

/// The result of refreshing one provider's list of models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshedProvider {
    /// The name of the provider.
    pub provider: Name,
    /// The result, in words: `84 models (3 new, 1 gone)`.
    pub text: String,
    /// Whether the API failed or could not be asked.
    pub failed: bool,
}

/// The background task that refreshes the lists. Dropping this value stops the task.
#[derive(Debug)]
pub struct Refreshing(JoinHandle<()>);

impl Drop for Refreshing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Providers {
    /// Returns the models that APIs have listed.
    pub(crate) async fn catalogue(&self) -> Result<Arc<Catalogue>, StoreError> {
        let generation = self.store.catalogue_generation().await?;
        if let Some(known) = self.catalogue.read().as_ref().filter(|known| known.generation == generation) {
            return Ok(Arc::clone(known));
        }
        let (generation, stored) = self.store.catalogues().await?;
        let read = Arc::new(Catalogue::read(generation, stored));
        *self.catalogue.write() = Some(Arc::clone(&read));
        Ok(read)
    }

    /// Like [`Providers::catalogue`], but returns an empty catalogue if the store cannot be read.
    pub(crate) async fn catalogue_or_empty(&self) -> Arc<Catalogue> {
        self.catalogue().await.unwrap_or_else(|error| {
            tracing::error!("cannot read the listed models: {error}");
            Arc::default()
        })
    }

    /// Asks the API of one provider, or of every provider, for its models. All are asked at the same time, each for at most 60
    /// seconds. A provider that cannot list models is left out, unless it is named.
    ///
    /// # Errors
    /// [`ModelError`], if the named provider does not exist or may not be asked, or the database failed.
    pub async fn refresh(self: &Arc<Self>, name: Option<&Name>) -> Result<Vec<RefreshedProvider>, ModelError> {
        let registry = self.registry().await;
        let consents = self.consents().await?;
        if let Some(name) = name {
            consents.ready(&registry, name)?;
        }
        let shown = registry.shown().into_iter().filter(|entry| name.is_none_or(|name| entry.name == *name));
        let asked: Vec<_> = shown.filter(|entry| consents.is_ready(entry)).cloned().collect();
        let mut running = JoinSet::new();
        for (place, entry) in asked.into_iter().enumerate() {
            let (providers, named) = (Arc::clone(self), name.is_some());
            running.spawn(async move {
                let refreshed = providers.refresh_one(&entry, true).await;
                let cannot = |text: String| RefreshedProvider { provider: entry.name.clone(), text, failed: named };
                let refreshed = match refreshed {
                    Ok(Some(refreshed)) => Some(refreshed),
                    Ok(None) => named.then(|| cannot("its adapter cannot list models".to_owned())),
                    Err(error) => {
                        Some(RefreshedProvider { failed: true, ..cannot(text::clean_line(&error.to_string())) })
                    }
                };
                (place, refreshed)
            });
        }
        let mut refreshed = Vec::new();
        while let Some(done) = running.join_next().await {
            // A task that panicked has nothing to report; the panic is in the log.
            if let Ok((place, Some(of))) = done {
                refreshed.push((place, of));
            }
        }
        refreshed.sort_by_key(|(place, _)| *place);
        Ok(refreshed.into_iter().map(|(_, of)| of).collect())
    }

    /// Asks one provider's API, if its adapter can list models and the listing is due. With `at_once`, it need not be
    /// due.
    async fn refresh_one(&self, entry: &Entry, at_once: bool) -> Result<Option<RefreshedProvider>, ModelError> {
        let provider = entry.name.clone();
        let report = |text: String, failed| Some(RefreshedProvider { provider: provider.clone(), text, failed });
        let Some(base_url) = entry.base_url.clone() else { return Ok(None) };
        let route = self.route_of(entry).await?;
        if !route.adapter.lists_models() {
            return Ok(None);
        }
        if !self.has_key(entry) {
            return Ok(report("skipped: no key".to_owned(), false));
        }
        let claimed =
            self.store.claim_listing(provider.to_string(), base_url.clone(), entry.adapter.digest, at_once).await?;
        let Some(validator) = claimed else { return Ok(None) };
        let Some(result) = exchange::list(&self.exchange, &route, validator).await else { return Ok(None) };
        let Listed { models, left_out, warnings } = result.listed;
        let given = models.len();
        // Facts that are not a JSON object cannot be used.
        let models: Vec<_> = models
            .into_iter()
            .filter(|model| ModelFacts::parse(&model.facts).is_some())
            .map(|model| (model.id, model.facts))
            .collect();
        let left_out = left_out + given - models.len();
        for warning in &warnings {
            tracing::warn!("{provider}: {warning}");
        }
        let (coverage, validator, problem) = match &result.end {
            Ok(end) => {
                let coverage = match end.coverage {
                    Coverage::Complete => ListingCoverage::Complete,
                    Coverage::Partial => ListingCoverage::Partial,
                    Coverage::Unchanged => ListingCoverage::Unchanged,
                };
                (coverage, end.validator.clone(), None)
            }
            Err(error) => {
                let problem = text::excerpt(&error.to_string(), PROBLEM_CHARS);
                (ListingCoverage::Partial, None, Some(problem))
            }
        };
        let again_in_s = again_in_s(&result.end, self.refresh_s());
        let adapter = entry.adapter.digest;
        let listing =
            NewListing { adapter, models, left_out, coverage, validator, problem: problem.clone(), again_in_s };
        let Some(change) = self.store.keep_listing(provider.to_string(), base_url, listing).await? else {
            return Ok(report("not stored: the provider was removed or now has another origin".to_owned(), true));
        };
        if let Some(problem) = problem {
            return Ok(report(format!("not listed: {problem}"), true));
        }
        let unchanged = coverage == ListingCoverage::Unchanged;
        Ok(report(in_words(change, unchanged, left_out, &warnings), false))
    }

    /// Records that this home uses a provider. The background task then keeps its list up to date.
    pub(super) async fn note_used(&self, entry: &Entry) {
        let Some(base_url) = entry.base_url.clone() else { return };
        if !self.noted.lock().insert((entry.name.clone(), base_url.clone())) {
            return;
        }
        if let Err(error) = self.store.note_used_catalogue(entry.name.to_string(), base_url).await {
            tracing::warn!("cannot store that provider '{}' is used: {error}", entry.name);
        }
    }

    /// Refreshes the lists of used providers in the background, each at most once in `[catalogue] refresh_hours`. Must be called
    /// within a runtime. Interactive fronts start it; nothing waits for it.
    pub fn keep_refreshed(self: &Arc<Self>) -> Refreshing {
        Refreshing(tokio::spawn(refresh_when_due(Arc::downgrade(self))))
    }

    /// Refreshes the lists that are due.
    async fn refresh_due(&self) -> Result<(), ModelError> {
        for entry in self.due().await? {
            match self.refresh_one(&entry, false).await {
                Ok(Some(refreshed)) => tracing::debug!("{}: {}", refreshed.provider, refreshed.text),
                Ok(None) => {}
                Err(error) => tracing::warn!("cannot list the models of '{}': {error}", entry.name),
            }
        }
        Ok(())
    }

    /// Returns the providers that the background task may ask now: providers that are used, ready and due, and have no
    /// key command, which would only run for requests of the user.
    pub(super) async fn due(&self) -> Result<Vec<Arc<Entry>>, ModelError> {
        if self.refresh_s() == 0 {
            return Ok(Vec::new());
        }
        let due: BTreeSet<(String, String)> = self.store.due_catalogues().await?.into_iter().collect();
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let registry = self.registry().await;
        let consents = self.consents().await?;
        let is_due = |entry: &&Arc<Entry>| {
            let Some(base_url) = entry.base_url.clone() else { return false };
            due.contains(&(entry.name.to_string(), base_url)) && consents.is_ready(entry) && !entry.has_key_command()
        };
        Ok(registry.entries.iter().filter(is_due).cloned().collect())
    }

    /// Returns the seconds between two listings in the background; 0 for never.
    fn refresh_s(&self) -> i64 {
        i64::from(self.refresh_hours).saturating_mul(3_600)
    }
}

async fn refresh_when_due(providers: Weak<Providers>) {
    tokio::time::sleep(FIRST_LOOK).await;
    loop {
        let Some(providers) = providers.upgrade() else { return };
        if let Err(error) = providers.refresh_due().await {
            tracing::warn!("cannot refresh the lists of models: {error}");
        }
        drop(providers);
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns after how many seconds the background task may ask again.
fn again_in_s(end: &Result<ListingEnd, ExchangeError>, refresh_s: i64) -> i64 {
    match end {
        Ok(end) => refresh_s.max(end.fresh_for_s.map_or(0, i64::from).min(FRESH_S)),
        Err(_) => AFTER_FAILURE_S,
    }
}

fn in_words(change: ListingChange, unchanged: bool, left_out: usize, warnings: &[String]) -> String {
    let ListingChange { models, new, gone } = change;
    let models = match models {
        1 => "1 model".to_owned(),
        models => format!("{} models", text::with_commas(models)),
    };
    let mut words = match (unchanged, new, gone) {
        (true, ..) | (_, 0, 0) => format!("{models} (unchanged)"),
        (_, new, 0) => format!("{models} ({} new)", text::with_commas(new)),
        (_, 0, gone) => format!("{models} ({} gone)", text::with_commas(gone)),
        (_, new, gone) => format!("{models} ({} new, {} gone)", text::with_commas(new), text::with_commas(gone)),
    };
    if left_out > 0 {
        words += &format!("; {left_out} left out, because their ids or facts are invalid");
    }
    for warning in warnings {
        words += &format!("; {warning}");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_listing_follows_a_day_or_an_hour_later() {
        const DAY: i64 = 86_400;
        let listed = |fresh_for_s| Ok(ListingEnd { coverage: Coverage::Complete, validator: None, fresh_for_s });
        for (end, expected) in [
            (listed(None), DAY),
            (listed(Some(60)), DAY),
            (listed(Some(172_800)), 2 * DAY),
            (listed(Some(u32::MAX)), 7 * DAY),
            (Err(ExchangeError::MissingCredentials { message: String::new() }), 3_600),
        ] {
            assert_eq!(again_in_s(&end, DAY), expected, "{end:?}");
        }
    }
}
