//! `patchbay:host/tool-index`: the tools that a tool may call.
//!
//! Linked by hand, because the fuel of a search is subtracted from the caller's store, which the generated trait cannot access.

use std::sync::Arc;

use patchbay_policy::Capability;
use wasmtime::{StoreContextMut, component::Linker};

use super::HostResult;
use crate::{
    GuestEffect, Limits,
    bindings::{
        patchbay::host::types::{Error as WitError, Pair},
        unlisted::patchbay::host::tool_index::Tool,
    },
    state::{CallAccess, GuestState},
};

/// A tool that the running tool may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallableTool {
    /// The full name, `SKILL__TOOL`.
    pub name: String,
    /// The description of the tool, cleaned.
    pub description: String,
    /// JSON Schema of the input, as text.
    pub input_schema: String,
    /// Additional names and values that the tool declares.
    pub extra: Vec<(String, String)>,
}

impl CallableTool {
    /// Returns as many of `tools`, from the first, as fit into one page, but at least one. Evaluates at most one more.
    pub fn page(tools: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut left = Limits::INDEX_BYTES;
        let mut page = Vec::new();
        for tool in tools {
            let of_extra: usize = tool.extra.iter().map(|(name, value)| name.len() + value.len()).sum();
            let size = tool.name.len() + tool.description.len() + tool.input_schema.len() + of_extra;
            if size > left && !page.is_empty() {
                break;
            }
            left = left.saturating_sub(size);
            page.push(tool);
        }
        page
    }
}

pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let mut interface = linker.instance("patchbay:host/tool-index@0.1.2")?;
    interface.func_wrap_async(
        "entries",
        |mut store: StoreContextMut<'_, GuestState>, (after, limit): (Option<String>, u32)| {
            Box::new(async move { Ok((store.data_mut().list_tools(after, limit).await?,)) })
        },
    )?;
    interface.func_wrap_async("find", |mut store: StoreContextMut<'_, GuestState>, (query, limit): (String, u32)| {
        Box::new(async move {
            let (found, used) = store.data_mut().find_tools(query, limit).await?;
            let fuel = store.get_fuel()?;
            store.set_fuel(fuel.saturating_sub(used))?;
            Ok((found,))
        })
    })
}

impl GuestState {
    async fn index(&mut self, query: Option<&str>) -> HostResult<Arc<CallAccess>> {
        self.count_host_call()?;
        Ok(self.permit(&Capability::Tools, GuestEffect::FindTools { query }).await)
    }

    /// Returns at most `limit` tools that come after `after`, sorted by name.
    pub(crate) async fn list_tools(&mut self, after: Option<String>, limit: u32) -> HostResult<Vec<Tool>> {
        Ok(self.index(None).await?.map(|access| to_guest(access.services.tools.entries(after.as_deref(), most(limit)))))
    }

    /// Returns the tools that match `query` best, and the fuel that the search costs.
    pub(crate) async fn find_tools(
        &mut self,
        query: String,
        limit: u32,
    ) -> wasmtime::Result<(Result<Vec<Tool>, WitError>, u64)> {
        let access = match self.index(Some(&query)).await? {
            Ok(access) => access,
            Err(denied) => return Ok((Err(denied), 0)),
        };
        if query.len() > Limits::QUERY_BYTES {
            let message = format!("the query has {} bytes; the limit is {}", query.len(), Limits::QUERY_BYTES);
            return Ok((Err(WitError { kind: "too-large".to_owned(), message }), 0));
        }
        // Even if a guest keeps searching, this lets other tasks run and the clock end the guest.
        tokio::task::yield_now().await;
        let (found, fuel) = access.services.tools.find(&query, most(limit)).await;
        Ok((Ok(to_guest(found)), fuel))
    }
}

fn most(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX).min(Limits::INDEX_TOOLS)
}

/// Converts one page of tools for the guest.
fn to_guest(tools: Vec<CallableTool>) -> Vec<Tool> {
    let tool = |CallableTool { name, description, input_schema, extra }| {
        let extra = extra.into_iter().map(|(name, value)| Pair { name, value }).collect();
        Tool { name, description, input_schema, extra }
    };
    CallableTool::page(tools).into_iter().map(tool).collect()
}
