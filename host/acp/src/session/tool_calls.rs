//! Tracks the tool calls of the agent in view, from the answer that requests them to their results. It has no effects of its own.
//! Called by `transcript`.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use patchbay_core::{AssistantRecord, CallId, Digest, SessionId, ToolRecord, ToolRecordPart, completion::ToolCall};
use patchbay_session::Snapshot;
use serde_json::{Value, json};

use super::{
    changes::{self, FilesBefore},
    tool_kinds,
    update::{CallStatus, call_status, call_text},
};

/// Length limit of a result's text, in bytes. A longer text ends with the number of bytes that are left out.
const TEXT_BYTES: usize = 64 << 10;
/// Length limit of the raw input, in bytes. A longer input is left out.
const RAW_BYTES: usize = 256 << 10;
/// Length limit of the progress of one call, in bytes. The end is kept.
const PROGRESS_BYTES: usize = 16 << 10;
/// Size limit of a picture in a result, in bytes of base64.
const PICTURE_BYTES: usize = 8 << 20;
/// Size limit of a stored picture in a result, in bytes before it is encoded as base64.
pub(super) const STORED_PICTURE_BYTES: u64 = 6 << 20;

/// The calls that have no result yet, in the order in which they run.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    open: VecDeque<ShownCall>,
    /// The skills of the session, which declare the kinds of their tools.
    skills: Option<Arc<Snapshot>>,
    /// The files that the calls of the next answer replace.
    before: FilesBefore,
    /// The stored pictures of the next result.
    pictures: BTreeMap<Digest, Vec<u8>>,
}

#[derive(Debug)]
struct ShownCall {
    /// The id that the client knows.
    id: String,
    /// The model's id of the call.
    call_id: String,
    name: String,
    title: String,
    /// The title in questions. A title that the tool declares is left out, because clients may decide by the first word.
    plain_title: String,
    /// The row of the answer that requests the call, and the call's index there. `None` if the answer was not shown.
    asked_at: Option<(u64, u32)>,
    progress: String,
    /// The content of the call besides text: the changes of files, and a terminal.
    content: Vec<Value>,
    /// Whether the client shows a question in the call.
    is_asked: bool,
}

impl ShownCall {
    /// Returns an update with the state of the call. If the client shows a question, the update replaces it.
    fn status(&mut self, status: CallStatus, content: Option<Vec<Value>>) -> Value {
        let was_asked = std::mem::take(&mut self.is_asked);
        let content = content.or_else(|| was_asked.then(|| self.content.clone()));
        let mut update = call_status(&self.id, status, content);
        if was_asked {
            update["title"] = self.title.as_str().into();
        }
        update
    }
}

/// A tool call in a permission request, without the question itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CallInQuestion {
    /// The id that the client knows.
    pub(super) id: String,
    /// The title. For a nested call, it begins with the tool that needs the approval, because clients may show only the
    /// title or decide by its first word.
    pub(super) title: String,
    pub(super) content: Vec<Value>,
}

impl ToolCalls {
    /// Sets the skills of the session.
    pub(super) fn set_skills(&mut self, skills: Arc<Snapshot>) {
        self.skills = Some(skills);
    }

    /// Sets the files that the calls of the next answer replace.
    pub(super) fn set_files_before(&mut self, before: FilesBefore) {
        self.before = before;
    }

    /// Sets the stored pictures of the next result.
    pub(super) fn set_pictures(&mut self, pictures: BTreeMap<Digest, Vec<u8>>) {
        self.pictures = pictures;
    }

