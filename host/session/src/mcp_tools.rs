//! The tools of MCP servers: those of `config.toml`, and those that the client of a front names. Each session has its own servers;
//! they start when a turn first needs them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::join_all;
use parking_lot::Mutex;
use patchbay_core::{Digest, Hasher, Name, text};
use patchbay_egress::{Credentials, Egress, EgressError, EgressLimits};
use patchbay_mcp::client::{
    HttpEndpoint, Launch, ListedTool, McpServer, McpServerConfig, ServerAbout, ServerAddress, ServerError,
    ServerLimits, ToolList, full_name, group,
};
use patchbay_policy::{ToolDecision, quoted_folder};
use patchbay_sandbox::{BoxFuture, Content, Limits};
use patchbay_store::Store;
use patchbay_tools::{
    OutsideCall, OutsideDeclaration, OutsideError, OutsideOrigin, OutsideSpec, OutsideTool, OutsideTools, PatternBudget,
};
use serde_json::Value;
use tokio::time::timeout;

/// How long the begin of a turn waits for servers that start. The tools of slower ones join a later turn.
const TURN_WAIT: Duration = Duration::from_secs(20);
/// Time that the start of a turn waits for a server that a notice has already reported as missing.
const REPORTED_WAIT: Duration = Duration::from_secs(1);
/// How long the begin of a turn waits for a list that has changed.
const LIST_WAIT: Duration = Duration::from_secs(5);

/// Tools that a notice about those that are left out names.
const TOOLS_IN_NOTICE: usize = 5;
/// Length limit of a client's name for a server in a notice, in characters.
const NAME_IN_NOTICE: usize = 80;

/// The largest limits of a request over HTTP that egress accepts.
const MOST_MS: u64 = 3_600_000;
const MOST_BYTES: u64 = 1 << 30;

/// An MCP server that the client of a front names for a session.
#[derive(Clone)]
pub struct ClientServer {
    /// The client's name for it.
    pub name: String,
    /// How it is reached.
    pub address: ClientAddress,
}

/// How a server that a client names is reached. Values of variables and headers can be secrets.
#[derive(Clone)]
pub enum ClientAddress {
    /// It is started in the workspace.
    Process {
        /// The program, then its arguments.
        words: Vec<String>,
        /// Variables that the program gets besides the few that every server gets.
        variables: Vec<(String, String)>,
    },
    /// It runs, and answers over streamable HTTP.
    Http {
        /// Its URL.
        url: String,
        /// Headers of each request.
        headers: Vec<(String, String)>,
    },
}

/// What all servers of a process share.
pub(crate) struct ServerParts {
    pub(crate) configured: BTreeMap<Name, McpServerConfig>,
    /// Has the trusted workspaces.
    pub(crate) store: Store,
    /// The configuration folder.
    pub(crate) config: PathBuf,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) egress: Egress,
    /// Bytes of a message.
    pub(crate) message_bytes: usize,
}

/// The servers of one session.
pub(crate) struct SessionServers {
    parts: Arc<ServerParts>,
    configured: Vec<Arc<ServerTools>>,
    /// Those that the client named.
    named: Mutex<NamedServers>,
    /// The sentences about names that notices have reported and that still hold.
    reported: Mutex<BTreeSet<String>>,
}

/// The servers that the client of a front named.
#[derive(Default)]
struct NamedServers {
    servers: Vec<Arc<ServerTools>>,
    /// Sentences about servers that are left out because of their names.
    left_out: Vec<String>,
}

/// One server with the decisions about its tools.
struct ServerTools {
    /// Its name in full names.
    name: String,
    origin: OutsideOrigin,
    decisions: BTreeMap<String, ToolDecision>,
    /// What stored decisions about its tools are bound to.
    identity: Digest,
    /// The trust without which the program is not started; `None` if it is not started in a workspace, or if the client of a
    /// front named it.
    needed_trust: Option<NeededTrust>,
    call_ms: u64,
    server: McpServer,
    /// The checked form of the list that was seen last.
    checked: tokio::sync::Mutex<Option<(Arc<ToolList>, Arc<CheckedTools>)>>,
    /// The state that a notice has reported last, since it was ready.
    reported: Mutex<Presence>,
}

/// The trust in a workspace that a program needs before it is started there: it may load code from that folder.
struct NeededTrust {
    store: Store,
    /// The canonical path of the workspace.
    workspace: String,
}

