//! Renders tool calls as sentences that describe the model's action, based on the tool's declared kind and
//! name. Pure; `calls` shows them.

use patchbay_core::{completion::ToolCall, text};
use patchbay_session::TerminalCommand;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::agent_text;

/// Length limit of a row in characters.
const ROW: usize = 200;
/// Length limit of a quoted text in characters.
const QUOTED: usize = 80;
/// How many lines of a result are shown below its row.
const LAST_LINES: usize = 3;
/// How many files of a patch are named.
const PATCHED: usize = 3;

/// A skill's declaration about a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KindClaim<'a> {
    /// The kind that the tool declares in its annotations.
    pub(crate) kind: &'a str,
    /// Whether the skill is bundled. The kind of any other skill's tool is only a claim, so the tool's name is shown as well.
    pub(crate) is_bundled: bool,
}

/// Describes the action of `call`.
pub(crate) fn sentence(call: &ToolCall, declared: Option<KindClaim<'_>>) -> String {
    let input: Value = serde_json::from_str(&call.input).unwrap_or_default();
    let said = match (call.name.split_once("__"), declared) {
        (None, _) => agent_text::sentence(&call.name, &input),
        (Some(("mcp", rest)), _) => outside(rest, &call.input),
        (Some(_), _) if call.name == TerminalCommand::TOOL => {
            Some(text::excerpt(&format!("run {}", TerminalCommand::in_question(&input)), ROW))
        }
        (Some((_, tool)), Some(KindClaim { kind, is_bundled })) => by_kind(kind, tool, &input)
            .map(|said| if is_bundled { said } else { format!("{said} ({})", text::excerpt(&call.name, ROW)) }),
        (Some(_), None) => None,
    };
    said.unwrap_or_else(|| format!("{} {}", text::excerpt(&call.name, ROW), text::excerpt(&call.input, ROW)))
}

/// Describes a call of a tool outside of the sandbox, with the names that its question uses.
fn outside(name: &str, input: &str) -> Option<String> {
    let (server, tool) = name.split_once("__")?;
    let [server, tool, input] = [server, tool, input].map(|part| text::excerpt(part, ROW));
    Some(format!("call {server}: {tool} {input}"))
}

