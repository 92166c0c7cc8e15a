//! One listing: drives an adapter that asks its API for the models. `providers::refresh` calls [`list`].

use std::sync::Arc;

use patchbay_core::completion::FailureKind;
use patchbay_egress::Scrub;
use patchbay_sandbox::adapter::{Action, Coverage, ListedModel, ListingAction, ListingEnd, ListingEvent};
use patchbay_store::MAX_CATALOGUE_MODELS;
use tracing::Instrument as _;

use super::{
    AttemptStop, ExchangeContext, Keys, RequestTarget, SharedScrub, Violation,
    adapter::AdapterLog,
    in_flight::InFlight,
    report::{Progress, Reporter},
};
use crate::{ExchangeError, ExchangeLimits, route::Route};

/// Maximum number of requests of one listing, instead of `[exchange] requests`.
const REQUESTS: u32 = 50;
/// Size limit of all responses of one listing, in bytes.
const ANSWER_BYTES: u64 = 16 << 20;
/// Time limit of one listing, in milliseconds.
pub(crate) const TOTAL_MS: u64 = 60_000;
/// Maximum number of warnings that are kept for one listing.
const WARNINGS: usize = 5;

/// The models that an adapter reported.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// If an id was reported twice, the later report counts.
    pub(crate) models: Vec<ListedModel>,
    /// The number of models that were left out, because their id is invalid or their facts are too long.
    pub(crate) left_out: usize,
    /// Lines for the operator, without secrets.
    pub(crate) warnings: Vec<String>,
}

pub(crate) struct ListingResult {
    pub(crate) listed: Listed,
    /// How the listing ended. After a provider failure or a timeout, the models received before it are a partial list.
    /// After a fault of the adapter, all models are discarded because its reports cannot be trusted.
    pub(crate) end: Result<ListingEnd, ExchangeError>,
}

/// Asks the provider of `route` for its models. Returns `None` if its adapter cannot list them.
pub(crate) async fn list(context: &ExchangeContext, route: &Route, validator: Option<String>) -> Option<ListingResult> {
    if !route.adapter.lists_models() {
        return None;
    }
    let limits =
        ExchangeLimits { requests: REQUESTS, answer_bytes: ANSWER_BYTES, total_ms: TOTAL_MS, ..context.limits.clone() };
    let target = RequestTarget {
        provider: &route.provider,
        base: route.base.as_ref(),
        credential: route.credential.as_ref(),
        egress: &context.egress,
        secrets: &context.secrets,
        limits: &limits,
    };
    let until = tokio::time::Instant::now() + limits.total();
    let read = || tokio::time::timeout_at(until, Keys::read(&target));
    let late = || {
        let reporter = Reporter { target: &target, scrub: &Scrub::default() };
        let error = reporter.failed(FailureKind::Timeout, format!("no key within {TOTAL_MS} ms"));
        Some(ListingResult { listed: Listed::default(), end: Err(error) })
    };
    let Ok(keys) = read().await else { return late() };
    let own = keys.own.clone().ok().flatten();
    let (result, is_unauthorized) = list_with(context, route, &target, validator.clone(), &keys, until).await;
    // A key command is run once more if the provider rejected its key.
    if let (true, Some(own), Some(credential)) = (is_unauthorized, own, target.credential)
        && credential.secret.command().is_some()
    {
        target.secrets.discard(&credential.secret, &own).await;
        let Ok(keys) = read().await else { return late() };
        return Some(list_with(context, route, &target, validator, &keys, until).await.0);
    }
    Some(result)
}

