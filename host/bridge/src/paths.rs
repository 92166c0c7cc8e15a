//! Translates paths between the editor's machine and the server. Only paths inside the workspace can be translated.
//!
//! The Agent Client Protocol nests paths in members named `path`, `cwd` and `uri`, at various depths. They are found by name, so
//! a new kind of block needs no change here. File contents, and the inputs and results of tools, are not searched.

use serde_json::{Map, Value, json};
use url::Url;

/// Members that contain content. Anything in them that looks like a path is plain text and is not translated.
const CONTENTS: [&str; 6] = ["rawInput", "rawOutput", "_meta", "text", "oldText", "newText"];
/// Members that embed the content behind `uri`. The receiver then does not open the URI, so it may be outside the workspace.
const EMBEDDED: [&str; 3] = ["text", "blob", "data"];

/// Translates paths in one direction, from the sender's workspace folder to the receiver's.
#[derive(Clone, Debug)]
pub(crate) struct Mapping<'a> {
    /// Spellings of the workspace's path on the sender's machine.
    pub(crate) from: &'a [String],
    /// The workspace's path on the receiver's machine.
    pub(crate) to: &'a str,
}

impl Mapping<'_> {
    /// Translates an absolute path. Returns `None` if it is outside the workspace.
    pub(crate) fn path(&self, path: &str) -> Option<String> {
        if path.split('/').any(|name| name == "..") {
            return None;
        }
        let below = self.from.iter().find_map(|from| {
            let rest = path.strip_prefix(from.trim_end_matches('/'))?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest)
        })?;
        let joined = format!("{}{below}", self.to.trim_end_matches('/'));
        Some(if joined.is_empty() { "/".to_owned() } else { joined })
    }

    /// Translates a `file:` URI. Returns `None` if its path is outside the workspace.
    fn file_uri(&self, uri: &str) -> Option<String> {
        let url = Url::parse(uri).ok()?;
        let path = self.path(url.to_file_path().ok()?.to_str()?)?;
        let mut translated = Url::from_file_path(path).ok()?;
        translated.set_query(url.query());
        translated.set_fragment(url.fragment());
        Some(translated.into())
    }

    /// Translates all paths in `params`.
    ///
    /// # Errors
    /// The first path that is outside the workspace.
    pub(crate) fn request(&self, params: &mut Value) -> Result<(), String> {
        let mut outside = None;
        self.walk(params, &mut |path| {
            outside.get_or_insert_with(|| path.to_owned());
        });
        outside.map_or(Ok(()), Err)
    }

    /// Translates all paths in `params`. Array items with a path outside the workspace are removed, because the path could name
    /// another file on the receiver's machine. A block that is not in an array is replaced by a text block with its path.
    pub(crate) fn notification(&self, params: &mut Value) {
        self.walk(params, &mut |_| {});
    }

    /// Translates the paths in `value`, and calls `outside` with each path outside the workspace. Returns false if such a path is
    /// directly in `value`.
    fn walk(&self, value: &mut Value, outside: &mut dyn FnMut(&str)) -> bool {
        match value {
            Value::Array(items) => {
                items.retain_mut(|item| self.walk(item, outside));
                true
            }
            Value::Object(members) => self.walk_object(members, outside),
            _ => true,
        }
    }

    fn walk_object(&self, members: &mut Map<String, Value>, outside: &mut dyn FnMut(&str)) -> bool {
        let is_embedded = EMBEDDED.iter().any(|name| members.contains_key(*name));
        let mut is_inside = true;
        for (name, member) in members.iter_mut() {
            if CONTENTS.contains(&name.as_str()) {
                continue;
            }
            let Value::String(path) = member else {
                let named = named_path(member);
                if !self.walk(member, outside) {
                    let text = format!("{} (outside of the workspace)", named.unwrap_or_default());
                    *member = json!({"type": "text", "text": text});
                }
                continue;
            };
            let translated = match name.as_str() {
                "path" | "cwd" if path.starts_with('/') => self.path(path),
                "uri" if path.starts_with("file:") => self.file_uri(path),
                _ => continue,
            };
            match translated {
                Some(translated) => *path = translated,
                None if is_embedded => {}
                None => {
                    outside(path);
                    is_inside = false;
                }
            }
        }
        is_inside
    }
}

/// Returns the path or URI directly in `value`.
fn named_path(value: &Value) -> Option<String> {
    let name = ["uri", "path", "cwd"].iter().find_map(|name| value.get(name)?.as_str());
    name.map(str::to_owned)
}

