//! The servers of one session: their tools for a turn, and notices about missing ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::future::join_all;
use parking_lot::Mutex;
use patchbay_core::text;
use patchbay_tools::{OutsideTool, OutsideTools};

use super::{
    checked::CheckedTools,
    packaged::PackagedServer,
    parts::{ClientServer, ServerParts},
    presence::{Presence, as_sentence},
    report::{McpFailure, McpReport, McpToolReport},
    server::{ServerSource, ServerTools},
};
use crate::client::group;

/// How many tools a notice about left-out tools names.
const TOOLS_IN_NOTICE: usize = 5;
/// Length limit of a client's name for a server in a notice, in characters.
const NAME_IN_NOTICE: usize = 80;

/// The servers of one session.
pub struct SessionServers {
    parts: Arc<ServerParts>,
    configured: Vec<Arc<ServerTools>>,
    /// Servers that the client named.
    named: Mutex<ChangingServers>,
    /// Allowed servers of packages.
    packaged: Mutex<ChangingServers>,
    /// Sentences about left-out servers and tools that notices have reported and that are still true.
    reported: Mutex<BTreeSet<String>>,
}

/// Servers that can change while the session is open.
#[derive(Default)]
struct ChangingServers {
    servers: Vec<Arc<ServerTools>>,
    /// Sentences about servers that are left out.
    left_out: Vec<String>,
}

impl SessionServers {
    /// Returns the servers of a session on the folder `workspace`.
    pub fn new(parts: Arc<ServerParts>, workspace: &str) -> Self {
        let configured = parts.configured.iter();
        let configured =
            configured.filter_map(|(name, table)| ServerTools::configured(&parts, name.as_str(), table, workspace));
        let configured = configured.map(Arc::new).collect();
        let (named, packaged, reported) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { configured, parts, named, packaged, reported }
    }

    /// Replaces the servers that the client names. A server that was already named keeps running. If the tools of
    /// several servers would have the same names, only the first server is used.
    pub fn set_named(&self, named: Vec<ClientServer>, workspace: &str) {
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
            let new = ServerTools::from_client(&self.parts, server, workspace);
            let there = current.servers.iter().find(|it| it.identity == new.identity).cloned();
            servers.push(there.unwrap_or_else(|| Arc::new(new)));
        }
        *current = ChangingServers { servers, left_out };
    }

    /// Replaces the allowed servers of packages. A server that has not changed keeps running. `left_out` has a sentence
    /// for each server that cannot be used.
    pub fn set_packaged(&self, packaged: Vec<PackagedServer>, mut left_out: Vec<String>) {
        let mut current = self.packaged.lock();
        let mut servers = Vec::new();
        for server in packaged {
            let name = &server.allowance.name;
            if self.parts.table(name.as_str()).is_some() {
                left_out.push(configured_too(&server));
                continue;
            }
            let is_same =
                |there: &&Arc<ServerTools>| matches!(&there.source, ServerSource::Package(it) if **it == server);
            let there = current.servers.iter().find(is_same).cloned();
            servers.push(there.unwrap_or_else(|| Arc::new(ServerTools::packaged(&self.parts, server))));
        }
        *current = ChangingServers { servers, left_out };
    }

    /// Returns the servers that the operator configured or allowed.
    fn of_operator(&self) -> Vec<Arc<ServerTools>> {
        self.configured.iter().cloned().chain(self.packaged.lock().servers.clone()).collect()
    }

    /// Returns all servers. A server that the client names replaces another server with the same name.
    fn all(&self) -> Vec<Arc<ServerTools>> {
        let named = self.named.lock().servers.clone();
        let groups: BTreeSet<String> = named.iter().map(|server| group(&server.name)).collect();
        let others = self.of_operator().into_iter().filter(|server| !groups.contains(&group(&server.name)));
        others.chain(named).collect()
    }

    /// Returns the tools for a turn, and notices about unavailable servers and about tools and servers that are left
    /// out because of their names. Starts servers that are not running.
    pub async fn for_turn(&self) -> (OutsideTools, Vec<String>) {
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

    /// Returns the sentences about left-out servers and tools that no notice has reported yet. `collisions` are the sentences about
    /// tools.
    fn unreported(&self, collisions: Vec<String>) -> Vec<String> {
        let mut sentences = self.named.lock().left_out.clone();
        sentences.extend(self.packaged.lock().left_out.iter().cloned());
        sentences.extend(collisions);
        let mut reported = self.reported.lock();
        let new = sentences.iter().filter(|sentence| !reported.contains(*sentence)).cloned().collect();
        *reported = sentences.into_iter().collect();
        new
    }

    /// Returns the tools of the running servers, from their latest lists.
    pub async fn running(&self) -> OutsideTools {
        let servers = self.all();
        let mut found = Vec::new();
        for server in &servers {
            if let Some(list) = server.server.running_tools()
                && server.check_decision().await.is_ok()
            {
                found.push((&*server.name, server.checked(list).await));
            }
        }
        joined(&found).0
    }

    /// Starts the server `name` of `config.toml` or of a package, and reports its tools; `None` without such a server.
    ///
    /// # Errors
    /// The reason why the server is not available.
    pub async fn check(&self, name: &str) -> Option<Result<McpReport, McpFailure>> {
        let server = self.of_operator().into_iter().find(|server| server.name == name)?;
        if let Err((state, problem)) = server.check_decision().await {
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
        problems.extend(unused.map(|tool| {
            format!(
                "config.toml has a rule for '{tool}', which is not a usable tool of the \
                server."
            )
        }));
        let tools = checked.tools.iter().map(|tool| McpToolReport {
            name: tool.spec.name().to_owned(),
            decision: tool.decision,
            is_decided: server.decisions.contains_key(&tool.tool),
            only_reads: tool.only_reads,
        });
        Some(Ok(McpReport { about, tools: tools.collect(), problems }))
    }

    /// Ends all servers, and waits until they have ended.
    pub async fn close(&self) {
        let servers = self.of_operator().into_iter().chain(self.named.lock().servers.clone());
        join_all(servers.map(|server| async move { server.server.close().await })).await;
    }
}

/// Returns the tools of several servers. A tool is left out if an earlier server has a tool with the same name. Also returns a
/// sentence about each server with such tools.
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

/// Returns the sentence about a package's server that is left out because `config.toml` has a server with the same name.
fn configured_too(server: &PackagedServer) -> String {
    let allowance = &server.allowance;
    format!(
        "The MCP server '{name}' of package '{}' is left out: config.toml has a table [mcp.{name}]. To give it another name: {}",
        allowance.package,
        server.allow_command(Some("NEW")),
        name = allowance.name,
    )
}

/// Returns the sentence about the client's server `name`, which is left out because the client also named the server `first`.
fn named_again(name: &str, first: &str) -> String {
    let [shown, first_shown] = [name, first].map(|name| text::excerpt(name, NAME_IN_NOTICE));
    if name == first {
        return format!("The client names the MCP server '{shown}' twice; the first one is used.");
    }
    format!(
        "The MCP server '{shown}' of the client is left out: its tools would have the same names as those of '{first_shown}'."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