/// Asks with these keys, and gives up at `until`. Returns the result, and whether the last response had the status 401.
async fn list_with(
    context: &ExchangeContext,
    route: &Route,
    target: &RequestTarget<'_>,
    validator: Option<String>,
    keys: &Keys,
    until: tokio::time::Instant,
) -> (ListingResult, bool) {
    let scrub = SharedScrub::default();
    *scrub.write() = keys.scrub.clone();
    let log = Arc::new(AdapterLog { provider: route.provider.clone(), scrub });
    let mut listed = Listed::default();
    let mut flight = InFlight::new(target);
    let reporter = Reporter { target, scrub: &keys.scrub };
    let span = tracing::info_span!("listing", provider = target.provider.as_str());
    let steps = async {
        let (sandbox, adapter, options) = (&context.sandbox, &route.adapter, &route.options);
        let begun = sandbox.begin_listing(adapter, validator, options, &target.limits.budgets(), log).await;
        let begun = begun.map_err(|failure| reporter.sandbox_failure(failure))?;
        // The caller has checked that the adapter lists models.
        let Some((mut instance, mut actions)) = begun else { return Ok(nothing()) };
        loop {
            if let Some(end) = act(actions, &mut flight, &mut listed, keys)? {
                return Ok(end);
            }
            let input = flight.next().await?;
            actions = instance.resume(input).await.map_err(|failure| reporter.sandbox_failure(failure))?;
        }
    };
    let result = match tokio::time::timeout_at(until, steps.instrument(span)).await {
        Ok(result) => result,
        Err(_) => {
            let message = format!("the list of models took longer than {TOTAL_MS} ms");
            Err(AttemptStop::Failed(reporter.failed(FailureKind::Timeout, message)))
        }
    };
    let end = result.map_err(|stop| {
        let progress = Progress { has_begun: false, lost: flight.lost() };
        reporter.failure(stop, &progress).error
    });
    if let Err(ExchangeError::Adapter { .. } | ExchangeError::Sandbox { .. }) = &end {
        listed.models.clear();
    }
    (ListingResult { listed, end }, flight.is_unauthorized())
}

fn nothing() -> ListingEnd {
    ListingEnd { coverage: Coverage::Unchanged, validator: None, fresh_for_s: None }
}

/// Performs the actions of one step in order. Returns the end if the adapter finished.
fn act(
    actions: Vec<ListingAction>,
    flight: &mut InFlight<'_>,
    listed: &mut Listed,
    keys: &Keys,
) -> Result<Option<ListingEnd>, AttemptStop> {
    let mut actions = actions.into_iter();
    while let Some(action) = actions.next() {
        match action {
            Action::Send(request) => flight.send(request, |_| None, keys)?,
            Action::Wait(time) => flight.wait(time),
            Action::Emit(event) => listed.add(event, keys)?,
            Action::Finish(_) | Action::Fail(_) if actions.len() > 0 => {
                return Err(Violation::of_contract("continued after it had ended").into());
            }
            Action::Finish(end) => return Ok(Some(end)),
            Action::Fail(failure) => return Err(AttemptStop::Adapter(failure)),
        }
    }
    flight.check()?;
    Ok(None)
}

impl Listed {
    /// Adds models that the adapter reported, without secrets.
    fn add(&mut self, event: ListingEvent, keys: &Keys) -> Result<(), Violation> {
        match event {
            ListingEvent::Models { models, left_out } => {
                if models.len() > MAX_CATALOGUE_MODELS.saturating_sub(self.models.len()) {
                    return Err(Violation::of_limit(format!("listed more than {MAX_CATALOGUE_MODELS} models")));
                }
                self.left_out = self.left_out.saturating_add(left_out);
                let clean = |text| keys.scrub.clean(text);
                self.models.extend(
                    models.into_iter().map(|model| ListedModel { id: clean(model.id), facts: clean(model.facts) }),
                );
            }
            ListingEvent::Warning(warning) if self.warnings.len() < WARNINGS => {
                self.warnings.push(keys.scrub.clean(warning));
            }
            ListingEvent::Warning(_) | ListingEvent::Unknown => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::Code;

    use super::*;

    #[test]
    fn models_over_the_limit_are_not_taken() {
        let models = |count: usize| {
            let model = |n| ListedModel { id: format!("m{n}"), facts: "{}".to_owned() };
            ListingEvent::Models { models: (0..count).map(model).collect(), left_out: 0 }
        };
        let keys = Keys { own: Ok(None), scrub: Scrub::default() };
        let mut listed = Listed::default();
        assert!(listed.add(models(MAX_CATALOGUE_MODELS), &keys).is_ok());
        for more in [1, 45_000] {
            let Violation { code, what } = listed.add(models(more), &keys).unwrap_err();
            assert_eq!((code, what.as_str()), (Code::LimitExchange, "listed more than 5000 models"));
            assert_eq!(listed.models.len(), MAX_CATALOGUE_MODELS);
        }
    }
}
