//! Describes the failure of an attempt to the caller, and decides whether another attempt may follow.
//!
//! Called by `attempt` when an attempt ends, and by [`drive`](super::drive) when it gives up. No message that is returned from here
//! contains a secret.

use patchbay_core::completion::FailureKind;
use patchbay_egress::{EgressError, Scrub, SecretLookup};
use patchbay_sandbox::{
    Failure,
    adapter::{AdapterFailure, RetryHint, TransportKind},
};

use super::{AttemptStop, RequestTarget, Violation};
use crate::{
    ExchangeError,
    retry::{self, Setback},
};

pub(super) struct AttemptFailure {
    pub(super) error: ExchangeError,
    /// The adapter's hint about another attempt.
    pub(super) hint: RetryHint,
    /// The kind of a transient failure; `None` if no other attempt may follow.
    pub(super) setback: Option<Setback>,
    /// Whether the provider was overloaded or reported a rate limit, possibly in the middle of an answer.
    pub(super) is_overload: bool,
    /// Whether the server rejected the key, with the status 401, before an answer began.
    pub(super) is_unauthorized: bool,
    /// Whether the provider cannot have charged for the attempt.
    pub(super) is_free: bool,
}

/// How far an attempt got before it failed.
pub(super) struct Progress<'a> {
    /// Whether a block of the answer began.
    pub(super) has_begun: bool,
    /// The last connection that failed, unless another request followed it.
    pub(super) lost: Option<&'a LostConnection>,
}

/// A failed connection, as reported to the adapter.
pub(super) struct LostConnection {
    pub(super) kind: TransportKind,
    pub(super) message: String,
}

/// Describes failures of exchanges with one provider. `scrub` removes the secrets.
#[derive(Clone, Copy)]
pub(super) struct Reporter<'a> {
    pub(super) target: &'a RequestTarget<'a>,
    pub(super) scrub: &'a Scrub,
}

