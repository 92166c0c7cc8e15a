//! An open session: its parts and how it is closed. `line` runs its lines; `commands`, `complete` and `notices` serve
//! fronts.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicU64},
};

use parking_lot::{Mutex, MutexGuard};
use patchbay_agent::{Agent, Requests, ResultRoom};
use patchbay_core::{AgentId, EventKind, Outcome, PrincipalId, SessionId};
use patchbay_events::{Broadcast, EventLog, Subscription, TokenBudget};
use patchbay_mcp::tools::{ClientServer, SessionServers};
use patchbay_policy::Capability;
use patchbay_provider::Choice;
use patchbay_skill::{Skill, Snapshot};
use patchbay_store::{AgentRow, Hold, SessionRow, Store, StoreError};
use patchbay_tools::{ApprovalSlot, Approver, Editor, Mode, OutsideTool, OutsideTools};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Host,
    activity::Activity,
    agents::{AgentFactory, AgentParts, Agents},
    gathering::Gathering,
    line::capture::Captures,
    line::client::LineClient,
    line::moves::{BehindMove, ViewMoves},
    line::order::CommandOrder,
    line::queue::{IdleAgents, LineQueue, StopScope},
    line::submitted::RunningLines,
    lock::SessionLock,
    persona::Persona,
    workspace_files::PathIndex,
};

/// A session, open in this process only.
pub struct Session {
    pub(crate) host: Arc<Host>,
    workspace: String,
    /// The user that the session belongs to.
    pub(crate) owner: PrincipalId,
    pub(crate) approvals: ApprovalSlot,
    /// The front of the process, for lines that name no client and for turns that no line began.
    front: Mutex<Arc<LineClient>>,
    servers: SessionServers,
    /// The notices that fronts show at the start.
    pub(crate) start_notices: Vec<String>,
    /// Whether the session was resumed, rather than created.
    pub(crate) is_resumed: bool,
    state: Mutex<SessionState>,
    agents: Mutex<Agents>,
    factory: AgentFactory,
    /// The agents that capture lines.
    pub(crate) captures: Captures,
    /// The running turns, each with the token that stops it.
    pub(crate) running_turns: Mutex<HashMap<AgentId, CancellationToken>>,
    /// The limit on requests to models.
    pub(crate) requests: Arc<Requests>,
    /// The limit on the bytes of stored tool results.
    pub(crate) results: Arc<ResultRoom>,
    pub(crate) activity: Arc<Activity>,
    /// The turns whose reports are still to come.
    pub(crate) gathering: Arc<Gathering>,
    log: Arc<EventLog>,
    pub(crate) lines: RunningLines,
    /// The lines that wait for their turns.
    pub(crate) queue: Arc<LineQueue>,
    /// The running commands, and the commands that wait for them.
    pub(crate) order: Arc<CommandOrder>,
    /// The lines that wait for a command that moves the view.
    pub(crate) moves: ViewMoves<BehindMove>,
    /// The files of the workspace, for completion.
    pub(crate) files: Arc<PathIndex>,
    /// The version of the snapshot for which the files of the workspace's skills are stored; 0 before the first.
    pub(crate) files_kept_for: AtomicU64,
    /// Locked while a command's change is checked and committed: the only part in which commands of different agents wait for
    /// each other.
    pub(crate) committing: tokio::sync::Mutex<()>,
    /// Stops the session's lines if it is dropped without being closed.
    _closes: DropGuard,
    /// `None` once the session is closed.
    lock: Mutex<Option<SessionLock>>,
}

/// Session-wide state that commands may change, always after the change is committed.
#[derive(Clone)]
pub(crate) struct SessionState {
    pub(crate) persona: Arc<Persona>,
    pub(crate) snapshot: Arc<Snapshot>,
}

/// The parts that a session is opened from.
pub(crate) struct Opened {
    pub(crate) hold: Hold,
    pub(crate) row: SessionRow,
    pub(crate) persona: Persona,
    pub(crate) snapshot: Snapshot,
    pub(crate) last_seq: u64,
    /// The living agents in the order of their creation, the root first.
    pub(crate) agents: Vec<AgentRow>,
    /// The agent in view, if it is dead, with its ancestors.
    pub(crate) dead_in_view: Option<(AgentRow, Vec<AgentId>)>,
    /// Whether this session was resumed. Its agents then begin no turns before the user's first message.
    pub(crate) is_resumed: bool,
    pub(crate) tokens: u64,
    /// The notices that fronts show at the start, except those about persona files.
    pub(crate) start_notices: Vec<String>,
}

