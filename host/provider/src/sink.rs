//! What the caller of a completion receives: a stream of events ([`Sink`]), then its end ([`Completed`]).

use futures_util::future::BoxFuture;
use patchbay_core::{
    Name, Retrying,
    completion::{FailureKind, Finish, StreamEvent, TokenUsage},
    text,
};

use crate::{ExchangeError, retry::NextAttempt};

/// Length limit of a retry's cause, in characters.
const CAUSE_CHARS: usize = 200;

/// Receives a completion while it runs. The methods must not block.
pub trait Sink: Send {
    /// Receives a piece of the answer. Blocks are numbered from 0; each one is started and ended exactly once.
    fn event(&mut self, event: StreamEvent);

    /// Called when an attempt failed because of a rate limit or an overload, whether or not it is retried. If it is,
    /// the retry is announced after this call.
    fn overloaded(&mut self) {}

    /// Called when an attempt failed and cannot have cost anything: the provider was not reached, or responded with an
    /// error. If the attempt is retried, the retry is announced after this call.
    fn failed_free(&mut self) {}

    /// Announces a retry of an attempt that failed before any block began. Discard its events, except that the tokens
    /// of its last [`StreamEvent::Usage`] were used.
    fn retrying(&mut self, retrying: &Retrying);

    /// Announces a retry of an attempt that failed in the middle of its answer. Discard what was received of the
    /// answer; the retry begins with block 0.
    fn given_up(&mut self, retrying: &Retrying) {
        self.retrying(retrying);
    }

    /// Called after the wait. The retry begins when the future completes, so an implementation can hold it back.
    fn ready(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Describes the retry after a failed attempt, for [`Sink::retrying`] and [`Sink::given_up`].
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

/// Returns the cause of a failure in a few words. For a failed connection, only the operating system's error remains,
/// without its number, such as `connection refused`: it is taken to be whatever follows the last `: `.
fn cause(failure: &ExchangeError) -> String {
    let ExchangeError::Failed { kind, message, .. } = failure else {
        return text::excerpt(&failure.to_string(), CAUSE_CHARS);
    };
    let message = text::clean_line(message);
    if *kind != FailureKind::Network {
        return text::excerpt(&message, CAUSE_CHARS);
    }
    let cause = message.rsplit(": ").next().unwrap_or_default();
    let cause = cause.split(" (os error").next().unwrap_or_default();
    let mut characters = cause.chars();
    let first = characters.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    text::excerpt(&format!("{first}{}", characters.as_str()), CAUSE_CHARS)
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
        let long = "x".repeat(CAUSE_CHARS + 1);
        assert_eq!(cause(&failed(FailureKind::Server, &long)).chars().count(), CAUSE_CHARS + 1);
    }
}
