mod format1;

use std::{collections::BTreeMap, sync::Arc};

use patchbay_command::Aliases;
use patchbay_core::{Code, Digest, Name, ToolSpec};
use patchbay_policy::Root;
use serde::{Deserialize, Serialize};

use crate::Manifest;

/// The form in which snapshots are written. Format 1 had the instructions in it, and no number.
const FORMAT: u32 = 2;

/// The skills that a session works with. Never changes; a reload makes another.
#[derive(Clone, Debug)]
pub struct Snapshot {
    version: u64,
    digest: Digest,
    json: String,
    body: SnapshotBody,
    aliases: BTreeMap<Name, Vec<Name>>,
    /// Instructions whose text is at hand, by their digest: of a new snapshot those that were read just now, of format 1 all.
    texts: BTreeMap<Digest, Arc<str>>,
}

/// All that a snapshot holds, in canonical order: its JSON is what is stored and hashed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotBody {
    pub(crate) format: u32,
    pub(crate) skills: BTreeMap<Name, Skill>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl SnapshotBody {
    pub(crate) fn new(skills: BTreeMap<Name, Skill>, diagnostics: Vec<Diagnostic>) -> Self {
        Self { format: FORMAT, skills, diagnostics }
    }
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
    /// The digest over all its files. In a snapshot of format 1 that of its component, or of its SKILL.md where it has none.
    pub digest: Digest,
    /// Whether `digest` is over all its files: not in a snapshot of format 1. Never written.
    #[serde(skip, default = "yes")]
    pub digest_of_files: bool,
}

fn yes() -> bool {
    true
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
    /// Its form is not known yet.
    #[error("this session was written by a newer Patchbay.")]
    Newer,
    /// Its text is not of this form.
    #[error("the stored snapshot cannot be read: {0}")]
    Form(#[from] serde_json::Error),
}

impl Snapshot {
    pub(crate) fn new(body: SnapshotBody, version: u64, texts: BTreeMap<Digest, Arc<str>>) -> Self {
        // Maps with text as keys, texts and numbers: there is no value that JSON could not hold.
        let json = serde_json::to_string(&body).unwrap_or_default();
        let aliases = claims(&body.skills);
        Self { version, digest: Digest::of(json.as_bytes()), json, body, aliases, texts }
    }

    /// Reads back what [`Snapshot::to_json`] gave, in this format or an older one. What was stored stays as it was, bytes
    /// and digest.
    ///
    /// # Errors
    /// [`SnapshotError`] where it is not what was stored, or of a newer format.
    pub fn from_json(json: String, digest: Digest, version: u64) -> Result<Self, SnapshotError> {
        #[derive(Deserialize)]
        struct Head {
            #[serde(default = "one")]
            format: u32,
        }
        fn one() -> u32 {
            1
        }
        let found = Digest::of(json.as_bytes());
        if found != digest {
            return Err(SnapshotError::Damaged { expected: digest, found });
        }
        match serde_json::from_str::<Head>(&json)?.format {
            1 => {
                let (body, aliases, texts) = format1::read(&json)?;
                Ok(Self { version, digest, json, body, aliases, texts })
            }
            FORMAT => {
                let body: SnapshotBody = serde_json::from_str(&json)?;
                let aliases = claims(&body.skills);
                Ok(Self { version, digest, json, body, aliases, texts: BTreeMap::new() })
            }
            _ => Err(SnapshotError::Newer),
        }
    }

    /// The text of instructions, if this snapshot has it; else the store does.
    pub fn text(&self, instructions: &Digest) -> Option<&Arc<str>> {
        self.texts.get(instructions)
    }

    /// Takes the texts out that were read just now, to be stored.
    pub fn take_texts(&mut self) -> BTreeMap<Digest, Arc<str>> {
        std::mem::take(&mut self.texts)
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
        let (skill, tool) = split_tool(full_name)?;
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

/// Parts `SKILL__TOOL`. A skill's name may end in `_`; a tool's does not begin with one, so that the last `__` parts them.
pub(crate) fn split_tool(full_name: &str) -> Option<(&str, &str)> {
    full_name.rsplit_once("__")
}

/// Each alias and the skills of the highest root that claim it, sorted. Skills of lower roots do not have it.
pub(crate) fn claims(skills: &BTreeMap<Name, Skill>) -> BTreeMap<Name, Vec<Name>> {
    let mut claims = BTreeMap::<Name, (Root, Vec<Name>)>::new();
    for skill in skills.values() {
        let Some(alias) = &skill.manifest.command else { continue };
        let (root, names) = claims.entry(alias.clone()).or_insert((skill.root, Vec::new()));
        if skill.root > *root {
            (*root, *names) = (skill.root, Vec::new());
        }
        if skill.root == *root {
            names.push(skill.name.clone());
        }
    }
    claims.into_iter().map(|(alias, (_, names))| (alias, names)).collect()
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

    /// Whether its `command_tool` is another skill's.
    pub fn lends_tool(&self) -> bool {
        let tool = self.manifest.command_tool.as_deref().and_then(split_tool);
        tool.is_some_and(|(skill, _)| skill != self.name.as_str())
    }

    /// The full name of the tool that a command calls.
    pub fn command_tool(&self) -> Option<String> {
        let tool = self.manifest.command_tool.as_deref()?;
        Some(if tool.contains("__") { tool.to_owned() } else { format!("{}__{tool}", self.name) })
    }
}
