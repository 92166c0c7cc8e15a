//! `patchbay:host/inference`: one completion by the model of the agent that runs the tool.

use patchbay_policy::Capability;

use crate::{
    bindings::patchbay::host::{inference as wit, types::Error as WitError},
    state::State,
};

impl wit::Host for State {
    async fn complete(&mut self, _: String, _: String) -> wasmtime::Result<Result<String, WitError>> {
        self.count_host_call()?;
        // No provider has been wired yet; that is said only to who would be allowed to ask one.
        let unavailable = || WitError {
            kind: "unavailable".to_owned(),
            message: "no model provider is available to skills".to_owned(),
        };
        Ok(self.permit(&Capability::Inference).and_then(|_| Err(unavailable())))
    }
}
