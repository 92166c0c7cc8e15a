//! Describes a guest's effect for the user. The host builds the text from the values that it will use, so a skill cannot phrase it.

use patchbay_core::{Digest, Hasher, kv::Scope, text};
use patchbay_sandbox::{Auth, EffectBody, ExistingFile, FoundFile, GuestEffect};
use serde_json::{Value, json};

use crate::{
    file_diff::FileDiff,
    shown_input::{command_line, input_json, without_middle},
};

/// What a skill is about to do, as a question shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// What is done, to what, and how much: `Overwrite src/pool.rs: +60 −15`. Cleaned; a long one has its middle left out.
    pub title: String,
    /// More about it, a line each, as the title.
    pub lines: Vec<String>,
    /// How a text file changes.
    pub diff: Option<FileDiff>,
    /// The file of the workspace that is written or deleted, as the skill names it.
    pub path: Option<String>,
    /// The digest of the whole effect and of the file that it replaces or deletes.
    pub digest: Digest,
    /// The digest of the same effect once it has taken place, if that is another one: it then finds the file that it wrote.
    pub digest_again: Option<Digest>,
}

impl Act {
    /// Maximum length of a line in characters, without the note about what is left out. It is large, because a person must see
    /// what is allowed; terminals show less at first.
    pub const LINE: usize = 16 << 10;

    /// Returns the act of `effect`. `before` is the file that a write or a deletion finds, `after` the one that a write leaves.
    pub(crate) fn new(effect: GuestEffect<'_>, before: Option<&FoundFile>, after: Option<ExistingFile>) -> Self {
        let of_effect = effect.digest();
        let digest = |found: Option<ExistingFile>| {
            let mut hasher = Hasher::default();
            hasher.field(of_effect.as_bytes());
            if let Some(ExistingFile { size, digest }) = found {
                hasher.field(size.to_le_bytes()).field(digest.as_bytes());
            }
            hasher.finish()
        };
        let digest_again = after.map(|after| digest(Some(after)));
        let path = match effect {
            GuestEffect::Write { path, .. } | GuestEffect::Delete { path } => Some(path.to_owned()),
            _ => None,
        };
        let digest = digest(before.map(|before| before.file));
        let (title, lines, diff) = match effect {
            GuestEffect::Write { path, contents } => change(path, Some(contents), before),
            GuestEffect::Delete { path } => change(path, None, before),
            effect => {
                let mut lines = lines(effect);
                (lines.remove(0), lines, None)
            }
        };
        let clean = |line: &String| without_middle(&text::clean_line(line), Self::LINE);
        let digest_again = digest_again.filter(|again| *again != digest);
        Self { title: clean(&title), lines: lines.iter().map(clean).collect(), diff, path, digest, digest_again }
    }
}

/// Describes a change of the file `path`: its new contents, or `None` if it is deleted.
fn change(path: &str, new: Option<&[u8]>, before: Option<&FoundFile>) -> (String, Vec<String>, Option<FileDiff>) {
    let verb = match (new, before) {
        (None, _) => "Delete",
        (Some(_), None) => "Create",
        (Some(_), Some(_)) => "Overwrite",
    };
    let text = |contents| std::str::from_utf8(contents).ok();
    let old_text = match before {
        None => Some(""),
        Some(before) => before.contents.as_deref().and_then(text),
    };
    let new_text = new.map_or(Some(""), text);
    if let (Some(old), Some(new)) = (old_text, new_text)
        && !old.contains('\0')
        && !new.contains('\0')
    {
        let diff = FileDiff::new(old, new);
        return (format!("{verb} {}: {}", word(path), diff.counts()), Vec::new(), Some(diff));
    }
    let was = before.map(|before| bytes(before.file.size));
    let size = match (new, was) {
        (None, was) => was.unwrap_or_default(),
        (Some(new), None) => bytes(new.len() as u64),
        (Some(new), Some(was)) => format!("{} in place of {was}", bytes(new.len() as u64)),
    };
    let old = match (before, old_text) {
        (Some(before), None) if before.contents.is_none() => Some("the file is too large to be compared"),
        (Some(_), None) => Some("the file is not text"),
        _ => None,
    };
    let new = new.map(|new| format!("contents: {}", shown(new)));
    (format!("{verb} {}: {size}", word(path)), old.map(str::to_owned).into_iter().chain(new).collect(), None)
}

