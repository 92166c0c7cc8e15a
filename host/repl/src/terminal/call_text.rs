//! Calls of tools as rows: what a model does, as a sentence for tools that most sessions have, else the name and the input. Pure;
//! `transcript` prints them.

use patchbay_core::{completion::ToolCall, text};
use serde::de::IgnoredAny;

/// Length limit of a row in characters.
const ROW: usize = 200;
/// Length limit of a quoted text in characters.
const QUOTED: usize = 80;
/// Lines of a result that are shown below its row.
const LAST_LINES: usize = 3;

/// Returns what `call` does.
pub(crate) fn sentence(call: &ToolCall) -> String {
    let argument = |key: &str| match call.text_arguments([key]) {
        [Some(argument)] if !argument.trim().is_empty() => Some(text::excerpt(&argument, ROW)),
        _ => None,
    };
    let quoted = |key: &str| argument(key).map(|text| format!("\"{}\"", text::excerpt(&text, QUOTED)));
    let said = match &*call.name {
        "files__edit" => argument("path").map(|path| format!("edit {path}")),
        "files__write" => argument("path").map(|path| format!("write {path}")),
        "files__read" => argument("path").map(|path| format!("read {path}")),
        "files__delete" => argument("path").map(|path| format!("delete {path}")),
        "files__list" => argument("path").or_else(|| argument("glob")).map(|path| format!("list {path}")),
        "grep__search" => quoted("pattern").map(|pattern| format!("search {pattern}")),
        "web__fetch" => argument("url").map(|url| format!("fetch {url}")),
        "calc__eval" => argument("expression").map(|expression| format!("calculate {expression}")),
        "code__run" => call.text_arguments(["code"])[0].as_ref().map(|code| match code.lines().count() {
            0 | 1 => format!("run {}", text::excerpt(code, QUOTED)),
            lines => format!("run a program of {lines} lines"),
        }),
        "use_skill" => argument("name").map(|name| format!("use the skill {name}")),
        "fork" => quoted("prompt").map(|prompt| format!("fork {prompt}")),
        _ => None,
    };
    said.unwrap_or_else(|| format!("{} {}", text::excerpt(&call.name, ROW), text::excerpt(&call.input, ROW)))
}

/// Returns the last lines of a result that has more than one, for below its row. Those of JSON say nothing.
pub(crate) fn last_lines(content: &str) -> Vec<String> {
    if content.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(content).is_ok() {
        return Vec::new();
    }
    let lines: Vec<&str> = content.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.len() < 2 {
        return Vec::new();
    }
    let last = lines.len().saturating_sub(LAST_LINES);
    lines[last..].iter().map(|line| format!("  {}", text::excerpt(line, ROW))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_calls_are_sentences() {
        let said = |name: &str, input: &str| {
            sentence(&ToolCall { id: "1".to_owned(), name: name.to_owned(), input: input.to_owned() })
        };
        for (name, input, expected) in [
            ("files__edit", r#"{"path":"src/pool.rs","old":"a","new":"b"}"#, "edit src/pool.rs"),
            ("grep__search", r#"{"pattern":"foo\nbar"}"#, "search \"foo bar\""),
            ("fork", r#"{"prompt":"Read the logs"}"#, "fork \"Read the logs\""),
            ("code__run", r#"{"code":"return 1"}"#, "run return 1"),
            ("code__run", r#"{"code":"a\nb\nc"}"#, "run a program of 3 lines"),
            ("files__edit", "none", "files__edit none"),
            ("notes__add", r#"{"text":"x"}"#, r#"notes__add {"text":"x"}"#),
            ("files__read", "{\"path\":\"a\\u001b[2Jb\"}", "read a[2Jb"),
        ] {
            assert_eq!(said(name, input), expected);
        }
    }

    #[test]
    fn last_lines_of_a_long_result_are_shown() {
        assert_eq!(last_lines("one line\n"), <[&str; 0]>::default());
        assert_eq!(last_lines("{\n\"a\": 1\n}"), <[&str; 0]>::default());
        assert_eq!(last_lines("a\n\nb"), ["  a", "  b"]);
        assert_eq!(last_lines("1\n2\n3\n4\n5\n"), ["  3", "  4", "  5"]);
    }
}
