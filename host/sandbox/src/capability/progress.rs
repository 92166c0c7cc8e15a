//! `patchbay:host/progress`: partial output of a running tool. Needs no grant; its size counts together with the result's.

use patchbay_core::text;

use crate::{bindings::patchbay::host::progress as wit, state::GuestState};

/// Receives the partial output of a tool.
pub trait ProgressSink: Send + Sync {
    /// Reports one piece, which is cleaned and bounded.
    fn report(&self, text: &str);
}

impl wit::Host for GuestState {
    async fn report(&mut self, text: String) -> wasmtime::Result<()> {
        self.count_host_call()?;
        self.count_output(text.len())?;
        let text = text::clean(&text);
        if let Some(services) = self.services() {
            services.progress.report(&text);
        }
        self.keep_reported(&text);
        Ok(())
    }
}
