//! The skills that the binary brings along.

use bytes::Bytes;
use patchbay_policy::Root;

use crate::{
    Candidate, Component, Found, Problem,
    reading::{candidate, checked_name, packaged, skill_md},
};

/// A skill that the binary brings along: its name, and either a component with its SKILL.md embedded or a SKILL.md.
#[derive(Clone, Copy, Debug)]
pub struct Bundled {
    /// Its name.
    pub name: &'static str,
    /// The bytes.
    pub bytes: &'static [u8],
}

/// Reads the skills that the binary brings along. They stay the same as long as the process runs: once is enough.
pub fn bundled(skills: &[Bundled]) -> Vec<Found> {
    let found = |skill: &Bundled| Found { label: skill.name.to_owned(), root: Root::Bundled, candidate: read(skill) };
    skills.iter().map(found).collect()
}

fn read(skill: &Bundled) -> Result<Candidate, Problem> {
    let name = checked_name(skill.name)?;
    if skill.bytes.starts_with(b"\0asm") {
        let known = packaged(&name, skill.bytes)?;
        let component = Component::held(Bytes::from_static(skill.bytes));
        return candidate(name, known, Some(component));
    }
    let known = skill_md(&name, skill.bytes)?;
    candidate(name, known, None)
}
