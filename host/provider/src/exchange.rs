//! One completion: drives an adapter through its attempts, sends its requests and forwards its stream events.
//!
//! [`Providers::complete`](crate::Providers::complete) calls [`complete`]. It runs an [`Attempt`](attempt::Attempt) and, after a
//! transient failure, another one:
//!
//! - `attempt`: one instance of the adapter; performs its actions in order.
//! - `listing`: one instance that lists the models of its API; for [`Providers::refresh`](crate::Providers::refresh).
//! - `in_flight`: the pending request and timer of an instance.
//! - `request`: checks a request of the adapter and adds the secret.
//! - `pending_request`: the one open request, its deadlines, and its body in chunks.
//! - `retry_after`: turns the date of a `Retry-After` into seconds.
//! - `stream_check`: checks the adapter's stream events and forwards them to the [`Sink`].
//! - `report`: describes a failure to the caller, and decides whether another attempt may follow.
//! - `host_options`: the options that the host adds to the operator's options.
//! - `adapter`: the interface of an adapter, implemented by the sandbox and by scripts in tests.

mod adapter;
mod attempt;
pub(crate) mod host_options;
mod in_flight;
mod listing;
mod pending_request;
mod report;
mod request;
mod retry_after;
mod stream_check;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use parking_lot::RwLock;
use patchbay_core::{Code, Name, completion::CompletionRequest};
use patchbay_egress::{Egress, EgressError, Scrub, Secret, Secrets};
use patchbay_sandbox::{Sandbox, adapter::AdapterFailure};
use tracing::Instrument as _;

use self::{
    adapter::{AdapterLog, Sandboxed, StartAdapter},
    attempt::Attempt,
    report::given_up,
};
pub(crate) use self::{
    host_options::with_facts,
    listing::{Listed, list},
};
use crate::{
    Completed, ExchangeError, ExchangeLimits, Sink,
    retry::{Patience, Setback},
    route::{Base, Route, RouteCredential},
    sink,
};

/// The parts shared by all exchanges of a process.
#[derive(Clone)]
pub(crate) struct ExchangeContext {
    pub(crate) sandbox: Arc<Sandbox>,
    /// Sends the requests. Created from `limits` by [`ExchangeLimits::egress`].
    pub(crate) egress: Egress,
    /// Reads the keys of providers.
    pub(crate) secrets: Arc<Secrets>,
    /// The limits of one completion: `[exchange]` of `config.toml`.
    pub(crate) limits: ExchangeLimits,
}

/// The provider that one completion is sent to, with everything that its requests need.
struct RequestTarget<'a> {
    provider: &'a Name,
    /// Where requests go; `None` if the provider sends none.
    base: Option<&'a Base>,
    /// The provider's credential; `None` if it needs none.
    credential: Option<&'a RouteCredential>,
    egress: &'a Egress,
    secrets: &'a Secrets,
    limits: &'a ExchangeLimits,
}

/// The scrub of the current attempt, which the adapter's log shares.
type SharedScrub = Arc<RwLock<Scrub>>;

/// The secrets of one attempt, read before its adapter starts.
struct Keys {
    /// The provider's own key; `None` if it needs none.
    own: Result<Option<Secret>, ExchangeError>,
    /// Removes every secret that is bound to the provider's origin, whether or not the adapter uses one.
    scrub: Scrub,
}

impl Keys {
    async fn read(target: &RequestTarget<'_>) -> Self {
        let Some(base) = target.base else { return Self { own: Ok(None), scrub: Scrub::default() } };
        let own = match target.credential {
            Some(credential) => request::secret(target, credential).await.map(Some),
            None => Ok(None),
        };
        let bound = target.secrets.scrub(&base.origin).await;
        let scrub = bound.and(own.iter().flatten());
        Self { own, scrub }
    }
}

/// Why an attempt ended without an answer.
enum AttemptStop {
    /// The adapter reports that its provider failed.
    Adapter(AdapterFailure),
    /// The adapter broke the contract or a limit.
    Violation(Violation),
    /// The operator's base URL may not be requested.
    Refused(EgressError),
    /// Any other failure, as it is reported to the caller.
    Failed(ExchangeError),
}

/// An adapter's violation of the contract or of a limit.
struct Violation {
    /// [`Code::AdapterViolation`] or [`Code::LimitExchange`].
    code: Code,
    /// The adapter's fault, as a phrase that follows "its adapter".
    what: String,
}

