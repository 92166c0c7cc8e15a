//! Limits how many bytes of tool results a session's agents store until the user's next message. Without a limit, a model that
//! keeps calling a tool that returns megabytes would fill the disk. `calls` counts each result before it is stored.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use patchbay_core::{Code, Outcome, ToolRecord, completion::ToolCall, text};

use crate::interrupted::failed;

/// The limit on the bytes of tool results that a session stores, which its agents share.
pub struct ResultRoom {
    /// Bytes since the user's last message; `u64::MAX` once a result did not fit.
    used: AtomicU64,
    limit: u64,
}

impl ResultRoom {
    /// Allows `limit` bytes between two messages of the user, for all agents of a session together.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { used: AtomicU64::new(0), limit })
    }

    /// Restarts the count at zero. Called for each message of the user.
    pub fn message_came(&self) {
        self.used.store(0, Ordering::Relaxed);
    }

    /// Counts a result of `bytes`, and returns whether it fits. Once a result does not fit, no further result fits until
    /// the user's next message.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        let fits = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if !fits {
            self.used.store(u64::MAX, Ordering::Relaxed);
        }
        fits
    }

    /// Checks that no result was refused since the last message.
    ///
    /// # Errors
    /// The outcome of a turn that may call no more tools.
    pub(crate) fn check(&self) -> Result<(), Outcome> {
        if self.used.load(Ordering::Relaxed) <= self.limit {
            return Ok(());
        }
        let message = format!("{} Send any message to continue.", self.reached("your"));
        Err(Outcome::error(Code::LimitResults, message))
    }

    fn reached(&self, whose: &str) -> String {
        format!(
            "the tool results of this session have reached the limit of {} bytes between two messages \
             (limits.result_bytes); the count restarts with {whose} next message.",
            text::with_commas(self.limit)
        )
    }

    /// Returns the results, for the user and for the model, of a call whose result of `bytes` did not fit.
    pub(crate) fn refused(&self, call: &ToolCall, bytes: u64) -> (String, ToolRecord) {
        let (tool, bytes) = (text::excerpt(&call.name, 80), text::with_commas(bytes));
        let why = self.reached("the user's");
        let message = format!("'{tool}' ran, but its result of {bytes} bytes was not stored: {why}");
        failed(call, message, Code::LimitResults)
    }

    /// Returns the results, for the user and for the model, of a call that was not run because an earlier result did not fit.
    pub(crate) fn not_run(&self, call: &ToolCall) -> (String, ToolRecord) {
        let (tool, why) = (text::excerpt(&call.name, 80), self.reached("the user's"));
        failed(call, format!("'{tool}' was not run: {why}"), Code::LimitResults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_limited_until_the_next_message() {
        let room = ResultRoom::new(1_000);
        assert!(room.take(600) && room.take(400) && room.check().is_ok());
        assert!(!room.take(1));
        assert!(!room.take(0), "after one that does not fit, none fits");
        let refused = room.check().unwrap_err();
        assert_eq!(
            (refused.code, &*refused.message),
            (
                Code::LimitResults,
                "the tool results of this session have reached the limit of 1,000 bytes between two messages \
                 (limits.result_bytes); the count restarts with your next message. Send any message to continue."
            )
        );
        room.message_came();
        assert!(room.check().is_ok() && room.take(1_000) && !room.take(u64::MAX));
    }
}