/// Returns the sentence of a tool of this kind; `None` if its input has nothing to name.
fn by_kind(kind: &str, tool: &str, input: &Value) -> Option<String> {
    let argument = |keys: &[&str]| keys.iter().find_map(|key| word(input, key));
    let quoted = |keys: &[&str]| keys.iter().find_map(|key| quoted(input, key));
    // Tools of one kind differ: `list`, `find` and `search` all search.
    let verb = |verbs: &[&'static str]| verbs.iter().copied().find(|verb| *verb == tool).or(verbs.first().copied());
    let path = &["path", "file", "uri", "url"][..];
    let (verb, about) = match kind {
        "read" => (verb(&["read", "list", "show", "get"])?, argument(path).or_else(|| each(input, "paths"))?),
        "edit" => {
            let verb = verb(&["edit", "write", "patch", "create", "append"])?;
            (verb, argument(path).or_else(|| patched(input))?)
        }
        "delete" => (verb(&["delete", "remove"])?, argument(path).or_else(|| argument(&["name"]))?),
        "move" => (verb(&["move", "rename", "copy"])?, format!("{} to {}", argument(&["from"])?, argument(&["to"])?)),
        "search" => {
            let verb = verb(&["search", "list", "find", "grep"])?;
            let within = argument(&["glob", "path"]);
            match (quoted(&["pattern", "query", "text"]).or_else(|| argument(&["name"])), within) {
                (Some(what), Some(within)) => (verb, format!("{what} in {within}")),
                (Some(what), None) => (verb, what),
                (None, Some(within)) => (verb, within),
                (None, None) if input.as_object().is_some_and(serde_json::Map::is_empty) => {
                    return Some(verb.to_owned());
                }
                (None, None) => return None,
            }
        }
        "execute" => ("run", argument(&["command"]).or_else(|| program(input))?),
        "think" => ("calculate", argument(&["expression"])?),
        "fetch" => (verb(&["fetch", "get", "download"])?, argument(&["url", "uri"])?),
        _ => return None,
    };
    Some(format!("{verb} {about}"))
}

/// Returns the text at `key`, on one line; `None` if there is none.
pub(super) fn word(input: &Value, key: &str) -> Option<String> {
    let text = text::excerpt(input.get(key)?.as_str()?, ROW);
    (!text.is_empty()).then_some(text)
}

/// Like [`word`], in quotes and shorter.
pub(super) fn quoted(input: &Value, key: &str) -> Option<String> {
    word(input, key).map(|text| format!("\"{}\"", text::excerpt(&text, QUOTED)))
}

/// Names the strings in the list at `key`.
fn each(input: &Value, key: &str) -> Option<String> {
    let texts = input.get(key)?.as_array()?.iter().filter_map(Value::as_str);
    counted(texts.collect())
}

/// Names the files that a unified diff changes.
fn patched(input: &Value) -> Option<String> {
    let lines = input.get("patch")?.as_str()?.lines();
    let mut files: Vec<&str> = Vec::new();
    for line in lines.filter_map(|line| line.strip_prefix("+++ ").or_else(|| line.strip_prefix("--- "))) {
        let file = line.split('\t').next().unwrap_or_default().trim();
        let file = ["a/", "b/"].into_iter().find_map(|prefix| file.strip_prefix(prefix)).unwrap_or(file);
        if file != "/dev/null" && files.last() != Some(&file) {
            files.push(file);
        }
    }
    counted(files)
}

/// Names the first of `names` and counts the others.
fn counted(names: Vec<&str>) -> Option<String> {
    let shown = names.iter().take(PATCHED).map(|name| text::excerpt(name, QUOTED)).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(PATCHED) {
        _ if names.is_empty() => None,
        0 => Some(shown),
        more => Some(format!("{shown} and {more} more")),
    }
}

/// Returns a program if it has one line, or else its number of lines.
fn program(input: &Value) -> Option<String> {
    let code = input.get("code")?.as_str()?;
    Some(match code.lines().count() {
        0 | 1 => text::excerpt(code, QUOTED),
        lines => format!("a program of {lines} lines"),
    })
}

/// Returns the last lines of a result with several lines, to show below its row. The last lines of JSON are left out as useless.
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

    fn said(name: &str, input: &str, kind: Option<&str>, is_bundled: bool) -> String {
        let call = ToolCall { id: "1".to_owned(), name: name.to_owned(), input: input.to_owned() };
        sentence(&call, kind.map(|kind| KindClaim { kind, is_bundled }))
    }

    #[test]
    fn calls_are_sentences_by_their_declared_kind() {
        let diff = "--- a/one\\n+++ b/one\\n@@\\n-x\\n--- /dev/null\\n+++ b/two\\n--- three\\t1\\n+++ /dev/null\\n";
        for (name, kind, input, expected) in [
            ("files__edit", "edit", r#"{"path":"src/pool.rs","old":"a","new":"b"}"#, "edit src/pool.rs"),
            ("files__write", "edit", r#"{"path":"a","text":"b"}"#, "write a"),
            ("files__patch", "edit", &format!(r#"{{"patch":"{diff}"}}"#), "patch one, two, three"),
            ("files__rename", "move", r#"{"from":"a","to":"b"}"#, "rename a to b"),
            ("files__delete", "delete", r#"{"path":"a"}"#, "delete a"),
            ("files__read", "read", "{\"path\":\"a\\u001b[2Jb\"}", "read a[2Jb"),
            ("files__read_many", "read", r#"{"paths":["1","2","3","4"]}"#, "read 1, 2, 3 and 1 more"),
            ("files__list", "search", "{}", "list"),
            ("files__list", "search", r#"{"glob":"src"}"#, "list src"),
            ("files__find", "search", r#"{"name":"*.rs"}"#, "find *.rs"),
            ("grep__search", "search", r#"{"pattern":"foo\nbar","glob":"*.rs"}"#, "search \"foo bar\" in *.rs"),
            ("web__fetch", "fetch", r#"{"url":"https://example.org/"}"#, "fetch https://example.org/"),
            ("calc__eval", "think", r#"{"expression":"2^100"}"#, "calculate 2^100"),
            ("code__run", "execute", r#"{"code":"return 1"}"#, "run return 1"),
            ("code__run", "execute", r#"{"code":"a\nb\nc"}"#, "run a program of 3 lines"),
            ("shop__order", "execute", r#"{"command":"cargo test"}"#, "run cargo test"),
            ("files__edit", "edit", "none", "files__edit none"),
            ("files__edit", "unknown", r#"{"path":"a"}"#, r#"files__edit {"path":"a"}"#),
        ] {
            assert_eq!(said(name, input, Some(kind), true), expected);
        }
    }

    /// A kind is only a skill's own claim.
    #[test]
    fn claims_of_other_skills_are_shown_with_their_names() {
        let read = said("evil__wipe", r#"{"path":"a"}"#, Some("read"), false);
        assert_eq!(read, "read a (evil__wipe)");
        let run = said("terminal__run", r#"{"command":"cargo","args":["test","-p","a b"]}"#, None, false);
        assert_eq!(run, "run cargo test -p 'a b'");
        assert_eq!(said("notes__add", r#"{"text":"x"}"#, None, true), r#"notes__add {"text":"x"}"#);
        let outside = said("mcp__bank__transfer", r#"{"to":"x"}"#, Some("read"), true);
        assert_eq!(outside, r#"call bank: transfer {"to":"x"}"#);
        assert_eq!(said("fork", r#"{"prompt":"Read the logs"}"#, None, false), "fork \"Read the logs\"");
    }

    #[test]
    fn last_lines_of_a_long_result_are_shown() {
        assert_eq!(last_lines("one line\n"), <[&str; 0]>::default());
        assert_eq!(last_lines("{\n\"a\": 1\n}"), <[&str; 0]>::default());
        assert_eq!(last_lines("a\n\nb"), ["  a", "  b"]);
        assert_eq!(last_lines("1\n2\n3\n4\n5\n"), ["  3", "  4", "  5"]);
    }
}