    fn kind(&self, tool: &str) -> &'static str {
        tool_kinds::kind(tool, self.skills.as_deref())
    }

    /// Shows the calls of an answer, which is row `seq`. The first call begins.
    pub(super) fn asked(&mut self, seq: u64, answer: &AssistantRecord, workspace: &str, out: &mut Vec<Value>) {
        let calls = answer.parts.iter().filter_map(patchbay_core::AssistantPart::tool_call);
        let before = std::mem::take(&mut self.before);
        for (index, call) in (0..).zip(calls) {
            let id = format!("{seq}-{index}");
            let diffs = changes::diffs(&call, workspace, &before);
            let title = tool_kinds::title(&call, self.skills.as_deref());
            let plain_title = tool_kinds::title(&call, None);
            out.push(shown(&id, &call, self.kind(&call.name), &title, &diffs, workspace));
            let ToolCall { id: call_id, name, .. } = call;
            self.open.push_back(ShownCall {
                id,
                call_id,
                name,
                title,
                plain_title,
                asked_at: Some((seq, index)),
                progress: String::new(),
                content: diffs,
                is_asked: false,
            });
        }
        self.begin_next(out);
    }

    /// Returns the first open call of the outermost tool of `chain`, to show a question about the last tool of `chain` in it.
    pub(super) fn question(&mut self, chain: &[String]) -> Option<CallInQuestion> {
        let (outermost, nested) = chain.split_first()?;
        let call = self.open.iter_mut().find(|call| call.name == *outermost)?;
        call.is_asked = true;
        let title = match nested.last() {
            Some(tool) => format!("{tool} for {}", call.plain_title),
            None => call.plain_title.clone(),
        };
        Some(CallInQuestion { id: call.id.clone(), title, content: call.content.clone() })
    }

    /// Shows a terminal in the call that runs a program in it. Does nothing if the call is not shown, for example because its
    /// agent is not in view.
    pub(super) fn terminal_opened(&mut self, session: SessionId, call: CallId, terminal: &str, out: &mut Vec<Value>) {
        let is_of = |(row, index)| CallId::of_answer(session, row, index) == call;
        let Some(call) = self.open.iter_mut().find(|shown| shown.asked_at.is_some_and(is_of)) else { return };
        call.content.push(json!({"type": "terminal", "terminalId": terminal}));
        out.push(call_status(&call.id, CallStatus::InProgress, Some(call.content.clone())));
    }

    /// Restores the title and content of a call, which clients overwrote with the question.
    pub(super) fn question_answered(&mut self, id: &str, out: &mut Vec<Value>) {
        let Some(call) = self.open.iter_mut().find(|call| call.id == id && call.is_asked) else { return };
        call.is_asked = false;
        out.push(json!({
            "sessionUpdate": "tool_call_update", "toolCallId": id, "title": call.title, "content": call.content,
        }));
    }

    /// Ends a call with its result.
    pub(super) fn ended(&mut self, seq: u64, text: &str, record: &ToolRecord, out: &mut Vec<Value>) {
        let status = if record.error.is_none() { CallStatus::Completed } else { CallStatus::Failed };
        let at = self.open.iter().position(|call| call.call_id == record.call_id);
        let mut call = match at.and_then(|at| self.open.remove(at)) {
            Some(call) => call,
            // The answer was not shown, for example because the view has moved since.
            None => {
                let id = format!("row-{seq}");
                out.push(json!({
                    "sessionUpdate": "tool_call", "toolCallId": id, "title": record.name, "name": record.name,
                    "kind": self.kind(&record.name),
                }));
                let (call_id, name) = (record.call_id.clone(), record.name.clone());
                let (title, plain_title) = (name.clone(), name.clone());
                ShownCall {
                    id,
                    call_id,
                    name,
                    title,
                    plain_title,
                    asked_at: None,
                    progress: String::new(),
                    content: Vec::new(),
                    is_asked: false,
                }
            }
        };
        let mut shown = std::mem::take(&mut call.content);
        if status == CallStatus::Failed {
            // The changes were not made. A terminal keeps showing its output.
            shown.retain(|part| part["type"] == "terminal");
        }
        let pictures = std::mem::take(&mut self.pictures);
        out.push(call.status(status, Some(content(text, record, &pictures, shown))));
        self.begin_next(out);
    }

    /// Adds partial output of a running call.
    pub(super) fn progress(&mut self, tool: &str, text: &str, out: &mut Vec<Value>) {
        let Some(call) = self.open.front_mut().filter(|call| call.name == tool) else { return };
        call.progress.push_str(text);
        if !text.ends_with('\n') {
            call.progress.push('\n');
        }
        let excess = call.progress.len().saturating_sub(PROGRESS_BYTES);
        if excess > 0 {
            let cut = call.progress.ceil_char_boundary(excess);
            call.progress.drain(..cut);
        }
        out.push(call_status(&call.id, CallStatus::InProgress, Some(vec![call_text(&call.progress)])));
    }

    /// Ends the calls that will not get a result, because their turn is over.
    pub(super) fn abandon(&mut self, out: &mut Vec<Value>) {
        out.extend(self.open.drain(..).map(|mut call| call.status(CallStatus::Failed, None)));
    }

    fn begin_next(&self, out: &mut Vec<Value>) {
        if let Some(call) = self.open.front() {
            out.push(call_status(&call.id, CallStatus::InProgress, None));
        }
    }
}