/// Whether a server is there, from good to bad. A notice reports each worse state once, until the server is ready again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Presence {
    #[default]
    Ready,
    /// It is not ready yet.
    Starting,
    Unavailable,
    /// It is not started again.
    GivenUp,
    /// It is not started in a workspace that is not trusted.
    Untrusted,
}

impl Presence {
    /// Returns how long the begin of a turn waits for a server whose last reported state is this one.
    fn turn_wait(self) -> Duration {
        // An untrusted server costs no time. Once its workspace is trusted, it needs the time of any first start.
        if matches!(self, Self::Ready | Self::Untrusted) { TURN_WAIT } else { REPORTED_WAIT }
    }

    /// Notes the state `now`. Returns whether a notice is to report it. The words about a server that is not there can differ each
    /// time: they are reported once for each state.
    fn reports(&mut self, now: Self) -> bool {
        // When the workspace is trusted, the server starts for the first time.
        if *self == Self::Untrusted && now != Self::Untrusted {
            *self = Self::Ready;
        }
        let is_new = now > *self;
        *self = if now == Self::Ready { now } else { now.max(*self) };
        is_new
    }
}

/// The tools of a server that models can call.
#[derive(Default)]
struct CheckedTools {
    tools: Vec<Arc<McpTool>>,
    problems: Vec<String>,
}

/// A tool of a server.
struct McpTool {
    spec: OutsideSpec,
    /// The name at the server.
    tool: String,
    only_reads: bool,
    server: Weak<ServerTools>,
    decision: ToolDecision,
}

/// A server as `patchbay mcp check` shows it.
#[derive(Clone, Debug)]
pub struct McpReport {
    /// What the server says about itself.
    pub about: ServerAbout,
    /// Its tools, in its order.
    pub tools: Vec<McpToolReport>,
    /// What was left out or has no effect, and why: sentences.
    pub problems: Vec<String>,
}

/// Why a server cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpFailure {
    /// What is wrong, with the server's name: a sentence, without its full stop if it ends in a command.
    pub problem: String,
    /// The last lines that it printed on standard error. They can hold secrets of the operator: not for models.
    pub printed: Vec<String>,
}

/// A tool as `patchbay mcp check` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpToolReport {
    /// The full name, for models.
    pub name: String,
    /// Whether it may be called.
    pub decision: ToolDecision,
    /// Whether `config.toml` says so; otherwise the server's own mark decides.
    pub is_decided: bool,
    /// Whether the server marks it as read-only.
    pub only_reads: bool,
}

impl ServerParts {
    /// Returns the parts for `configured` servers. `store` has the trusted workspaces, `config` is the configuration folder.
    ///
    /// # Errors
    /// [`EgressError`], never with these limits.
    pub(crate) fn new(
        configured: BTreeMap<Name, McpServerConfig>,
        store: Store,
        config: PathBuf,
        credentials: Credentials,
        limits: &Limits,
    ) -> Result<Self, EgressError> {
        // Base64 and escapes make a message longer than what it carries.
        let message_bytes = limits.output_bytes.saturating_mul(2).saturating_add(1 << 20);
        let bytes = (message_bytes as u64).saturating_mul(2).min(MOST_BYTES);
        // Calls have limits of their own, and a call that is stopped ends its request.
        let egress = Egress::new(EgressLimits {
            time_ms: MOST_MS,
            idle_ms: MOST_MS,
            request_bytes: message_bytes.min(MOST_BYTES as usize),
            wire_bytes: bytes,
            body_bytes: bytes,
            ..EgressLimits::default()
        })?;
        Ok(Self { configured, store, config, credentials: Arc::new(credentials), egress, message_bytes })
    }

    fn limits(&self, start_ms: u64) -> ServerLimits {
        let start = Duration::from_millis(start_ms);
        ServerLimits { start, list: LIST_WAIT, message_bytes: self.message_bytes }
    }

    fn endpoint(
        &self,
        owner: String,
        url: String,
        credential: Option<Name>,
        headers: Vec<(String, String)>,
    ) -> ServerAddress {
        let (credentials, egress) = (Arc::clone(&self.credentials), self.egress.clone());
        ServerAddress::Http(Box::new(HttpEndpoint { url, credential, headers, credentials, egress, owner }))
    }
}

