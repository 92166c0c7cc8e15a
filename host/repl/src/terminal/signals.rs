//! Signals for the main loop in `terminal`, which restores the terminal before the process ends. A closed terminal also
//! counts as a signal.

use std::{io, thread};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Timeout of one `poll` for the end of the terminal; `None` waits forever. On macOS, a `poll` without
/// a timeout stops working after a key press, so it is restarted every second.
const POLL_TIMEOUT: Option<Timespec> =
    if cfg!(target_os = "macos") { Some(Timespec { tv_sec: 1, tv_nsec: 0 }) } else { None };

pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    /// Cancelled when the terminal is closed.
    closed: CancellationToken,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            closed: terminal_closed(),
        })
    }

    /// Waits for the next signal. The future is cancel-safe.
    pub(super) async fn next(&mut self) -> Signalled {
        tokio::select! {
            _ = self.interrupt.recv() => Signalled::Interrupt,
            _ = self.terminate.recv() => Signalled::Leave,
            _ = self.hang_up.recv() => Signalled::Leave,
            () = self.closed.cancelled() => Signalled::Leave,
        }
    }
}

/// Returns a token that is cancelled when the terminal is closed. SIGHUP is not enough, because it is only sent for the
/// controlling terminal, and the key reader does not report the end of its input.
fn terminal_closed() -> CancellationToken {
    let closed = CancellationToken::new();
    let token = closed.clone();
    thread::spawn(move || {
        let input = io::stdin();
        // Linux always reports HUP, macOS only if it is requested.
        let mut polled = [PollFd::new(&input, PollFlags::HUP)];
        while retry_on_intr(|| poll(&mut polled, POLL_TIMEOUT.as_ref())).is_ok() {
            let found = polled[0].revents();
            if found.intersects(PollFlags::HUP | PollFlags::ERR) {
                return token.cancel();
            }
            if !found.is_empty() {
                // Only NVAL remains: this input cannot be polled.
                return;
            }
        }
    });
    closed
}

pub(super) enum Signalled {
    /// SIGINT: the same as pressing Ctrl+C.
    Interrupt,
    /// SIGTERM, SIGHUP or a closed terminal: the front ends.
    Leave,
}
