//! One completion: the adapter says what is to be done, and here it is done.

mod adapter;
mod attempt;
mod flight;
mod law;
mod request;
#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use patchbay_core::{Code, Name, completion::CompletionRequest};
use patchbay_egress::{Egress, EgressError, Scrub, Secret, Secrets};
use patchbay_sandbox::{
    Sandbox,
    adapter::{AdapterFailure, RetryHint},
};

use self::{
    adapter::{Adapter, Log, Sandboxed},
    attempt::{Attempt, Ended, sentences},
};
use crate::{
    Completed, ExchangeError, ExchangeLimits, Retrying, Sink, retry,
    route::{Base, Route, RouteCredential},
};

/// What every completion shares.
#[derive(Clone)]
pub(crate) struct World {
    /// What runs adapters.
    pub(crate) sandbox: Arc<Sandbox>,
    /// The way out, as [`ExchangeLimits::egress`] makes it of the same limits.
    pub(crate) egress: Egress,
    /// Where keys are.
    pub(crate) secrets: Arc<Secrets>,
    /// What a completion may take.
    pub(crate) limits: ExchangeLimits,
}

/// How one completion gets to its provider.
struct Way<'a> {
    provider: &'a Name,
    base: Option<&'a Base>,
    credential: Option<&'a RouteCredential>,
    egress: &'a Egress,
    secrets: &'a Secrets,
    limits: &'a ExchangeLimits,
}

/// The scrub of the attempt that runs.
type SharedScrub = Arc<RwLock<Scrub>>;

/// The secrets of one attempt, read before its adapter begins.
struct Keys {
    /// The provider's own key; `None`: it has none.
    own: Result<Option<Secret>, ExchangeError>,
    /// Removes every secret that is bound to the provider's origin, whether or not the adapter places one.
    scrub: Scrub,
}

impl Keys {
    async fn read(way: &Way<'_>) -> Self {
        let Some(base) = way.base else { return Self { own: Ok(None), scrub: Scrub::default() } };
        let own = way.credential.map(|credential| request::secret(way, credential)).transpose();
        let bound = way.secrets.scrub(&base.origin).await;
        let scrub = bound.and(own.iter().flatten());
        Self { own, scrub }
    }
}

/// How an attempt stopped.
enum Stop {
    /// The adapter says that its provider failed.
    Adapter(AdapterFailure),
    /// The adapter broke the law.
    Breach(Breach),
    /// The operator's base URL is none that may be asked.
    Refused(EgressError),
    /// Anything else, in its last words.
    Failed(ExchangeError),
}

/// What an adapter did that it may not.
struct Breach {
    code: Code,
    /// To be read after "its adapter".
    what: String,
}

impl Breach {
    fn violation(what: String) -> Self {
        Self { code: Code::AdapterViolation, what }
    }
}

impl From<Breach> for Stop {
    fn from(breach: Breach) -> Self {
        Self::Breach(breach)
    }
}

impl From<ExchangeError> for Stop {
    fn from(error: ExchangeError) -> Self {
        Self::Failed(error)
    }
}

/// Asks the provider of `route` for one completion; `sink` hears of it as it comes. A failure before anything came of it
/// is tried again, up to three times.
///
/// Dropping the future closes the connection and frees the instance.
///
/// # Errors
/// [`ExchangeError`]; blocks that `sink` heard of by then are the beginning of an answer.
pub(crate) async fn complete(
    world: &World,
    route: &Route,
    request: CompletionRequest,
    sink: &mut dyn Sink,
) -> Result<Completed, ExchangeError> {
    let scrub = SharedScrub::default();
    let log = Arc::new(Log { provider: route.provider.clone(), scrub: scrub.clone() });
    let adapter = Sandboxed {
        sandbox: &world.sandbox,
        adapter: &route.adapter,
        options: &route.options,
        budgets: world.limits.budgets(),
        log,
    };
    let way = Way {
        provider: &route.provider,
        base: route.base.as_ref(),
        credential: route.credential.as_ref(),
        egress: &world.egress,
        secrets: &world.secrets,
        limits: &world.limits,
    };
    drive(&way, &adapter, request, sink, &scrub, tokio::time::sleep).await
}

/// As many attempts as it takes, with waits between.
async fn drive<W: Future<Output = ()> + Send>(
    way: &Way<'_>,
    adapter: &impl Adapter,
    request: CompletionRequest,
    sink: &mut dyn Sink,
    shared: &SharedScrub,
    wait: impl Fn(Duration) -> W,
) -> Result<Completed, ExchangeError> {
    let mut done = 0;
    loop {
        let keys = Keys::read(way).await;
        *shared.write().unwrap_or_else(PoisonError::into_inner) = keys.scrub.clone();
        // An attempt keeps what it is given only until its instance has read it.
        let ended = match Attempt::new(way, sink, keys).run(adapter, request.clone()).await {
            Ok(completed) => return Ok(completed),
            Err(ended) => ended,
        };
        let Some(delay) = ended.again.then(|| retry::delay(done, ended.hint)).flatten() else {
            return Err(given_up(ended));
        };
        done += 1;
        let (provider, what) = (way.provider.to_string(), Retrying::what(ended.error.kind()));
        sink.retrying(&Retrying { provider, what, delay, attempt: done, of: retry::MOST });
        wait(delay).await;
    }
}

/// The error, with when to try again where the provider said so.
fn given_up(ended: Ended) -> ExchangeError {
    let Ended { mut error, hint, .. } = ended;
    if let (ExchangeError::Failed { message, again_in, .. }, RetryHint::After(time)) = (&mut error, hint) {
        *again_in = Some(time);
        *message = sentences(message, &format!("Try again in {}", retry::in_words(time)));
    }
    error
}

#[cfg(test)]
fn _it_can_be_spawned(world: &World, route: &Route, request: CompletionRequest, sink: &mut dyn Sink) -> impl Send {
    complete(world, route, request, sink)
}
