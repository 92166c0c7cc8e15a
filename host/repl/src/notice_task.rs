//! Shows notices while the user is at the prompt. `editor` and `plain` start it before they read a line.

use patchbay_session::{Received, Subscription};
use tokio::{runtime::Handle, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// A task that shows notices until a line runs. It owns the subscription meanwhile, so that no event is shown twice.
pub(crate) struct NoticeTask {
    over: CancellationToken,
    task: JoinHandle<Subscription>,
}

impl NoticeTask {
    /// Starts the task, which passes each notice to `show` as one line.
    pub(crate) fn start(
        runtime: &Handle,
        mut events: Subscription,
        mut show: impl FnMut(String) + Send + 'static,
    ) -> Self {
        let over = CancellationToken::new();
        let until = over.clone();
        let task = runtime.spawn(async move {
            // A read error is reported by the next line.
            while let Some(Ok(Some(received))) = until.run_until_cancelled(events.next()).await {
                if let Received::Event(event) = received
                    && let Some(text) = event.kind.notice()
                {
                    show(text);
                }
            }
            events
        });
        Self { over, task }
    }

    /// Stops the task and returns the subscription; `None` if the task panicked or was cancelled.
    pub(crate) fn end(self, runtime: &Handle) -> Option<Subscription> {
        self.over.cancel();
        runtime.block_on(self.task).ok()
    }
}
