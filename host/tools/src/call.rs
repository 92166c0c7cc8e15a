//! The input of [`Tools::run`](crate::Tools::run). A session makes it for the user's command, an agent for a model, and
//! a running call for nested calls.
//!
//! Six types describe a call. Each part of the host has its own, with only the data that it
//! needs, for as long as it needs it:
//!
//! | type | made by | lifetime | contents |
//! | --- | --- | --- | --- |
//! | [`CallContext`] | the caller | the outermost call and all calls nested in it | who asks, the session, the workspace, the skills |
//! | [`ToolInvocation`] | the caller | until the call begins | the tool and its input, which differ for each nested call |
//! | `CallRecord` (`record.rs`) | [`Tools::run`](crate::Tools::run) | the call | permissions, effects, approvals; the guest writes to it |
//! | `JournalRow` (`store`) | the record, at the end | stored in the journal | the columns of one row: ids, hashes, sizes, the outcome |
//! | `Services` (`sandbox`) | `services/` | the call | the host's side of each import of the guest, on this crate's types |
//! | `Call` (`sandbox`) | `run.rs` | until the guest is started | the component, its input and limits: all that the sandbox needs to know |
//!
//! The sandbox does not know sessions, and the store does not know guests, so these six cannot be fewer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use patchbay_core::{AgentId, Asker, CallId, Digest, PrincipalId, ToolSpec};
use patchbay_sandbox::{Budget, Inference, ProgressSink};
use patchbay_skill::{Skill, Snapshot};
use patchbay_store::Hold;
use serde_json::Value;

use crate::{
    Approvals, Editor, Internal, ModeSlot, OutsideTool, OutsideTools, ResultRow, ToolError, record::CallRecord,
};

/// The data that a call shares with all calls nested in it.
pub struct CallContext {
    /// The caller of the outermost call.
    pub asker: Asker,
    /// The person who owns the session.
    pub principal: PrincipalId,
    /// The right to write the session.
    pub hold: Hold,
    /// The agent that the call belongs to.
    pub agent: AgentId,
    /// The workspace's canonical path.
    pub workspace: String,
    /// The skills that can be called.
    pub snapshot: Arc<Snapshot>,
    /// The tools outside of the sandbox that can be called.
    pub outside: OutsideTools,
    /// Receives partial output while the call runs.
    pub progress: Arc<dyn ProgressSink>,
    /// Runs completions of `agent`'s model; `None` makes `inference` unavailable.
    pub inference: Option<Arc<dyn Inference>>,
    /// The session's mode, which limits its tools.
    pub mode: ModeSlot,
    /// Asks the user for missing capabilities; `None` if the user cannot be asked.
    pub approvals: Option<Arc<Approvals>>,
    /// The user's editor; `None` if the session has none.
    pub editor: Option<Arc<dyn Editor>>,
    /// The line that the user typed, if the call runs a command.
    pub line: Option<String>,
    /// Set when the call begins its first effect.
    pub effect: EffectFlag,
}

/// Whether a call has begun an effect. An interrupted call without effects can be reported as
/// not run. Clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct EffectFlag(Arc<AtomicBool>);

impl EffectFlag {
    /// Returns whether an effect has begun.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// One call of a tool that is about to begin.
pub struct ToolInvocation<'a> {
    /// The id of the call; it stays the same after a restart.
    pub id: CallId,
    /// The tool that should run.
    pub tool: ResolvedTool<'a>,
    /// The input, not yet checked against the schema.
    pub input: &'a Value,
    /// Media type and bytes of each attachment.
    pub attachments: Vec<(String, Vec<u8>)>,
    /// Creates the row of the result, for tools of the host that commit it themselves.
    pub row: Option<Arc<dyn ResultRow>>,
    /// The calling call and the rest of its budget; `None` for an outermost call, which has a full budget.
    pub(crate) parent: Option<(Arc<CallRecord>, Budget)>,
}

impl<'a> ToolInvocation<'a> {
    /// Returns an outermost call without attachments.
    pub fn new(id: CallId, tool: ResolvedTool<'a>, input: &'a Value) -> Self {
        Self { id, tool, input, attachments: Vec::new(), row: None, parent: None }
    }
}

/// Returns whether the outermost caller is the user. Any other caller is a model or the program
/// of one, such as an MCP client.
pub(crate) fn is_person(asker: &Asker) -> bool {
    matches!(asker, Asker::Person(_))
}

/// A tool that was resolved from its name.
#[derive(Clone, Copy)]
pub enum ResolvedTool<'a> {
    /// A tool implemented by the host.
    Internal(&'a dyn Internal),
    /// A tool that belongs to a skill.
    Skill(SkillTool<'a>),
    /// A tool outside of the sandbox, such as one of an MCP server.
    Outside(&'a dyn OutsideTool),
}

/// A tool of a skill that has a component.
#[derive(Clone, Copy)]
pub struct SkillTool<'a> {
    /// The tool's full name, `SKILL__TOOL`.
    pub(crate) full_name: &'a str,
    pub(crate) skill: &'a Skill,
    pub(crate) spec: &'a ToolSpec,
    pub(crate) component: Digest,
}

impl<'a> SkillTool<'a> {
    /// Finds a tool of `snapshot` by its full name, `SKILL__TOOL`.
    ///
    /// # Errors
    /// Only [`ToolError::NotFound`].
    pub fn find(snapshot: &'a Snapshot, name: &'a str) -> Result<Self, ToolError> {
        let of_skill = |(skill, spec): (&'a Skill, &'a ToolSpec)| {
            Some(Self { full_name: name, skill, spec, component: skill.component? })
        };
        snapshot.tool(name).and_then(of_skill).ok_or_else(|| ToolError::NotFound(name.to_owned()))
    }

    /// Returns the tool's bare name, description and input schema.
    pub fn spec(&self) -> &'a ToolSpec {
        self.spec
    }
}

