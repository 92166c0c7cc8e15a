//! The one path for every tool call by a user, a model or another tool: look-up, block list, schema check, policy,
//! limits and journal. Called by `session` and `agent`.
//!
//! - [`ResolvedTool::find`]: the one look-up of a tool by its name. It refuses user-only tools to models.
//! - [`CallContext`] and [`ToolInvocation`]: the input of a call. Nested calls share the context.
//! - [`Tools::run`]: runs a tool; [`Tools::only_reads`]: whether other calls may run in parallel.
//! - [`Approver`]: asks the user to approve a call. [`Question`]: the question; [`Approval`]: the answer.
//! - [`command_line`], [`input_json`]: a command or an input as a line that shows every character.
//! - [`TerminalCommand`]: the input of `terminal__run`, for the fronts that offer it.
//! - [`OutsideTool`]: a tool outside of the sandbox, such as one of an MCP server. [`OutsideSpec`] checks its declaration.
//! - [`Interposer`]: stands between tools and the host's services, for example to answer from recordings in a test.
//! - [`Editor`]: reads and writes files as the user's editor has them.
//! - [`Internal`]: a tool implemented by the host; [`ResultRow`]: how it commits a change with its result.
//! - [`Tools::find_tools`]: searches [`SearchedTools`] for a model.
//! - [`Tools::describe`]: the tools of a component, asked once for each digest.
//! - [`Tools::permits`]: a skill's current permissions.
//! - [`Tools::instructions`]: the instructions of a skill.
//! - [`Tools::skill_files`]: the files of a skill.
//! - [`input_from_text`]: the text after a command as a tool's input.
//!
//! ```
//! use patchbay_core::{Name, ToolSpec};
//! use serde_json::json;
//!
//! let schema = json!({"type": "object", "properties": {"expr": {"type": "string"}}, "required": ["expr"]});
//! let name: Name = "eval".parse()?;
//! let tool = ToolSpec { name, description: String::new(), input_schema: schema, extra: vec![] };
//!
//! let input = patchbay_tools::input_from_text(&tool, "2^100", "/calc", None)?;
//! assert_eq!(input, json!({"expr": "2^100"}));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod act;
mod approval;
mod call;
mod describe;
mod edited_files;
mod editor;
mod error;
mod file_diff;
mod foreseen;
mod input;
mod internal;
mod interposer;
mod keep;
mod ledger;
mod line_changes;
mod linked;
mod mode;
mod outside;
mod question;
mod reading;
mod ready;
mod ready_cache;
mod record;
mod revert;
mod run;
mod services;
mod shown_input;
mod skill_files;
mod tape;
mod terminal_command;
mod tool_index;
mod workspaces;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use patchbay_core::{Code, Digest, ToolSpec};
use patchbay_egress::{Credentials, Egress, Secrets};
use patchbay_policy::{Blocked, Capability, Grant, Identity, Permits, Root, Standing, WorkspaceTrust};
use patchbay_sandbox::Sandbox;
use patchbay_skill::{LinkedFolder, Skill, Snapshot, changed_files_in_short};
use patchbay_store::{GrantRule, KvStore, Rules, Store, StoreError};
use patchbay_workspace::{HomeFolder, ProtectedPaths};

pub use patchbay_schema::PatternBudget;

pub use act::Act;
pub use approval::{ApprovalSlot, Approvals, Approver, Asked};
pub use call::{CallContext, EffectFlag, ResolvedTool, SkillTool, ToolInvocation};
pub use describe::{DescribeOutcome, Described, Group, blocked_problem, describe_component};
pub use editor::Editor;
pub use error::ToolError;
pub use file_diff::{DiffLine, FileDiff};
pub use foreseen::http_capability;
pub use input::{InputError, input_from_text};
pub use internal::{Internal, InternalAnswer, InternalCall, InternalError, PersonAccess, ResultRow};
pub use interposer::{BegunCall, Interposer};
pub use ledger::StoreLedger;
pub use mode::{Mode, ModeSlot};
pub use outside::{
    CallTerms, OutsideCall, OutsideDeclaration, OutsideError, OutsideOrigin, OutsideSpec, OutsideTool, OutsideTools,
};
pub use question::{
    Approval, CalledTool, OfferedGrant, PersonAnswer, ProviderMove, Question, QuestionSubject, SkillCapability,
};
pub use revert::FileReverter;
pub use shown_input::{command_line, input_json};
pub use skill_files::SkillFilesError;
pub use tape::{CallEnd, CallEndFailure, CallTape};
pub use terminal_command::TerminalCommand;
pub use tool_index::SearchedTools;

use approval::QuestionPermits;
use linked::LinkedSkills;
use ready_cache::ReadyCache;
use skill_files::SkillFilesCache;
use tool_index::ToolIndexCache;
use workspaces::Workspaces;

