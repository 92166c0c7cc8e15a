//! `patchbay:host/tools`: calls another tool of the session within the rest of the caller's budget.
//!
//! Linked by hand, because the fuel of the called tool is subtracted from the caller's store, which the generated trait cannot
//! access.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchbay_policy::Capability;
use wasmtime::{StoreContextMut, component::Linker};

use crate::{
    Budget, Content, Fault, Finished, GuestEffect, Limits,
    bindings::patchbay::host::types::Error as WitError,
    capability::tool_index::CallableTool,
    state::{CallAccess, GuestState},
};

/// The result of a call of another tool, and what the call used.
pub type NestedCallFuture = BoxFuture<'static, Finished<Vec<Content>, Fault>>;

/// Runs tools for other tools. These calls use the same code path as all others.
pub trait ToolCaller: Send + Sync {
    /// Begins a call of the tool with this full name. `input` is JSON text. The call has its id when this returns; the future runs
    /// the call, and returns its answer and its usage, even on failure.
    fn call(self: Arc<Self>, tool: String, input: String, budget: Budget) -> NestedCallFuture;

    /// Returns tools that can be called, sorted by the bytes of their full names: at most `limit` tools that come after `after`.
    /// The caller uses no more than a [page](CallableTool::page).
    fn entries(&self, after: Option<&str>, limit: usize) -> Vec<CallableTool>;

    /// Returns at most `limit` tools that match `query`, the best match first, and the fuel that the search costs the caller. The
    /// same tools and the same query give the same result. The caller uses no more than a [page](CallableTool::page).
    fn find<'a>(&'a self, query: &'a str, limit: usize) -> BoxFuture<'a, (Vec<CallableTool>, u64)>;
}

pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let mut interface = linker.instance("patchbay:host/tools@0.1.2")?;
    interface.func_wrap_async("call", |mut store: StoreContextMut<'_, GuestState>, (tool, input): (String, String)| {
        Box::new(async move {
            let fuel = store.get_fuel()?;
            let (answer, used) = store.data_mut().call_tool(tool, input, fuel).await?;
            store.set_fuel(fuel.saturating_sub(used))?;
            Ok((answer,))
        })
    })
}

impl GuestState {
    /// Counts the host call and returns the access for the nested `calls`, or the error for the guest: no grant, or too deep.
    pub(super) async fn nested_call_access(
        &mut self,
        calls: &[(&str, &str)],
    ) -> wasmtime::Result<Result<Arc<CallAccess>, WitError>> {
        self.count_host_call()?;
        let access = self.permit(&Capability::Tools, GuestEffect::Call { calls }).await;
        let is_too_deep = self.budget.depth >= Limits::DEPTH;
        Ok(access.and_then(|access| if is_too_deep { Err(too_deep()) } else { Ok(access) }))
    }

    /// Calls another tool with the remaining budget, including `fuel`. Returns its answer and the fuel that it used.
    pub(crate) async fn call_tool(
        &mut self,
        tool: String,
        input: String,
        fuel: u64,
    ) -> wasmtime::Result<(Result<String, WitError>, u64)> {
        let access = match self.nested_call_access(&[(&tool, &input)]).await? {
            Ok(access) => access,
            Err(denied) => return Ok((Err(denied), 0)),
        };
        let left = Budget {
            fuel,
            memory_bytes: self.limiter.left(),
            host_calls: self.budget.host_calls.saturating_sub(self.spent.host_calls),
            output_bytes: self.budget.output_bytes.saturating_sub(self.spent.output_bytes),
            host_call_bytes: self.budget.host_call_bytes,
            inference_tokens: self.inference_tokens_left(),
            clock: self.budget.clock.clone(),
            time: self.budget.time,
            depth: self.budget.depth + 1,
        };
        let Finished { result, usage } = Arc::clone(&access.services.tools).call(tool, input, left).await;
        self.spent.add_nested(&usage);
        let answer = result.map(|content| as_text(&content)).map_err(|fault| access.guest_error(fault));
        Ok((answer, usage.fuel))
    }
}

/// Returns an answer as text. JSON values are written without white space.
fn as_text(content: &[Content]) -> String {
    let pieces: Vec<_> = content
        .iter()
        .map(|piece| match piece {
            Content::Json(value) => value.to_string(),
            other => other.to_string(),
        })
        .collect();
    pieces.join("\n")
}

fn too_deep() -> WitError {
    let message = format!("tools can call tools at most {} deep; this call would be one deeper", Limits::DEPTH);
    WitError { kind: "too-deep".to_owned(), message }
}
