//! Describes a guest's effect for the user. The host builds the text from the values that it will use, so a skill cannot phrase it.

use patchbay_core::{Digest, Hasher, kv::Scope, text};
use patchbay_sandbox::{Auth, EffectBody, ExistingFile, GuestEffect};
use serde_json::{Value, json};

use crate::shown_input::{command_line, input_json, without_middle};

/// What a skill is about to do, as a question shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// What is done and to what, then its contents, a line each. Cleaned; a long line has its middle left out.
    pub lines: Vec<String>,
    /// The digest of the whole effect and of the file that it replaces or deletes.
    pub digest: Digest,
}

impl Act {
    /// Maximum length of a line in characters, without the note about what is left out. It is large, because a person must see
    /// what is allowed; terminals show less at first.
    pub const LINE: usize = 16 << 10;

    /// Returns the act of `effect`. `before` is the file that a write or a deletion finds.
    pub(crate) fn new(effect: GuestEffect<'_>, before: Option<ExistingFile>) -> Self {
        let mut hasher = Hasher::default();
        hasher.field(effect.digest().as_bytes());
        if let Some(ExistingFile { size, digest }) = before {
            hasher.field(size.to_le_bytes()).field(digest.as_bytes());
        }
        let lines = lines(effect, before);
        let lines = lines.iter().map(|line| without_middle(&text::clean_line(line), Self::LINE)).collect();
        Self { lines, digest: hasher.finish() }
    }
}

fn lines(effect: GuestEffect<'_>, before: Option<ExistingFile>) -> Vec<String> {
    match effect {
        GuestEffect::Read { path } => vec![format!("read {}", word(path))],
        GuestEffect::List { glob } => vec![format!("list the files that match {}", word(glob))],
        GuestEffect::Search { pattern, globs } => {
            vec![format!("search {} for {}", files(globs), shown(pattern.as_bytes()))]
        }
        GuestEffect::Find { globs } => vec![format!("list {}", files(globs))],
        GuestEffect::Write { path, contents } => {
            let size = bytes(contents.len() as u64);
            let act = match before {
                None => format!("create {}: {size}", word(path)),
                Some(before) => format!("overwrite {}: {size} in place of {}", word(path), bytes(before.size)),
            };
            vec![act, format!("contents: {}", shown(contents))]
        }
        GuestEffect::Delete { path } => {
            let size = before.map(|before| format!(": {}", bytes(before.size))).unwrap_or_default();
            vec![format!("delete {}{size}", word(path))]
        }
        GuestEffect::Request { method, url, headers, auth, body } => {
            let mut lines = vec![format!("{} {}", word(method), word(url))];
            lines
                .extend(auth.iter().map(|Auth { credential, .. }| format!("with the credential {}", word(credential))));
            if !headers.is_empty() {
                let headers = headers.iter().map(|(name, value)| json!(cut(&format!("{name}: {value}")))).collect();
                lines.push(format!("headers: {}", input_json(&Value::Array(headers))));
            }
            match body {
                EffectBody::None => {}
                EffectBody::Whole(body) => lines.push(format!("body: {}", shown(body))),
                EffectBody::Streamed => lines.push("with a body, which is not shown".to_owned()),
            }
            lines
        }
        GuestEffect::GetKey { scope, key } => vec![format!("read the stored key {} {}", word(key), of(scope))],
        GuestEffect::PutKey { scope, key, value } => {
            let size = bytes(value.len() as u64);
            vec![format!("store the key {} {}: {size}", word(key), of(scope)), format!("value: {}", shown(value))]
        }
        GuestEffect::DeleteKey { scope, key } => vec![format!("delete the stored key {} {}", word(key), of(scope))],
        GuestEffect::ListKeys { scope, prefix: "" } => vec![format!("list the stored keys {}", of(scope))],
        GuestEffect::ListKeys { scope, prefix } => {
            vec![format!("list the stored keys {} that begin with {}", of(scope), word(prefix))]
        }
        GuestEffect::Complete { system, prompt } => {
            let lines = [("system", system), ("prompt", prompt)].into_iter().filter(|(_, text)| !text.is_empty());
            let lines = lines.map(|(name, text)| format!("{name}: {}", shown(text.as_bytes())));
            std::iter::once("ask the model".to_owned()).chain(lines).collect()
        }
        GuestEffect::Call { calls } => {
            // Input that is not JSON is shown as a string. Such a call fails.
            let input = |input: &str| match serde_json::from_str::<Value>(input) {
                Ok(input) => without_middle(&input_json(&input), Act::LINE),
                Err(_) => shown(input.as_bytes()),
            };
            calls.iter().map(|(tool, with)| format!("call {} with {}", word(tool), input(with))).collect()
        }
        GuestEffect::FindTools { query: None } => vec!["list the tools that can be called".to_owned()],
        GuestEffect::FindTools { query: Some(query) } => {
            vec![format!("search the tools for {}", shown(query.as_bytes()))]
        }
    }
}

/// Returns which files a search covers.
fn files(globs: &[String]) -> String {
    match globs {
        [] => "all files".to_owned(),
        globs => {
            let globs: Vec<String> = globs.iter().map(|glob| word(glob)).collect();
            format!("the files that match {}", globs.join(" "))
        }
    }
}

/// Returns a path, a key or a URL, quoted where it could be read as more than one word.
fn word(word: &str) -> String {
    command_line([&*cut(word)])
}

