//! Sessions for the clients of `patchbay mcp`: one for each connection. A client calls tools in the same way as every other
//! caller, but no model runs and the user is never asked.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use patchbay_core::{Asker, CallId, Code, Name, Outcome, text};
use patchbay_mcp::server::{ClientCall, OfferedTool, ServedError, ServedSession, SessionSource};
use patchbay_policy::Capability;
use patchbay_sandbox::{Content, ProgressSink};
use patchbay_skill::{RequestedCapability, Skill, Snapshot};
use patchbay_tools::{
    CallContext, EffectFlag, ModeSlot, OutsideTools, ResolvedTool, SkillTool, ToolError, ToolInvocation,
};

use crate::{Host, Session, SessionError, invoke};

/// Opens sessions for MCP clients.
pub struct McpSessions {
    host: Arc<Host>,
    workspace: PathBuf,
    /// The offered skills; empty if all are offered.
    skills: BTreeSet<Name>,
    /// Whether the workspace has files for the tools of skills.
    has_files: bool,
    /// The name of the clients' token; `None` for the client of a process.
    token: Option<Name>,
}

/// The session of one MCP client.
struct McpSession {
    session: Arc<Session>,
    snapshot: Arc<Snapshot>,
    skills: BTreeSet<Name>,
    has_files: bool,
    token: Option<Name>,
}

impl McpSessions {
    /// Returns a source of sessions on the folder `workspace`. `skills` are the skills whose
    /// tools are offered; none means all.
    pub fn new(host: Arc<Host>, workspace: PathBuf, skills: impl IntoIterator<Item = Name>) -> Self {
        Self { host, workspace, skills: skills.into_iter().collect(), has_files: true, token: None }
    }

    /// Names the clients' token in the journal, before the name that a client gives itself: `mcp:TOKEN/CLIENT`.
    #[must_use]
    pub fn of_token(self, name: Name) -> Self {
        Self { token: Some(name), ..self }
    }

    /// Leaves out the skills that need workspace files, because the folder is not a real workspace.
    #[must_use]
    pub fn without_files(self) -> Self {
        Self { has_files: false, ..self }
    }

    /// Checks that sessions can be opened: opens one, and removes it.
    ///
    /// # Errors
    /// The reason why no session can be opened.
    pub async fn check(&self) -> Result<(), ServedError> {
        let McpSession { session, .. } = self.open_session().await?;
        self.remove(session).await.map_err(failed)
    }

    async fn open_session(&self) -> Result<McpSession, ServedError> {
        let session = self.host.new_session(&self.workspace).await.map_err(failed)?;
        let snapshot = session.snapshot();
        if let Some(problem) = self.skills.iter().find_map(|skill| not_offered(&snapshot, skill)) {
            self.remove(session).await.map_err(failed)?;
            return Err(problem);
        }
        let (skills, token) = (self.skills.clone(), self.token.clone());
        Ok(McpSession { session, snapshot, skills, has_files: self.has_files, token })
    }

    /// Removes a session that no client has used.
    async fn remove(&self, session: Arc<Session>) -> Result<(), SessionError> {
        session.close().await;
        self.host.remove_session(session.id()).await
    }
}

impl SessionSource for McpSessions {
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn ServedSession>, ServedError>> {
        Box::pin(async { Ok(Arc::new(self.open_session().await?) as Arc<dyn ServedSession>) })
    }
}

/// Returns why the named skill offers nothing to clients; `None` if it offers tools.
fn not_offered(snapshot: &Snapshot, name: &Name) -> Option<ServedError> {
    let Some(skill) = snapshot.skill(name.as_str()) else {
        let Outcome { code, message, .. } = invoke::not_found(name.as_str());
        return Some(ServedError { code, message });
    };
    if !skill.manifest.audience.models {
        return Some(failed_tool(ToolError::NotForModels(name.clone())));
    }
    let message = format!("skill '{name}' has no tools; it offers nothing to MCP clients.");
    skill.tools.is_empty().then_some(ServedError { code: Code::ToolNotFound, message })
}