impl Session {
    /// Returns the session, and a receiver of agents that become idle; `None` if the session's agents are not a tree.
    pub(crate) fn new(host: Arc<Host>, opened: Opened, lock: SessionLock) -> Option<(Arc<Self>, IdleAgents)> {
        let Opened { hold, row, persona, snapshot, last_seq, tokens, start_notices, .. } = opened;
        let limits = &host.agent_settings.limits;
        let budget = TokenBudget::new(tokens, limits.session_tokens);
        let requests = Requests::new(limits.concurrent_requests, limits.tree_requests);
        let results = ResultRoom::new(limits.result_bytes);
        let log = EventLog::new(hold.clone(), host.store.clone(), last_seq, budget, Broadcast::default());
        let approvals = ApprovalSlot::default();
        let factory = AgentFactory {
            hold,
            workspace: row.workspace.clone(),
            principal: row.owner.clone(),
            approvals: approvals.clone(),
            requests: Arc::clone(&requests),
            results: Arc::clone(&results),
            log: Arc::clone(&log),
            model: Arc::clone(&host.providers) as Arc<dyn patchbay_agent::Model>,
            tools: Arc::clone(&host.tools),
            settings: host.agent_settings.clone(),
        };
        let agents = tree(&factory, &opened.agents, opened.dead_in_view, row.agent)?;
        let lines = RunningLines::default();
        let closed = lines.closing().clone();
        let activity = Activity::new();
        let (idle, idle_agents) = mpsc::unbounded_channel();
        let queue = LineQueue::new(Arc::clone(&log), Arc::clone(&activity), idle);
        let captures = Captures::default();
        for agent in &opened.agents {
            if agent.capturing {
                captures.set(agent.id, true);
            }
            if opened.is_resumed {
                // An agent that `/rewind` has left waits for a message of its own.
                let is_left = opened.agents.iter().any(|other| other.rewound == Some(agent.id));
                queue.stop(agent.id, if is_left { StopScope::Agent } else { StopScope::Session });
            }
        }
        let servers = host.servers(&row.workspace);
        let session = Arc::new(Self {
            files: PathIndex::new(row.workspace.clone().into(), host.protected.clone()),
            host,
            workspace: row.workspace,
            owner: row.owner,
            approvals,
            front: Mutex::default(),
            servers,
            start_notices,
            is_resumed: opened.is_resumed,
            state: Mutex::new(SessionState { persona: Arc::new(persona), snapshot: Arc::new(snapshot) }),
            agents: Mutex::new(agents),
            factory,
            captures,
            running_turns: Mutex::default(),
            requests,
            results,
            activity,
            gathering: Gathering::new(),
            queue,
            order: Arc::default(),
            moves: ViewMoves::default(),
            log,
            lines,
            files_kept_for: AtomicU64::default(),
            committing: tokio::sync::Mutex::default(),
            _closes: closed.clone().drop_guard(),
            lock: Mutex::new(Some(lock)),
        });
        Some((session, idle_agents))
    }

    /// Returns the store of the host.
    pub fn store(&self) -> &Store {
        &self.host.store
    }

    /// Returns the session's id.
    pub fn id(&self) -> SessionId {
        self.log.session()
    }

    /// Returns the canonical path of the workspace.
    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    /// Returns the number of the last row; 0 if there is none.
    pub fn last_seq(&self) -> u64 {
        self.log.last_seq()
    }

    /// Returns whether `agent` has a row after row `seq`.
    ///
    /// # Errors
    /// The store could not be read or written.
    pub async fn has_row_after(&self, agent: AgentId, seq: u64) -> Result<bool, StoreError> {
        let rows = self.log.store().messages_of(self.id(), agent, seq.saturating_add(1)..=u64::MAX, 1).await?;
        Ok(!rows.is_empty())
    }

