//! One attempt: an instance is begun, its actions done in order, and what comes of them handed to it, until it ends.
//!
//! What may be pending: one request and one timer, each replaced by the next of its kind, and neither by the other. A step
//! that leaves both is told of whichever comes first, and then of the other; a timer that is due goes before an answer,
//! which may never pause. A step that leaves neither, and does not end, breaks the law.

use std::time::Duration;

use patchbay_core::{
    Code,
    completion::{CompletionRequest, FailureKind},
};
use patchbay_egress::EgressError;
use patchbay_sandbox::{
    Failure,
    adapter::{Action, AdapterFailure, AdapterRequest, Input, RetryHint},
};
use tokio::time::Instant;

use super::{
    Breach, Keys, Stop, Way,
    adapter::{Adapter, Instance},
    flight::{self, Flight},
    law::Law,
    request,
};
use crate::{Completed, ExchangeError, Sink};

/// How an attempt ended that did not go well.
pub(super) struct Ended {
    pub(super) error: ExchangeError,
    /// What the adapter says of another attempt.
    pub(super) hint: RetryHint,
    /// Whether another may follow: nothing came of this one, and the next may have more luck.
    pub(super) again: bool,
}

pub(super) struct Attempt<'a> {
    way: &'a Way<'a>,
    sink: &'a mut dyn Sink,
    keys: Keys,
    /// When it must be over.
    until: Instant,
    law: Law,
    flight: Option<Flight>,
    timer: Option<Instant>,
    requests: u32,
    /// Bytes of answers.
    received: u64,
    /// What the adapter was last told of a connection that failed, and whether that was for its size.
    lost: Option<(bool, String)>,
}

impl<'a> Attempt<'a> {
    /// Its time runs from now.
    pub(super) fn new(way: &'a Way<'a>, sink: &'a mut dyn Sink, keys: Keys) -> Self {
        let until = Instant::now() + way.limits.total();
        Self {
            way,
            sink,
            keys,
            until,
            law: Law::default(),
            flight: None,
            timer: None,
            requests: 0,
            received: 0,
            lost: None,
        }
    }

    /// From its beginning to its end.
    pub(super) async fn run(mut self, adapter: &impl Adapter, request: CompletionRequest) -> Result<Completed, Ended> {
        let until = self.until;
        let result = match tokio::time::timeout_at(until, self.steps(adapter, request)).await {
            Ok(result) => result,
            Err(_) => {
                let ms = self.way.limits.total_ms;
                let message = format!("the answer took longer than {ms} ms, the limit 'exchange.total_ms'");
                Err(self.failed(FailureKind::Timeout, message).into())
            }
        };
        result.map_err(|stop| {
            self.law.cut(self.sink);
            self.ended(stop)
        })
    }

    async fn steps(&mut self, adapter: &impl Adapter, request: CompletionRequest) -> Result<Completed, Stop> {
        let (mut instance, mut actions) = adapter.begin(request).await.map_err(|failure| self.broken(failure))?;
        loop {
            if let Some(completed) = self.act(actions, &instance)? {
                return Ok(completed);
            }
            let input = self.next().await?;
            actions = instance.resume(input).await.map_err(|failure| self.broken(failure))?;
        }
    }

    /// Does what the adapter wants, in order. The sandbox counts the actions.
    fn act(&mut self, actions: Vec<Action>, instance: &impl Instance) -> Result<Option<Completed>, Stop> {
        let mut actions = actions.into_iter();
        while let Some(action) = actions.next() {
            let last = actions.len() == 0;
            match action {
                Action::Send(request) => self.send(request, instance)?,
                // As far as a clock goes: the exchange is over long before.
                Action::Wait(time) => {
                    self.timer = Some(Instant::now() + time.min(Duration::from_secs(u32::MAX.into())))
                }
                Action::Emit(event) => {
                    self.law.tell(event, self.way.limits.answer_bytes, &self.keys.scrub, self.sink)?;
                }
                Action::Finish(_) | Action::Fail(_) if !last => {
                    return Err(Breach::violation("wanted more after it had ended".to_owned()).into());
                }
                Action::Finish(mut finish) => {
                    self.law.finish()?;
                    finish.raw = self.clean(finish.raw);
                    return Ok(Some(Completed { finish, usage: self.law.usage }));
                }
                Action::Fail(failure) => return Err(Stop::Adapter(failure)),
            }
        }
        match (&self.flight, self.timer) {
            (None, None) => {
                let what = "stopped half-way: it neither sent a request, nor waited, nor ended, with nothing in flight";
                Err(Breach::violation(what.to_owned()).into())
            }
            // Nothing else can come, and the timer comes too late.
            (None, Some(timer)) if timer > self.until => {
                let ms = self.way.limits.total_ms;
                Err(over(format!("waits for longer than the {ms} ms of 'exchange.total_ms' allow")).into())
            }
            _ => Ok(None),
        }
    }

    fn send(&mut self, request: AdapterRequest, instance: &impl Instance) -> Result<(), Stop> {
        self.requests += 1;
        let most = self.way.limits.requests;
        if self.requests > most {
            return Err(over(format!("made more than {most} requests, the limit 'exchange.requests'")).into());
        }
        // The earlier answer goes first, so that never two bodies stand side by side.
        self.flight = None;
        self.lost = None;
        let request = request::build(self.way, request, instance, &self.keys)?;
        self.flight = Some(Flight::new(self.way.egress, request, self.way.limits));
        Ok(())
    }

