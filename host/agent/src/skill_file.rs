//! The tool `skill_file`, which reads a file of a skill for the model: a range of a text file, or a whole image or PDF. `toolbox`
//! offers it. The files come from the snapshot, never from the folder of the skill.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchbay_core::{Code, ToolSpec, media, text};
use patchbay_skill::{FileSet, FileStorage, FileTotals, SkillFile, Snapshot};
use patchbay_tools::{Internal, InternalAnswer, InternalCall, InternalError, SkillFilesError, Tools};
use serde_json::{Value, json};

use crate::use_skill;

pub(crate) const SKILL_FILE: &str = "skill_file";
/// How many bytes of a text file are returned if the call has no `limit`.
const DEFAULT_LIMIT: u64 = 16_384;
/// Maximum number of bytes of a text file that one call returns.
const MAX_LIMIT: u64 = 65_536;
/// Size limit of an image or a PDF, in bytes.
const MEDIA_BYTES: usize = 5 << 20;
/// Maximum number of files that are listed after a skill's instructions.
const LISTED: usize = 100;
/// The path that lists the files.
const LIST: &str = ".";

pub(crate) struct SkillFileTool {
    spec: ToolSpec,
    tools: Arc<Tools>,
    snapshot: Arc<Snapshot>,
}

impl SkillFileTool {
    /// Returns the tool for the skills of `snapshot`; `None` if no skill for models has files.
    pub(crate) fn over(tools: &Arc<Tools>, snapshot: &Arc<Snapshot>) -> Option<Self> {
        // Older snapshots have no count. A skill over a limit counts as well, because the tool reports the limit.
        let has_files = |files: FileTotals| files.count > 0 || files.place == FileStorage::Nowhere;
        let mut skills = snapshot.skills().filter(|skill| skill.manifest.audience.models);
        skills.find(|skill| skill.files.is_none_or(has_files))?;
        let spec = ToolSpec {
            name: SKILL_FILE.parse().ok()?,
            description:
                "Reads a file of a skill: a range of a text file, or a whole image or PDF. The path \".\" lists the \
                 files."
                    .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "skill": {"type": "string"},
                    "path": {"type": "string", "description": "In the skill, such as references/a.md."},
                    "offset": {"type": "integer", "minimum": 0, "description": "First byte. Default 0."},
                    "limit": {
                        "type": "integer", "minimum": 1, "maximum": MAX_LIMIT,
                        "description": "Bytes to read. Default 16384.",
                    },
                },
                "required": ["skill", "path"],
                "additionalProperties": false,
            }),
            extra: Vec::new(),
        };
        Some(Self { spec, tools: Arc::clone(tools), snapshot: Arc::clone(snapshot) })
    }

    async fn read(&self, input: &Value) -> Result<InternalAnswer, InternalError> {
        let word = |key: &str| input.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str, default| input.get(key).and_then(Value::as_u64).unwrap_or(default);
        let (name, path) = (word("skill"), in_skill(word("path")));
        let skill = use_skill::find(&self.snapshot, name)?;
        let files = self.tools.skill_files(skill).await.map_err(internal)?;
        if let Some(problem) = self.snapshot.files_problem(skill) {
            let message = format!("the files of skill '{name}' are left out. {problem}");
            return Err(InternalError { code: Code::SkillFilesLimited, message });
        }
        let (offset, limit) = (number("offset", 0), number("limit", DEFAULT_LIMIT).min(MAX_LIMIT));
        if path == LIST {
            let (lines, _) = files.lines(usize::MAX);
            return Ok(range(path, &lines.join("\n"), offset, limit).into());
        }
        let file = files.get(path).ok_or_else(|| {
            let message = format!("file '{}' not found in skill '{name}'.", text::excerpt(path, 80));
            InternalError { code: Code::SkillFileNotFound, message }
        })?;
        answer(path, file, offset, limit)
    }
}

impl Internal for SkillFileTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, call: InternalCall<'a>) -> BoxFuture<'a, Result<InternalAnswer, InternalError>> {
        Box::pin(self.read(call.input))
    }
}

/// Returns a path as the list of files contains it. Links in instructions often begin with `./`.
fn in_skill(path: &str) -> &str {
    match path.trim_start_matches("./") {
        "" if !path.is_empty() => LIST,
        path => path,
    }
}

/// Returns the list of a skill's files for the end of its instructions; `None` if it has none.
pub(crate) fn list(skill: &str, files: &FileSet) -> Option<String> {
    let (lines, more) = files.lines(LISTED);
    if lines.is_empty() {
        return None;
    }
    let lines: Vec<String> = lines.iter().map(|line| format!("- {line}")).collect();
    let more = match more {
        0 => String::new(),
        more => format!("\n{more} more: {SKILL_FILE} {{\"skill\": \"{skill}\", \"path\": \"{LIST}\"}}"),
    };
    Some(format!("Files of this skill, for the tool {SKILL_FILE}:\n{}{more}", lines.join("\n")))
}

fn internal(error: SkillFilesError) -> InternalError {
    InternalError { code: error.code(), message: error.to_string() }
}

