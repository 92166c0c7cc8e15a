//! A row of the journal for each call of a tool, however it ends.

use std::time::SystemTime;

use patchbay_core::{Code, Digest};
use patchbay_sandbox::{Content, Usage};
use patchbay_store::{JournalRow, Store};

use crate::{Request, ToolError};

/// What runs, as the journal calls it.
pub(crate) struct Ran<'a> {
    pub(crate) root: &'a str,
    pub(crate) skill: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) component: Digest,
}

/// The row of a call that goes on. One that is dropped before its end was given up, and is written as that.
pub(crate) struct Entry<'a> {
    store: &'a Store,
    row: Option<JournalRow>,
}

impl<'a> Entry<'a> {
    /// The row of `request`, whose input is `input` as text.
    pub(crate) fn new(store: &'a Store, request: &Request<'_>, input: &str, ran: Ran<'_>) -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let row = JournalRow {
            at: i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX),
            call: request.call,
            parent: request.parent,
            session: request.session,
            workspace: request.workspace.to_owned(),
            asker: request.asker.clone(),
            root: ran.root.to_owned(),
            skill: ran.skill.to_owned(),
            tool: ran.tool.to_owned(),
            component: ran.component,
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
        Self { store, row: Some(row) }
    }

    /// Puts the row behind what waits to be written: it is there before what the call leads to.
    pub(crate) async fn finish(mut self, answer: &Result<Vec<Content>, ToolError>, usage: &Usage) {
        let Some(row) = self.row.take() else { return };
        let content = self.store.journal_settings().content;
        let output = || match answer {
            Ok(content) => content.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            Err(error) => error.to_string(),
        };
        let row = JournalRow {
            grants: usage.capabilities.iter().map(ToString::to_string).collect(),
            fuel: usage.fuel,
            time_us: u64::try_from(usage.time.as_micros()).unwrap_or(u64::MAX),
            peak_memory: usage.peak_memory as u64,
            host_calls: usage.host_calls.into(),
            output_bytes: usage.output_bytes as u64,
            failure: answer.as_ref().err().map(ToolError::code),
            output: content.then(output),
            ..row
        };
        self.store.journal(row).await;
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if let Some(row) = self.row.take() {
            self.store.journal_at_once(JournalRow { failure: Some(Code::Cancelled), ..row });
        }
    }
}
