//! The data that the caller of a completion receives: the stream ([`Sink`]), and how it ended ([`Completed`]).

use futures_util::future::BoxFuture;
use patchbay_core::{
    Name, Retrying,
    completion::{FailureKind, Finish, StreamEvent, TokenUsage},
    text,
};

use crate::{ExchangeError, retry::NextAttempt};

/// Length limit in characters of the cause of a retry.
const CAUSE: usize = 200;

/// Receives a completion while it runs. The methods must not block.
pub trait Sink: Send {
    /// Receives a piece of the answer. Blocks are numbered from 0; each is started once and ended once.
    fn event(&mut self, event: StreamEvent);

    /// Called when the provider refused an attempt because of a rate limit or an overload, before the call that
    /// announces the next attempt, and also if none follows.
    fn overloaded(&mut self) {}

    /// Called when an attempt failed in a way that cannot have cost anything: the provider was not reached, or responded with an
    /// error. The call that reports a retry, if any, comes after this one.
    fn refused(&mut self) {}

    /// Called when an attempt failed before any block began, and another one follows after a wait. Earlier events of the failed
    /// attempt are void; only the tokens of its last [`StreamEvent::Usage`] were used.
    fn retrying(&mut self, retrying: &Retrying);

    /// Called instead of [`Sink::retrying`] when the attempt had begun an answer. That beginning is discarded; the next
    /// attempt begins with block 0.
    fn given_up(&mut self, retrying: &Retrying) {
        self.retrying(retrying);
    }

    /// Called after the wait; the next attempt begins when the future ends.
    fn ready(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Returns the retry of a failed attempt, for [`Sink::retrying`] and [`Sink::given_up`].
pub(crate) fn retrying(provider: &Name, failure: &ExchangeError, next: NextAttempt) -> Retrying {
    let what = match failure.kind() {
        FailureKind::RateLimit => "Rate limit exceeded",
        FailureKind::Server => "Server error",
        FailureKind::Timeout => "Timed out",
        FailureKind::Network => "Connection failed",
        _ => "Failed",
    };
    Retrying {
        provider: provider.to_string(),
        what: what.to_owned(),
        cause: cause(failure),
        wait_ms: u64::try_from(next.delay.as_millis()).unwrap_or(u64::MAX),
        attempt: next.number,
        of: next.of,
    }
}

/// Returns the error reported by the provider or the system, in a few words. A failed connection yields the system's
/// error without the address and the number: `connection refused`.
fn cause(failure: &ExchangeError) -> String {
    let ExchangeError::Failed { kind, message, .. } = failure else {
        return text::excerpt(&failure.to_string(), CAUSE);
    };
    let message = text::clean_line(message);
    if *kind != FailureKind::Network {
        return text::excerpt(&message, CAUSE);
    }
    let cause = message.rsplit(": ").next().unwrap_or_default();
    let cause = cause.split(" (os error").next().unwrap_or_default();
    let mut characters = cause.chars();
    let first = characters.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    text::excerpt(&format!("{first}{}", characters.as_str()), CAUSE)
}

/// The end of a successful completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// How and why the model stopped.
    pub finish: Finish,
    /// The tokens that the completion used.
    pub usage: TokenUsage,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn failed(kind: FailureKind, message: &str) -> ExchangeError {
        let (provider, message) = ("openai".to_owned(), message.to_owned());
        ExchangeError::Failed { provider, kind, message, for_models: None, status: None, code: None, again_in: None }
    }

    #[test]
    fn retry_names_kind_cause_and_wait() {
        let failure = failed(FailureKind::RateLimit, "slow\u{1b} down");
        let next = NextAttempt { delay: Duration::from_micros(1_500_900), number: 2, of: 15 };
        let retrying = retrying(&"openai".parse().unwrap(), &failure, next);
        assert_eq!((retrying.cause.as_str(), retrying.wait_ms), ("slow down", 1_500));
        assert_eq!(retrying.to_string(), "Rate limit exceeded: openai. Retrying in 2 s (attempt 2 of at most 15).");
    }

    #[test]
    fn cause_of_a_failed_connection_is_short() {
        for (message, expected) in [
            ("cannot connect to http://localhost:8080: Connection refused (os error 111)", "connection refused"),
            (
                "the response from https://example.org was cut short",
                "the response from https://example.org was cut short",
            ),
            ("", ""),
        ] {
            assert_eq!(cause(&failed(FailureKind::Network, message)), expected);
        }
        let long = "x".repeat(CAUSE + 1);
        assert_eq!(cause(&failed(FailureKind::Server, &long)).chars().count(), CAUSE + 1);
    }
}
