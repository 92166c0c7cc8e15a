use std::{fmt, time::Duration};

use patchbay_core::completion::{FailureKind, Finish, StreamEvent, TokenUsage};

/// Who hears of a completion while it goes on. Called between two awaits: it must not block.
pub trait Sink: Send {
    /// A piece of the answer. The law of blocks has been checked: each is started once, ended once, numbered from 0.
    fn event(&mut self, event: StreamEvent);

    /// An attempt failed before any block of an answer began, and another follows. What was told of the failed one
    /// ([`StreamEvent::Started`], [`StreamEvent::Usage`]) is void.
    fn retrying(&mut self, retrying: &Retrying);
}

/// What is said before a completion is tried again: `Rate limit exceeded: openai. Retrying in 60 s (attempt 1 of 3).`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retrying {
    /// The provider.
    pub provider: String,
    /// What happened, in words such as `Rate limit exceeded`.
    pub what: &'static str,
    /// How long it waits.
    pub delay: Duration,
    /// Which retry comes, from 1.
    pub attempt: u32,
    /// How many there are at most.
    pub of: u32,
}

impl Retrying {
    /// The words for a failure that is tried again.
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
        // A second that has begun counts, so that nobody is told less than what it takes.
        let seconds = delay.as_millis().div_ceil(1000);
        write!(f, "{what}: {provider}. Retrying in {seconds} s (attempt {attempt} of {of}).")
    }
}

/// How a completion ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Why the model stopped.
    pub finish: Finish,
    /// What it took.
    pub usage: TokenUsage,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_is_announced_in_these_words() {
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