/// A capability that the binary grants to a bundled skill.
#[derive(Clone, Copy, Debug)]
pub struct BundledGrant {
    /// The name of the bundled skill that is granted it.
    pub skill: &'static str,
    /// The capability, in the spelling of manifests.
    pub capability: &'static str,
}

/// The state that tool calls share. One for the whole process.
pub struct Tools {
    sandbox: Arc<Sandbox>,
    store: Store,
    kv: KvStore,
    egress: Egress,
    credentials: Credentials,
    bundled_grants: &'static [BundledGrant],
    /// The tools of bundled components, by digest.
    bundled_answers: BTreeMap<Digest, Arc<[ToolSpec]>>,
    ready_cache: ReadyCache,
    skill_files_cache: SkillFilesCache,
    workspaces: Workspaces,
    linked: LinkedSkills,
    question_permits: QuestionPermits,
    tool_index: ToolIndexCache,
    interposer: Option<Arc<dyn Interposer>>,
}

impl Tools {
    /// Returns tools that run in `sandbox`. `store` contains the grants and `kv` the state of skills; `egress` sends the skills'
    /// requests with `credentials` added.
    pub fn new(
        sandbox: Arc<Sandbox>,
        store: Store,
        kv: KvStore,
        egress: Egress,
        credentials: Credentials,
        bundled_grants: &'static [BundledGrant],
    ) -> Self {
        let bundled_answers = BTreeMap::new();
        Self {
            sandbox,
            store,
            kv,
            egress,
            credentials,
            bundled_grants,
            bundled_answers,
            ready_cache: ReadyCache::default(),
            skill_files_cache: SkillFilesCache::default(),
            workspaces: Workspaces::default(),
            linked: LinkedSkills::default(),
            question_permits: QuestionPermits::default(),
            tool_index: ToolIndexCache::default(),
            interposer: None,
        }
    }

    /// Sets the interposer between the tools and the services of the host.
    #[must_use]
    pub fn with_interposer(mut self, interposer: Option<Arc<dyn Interposer>>) -> Self {
        self.interposer = interposer;
        self
    }

    /// Sets the paths that no plugin may use in any workspace, and the user's home folder, where
    /// plugins write only with write trust.
    #[must_use]
    pub fn with_protection(mut self, protected: ProtectedPaths, home: HomeFolder) -> Self {
        self.workspaces = Workspaces::new(protected, home);
        self
    }

    /// Sets the user's folder of skills, which contains the links of `plugin add --link`.
    #[must_use]
    pub fn with_user_skills(mut self, skills: PathBuf) -> Self {
        self.linked.skills = Some(skills);
        self
    }

    /// Sets the tools of bundled components, as written by `patchbay-bundle`. These components are then not compiled or
    /// run before their first call. A text that cannot be parsed is logged and ignored.
    #[must_use]
    pub fn with_bundled_answers(mut self, answers: &[&str]) -> Self {
        self.bundled_answers = answers.iter().filter_map(|json| describe::bundled(json)).collect();
        self
    }

    /// Returns the secrets of the operator.
    pub fn secrets(&self) -> &Secrets {
        self.credentials.secrets()
    }