/// Returns the update that shows a call for the first time.
fn shown(id: &str, call: &ToolCall, kind: &str, title: &str, diffs: &[Value], workspace: &str) -> Value {
    let mut update = json!({
        "sessionUpdate": "tool_call", "toolCallId": id, "title": title, "name": call.name,
        "kind": kind, "status": CallStatus::Pending.as_str(),
    });
    let locations = changes::locations(call, workspace);
    if !locations.is_empty() {
        update["locations"] = locations.into();
    }
    if !diffs.is_empty() {
        update["content"] = diffs.into();
    }
    if call.input.len() <= RAW_BYTES {
        // The model's input may not be valid JSON.
        update["rawInput"] = serde_json::from_str(&call.input).unwrap_or_else(|_| call.input.clone().into());
    }
    update
}

/// Returns the content of a result: the changes or the terminal already `shown`, the text, and the pictures,
/// some of them from `stored`. `rawOutput` is left out, because clients such as acpx print it beside the content
/// and would show the result twice.
fn content(text: &str, record: &ToolRecord, stored: &BTreeMap<Digest, Vec<u8>>, shown: Vec<Value>) -> Vec<Value> {
    let mut content = shown;
    if !text.is_empty() {
        let end = text.floor_char_boundary(TEXT_BYTES);
        let (shown, rest) = text.split_at(end);
        content.push(match rest.len() {
            0 => call_text(shown),
            more => call_text(&format!("{shown}\n… {more} more bytes")),
        });
    }
    let picture = |media_type: &str, data: &str| json!({"type": "content", "content": {"type": "image", "mimeType": media_type, "data": data}});
    let pictures = record.content.iter().filter_map(|part| match part {
        ToolRecordPart::Blob { media_type, data }
            if media_type.starts_with("image/") && data.len() <= PICTURE_BYTES =>
        {
            Some(picture(media_type, data))
        }
        ToolRecordPart::StoredBlob { media_type, digest, .. } => {
            Some(picture(media_type, &STANDARD.encode(stored.get(digest)?)))
        }
        _ => None,
    });
    content.extend(pictures);
    content
}

#[cfg(test)]
pub(super) mod tests {
    use patchbay_core::{AssistantPart, Code};

    use super::{super::changes::FileBefore, *};

    fn answer(calls: &[(&str, &str, &str)]) -> AssistantRecord {
        let part = |(id, name, input): &(&str, &str, &str)| AssistantPart::ToolCall {
            id: (*id).to_owned(),
            name: (*name).to_owned(),
            input: (*input).to_owned(),
            opaque: None,
            call_tool: None,
        };
        AssistantRecord { parts: calls.iter().map(part).collect(), ..AssistantRecord::default() }
    }

    fn result(call_id: &str, name: &str, text: &str, error: Option<Code>) -> ToolRecord {
        let content = vec![ToolRecordPart::Text { text: text.to_owned() }];
        ToolRecord { call_id: call_id.to_owned(), name: name.to_owned(), error, content }
    }

    fn ask(calls: &mut ToolCalls, chain: &[&str]) -> Option<CallInQuestion> {
        calls.question(&chain.iter().map(|tool| (*tool).to_owned()).collect::<Vec<_>>())
    }

    /// Returns the id and the status of each update, and removes them.
    pub(in crate::session) fn states(out: &mut Vec<Value>) -> Vec<String> {
        let state = |update: Value| {
            format!("{} {}", update["toolCallId"].as_str().unwrap(), update["status"].as_str().unwrap_or("-"))
        };
        out.drain(..).map(state).collect()
    }

