use std::time::Duration;

use patchbay_core::completion::{Finish, StreamEvent, TokenUsage};

/// Who hears of a completion while it goes on. Called between two awaits: it must not block.
pub trait Sink: Send {
    /// A piece of the answer. The law of blocks has been checked: each is started once, ended once, numbered from 0.
    fn event(&mut self, event: StreamEvent);

    /// An attempt failed before anything came of it, and another follows.
    fn retrying(&mut self, retrying: &Retrying);
}

/// What is said before a completion is tried again.
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

/// How a completion ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Why the model stopped.
    pub finish: Finish,
    /// What it took.
    pub usage: TokenUsage,
}
