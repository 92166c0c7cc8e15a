//! One MCP server of a session: its connection, its checked tools, and the operator's decisions about them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use patchbay_core::{Digest, Hasher, text};
use patchbay_policy::ToolDecision;
use patchbay_store::Store;
use patchbay_tools::{OutsideDeclaration, OutsideOrigin, OutsideSpec, PatternBudget};
use serde_json::Value;
use tokio::time::timeout;

use super::{
    checked::{CheckedTools, McpTool},
    packaged::PackagedServer,
    parts::{ClientAddress, ClientServer, ServerParts},
    presence::{Presence, untrusted},
};
use crate::client::{
    Launch, ListedTool, McpServer, McpServerConfig, ServerAddress, ServerError, ToolList, full_name, group,
};

/// A server and its tools. Each session has its own.
pub(super) struct ServerTools {
    /// The server's name as it occurs in full tool names.
    pub(super) name: String,
    pub(super) source: ServerSource,
    /// The operator's decisions in `config.toml`, by the tool's name at the server.
    pub(super) decisions: BTreeMap<String, ToolDecision>,
    /// The digest that stored decisions about its tools are bound to.
    pub(super) identity: Digest,
    /// Contains the list of trusted workspaces and the allowances.
    store: Store,
    /// The workspace that must be trusted before the program is started, because the program may load code from it.
    /// `None` if trust does not matter.
    trusted_workspace: Option<String>,
    call_ms: u64,
    /// Whether the operator declares that its tools change nothing. `only_reads` of a tool is the server's own claim.
    read_only: bool,
    pub(super) server: McpServer,
    /// The latest list of tools, and its checked form.
    checked: tokio::sync::Mutex<Option<(Arc<ToolList>, Arc<CheckedTools>)>>,
    /// The worst state that notices have reported since the server was ready.
    pub(super) reported: Mutex<Presence>,
}

/// Where a server comes from.
#[derive(PartialEq, Eq)]
pub(super) enum ServerSource {
    /// A table of `config.toml`.
    Config,
    /// A front's client, such as an editor.
    Client,
    /// A package. The operator has allowed the server.
    Package(Box<PackagedServer>),
}

impl ServerTools {
    /// Returns a server with the settings of `table`.
    fn new(
        parts: &ServerParts,
        name: &str,
        source: ServerSource,
        address: ServerAddress,
        identity: Digest,
        table: &McpServerConfig,
    ) -> Self {
        Self {
            name: name.to_owned(),
            source,
            decisions: table.tools.clone(),
            identity,
            store: parts.store.clone(),
            trusted_workspace: None,
            call_ms: table.call_ms,
            read_only: table.read_only,
            server: McpServer::new(name, address, parts.limits(table.start_ms)),
            checked: tokio::sync::Mutex::default(),
            reported: Mutex::default(),
        }
    }

    /// Returns a server of `config.toml`. `None` for a table with neither a command nor a URL, which was already reported when the
    /// file was read.
    pub(super) fn configured(
        parts: &ServerParts,
        name: &str,
        table: &McpServerConfig,
        workspace: &str,
    ) -> Option<Self> {
        let (address, fields) = match (&table.command, &table.url) {
            (Some(command), _) => {
                let words = command.words().to_vec();
                let fields: Vec<String> = words.iter().chain(&table.env).cloned().collect();
                let variables = table.env.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
                let folder = if table.in_workspace { workspace.into() } else { parts.config.clone() };
                let launch = Launch { words, variables: variables.collect(), folder, package: None, unset: None };
                (ServerAddress::Process(launch), fields)
            }
            (None, Some(url)) => {
                let owner = format!("mcp:{name}");
                (parts.endpoint(owner, url.clone(), table.credential.clone(), Vec::new()), vec![url.clone()])
            }
            (None, None) => return None,
        };
        // In another workspace, the same command can run different code.
        let identity = match table.in_workspace {
            true => identity(&["mcp in_workspace", name, workspace], &fields),
            false => identity(&["mcp", name], &fields),
        };
        Some(Self {
            trusted_workspace: table.in_workspace.then(|| workspace.to_owned()),
            ..Self::new(parts, name, ServerSource::Config, address, identity, table)
        })
    }