    /// Returns the sandbox in which tools run.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Returns the current permissions of `skill`, seen from `workspace`. Grants are read now;
    /// they do not belong to a snapshot.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn permits(&self, skill: &Skill, workspace: &str) -> Result<Permits, StoreError> {
        let rules = self.store.rules().await?;
        self.permits_under(&rules, skill, workspace).await
    }

    /// Like [`Tools::permits`], with `rules` already read.
    async fn permits_under(&self, rules: &Rules, skill: &Skill, workspace: &str) -> Result<Permits, StoreError> {
        let identity = skill.identity(workspace);
        let asked: Vec<Capability> = skill.manifest.capabilities.iter().map(|asked| asked.capability.clone()).collect();
        let grants =
            if asked.is_empty() { Vec::new() } else { self.grants(rules, &identity, skill, workspace).await? };
        let writes = asked.iter().any(Capability::changes_workspace);
        let permits = Permits::new(identity, asked, grants);
        Ok(if writes { permits.in_workspace(self.trust_under(rules, workspace)) } else { permits })
    }

    /// Returns whether skills may write protected files in `workspace`.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn workspace_trust(&self, workspace: &str) -> Result<WorkspaceTrust, StoreError> {
        Ok(self.trust_under(&*self.store.rules().await?, workspace))
    }

    fn trust_under(&self, rules: &Rules, workspace: &str) -> WorkspaceTrust {
        WorkspaceTrust {
            path: workspace.to_owned(),
            holds_home: self.workspaces.holds_home(workspace),
            write: rules.may_write(workspace),
        }
    }

    /// Returns whether the folder at `path` is or contains the user's home folder.
    pub fn holds_home(&self, path: &str) -> bool {
        self.workspaces.holds_home(path)
    }

    async fn grants(
        &self,
        rules: &Rules,
        identity: &Identity,
        skill: &Skill,
        place: &str,
    ) -> Result<Vec<Grant>, StoreError> {
        let mut grants = Vec::new();
        if identity.root == Root::Bundled {
            let own = self.bundled_grants.iter().filter(|grant| grant.skill == identity.name.as_str());
            grants.extend(own.filter_map(|grant| Some(Grant::holding(grant.capability.parse().ok()?))));
        }
        let (root, name) = (identity.root.as_str(), identity.name.as_str());
        for GrantRule { capability, skill_digest, .. } in rules.grants_of(root, &identity.workspace, name, place) {
            // A grant that this version cannot parse is ignored.
            let Ok(capability) = capability.parse() else {
                tracing::warn!(%capability, "ignoring a grant that cannot be parsed");
                continue;
            };
            let standing = self.standing(identity, skill, skill_digest).await?;
            grants.push(Grant { capability, standing });
        }
        Ok(grants)
    }

    /// Returns the folder that the user has linked as this skill.
    pub fn linked_folder(&self, identity: &Identity) -> Option<LinkedFolder> {
        self.linked.folder(identity)
    }

    /// Returns the value that a grant for the skill with this digest stores as its digest.
    pub async fn granted_for(&self, identity: &Identity, digest: Digest) -> String {
        self.linked.granted_for(identity, digest).await
    }

    /// Returns whether a grant given for the digest `granted` is valid for `skill`.
    async fn standing(&self, identity: &Identity, skill: &Skill, granted: &str) -> Result<Standing, StoreError> {
        if identity.root == Root::Bundled {
            return Ok(Standing::Holds);
        }
        if granted.is_empty() {
            return Ok(Standing::Unchecked);
        }
        if !skill.digest_of_files {
            return Ok(Standing::OldSnapshot);
        }
        if let Some(folder) = LinkedFolder::of_grant(granted) {
            let is_linked = self.linked.folder_of(identity, skill.digest).await == Some(folder);
            return Ok(if is_linked { Standing::Holds } else { Standing::Unlinked });
        }
        changes(&self.store, granted, &skill.digest, None).await
    }

    /// Returns the instructions of a skill of `snapshot`.
    ///
    /// # Errors
    /// [`InstructionsError`], each with a stable code.
    pub async fn instructions(&self, snapshot: &Snapshot, skill: &Skill) -> Result<Arc<str>, InstructionsError> {
        if let Some(blocked) = blocked(&*self.store.rules().await?, skill) {
            return Err(blocked.into());
        }
        let digest = &skill.manifest.instructions.digest;
        match snapshot.text(digest) {
            Some(text) => Ok(Arc::clone(text)),
            None => Ok(self.store.text(digest).await?.into()),
        }
    }
}

/// Returns the current block of a skill or its component.
pub fn blocked(rules: &Rules, skill: &Skill) -> Option<Blocked> {
    let digest = rules.first_blocked(skill.component.into_iter().chain([skill.digest]))?;
    Some(Blocked { digest, whole: skill.component != Some(digest), skill: skill.name.clone() })
}

/// Compares the files for which a grant was given (digest `granted`) with the current ones, and returns the files that
/// differ. `files` is the list of current files; if `None`, it is read from the store.
///
/// # Errors
/// The database could not be read or written.
pub async fn changes(
    store: &Store,
    granted: &str,
    current: &Digest,
    files: Option<&str>,
) -> Result<Standing, StoreError> {
    let granted: Digest = match granted.parse() {
        Ok(granted) if granted == *current => return Ok(Standing::Holds),
        Ok(granted) => granted,
        Err(_) => return Ok(Standing::Changed(Vec::new())),
    };
    let now = match files {
        Some(files) => Some(files.to_owned()),
        None => store.skill_files(current).await?,
    };
    Ok(Standing::Changed(match (store.skill_files(&granted).await?, now) {
        (Some(before), Some(now)) => changed_files_in_short(&before, &now),
        _ => Vec::new(),
    }))
}

/// Why the instructions of a skill cannot be returned.
#[derive(Debug, thiserror::Error)]
pub enum InstructionsError {
    /// The operator has blocked the skill or its component.
    #[error(transparent)]
    Blocked(#[from] Blocked),
    /// The store could not be read or written.
    #[error("{0}.")]
    Store(#[from] StoreError),
}

impl InstructionsError {
    /// Returns the stable code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::Blocked(_) => Code::Blocked,
            Self::Store(_) => Code::StoreFailed,
        }
    }
}
