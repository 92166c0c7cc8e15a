//! Ctrl+C while a line runs. The line editor handles Ctrl+C at the prompt itself.

use std::{future, io};

use tokio::runtime::Handle;
#[cfg(unix)]
use tokio::signal::unix::Signal;
#[cfg(not(unix))]
use tokio::signal::windows::CtrlC as Signal;

/// Receives Ctrl+C; without a terminal the signal keeps its default effect.
pub(crate) struct Interrupts(Option<Signal>);

impl Interrupts {
    /// Registers a handler, so that Ctrl+C does not end the process. A signal is kept until [`Interrupts::next`] is called.
    pub(crate) fn taken(runtime: &Handle) -> io::Result<Self> {
        let _entered = runtime.enter();
        #[cfg(unix)]
        let signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
        #[cfg(not(unix))]
        let signal = tokio::signal::windows::ctrl_c()?;
        Ok(Self(Some(signal)))
    }

    /// Leaves the system's default: Ctrl+C ends the process.
    pub(crate) fn left_alone() -> Self {
        Self(None)
    }

    /// Waits for the next Ctrl+C; returns at once if one is pending.
    pub(crate) async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => future::pending().await,
        }
    }

    /// Discards a pending Ctrl+C: it was meant for an earlier line.
    pub(crate) async fn forget(&mut self) {
        tokio::select! {
            biased;
            () = self.next() => {}
            () = future::ready(()) => {}
        }
    }
}