impl Violation {
    /// Returns a violation of the contract.
    fn of_contract(what: impl Into<String>) -> Self {
        Self { code: Code::AdapterViolation, what: what.into() }
    }

    /// Returns a violation of a limit of the exchange, which `what` names.
    fn of_limit(what: String) -> Self {
        Self { code: Code::LimitExchange, what }
    }
}

impl From<Violation> for AttemptStop {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

impl From<ExchangeError> for AttemptStop {
    fn from(error: ExchangeError) -> Self {
        Self::Failed(error)
    }
}

/// Requests one completion from the provider of `route` and forwards it to `sink` as it arrives. After a transient
/// failure, even in the middle of the answer, the whole completion is requested again: see [`Patience`].
///
/// Dropping the future closes the connection and frees the adapter's instance.
///
/// # Errors
/// The [`ExchangeError`] of the last attempt. The blocks that `sink` has received from it are the beginning of an
/// answer.
pub(crate) async fn complete(
    context: &ExchangeContext,
    route: &Route,
    request: CompletionRequest,
    sink: &mut dyn Sink,
) -> Result<Completed, ExchangeError> {
    let scrub = SharedScrub::default();
    let log = Arc::new(AdapterLog { provider: route.provider.clone(), scrub: scrub.clone() });
    let adapter = Sandboxed {
        sandbox: &context.sandbox,
        adapter: &route.adapter,
        options: &route.options,
        model_facts: route.model_facts.as_deref(),
        budgets: context.limits.budgets(),
        log,
    };
    let target = RequestTarget {
        provider: &route.provider,
        base: route.base.as_ref(),
        credential: route.credential.as_ref(),
        egress: &context.egress,
        secrets: &context.secrets,
        limits: &context.limits,
    };
    drive(&target, &adapter, request, sink, &scrub, tokio::time::sleep).await
}

/// Runs attempts until one succeeds or none may follow. `wait` waits between two attempts. Each attempt has a tracing span
/// `exchange`.
async fn drive<W: Future<Output = ()> + Send>(
    target: &RequestTarget<'_>,
    adapter: &impl StartAdapter,
    request: CompletionRequest,
    sink: &mut dyn Sink,
    shared: &SharedScrub,
    wait: impl Fn(Duration) -> W,
) -> Result<Completed, ExchangeError> {
    let mut patience = Patience::default();
    let mut number = 0;
    // Whether the key command was run again because the provider rejected its key.
    let mut is_renewed = false;
    loop {
        number += 1;
        let keys = Keys::read(target).await;
        let own = keys.own.clone().ok().flatten();
        *shared.write() = keys.scrub.clone();
        let span = tracing::info_span!(
            "exchange",
            provider = target.provider.as_str(),
            model = request.model,
            attempt = number
        );
        // The request is cloned because an attempt keeps it only until its instance has read it.
        let attempt = Attempt::new(target, sink, keys).run(adapter, request.clone(), number);
        let failure = match attempt.instrument(span).await {
            Ok(completed) => return Ok(completed),
            Err(failure) => failure,
        };
        if failure.is_overload {
            sink.overloaded();
        }
        if let (true, Some(own), Some(credential)) = (failure.is_unauthorized, own, target.credential)
            && credential.secret.command().is_some()
        {
            target.secrets.discard(&credential.secret, &own).await;
            if !std::mem::replace(&mut is_renewed, true) {
                continue;
            }
        }
        if failure.is_free {
            sink.failed_free();
        }
        let next = failure.setback.and_then(|setback| Some((setback, patience.next(setback, failure.hint)?)));
        let Some((setback, next)) = next else { return Err(given_up(failure)) };
        let retrying = sink::retrying(target.provider, &failure.error, next);
        match setback {
            Setback::BrokenOff => sink.given_up(&retrying),
            Setback::Overload | Setback::Passing => sink.retrying(&retrying),
        }
        wait(next.delay).await;
        sink.ready().await;
    }
}

#[cfg(test)]
fn _it_can_be_spawned(
    context: &ExchangeContext,
    route: &Route,
    request: CompletionRequest,
    sink: &mut dyn Sink,
) -> impl Send {
    complete(context, route, request, sink)
}
