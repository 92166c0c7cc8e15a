//! Describes a guest's effect for the user. The host builds the text from the values that it will use, so a skill cannot phrase it.

use patchbay_core::{Digest, Hasher, kv::Scope, text};
use patchbay_sandbox::{Auth, EffectBody, ExistingFile, FileEdit, FoundFile, GuestEffect};
use serde_json::{Value, json};

use crate::{
    file_diff::FileDiff,
    shown_input::{command_line, input_json, without_middle},
};

/// An act that a skill is about to perform, as a question shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// The action, its object and its extent: `Overwrite src/pool.rs: +60 −15`. Cleaned; the middle of a long title is left out.
    pub title: String,
    /// Further details, one in each line, cleaned and shortened like the title.
    pub lines: Vec<String>,
    /// The changes of a text file, if there is one.
    pub diff: Option<FileDiff>,
    /// The file of the workspace that is written or deleted, as the skill names it.
    pub path: Option<String>,
    /// The digest of the whole effect and of the file that it replaces or deletes.
    pub digest: Digest,
    /// The digest that the same effect has if it is repeated, when its files already have the new contents. `None` if this is the
    /// same digest or a file is deleted.
    pub digest_again: Option<Digest>,
}

impl Act {
    /// Maximum length of a line in characters, without the note about omitted text. It is large because the user must
    /// see everything that is allowed; terminals show less at first.
    pub const LINE: usize = 16 << 10;

    /// Returns the act of `effect`; `files` describes the files that it changes.
    pub(crate) fn new(effect: GuestEffect<'_>, mut files: Vec<FileAct>) -> Self {
        let of_effect = effect.digest();
        let digest = |found: &mut dyn Iterator<Item = Option<ExistingFile>>| {
            let mut hasher = Hasher::default();
            hasher.field(of_effect.as_bytes());
            for found in found {
                match found {
                    Some(ExistingFile { size, digest }) => hasher.field(size.to_le_bytes()).field(digest.as_bytes()),
                    None => hasher.field([]),
                };
            }
            hasher.finish()
        };
        let digest_now = digest(&mut files.iter().map(|file| file.before));
        let digest_again = files
            .iter()
            .all(|file| file.after.is_some())
            .then(|| digest(&mut files.iter().map(|file| file.after)))
            .filter(|again| *again != digest_now);
        let is_list = matches!(effect, GuestEffect::Change { .. });
        let (title, lines, diff, path) = match files.len() {
            0 => {
                let mut lines = lines(effect);
                (lines.remove(0), lines, None, None)
            }
            1 if !is_list => {
                let FileAct { title, lines, diff, path, .. } = files.remove(0);
                (title, lines, diff, Some(path))
            }
            _ => several(files),
        };
        let clean = |line: &String| without_middle(&text::clean_line(line), Self::LINE);
        let lines = lines.iter().map(clean).collect();
        Self { title: clean(&title), lines, diff, path, digest: digest_now, digest_again }
    }
}

/// The change of one file, as a question shows it. The file's contents are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileAct {
    path: String,
    before: Option<ExistingFile>,
    after: Option<ExistingFile>,
    title: String,
    lines: Vec<String>,
    diff: Option<FileDiff>,
}

impl FileAct {
    /// Describes `edit` of a file. `before` is the file as it is now.
    pub(crate) fn new(edit: FileEdit<'_>, before: Option<&FoundFile>) -> Self {
        let FileEdit { path, contents: new } = edit;
        let (title, lines, diff) = change(path, new, before);
        let after = new.map(|new| ExistingFile { size: new.len() as u64, digest: Digest::of(new) });
        Self { path: path.to_owned(), before: before.map(|before| before.file), after, title, lines, diff }
    }

    /// Adds a line about the change.
    pub(crate) fn add_line(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }
}

