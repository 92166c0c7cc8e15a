//! Turns the bytes of one file, a SKILL.md or a component with an embedded SKILL.md, into a cacheable [`SkillMd`].
//!
//! Called by `discover.rs` for files of a root and by `bundled.rs` for skills in the binary.

use std::sync::Arc;

use patchbay_core::{Code, Digest, Name};

use crate::{CachedFile, Manifest, Problem, embedded_skill_md, file_cache::SkillMd};

/// The result of reading a file, as opposed to finding it in the cache.
pub(crate) struct ReadFile {
    pub(crate) cached: CachedFile,
    /// The instructions; `None` if the SKILL.md is missing or invalid.
    pub(crate) instructions: Option<Arc<str>>,
}

/// Checks the name of a skill's folder or file.
pub(crate) fn parse_name(name: &str) -> Result<Name, Problem> {
    name.parse().map_err(|error| Problem::new(Code::InvalidName, format!("{error}.")))
}

/// Parses the bytes of a SKILL.md.
pub(crate) fn parse_skill_md(name: &Name, bytes: &[u8]) -> ReadFile {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| Problem::new(Code::MalformedFrontmatter, "SKILL.md is not UTF-8."));
    parse(Digest::of(bytes), text, name)
}

/// Parses the SKILL.md that is embedded in a component. `digest` must be the digest of `bytes`.
pub(crate) fn parse_packaged(name: &Name, bytes: &[u8], digest: Digest) -> ReadFile {
    let missing =
        || Problem::new(Code::MissingSkillMd, "The component has no SKILL.md; 'patchbay plugin build' embeds it.");
    let embedded = embedded_skill_md(bytes).and_then(|found| found.ok_or_else(missing));
    parse(digest, embedded.as_deref().map_err(Problem::clone), name)
}

fn parse(digest: Digest, text: Result<&str, Problem>, name: &Name) -> ReadFile {
    let bytes = text.as_ref().map_or(0, |text| text.len() as u64);
    let (manifest, mended, instructions) = match text.and_then(|text| Manifest::parse(text, name)) {
        Ok(read) => (Ok(Arc::new(read.manifest)), read.mended, Some(read.instructions.into())),
        Err(problem) => (Err(problem), Vec::new(), None),
    };
    let skill_md = SkillMd { bytes, manifest, mended };
    ReadFile { cached: CachedFile { digest, skill_md: Some(Arc::new(skill_md)) }, instructions }
}