impl SessionServers {
    /// Returns the servers of a session on the folder `workspace`.
    pub(crate) fn new(parts: Arc<ServerParts>, workspace: &str) -> Self {
        let configured = parts.configured.iter();
        let configured =
            configured.filter_map(|(name, table)| ServerTools::configured(&parts, name.as_str(), table, workspace));
        let configured = configured.map(Arc::new).collect();
        Self { configured, parts, named: Mutex::default(), reported: Mutex::default() }
    }

    /// Sets the servers that the client names, in place of those that it named before. A server that it names again stays. Of
    /// servers whose tools would have the same names, the first one is used.
    pub(crate) fn set_named(&self, named: Vec<ClientServer>, workspace: &str) {
        let mut current = self.named.lock();
        let mut names = BTreeMap::<String, String>::new();
        let (mut servers, mut left_out) = (Vec::new(), Vec::new());
        for server in named {
            let tool_group = group(&server.name);
            if let Some(first) = names.get(&tool_group) {
                left_out.push(named_again(&server.name, first));
                continue;
            }
            names.insert(tool_group, server.name.clone());
            let new = ServerTools::named(&self.parts, server, workspace);
            let there = current.servers.iter().find(|it| it.identity == new.identity).cloned();
            servers.push(there.unwrap_or_else(|| Arc::new(new)));
        }
        *current = NamedServers { servers, left_out };
    }

    /// Returns all servers. One that the client names takes the place of one of `config.toml` with its name.
    fn all(&self) -> Vec<Arc<ServerTools>> {
        let named = self.named.lock().servers.clone();
        let groups: BTreeSet<String> = named.iter().map(|server| group(&server.name)).collect();
        let configured = self.configured.iter().filter(|server| !groups.contains(&group(&server.name)));
        configured.cloned().chain(named).collect()
    }

    /// Returns the tools for a turn, and notices about servers that are not there and about tools and servers that are left out
    /// because of their names. Starts servers that do not run.
    pub(crate) async fn for_turn(&self) -> (OutsideTools, Vec<String>) {
        let servers = self.all();
        let asked = join_all(servers.iter().map(|server| async {
            let wait = server.reported.lock().turn_wait();
            server.tools_within(wait).await
        }))
        .await;
        let mut notices = Vec::new();
        let mut found = Vec::new();
        for (server, tools) in servers.iter().zip(asked) {
            let state = tools.as_ref().err().map_or(Presence::Ready, |(state, _)| *state);
            let is_new = server.reported.lock().reports(state);
            match tools {
                Ok(tools) => found.push((&*server.name, tools)),
                Err((state, problem)) if is_new => notices.push(as_sentence(state, problem)),
                Err(_) => {}
            }
        }
        let (tools, collisions) = joined(&found);
        notices.extend(self.unreported(collisions));
        (tools, notices)
    }

    /// Returns the sentences about names that no notice has reported yet. `collisions` are those about tools.
    fn unreported(&self, collisions: Vec<String>) -> Vec<String> {
        let mut sentences = self.named.lock().left_out.clone();
        sentences.extend(collisions);
        let mut reported = self.reported.lock();
        let new = sentences.iter().filter(|sentence| !reported.contains(*sentence)).cloned().collect();
        *reported = sentences.into_iter().collect();
        new
    }

    /// Returns the tools of the servers that run, as they were listed last.
    pub(crate) async fn running(&self) -> OutsideTools {
        let servers = self.all();
        let mut found = Vec::new();
        for server in &servers {
            if let Some(list) = server.server.running_tools()
                && server.check_trust().await.is_ok()
            {
                found.push((&*server.name, server.checked(list).await));
            }
        }
        joined(&found).0
    }

    /// Starts the server `name` of `config.toml` and reports its tools; `None` without such a server.
    ///
    /// # Errors
    /// Why it is not available.
    pub(crate) async fn check(&self, name: &str) -> Option<Result<McpReport, McpFailure>> {
        let server = self.configured.iter().find(|server| server.name == name)?;
        if let Err((state, problem)) = server.check_trust().await {
            let problem = as_sentence(state, problem);
            return Some(Err(McpFailure { problem, printed: Vec::new() }));
        }
        let checked = match server.tools().await {
            Ok(checked) => checked,
            Err(error) => {
                return Some(Err(McpFailure { problem: format!("{error}."), printed: server.server.printed() }));
            }
        };
        let Some(about) = server.server.about() else {
            let problem = format!("the MCP server '{name}' has ended.");
            return Some(Err(McpFailure { problem, printed: server.server.printed() }));
        };
        let mut problems = checked.problems.clone();
        let unused = server.decisions.keys().filter(|tool| !checked.tools.iter().any(|it| it.tool == **tool));
        problems.extend(
            unused.map(|tool| format!("config.toml decides about '{tool}', which is no usable tool of the server.")),
        );
        let tools = checked.tools.iter().map(|tool| McpToolReport {
            name: tool.spec.name().to_owned(),
            decision: tool.decision,
            is_decided: server.decisions.contains_key(&tool.tool),
            only_reads: tool.only_reads,
        });
        Some(Ok(McpReport { about, tools: tools.collect(), problems }))
    }