/// Returns the title of an effect, then its lines.
fn lines(effect: GuestEffect<'_>) -> Vec<String> {
    match effect {
        // `change` describes them.
        GuestEffect::Write { path, .. } | GuestEffect::Delete { path } => vec![format!("Change {}", word(path))],
        GuestEffect::Read { path } => vec![format!("Read {}", word(path))],
        GuestEffect::List { glob } => vec![format!("List the files that match {}", word(glob))],
        GuestEffect::Search { pattern, globs } => {
            vec![format!("Search {} for {}", files(globs), shown(pattern.as_bytes()))]
        }
        GuestEffect::Find { globs } => vec![format!("List {}", files(globs))],
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
        GuestEffect::GetKey { scope, key } => vec![format!("Read the stored key {} {}", word(key), of(scope))],
        GuestEffect::PutKey { scope, key, value } => {
            let size = bytes(value.len() as u64);
            vec![format!("Store the key {} {}: {size}", word(key), of(scope)), format!("value: {}", shown(value))]
        }
        GuestEffect::DeleteKey { scope, key } => vec![format!("Delete the stored key {} {}", word(key), of(scope))],
        GuestEffect::ListKeys { scope, prefix: "" } => vec![format!("List the stored keys {}", of(scope))],
        GuestEffect::ListKeys { scope, prefix } => {
            vec![format!("List the stored keys {} that begin with {}", of(scope), word(prefix))]
        }
        GuestEffect::Complete { system, prompt } => {
            let lines = [("system", system), ("prompt", prompt)].into_iter().filter(|(_, text)| !text.is_empty());
            let lines = lines.map(|(name, text)| format!("{name}: {}", shown(text.as_bytes())));
            std::iter::once("Ask the model".to_owned()).chain(lines).collect()
        }
        GuestEffect::Call { calls } => {
            // Input that is not JSON is shown as a string. Such a call fails.
            let input = |input: &str| match serde_json::from_str::<Value>(input) {
                Ok(input) => without_middle(&input_json(&input), Act::LINE),
                Err(_) => shown(input.as_bytes()),
            };
            match calls {
                [(tool, with)] => vec![format!("Call {}", word(tool)), format!("with {}", input(with))],
                calls => {
                    let each = calls.iter().map(|(tool, with)| format!("{} with {}", word(tool), input(with)));
                    std::iter::once(format!("Call {} tools", calls.len())).chain(each).collect()
                }
            }
        }
        GuestEffect::FindTools { query: None } => vec!["List the tools that can be called".to_owned()],
        GuestEffect::FindTools { query: Some(query) } => {
            vec![format!("Search the tools for {}", shown(query.as_bytes()))]
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
    use crate::DiffLine;

    fn lines_of(effect: GuestEffect<'_>) -> Vec<String> {
        let Act { title, lines, .. } = Act::new(effect, None, None);
        std::iter::once(title).chain(lines).collect()
    }

    fn before(contents: &[u8]) -> FoundFile {
        let file = ExistingFile { size: contents.len() as u64, digest: Digest::of(contents) };
        FoundFile { file, contents: Some(contents.to_vec()) }
    }

    #[test]
    fn change_of_a_file_says_how_many_lines_differ() {
        let act = |new: Option<&'static [u8]>, old: Option<&FoundFile>| {
            let effect = match new {
                Some(contents) => GuestEffect::Write { path: "My notes", contents },
                None => GuestEffect::Delete { path: "My notes" },
            };
            Act::new(effect, old, None)
        };
        let (text, binary) = (before(b"a\nb\nc\n"), before(b"\xff\0"));
        let large = FoundFile { file: ExistingFile { size: 5 << 20, digest: Digest::of(b"") }, contents: None };
        assert_eq!(act(Some(b"a\nb\n"), None).title, "Create 'My notes': +2");
        assert_eq!(act(Some(b"a\nB\n"), Some(&text)).title, "Overwrite 'My notes': +1 −2");
        assert_eq!(act(None, Some(&text)).title, "Delete 'My notes': −3");
        assert_eq!(act(Some(b""), Some(&text)).diff.unwrap().removed, 3);
        let overwritten = act(Some(b"a"), Some(&binary));
        assert_eq!(overwritten.title, "Overwrite 'My notes': 1 byte in place of 2 bytes");
        assert_eq!(overwritten.lines, ["the file is not text", r#"contents: "a""#]);
        let overwritten = act(Some(b"a"), Some(&large));
        assert_eq!(overwritten.title, "Overwrite 'My notes': 1 byte in place of 5,242,880 bytes");
        assert_eq!(overwritten.lines[0], "the file is too large to be compared");
        let created = act(Some(b"\xff"), None);
        assert_eq!((&*created.title, created.diff), ("Create 'My notes': 1 byte", None));
        assert!(created.lines[0].starts_with("contents: not text, sha256:"), "{:?}", created.lines);
        assert_eq!(act(None, Some(&binary)).title, "Delete 'My notes': 2 bytes");
    }

    #[test]
    fn act_names_what_is_done_to_what() {
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
        assert_eq!(lines_of(put), ["Store the key k of this session: 1 byte", r#"value: "v""#]);
        let list = GuestEffect::ListKeys { scope: Scope::User, prefix: "n/" };
        assert_eq!(lines_of(list), ["List the stored keys of all workspaces that begin with n/"]);
        let globs = ["*.rs".to_owned(), "my files".to_owned()];
        let search = |globs| lines_of(GuestEffect::Search { pattern: "a b", globs });
        assert_eq!(search(&[]), [r#"Search all files for "a b""#]);
        assert_eq!(search(&globs), [r#"Search the files that match '*.rs' 'my files' for "a b""#]);
        assert_eq!(lines_of(GuestEffect::Find { globs: &[] }), ["List all files"]);
        let calls = [("files__delete", r#"{"path":"precious.txt"}"#), ("a__b", "none")];
        let expected = ["Call 2 tools", r#"files__delete with {"path":"precious.txt"}"#, r#"a__b with "none""#];
        assert_eq!(lines_of(GuestEffect::Call { calls: &calls }), expected);
        assert_eq!(lines_of(GuestEffect::Call { calls: &calls[1..] }), ["Call a__b", r#"with "none""#]);
        let complete = GuestEffect::Complete { system: "", prompt: "hi" };
        assert_eq!(lines_of(complete), ["Ask the model", r#"prompt: "hi""#]);
    }

    #[test]
    fn digest_covers_the_file_that_is_replaced() {
        let write = GuestEffect::Write { path: "a", contents: b"x" };
        let digests = [None, Some(before(b"one")), Some(before(b"two"))]
            .map(|before| Act::new(write, before.as_ref(), None).digest);
        assert!(digests[0] != digests[1] && digests[1] != digests[2]);
        assert_eq!(digests[1], Act::new(write, Some(&before(b"one")), None).digest);
        let left = before(b"x");
        let written = Act::new(write, Some(&left), Some(left.file));
        let first = Act::new(write, None, Some(left.file));
        assert_eq!((first.digest_again, written.digest_again), (Some(written.digest), None));
    }

    #[test]
    fn hostile_values_stay_on_their_line_and_are_bounded() {
        let path = "notes.md: 4 bytes\n\u{202e}x  y";
        let act = Act::new(GuestEffect::Write { path, contents: "\u{202e}\u{1b}[2J\n".as_bytes() }, None, None);
        assert_eq!(act.title, r"Create $'notes.md: 4 bytes\n\u{202e}x \x20y': +1");
        assert_eq!(act.diff.unwrap().lines[0].parts(), Some((1, '+', r"\u{202e}\u{1b}[2J")));
        let long = "ä".repeat(1 << 20);
        let calls = [(&*long, &*long); 8];
        for effect in [
            GuestEffect::Write { path: &long, contents: long.as_bytes() },
            GuestEffect::Call { calls: &calls },
            GuestEffect::Complete { system: &long, prompt: &long },
        ] {
            let act = Act::new(effect, None, None);
            let lines = act.diff.iter().flat_map(|diff| &diff.lines).map(|line| line.parts().unwrap().2.to_owned());
            let lines: Vec<String> = act.lines.into_iter().chain([act.title]).chain(lines).collect();
            assert!(lines.len() <= 10 && lines.iter().all(|line| line.chars().count() < Act::LINE + 100));
        }
    }

    /// A question with 10 MB of difference keeps less than 1 MB: the texts themselves are dropped before it is asked.
    #[test]
    fn question_about_ten_megabytes_is_small() {
        let text = |word: &str| format!("{word} of a long line that is not in the other text\n").repeat(200_000);
        let (old, new) = (text("before"), text("after!"));
        assert!(old.len() > 10_000_000);
        let changed =
            Act::new(GuestEffect::Write { path: "a", contents: new.as_bytes() }, Some(&before(old.as_bytes())), None);
        assert_eq!(changed.title, "Overwrite a: +200000 −200000");
        let diff = changed.diff.unwrap();
        let bytes: usize = diff.lines.iter().filter_map(DiffLine::parts).map(|(_, _, text)| text.len()).sum();
        let kept = bytes + diff.lines.capacity() * size_of::<DiffLine>();
        assert!(
            kept < 1_000_000 && diff.lines.len() + diff.more == 400_000,
            "{kept} bytes in {} lines",
            diff.lines.len()
        );
    }
}
