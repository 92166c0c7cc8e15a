//! The record of a call while it runs, which becomes its row of the journal, however the call ends.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::SystemTime,
};

use patchbay_core::{Asker, CallId, Code, Digest};
use patchbay_sandbox::{Content, Finished};
use patchbay_store::{JournalRow, Store};

use crate::{CallContext, ResolvedTool, ToolCall, ToolError, call::SkillTool, internal};

/// A call that runs. Shared by what serves its guest and by the calls nested in it.
pub(crate) struct CallRecord {
    pub(crate) context: Arc<CallContext>,
    pub(crate) id: CallId,
    /// The tool's full name, or the bare one of a tool of the host's own.
    pub(crate) tool: String,
    /// Calls that it has made so far.
    nested: AtomicU32,
    store: Store,
    /// `None` once the row is written.
    row: Mutex<Option<Box<JournalRow>>>,
}

/// The name and component of a tool as the journal has them.
pub(crate) struct JournalName<'a> {
    pub(crate) root: &'a str,
    pub(crate) skill: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) component: Digest,
}

impl CallRecord {
    /// The record of `call`, whose input is `input` as JSON.
    pub(crate) fn new(store: &Store, context: &Arc<CallContext>, call: &ToolCall<'_>, input: &str) -> Arc<Self> {
        let (tool, name) = match call.tool {
            ResolvedTool::Internal(tool) => (tool.spec().name.as_str(), internal::journal_name(tool)),
            ResolvedTool::Skill(SkillTool { full_name, skill, spec, component }) => {
                let (root, skill, tool) = (skill.root.as_str(), skill.name.as_str(), spec.name.as_str());
                (full_name, JournalName { root, skill, tool, component })
            }
        };
        let parent = call.parent.as_ref().map(|(parent, _)| parent);
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let row = JournalRow {
            at: i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX),
            call: call.id,
            parent: parent.map(|parent| parent.id),
            session: context.hold.session(),
            workspace: context.workspace.clone(),
            asker: parent.map_or_else(|| context.asker.clone(), |parent| Asker::Tool(parent.tool.clone())),
            root: name.root.to_owned(),
            skill: name.skill.to_owned(),
            tool: name.tool.to_owned(),
            component: name.component,
            input_hash: Digest::of(input.as_bytes()),
            grants: Vec::new(),
            fuel: 0,
            time_us: 0,
            peak_memory: 0,
            host_calls: 0,
            output_bytes: 0,
            failure: None,
            input: store.journal_settings().content.then(|| input.to_owned()),
            output: None,
        };
        Arc::new(Self {
            context: Arc::clone(context),
            id: call.id,
            tool: tool.to_owned(),
            nested: AtomicU32::new(0),
            store: store.clone(),
            row: Mutex::new(Some(Box::new(row))),
        })
    }

    /// Returns the id of the next call that this one makes.
    pub(crate) fn next_nested(&self) -> CallId {
        CallId::nested(self.id, self.nested.fetch_add(1, Ordering::Relaxed))
    }

    fn take_row(&self) -> Option<Box<JournalRow>> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Writes the row of a call when it ends. If it is dropped before, the call was given up, and the row says so.
pub(crate) struct RunningCall(Arc<CallRecord>);

impl RunningCall {
    pub(crate) fn new(record: Arc<CallRecord>) -> Self {
        Self(record)
    }

    pub(crate) fn record(&self) -> &Arc<CallRecord> {
        &self.0
    }

    /// Queues the row for the store, which commits it no later than what is written after it.
    pub(crate) async fn finish(self, finished: &Finished<Vec<Content>, ToolError>) {
        let Some(mut row) = self.0.take_row() else { return };
        let Finished { result, usage } = finished;
        row.grants = usage.capabilities.iter().map(ToString::to_string).collect();
        row.fuel = usage.fuel;
        row.time_us = u64::try_from(usage.time.as_micros()).unwrap_or(u64::MAX);
        row.peak_memory = usage.peak_memory as u64;
        row.host_calls = usage.host_calls.into();
        row.output_bytes = usage.output_bytes as u64;
        row.failure = result.as_ref().err().map(ToolError::code);
        if self.0.store.journal_settings().content {
            row.output = Some(match result {
                Ok(content) => content.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
                Err(error) => error.to_string(),
            });
        }
        self.0.store.journal(row).await;
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        if let Some(mut row) = self.0.take_row() {
            row.failure = Some(Code::Cancelled);
            self.0.store.journal_at_once(row);
        }
    }
}
