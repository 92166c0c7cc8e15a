//! `patchbay mcp list` and `patchbay mcp check`: the MCP servers of `config.toml`. `main` calls it.

use std::{collections::BTreeMap, path::Path, process::ExitCode, sync::Arc};

use patchbay_core::{Code, Name, text::clean_line};
use patchbay_mcp::client::McpServerConfig;
use patchbay_policy::{ToolDecision, quoted};
use patchbay_session::{Host, McpFailure, McpReport, McpToolReport};
use serde_json::json;

use crate::{
    CliError,
    args::McpCommand,
    config::ConfigFile,
    out::{note, say},
};

/// Runs a command. `open` opens the host, which only `check` needs.
pub(crate) async fn run(
    command: McpCommand,
    config: ConfigFile,
    open: impl FnOnce(ConfigFile) -> Result<Arc<Host>, CliError>,
) -> Result<ExitCode, CliError> {
    match command {
        McpCommand::List { json } => list(&config.mcp, json),
        McpCommand::Check { name, workspace, json } => {
            if !config.mcp.contains_key(&name) {
                let names: Vec<_> = config.mcp.keys().map(Name::as_str).collect();
                let there =
                    if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
                let message = format!("config.toml has no MCP server '{name}'; {there}.");
                return Err(CliError::new(Code::McpServerNotFound, message));
            }
            let host = open(config)?;
            check(&host, &name, workspace.as_deref().unwrap_or(Path::new(".")), json).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(servers: &BTreeMap<Name, McpServerConfig>, json: bool) {
    if servers.is_empty() && !json {
        say!("No MCP servers are configured. To add one, write a table [mcp.NAME] in config.toml; see docs/mcp.md.");
    }
    for (name, server) in servers {
        let words = server.command.as_ref().map(|command| command.words()).unwrap_or_default();
        // A query can hold a secret.
        let url = server.url.as_ref().map(|url| url.split('?').next().unwrap_or_default());
        if json {
            let (env, credential, tools) = (&server.env, &server.credential, &server.tools);
            say!(
                "{}",
                json!({"name": name, "command": words, "url": url, "env": env, "credential": credential, "tools": tools})
            );
            continue;
        }
        let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
        say!("{name}: {}", clean_line(&url.map_or_else(|| words.join(" "), str::to_owned)));
        if let Some(credential) = &server.credential {
            say!("  credential: {credential}");
        }
        if !server.env.is_empty() {
            say!("  variables: {}", server.env.join(", "));
        }
        let decided: Vec<_> =
            server.tools.iter().map(|(tool, decision)| format!("{tool} {}", decision.as_str())).collect();
        if !decided.is_empty() {
            say!("  tools: {}", clean_line(&decided.join(", ")));
        }
    }
}

async fn check(host: &Arc<Host>, name: &Name, workspace: &Path, json: bool) -> Result<(), CliError> {
    // The caller has checked that the server is configured.
    let Some(checked) = host.check_mcp(name, workspace).await? else { return Ok(()) };
    let McpReport { about, tools, problems } = match checked {
        Ok(report) => report,
        Err(McpFailure { problem, printed }) => {
            printed.iter().for_each(|line| note(&format!("printed: {line}")));
            return Err(CliError::new(Code::Unavailable, problem));
        }
    };
    if json {
        let tools: Vec<_> = tools.iter().map(object).collect();
        let (title, revision) = (about.title, about.revision);
        say!("{}", json!({"name": name, "server": title, "revision": revision, "tools": tools, "problems": problems}));
        return Ok(());
    }
    say!("{name}: {}, MCP {}", about.title, about.revision);
    let width = tools.iter().map(|tool| tool.name.len()).max().unwrap_or_default();
    for tool in &tools {
        say!("  {:width$}  {:5}  {}", tool.name, tool.decision.as_str(), why(tool));
    }
    for problem in problems {
        say!("Note: {problem}");
    }
    if let Some(line) = about.stray {
        say!("Note: the server printed something other than a message on standard output: {line}");
    }
    Ok(())
}

fn why(tool: &McpToolReport) -> &'static str {
    match (tool.is_decided, tool.decision) {
        (true, _) => "decided in config.toml",
        (false, ToolDecision::Allow) => "the server marks it as read-only",
        (false, _) => "the server does not mark it as read-only",
    }
}

fn object(tool: &McpToolReport) -> serde_json::Value {
    json!({
        "name": tool.name,
        "decision": tool.decision,
        "decided": tool.is_decided,
        "read_only": tool.only_reads,
    })
}
