//! What a client shows of a tool call before it has run: its kind, a title, the files that it names. Pure; `tool_calls` calls it.

use std::path::Path;

use patchbay_core::{completion::ToolCall, text};
use patchbay_session::Snapshot;
use serde_json::{Value, json};

/// Length limit of a title in characters.
const TITLE: usize = 120;
/// Length limit of each text of a diff, in bytes. A longer change is shown by its input alone.
const DIFF_BYTES: usize = 256 << 10;

/// The kinds of the protocol.
const KINDS: [&str; 9] = ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"];

/// Returns the kind by which a client chooses a symbol: for a tool of `skills`, the one that it declares.
pub(super) fn kind(tool: &str, skills: Option<&Snapshot>) -> &'static str {
    let declared = skills.and_then(|skills| skills.tool(tool)?.1.annotation("kind"));
    if let Some(kind) = declared.and_then(|declared| KINDS.into_iter().find(|kind| *kind == declared)) {
        return kind;
    }
    match tool {
        "use_skill" | "skill_file" => "read",
        "find_skills" | "find_tools" => "search",
        "terminal__run" => "execute",
        _ => "other",
    }
}

/// Returns a title: the tool and the first text of its input, such as `files__read src/main.rs`.
pub(super) fn title(call: &ToolCall) -> String {
    let keys = ["path", "pattern", "url", "command", "expression", "name", "query", "prompt", "message"];
    let argument = call.text_arguments(keys).into_iter().flatten().next().unwrap_or_default();
    text::excerpt(&format!("{} {argument}", call.name), TITLE)
}

/// Returns the files that a call names, as absolute paths. Tools of other skills may mean something else by a path.
pub(super) fn locations(call: &ToolCall, workspace: &str) -> Vec<Value> {
    if !call.name.starts_with("files__") {
        return Vec::new();
    }
    let [Some(path)] = call.text_arguments(["path"]) else { return Vec::new() };
    let mut location = json!({ "path": absolute(&path, workspace) });
    let input: Value = serde_json::from_str(&call.input).unwrap_or_default();
    if let Some(line) = input.get("first").and_then(Value::as_u64).filter(|line| *line > 0) {
        location["line"] = line.into();
    }
    vec![location]
}

/// Returns the change that a call makes in a file; `None` for other calls and for large changes. What a written file had before is
/// not known here, so that its whole text is shown as new.
pub(super) fn diff(call: &ToolCall, workspace: &str) -> Option<Value> {
    let (path, old, new) = match &*call.name {
        "files__edit" => match call.text_arguments(["path", "old", "new"]) {
            [Some(path), Some(old), Some(new)] => (path, Some(old), new),
            _ => return None,
        },
        "files__write" => match call.text_arguments(["path", "text"]) {
            [Some(path), Some(new)] => (path, None, new),
            _ => return None,
        },
        _ => return None,
    };
    if new.len() > DIFF_BYTES || old.as_ref().is_some_and(|old| old.len() > DIFF_BYTES) {
        return None;
    }
    Some(json!({"type": "diff", "path": absolute(&path, workspace), "oldText": old, "newText": new}))
}

fn absolute(path: &str, workspace: &str) -> String {
    Path::new(workspace).join(path.trim_start_matches("./")).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, input: &str) -> ToolCall {
        ToolCall { id: "1".to_owned(), name: name.to_owned(), input: input.to_owned() }
    }

    #[test]
    fn calls_have_kinds_and_titles() {
        for (tool, expected) in [
            ("use_skill", "read"),
            ("find_tools", "search"),
            ("terminal__run", "execute"),
            ("fork", "other"),
            ("mcp__x__files__read", "other"),
        ] {
            assert_eq!(kind(tool, None), expected, "{tool}");
        }
        assert_eq!(title(&call("files__read", r#"{"path":"src/a.rs"}"#)), "files__read src/a.rs");
        assert_eq!(title(&call("x__y", "no JSON")), "x__y");
        assert_eq!(title(&call("x__y", &format!(r#"{{"path":"{}"}}"#, "p".repeat(500)))).chars().count(), TITLE + 1);
    }

    #[test]
    fn files_are_named_by_absolute_paths() {
        let read = call("files__read", r#"{"path":"./src/a.rs","first":7}"#);
        assert_eq!(locations(&read, "/w"), [json!({"path": "/w/src/a.rs", "line": 7})]);
        assert_eq!(locations(&call("notes__read", r#"{"path":"a"}"#), "/w"), Vec::<Value>::new());
    }

    #[test]
    fn edits_are_diffs() {
        let edit = diff(&call("files__edit", r#"{"path":"a","old":"one","new":"two"}"#), "/w").unwrap();
        assert_eq!(edit, json!({"type": "diff", "path": "/w/a", "oldText": "one", "newText": "two"}));
        let write = diff(&call("files__write", r#"{"path":"a","text":"all"}"#), "/w").unwrap();
        assert_eq!(write, json!({"type": "diff", "path": "/w/a", "oldText": null, "newText": "all"}));
        assert_eq!(diff(&call("files__edit", r#"{"path":"a"}"#), "/w"), None);
        let large = format!(r#"{{"path":"a","text":"{}"}}"#, "x".repeat(DIFF_BYTES + 1));
        assert_eq!(diff(&call("files__write", &large), "/w"), None);
    }
}
