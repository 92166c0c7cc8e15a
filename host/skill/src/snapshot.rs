//! The snapshot: a session's immutable set of skills, with its JSON form and digest.
//!
//! `build.rs` creates snapshots, the crate `session` stores them and loads them again, and `tools` and `agent` look up
//! skills and tools in them.

mod format1;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use patchbay_command::Aliases;
use patchbay_core::{Code, Digest, Name, ToolSpec};
use patchbay_policy::{Identity, Root};
use serde::{Deserialize, Serialize};

use crate::{FileStorage, FileTotals, Manifest, SearchIndex, ShownRank};

/// The format in which snapshots are written. Format 1 contained the instructions and had no number. Format 2 had fewer roots. In
/// format 3, skills could not be called by name alone. Format 4 had no packages.
const FORMAT: u32 = 5;

/// The skills of a session. Immutable: a reload creates a new snapshot.
#[derive(Clone, Debug)]
pub struct Snapshot {
    version: u64,
    digest: Digest,
    json: String,
    body: SnapshotBody,
    aliases: BTreeMap<Name, Vec<Name>>,
    /// Instructions in memory, by digest. A new snapshot has instructions that were just read, and format 1 contains all of them.
    /// Any others are in the store.
    texts: BTreeMap<Digest, Arc<str>>,
}

/// The content of a snapshot in canonical order. Its JSON is stored and hashed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotBody {
    pub(crate) format: u32,
    /// The version of the search ranking. See [`SearchIndex::RANKING`].
    #[serde(default = "first_ranking")]
    pub(crate) ranking: u32,
    /// Whether the user trusted the workspace, if it has skills. False in snapshots from earlier builds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) trusts_workspace: bool,
    pub(crate) skills: BTreeMap<Name, Skill>,
    /// The skills that can also be called by name, unless an alias has the same name. The set is stored because it depends on the
    /// names that the build reserves.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) called_by_name: BTreeSet<Name>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

fn first_ranking() -> u32 {
    1
}

impl SnapshotBody {
    /// Returns a body in the current format. `trusted` is true if the user trusts the workspace; `reserved` are names that cannot
    /// be the commands of skills.
    pub(crate) fn new(
        skills: BTreeMap<Name, Skill>,
        diagnostics: Vec<Diagnostic>,
        trusted: bool,
        reserved: &[&str],
    ) -> Self {
        let trusts_workspace = trusted && skills.values().any(|skill| skill.root.is_workspace());
        let is_called = |skill: &&Skill| {
            skill.component.is_none()
                && skill.manifest.audience.menus
                && (trusted || !skill.root.is_workspace())
                && !reserved.contains(&skill.name.as_str())
        };
        let called_by_name = skills.values().filter(is_called).map(|skill| skill.name.clone()).collect();
        Self { format: FORMAT, ranking: SearchIndex::RANKING, trusts_workspace, skills, called_by_name, diagnostics }
    }

    /// Returns each command with the skills that claim it, sorted. An alias takes precedence over a skill's name, except for an alias
    /// of an untrusted workspace.
    fn commands(&self) -> BTreeMap<Name, Vec<Name>> {
        let mut commands = claims(&self.skills);
        for name in &self.called_by_name {
            let claimant = commands.get(name).and_then(|claimants| self.skills.get(claimants.first()?));
            if claimant.is_none_or(|skill| skill.root.is_workspace() && !self.trusts_workspace) {
                commands.insert(name.clone(), vec![name.clone()]);
            }
        }
        commands
    }

    /// Returns the skills of an untrusted workspace with an alias that is the name of a skill in `called_by_name`.
    pub(crate) fn shadowing(&self) -> impl Iterator<Item = &Skill> {
        let is_untrusted = |skill: &&Skill| skill.root.is_workspace() && !self.trusts_workspace;
        let aliased =
            |skill: &&Skill| skill.manifest.command.as_ref().is_some_and(|it| self.called_by_name.contains(it));
        self.skills.values().filter(is_untrusted).filter(aliased)
    }
}

/// A skill with everything that a snapshot stores about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    /// The name, unique in the snapshot.
    pub name: Name,
    /// The root where the skill was found.
    pub root: Root,
    /// For [`Root::Extra`], the canonical path of the root; for [`Root::Package`], the package's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_path: Option<String>,
    /// The manifest parsed from the skill's SKILL.md.
    #[serde(with = "shared")]
    pub manifest: Arc<Manifest>,
    /// Digest of its component; `None` for a skill without tools of its own.
    pub component: Option<Digest>,
    /// The tools of its component, sorted by name.
    #[serde(with = "shared")]
    pub tools: Arc<[ToolSpec]>,
    /// Digest over all its files. In a snapshot of format 1, the digest of the component, or of SKILL.md if there is no component.
    pub digest: Digest,
    /// The number and size of its files, and where they are stored. `None` in snapshots from builds that did not store files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FileTotals>,
    /// True if `digest` covers all files; false in a snapshot of format 1. Not serialized.
    #[serde(skip, default = "yes")]
    pub digest_of_files: bool,
}

fn yes() -> bool {
    true
}

/// Serializes shared values by value.
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

/// Why a skill was left out of a snapshot, or why part of it does not work. Shown by `/skills`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Name of the skill, or of the folder or file that is not a skill, cleaned for display.
    pub name: String,
    /// The stable code, documented in `docs/codes.md`.
    pub code: Code,
    /// A description of the problem, in one line.
    pub message: String,
}

