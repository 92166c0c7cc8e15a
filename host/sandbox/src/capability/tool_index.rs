//! `patchbay:host/tool-index`: the tools that a tool may call.

use std::sync::Arc;

use patchbay_policy::Capability;

use crate::{
    Limits,
    bindings::{
        patchbay::host::types::{Error as WitError, Pair},
        unlisted::patchbay::host::tool_index as wit,
    },
    state::{CallAccess, GuestState},
};

/// A tool that a call may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallableTool {
    /// The full name, `SKILL__TOOL`.
    pub name: String,
    /// What the tool does, cleaned.
    pub description: String,
    /// JSON Schema of the input, as text.
    pub input_schema: String,
    /// Names and values that the tool declares besides.
    pub extra: Vec<(String, String)>,
}

/// The outer error stops the guest; the inner one is returned to it.
type IndexResult<T> = wasmtime::Result<Result<T, WitError>>;

impl GuestState {
    async fn index(&mut self) -> IndexResult<Arc<CallAccess>> {
        self.count_host_call()?;
        Ok(self.permit(&Capability::Tools).await)
    }
}

impl wit::Host for GuestState {
    async fn entries(&mut self, after: Option<String>, limit: u32) -> IndexResult<Vec<wit::Tool>> {
        Ok(self.index().await?.map(|access| page(access.services.tools.entries(after.as_deref(), most(limit)))))
    }

    async fn find(&mut self, query: String, limit: u32) -> IndexResult<Vec<wit::Tool>> {
        let access = match self.index().await? {
            Ok(access) => access,
            Err(denied) => return Ok(Err(denied)),
        };
        if query.len() > Limits::QUERY_BYTES {
            let message = format!("the query has {} bytes, at most {} are allowed", query.len(), Limits::QUERY_BYTES);
            return Ok(Err(WitError { kind: "too-large".to_owned(), message }));
        }
        Ok(Ok(page(access.services.tools.find(&query, most(limit)).await)))
    }
}

fn most(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX).min(Limits::INDEX_TOOLS)
}

/// Returns the first tools, as far as their bytes fit into one page, and at least one.
fn page(tools: Vec<CallableTool>) -> Vec<wit::Tool> {
    let mut left = Limits::INDEX_BYTES;
    let mut page = Vec::new();
    for CallableTool { name, description, input_schema, extra } in tools {
        let extra: Vec<_> = extra.into_iter().map(|(name, value)| Pair { name, value }).collect();
        let of_extra: usize = extra.iter().map(|pair| pair.name.len() + pair.value.len()).sum();
        let size = name.len() + description.len() + input_schema.len() + of_extra;
        if size > left && !page.is_empty() {
            break;
        }
        left = left.saturating_sub(size);
        page.push(wit::Tool { name, description, input_schema, extra });
    }
    page
}