    #[test]
    fn calls_begin_one_after_another_and_end_with_their_results() {
        let (mut calls, mut out) = (ToolCalls::default(), Vec::new());
        calls.asked(4, &answer(&[("a", "calc__eval", "{}"), ("b", "calc__eval", "{}")]), "/w", &mut out);
        assert_eq!(states(&mut out), ["4-0 pending", "4-1 pending", "4-0 in_progress"]);
        calls.ended(5, "2", &result("a", "calc__eval", "2", None), &mut out);
        assert_eq!(states(&mut out), ["4-0 completed", "4-1 in_progress"]);
        calls.ended(6, "no", &result("b", "calc__eval", "no", Some(Code::ToolFailed)), &mut out);
        assert_eq!(states(&mut out), ["4-1 failed"]);
        // A result whose call was not shown is shown by itself.
        calls.ended(7, "x", &result("c", "use_skill", "x", None), &mut out);
        assert_eq!(out[0]["kind"], "read");
        assert_eq!(states(&mut out), ["row-7 -", "row-7 completed"]);
        calls.asked(8, &answer(&[("a", "calc__eval", "{}")]), "/w", &mut out);
        out.clear();
        calls.abandon(&mut out);
        assert_eq!(states(&mut out), ["8-0 failed"]);
    }

    #[test]
    fn call_has_its_input_output_and_change() {
        let (mut calls, mut out) = (ToolCalls::default(), Vec::new());
        let input = r#"{"path":"a.txt","old":"1","new":"2"}"#;
        calls.asked(4, &answer(&[("a", "files__edit", input)]), "/w", &mut out);
        assert_eq!(
            out[0],
            json!({
                "sessionUpdate": "tool_call", "toolCallId": "4-0", "title": "files__edit a.txt", "name": "files__edit",
                "kind": "other", "status": "pending", "locations": [{"path": "/w/a.txt"}],
                "content": [{"type": "diff", "path": "/w/a.txt", "oldText": "1", "newText": "2"}],
                "rawInput": {"path": "a.txt", "old": "1", "new": "2"},
            })
        );
        out.clear();
        let sent = r#"{"tool_success":true,"result":{"n":1}}"#;
        calls.ended(5, "Replaced.", &result("a", "files__edit", sent, None), &mut out);
        assert_eq!(out[0]["content"][0]["type"], "diff");
        assert_eq!(out[0]["content"][1], call_text("Replaced."));
        assert_eq!(out[0].get("rawOutput"), None);
    }

