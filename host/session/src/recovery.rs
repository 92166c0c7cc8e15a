//! Settles the calls that were running when the previous process ended. [`crate::Host::resume`] calls it once.

use std::collections::HashSet;

use patchbay_agent::{interrupted_message, unanswered_calls};
use patchbay_core::{CallId, Code, LineId, MessageKind, Outcome};
use patchbay_store::{Hold, NewMessage, SessionChange, Store, StoreError};

/// Writes the row of each interrupted call and ends it in the journal, in one commit: `outcome_unknown` if the call had
/// begun an effect, else `not_run`. A user's command without an effect gets no row. No call is repeated.
///
/// # Errors
/// Errors of the store; nothing has changed then, and the next resume tries again.
pub(crate) async fn settle_interrupted(store: &Store, hold: &Hold) -> Result<(), StoreError> {
    let session = hold.session();
    let unsettled = store.unsettled_calls(session).await?;
    let begun: HashSet<CallId> = unsettled.iter().map(|call| call.id).collect();
    let mut messages = Vec::new();
    for rows in store.rows_since_answers(session).await? {
        let Some(agent) = rows.first().map(|row| row.agent) else { continue };
        let unanswered = unanswered_calls(session, &rows);
        messages.extend(unanswered.iter().map(|call| call.result(agent, begun.contains(&call.id))));
    }
    for call in &unsettled {
        if let Some(line) = &call.line {
            let data = serde_json::to_value(unknown(&call.tool)).ok();
            messages.push(NewMessage { agent: call.agent, kind: MessageKind::Command, content: line.clone(), data });
        }
    }
    if messages.is_empty() && unsettled.is_empty() {
        return Ok(());
    }
    let change = SessionChange { settles: begun.into_iter().collect(), messages, ..SessionChange::default() };
    store.commit(hold, change).await.map(drop)
}

/// Returns the outcome of the command `line`, which was stopped after its tool had begun an effect.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn unknown_outcome(hold: &Hold, store: &Store, line: LineId) -> Result<Outcome, StoreError> {
    let call = CallId::of_line(line);
    let unsettled = store.unsettled_calls(hold.session()).await?;
    let tool = unsettled.iter().find(|unsettled| unsettled.id == call).map_or("the tool", |unsettled| &unsettled.tool);
    Ok(unknown(tool))
}

fn unknown(tool: &str) -> Outcome {
    let code = Code::OutcomeUnknown;
    Outcome::error(code, interrupted_message(tool, code))
}
