//! The tape of a call: collects the call's inputs for its recording.

use patchbay_sandbox::{Content, Usage};
use patchbay_store::PendingRecording;

/// The end of a call that was not dropped.
pub struct CallEnd<'a> {
    /// The result, or the failure.
    pub result: Result<&'a [Content], CallEndFailure>,
    /// The resources that the call used.
    pub usage: &'a Usage,
}

/// The failure that a call ended with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEndFailure {
    /// The tool's own kind of failure, or the host's code if the host stopped or refused the call.
    pub kind: String,
    /// The tool's message; `None` for the host's own failures, which may name folders and commands of this machine.
    pub message: Option<String>,
}

/// Collects the inputs of one call: answers to its host calls.
pub trait CallTape: Send + Sync {
    /// Returns the recording for the call's journal row; `None` if nothing is to be stored. `ended` is `None` if the
    /// call was dropped. Called once, and the call's result waits for it.
    fn end(&self, ended: Option<CallEnd<'_>>) -> Option<PendingRecording>;
}
