//! Tells the users of a session about the recording of calls. `patchbay_fixture::Recorder` does the work.

use std::sync::{Arc, Weak};

use patchbay_core::{SessionId, text};
use patchbay_fixture::{Recorder, SESSION_BYTES};
use patchbay_store::{RecordedSize, Store, StoreError};
use tokio::runtime::Handle;

use crate::Host;

/// Tells the users of a session when it has no more room for recordings.
pub(crate) fn notify_when_full(host: &Arc<Host>, recorder: &Recorder) {
    let host = Arc::downgrade(host);
    recorder.on_full(move |id| {
        // The recorder enters the runtime of the calls before it calls this, also on the store's writer thread. Without a runtime,
        // nobody is notified.
        let Ok(runtime) = Handle::try_current() else { return };
        let host = Weak::clone(&host);
        runtime.spawn(async move {
            // Upgraded only in this task: the store's writer thread may run the callback, and must not hold a reference to the
            // host.
            let Some(host) = host.upgrade() else { return };
            let session = host.open_session(id).await;
            if let Some(session) = session {
                let most = SESSION_BYTES >> 20;
                session.notify(&format!(
                    "Calls of this session are no longer recorded: recordings have reached the limit of {most} MiB."
                ));
            }
        });
    });
}

/// Returns a line about the recordings of a session: whether calls are recorded now, and how many were recorded. `None` if calls
/// are not recorded and none were.
///
/// # Errors
/// The store could not be read.
pub(crate) async fn line(store: &Store, session: SessionId, records: bool) -> Result<Option<String>, StoreError> {
    // Recordings are written a moment after their calls.
    store.settle().await?;
    let RecordedSize { calls, bytes } = store.recorded_size(session)?;
    if !records && calls == 0 {
        return Ok(None);
    }
    let (state, noun) = (if records { "on" } else { "off" }, if calls == 1 { "call" } else { "calls" });
    let (calls, kib, most) = (text::with_commas(calls), text::with_commas(bytes.div_ceil(1024)), SESSION_BYTES >> 20);
    Ok(Some(format!("Recording of calls is {state}: {calls} {noun}, {kib} KiB of {most} MiB")))
}