    /// Returns a server that a client adds to the session.
    pub(super) fn from_client(parts: &ServerParts, server: ClientServer, workspace: &str) -> Self {
        let ClientServer { name, address } = server;
        let joined =
            |pairs: &[(String, String)]| pairs.iter().flat_map(|(name, value)| [name.clone(), value.clone()]).collect();
        let (address, mut fields): (_, Vec<String>) = match address {
            ClientAddress::Process { words, variables } => {
                let fields = joined(&variables);
                let launch = Launch { words, variables, folder: workspace.into(), package: None, unset: None };
                (ServerAddress::Process(launch), fields)
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
        let identity = identity(&["client", &name, workspace], &fields);
        Self::new(parts, &name, ServerSource::Client, address, identity, &McpServerConfig::default())
    }

    /// Returns an allowed server of a package. Stored decisions about its tools survive updates that keep the server's
    /// entry.
    pub(super) fn packaged(parts: &ServerParts, packaged: PackagedServer) -> Self {
        let (allowance, address) = (&packaged.allowance, packaged.address(parts));
        let fields = [allowance.server.clone(), allowance.digest.to_string()];
        let identity = identity(&["package", allowance.package.as_str()], &fields);
        let (name, source) = (allowance.name.clone(), ServerSource::Package(Box::new(packaged)));
        Self::new(parts, name.as_str(), source, address, identity, &McpServerConfig::default())
    }

    /// Appends the command that shows details to a problem, if there is such a command for this server.
    pub(super) fn with_hint(&self, problem: &str) -> String {
        match self.source {
            ServerSource::Config | ServerSource::Package(_) => {
                format!("{problem}. Run 'patchbay mcp check {}' for details", self.name)
            }
            ServerSource::Client => problem.to_owned(),
        }
    }

    /// Checks that the operator still allows the server. Revoking does not stop a running program, but this check hides
    /// its tools and fails their calls.
    ///
    /// # Errors
    /// The state of the server, and the problem. The problem of a server that is not allowed ends in the command that
    /// allows it.
    pub(super) async fn check_decision(&self) -> Result<(), (Presence, String)> {
        let name = &self.name;
        let (is_allowed, problem) = match (&self.source, &self.trusted_workspace) {
            (ServerSource::Package(packaged), _) => {
                let (allowance, command) = (&packaged.allowance, packaged.allow_command(None));
                let problem = format!("the MCP server '{name}' is no longer allowed. To allow it: {command}");
                (self.store.server_allowances().await.map(|allowed| allowed.contains(allowance)), problem)
            }
            (_, Some(workspace)) => (self.store.is_trusted(workspace).await, untrusted(name, workspace)),
            (_, None) => return Ok(()),
        };
        match is_allowed {
            Ok(true) => Ok(()),
            Ok(false) => Err((Presence::Untrusted, problem)),
            Err(error) => Err((Presence::Unavailable, format!("the MCP server '{name}' is not available: {error}"))),
        }
    }

    pub(super) async fn tools(self: &Arc<Self>) -> Result<Arc<CheckedTools>, ServerError> {
        let list = self.server.tools().await?;
        Ok(self.checked(list).await)
    }

    /// Returns the tools if the server is ready within `wait`. If their list has changed but takes longer to read, this
    /// returns the previous list.
    ///
    /// # Errors
    /// The state of the server, and the problem, as the text of a notice.
    pub(super) async fn tools_within(
        self: &Arc<Self>,
        wait: Duration,
    ) -> Result<Arc<CheckedTools>, (Presence, String)> {
        self.check_decision().await?;
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
        let problem =
            format!("the MCP server '{}' is not ready yet; its tools will be available in a later turn", self.name);
        Err((Presence::Starting, problem))
    }

    /// Returns the checked form of `list`, from a cache if the list is unchanged. Schemas are compiled on a blocking
    /// thread.
    pub(super) async fn checked(self: &Arc<Self>, list: Arc<ToolList>) -> Arc<CheckedTools> {
        let mut last = self.checked.lock().await;
        if let Some((seen, checked)) = &*last
            && Arc::ptr_eq(seen, &list)
        {
            return Arc::clone(checked);
        }
        let (server, new) = (Arc::clone(self), Arc::clone(&list));
        // The default is unreachable: the task does not panic and is not cancelled.
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
                let problem =
                    format!("Tool '{}' is left out: like '{}', it would be named '{name}'.", tool.name, other.tool);
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
        let default = if tool.only_reads { ToolDecision::Allow } else { ToolDecision::Ask };
        self.decisions.get(&tool.name).copied().unwrap_or(default)
    }

    fn declaration(&self, name: String, tool: &ListedTool) -> OutsideDeclaration {
        let server = &self.name;
        let is_key = tool.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        let key = if is_key { tool.name.clone() } else { Value::from(tool.name.as_str()).to_string() };
        let (origin, advice, time_key) = match self.source {
            ServerSource::Config => (
                OutsideOrigin::Mcp,
                format!("To allow it: set tools.{key} = \"allow\" in [mcp.{server}] of config.toml"),
                format!("mcp.{server}.call_ms"),
            ),
            ServerSource::Client => (
                OutsideOrigin::Client,
                "The user can allow it when asked".to_owned(),
                "fixed for servers of clients".to_owned(),
            ),
            ServerSource::Package(_) => (
                OutsideOrigin::Mcp,
                "The user can allow it when asked".to_owned(),
                "fixed for servers of packages".to_owned(),
            ),
        };
        OutsideDeclaration {
            name,
            origin,
            group: group(server),
            tool: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
            is_destructive: tool.is_destructive,
            advice: text::clean_line(&advice),
            identity: self.identity,
            is_read_only: self.read_only,
            per_workspace: self.trusted_workspace.is_some(),
            for_skills: true,
            time: Duration::from_millis(self.call_ms),
            time_key,
        }
    }
}

/// Returns the digest that stored decisions about a server's tools are bound to.
fn identity(names: &[&str], fields: &[String]) -> Digest {
    let mut hasher = Hasher::default();
    for field in names.iter().copied().chain(fields.iter().map(String::as_str)) {
        hasher.field(field);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use patchbay_egress::Credentials;
    use patchbay_sandbox::Limits;

    use super::*;

    #[cfg(unix)]
    #[tokio::test]
    async fn tools_stay_while_their_changed_list_is_read() {
        // This server announces a change before its first list, and never responds to the second request for the list.
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
        let parts = ServerParts::new(BTreeMap::new(), store, config, credentials, &Limits::default());
        let words = ["sh", "-c", script].map(str::to_owned).to_vec();
        let address = ClientAddress::Process { words, variables: Vec::new() };
        let named = ClientServer { name: "test".to_owned(), address };
        let server = Arc::new(ServerTools::from_client(&parts, named, &folder.path().display().to_string()));
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
}