    #[test]
    fn question_keeps_title_and_change_of_its_call() {
        let (mut calls, mut out) = (ToolCalls::default(), Vec::new());
        let input = r#"{"path":"a.txt","text":"1"}"#;
        calls.set_files_before(FilesBefore::from([("a.txt".to_owned(), FileBefore::Missing)]));
        calls.asked(4, &answer(&[("a", "files__write", input)]), "/w", &mut out);
        out.clear();
        let diff = json!({"type": "diff", "path": "/w/a.txt", "oldText": null, "newText": "1"});
        let [id, title] = ["4-0", "files__write a.txt"].map(str::to_owned);
        let asked = CallInQuestion { id, title, content: vec![diff.clone()] };
        assert_eq!((ask(&mut calls, &["files__write"]), ask(&mut calls, &["other__x"])), (Some(asked), None));
        calls.question_answered("4-0", &mut out);
        calls.question_answered("4-0", &mut out);
        let expected = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "4-0", "title": "files__write a.txt", "content": [&diff],
        });
        assert_eq!(std::mem::take(&mut out), [expected]);
        // The turn is stopped before the answer.
        ask(&mut calls, &["files__write"]);
        calls.abandon(&mut out);
        let expected = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "4-0", "title": "files__write a.txt", "status": "failed",
            "content": [diff],
        });
        assert_eq!(out, [expected]);
    }

    #[test]
    fn question_of_a_nested_call_names_its_tool_first() {
        let (mut calls, mut out) = (ToolCalls::default(), Vec::new());
        calls.asked(4, &answer(&[("a", "code__run", r#"{"name":"tidy"}"#)]), "/w", &mut out);
        out.clear();
        let asked = ask(&mut calls, &["code__run", "mcp__x__delete"]).unwrap();
        assert_eq!((&*asked.id, &*asked.title), ("4-0", "mcp__x__delete for code__run tidy"));
        calls.question_answered("4-0", &mut out);
        assert_eq!(out[0]["title"], "code__run tidy");
    }

    #[test]
    fn terminal_stays_in_the_call_that_runs_in_it() {
        let session = SessionId::from_bytes([9; 16]);
        let terminal = json!({"type": "terminal", "terminalId": "t1"});
        for (error, status) in [(None, "completed"), (Some(Code::ToolFailed), "failed")] {
            let (mut calls, mut out) = (ToolCalls::default(), Vec::new());
            let two = [("a", "terminal__run", "{}"), ("b", "terminal__run", "{}")];
            calls.asked(4, &answer(&two), "/w", &mut out);
            out.clear();
            // A call of another agent.
            calls.terminal_opened(session, CallId::of_answer(session, 5, 0), "t0", &mut out);
            assert_eq!(out, Vec::<Value>::new());
            ask(&mut calls, &["terminal__run"]);
            calls.terminal_opened(session, CallId::of_answer(session, 4, 0), "t1", &mut out);
            assert_eq!((&out[0]["toolCallId"], &out[0]["content"]), (&json!("4-0"), &json!([&terminal])));
            calls.question_answered("4-0", &mut out);
            assert_eq!(out[1]["content"], json!([&terminal]));
            calls.ended(6, "ok", &result("a", "terminal__run", "ok", error), &mut out);
            assert_eq!((&out[2]["status"], &out[2]["content"]), (&json!(status), &json!([&terminal, call_text("ok")])));
        }
    }

    #[test]
    fn pictures_of_results_are_shown_from_rows_and_from_the_store() {
        let (mut calls, mut out) = (ToolCalls::default(), Vec::new());
        let media_type = "image/png".to_owned();
        let stored = ToolRecordPart::StoredBlob { media_type: media_type.clone(), digest: Digest::of(b"b"), size: 1 };
        let missing = ToolRecordPart::StoredBlob { media_type: media_type.clone(), digest: Digest::of(b"c"), size: 1 };
        let old = ToolRecordPart::Blob { media_type, data: "YQ==".to_owned() };
        let record = ToolRecord { content: vec![old, stored, missing], ..result("a", "x__y", "", None) };
        calls.set_pictures(BTreeMap::from([(Digest::of(b"b"), b"b".to_vec())]));
        calls.ended(5, "", &record, &mut out);
        let shown = |update: &Value| -> Vec<String> {
            let content = update["content"].as_array().unwrap().iter();
            content.map(|part| part["content"]["data"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(shown(&out[1]), ["YQ==", "Yg=="]);
        // The pictures were only for the first result.
        calls.ended(6, "", &record, &mut out);
        assert_eq!(shown(&out[3]), ["YQ=="]);
    }

    #[test]
    fn long_inputs_results_and_progress_are_cut() {
        let (mut calls, mut out) = (ToolCalls::default(), Vec::new());
        let long = "ä".repeat(RAW_BYTES);
        calls.asked(4, &answer(&[("a", "x__y", &long)]), "/w", &mut out);
        assert_eq!(out[0].get("rawInput"), None);
        for _ in 0..10 {
            calls.progress("x__y", &"ö".repeat(5_000), &mut out);
        }
        calls.progress("other__y", "not this call", &mut out);
        let shown = out.last().unwrap()["content"][0]["content"]["text"].as_str().unwrap();
        assert!(shown.len() <= PROGRESS_BYTES && shown.ends_with("ö\n"), "{}", shown.len());
        out.clear();
        calls.ended(5, &long, &result("a", "x__y", &long, None), &mut out);
        let shown = out[0]["content"][0]["content"]["text"].as_str().unwrap();
        assert!(shown.ends_with(&format!("\n… {} more bytes", long.len() - TEXT_BYTES)));
        assert_eq!(out[0].get("rawOutput"), None);
    }
}
