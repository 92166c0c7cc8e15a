//! Results of calls that were interrupted, either by a stop or by the end of the process. In the second case, the resumed session
//! adds them. The host never repeats a call by itself.

use patchbay_core::{
    AgentId, AssistantPart, AssistantRecord, CallId, Code, MessageKind, SessionId, ToolRecord, ToolRecordPart,
    completion::ToolCall, text,
};
use patchbay_store::{MessageRow, NewMessage};
use serde_json::json;

use crate::toolbox;

/// A call of a model that has no result because the process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnansweredCall {
    /// The id that identifies the call.
    pub id: CallId,
    call: ToolCall,
}

impl UnansweredCall {
    /// Returns the row with the call's result for `agent`, which made the call. `begun` indicates whether the call had begun an
    /// effect.
    pub fn result(&self, agent: AgentId, begun: bool) -> NewMessage {
        let code = if begun { Code::OutcomeUnknown } else { Code::NotRun };
        let (content, answer) = interrupted(&self.call, code);
        NewMessage { agent, kind: MessageKind::Tool, content, data: Some(json!(answer)) }
    }
}

/// Returns the calls of an agent's last answer that have no result, if the turn did not end. `rows` are the
/// agent's rows from that answer on.
pub fn unanswered_calls(session: SessionId, rows: &[MessageRow]) -> Vec<UnansweredCall> {
    let Some((answer, after)) = rows.split_first().filter(|(row, _)| row.kind == MessageKind::Assistant) else {
        return Vec::new();
    };
    // Commands may run during a turn. Any other row shows that the turn has ended.
    if !after.iter().all(|row| matches!(row.kind, MessageKind::Tool | MessageKind::Command)) {
        return Vec::new();
    }
    let record = answer.data.clone().and_then(|data| serde_json::from_value::<AssistantRecord>(data).ok());
    // Calls of an interrupted answer were never run.
    let Some(record) = record.filter(|record| !record.interrupted) else { return Vec::new() };
    let calls = record.parts.into_iter().filter_map(|part| match part {
        AssistantPart::ToolCall { id, name, input, .. } => Some(ToolCall { id, name, input }),
        _ => None,
    });
    let mut open: Vec<_> = (0..)
        .zip(calls)
        .map(|(index, call)| UnansweredCall { id: CallId::of_answer(session, answer.seq, index), call })
        .collect();
    for row in after {
        let result = row.data.clone().and_then(|data| serde_json::from_value::<ToolRecord>(data).ok());
        let answered = result.and_then(|result| open.iter().position(|open| open.call.id == result.call_id));
        if let Some(at) = answered {
            open.remove(at);
        }
    }
    open
}

/// Returns the results of an interrupted call for the user and for the model. `code` is
/// [`Code::OutcomeUnknown`] or [`Code::NotRun`].
pub(crate) fn interrupted(call: &ToolCall, code: Code) -> (String, ToolRecord) {
    failed(call, interrupted_message(&call.name, code), code)
}

/// Returns the results, for the user and for the model, of a call in an answer that was cut off. It is not run.
pub(crate) fn cut_off(call: &ToolCall) -> (String, ToolRecord) {
    let tool = text::excerpt(&call.name, 80);
    let message = format!("'{tool}' was not run: the answer was cut off. Call it again, with less input if possible.");
    failed(call, message, Code::NotRun)
}

/// Returns the results, for the user and for the model, of a call that failed outside of its tool.
pub(crate) fn failed(call: &ToolCall, message: String, code: Code) -> (String, ToolRecord) {
    let content = vec![ToolRecordPart::Text { text: toolbox::envelope(message.clone(), code) }];
    let record = ToolRecord { call_id: call.id.clone(), name: call.name.clone(), error: Some(code), content };
    (message, record)
}

/// Returns the message of a call of `tool` that was interrupted: [`Code::OutcomeUnknown`] if it had begun an
/// effect, otherwise [`Code::NotRun`].
pub fn interrupted_message(tool: &str, code: Code) -> String {
    let tool = text::excerpt(tool, 80);
    match code {
        Code::OutcomeUnknown => format!(
            "'{tool}' was interrupted after it had begun; whether it took effect is not known. Check before you call it again."
        ),
        _ => format!("'{tool}' was not run: the process ended first."),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const SESSION: SessionId = SessionId::from_bytes([1; 16]);
    const AGENT: AgentId = AgentId::from_bytes([2; 16]);

    fn row(seq: u64, kind: MessageKind, data: Value) -> MessageRow {
        MessageRow { seq, agent: AGENT, kind, content: String::new(), data: Some(data) }
    }

    fn answer(seq: u64, ids: &[&str], interrupted: bool) -> MessageRow {
        let call = |id: &&str| json!({"type": "tool_call", "id": id, "name": "notes__add", "input": "{}"});
        let parts: Vec<Value> = ids.iter().map(call).collect();
        let usage = json!({"input": 0, "output": 0, "thinking": 0, "cache_read": 0, "cache_write": 0});
        let data = json!({
            "provider": "demo", "adapter": "demo", "model": "demo-1", "usage": usage, "interrupted": interrupted, "parts": parts,
        });
        row(seq, MessageKind::Assistant, data)
    }

    fn result(seq: u64, id: &str) -> MessageRow {
        row(seq, MessageKind::Tool, json!({"call_id": id, "name": "notes__add", "content": []}))
    }

    fn ids(rows: &[MessageRow]) -> Vec<CallId> {
        unanswered_calls(SESSION, rows).into_iter().map(|call| call.id).collect()
    }

    #[test]
    fn calls_without_a_result_are_found() {
        let id = |index| CallId::of_answer(SESSION, 5, index);
        let calls = answer(5, &["a", "b", "a"], false);
        let command = row(6, MessageKind::Command, Value::Null);
        assert_eq!(ids(std::slice::from_ref(&calls)), [id(0), id(1), id(2)]);
        assert_eq!(ids(&[calls.clone(), command, result(7, "a")]), [id(1), id(2)]);
        assert_eq!(ids(&[calls.clone(), result(6, "a"), result(7, "b"), result(8, "a")]), []);
        // The turn ended, or the answer itself was interrupted.
        assert_eq!(ids(&[calls, result(6, "a"), row(7, MessageKind::Notice, Value::Null)]), []);
        assert_eq!(ids(&[answer(5, &["a"], true)]), []);
        assert_eq!(ids(&[]), []);
    }

    #[test]
    fn result_says_whether_the_call_had_begun() {
        let call = unanswered_calls(SESSION, &[answer(5, &["a"], false)]).remove(0);
        for (begun, code, message) in [
            (false, "not_run", "'notes__add' was not run: the process ended first."),
            (
                true,
                "outcome_unknown",
                "'notes__add' was interrupted after it had begun; whether it took effect is not known. Check before you call it again.",
            ),
        ] {
            let row = call.result(AGENT, begun);
            assert_eq!((row.kind, row.content.as_str()), (MessageKind::Tool, message));
            let data = row.data.unwrap();
            assert_eq!((&data["call_id"], &data["error"]), (&json!("a"), &json!(code)));
            let sent = data["content"][0]["text"].as_str().unwrap();
            assert_eq!(sent, format!(r#"{{"tool_success":false,"error":"{message}","error_code":"{code}"}}"#));
        }
    }
}
