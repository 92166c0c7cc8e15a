//! The input of [`Tools::run`](crate::Tools::run). A session makes it for a person's command, an agent for a model, and a
//! running call for nested calls.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use patchbay_core::{AgentId, Asker, CallId, Digest, PrincipalId, ToolSpec};
use patchbay_sandbox::{Budget, Inference, ProgressSink};
use patchbay_skill::{Skill, Snapshot};
use patchbay_store::Hold;
use serde_json::Value;

use crate::{Approvals, Editor, Internal, ResultRow, ToolError, record::CallRecord};

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
    /// Receives partial output.
    pub progress: Arc<dyn ProgressSink>,
    /// Runs completions of `agent`'s model; `None` makes `inference` unavailable.
    pub inference: Option<Arc<dyn Inference>>,
    /// Asks a person for missing capabilities; `None` if no person can be asked.
    pub approvals: Option<Arc<Approvals>>,
    /// The user's editor; `None` if the session has none.
    pub editor: Option<Arc<dyn Editor>>,
    /// The line that the person typed, if the call runs a command.
    pub line: Option<String>,
    /// Set when the call begins its first effect.
    pub effect: EffectFlag,
}

/// Whether a call has begun an effect. An interrupted call without effects can be reported as not run. Clones share one
/// flag.
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

/// One call of a tool.
pub struct ToolInvocation<'a> {
    /// The id of the call; it stays the same after a restart.
    pub id: CallId,
    /// The tool to run.
    pub tool: ResolvedTool<'a>,
    /// The input, not yet checked against the schema.
    pub input: &'a Value,
    /// Media type and bytes of each attachment.
    pub attachments: Vec<(String, Vec<u8>)>,
    /// Makes the row of the result, for tools of the host that commit it themselves.
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

/// A tool that was resolved from its name.
#[derive(Clone, Copy)]
pub enum ResolvedTool<'a> {
    /// A tool implemented by the host.
    Internal(&'a dyn Internal),
    /// A tool of a skill.
    Skill(SkillTool<'a>),
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

impl<'a> ResolvedTool<'a> {
    /// Finds a tool: one of `internal` by its bare name, or one of `snapshot` by its full name, `SKILL__TOOL`. The snapshot
    /// is the one of the call's context.
    ///
    /// # Errors
    /// [`ToolError::NotFound`].
    pub fn find(snapshot: &'a Snapshot, internal: &'a [Arc<dyn Internal>], name: &'a str) -> Result<Self, ToolError> {
        if let Some(tool) = internal.iter().find(|tool| tool.spec().name.as_str() == name) {
            return Ok(Self::Internal(&**tool));
        }
        let of_skill = |(skill, spec): (&'a Skill, &'a ToolSpec)| {
            Some(Self::Skill(SkillTool { full_name: name, skill, spec, component: skill.component? }))
        };
        snapshot.tool(name).and_then(of_skill).ok_or_else(|| ToolError::NotFound(name.to_owned()))
    }

    /// Returns the full name, `SKILL__TOOL`, or the bare name of a tool of the host.
    pub fn full_name(&self) -> &'a str {
        match self {
            Self::Internal(tool) => tool.spec().name.as_str(),
            Self::Skill(tool) => tool.full_name,
        }
    }

    /// Returns the tool's name, description and input schema.
    pub fn spec(&self) -> &'a ToolSpec {
        match self {
            Self::Internal(tool) => tool.spec(),
            Self::Skill(tool) => tool.spec,
        }
    }
}
