//! `patchbay:host/tools`: calls another tool of the session within the rest of the caller's budget.
//!
//! Linked by hand: the fuel of the called tool is subtracted from the caller's store, which the generated trait cannot
//! access.

use patchbay_policy::Capability;
use wasmtime::{StoreContextMut, component::Linker};

use crate::{
    BoxFuture, Budget, Fault, Finished, Limits, bindings::patchbay::host::types::Error as WitError, state::GuestState,
};

/// Runs tools for a tool, by the same path as every other call.
pub trait ToolCaller: Send + Sync {
    /// Runs a tool, by full name, with JSON text as input, within `budget`. Returns the answer as text and the usage,
    /// even on failure.
    fn call<'a>(&'a self, tool: &'a str, input: &'a str, budget: Budget) -> BoxFuture<'a, Finished<String, Fault>>;
}

pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let mut interface = linker.instance("patchbay:host/tools@0.1.1")?;
    interface.func_wrap_async("call", |mut store: StoreContextMut<'_, GuestState>, (tool, input): (String, String)| {
        Box::new(async move {
            let fuel = store.get_fuel()?;
            let (answer, used) = store.data_mut().call_tool(&tool, &input, fuel).await?;
            store.set_fuel(fuel.saturating_sub(used))?;
            Ok((answer,))
        })
    })
}

impl GuestState {
    /// Calls another tool with the remaining budget, including `fuel`. Returns its answer and the fuel that it used.
    pub(crate) async fn call_tool(
        &mut self,
        tool: &str,
        input: &str,
        fuel: u64,
    ) -> wasmtime::Result<(Result<String, WitError>, u64)> {
        self.count_host_call()?;
        let access = match self.permit(&Capability::Tools).await {
            Ok(access) => access,
            Err(denied) => return Ok((Err(denied), 0)),
        };
        if self.budget.depth >= Limits::DEPTH {
            return Ok((Err(too_deep()), 0));
        }
        let left = Budget {
            fuel,
            memory_bytes: self.limiter.left(),
            host_calls: self.budget.host_calls.saturating_sub(self.spent.host_calls),
            output_bytes: self.budget.output_bytes.saturating_sub(self.spent.output_bytes),
            inference_tokens: self.inference_tokens_left(),
            clock: self.budget.clock.clone(),
            time: self.budget.time,
            depth: self.budget.depth + 1,
        };
        let Finished { result, usage } = access.services.tools.call(tool, input, left).await;
        self.spent.host_calls = self.spent.host_calls.saturating_add(usage.host_calls);
        self.spent.inference_tokens = self.spent.inference_tokens.saturating_add(usage.inference_tokens);
        self.count_output(usage.output_bytes)?;
        Ok((result.map_err(|fault| access.guest_error(fault)), usage.fuel))
    }
}

fn too_deep() -> WitError {
    let message = format!("tools call tools at most {} deep; this call would be one deeper", Limits::DEPTH);
    WitError { kind: "too-deep".to_owned(), message }
}