impl Reporter<'_> {
    /// Returns the failure of an attempt that ended with `stop`.
    pub(super) fn failure(&self, stop: AttemptStop, progress: &Progress<'_>) -> AttemptFailure {
        let final_failure = |error| AttemptFailure {
            error,
            hint: RetryHint::Never,
            setback: None,
            is_overload: false,
            is_unauthorized: false,
            is_free: false,
        };
        match stop {
            AttemptStop::Adapter(failure) => self.provider_failure(failure, progress),
            AttemptStop::Failed(error) => final_failure(error),
            AttemptStop::Refused(error) => final_failure(self.failed(FailureKind::Network, self.refused_base(&error))),
            AttemptStop::Violation(Violation { code, what }) => {
                let provider = self.target.provider.to_string();
                final_failure(ExchangeError::Adapter { provider, code, what: self.scrub.clean(what) })
            }
        }
    }

    /// Returns a failure of `kind` that has neither a status nor a code of the provider.
    pub(super) fn failed(&self, kind: FailureKind, message: String) -> ExchangeError {
        let provider = self.target.provider.to_string();
        ExchangeError::Failed { provider, kind, message, for_models: None, status: None, code: None, again_in: None }
    }

    /// Returns the failure of the adapter's component.
    pub(super) fn sandbox_failure(&self, failure: Failure) -> ExchangeError {
        let clean = |text| self.scrub.clean(text);
        let failure = match failure {
            Failure::Trap { reason, places, printed } => {
                let places = places.into_iter().map(&clean).collect();
                Failure::Trap { reason: clean(reason), places, printed: printed.into_iter().map(clean).collect() }
            }
            Failure::InvalidOutput(text) => Failure::InvalidOutput(clean(text)),
            failure => failure,
        };
        ExchangeError::Sandbox { provider: self.target.provider.to_string(), failure }
    }

    /// Returns the provider's failure, as its adapter reports it.
    fn provider_failure(&self, failure: AdapterFailure, progress: &Progress<'_>) -> AttemptFailure {
        let AdapterFailure { kind, message, http_status, code, retry } = failure;
        let mut message = self.scrub.clean(message);
        if message.is_empty() {
            message = http_status.map_or_else(
                || "it failed".to_owned(),
                |status| {
                    format!(
                        "it responded with status \
                {status}"
                    )
                },
            );
        }
        // The operator must see which limit was exceeded, even if the adapter's message does not say so.
        if let Some(lost) = progress.lost.filter(|lost| !message.contains(lost.message.as_str())) {
            message = format!("{message} ({})", lost.message);
        }
        let is_overload = kind == FailureKind::RateLimit
            || kind == FailureKind::Server && reports_overload(http_status, code.as_deref());
        let was_too_large = progress.lost.is_some_and(|lost| lost.kind == TransportKind::TooLarge);
        let setback = match kind {
            _ if was_too_large => None,
            FailureKind::RateLimit | FailureKind::Server | FailureKind::Timeout | FailureKind::Network
                if progress.has_begun =>
            {
                Some(Setback::BrokenOff)
            }
            _ if is_overload => Some(Setback::Overload),
            FailureKind::Server | FailureKind::Timeout | FailureKind::Network => Some(Setback::Passing),
            _ => None,
        };
        let for_models = self.has_key_command(kind).then(|| sentences(&message, "Check its key command"));
        let error = ExchangeError::Failed {
            provider: self.target.provider.to_string(),
            kind,
            message: self.with_advice(message, kind, http_status),
            for_models,
            status: http_status,
            code: code.map(|code| self.scrub.clean(code)),
            again_in: None,
        };
        AttemptFailure { error, hint: retry, setback, is_overload, is_unauthorized: false, is_free: false }
    }

    /// Returns whether the advice about a failure of `kind` contains the provider's key command.
    fn has_key_command(&self, kind: FailureKind) -> bool {
        let secret = self.target.credential.map(|credential| &credential.secret.lookup);
        kind == FailureKind::Authentication && matches!(secret, Some(SecretLookup::Command(_)))
    }

    /// Appends advice for the user about a failure of `kind` to `message`.
    fn with_advice(&self, message: String, kind: FailureKind, status: Option<u16>) -> String {
        let provider = self.target.provider;
        let advice = match (kind, self.target.credential) {
            (FailureKind::Authentication, Some(credential)) => match &credential.secret.lookup {
                SecretLookup::Command(command) => format!("Check its key command: {command}"),
                SecretLookup::Stored(variables) if variables.is_empty() => {
                    "Check its key in credentials.json".to_owned()
                }
                SecretLookup::Stored(variables) => format!("Check {variables} or credentials.json"),
            },
            (FailureKind::Authentication, None) => {
                format!(
                    "It has no key: set env = \"NAME\" in [providers.{provider}] of config.toml, and the variable NAME"
                )
            }
            _ if status.is_some_and(|status| (300..400).contains(&status)) => {
                format!("A redirect is not followed: check origin in [providers.{provider}] of config.toml")
            }
            (FailureKind::NotFound, _) => {
                format!(
                    "Check the model's name, and origin in [providers.{provider}] of config.toml if it is set there"
                )
            }
            _ => return message,
        };
        sentences(&message, &advice)
    }

    /// Returns why the operator's base URL may not be requested.
    fn refused_base(&self, error: &EgressError) -> String {
        let private = self.target.base.is_some_and(|base| base.allow_private);
        let provider = self.target.provider;
        match error {
            EgressError::Address { host, address, what, .. } if !private => format!(
                "'{host}' is {address}, {what}, which it may not reach; private addresses need allow_private = true in [providers.{provider}]"
            ),
            EgressError::PlainHttp { origin } => format!(
                "refusing to send an unencrypted request to {origin}. Use https; for a private address, set \
                 allow_private = true in [providers.{provider}]"
            ),
            error => self.scrub.clean(error.to_string()),
        }
    }
}

/// Returns whether an error means that the server is overloaded. APIs report it with the statuses 503 and 529, and in
/// the middle of a response with codes such as `overloaded_error`, `server_overloaded`, `UNAVAILABLE` and `slow_down`.
fn reports_overload(status: Option<u16>, code: Option<&str>) -> bool {
    let code = code.unwrap_or_default().to_ascii_lowercase();
    matches!(status, Some(503 | 529)) || ["overload", "unavailable", "slow_down"].iter().any(|word| code.contains(word))
}

/// Returns the error of the last attempt, with the time of the next try if the provider sent one.
pub(super) fn given_up(failure: AttemptFailure) -> ExchangeError {
    let AttemptFailure { mut error, hint, .. } = failure;
    if let (ExchangeError::Failed { message, for_models, again_in, .. }, RetryHint::After(time)) = (&mut error, hint)
        && !time.is_zero()
    {
        *again_in = Some(time);
        for message in [Some(message), for_models.as_mut()].into_iter().flatten() {
            *message = sentences(message, &format!("Try again in {}", retry::in_words(time)));
        }
    }
    error
}

/// Joins two sentences. The first may already end with a full stop.
fn sentences(first: &str, second: &str) -> String {
    format!("{}. {second}", first.trim_end_matches('.'))
}