/// Returns contents as a JSON string, or their digest if they are not text.
fn shown(contents: &[u8]) -> String {
    match std::str::from_utf8(contents) {
        Ok(text) => input_json(&json!(cut(text))),
        Err(_) => format!("not text, {}", Digest::of(contents)),
    }
}

/// Returns `text`; of a long one the beginning and the end, before it is escaped character by character.
fn cut(text: &str) -> String {
    without_middle(text, Act::LINE)
}

fn bytes(count: u64) -> String {
    format!("{} {}", text::with_commas(count), if count == 1 { "byte" } else { "bytes" })
}

fn of(scope: Scope) -> &'static str {
    match scope {
        Scope::Session => "of this session",
        Scope::Workspace => "of this workspace",
        Scope::User => "of all workspaces",
    }
}

#[cfg(test)]
mod tests {
    use patchbay_sandbox::RequestedPlacement;

    use super::*;

    fn lines_of(effect: GuestEffect<'_>) -> Vec<String> {
        Act::new(effect, None).lines
    }

    #[test]
    fn act_names_what_is_done_to_what() {
        let before = Some(ExistingFile { size: 1_200, digest: Digest::of(b"old") });
        let write = |path| GuestEffect::Write { path, contents: b"a\nb\n" };
        assert_eq!(lines_of(write("notes.md")), ["create notes.md: 4 bytes", r#"contents: "a\nb\n""#]);
        assert_eq!(Act::new(write("a"), before).lines[0], "overwrite a: 4 bytes in place of 1,200 bytes");
        assert_eq!(lines_of(GuestEffect::Write { path: "a", contents: b"\xff" })[0], "create a: 1 byte");
        let binary = lines_of(GuestEffect::Write { path: "a", contents: b"\xff" }).remove(1);
        assert!(binary.starts_with("contents: not text, sha256:"), "{binary}");
        assert_eq!(Act::new(GuestEffect::Delete { path: "My File" }, before).lines, ["delete 'My File': 1,200 bytes"]);
        let auth = [Auth { credential: "key".to_owned(), placement: RequestedPlacement::Query("k".to_owned()) }];
        let headers = [("accept".to_owned(), "*/*".to_owned())];
        let request = |body| GuestEffect::Request {
            method: "POST",
            url: "https://example.org/a?b=1",
            headers: &headers,
            auth: &auth,
            body,
        };
        let expected = [
            "POST 'https://example.org/a?b=1'",
            "with the credential key",
            r#"headers: ["accept: */*"]"#,
            r#"body: "x""#,
        ];
        assert_eq!(lines_of(request(EffectBody::Whole(b"x"))), expected);
        assert_eq!(lines_of(request(EffectBody::Streamed))[3], "with a body, which is not shown");
        assert_eq!(lines_of(request(EffectBody::None)).len(), 3);
        let put = GuestEffect::PutKey { scope: Scope::Session, key: "k", value: b"v" };
        assert_eq!(lines_of(put), ["store the key k of this session: 1 byte", r#"value: "v""#]);
        let list = GuestEffect::ListKeys { scope: Scope::User, prefix: "n/" };
        assert_eq!(lines_of(list), ["list the stored keys of all workspaces that begin with n/"]);
        let globs = ["*.rs".to_owned(), "my files".to_owned()];
        let search = |globs| lines_of(GuestEffect::Search { pattern: "a b", globs });
        assert_eq!(search(&[]), [r#"search all files for "a b""#]);
        assert_eq!(search(&globs), [r#"search the files that match '*.rs' 'my files' for "a b""#]);
        assert_eq!(lines_of(GuestEffect::Find { globs: &[] }), ["list all files"]);
        let calls = [("files__delete", r#"{"path":"precious.txt"}"#), ("a__b", "none")];
        let expected = [r#"call files__delete with {"path":"precious.txt"}"#, r#"call a__b with "none""#];
        assert_eq!(lines_of(GuestEffect::Call { calls: &calls }), expected);
        let complete = GuestEffect::Complete { system: "", prompt: "hi" };
        assert_eq!(lines_of(complete), ["ask the model", r#"prompt: "hi""#]);
    }

    #[test]
    fn digest_covers_the_file_that_is_replaced() {
        let write = GuestEffect::Write { path: "a", contents: b"x" };
        let file = |text: &[u8]| Some(ExistingFile { size: 3, digest: Digest::of(text) });
        let digests = [None, file(b"one"), file(b"two")].map(|before| Act::new(write, before).digest);
        assert!(digests[0] != digests[1] && digests[1] != digests[2]);
        assert_eq!(digests[1], Act::new(write, file(b"one")).digest);
    }

    #[test]
    fn hostile_values_stay_on_their_line_and_are_bounded() {
        let path = "notes.md: 4 bytes\n\u{202e}x  y";
        let lines = lines_of(GuestEffect::Write { path, contents: "\u{202e}\u{1b}[2J".as_bytes() });
        assert_eq!(lines[0], r"create $'notes.md: 4 bytes\n\u{202e}x \x20y': 7 bytes");
        assert_eq!(lines[1], r#"contents: "\u202e\u001b[2J""#);
        let long = "ä".repeat(1 << 20);
        let calls = [(&*long, &*long); 8];
        for effect in [
            GuestEffect::Write { path: &long, contents: long.as_bytes() },
            GuestEffect::Call { calls: &calls },
            GuestEffect::Complete { system: &long, prompt: &long },
        ] {
            let act = Act::new(effect, None);
            assert!(act.lines.len() <= 8 && act.lines.iter().all(|line| line.chars().count() < Act::LINE + 100));
        }
    }
}
