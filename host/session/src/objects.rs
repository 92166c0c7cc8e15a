//! Events and rows of the journal as JSON objects, for scripts: `exec --json`, `journal --json`, and `/v1` of `serve`.

use patchbay_core::{Event, EventKind, text};
use patchbay_store::{JournalEntry, RecordedApproval};
use serde_json::{Value, json};

/// Returns an event as an object for scripts; `None` for events that are printed in another way or not at all.
pub fn event_object(event: Event) -> Option<Value> {
    let Event { agent, seq, mut kind, .. } = event;
    match &kind {
        EventKind::TurnEnded { turn, cause, state, outcome } => {
            return Some(json!({
                "event": "turn",
                "agent": agent.to_string(),
                "turn": turn,
                "cause": cause,
                "state": state,
                "code": outcome.code,
            }));
        }
        // The outcome is printed as an object of its own, and each turn when it has ended.
        EventKind::RequestWaits { .. }
        | EventKind::LineEnded { .. }
        | EventKind::LineQueued { .. }
        | EventKind::LineDequeued { .. }
        | EventKind::QueueHeld { .. }
        | EventKind::TurnBegan { .. }
        | EventKind::Unknown => return None,
        _ => {}
    }
    // Scripts notice the new attempt by the pieces that follow.
    if let EventKind::GivenUp { turn, answer, .. } = kind {
        let event =
            json!({"event": "given_up", "turn": turn, "answer": answer, "agent": agent.to_string(), "seq": seq});
        return Some(event);
    }
    // For scripts, a retry is still a notice, as it was before it had a kind of its own.
    if let Some(text) = kind.notice() {
        kind = EventKind::Notice { text };
    }
    let mut object = serde_json::to_value(&kind).unwrap_or_default();
    if let Some(object) = object.as_object_mut() {
        // Deltas are printed in order, so scripts need no position.
        object.remove("at");
    }
    object["agent"] = agent.to_string().into();
    object["seq"] = seq.into();
    Some(object)
}

/// Returns all recorded data of a call.
pub fn journal_object(entry: &JournalEntry) -> Value {
    let row = &entry.row;
    let mut object = json!({
        "id": entry.id,
        "at": journal_time(row.at),
        "call": row.call.to_string(),
        "parent": row.parent.map(|call| call.to_string()),
        "session": row.session.to_string(),
        "workspace": text::clean_line(&row.workspace),
        "asker": text::clean_line(&row.asker.to_string()),
        "root": text::clean_line(&row.root),
        "skill": text::clean_line(&row.skill),
        "tool": text::clean_line(&row.tool),
        "component": row.component.to_string(),
        "input_hash": row.input_hash.to_string(),
        "grants": row.grants.iter().map(|grant| text::clean_line(grant)).collect::<Vec<_>>(),
        "approvals": row.approvals.iter().map(approval_object).collect::<Vec<_>>(),
        "fuel": row.fuel,
        "time_us": row.time_us,
        "peak_memory": row.peak_memory,
        "host_calls": row.host_calls,
        "output_bytes": row.output_bytes,
        "outcome": row.outcome(),
    });
    for (key, content) in [("input", &row.input), ("output", &row.output)] {
        if let Some(content) = content {
            object[key] = text::clean(content).into();
        }
    }
    object
}

/// Returns the JSON object of an approval by the user.
fn approval_object(approval: &RecordedApproval) -> Value {
    let mut object = json!({
        "capability": text::clean_line(&approval.capability),
        "answer": text::clean_line(&approval.answer),
        "by": text::clean_line(&approval.by),
    });
    if let Some(shown) = approval.shown {
        object["shown"] = shown.to_string().into();
    }
    if let Some(client) = &approval.client {
        object["client"] = text::clean_line(client).into();
    }
    object
}

/// Formats a time in milliseconds since 1970 as UTC.
pub fn journal_time(at: i64) -> String {
    jiff::Timestamp::from_millisecond(at).unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_to_the_millisecond() {
        assert_eq!(journal_time(1_795_291_440_007), "2026-11-21T20:04:00.007Z");
        assert_eq!(journal_time(0), "1970-01-01T00:00:00.000Z");
    }
}
