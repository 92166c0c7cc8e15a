//! Signals of the system that the loop in `terminal` handles, so that the terminal is restored before the process ends.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals of the system.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal. The future is cancel-safe.
    pub(super) async fn next(&mut self) -> Signalled {
        tokio::select! {
            _ = self.interrupt.recv() => Signalled::Interrupt,
            _ = self.terminate.recv() => Signalled::Leave,
            _ = self.hang_up.recv() => Signalled::Leave,
        }
    }
}

/// What a signal asks for.
pub(super) enum Signalled {
    /// The same as Ctrl+C.
    Interrupt,
    Leave,
}
