//! What happens while the person is at the prompt, and nothing runs.

use patchbay_core::EventKind;
use patchbay_session::{Received, Subscription};
use tokio::{runtime::Handle, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// Shows notices until a line is run. It has the events meanwhile, so that each of them is shown once.
pub(crate) struct NoticeTask {
    over: CancellationToken,
    task: JoinHandle<Subscription>,
}

impl NoticeTask {
    /// From here on `show` shows each notice, a line of text.
    pub(crate) fn start(
        runtime: &Handle,
        mut events: Subscription,
        mut show: impl FnMut(String) + Send + 'static,
    ) -> Self {
        let over = CancellationToken::new();
        let until = over.clone();
        let task = runtime.spawn(async move {
            // What cannot be read now is an error of the next line.
            while let Some(Ok(Some(received))) = until.run_until_cancelled(events.next()).await {
                if let Received::Event(event) = received
                    && let EventKind::Notice { text } = event.kind
                {
                    show(text);
                }
            }
            events
        });
        Self { over, task }
    }

    /// Gives back the events that nobody has shown yet; none where the task has come to harm.
    pub(crate) fn end(self, runtime: &Handle) -> Option<Subscription> {
        self.over.cancel();
        runtime.block_on(self.task).ok()
    }
}