/// Describes several changes: a line for each file, then their differences.
fn several(files: Vec<FileAct>) -> (String, Vec<String>, Option<FileDiff>, Option<String>) {
    let count = |is: fn(&FileAct) -> bool| files.iter().filter(|file| is(file)).count();
    let kinds = [(count(|file| file.before.is_none()), "new"), (count(|file| file.after.is_none()), "deleted")];
    let kinds: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{count} {kind}")).collect();
    let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    let files_word = if files.len() == 1 { "file" } else { "files" };
    let mut title = format!("Change {} {files_word}{kinds}", files.len());
    let (mut lines, mut diff) = (Vec::new(), FileDiff::default());
    for FileAct { title, lines: more, diff: of_file, .. } in files {
        if let Some(of_file) = of_file {
            diff.append(&title, of_file);
        }
        lines.push(more.into_iter().fold(title, |line, more| format!("{line}; {more}")));
    }
    let has_text = !diff.lines.is_empty();
    if has_text {
        title += &format!(": {}", diff.counts());
    }
    (title, lines, has_text.then_some(diff), None)
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
        (Some(before), None) if before.contents.is_none() => Some("the file is too large to compare"),
        (Some(_), None) => Some("the file is not text"),
        _ => None,
    };
    let new = new.map(|new| format!("contents: {}", shown(new)));
    (format!("{verb} {}: {size}", word(path)), old.map(str::to_owned).into_iter().chain(new).collect(), None)
}