fn answer(path: &str, file: &SkillFile, offset: u64, limit: u64) -> Result<InternalAnswer, InternalError> {
    let contents = &file.contents;
    let size = contents.len();
    let shown = text::excerpt(path, 80);
    if let Some(media_type) = media::image_or_pdf(contents) {
        if size > MEDIA_BYTES {
            let message =
                format!("'{shown}' is {}; the limit for an image or a PDF is 5 MiB.", text::size(size as u64));
            return Err(InternalError { code: Code::SkillFileBinary, message });
        }
        let value = json!({"path": path, "size": size, "media_type": media_type});
        return Ok(InternalAnswer { value, blobs: vec![(media_type.to_owned(), contents.to_vec())] });
    }
    match media::as_text(contents) {
        Some(text) => Ok(range(path, text, offset, limit).into()),
        None => {
            let message = format!(
                "'{shown}' is neither text, an image nor a PDF ({}, {} bytes).",
                media::of_binary(contents),
                text::with_commas(size as u64)
            );
            Err(InternalError { code: Code::SkillFileBinary, message })
        }
    }
}

/// Returns a range of a text, cut at character boundaries. A range has at least one character
/// because a reader must always advance.
fn range(path: &str, text: &str, offset: u64, limit: u64) -> Value {
    let at = |byte: u64| usize::try_from(byte).map_or(text.len(), |byte| byte.min(text.len()));
    let start = (at(offset)..=text.len()).find(|byte| text.is_char_boundary(*byte)).unwrap_or(text.len());
    let most = at((start as u64).saturating_add(limit));
    let end = (start..=most).rev().find(|byte| text.is_char_boundary(*byte)).unwrap_or(start);
    let first = text[start..].chars().next().map_or(0, char::len_utf8);
    let end = end.max(start + first);
    let next = (end < text.len()).then_some(end);
    json!({"path": path, "size": text.len(), "text": text[start..end], "next_offset": next})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_characters_and_advance() {
        let text = "aäb€";
        let range = |offset, limit| {
            let range = range("x", text, offset, limit);
            (range["text"].as_str().unwrap().to_owned(), range["next_offset"].as_u64())
        };
        assert_eq!(range(0, 100), ("aäb€".to_owned(), None));
        assert_eq!(range(0, 2), ("a".to_owned(), Some(1)));
        assert_eq!(range(1, 1), ("ä".to_owned(), Some(3)), "at least one character");
        assert_eq!(range(2, 1), ("b".to_owned(), Some(4)), "from the next character");
        assert_eq!(range(4, 1), ("€".to_owned(), None));
        assert_eq!(range(7, 1), (String::new(), None));
        assert_eq!(range(u64::MAX, u64::MAX), (String::new(), None));
    }

    #[test]
    fn path_may_begin_with_the_folder() {
        for (path, expected) in [
            ("d/1.md", "d/1.md"),
            ("./d/1.md", "d/1.md"),
            ("././d/1.md", "d/1.md"),
            (".", LIST),
            ("./", LIST),
            ("", ""),
            (".hidden", ".hidden"),
            ("../d/1.md", "../d/1.md"),
            ("d/./1.md", "d/./1.md"),
        ] {
            assert_eq!(in_skill(path), expected, "{path}");
        }
    }

    #[test]
    fn list_names_a_hundred_files_and_counts_the_rest() {
        let files = |count: usize| {
            let digest = patchbay_core::Digest::of(b"");
            let entry = |n| json!({"path": format!("d/{n:03}.md"), "size": 0, "digest": digest});
            let pack = format!("{}\n", Value::from_iter((0..count).map(entry)));
            FileSet::from_pack(pack.into_bytes()).unwrap()
        };
        assert_eq!(list("x", &files(0)), None);
        let hundred = list("x", &files(100)).unwrap();
        assert!(
            hundred.starts_with("Files of this skill, for the tool skill_file:\n- d/000.md (0 bytes)\n"),
            "{hundred}"
        );
        assert!(hundred.ends_with("\n- d/099.md (0 bytes)"), "{hundred}");
        let more = list("x", &files(102)).unwrap();
        assert_eq!(more.strip_prefix(&hundred), Some("\n2 more: skill_file {\"skill\": \"x\", \"path\": \".\"}"));
    }

    #[test]
    fn binary_files_are_refused_with_their_size() {
        let file =
            |contents: Vec<u8>| SkillFile { digest: patchbay_core::Digest::of(&contents), contents: contents.into() };
        let error = answer("x.zip", &file(vec![0xff; 12_345]), 0, 10).unwrap_err();
        assert_eq!(error.code, Code::SkillFileBinary);
        let expected = "'x.zip' is neither text, an image nor a PDF (application/octet-stream, 12,345 bytes).";
        assert_eq!(error.message, expected);
        let error = answer("x.zip", &file(b"PK\x03\x04\x14\0".to_vec()), 0, 10).unwrap_err();
        assert_eq!(error.message, "'x.zip' is neither text, an image nor a PDF (application/zip, 6 bytes).");
        let image = answer("x.bin", &file(b"\x89PNG\r\n\x1a\n".to_vec()), 0, 10).unwrap();
        assert_eq!(image.value, json!({"path": "x.bin", "size": 8, "media_type": "image/png"}));
        assert_eq!(image.blobs, [("image/png".to_owned(), b"\x89PNG\r\n\x1a\n".to_vec())]);
        let mut large = b"%PDF-".to_vec();
        large.resize(MEDIA_BYTES + 1, 0);
        let error = answer("x.pdf", &file(large), 0, 10).unwrap_err();
        assert_eq!(error.message, "'x.pdf' is 5.2 MB; the limit for an image or a PDF is 5 MiB.");
    }
}