    /// Ends all servers, and waits until they have ended.
    pub(crate) async fn close(&self) {
        let servers = self.configured.iter().cloned().chain(self.named.lock().servers.clone());
        join_all(servers.map(|server| async move { server.server.close().await })).await;
    }
}

/// Returns the tools of several servers, and a sentence about each server whose tools have names of tools of earlier servers: those
/// tools are left out.
fn joined(found: &[(&str, Arc<CheckedTools>)]) -> (OutsideTools, Vec<String>) {
    let mut names = BTreeSet::new();
    let (mut tools, mut collisions) = (Vec::new(), Vec::new());
    for (server, checked) in found {
        let mut left_out = Vec::new();
        for tool in &checked.tools {
            let name = tool.spec.name();
            if names.insert(name) {
                tools.push(Arc::clone(tool) as Arc<dyn OutsideTool>);
            } else {
                left_out.push(name);
            }
        }
        if !left_out.is_empty() {
            collisions.push(same_tools(server, &left_out));
        }
    }
    (tools.into_iter().collect(), collisions)
}

/// Returns the sentence about tools of `server` that are left out, because an earlier server has tools with these `names`.
fn same_tools(server: &str, names: &[&str]) -> String {
    let server = text::excerpt(server, NAME_IN_NOTICE);
    let shown = names[..names.len().min(TOOLS_IN_NOTICE)].join(", ");
    let more = match names.len().saturating_sub(TOOLS_IN_NOTICE) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match names.len() {
        1 => format!(
            "1 tool of the MCP server '{server}' is left out; another server has a tool with this name: {shown}."
        ),
        count => format!(
            "{count} tools of the MCP server '{server}' are left out; other servers have tools with these names: \
             {shown}{more}."
        ),
    }
}

/// Returns the sentence about the server `name` of the client, which is left out because of its server `first`.
fn named_again(name: &str, first: &str) -> String {
    let [shown, first_shown] = [name, first].map(|name| text::excerpt(name, NAME_IN_NOTICE));
    if name == first {
        return format!("The client names the MCP server '{shown}' twice; the first one is used.");
    }
    format!(
        "The MCP server '{shown}' of the client is left out: its tools would have the same names as those of '{first_shown}'."
    )
}

/// Ends the problem of a server in this state with a full stop, unless it ends in a command: a pasted full stop would be part of it.
fn as_sentence(state: Presence, problem: String) -> String {
    if state == Presence::Untrusted { problem } else { format!("{problem}.") }
}

/// Returns why the server `name` does not run in the folder `workspace`, which is not trusted.
fn untrusted(name: &str, workspace: &str) -> String {
    format!(
        "the MCP server '{name}' was not started: it runs in the workspace (in_workspace), where it may load code, and this \
         workspace is not trusted. To trust it: patchbay trust add {}",
        quoted_folder(workspace)
    )
}

