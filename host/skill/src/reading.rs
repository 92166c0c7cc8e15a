//! Turns the bytes of one file, a SKILL.md or a component with an embedded SKILL.md, into a cacheable [`SkillMd`].
//!
//! Called by `discover.rs` for files of a root and by `bundled.rs` for skills in the binary.

use std::sync::Arc;

use patchbay_core::{Code, Digest, Name};

use crate::{
    CachedFile, FileStorage, FileTotals, Manifest, Problem,
    archive::read_archive,
    embedded::{Embedded, embedded},
    file_cache::SkillMd,
};

/// The result of reading a file that was not in the cache.
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
    parse(Digest::of(bytes), text, Ok(None), name)
}

/// Parses the bytes of a command in Claude Code's format. Its frontmatter is optional.
pub(crate) fn parse_command(name: &Name, bytes: &[u8]) -> ReadFile {
    if bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).starts_with(b"---") {
        return parse_skill_md(name, bytes);
    }
    let ReadFile { cached, instructions } = parse_skill_md(name, &[b"---\n---\n", bytes].concat());
    ReadFile { cached: CachedFile { digest: Digest::of(bytes), ..cached }, instructions }
}

/// Parses the SKILL.md that is embedded in a component, and lists the embedded files. `digest`
/// must be the digest of `bytes`.
pub(crate) fn parse_packaged(name: &Name, bytes: &[u8], digest: Digest) -> ReadFile {
    let missing =
        || Problem::new(Code::MissingSkillMd, "The component has no SKILL.md; 'patchbay plugin build' embeds it.");
    let found = embedded(bytes);
    let text = found.as_ref().map_err(Problem::clone).and_then(|found| found.skill_md.ok_or_else(missing));
    let files = found.as_ref().map_or(Ok(None), |found| count(found).map(Some));
    parse(digest, text, files, name)
}

/// Counts the files of an archive.
fn count(found: &Embedded<'_>) -> Result<FileTotals, Problem> {
    let mut totals = FileTotals::none(FileStorage::Component);
    for (path, range) in found.files.map(read_archive).transpose()?.unwrap_or_default() {
        totals.add(&path, range.len() as u64);
    }
    Ok(totals)
}

/// Parses a SKILL.md. `embedded` has the totals of the files that are embedded beside it.
fn parse(
    digest: Digest,
    text: Result<&str, Problem>,
    embedded: Result<Option<FileTotals>, Problem>,
    name: &Name,
) -> ReadFile {
    let bytes = text.as_ref().map_or(0, |text| text.len() as u64);
    let mut notes = Vec::new();
    let embedded = match embedded {
        // If a limit on files is exceeded, the skill is kept without its files.
        Err(problem) if problem.code == Code::SkillFilesLimited => {
            notes.push(problem);
            Ok(Some(FileTotals::none(FileStorage::Nowhere)))
        }
        embedded => embedded,
    };
    let parsed = text.and_then(|text| Ok((Manifest::parse(text, name)?, embedded?)));
    let (manifest, embedded, instructions) = match parsed {
        Ok((read, embedded)) => {
            notes.extend(read.mended);
            (Ok(Arc::new(read.manifest)), embedded, Some(read.instructions.into()))
        }
        Err(problem) => (Err(problem), None, None),
    };
    let skill_md = SkillMd { bytes, manifest, notes, embedded };
    ReadFile { cached: CachedFile { digest, skill_md: Some(Arc::new(skill_md)) }, instructions }
}