impl<'a> ResolvedTool<'a> {
    /// Finds a tool for the outermost caller `asker`: a tool of `internal` by its bare name, of `snapshot` by
    /// its full name, `SKILL__TOOL`, or of `outside` by its full name. The first match wins. Snapshot and
    /// `outside` belong to the call's context.
    ///
    /// # Errors
    /// [`ToolError::NotFound`]; [`ToolError::NotForModels`] for a tool of a skill that only users may call, unless the user is the
    /// caller.
    pub fn find(
        asker: &Asker,
        snapshot: &'a Snapshot,
        internal: &'a [Arc<dyn Internal>],
        outside: &'a [Arc<dyn OutsideTool>],
        name: &'a str,
    ) -> Result<Self, ToolError> {
        if let Some(tool) = internal.iter().find(|tool| tool.spec().name.as_str() == name) {
            return Ok(Self::Internal(&**tool));
        }
        // Checked here because it also applies to calls made by a program that a model wrote.
        if let Some((skill, _)) = snapshot.tool(name)
            && !skill.manifest.audience.models
            && !is_person(asker)
        {
            return Err(ToolError::NotForModels(skill.name.clone()));
        }
        SkillTool::find(snapshot, name).map(Self::Skill).or_else(|not_found| {
            let tool = outside.iter().find(|tool| tool.spec().name() == name);
            tool.map(|tool| Self::Outside(&**tool)).ok_or(not_found)
        })
    }

    /// Returns the full name: `SKILL__TOOL`, the bare name of a tool of the host, or `mcp__SERVER__TOOL`.
    pub fn full_name(&self) -> &'a str {
        match self {
            Self::Internal(tool) => tool.spec().name.as_str(),
            Self::Skill(tool) => tool.full_name,
            Self::Outside(tool) => tool.spec().name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::{Code, RootLimits};
    use patchbay_skill::{BundledSkill, Platform, SnapshotRules, build, bundled};

    use super::*;

    struct NoRequirements;

    impl Platform for NoRequirements {
        fn os(&self) -> &str {
            "linux"
        }

        fn has_env(&self, _: &str) -> bool {
            false
        }

        fn has_binary(&self, _: &str) -> bool {
            false
        }
    }

    /// Returns a skill in one file: a component that has only this frontmatter.
    fn skill(name: &'static str, frontmatter: &str) -> BundledSkill {
        let (section, skill_md) = ("patchbay:skill.md", format!("---\n{frontmatter}\n---\n"));
        let length = u8::try_from(1 + section.len() + skill_md.len()).unwrap();
        assert!(length < 128, "one byte of LEB128");
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        bytes.extend([0, length, u8::try_from(section.len()).unwrap()]);
        bytes.extend(section.as_bytes());
        bytes.extend(skill_md.as_bytes());
        BundledSkill::new(name, bytes.leak())
    }

    #[test]
    fn only_a_person_finds_tools_of_a_skill_for_people() {
        let run = ToolSpec {
            name: "run".parse().unwrap(),
            description: String::new(),
            input_schema: serde_json::json!({}),
            extra: Vec::new(),
        };
        let rules = SnapshotRules {
            trusted: false,
            reserved: &[],
            internal_tools: &[],
            limits: &RootLimits::default(),
            platform: &NoRequirements,
            tools: &|_| Ok(Arc::from([run.clone()])),
        };
        let skills = [skill("deploy", "disable-model-invocation: true"), skill("open", "summary: Open")];
        let snapshot = build(&bundled(&skills), 1, &rules);
        let find = |asker: &Asker, name: &'static str| {
            let found = ResolvedTool::find(asker, &snapshot, &[], &[], name);
            found.map(|tool| tool.full_name().to_owned()).map_err(|error| (error.code(), error.to_string()))
        };
        let refused = (Code::SkillNotForModels, "skill 'deploy' can only be invoked by a user.".to_owned());
        let person = Asker::Person(PrincipalId::LOCAL);
        assert_eq!(find(&person, "deploy__run"), Ok("deploy__run".to_owned()));
        for model in
            [Asker::Agent(AgentId::from_bytes([1; 16])), Asker::mcp_client("c"), Asker::Tool("a__b".to_owned())]
        {
            assert_eq!(find(&model, "deploy__run"), Err(refused.clone()), "{model}");
            assert_eq!(find(&model, "open__run"), Ok("open__run".to_owned()), "{model}");
            assert_eq!(find(&model, "deploy__walk").unwrap_err().0, Code::ToolNotFound, "{model}");
        }
    }
}