impl ServerTools {
    /// Returns a server of `config.toml`; `None` for a table that was refused when it was read.
    fn configured(parts: &ServerParts, name: &str, table: &McpServerConfig, workspace: &str) -> Option<Self> {
        let needed_trust =
            table.in_workspace.then(|| NeededTrust { store: parts.store.clone(), workspace: workspace.to_owned() });
        let (address, fields) = match (&table.command, &table.url) {
            (Some(command), _) => {
                let words = command.words().to_vec();
                let fields = words.iter().chain(&table.env).cloned().collect();
                let variables = table.env.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
                let folder = if table.in_workspace { workspace.into() } else { parts.config.clone() };
                (ServerAddress::Process(Launch { words, variables: variables.collect(), folder }), fields)
            }
            (None, Some(url)) => {
                let owner = format!("mcp:{name}");
                (parts.endpoint(owner, url.clone(), table.credential.clone(), Vec::new()), vec![url.clone()])
            }
            (None, None) => return None,
        };
        let limits = parts.limits(table.start_ms);
        Some(Self {
            name: name.to_owned(),
            origin: OutsideOrigin::Mcp,
            decisions: table.tools.clone(),
            // In another workspace, the same command runs other code.
            identity: match &needed_trust {
                Some(NeededTrust { workspace, .. }) => identity(&["mcp in_workspace", name, workspace], &fields),
                None => identity(&["mcp", name], &fields),
            },
            needed_trust,
            call_ms: table.call_ms,
            server: McpServer::new(name, address, limits),
            checked: tokio::sync::Mutex::default(),
            reported: Mutex::default(),
        })
    }

    fn named(parts: &ServerParts, named: ClientServer, workspace: &str) -> Self {
        let ClientServer { name, address } = named;
        // The defaults of `config.toml`.
        let McpServerConfig { start_ms, call_ms, .. } = McpServerConfig::default();
        let joined =
            |pairs: &[(String, String)]| pairs.iter().flat_map(|(name, value)| [name.clone(), value.clone()]).collect();
        let (address, mut fields): (_, Vec<String>) = match address {
            ClientAddress::Process { words, variables } => {
                let fields = joined(&variables);
                (ServerAddress::Process(Launch { words, variables, folder: workspace.into() }), fields)
            }
            ClientAddress::Http { url, headers } => {
                let fields = joined(&headers);
                (parts.endpoint(format!("client:{name}"), url, None, headers), fields)
            }
        };
        match &address {
            ServerAddress::Process(launch) => fields.extend(launch.words.iter().cloned()),
            ServerAddress::Http(endpoint) => fields.push(endpoint.url.clone()),
        }
        let limits = parts.limits(start_ms);
        Self {
            origin: OutsideOrigin::Client,
            decisions: BTreeMap::new(),
            identity: identity(&["client", &name, workspace], &fields),
            needed_trust: None,
            call_ms,
            server: McpServer::new(&name, address, limits),
            name,
            checked: tokio::sync::Mutex::default(),
            reported: Mutex::default(),
        }
    }

    /// Adds how to learn more to a problem of the server.
    fn with_hint(&self, problem: &str) -> String {
        match self.origin {
            OutsideOrigin::Mcp => format!("{problem}. 'patchbay mcp check {}' shows more", self.name),
            OutsideOrigin::Client => problem.to_owned(),
        }
    }

    /// Checks at this moment that the program may be started. Trust that was taken back ends no program, but its tools are gone.
    ///
    /// # Errors
    /// The state of the server, and the problem, which ends in the command that gives the trust.
    async fn check_trust(&self) -> Result<(), (Presence, String)> {
        let Some(NeededTrust { store, workspace }) = &self.needed_trust else { return Ok(()) };
        let name = &self.name;
        match store.is_trusted(workspace).await {
            Ok(true) => Ok(()),
            Ok(false) => Err((Presence::Untrusted, untrusted(name, workspace))),
            Err(error) => Err((Presence::Unavailable, format!("the MCP server '{name}' is not available: {error}"))),
        }
    }

    async fn tools(self: &Arc<Self>) -> Result<Arc<CheckedTools>, ServerError> {
        let list = self.server.tools().await?;
        Ok(self.checked(list).await)
    }

    /// Returns the tools if the server is ready within `wait`: as they were listed last, if their list has changed and is not read by
    /// then.
    ///
    /// # Errors
    /// The state of the server, and the problem for a notice.
    async fn tools_within(self: &Arc<Self>, wait: Duration) -> Result<Arc<CheckedTools>, (Presence, String)> {
        self.check_trust().await?;
        match timeout(wait, self.tools()).await {
            Ok(Ok(tools)) => return Ok(tools),
            Ok(Err(error)) => {
                let is_given_up = matches!(error, ServerError::GivenUp(_));
                let state = if is_given_up { Presence::GivenUp } else { Presence::Unavailable };
                return Err((state, self.with_hint(&error.to_string())));
            }
            Err(_) => {}
        }
        if let Some(list) = self.server.running_tools() {
            return Ok(self.checked(list).await);
        }
        let problem = format!("the MCP server '{}' is not ready yet; its tools join a later turn", self.name);
        Err((Presence::Starting, problem))
    }

