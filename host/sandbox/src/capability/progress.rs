//! `patchbay:host/progress`: partial output of a running tool. Always granted, bounded with the result.

use patchbay_core::text;

use crate::{bindings::patchbay::host::progress as wit, state::GuestState};

/// Who hears how a tool gets on.
pub trait ProgressSink: Send + Sync {
    /// Takes one piece, already cleaned and bounded.
    fn report(&self, text: &str);
}

impl wit::Host for GuestState {
    async fn report(&mut self, text: String) -> wasmtime::Result<()> {
        self.count_host_call()?;
        self.count_output(text.len())?;
        if let Some(services) = self.services() {
            services.progress.report(&text::clean(&text));
        }
        Ok(())
    }
}