    /// Returns the current snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.state().snapshot
    }

    /// Subscribes to the events from row `from` on (1 is the first): first rows from the store, then live events.
    pub fn subscribe(&self, from: u64) -> Subscription {
        self.log.subscribe(from)
    }

    /// Returns whether any agent is running a turn.
    pub fn is_answering(&self) -> bool {
        self.agents.lock().living().any(|agent| agent.is_answering())
    }

    /// Returns whether the session has more than one living agent.
    pub fn has_several_agents(&self) -> bool {
        self.agents.lock().living().len() > 1
    }

    /// Returns the session's title, or else its first words, in at most `max` characters; `None` if it has neither.
    pub async fn title(&self, max: usize) -> Option<String> {
        self.host.first_words(self.id(), max).await.ok().flatten()
    }

    /// Returns the agent that the user sees and talks to.
    pub fn view(&self) -> AgentId {
        self.agents.lock().in_view().id()
    }

    /// Sets the approver that asks the user for missing grants, from the next call on. Without an approver, such a call is
    /// denied with the command that grants the capability.
    pub fn set_approver(&self, approver: Arc<dyn Approver>) {
        self.approvals.set(approver);
    }

    /// Returns how far tools may go without asking.
    pub fn mode(&self) -> Mode {
        self.approvals.mode().get()
    }

    /// Sets how far tools may go without asking, from their next effect on. Only the user may decide this.
    pub fn set_mode(&self, mode: Mode) {
        self.approvals.mode().set(mode);
    }

    /// Sets the editor through which skills that change files read and write, from the next call on.
    /// Without one, they use the disk.
    pub fn set_editor(&self, editor: Arc<dyn Editor>) {
        Arc::make_mut(&mut *self.front.lock()).editor = Some(editor);
    }

    /// Returns the front of the process, as it is now.
    pub fn front(&self) -> Arc<LineClient> {
        Arc::clone(&self.front.lock())
    }

    /// Replaces the tools that the front itself offers to models and skills. A running turn keeps the tools with which it began.
    pub fn set_front_tools(&self, tools: impl IntoIterator<Item = Arc<dyn OutsideTool>>) {
        Arc::make_mut(&mut *self.front.lock()).tools = tools.into_iter().collect();
    }

    /// Replaces the MCP servers that the client names. They start when a turn first needs them. Decisions of `config.toml` do not
    /// apply to them.
    pub fn connect_mcp(&self, servers: Vec<ClientServer>) {
        self.servers.set_named(servers, &self.workspace);
    }

    /// Returns the tools outside of the sandbox for a turn. Starts MCP servers, and publishes a notice about each unavailable
    /// server.
    pub(crate) async fn outside_for_turn(&self, agent: AgentId, client: &LineClient) -> OutsideTools {
        let (packaged, left_out) = self.host.package_servers().await;
        self.servers.set_packaged(packaged, left_out);
        let (served, notices) = self.servers.for_turn().await;
        for text in notices {
            self.log.publish(agent, EventKind::Notice { text });
        }
        with_client_tools(client, &served)
    }

    /// Returns the tools outside of the sandbox that are available without starting a server.
    pub(crate) async fn outside_now(&self, client: &LineClient) -> OutsideTools {
        with_client_tools(client, &self.servers.running().await)
    }

    /// Returns the tools outside of the sandbox for a command that calls a tool of `skill`.
    pub(crate) async fn outside_for(&self, skill: &Skill, agent: AgentId, client: &LineClient) -> OutsideTools {
        let calls_tools = skill.manifest.capabilities.iter().any(|asked| asked.capability == Capability::Tools);
        if calls_tools { self.outside_for_turn(agent, client).await } else { OutsideTools::default() }
    }

    /// Closes the session: rejects new lines, stops running ones, waits until their results are committed, ends its MCP
    /// servers, and releases the session's lock. After that, this or another process may resume it. A second call does nothing.
    pub async fn close(&self) {
        self.lines.close().await;
        self.servers.close().await;
        self.lock.lock().take();
    }

    /// Spawns a task that [`Session::close`] waits for. It must end soon after [`Session::closing`].
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.lines.spawn(task);
    }

    /// Waits until the session begins to close.
    pub async fn closing(&self) {
        self.lines.closing().cancelled().await;
    }

    /// Returns whether [`Session::close`] has been called.
    pub fn is_closing(&self) -> bool {
        self.lines.closing().is_cancelled()
    }

    pub(crate) fn log(&self) -> &Arc<EventLog> {
        &self.log
    }

    pub(crate) fn agents(&self) -> MutexGuard<'_, Agents> {
        self.agents.lock()
    }

    /// Returns the factory that makes the agents of this session.
    pub(crate) fn factory(&self) -> &AgentFactory {
        &self.factory
    }

    pub(crate) fn agent(&self, id: AgentId) -> Option<Arc<Agent>> {
        self.agents.lock().get(id).cloned()
    }

    pub(crate) fn agent_in_view(&self) -> Arc<Agent> {
        Arc::clone(self.agents.lock().in_view())
    }

    /// Returns the model for the next message to `agent`.
    ///
    /// # Errors
    /// An outcome for the user if no model can be used.
    pub(crate) async fn model_of(&self, agent: &Agent) -> Result<Choice, Outcome> {
        let choice = agent.chosen().effective(self.host.providers.as_ref()).await?;
        self.host.providers.check_choice(&choice).await?;
        Ok(choice)
    }

    pub(crate) fn state(&self) -> SessionState {
        self.state.lock().clone()
    }

    /// Changes the state. The caller has already committed the change.
    pub(crate) fn change_state(&self, change: impl FnOnce(&mut SessionState)) {
        change(&mut self.state.lock());
    }
}

fn with_client_tools(client: &LineClient, served: &OutsideTools) -> OutsideTools {
    client.tools.iter().chain(served.iter()).cloned().collect()
}

/// Makes the stored agents of a session, with `view` in view. `rows` has the root first, and parents before their children.
fn tree(
    factory: &AgentFactory,
    rows: &[AgentRow],
    dead_in_view: Option<(AgentRow, Vec<AgentId>)>,
    view: AgentId,
) -> Option<Agents> {
    let make = |row: &AgentRow, ancestors| factory.make(AgentParts::of(row, ancestors));
    let (root, others) = rows.split_first()?;
    let mut agents = Agents::new(make(root, Vec::new()));
    for row in others {
        let parent = agents.get(row.parent?)?;
        let ancestors = std::iter::once(parent.id()).chain(parent.ancestors().iter().copied()).collect();
        agents.add(make(row, ancestors));
    }
    let in_view = match dead_in_view {
        Some((row, ancestors)) => {
            let agent = make(&row, ancestors);
            agent.die();
            agent
        }
        None => Arc::clone(agents.get(view)?),
    };
    agents.set_view(in_view);
    Some(agents)
}