    /// Returns the checked form of `list`. Schemas are compiled on a thread for blocking work.
    async fn checked(self: &Arc<Self>, list: Arc<ToolList>) -> Arc<CheckedTools> {
        let mut last = self.checked.lock().await;
        if let Some((seen, checked)) = &*last
            && Arc::ptr_eq(seen, &list)
        {
            return Arc::clone(checked);
        }
        let (server, new) = (Arc::clone(self), Arc::clone(&list));
        // The task neither panics nor is cancelled.
        let checked = tokio::task::spawn_blocking(move || server.check_all(&new)).await.unwrap_or_default();
        let checked = Arc::new(checked);
        *last = Some((list, Arc::clone(&checked)));
        checked
    }

    fn check_all(self: &Arc<Self>, list: &ToolList) -> CheckedTools {
        let mut checked = CheckedTools { tools: Vec::new(), problems: list.problems.clone() };
        let mut patterns = PatternBudget::default();
        for tool in &list.tools {
            let name = full_name(&self.name, &tool.name);
            if let Some(other) = checked.tools.iter().find(|other| other.spec.name() == name) {
                let problem = format!("Tool '{}' is left out: '{}' has the name '{name}' too.", tool.name, other.tool);
                checked.problems.push(text::clean_line(&problem));
                continue;
            }
            match OutsideSpec::new(self.declaration(name, tool), &mut patterns) {
                Ok(spec) => checked.tools.push(Arc::new(McpTool {
                    spec,
                    tool: tool.name.clone(),
                    only_reads: tool.only_reads,
                    decision: self.decision(tool),
                    server: Arc::downgrade(self),
                })),
                Err(problem) => checked.problems.push(format!("A tool is left out. {problem}")),
            }
        }
        checked
    }

    fn decision(&self, tool: &ListedTool) -> ToolDecision {
        let unsaid = if tool.only_reads { ToolDecision::Allow } else { ToolDecision::Ask };
        self.decisions.get(&tool.name).copied().unwrap_or(unsaid)
    }

    fn declaration(&self, name: String, tool: &ListedTool) -> OutsideDeclaration {
        let server = &self.name;
        let is_key = tool.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        let key = if is_key { tool.name.clone() } else { Value::from(tool.name.as_str()).to_string() };
        let advice = match self.origin {
            OutsideOrigin::Mcp => {
                format!("To allow it: write tools.{key} = \"allow\" in [mcp.{server}] of config.toml")
            }
            OutsideOrigin::Client => "A person can allow it when asked".to_owned(),
        };
        OutsideDeclaration {
            name,
            origin: self.origin,
            group: group(server),
            tool: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
            is_destructive: tool.is_destructive,
            advice: text::clean_line(&advice),
            identity: self.identity,
            per_workspace: self.needed_trust.is_some(),
            for_skills: true,
            time: Duration::from_millis(self.call_ms),
            time_key: match self.origin {
                OutsideOrigin::Mcp => format!("mcp.{server}.call_ms"),
                OutsideOrigin::Client => "the limit of servers that a client names".to_owned(),
            },
        }
    }
}

/// Returns what stored decisions about the tools of a server are bound to.
fn identity(names: &[&str], fields: &[String]) -> Digest {
    let mut hasher = Hasher::default();
    for field in names.iter().copied().chain(fields.iter().map(String::as_str)) {
        hasher.field(field);
    }
    hasher.finish()
}

impl OutsideTool for McpTool {
    fn spec(&self) -> &OutsideSpec {
        &self.spec
    }

    fn decision(&self) -> ToolDecision {
        self.decision
    }

