//! Signals that ask the process to end. `main` and `mcp` call it.

use tokio_util::sync::CancellationToken;

/// Cancels `stopped` at the first signal that asks the process to end: SIGINT, SIGTERM and, with `on_hangup`, SIGHUP. Clients over
/// standard input and output send SIGTERM. A process that a user starts under `nohup` must not handle SIGHUP.
///
/// # Panics
/// Outside of a Tokio runtime.
pub(crate) fn cancel_on_signal(stopped: CancellationToken, on_hangup: bool) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [Some(SignalKind::interrupt()), Some(SignalKind::terminate()), on_hangup.then(SignalKind::hangup)];
        for kind in kinds.into_iter().flatten() {
            // Without a handler, the signal ends the process at once.
            let Ok(mut signals) = signal(kind) else { continue };
            let stopped = stopped.clone();
            tokio::spawn(async move {
                signals.recv().await;
                stopped.cancel();
            });
        }
    }
    #[cfg(not(unix))]
    {
        let _ = on_hangup;
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                stopped.cancel();
            }
        });
    }
}
