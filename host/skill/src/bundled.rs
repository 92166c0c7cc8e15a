//! The skills that are embedded in the binary. The crate `session` reads them once per process.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use patchbay_core::{Code, Digest};
use patchbay_policy::Root;

use crate::{
    Candidate, Component, FileStorage, FileTotals, FoundSkill, Problem, SkillFiles,
    discover::SKILL_MD,
    reading::{parse_name, parse_packaged, parse_skill_md},
    source::FileSource,
};

/// A skill in the binary: its name, and the bytes of either a component with an embedded SKILL.md or a plain SKILL.md.
#[derive(Clone, Copy, Debug)]
pub struct BundledSkill {
    name: &'static str,
    bytes: &'static [u8],
    digest: Option<Digest>,
}

impl BundledSkill {
    /// Creates the skill `name` from `bytes`.
    pub const fn new(name: &'static str, bytes: &'static [u8]) -> Self {
        Self { name, bytes, digest: None }
    }

    /// Like [`BundledSkill::new`], with the SHA-256 of the bytes computed at build time. Hashing several megabytes would take a
    /// third of a process's startup time.
    pub const fn with_digest(name: &'static str, bytes: &'static [u8], digest: [u8; 32]) -> Self {
        Self { name, bytes, digest: Some(Digest::from_bytes(digest)) }
    }
}

/// Parses the skills in the binary. The result never changes while the process runs, so callers keep it.
pub fn bundled(skills: &[BundledSkill]) -> Vec<FoundSkill> {
    let found =
        |skill: &BundledSkill| FoundSkill { label: skill.name.to_owned(), root: Root::Bundled, candidate: read(skill) };
    skills.iter().map(found).collect()
}

fn read(skill: &BundledSkill) -> Result<Candidate, Problem> {
    let name = parse_name(skill.name)?;
    let is_component = skill.bytes.starts_with(b"\0asm");
    let (fresh, component, file) = if is_component {
        let digest = skill.digest.unwrap_or_else(|| Digest::of(skill.bytes));
        let component = Component::in_binary(skill.bytes, digest);
        (parse_packaged(&name, skill.bytes, digest), Some(component), format!("{name}.wasm"))
    } else {
        (parse_skill_md(&name, skill.bytes), None, SKILL_MD.to_owned())
    };
    let missing = || Problem::new(Code::MissingSkillMd, "SKILL.md is missing.");
    let skill_md = fresh.cached.skill_md.ok_or_else(missing)?;
    let manifest = Arc::clone(skill_md.manifest.as_ref().map_err(Problem::clone)?);
    let files = SkillFiles::new(&BTreeMap::from([(file, fresh.cached.digest)]));
    let (totals, source) = match skill_md.embedded {
        Some(totals) => (totals, FileSource::NoPack),
        None => (FileTotals::none(FileStorage::Pack), FileSource::Memory(Bytes::from_static(skill.bytes))),
    };
    let (instructions, notes) = (fresh.instructions, skill_md.notes.clone());
    Ok(Candidate {
        name,
        manifest,
        files,
        totals,
        component,
        instructions,
        notes,
        root_path: None,
        source,
        folder_id: None,
    })
}
