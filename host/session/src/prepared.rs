//! A change to the agent tree or to mail. It is prepared while no other commit can happen, and committed together with
//! the row that reports it: the command's own row, or the result of a model's tool call.

use std::{pin::Pin, sync::Arc};

use patchbay_core::{AgentId, CallId, Outcome};
use patchbay_store::{MessageRow, SessionChange, StoreError};
use patchbay_tools::{InternalError, ResultRow};
use serde_json::Value;

use crate::Session;

/// A change, with the outcome and the tool result that report it.
pub(crate) struct Prepared {
    /// The outcome of the command.
    pub(crate) outcome: Outcome,
    pub(crate) result: Value,
    pub(crate) change: SessionChange,
    /// Changes the state of the process after the commit. Receives the committed rows.
    pub(crate) applied: Applied,
}

pub(crate) type Applied = Box<dyn FnOnce(&[MessageRow]) + Send>;

/// Prepares a change. An error is the outcome of a refused change.
pub(crate) type Prepare = Pin<Box<dyn Future<Output = Result<Prepared, Outcome>> + Send>>;

impl Prepared {
    /// Returns a change that only shows something.
    pub(crate) fn shown(outcome: Outcome, result: Value) -> Self {
        Self { outcome, result, change: SessionChange::default(), applied: Box::new(|_| {}) }
    }
}

/// Why a prepared change was not committed.
pub(crate) enum NotCommitted {
    Refused(Outcome),
    Store(StoreError),
}

impl From<StoreError> for NotCommitted {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<NotCommitted> for InternalError {
    fn from(error: NotCommitted) -> Self {
        match error {
            NotCommitted::Refused(outcome) => {
                Self { code: outcome.code, message: outcome.message_for_models().to_owned() }
            }
            NotCommitted::Store(error) => Self { code: error.code(), message: format!("{error}.") },
        }
    }
}

impl Session {
    /// Commits a change for the tool call `id` of `agent`, together with the row of its result.
    ///
    /// # Errors
    /// The reason why nothing has changed.
    pub(crate) async fn commit_for_tool(
        self: &Arc<Self>,
        agent: AgentId,
        id: CallId,
        row: Option<Arc<dyn ResultRow>>,
        prepare: Prepare,
    ) -> Result<Value, NotCommitted> {
        let prepare = async move {
            let Prepared { result, mut change, applied, .. } = prepare.await.map_err(NotCommitted::Refused)?;
            change.requires_alive.push(agent);
            change.messages.extend(row.iter().map(|row| row.row(&result)));
            change.settles.push(id);
            Ok((change, (applied, row, result)))
        };
        let applied = |rows: &[MessageRow], (applied, row, result): (Applied, Option<Arc<dyn ResultRow>>, Value)| {
            row.inspect(|row| row.committed());
            applied(rows);
            result
        };
        self.log().commit_prepared(prepare, applied).await
    }
}
