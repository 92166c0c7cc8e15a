//! From the bytes of a file to what is known of a skill.

use std::sync::Arc;

use patchbay_core::{Code, Digest, Name};

use crate::{CachedFile, Manifest, Problem, embedded_skill_md, file_cache::SkillMd};

/// A file that was read just now.
pub(crate) struct ReadFile {
    pub(crate) cached: CachedFile,
    /// The text of the instructions, if the file has any.
    pub(crate) instructions: Option<Arc<str>>,
}

pub(crate) fn checked_name(name: &str) -> Result<Name, Problem> {
    name.parse().map_err(|error| Problem::new(Code::InvalidName, format!("{error}.")))
}

/// Reads a SKILL.md.
pub(crate) fn skill_md(name: &Name, bytes: &[u8]) -> ReadFile {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| Problem::new(Code::MalformedFrontmatter, "SKILL.md is not UTF-8."));
    read(Digest::of(bytes), text, name)
}

/// Reads a component with its SKILL.md embedded. `digest` is that of `bytes`.
pub(crate) fn packaged(name: &Name, bytes: &[u8], digest: Digest) -> ReadFile {
    let missing =
        || Problem::new(Code::MissingSkillMd, "The component has no SKILL.md; 'patchbay plugin build' embeds it.");
    let embedded = embedded_skill_md(bytes).and_then(|found| found.ok_or_else(missing));
    read(digest, embedded.as_deref().map_err(Problem::clone), name)
}

fn read(digest: Digest, text: Result<&str, Problem>, name: &Name) -> ReadFile {
    let bytes = text.as_ref().map_or(0, |text| text.len() as u64);
    let (manifest, mended, instructions) = match text.and_then(|text| Manifest::parse(text, name)) {
        Ok(read) => (Ok(Arc::new(read.manifest)), read.mended, Some(read.instructions.into())),
        Err(problem) => (Err(problem), Vec::new(), None),
    };
    let skill_md = SkillMd { bytes, manifest, mended };
    ReadFile { cached: CachedFile { digest, skill_md: Some(Arc::new(skill_md)) }, instructions }
}
