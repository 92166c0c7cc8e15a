//! Snapshots of format 1, which the first builds wrote: the instructions stand in them, the digest of a skill is that of its
//! component or its SKILL.md, and an alias that several skills claim works for none, whatever their roots.
//!
//! These types never change: they are what is stored.

use std::{collections::BTreeMap, sync::Arc};

use patchbay_core::{Digest, Name, ToolSpec};
use patchbay_policy::Root;
use serde::Deserialize;

use super::{Diagnostic, Skill, SnapshotBody};
use crate::{Eligibility, Instructions, InvocationMode, Manifest, RequestedCapability};

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

/// Reads a body of format 1: the body, the claimants of each alias, and the instructions.
pub(super) fn read(json: &str) -> Result<(SnapshotBody, AliasMap, TextMap), serde_json::Error> {
    let Body1 { skills, diagnostics } = serde_json::from_str(json)?;
    let mut texts = TextMap::new();
    let mut aliases = AliasMap::new();
    let mut read = BTreeMap::new();
    for (name, skill) in skills {
        let instructions = Instructions::of(&skill.manifest.instructions);
        texts.entry(instructions.digest).or_insert_with(|| skill.manifest.instructions.as_str().into());
        if let Some(alias) = &skill.manifest.command {
            aliases.entry(alias.clone()).or_default().push(name.clone());
        }
        read.insert(name, skill.read(instructions));
    }
    Ok((SnapshotBody { format: 1, skills: read, diagnostics }, aliases, texts))
}

impl Skill1 {
    fn read(self, instructions: Instructions) -> Skill {
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
        };
        let (manifest, tools) = (manifest.into(), tools.into());
        Skill { name, root, manifest, component, tools, digest, digest_of_files: false }
    }
}