/// Returns whether the skill cannot work without the files of a workspace.
fn needs_files(skill: &Skill) -> bool {
    let needs = |asked: &RequestedCapability| {
        !asked.optional
            && matches!(
                asked.capability,
                Capability::WorkspaceRead | Capability::WorkspaceWrite | Capability::WorkspaceDelete
            )
    };
    skill.manifest.capabilities.iter().any(needs)
}

fn failed_tool(error: ToolError) -> ServedError {
    ServedError { code: error.code(), message: error.to_string() }
}

fn failed(error: SessionError) -> ServedError {
    ServedError { code: error.code(), message: error.to_string() }
}

impl McpSession {
    /// Returns whether clients may call the skill. A client acts for a model.
    fn offers(&self, skill: &Skill) -> bool {
        skill.manifest.audience.models
            && (self.skills.is_empty() || self.skills.contains(&skill.name))
            && (self.has_files || !needs_files(skill))
    }

    /// Returns the context of a call, which can use the tools `outside` of the sandbox.
    fn context(&self, asker: Asker, progress: Arc<dyn ProgressSink>, outside: OutsideTools) -> Arc<CallContext> {
        Arc::new(CallContext {
            asker,
            principal: self.session.owner.clone(),
            hold: self.session.log().hold().clone(),
            agent: self.session.view(),
            workspace: self.session.workspace().to_owned(),
            snapshot: Arc::clone(&self.snapshot),
            outside,
            progress,
            inference: None,
            mode: ModeSlot::default(),
            approvals: None,
            editor: None,
            line: None,
            effect: EffectFlag::default(),
        })
    }

    /// Runs a call of one of the offered tools.
    async fn run(&self, call: ClientCall<'_>) -> Result<Vec<Content>, ToolError> {
        let ClientCall { asker, tool: name, input, progress } = call;
        let asker = match (&self.token, asker) {
            (Some(token), Asker::McpClient(client)) => Asker::mcp_client(&format!("{token}/{client}")),
            (_, asker) => asker,
        };
        let offered = self.snapshot.tool(name).filter(|(skill, _)| self.offers(skill));
        let Some((skill, _)) = offered else { return Err(ToolError::NotFound(name.to_owned())) };
        let tool = ResolvedTool::Skill(SkillTool::find(&self.snapshot, name)?);
        let id = CallId::of_line(self.session.host.store.source().line_id());
        let invocation = ToolInvocation::new(id, tool, &input);
        self.session.keep_files_for(skill, self.session.view()).await;
        let outside = self.session.outside_for(skill, self.session.view(), &self.session.front()).await;
        self.session.host.tools.run(&self.context(asker, progress, outside), invocation).await.result
    }
}

impl ServedSession for McpSession {
    fn tools(&self) -> BoxFuture<'_, Vec<OfferedTool>> {
        Box::pin(async {
            let mut offered = Vec::new();
            for skill in self.snapshot.skills().filter(|skill| self.offers(skill)) {
                let reaches_network = skill
                    .manifest
                    .capabilities
                    .iter()
                    .any(|asked| matches!(asked.capability, Capability::Http(_) | Capability::Tools));
                for spec in skill.tools.iter() {
                    let name = format!("{}__{}", skill.name, spec.name);
                    let Ok(tool) = SkillTool::find(&self.snapshot, &name) else { continue };
                    offered.push(OfferedTool {
                        description: spec.description.clone(),
                        input_schema: spec.input_schema.clone(),
                        only_reads: !tool.can_have_effects(),
                        reaches_network,
                        title: spec.annotation("title").map(text::clean_line).filter(|title| !title.is_empty()),
                        is_destructive: spec.flag("destructive"),
                        is_idempotent: spec.flag("idempotent"),
                        name,
                    });
                }
            }
            offered.sort_by(|a, b| a.name.cmp(&b.name));
            offered
        })
    }

    fn call<'a>(&'a self, call: ClientCall<'a>) -> BoxFuture<'a, Result<Vec<Content>, ServedError>> {
        Box::pin(async { self.run(call).await.map_err(failed_tool) })
    }

    fn workspace(&self) -> &str {
        self.session.workspace()
    }
}
