//! Shows what happens while the user is at the prompt: notices, and turns that mail begins. `plain` starts it before it reads a
//! line.

use patchbay_session::Subscription;
use tokio::{runtime::Handle, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::pipe::PipeOutput;

/// A task that shows events until a line runs. It owns the subscription and the output meanwhile, so that no event is shown
/// twice.
pub(crate) struct NoticeTask {
    over: CancellationToken,
    task: JoinHandle<(Subscription, PipeOutput)>,
}

impl NoticeTask {
    /// Starts the task.
    pub(crate) fn start(runtime: &Handle, mut events: Subscription, mut output: PipeOutput) -> Self {
        let over = CancellationToken::new();
        let until = over.clone();
        let task = runtime.spawn(async move {
            // A read error is reported by the next line.
            while let Some(Ok(Some(received))) = until.run_until_cancelled(events.next()).await {
                // The next outcome detects a closed pipe.
                drop(output.show(received));
            }
            (events, output)
        });
        Self { over, task }
    }

    /// Stops the task and returns what it owned; `None` if the task panicked or was cancelled.
    pub(crate) fn end(self, runtime: &Handle) -> Option<(Subscription, PipeOutput)> {
        self.over.cancel();
        runtime.block_on(self.task).ok()
    }
}
