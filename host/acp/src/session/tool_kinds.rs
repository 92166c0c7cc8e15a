//! The kind and the title that a client shows for a tool call before it has run. Pure. Called by `tool_calls`.

use patchbay_core::{completion::ToolCall, text};
use patchbay_session::Snapshot;

/// Length limits, in characters: of a title, and of the part of it that the tool declares.
const TITLE: usize = 120;
const DECLARED_TITLE: usize = 60;

/// The kinds of the protocol that a tool can have: all except `switch_mode`.
const KINDS: [&str; 9] = ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"];

/// Returns the kind of a tool, which clients show as an icon. A tool of `skills` can declare its kind.
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

/// Returns a title: the tool's name and one argument, the first string among a few well-known keys such as `path` and `url`.
/// Example: `files__read src/main.rs`. A title that a tool of `skills` declares comes first: `Adds a note (notes__add) Ask Ada`.
pub(super) fn title(call: &ToolCall, skills: Option<&Snapshot>) -> String {
    titled(call, skills.and_then(|skills| skills.tool(&call.name)?.1.annotation("title")))
}

/// Returns the title of a call. It contains the tool's name even if the tool declares a title, because a skill could declare the
/// name of another tool.
fn titled(call: &ToolCall, declared: Option<&str>) -> String {
    let keys = ["path", "pattern", "url", "command", "expression", "name", "query", "prompt", "message"];
    let argument = call.text_arguments(keys).into_iter().flatten().next().unwrap_or_default();
    let declared = declared.map(|declared| text::excerpt(declared, DECLARED_TITLE)).filter(|title| !title.is_empty());
    let tool = declared.map_or_else(|| call.name.clone(), |declared| format!("{declared} ({})", call.name));
    text::excerpt(&format!("{tool} {argument}"), TITLE)
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
        assert_eq!(title(&call("files__read", r#"{"path":"src/a.rs"}"#), None), "files__read src/a.rs");
        assert_eq!(title(&call("x__y", "no JSON"), None), "x__y");
        let long = call("x__y", &format!(r#"{{"path":"{}"}}"#, "p".repeat(500)));
        assert_eq!(title(&long, None).chars().count(), TITLE + 1);
    }

    #[test]
    fn declared_titles_stand_before_the_name() {
        let add = call("notes__add", r#"{"message":"Ask Ada"}"#);
        assert_eq!(titled(&add, Some("Adds\na note")), "Adds a note (notes__add) Ask Ada");
        assert_eq!(titled(&add, Some(" \u{200b}")), "notes__add Ask Ada");
        let shown = titled(&add, Some(&"x".repeat(500)));
        assert_eq!(shown, format!("{}… (notes__add) Ask Ada", "x".repeat(DECLARED_TITLE)));
    }
}
