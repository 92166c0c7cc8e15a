//! `patchbay:host/tool-calls`: calls of other tools that run in parallel, each as a task.
//!
//! A call runs within a share of its caller's remaining budget. The share counts as used until `wait` returns the call.
//! From then on its actual usage counts instead, which can be more than the share. Its result does not count: the share
//! has already bounded it, and it is not output of the caller. The budget of each call therefore depends only on the
//! order of `start` and `wait`, not on which call is faster.
//!
//! Linked by hand, because the fuel of the shares moves between stores, which the generated trait cannot access.

use std::{collections::HashMap, sync::Arc};

use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tracing::Instrument as _;
use wasmtime::{StoreContextMut, component::Linker};

use crate::{
    Budget, Content, Fault, Finished, Limits, Usage,
    bindings::{
        patchbay::host::types::Error as WitError,
        unlisted::patchbay::host::tool_calls::{Blob, Content as WitContent, Link, Outcome, Pair, Request},
    },
    limiter::Loan,
    state::{CallAccess, GuestState},
};

/// The nested calls that run in parallel to a guest. Dropping it cancels them.
#[derive(Default)]
pub(crate) struct NestedCalls {
    tasks: JoinSet<NestedResult>,
    running: HashMap<Id, NestedCall>,
    next: u32,
}

type NestedResult = Finished<Vec<Content>, Fault>;

struct NestedCall {
    id: u32,
    share: Share,
    abort: AbortHandle,
}

/// The part of the caller's budget that a call may use.
struct Share {
    fuel: u64,
    host_calls: u32,
    output_bytes: usize,
    inference_tokens: u64,
    memory: Loan,
}

impl NestedCalls {
    /// Cancels the running calls and waits until they have ended.
    pub(crate) async fn end(&mut self) {
        if !self.running.is_empty() {
            self.tasks.shutdown().await;
            self.running.clear();
        }
    }

    /// Waits until a call has ended, or all calls if `all` is set. Returns the ended calls, ordered by their ids.
    async fn ended(&mut self, all: bool) -> Vec<(NestedCall, Option<NestedResult>)> {
        let mut ended = Vec::new();
        let mut next = self.tasks.join_next_with_id().await;
        while let Some(joined) = next {
            let (task, result) = match joined {
                Ok((task, finished)) => (task, Some(finished)),
                Err(error) => (error.id(), panicked(&error)),
            };
            ended.extend(self.running.remove(&task).map(|call| (call, result)));
            next = if all { self.tasks.join_next_with_id().await } else { self.tasks.try_join_next_with_id() };
        }
        ended.sort_by_key(|(call, _)| call.id);
        ended
    }
}

/// Returns the result of a task that panicked; `None` for a cancelled one.
fn panicked(error: &JoinError) -> Option<NestedResult> {
    let message = "the host failed to run the call; see its log for the reason".to_owned();
    error.is_panic().then(|| Finished::failed(Fault::Failed { kind: "failed".to_owned(), message }))
}

pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let mut interface = linker.instance("patchbay:host/tool-calls@0.1.2")?;
    interface.func_wrap_async(
        "start",
        |mut store: StoreContextMut<'_, GuestState>, (requests,): (Vec<Request>,)| {
            Box::new(async move {
                let fuel = store.get_fuel()?;
                let (started, reserved) = store.data_mut().start_calls(requests, fuel).await?;
                store.set_fuel(fuel.saturating_sub(reserved))?;
                Ok((started,))
            })
        },
    )?;
    interface.func_wrap_async("wait", |mut store: StoreContextMut<'_, GuestState>, (): ()| {
        Box::new(async move {
            let (outcomes, unused) = store.data_mut().wait_for_calls().await?;
            let fuel = store.get_fuel()?;
            store.set_fuel(fuel.saturating_add(unused))?;
            Ok((outcomes,))
        })
    })?;
    interface.func_wrap("cancel", |mut store: StoreContextMut<'_, GuestState>, (ids,): (Vec<u32>,)| {
        store.data_mut().cancel_calls(&ids)
    })
}

impl GuestState {
    /// Starts calls of other tools, each with a share of the remaining budget, including `fuel`. Returns their ids and the
    /// fuel that their shares contain.
    pub(crate) async fn start_calls(
        &mut self,
        requests: Vec<Request>,
        fuel: u64,
    ) -> wasmtime::Result<(Result<Vec<u32>, WitError>, u64)> {
        let calls: Vec<_> = requests.iter().map(|request| (&*request.tool, &*request.input)).collect();
        let access = match self.nested_call_access(&calls).await? {
            Ok(access) => access,
            Err(denied) => return Ok((Err(denied), 0)),
        };
        if requests.len() > Limits::RUNNING_CALLS.saturating_sub(self.nested.running.len()) {
            return Ok((Err(too_many(requests.len(), self.nested.running.len())), 0));
        }
        let parts = requests.len() as u64 + 1;
        let memory = self.limiter.left() / (requests.len() + 1);
        let host_calls = self.budget.host_calls.saturating_sub(self.spent.host_calls) / parts as u32;
        let output_bytes = self.budget.output_bytes.saturating_sub(self.spent.output_bytes) / (requests.len() + 1);
        let inference_tokens = self.inference_tokens_left() / parts;
        let (mut ids, mut reserved) = (Vec::with_capacity(requests.len()), 0);
        for Request { tool, input, .. } in requests {
            let memory = self.limiter.memory().lend(memory);
            let share = Share { fuel: fuel / parts, host_calls, output_bytes, inference_tokens, memory };
            self.spent.host_calls += share.host_calls;
            self.spent.output_bytes += share.output_bytes;
            self.spent.inference_tokens += share.inference_tokens;
            reserved += share.fuel;
            ids.push(self.start_call(&access, tool, input, share));
        }
        Ok((Ok(ids), reserved))
    }