/// Returns whether a message may contain paths. Most messages are chunks of an answer and contain none.
pub(crate) fn may_have_paths(line: &str) -> bool {
    ["\"path\"", "\"uri\"", "\"cwd\""].iter().any(|name| line.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_server(from: &[String]) -> Mapping<'_> {
        Mapping { from, to: "/srv/app" }
    }

    #[test]
    fn only_paths_inside_the_workspace_are_translated() {
        let from = ["/home/ada/my app".to_owned(), "/private/ada".to_owned()];
        let mapping = to_server(&from);
        for (path, expected) in [
            ("/home/ada/my app", Some("/srv/app")),
            ("/home/ada/my app/src/a.rs", Some("/srv/app/src/a.rs")),
            ("/private/ada/a", Some("/srv/app/a")),
            ("/home/ada/my apple", None),
            ("/home/ada/my app/../secret", None),
            ("/home/ada", None),
            ("/etc/passwd", None),
        ] {
            assert_eq!(mapping.path(path).as_deref(), expected, "{path}");
        }
        let root = ["/".to_owned()];
        assert_eq!(to_server(&root).path("/a").as_deref(), Some("/srv/app/a"));
        assert_eq!(Mapping { from: &from, to: "/" }.path("/private/ada").as_deref(), Some("/"));
        assert_eq!(mapping.file_uri("file:///home/ada/my%20app/a%20b#L3").as_deref(), Some("file:///srv/app/a%20b#L3"));
        assert_eq!(mapping.file_uri("file:///home/ada/my%20app/%2e%2e/x"), None);
        assert_eq!(mapping.file_uri("file://other/home/ada/my%20app/a"), None);
    }

    #[test]
    fn requests_with_a_path_outside_are_refused_with_the_path() {
        let from = ["/w".to_owned()];
        let mut inside = json!({"sessionId": "s", "prompt": [
            {"type": "text", "text": "read /w/a, \"path\": \"/etc\""},
            {"type": "resource_link", "name": "a", "uri": "file:///w/a"},
            {"type": "resource_link", "name": "web", "uri": "https://example.org/w/a"},
            {"type": "resource", "resource": {"uri": "file:///elsewhere/b", "text": "contents"}},
        ]});
        assert_eq!(to_server(&from).request(&mut inside), Ok(()));
        assert_eq!(inside["prompt"][1]["uri"], "file:///srv/app/a");
        assert_eq!(inside["prompt"][2]["uri"], "https://example.org/w/a");
        assert_eq!(inside["prompt"][3]["resource"]["uri"], "file:///elsewhere/b");
        let mut outside = json!({"prompt": [{"type": "resource_link", "name": "b", "uri": "file:///elsewhere/b"}]});
        assert_eq!(to_server(&from).request(&mut outside), Err("file:///elsewhere/b".to_owned()));
    }

    #[test]
    fn updates_keep_only_locations_diffs_and_links_inside_the_workspace() {
        let from = ["/srv/app".to_owned()];
        let to_editor = Mapping { from: &from, to: "/home/ada/app" };
        let mut params = json!({"sessionId": "s", "update": {
            "sessionUpdate": "tool_call", "toolCallId": "1", "rawInput": {"path": "/srv/app/a"},
            "locations": [{"path": "/srv/app/a", "line": 3}, {"path": "/etc/hosts"}],
            "content": [
                {"type": "diff", "path": "/srv/app/a", "oldText": "/srv/app/x", "newText": "y"},
                {"type": "content", "content": {"type": "resource_link", "name": "a", "uri": "file:///srv/app/a"}},
                {"type": "content", "content": {"type": "resource_link", "name": "b", "uri": "file:///etc/hosts"}},
            ],
        }});
        to_editor.notification(&mut params);
        let update = &params["update"];
        assert_eq!(update["locations"], json!([{"path": "/home/ada/app/a", "line": 3}]));
        assert_eq!(update["content"][0]["path"], "/home/ada/app/a");
        assert_eq!(update["content"][0]["oldText"], "/srv/app/x", "contents are not paths");
        assert_eq!(update["rawInput"]["path"], "/srv/app/a");
        assert_eq!(update["content"][1]["content"]["uri"], "file:///home/ada/app/a");
        let named = json!({"type": "text", "text": "file:///etc/hosts (outside of the workspace)"});
        assert_eq!(update["content"][2]["content"], named);
    }
}
