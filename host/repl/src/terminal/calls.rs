//! The tool calls of the agent in view. A call is a row of the live area while it runs, and one finished row once its
//! result arrives. The result therefore always appears on the row of its call, even if calls run in parallel.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use patchbay_core::{AssistantPart, AssistantRecord, ToolRecord, completion::ToolCall, text};
use patchbay_session::{FileDiff, Root, Snapshot};

use super::{
    agent_text,
    call_text::{self, KindClaim},
    call_timer::{self, CallTimer},
    diff,
    live::Row,
    style,
    wrap::cut,
};
use crate::words;

/// Length limit of a result on the row of its call, in characters.
const SHOWN: usize = 100;

/// The calls without a result, in the order of the answer. Some of them may run side by side.
#[derive(Default)]
pub(super) struct Calls {
    open: VecDeque<CallRow>,
    timer: CallTimer,
    /// The skills of the session, which declare the kinds of their tools.
    skills: Option<Arc<Snapshot>>,
}

struct CallRow {
    id: String,
    /// A description of the call, as it is printed.
    what: String,
    input: String,
    /// The change that the call makes to a file.
    diff: Option<FileDiff>,
    /// Whether the result contains nothing beyond `diff`.
    is_edit: bool,
}

pub(super) struct EndedCall {
    /// The row without its mark and number: the call, the size of the result, the time, and a short result.
    pub(super) row: String,
    /// Lines of the result below it.
    pub(super) last_lines: Vec<String>,
    pub(super) has_failed: bool,
    /// The whole result, cleaned.
    pub(super) content: String,
    pub(super) input: String,
    pub(super) diff: Option<FileDiff>,
}

impl Calls {
    /// Sets the snapshot whose tools are called from now on.
    pub(super) fn set_skills(&mut self, skills: Arc<Snapshot>) {
        self.skills = Some(skills);
    }

    /// Sets whether a question is open. The call's timer is paused while it is.
    pub(super) fn pause(&mut self, is_open: bool, now: Instant) {
        self.timer.pause(is_open, now);
    }

    /// Begins the calls of an answer.
    pub(super) fn begin(&mut self, answer: Option<&AssistantRecord>, now: Instant) {
        let calls = answer.iter().flat_map(|answer| &answer.parts).filter_map(AssistantPart::tool_call);
        self.open = calls.map(|call| self.opened(call)).collect();
        self.timer.start(now);
    }

    fn opened(&self, call: ToolCall) -> CallRow {
        let found = self.skills.as_ref().and_then(|skills| skills.tool(&call.name));
        let declared = found.and_then(|(skill, tool)| {
            Some(KindClaim { kind: tool.annotation("kind")?, is_bundled: skill.root == Root::Bundled })
        });
        let diff = diff::of_call(&call);
        let mut what = call_text::sentence(&call, declared);
        // Otherwise the counts are unknown: a written file has an unknown old text, and `all` an unknown number of replacements.
        let is_edit = call.name == "files__edit" && !call.input.contains("\"all\"");
        if let Some(counts) = diff.as_ref().filter(|_| is_edit).map(FileDiff::counts) {
            what = format!("{what} {counts}");
        }
        CallRow { id: call.id, what, input: call.input, diff, is_edit }
    }

    /// Ends a call with its result. A call that began before the front started is named by its tool.
    pub(super) fn end(&mut self, content: &str, result: Option<&ToolRecord>, now: Instant) -> EndedCall {
        let content = text::clean(content);
        let failed = result.and_then(|result| result.error);
        let at = result.and_then(|result| self.open.iter().position(|call| call.id == result.call_id));
        let call = at.and_then(|at| self.open.remove(at));
        let took = self.timer.lap(now).map(call_timer::tenths);
        let tool = result.map(|result| text::clean_line(&result.name)).unwrap_or_default();
        let lines = content.lines().count();
        let said = failed.is_none().then(|| agent_text::result(&tool, &content)).flatten();
        let last_lines = if said.is_some() || failed.is_some() { Vec::new() } else { call_text::last_lines(&content) };
        let size = (failed.is_none() && said.is_none() && lines > 1).then(|| format!("{lines} lines"));
        let is_edit = call.as_ref().is_some_and(|call| call.is_edit && failed.is_none());
        let said = match (failed, said) {
            (Some(code), _) => words::failure(code, &content, SHOWN),
            (None, Some(said)) => said,
            (None, None) if is_edit || !last_lines.is_empty() => String::new(),
            (None, None) => text::excerpt(&content, SHOWN),
        };
        let what = call.as_ref().map_or(tool, |call| call.what.clone());
        let about = [Some(what), size, took].into_iter().flatten().collect::<Vec<_>>().join(" · ");
        let row = if said.is_empty() { about } else { format!("{about}: {said}") };
        let (input, diff) = call.map(|call| (call.input, call.diff)).unwrap_or_default();
        let diff = diff.filter(|_| failed.is_none());
        EndedCall { row, last_lines, has_failed: failed.is_some(), content, input, diff }
    }

