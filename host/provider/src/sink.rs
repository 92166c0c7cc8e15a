//! What the caller of a completion receives: the stream ([`Sink`]), and how it ended ([`Completed`]).

use std::{fmt, time::Duration};

use patchbay_core::completion::{FailureKind, Finish, StreamEvent, TokenUsage};

/// Receives a completion while it runs. The methods must not block.
pub trait Sink: Send {
    /// Receives a piece of the answer. Blocks are numbered from 0; each is started once and ended once.
    fn event(&mut self, event: StreamEvent);

    /// Called when an attempt failed before any block began and another one follows. Earlier events of the failed attempt
    /// ([`StreamEvent::Started`], [`StreamEvent::Usage`]) are void.
    fn retrying(&mut self, retrying: &Retrying);
}

/// The message before a retry: `Rate limit exceeded: openai. Retrying in 60 s (attempt 1 of 3).`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retrying {
    /// The provider.
    pub provider: String,
    /// The kind of failure, such as `Rate limit exceeded`.
    pub what: &'static str,
    /// The wait before the retry.
    pub delay: Duration,
    /// The number of the retry, from 1.
    pub attempt: u32,
    /// The most retries of a completion.
    pub of: u32,
}

impl Retrying {
    /// Returns the words for a failure that is retried.
    pub(crate) fn what(kind: FailureKind) -> &'static str {
        match kind {
            FailureKind::RateLimit => "Rate limit exceeded",
            FailureKind::Server => "Server error",
            FailureKind::Timeout => "Timed out",
            FailureKind::Network => "Connection failed",
            _ => "Failed",
        }
    }
}

impl fmt::Display for Retrying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, what, delay, attempt, of } = self;
        // Rounded up, so that the wait is never longer than announced.
        let seconds = delay.as_millis().div_ceil(1000);
        write!(f, "{what}: {provider}. Retrying in {seconds} s (attempt {attempt} of {of}).")
    }
}

/// The end of a successful completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Why the model stopped.
    pub finish: Finish,
    /// The tokens that it used.
    pub usage: TokenUsage,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_message_is_exact() {
        let mut retrying = Retrying {
            provider: "openai".to_owned(),
            what: Retrying::what(FailureKind::RateLimit),
            delay: Duration::from_secs(60),
            attempt: 1,
            of: 3,
        };
        assert_eq!(retrying.to_string(), "Rate limit exceeded: openai. Retrying in 60 s (attempt 1 of 3).");
        retrying.what = Retrying::what(FailureKind::Network);
        retrying.delay = Duration::from_millis(1001);
        assert_eq!(retrying.to_string(), "Connection failed: openai. Retrying in 2 s (attempt 1 of 3).");
    }
}
