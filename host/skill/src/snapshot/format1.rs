//! Loads snapshots of format 1, which the first versions wrote, so old sessions can still be resumed.
//!
//! Differences from format 2: the snapshot contains the instructions; a skill's digest is the digest of its component or SKILL.md;
//! an alias that several skills claim never works, even if their roots differ. Called by `Snapshot::from_json`.
//!
//! These types must not change, because they describe stored data.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use patchbay_core::{Digest, Name, ToolSpec};
use patchbay_policy::Root;
use serde::Deserialize;

use super::{Diagnostic, Skill, SnapshotBody};
use crate::{Audience, Eligibility, Instructions, InvocationMode, Manifest, RequestedCapability};

#[derive(Deserialize)]
struct Body1 {
    skills: BTreeMap<Name, Skill1>,
    diagnostics: Vec<Diagnostic>,
}

#[derive(Deserialize)]
struct Skill1 {
    name: Name,
    root: Root,
    manifest: Manifest1,
    component: Option<Digest>,
    tools: Vec<ToolSpec>,
    digest: Digest,
}

#[derive(Deserialize)]
struct Manifest1 {
    summary: String,
    version: Option<String>,
    invocation_mode: InvocationMode,
    command: Option<Name>,
    input_hint: Option<String>,
    command_tool: Option<String>,
    requires_tools: Vec<String>,
    eligibility: Eligibility,
    capabilities: Vec<RequestedCapability>,
    instructions: String,
}

type AliasMap = BTreeMap<Name, Vec<Name>>;
type TextMap = BTreeMap<Digest, Arc<str>>;

/// Parses a body of format 1. Returns it as the current type, with the skills that claim each alias, and the instructions.
pub(super) fn read(json: &str) -> Result<(SnapshotBody, AliasMap, TextMap), serde_json::Error> {
    let Body1 { skills, diagnostics } = serde_json::from_str(json)?;
    let mut texts = TextMap::new();
    let mut aliases = AliasMap::new();
    let mut upgraded = BTreeMap::new();
    for (name, skill) in skills {
        let instructions = Instructions::of(&skill.manifest.instructions);
        texts.entry(instructions.digest).or_insert_with(|| skill.manifest.instructions.as_str().into());
        if let Some(alias) = &skill.manifest.command {
            aliases.entry(alias.clone()).or_default().push(name.clone());
        }
        upgraded.insert(name, skill.upgrade(instructions));
    }
    let body = SnapshotBody {
        format: 1,
        ranking: 1,
        trusts_workspace: false,
        skills: upgraded,
        called_by_name: BTreeSet::new(),
        diagnostics,
    };
    Ok((body, aliases, texts))
}

impl Skill1 {
    fn upgrade(self, instructions: Instructions) -> Skill {
        let Self { name, root, manifest, component, tools, digest } = self;
        let manifest = Manifest {
            summary: manifest.summary,
            version: manifest.version,
            invocation_mode: manifest.invocation_mode,
            command: manifest.command,
            input_hint: manifest.input_hint,
            command_tool: manifest.command_tool,
            requires_tools: manifest.requires_tools,
            eligibility: manifest.eligibility,
            capabilities: manifest.capabilities,
            instructions,
            license: None,
            compatibility: None,
            allowed_tools: Vec::new(),
            audience: Audience::default(),
            unused: Vec::new(),
        };
        let (manifest, tools) = (manifest.into(), tools.into());
        Skill { name, root, root_path: None, manifest, component, tools, digest, files: None, digest_of_files: false }
    }
}