    /// Returns the rows of the calls that run or wait, at most `height`.
    pub(super) fn rows(&self, height: usize, columns: usize) -> Vec<Row> {
        let limit = columns.saturating_sub(1);
        let mut rows: Vec<Row> =
            self.open.iter().take(height).map(|call| Row::styled(style::FAINT, &cut(&row_of(call), limit))).collect();
        let more = self.open.len() - rows.len();
        if more > 0 && rows.pop().is_some() {
            rows.push(Row::styled(style::FAINT, &cut(&format!("… {} more calls", more + 1), limit)));
        }
        rows
    }

    /// Takes the rows of calls that get no result here, because they were stopped or another agent comes into view.
    pub(super) fn take_open(&mut self) -> Vec<String> {
        self.open.drain(..).map(|call| row_of(&call)).collect()
    }
}

fn row_of(call: &CallRow) -> String {
    format!("→ {}", call.what)
}

/// Returns the mark of a row with a result.
pub(super) fn mark(has_failed: bool) -> char {
    if has_failed { '✗' } else { '✓' }
}

#[cfg(test)]
mod tests {
    use patchbay_core::{Code, ToolRecord};

    use super::*;

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

    fn result(id: &str, name: &str, error: Option<Code>) -> ToolRecord {
        ToolRecord { call_id: id.to_owned(), name: name.to_owned(), error, content: Vec::new() }
    }

    fn texts(rows: &[Row]) -> Vec<String> {
        rows.iter().map(|row| row.text.replace("\x1b[2m", "").replace("\x1b[0m", "")).collect()
    }

    #[test]
    fn call_and_result_are_one_row() {
        let (mut calls, now) = (Calls::default(), Instant::now());
        let uuid = "a1b2c3d4-0000-4000-8000-000000000000";
        let edit = r#"{"path":"a.rs","old":"one","new":"two\nthree"}"#;
        let asked = [("1", "fork", r#"{"prompt":"Read"}"#), ("2", "files__edit", edit), ("3", "x__y", r#"{"a":1}"#)];
        calls.begin(Some(&answer(&asked)), now);
        let running = ["→ fork \"Read\"", r#"→ files__edit {"path":"a.rs","old":"one","new":"two\nthree"} +2 −1"#];
        assert_eq!(texts(&calls.rows(2, 80)), [running[0], "… 2 more calls"]);
        assert_eq!(texts(&calls.rows(9, 80))[..2], running);
        assert!(calls.rows(9, 20).iter().all(|row| row.width < 20));
        let ended = calls.end(&format!("{{\n  \"child_uuid\": \"{uuid}\"\n}}"), Some(&result("1", "fork", None)), now);
        assert_eq!((&*ended.row, ended.last_lines.len()), ("fork \"Read\" · 0.1 s: child a1b2c3d4", 0));
        let ended = calls.end("Replaced 1 occurrence.", Some(&result("2", "files__edit", None)), now);
        assert_eq!(ended.row, format!("{} · 0.1 s", running[1].trim_start_matches("→ ")));
        assert_eq!(ended.diff.map(|diff| (diff.added, diff.removed)), Some((2, 1)));
        let ended = calls.end("no such thing", Some(&result("3", "x__y", Some(Code::InvalidInput))), now);
        assert_eq!((&*ended.row, ended.has_failed), (r#"x__y {"a":1} · 0.1 s: no such thing"#, true));
        assert!(calls.rows(9, 80).is_empty() && calls.take_open().is_empty());
    }

    #[test]
    fn calls_without_a_result_keep_their_rows() {
        let (mut calls, now) = (Calls::default(), Instant::now());
        calls.begin(Some(&answer(&[("1", "a__b", "{}"), ("2", "c__d", "{}")])), now);
        calls.end("x", Some(&result("2", "c__d", None)), now);
        assert_eq!(calls.take_open(), ["→ a__b {}"]);
        // A call that began before the front started.
        assert_eq!(calls.end("x\ny", Some(&result("9", "e__f", None)), now).row, "e__f · 2 lines · 0.1 s");
    }
}