    /// What comes of what is pending.
    async fn next(&mut self) -> Result<Input, Stop> {
        let (flight, timer) = (&mut self.flight, self.timer);
        let input = tokio::select! {
            biased;
            () = at(timer) => {
                self.timer = None;
                return Ok(Input::Timer);
            }
            input = hear(flight) => input?,
        };
        let input = match input {
            Input::Chunk(chunk) => {
                self.received = self.received.saturating_add(chunk.len() as u64);
                if self.received > self.way.limits.answer_bytes {
                    Input::TransportFailed { kind: "too-large", message: flight::too_large(self.way.limits) }
                } else {
                    Input::Chunk(chunk)
                }
            }
            input => input,
        };
        if let Input::TransportFailed { kind, message } = &input {
            self.lost = Some((*kind == "too-large", message.clone()));
        }
        if matches!(input, Input::End | Input::TransportFailed { .. }) {
            self.flight = None;
        }
        Ok(input)
    }

    /// What an ending comes to for whoever asked, without the secret.
    fn ended(&self, stop: Stop) -> Ended {
        let never = |error| Ended { error, hint: RetryHint::Never, again: false };
        let provider = self.way.provider.to_string();
        match stop {
            Stop::Adapter(failure) => self.failure(failure),
            Stop::Failed(error) => never(error),
            Stop::Refused(error) => never(self.failed(FailureKind::Network, self.refused(&error))),
            Stop::Breach(Breach { code, what }) => {
                never(ExchangeError::Adapter { provider, code, what: self.clean(what) })
            }
        }
    }

    /// What the adapter says of its provider's failure.
    fn failure(&self, failure: AdapterFailure) -> Ended {
        let AdapterFailure { kind, message, http_status, code, retry } = failure;
        let mut message = self.clean(message);
        if message.is_empty() {
            message = http_status.map_or_else(|| "it failed".to_owned(), |status| format!("it answered {status}"));
        }
        let lost = self.lost.as_ref();
        // Which limit it was must be seen, whatever the adapter makes of it.
        if let Some((_, lost)) = lost.filter(|(_, lost)| !message.contains(lost.as_str())) {
            message = format!("{message} ({lost})");
        }
        let again = match kind {
            FailureKind::RateLimit | FailureKind::Server | FailureKind::Timeout => true,
            FailureKind::Network => self.received == 0,
            _ => false,
        };
        let again = again && !self.law.has_begun() && !lost.is_some_and(|(too_large, _)| *too_large);
        let error = ExchangeError::Failed {
            provider: self.way.provider.to_string(),
            kind,
            message: self.advised(message, kind, http_status),
            status: http_status,
            code: code.map(|code| self.clean(code)),
            again_in: None,
        };
        Ended { error, hint: retry, again }
    }

    /// A failure with what to do next.
    fn advised(&self, message: String, kind: FailureKind, status: Option<u16>) -> String {
        let next = match (kind, self.way.credential) {
            (FailureKind::Authentication, Some(credential)) if credential.variable.is_empty() => {
                "Check its key in credentials.json".to_owned()
            }
            (FailureKind::Authentication, Some(credential)) => {
                format!("Check {} or credentials.json", credential.variable)
            }
            (FailureKind::Authentication, None) => {
                format!("It has no credential: name one in [providers.{}]", self.way.provider)
            }
            _ if status.is_some_and(|status| (300..400).contains(&status)) => {
                "A redirect is not followed: check the provider's base URL".to_owned()
            }
            (FailureKind::NotFound, _) => "Check the model's name, and the provider's base URL".to_owned(),
            _ => return message,
        };
        sentences(&message, &next)
    }

    /// What the operator is told of a base URL that may not be asked.
    fn refused(&self, error: &EgressError) -> String {
        let private = self.way.base.is_some_and(|base| base.allow_private);
        let provider = self.way.provider;
        match error {
            EgressError::Address { host, address, what, .. } if !private => format!(
                "'{host}' is {address}, {what}, which it may not reach; private addresses need allow_private = true in [providers.{provider}]"
            ),
            EgressError::PlainHttp { origin } => format!(
                "{origin} would be asked without encryption. Use https; for a private address, set allow_private = true in [providers.{provider}]"
            ),
            error => self.clean(error.to_string()),
        }
    }

    fn failed(&self, kind: FailureKind, message: String) -> ExchangeError {
        let provider = self.way.provider.to_string();
        ExchangeError::Failed { provider, kind, message, status: None, code: None, again_in: None }
    }

    fn broken(&self, failure: Failure) -> Stop {
        let failure = match failure {
            Failure::Trap { reason, printed } => Failure::Trap {
                reason: self.clean(reason),
                printed: printed.into_iter().map(|line| self.clean(line)).collect(),
            },
            Failure::InvalidOutput(text) => Failure::InvalidOutput(self.clean(text)),
            failure => failure,
        };
        Stop::Failed(ExchangeError::Sandbox { provider: self.way.provider.to_string(), failure })
    }

    fn clean(&self, text: String) -> String {
        self.keys.scrub.text(&text)
    }
}

/// Both, as sentences.
pub(super) fn sentences(first: &str, second: &str) -> String {
    format!("{}. {second}", first.trim_end_matches('.'))
}

fn over(what: String) -> Breach {
    Breach { code: Code::LimitExchange, what }
}

async fn at(timer: Option<Instant>) {
    match timer {
        Some(timer) => tokio::time::sleep_until(timer).await,
        None => std::future::pending().await,
    }
}

async fn hear(flight: &mut Option<Flight>) -> Result<Input, Stop> {
    match flight {
        Some(flight) => flight.next().await,
        None => std::future::pending().await,
    }
}
