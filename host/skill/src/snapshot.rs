use std::{collections::BTreeMap, sync::Arc};

use patchbay_command::Aliases;
use patchbay_core::{Code, Digest, Name, ToolSpec};
use patchbay_policy::Root;
use serde::{Deserialize, Serialize};

use crate::Manifest;

/// The skills that a session works with. Never changes; a reload makes another.
#[derive(Clone, Debug)]
pub struct Snapshot {
    version: u64,
    digest: Digest,
    json: String,
    body: Body,
    aliases: BTreeMap<Name, Vec<Name>>,
}

/// All that a snapshot holds, in canonical order: its JSON is what is stored and hashed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Body {
    pub(crate) skills: BTreeMap<Name, Skill>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// A skill of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    /// Its name.
    pub name: Name,
    /// Where it comes from.
    pub root: Root,
    /// What its SKILL.md says.
    #[serde(with = "shared")]
    pub manifest: Arc<Manifest>,
    /// Its component, if it has one.
    pub component: Option<Digest>,
    /// The tools of its component, sorted by name.
    #[serde(with = "shared")]
    pub tools: Arc<[ToolSpec]>,
    /// The digest of its component, or of its SKILL.md where it has none.
    pub digest: Digest,
}

/// What snapshots of the same files share, written as what it is.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize + ?Sized, S: Serializer>(value: &Arc<T>, to: S) -> Result<S::Ok, S::Error> {
        T::serialize(value, to)
    }

    pub(super) fn deserialize<'de, T: ?Sized, D: Deserializer<'de>>(from: D) -> Result<Arc<T>, D::Error>
    where
        Box<T>: Deserialize<'de>,
    {
        Box::<T>::deserialize(from).map(Arc::from)
    }
}

/// Why something is not a skill of a snapshot, or not all that it claims.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Diagnostic {
    /// What it is called, cleaned.
    pub name: String,
    /// The stable code.
    pub code: Code,
    /// What is wrong, on one line.
    pub message: String,
}

/// A stored snapshot that does not read back.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Its text is not what its digest says.
    #[error("the stored snapshot is damaged: its digest is {found}, not {expected}")]
    Damaged {
        /// What it should be.
        expected: Digest,
        /// What it is.
        found: Digest,
    },
    /// Its text is not of this form.
    #[error("the stored snapshot cannot be read: {0}")]
    Form(#[from] serde_json::Error),
}

impl Snapshot {
    pub(crate) fn new(body: Body, version: u64) -> Self {
        // Maps with text as keys, texts and numbers: there is no value that JSON could not hold.
        let json = serde_json::to_string(&body).unwrap_or_default();
        Self::from_parts(body, json, version)
    }

    /// Reads back what [`Snapshot::to_json`] gave.
    ///
    /// # Errors
    /// [`SnapshotError`] where it is not what was stored.
    pub fn from_json(json: String, digest: Digest, version: u64) -> Result<Self, SnapshotError> {
        let found = Digest::of(json.as_bytes());
        if found != digest {
            return Err(SnapshotError::Damaged { expected: digest, found });
        }
        Ok(Self::from_parts(serde_json::from_str(&json)?, json, version))
    }

    fn from_parts(body: Body, json: String, version: u64) -> Self {
        let aliases = claims(&body.skills);
        Self { version, digest: Digest::of(json.as_bytes()), json, body, aliases }
    }

    /// All that it holds, in canonical order. The version is not part of it.
    pub fn to_json(&self) -> &str {
        &self.json
    }

    /// 1, 2, 3 … in its session.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The digest over all that it holds.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Its skills, sorted by name.
    pub fn skills(&self) -> impl ExactSizeIterator<Item = &Skill> {
        self.body.skills.values()
    }

    /// A skill by its exact name.
    pub fn skill(&self, name: &str) -> Option<&Skill> {
        self.body.skills.get(name)
    }

    /// A skill and its tool by the tool's full name, `SKILL__TOOL`.
    pub fn tool(&self, full_name: &str) -> Option<(&Skill, &ToolSpec)> {
        let (skill, tool) = full_name.split_once("__")?;
        let skill = self.skill(skill)?;
        Some((skill, skill.tool(tool)?))
    }

    /// What was kept out and why, sorted.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.body.diagnostics
    }

    /// Aliases and the skills that claim them, sorted.
    pub fn aliases(&self) -> impl Iterator<Item = (&Name, &[Name])> {
        self.aliases.iter().map(|(alias, skills)| (alias, &skills[..]))
    }
}

/// Each alias and the skills that claim it, sorted.
pub(crate) fn claims(skills: &BTreeMap<Name, Skill>) -> BTreeMap<Name, Vec<Name>> {
    let mut claims = BTreeMap::<Name, Vec<Name>>::new();
    for skill in skills.values() {
        if let Some(alias) = &skill.manifest.command {
            claims.entry(alias.clone()).or_default().push(skill.name.clone());
        }
    }
    claims
}

impl Aliases for Snapshot {
    fn claimants(&self, alias: &str) -> &[Name] {
        self.aliases.get(alias).map_or(&[], Vec::as_slice)
    }
}

impl Skill {
    /// A tool of its own, by its bare name.
    pub fn tool(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().find(|tool| tool.name.as_str() == name)
    }

    /// The full name of the tool that a command calls.
    pub fn command_tool(&self) -> Option<String> {
        let tool = self.manifest.command_tool.as_deref()?;
        Some(if tool.contains("__") { tool.to_owned() } else { format!("{}__{tool}", self.name) })
    }
}
