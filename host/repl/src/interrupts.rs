//! Ctrl+C while a line runs.

use std::{future, io};

use tokio::runtime::Handle;

/// Who has Ctrl+C.
pub(crate) struct Interrupts(Option<Signal>);

#[cfg(unix)]
type Signal = tokio::signal::unix::Signal;
#[cfg(not(unix))]
type Signal = tokio::signal::windows::CtrlC;

impl Interrupts {
    /// From here on Ctrl+C never ends the process: one that comes is kept until somebody asks.
    pub(crate) fn taken(runtime: &Handle) -> io::Result<Self> {
        let _entered = runtime.enter();
        #[cfg(unix)]
        let signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
        #[cfg(not(unix))]
        let signal = tokio::signal::windows::ctrl_c()?;
        Ok(Self(Some(signal)))
    }

    /// Ctrl+C ends the process, as the system has it.
    pub(crate) fn left_alone() -> Self {
        Self(None)
    }

    /// The next one, also if it has come already.
    pub(crate) async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => future::pending().await,
        }
    }

    /// Forgets one that came before: it was meant for what ran then.
    pub(crate) async fn forget(&mut self) {
        tokio::select! {
            biased;
            () = self.next() => {}
            () = future::ready(()) => {}
        }
    }
}
