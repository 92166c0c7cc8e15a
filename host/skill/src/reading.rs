//! From the bytes of a file to what is known of a skill.

use std::sync::Arc;

use patchbay_core::{Code, Digest, Name};

use crate::{Candidate, Component, Known, Manifest, Problem, embedded_skill_md};

pub(crate) fn checked_name(name: &str) -> Result<Name, Problem> {
    name.parse().map_err(|error| Problem::new(Code::InvalidName, format!("{error}.")))
}

/// Reads a SKILL.md.
pub(crate) fn skill_md(name: &Name, bytes: &[u8]) -> Result<Known, Problem> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| Problem::new(Code::MalformedFrontmatter, "SKILL.md is not UTF-8."))?;
    Ok(Known { digest: Digest::of(bytes), manifest: Some(Arc::new(Manifest::read(text, name)?)) })
}

/// Reads a component with its SKILL.md embedded, or without one.
pub(crate) fn packaged(name: &Name, bytes: &[u8]) -> Result<Known, Problem> {
    let manifest = match embedded_skill_md(bytes)? {
        Some(skill_md) => Some(Arc::new(Manifest::read(&skill_md, name)?)),
        None => None,
    };
    Ok(Known { digest: Digest::of(bytes), manifest })
}

/// What is known of the file that holds the SKILL.md, and the component beside it or around it.
pub(crate) fn candidate(name: Name, known: Known, component: Option<Component>) -> Result<Candidate, Problem> {
    let manifest = known.manifest.ok_or_else(|| {
        Problem::new(Code::MissingSkillMd, "The component has no SKILL.md; 'patchbay plugin build' embeds it.")
    })?;
    let digest = component.as_ref().map_or(known.digest, Component::digest);
    Ok(Candidate { name, manifest, digest, component })
}
