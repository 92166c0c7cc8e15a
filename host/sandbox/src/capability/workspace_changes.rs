//! `patchbay:host/workspace-changes`: lets the user decide about several file changes with one answer.

use std::collections::BTreeSet;

use patchbay_core::text;
use patchbay_policy::Capability;

use super::HostResult;
use crate::{
    FileEdit, GuestEffect,
    bindings::{
        patchbay::host::types::Error as WitError,
        unlisted::patchbay::host::workspace_changes::{self as wit, Host},
    },
    state::GuestState,
};

/// Limit of changes that one call of `declare` accepts.
const MAX_CHANGES: usize = 200;

impl Host for GuestState {
    async fn declare(&mut self, changes: Vec<wit::Change>) -> HostResult<()> {
        self.count_host_call()?;
        let edits: Vec<FileEdit<'_>> =
            changes.iter().map(|it| FileEdit { path: &it.path, contents: it.contents.as_deref() }).collect();
        if let Err(message) = check(&edits) {
            return Ok(Err(WitError { kind: "invalid".to_owned(), message }));
        }
        let effect = GuestEffect::Change { edits: &edits };
        let needs = |is_write| edits.iter().any(|edit| edit.contents.is_some() == is_write);
        for (capability, is_needed) in
            [(Capability::WorkspaceWrite, needs(true)), (Capability::WorkspaceDelete, needs(false))]
        {
            if is_needed && let Err(denied) = self.permit(&capability, effect).await {
                return Ok(Err(denied));
            }
        }
        Ok(Ok(()))
    }
}

/// Checks the number of changes, and that no file is changed twice.
fn check(edits: &[FileEdit<'_>]) -> Result<(), String> {
    if edits.len() > MAX_CHANGES {
        return Err(format!("{} changes are declared at once; the limit is {MAX_CHANGES}", edits.len()));
    }
    let mut paths = BTreeSet::new();
    match edits.iter().find(|edit| !paths.insert(edit.path)) {
        Some(edit) => Err(format!("two changes of '{}' are declared at once", text::excerpt(edit.path, 200))),
        None => Ok(()),
    }
}