    fn call<'a>(&'a self, call: OutsideCall<'a>) -> BoxFuture<'a, Result<Vec<Content>, OutsideError>> {
        Box::pin(async move {
            let server = self.server.upgrade();
            let server = server.ok_or_else(|| OutsideError::Unavailable("its MCP server is closed".to_owned()))?;
            // The call may start the program again.
            server.check_trust().await.map_err(|(_, problem)| OutsideError::Unavailable(problem))?;
            let Value::Object(arguments) = call.input.clone() else {
                return Err(OutsideError::InvalidAnswer("the input is not an object".to_owned()));
            };
            server.server.call(&self.tool, arguments, call.progress).await.map_err(|error| match error {
                ServerError::Unavailable(problem) | ServerError::GivenUp(problem) => {
                    OutsideError::Unavailable(server.with_hint(&problem))
                }
                ServerError::Protocol(problem) => OutsideError::InvalidAnswer(problem),
                ServerError::Failed(words) => OutsideError::Failed(words),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_of_a_server_is_reported_once() {
        use Presence::{GivenUp, Ready, Starting, Unavailable, Untrusted};
        let mut reported = Presence::default();
        let states = [Ready, Starting, Starting, Unavailable, Starting, Unavailable, Unavailable, GivenUp, GivenUp];
        assert_eq!(
            states.map(|state| reported.reports(state)),
            [false, true, false, true, false, false, false, true, false]
        );
        assert_eq!([Ready, Unavailable, Starting].map(|state| reported.reports(state)), [false, true, false]);
        let states = [Untrusted, Untrusted, Starting, Unavailable, Untrusted, Ready];
        assert_eq!(states.map(|state| reported.reports(state)), [true, false, true, true, true, false]);
    }

    #[test]
    fn turn_waits_for_a_missing_server_only_until_it_is_reported() {
        let mut reported = Presence::default();
        assert_eq!(reported.turn_wait(), TURN_WAIT);
        reported.reports(Presence::Starting);
        assert_eq!(reported.turn_wait(), REPORTED_WAIT);
        reported.reports(Presence::Ready);
        assert_eq!(reported.turn_wait(), TURN_WAIT);
        reported.reports(Presence::Untrusted);
        assert_eq!(reported.turn_wait(), TURN_WAIT);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn tools_stay_while_their_changed_list_is_read() {
        // It announces a change before its first list, and answers no second request for it.
        let script = r#"
            read line
            id=${line##*'"id":'}
            info='"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"test","version":"1"}'
            echo "{\"jsonrpc\":\"2.0\",\"id\":${id%%[,\}]*},\"result\":{$info}}"
            read line
            read line
            id=${line##*'"id":'}
            echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
            tool='{"name":"t","inputSchema":{"type":"object"}}'
            echo "{\"jsonrpc\":\"2.0\",\"id\":${id%%[,\}]*},\"result\":{\"tools\":[$tool]}}"
            while read line; do :; done
        "#;
        let folder = tempfile::tempdir().unwrap();
        let credentials = Credentials::open(folder.path(), BTreeMap::new());
        let (store, config) = (Store::open(folder.path()).unwrap(), folder.path().to_owned());
        let parts = ServerParts::new(BTreeMap::new(), store, config, credentials, &Limits::default()).unwrap();
        let words = ["sh", "-c", script].map(str::to_owned).to_vec();
        let address = ClientAddress::Process { words, variables: Vec::new() };
        let named = ClientServer { name: "test".to_owned(), address };
        let server = Arc::new(ServerTools::named(&parts, named, &folder.path().display().to_string()));
        let within_no_time = async || server.tools_within(Duration::ZERO).await.map(|checked| checked.tools.len());
        assert_eq!(within_no_time().await.map_err(|(state, _)| state), Err(Presence::Starting));
        let ready = async {
            while server.server.running_tools().is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(60), ready).await.unwrap();
        assert_eq!(within_no_time().await, Ok(1));
        server.server.close().await;
    }

    #[test]
    fn command_that_trusts_the_workspace_is_quoted() {
        let problem = untrusted("helper", "/home/ada/it's mine");
        assert!(problem.ends_with(r#"To trust it: patchbay trust add "/home/ada/it's mine""#), "{problem}");
    }

    #[test]
    fn tools_that_are_left_out_are_named() {
        assert_eq!(
            same_tools("a__b", &["mcp__a__b__c"]),
            "1 tool of the MCP server 'a__b' is left out; another server has a tool with this name: mcp__a__b__c."
        );
        assert_eq!(
            same_tools("x", &["1", "2", "3", "4", "5", "6", "7"]),
            "7 tools of the MCP server 'x' are left out; other servers have tools with these names: 1, 2, 3, 4, 5 and 2 more."
        );
    }

    #[test]
    fn servers_that_are_left_out_are_named() {
        assert_eq!(named_again("a", "a"), "The client names the MCP server 'a' twice; the first one is used.");
        assert_eq!(
            named_again("my server\u{1b}", "my_server"),
            "The MCP server 'my server' of the client is left out: its tools would have the same names as those of 'my_server'."
        );
    }
}