/// Returns the title of an effect, then its lines.
fn lines(effect: GuestEffect<'_>) -> Vec<String> {
    match effect {
        // `FileAct` describes these effects.
        GuestEffect::Write { path, .. } | GuestEffect::Delete { path } => vec![format!("Change {}", word(path))],
        GuestEffect::Change { edits } => vec![format!("Change {} files", edits.len())],
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

/// Returns `text`, without the middle if it is long, which limits how much must be escaped.
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
        let Act { title, lines, .. } = act_of(effect, None);
        std::iter::once(title).chain(lines).collect()
    }

    fn act_of(effect: GuestEffect<'_>, before: Option<&FoundFile>) -> Act {
        let files = effect.edits().into_iter().map(|edit| FileAct::new(edit, before)).collect();
        Act::new(effect, files)
    }

    fn before(contents: &[u8]) -> FoundFile {
        let file = ExistingFile { size: contents.len() as u64, digest: Digest::of(contents) };
        FoundFile { file, contents: Some(contents.to_vec()), mode: None }
    }

    #[test]
    fn change_of_a_file_says_how_many_lines_differ() {
        let act = |new: Option<&'static [u8]>, old: Option<&FoundFile>| {
            let effect = match new {
                Some(contents) => GuestEffect::Write { path: "My notes", contents },
                None => GuestEffect::Delete { path: "My notes" },
            };
            act_of(effect, old)
        };
        let (text, binary) = (before(b"a\nb\nc\n"), before(b"\xff\0"));
        let large =
            FoundFile { file: ExistingFile { size: 5 << 20, digest: Digest::of(b"") }, contents: None, mode: None };
        assert_eq!(act(Some(b"a\nb\n"), None).title, "Create 'My notes': +2");
        assert_eq!(act(Some(b"a\nB\n"), Some(&text)).title, "Overwrite 'My notes': +1 −2");
        assert_eq!(act(None, Some(&text)).title, "Delete 'My notes': −3");
        assert_eq!(act(Some(b""), Some(&text)).diff.unwrap().removed, 3);
        let overwritten = act(Some(b"a"), Some(&binary));
        assert_eq!(overwritten.title, "Overwrite 'My notes': 1 byte in place of 2 bytes");
        assert_eq!(overwritten.lines, ["the file is not text", r#"contents: "a""#]);
        let overwritten = act(Some(b"a"), Some(&large));
        assert_eq!(overwritten.title, "Overwrite 'My notes': 1 byte in place of 5,242,880 bytes");
        assert_eq!(overwritten.lines[0], "the file is too large to compare");
        let created = act(Some(b"\xff"), None);
        assert_eq!((&*created.title, created.diff), ("Create 'My notes': 1 byte", None));
        assert!(created.lines[0].starts_with("contents: not text, sha256:"), "{:?}", created.lines);
        assert_eq!(act(None, Some(&binary)).title, "Delete 'My notes': 2 bytes");
    }

    #[test]
    fn several_changes_are_one_act() {
        let edit = |path, new: Option<&'static str>| FileEdit { path, contents: new.map(str::as_bytes) };
        let edits = [edit("new", Some("a\n")), edit("old", Some("a\nB\n")), edit("gone", None), edit("image", None)];
        let found = [None, Some(before(b"a\nb\n")), Some(before(b"c\n")), Some(before(b"\xff"))];
        let files = |found: &[Option<FoundFile>]| {
            edits.iter().zip(found).map(|(edit, found)| FileAct::new(*edit, found.as_ref())).collect()
        };
        let act = Act::new(GuestEffect::Change { edits: &edits }, files(&found));
        assert_eq!(act.title, "Change 4 files (1 new, 2 deleted): +2 −2");
        assert_eq!(
            act.lines,
            ["Create new: +1", "Overwrite old: +1 −1", "Delete gone: −1", "Delete image: 1 byte; the file is not text"]
        );
        let expected =
            ["Create new: +1", "1 + a", "Overwrite old: +1 −1", "1   a", "2 - b", "2 + B", "Delete gone: −1", "1 - c"];
        assert_eq!(act.diff.unwrap().to_string().lines().collect::<Vec<_>>(), expected);
        assert_eq!((act.path, act.digest_again), (None, None));
        // The same changes of a file with other contents are a different act.
        let mut other = found.clone();
        other[1] = Some(before(b"a\n"));
        assert_ne!(Act::new(GuestEffect::Change { edits: &edits }, files(&other)).digest, act.digest);
        let one = Act::new(GuestEffect::Change { edits: &edits[..1] }, vec![FileAct::new(edits[0], None)]);
        assert_eq!((&*one.title, one.lines.len()), ("Change 1 file (1 new): +1", 1));
    }

    /// The limits for one file's diff also apply to all files together.
    #[test]
    fn list_of_changes_is_bounded() {
        let text = "one more line\n".repeat(1_500);
        let edit = FileEdit { path: "a", contents: Some(text.as_bytes()) };
        let edits = [edit; 200];
        let act = Act::new(GuestEffect::Change { edits: &edits }, vec![FileAct::new(edit, None); 200]);
        assert_eq!((&*act.title, act.lines.len()), ("Change 200 files (200 new): +300000", 200));
        let diff = act.diff.unwrap();
        let changed = diff.lines.iter().filter(|line| matches!(line, DiffLine::Added(..))).count();
        assert!(diff.lines.len() <= 2_000 && changed + diff.more == 300_000, "{} and {}", changed, diff.more);
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
        let digests =
            [None, Some(before(b"one")), Some(before(b"two"))].map(|before| act_of(write, before.as_ref()).digest);
        assert!(digests[0] != digests[1] && digests[1] != digests[2]);
        assert_eq!(digests[1], act_of(write, Some(&before(b"one"))).digest);
        let left = before(b"x");
        let written = act_of(write, Some(&left));
        let first = act_of(write, None);
        assert_eq!((first.digest_again, written.digest_again), (Some(written.digest), None));
    }

    #[test]
    fn hostile_values_stay_on_their_line_and_are_bounded() {
        let path = "notes.md: 4 bytes\n\u{202e}x  y";
        let act = act_of(GuestEffect::Write { path, contents: "\u{202e}\u{1b}[2J\n".as_bytes() }, None);
        assert_eq!(act.title, r"Create $'notes.md: 4 bytes\n\u{202e}x \x20y': +1");
        assert_eq!(act.diff.unwrap().lines[0].parts(), Some((1, '+', r"\u{202e}\u{1b}[2J")));
        let long = "ä".repeat(1 << 20);
        let calls = [(&*long, &*long); 8];
        for effect in [
            GuestEffect::Write { path: &long, contents: long.as_bytes() },
            GuestEffect::Call { calls: &calls },
            GuestEffect::Complete { system: &long, prompt: &long },
        ] {
            let act = act_of(effect, None);
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
        let changed = act_of(GuestEffect::Write { path: "a", contents: new.as_bytes() }, Some(&before(old.as_bytes())));
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
