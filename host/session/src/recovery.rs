//! Ends the calls and turns left running by a previous process or by a killed agent. Called by
//! [`crate::Host::resume`] and `tree::kill`.

use std::collections::HashSet;

use patchbay_agent::{INTERRUPTED, TurnEnding, interrupted_message, unanswered_calls};
use patchbay_core::{AgentId, CallId, Code, LineId, MessageKind, Outcome, SessionId, TurnCause};
use patchbay_store::{AgentRow, Hold, NewMessage, SessionChange, Store, StoreError};

/// In one commit, writes the row of each interrupted call and ends the call in the journal, and ends and reports each interrupted
/// turn. `agents` are the living agents. No call is repeated.
///
/// # Errors
/// Errors of the store; nothing has changed then, and the next resume tries again.
pub(crate) async fn settle_interrupted(store: &Store, hold: &Hold, agents: &[AgentRow]) -> Result<(), StoreError> {
    let session = hold.session();
    let living: Vec<AgentId> = agents.iter().map(|agent| agent.id).collect();
    let mut change = settle_calls(store, session, &living).await?;
    for turn in store.open_turns(session).await? {
        let agent = agents.iter().find(|agent| agent.id == turn.agent);
        // The same rule as in `Agent::reports_to`.
        let parent = agent.filter(|agent| agent.depth > 0).and_then(|agent| agent.parent);
        let parent = parent.filter(|_| turn.cause != TurnCause::Person);
        let ending = TurnEnding { agent: turn.agent, began: turn.began, report_to: parent };
        ending.interrupted(&last_text(store, session, turn.agent, turn.began).await?, &mut change);
        let content = format!("Error: {INTERRUPTED}");
        change.messages.push(NewMessage { agent: turn.agent, kind: MessageKind::Notice, content, data: None });
    }
    if change.messages.is_empty() && change.settles.is_empty() && change.ends_turns.is_empty() {
        return Ok(());
    }
    store.commit(hold, change).await.map(drop)
}

/// Returns the change that settles the running calls of `agents`. Each call gets its result if it had ended, `outcome_unknown` if
/// it had begun an effect, and otherwise `not_run`. A user's command without an effect gets no row.
///
/// # Errors
/// The store could not be read or written.
pub(crate) async fn settle_calls(
    store: &Store,
    session: SessionId,
    agents: &[AgentId],
) -> Result<SessionChange, StoreError> {
    let mut unsettled = store.unsettled_calls(session).await?;
    unsettled.retain(|call| agents.contains(&call.agent));
    let begun: HashSet<CallId> = unsettled.iter().map(|call| call.id).collect();
    let (mut settles, mut messages) = (begun.clone(), Vec::new());
    for rows in store.rows_since_answers(session, agents).await? {
        let Some(agent) = rows.first().map(|row| row.agent) else { continue };
        for call in unanswered_calls(session, &rows) {
            let kept = store.kept_result(call.id).await?;
            settles.extend(kept.is_some().then_some(call.id));
            messages.push(kept.unwrap_or_else(|| call.result(agent, begun.contains(&call.id))));
        }
    }
    for call in &unsettled {
        if let Some(line) = &call.line {
            let data = serde_json::to_value(unknown(&call.tool)).ok();
            messages.push(NewMessage { agent: call.agent, kind: MessageKind::Command, content: line.clone(), data });
        }
    }
    Ok(SessionChange { settles: settles.into_iter().collect(), messages, ..SessionChange::default() })
}

/// Returns the last text that `agent` answered in the turn that began with row `began`; empty if there is none.
///
/// # Errors
/// The store could not be read or written.
pub(crate) async fn last_text(
    store: &Store,
    session: SessionId,
    agent: AgentId,
    began: u64,
) -> Result<String, StoreError> {
    // Searches from the turn's first row on. The answer to the last message may be missing, because the message may have joined
    // the turn after the last answer.
    let answer = store.last_answer(session, agent, began).await?;
    Ok(answer.map(|answer| answer.content).unwrap_or_default())
}

/// Returns the outcome of the command `line`, which was stopped after its tool had begun an effect.
///
/// # Errors
/// The store could not be read or written.
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
