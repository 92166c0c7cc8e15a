//! Runs one call of a tool in a fresh instance. Called by `tools`.

use std::{sync::Arc, time::Instant};

use patchbay_core::{ToolSpec, text};
use patchbay_policy::{Capability, Permits};
use wasmtime::Store;

use crate::{
    Budget, Content, Failure, Finished, Loaded, Sandbox, Services, Usage,
    bindings::patchbay::skill::types::Blob,
    last_lines::DescribeLog,
    output::{read_content, read_tools},
    state::{CallAccess, GuestState},
};

/// One call of a tool, to be run in the sandbox.
pub struct Call {
    /// The tool's name without its skill.
    pub tool: String,
    /// A JSON object that satisfies the tool's schema; the caller checks it.
    pub input: String,
    /// Media type and bytes of each attachment.
    pub attachments: Vec<(String, Vec<u8>)>,
    /// The capabilities that the call may use.
    pub permits: Arc<Permits>,
    /// The host services that it can use.
    pub services: Services,
    /// The rest of the calling tool's budget; `None` for a full budget.
    pub budget: Option<Budget>,
}

impl Sandbox {
    /// Asks a component for its tools, without permits and with a small budget. The component's output is written to the operator's
    /// log.
    ///
    /// # Errors
    /// A [`Failure`]; [`Failure::InvalidOutput`] if the answer violates the contract.
    pub async fn describe(&self, component: &Loaded) -> Result<Vec<ToolSpec>, Failure> {
        let _slots = self.slots(component.0.slots, 0).await?;
        let budget = Budget { fuel: self.limits.describe_fuel, ..Budget::whole(&self.limits) };
        let log = Arc::new(DescribeLog::new(component.digest()));
        let mut store = self.store(budget, log, None)?;
        let tools = self
            .run(&component.0, &mut store, async |skill, store| skill.patchbay_skill_skill().call_tools(store).await);
        read_tools(tools.await?)
    }

    /// Calls a tool in a fresh instance. Returns the answer or the failure, and the usage.
    pub async fn call(&self, component: &Loaded, call: Call) -> Finished<Vec<Content>> {
        let depth = call.budget.as_ref().map_or(0, |budget| budget.depth);
        // Acquired before the store is created; slots must be released after the store is dropped.
        let slots = match (self.slots(component.0.slots, depth), &call.budget) {
            (slots, None) => slots.await,
            (slots, Some(budget)) => budget.clock.limit(slots).await.unwrap_or_else(|| Err(budget.late())),
        };
        let _slots = match slots {
            Ok(slots) => slots,
            Err(failure) => return Finished::failed(failure),
        };
        let start = Instant::now();
        let Call { tool, input, attachments, permits, services, budget } = call;
        let budget = budget.unwrap_or_else(|| {
            let whole = Budget::whole(&self.limits);
            let whole = if permits.allows(&Capability::Inference) { whole.with_inference(&self.limits) } else { whole };
            if permits.allows(&Capability::Tools) { whole.with_tools(&self.limits) } else { whole }
        });
        let (fuel, clock) = (budget.fuel, budget.clock.clone());
        let paused_before = clock.paused_for();
        let log = Arc::clone(&services.log);
        let access = CallAccess::new(permits, services, clock.clone());
        let mut store = match self.store(budget, log, Some(Arc::new(access))) {
            Ok(store) => store,
            Err(failure) => return Finished::failed(failure),
        };
        let result = self.answer(component, &mut store, &tool, &input, attachments).await;
        // Nested calls that are still running are cancelled, and end before this call does.
        store.data_mut().nested.end().await;
        let left = store.get_fuel().unwrap_or(0);
        let state = store.data();
        let result = result.map_err(|failure| failure.after_report(&state.reported));
        let usage = Usage {
            fuel: fuel.saturating_sub(left),
            time: start.elapsed().saturating_sub(clock.paused_for().saturating_sub(paused_before)),
            peak_memory: state.limiter.peak(),
            host_calls: state.spent.host_calls,
            output_bytes: state.spent.output_bytes,
            result_bytes: state.spent.result_bytes,
            inference_tokens: state.spent.inference_tokens,
            capabilities: state.take_used(),
        };
        Finished { result, usage }
    }

    async fn answer(
        &self,
        component: &Loaded,
        store: &mut Store<GuestState>,
        tool: &str,
        input: &str,
        attachments: Vec<(String, Vec<u8>)>,
    ) -> Result<Vec<Content>, Failure> {
        let size = attachments
            .iter()
            .fold(input.len(), |size, (media_type, data)| size.saturating_add(media_type.len() + data.len()));
        if size > self.limits.input_bytes {
            return Err(Failure::Input { size, limit: self.limits.input_bytes });
        }
        let blobs: Vec<Blob> = attachments.into_iter().map(|(media_type, data)| Blob { media_type, data }).collect();
        let answer = self.run(&component.0, store, async |skill, store| {
            skill.patchbay_skill_skill().call_call(store, tool, input, &blobs).await
        });
        match answer.await? {
            Ok(content) => read_content(content, store.data_mut()),
            Err(failure) => {
                if let Some(denial) = store.data().take_denial() {
                    return Err(Failure::Denied(denial));
                }
                store.data_mut().count_result(failure.message.len())?;
                let message = text::clean(&failure.message).trim().to_owned();
                Err(Failure::Failed { kind: text::excerpt(&failure.kind, 64), message })
            }
        }
    }
}