/// Why a stored snapshot cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The stored text does not match its digest.
    #[error("the stored snapshot is damaged: its digest is {found}, not {expected}")]
    Damaged {
        /// The digest that was stored with the text.
        expected: Digest,
        /// The digest of the stored text.
        found: Digest,
    },
    /// A newer version of Patchbay wrote the snapshot in a format that this version does not know.
    #[error("this session was written by a newer Patchbay.")]
    Newer,
    /// The text is not JSON of a known format.
    #[error("cannot read the stored snapshot: {0}")]
    Form(#[from] serde_json::Error),
}

impl Snapshot {
    pub(crate) fn new(body: SnapshotBody, version: u64, texts: BTreeMap<Digest, Arc<str>>) -> Self {
        // Serializing maps with string keys, strings and numbers cannot fail.
        let json = serde_json::to_string(&body).unwrap_or_default();
        let aliases = body.commands();
        Self { version, digest: Digest::of(json.as_bytes()), json, body, aliases, texts }
    }

    /// Loads the output of [`Snapshot::to_json`], in the current or an older format. The text and the digest stay unchanged.
    ///
    /// # Errors
    /// [`SnapshotError`] if the text does not match `digest`, is malformed, or has a newer format.
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
            2..=FORMAT => {
                let body: SnapshotBody = serde_json::from_str(&json)?;
                let aliases = body.commands();
                Ok(Self { version, digest, json, body, aliases, texts: BTreeMap::new() })
            }
            _ => Err(SnapshotError::Newer),
        }
    }

    /// Returns the text of instructions if this snapshot has it in memory; otherwise it is in the store.
    pub fn text(&self, instructions: &Digest) -> Option<&Arc<str>> {
        self.texts.get(instructions)
    }

    /// Removes and returns the texts that were just read, for the store.
    pub fn take_texts(&mut self) -> BTreeMap<Digest, Arc<str>> {
        std::mem::take(&mut self.texts)
    }

    /// Returns the JSON form: skills and diagnostics in canonical order, without the version.
    pub fn to_json(&self) -> &str {
        &self.json
    }

    /// Returns the snapshot's number in its session: 1, 2, 3 …
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the digest of the JSON form, which covers all skills and diagnostics.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Iterates over the skills, sorted by name.
    pub fn skills(&self) -> impl ExactSizeIterator<Item = &Skill> {
        self.body.skills.values()
    }

    /// Returns the rank of a skill in the order in which skills are shown to models.
    pub fn shown_rank(&self, skill: &Skill) -> ShownRank {
        ShownRank::of(skill.root, self.body.trusts_workspace)
    }

    /// Returns the skill with exactly this name.
    pub fn skill(&self, name: &str) -> Option<&Skill> {
        self.body.skills.get(name)
    }

    /// Returns a tool and its skill by the tool's full name, `SKILL__TOOL`.
    pub fn tool(&self, full_name: &str) -> Option<(&Skill, &ToolSpec)> {
        let (skill, tool) = split_tool(full_name)?;
        let skill = self.skill(skill)?;
        Some((skill, skill.tool(tool)?))
    }

    /// Returns the diagnostics, sorted.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.body.diagnostics
    }

    /// Returns why the files of `skill` cannot be read, if it exceeds a limit on files; `None` for any other skill.
    pub fn files_problem(&self, skill: &Skill) -> Option<&str> {
        if skill.files?.place != FileStorage::Nowhere {
            return None;
        }
        let is_of_skill =
            |found: &&Diagnostic| found.code == Code::SkillFilesLimited && found.name == skill.name.as_str();
        let found = self.diagnostics().iter().find(is_of_skill);
        Some(found.map_or("The skill exceeds a limit on files.", |found| found.message.as_str()))
    }

    /// Iterates over the aliases with the skills that claim each, sorted. An alias with several skills does not work. Names of
    /// skills that can be called by name are included.
    pub fn aliases(&self) -> impl Iterator<Item = (&Name, &[Name])> {
        self.aliases.iter().map(|(alias, skills)| (alias, &skills[..]))
    }
}

/// Splits `SKILL__TOOL` at the last `__`: a skill's name may end in `_`, a tool's name does not begin with `_`.
pub(crate) fn split_tool(full_name: &str) -> Option<(&str, &str)> {
    full_name.rsplit_once("__")
}

/// Returns each alias with the skills that claim it, sorted. Only skills of the highest root among the claimants count.
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
    /// Returns the owner of the skill's grants and state, as seen from `workspace`.
    pub fn identity(&self, workspace: &str) -> Identity {
        Identity::new(self.root, self.root_path.as_deref().unwrap_or(workspace), self.name.clone())
    }

    /// Returns the skill's own tool with this bare name.
    pub fn tool(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().find(|tool| tool.name.as_str() == name)
    }

    /// Returns true if the skill's `command_tool` belongs to another skill.
    pub fn borrows_tool(&self) -> bool {
        let tool = self.manifest.command_tool.as_deref().and_then(split_tool);
        tool.is_some_and(|(skill, _)| skill != self.name.as_str())
    }

    /// Returns the full name of the skill's `command_tool`, if it has one.
    pub fn command_tool(&self) -> Option<String> {
        let tool = self.manifest.command_tool.as_deref()?;
        Some(if tool.contains("__") { tool.to_owned() } else { format!("{}__{tool}", self.name) })
    }
}