    fn start_call(&mut self, access: &CallAccess, tool: String, input: String, share: Share) -> u32 {
        let budget = Budget {
            fuel: share.fuel,
            memory_bytes: share.memory.bytes(),
            host_calls: share.host_calls,
            output_bytes: share.output_bytes,
            host_call_bytes: self.budget.host_call_bytes,
            inference_tokens: share.inference_tokens,
            clock: self.budget.clock.clone(),
            time: self.budget.time,
            depth: self.budget.depth + 1,
        };
        // Begun here and not in the task, because the journal must list calls in the order of their requests.
        let call = Arc::clone(&access.services.tools).call(tool, input, budget);
        let abort = self.nested.tasks.spawn(call.in_current_span());
        let id = self.nested.next;
        self.nested.next += 1;
        self.nested.running.insert(abort.id(), NestedCall { id, share, abort });
        id
    }

    /// Waits until a nested call has ended. Returns the ended calls, and the fuel that they did not use.
    pub(crate) async fn wait_for_calls(&mut self) -> wasmtime::Result<(Vec<Outcome>, u64)> {
        self.count_host_call()?;
        if self.nested.running.is_empty() {
            return Ok((Vec::new(), 0));
        }
        // If calls are running, there is access.
        let Ok(access) = self.access().cloned() else { return Ok((Vec::new(), 0)) };
        // The first call to end can be a different one in each run, so a call with fixed inputs waits for all of them.
        let ended = self.nested.ended(self.fixed().is_some()).await;
        // All calls share one clock. When it runs out, this call must end with the same error, whichever call notices
        // first.
        if self.budget.clock.time_left().is_zero() {
            return Err(self.budget.late().into());
        }
        let (mut outcomes, mut unused) = (Vec::new(), 0);
        for (NestedCall { id, share, .. }, finished) in ended {
            let answer = match finished {
                Some(Finished { result, usage }) => {
                    unused += self.settle_share(&share, &usage);
                    result.map(|content| content.into_iter().map(to_guest).collect())
                }
                // The usage of a cancelled call depends on time, so all of its share counts as used.
                None => Err(cancelled()),
            };
            outcomes.push(Outcome { id, answer: answer.map_err(|fault| access.guest_error(fault)) });
        }
        Ok((outcomes, unused))
    }

    /// Replaces a call's share by its actual usage. Returns the unused fuel of the share.
    fn settle_share(&mut self, share: &Share, usage: &Usage) -> u64 {
        let spent = &mut self.spent;
        spent.host_calls = spent.host_calls.saturating_sub(share.host_calls);
        spent.output_bytes = spent.output_bytes.saturating_sub(share.output_bytes);
        spent.inference_tokens = spent.inference_tokens.saturating_sub(share.inference_tokens);
        spent.add_nested(usage);
        share.fuel.saturating_sub(usage.fuel)
    }

    pub(crate) fn cancel_calls(&mut self, ids: &[u32]) -> wasmtime::Result<()> {
        self.count_host_call()?;
        for call in self.nested.running.values().filter(|call| ids.contains(&call.id)) {
            call.abort.abort();
        }
        Ok(())
    }
}

fn too_many(requested: usize, running: usize) -> WitError {
    let most = Limits::RUNNING_CALLS;
    let message = format!(
        "at most {most} nested calls can run at once: {running} are running, and {requested} more were requested. \
         Wait for some to end first"
    );
    WitError { kind: "quota".to_owned(), message }
}

fn cancelled() -> Fault {
    Fault::Failed { kind: "cancelled".to_owned(), message: "the call was cancelled".to_owned() }
}

/// Converts a part of an answer for the calling guest.
fn to_guest(content: Content) -> WitContent {
    match content {
        Content::Text(text) => WitContent::Text(text),
        Content::Json(value) => WitContent::Json(value.to_string()),
        Content::Blob { media_type, data } => WitContent::Blob(Blob { media_type, data }),
        Content::Link { path, media_type } => WitContent::Link(Link { path, media_type }),
        Content::Other { name, value } => WitContent::Other(Pair { name, value }),
    }
}
