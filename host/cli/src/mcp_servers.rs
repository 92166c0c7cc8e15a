//! `patchbay mcp list` and `patchbay mcp check`: the MCP servers of `config.toml` and of packages. `main` calls it.

use std::{collections::BTreeMap, path::Path, process::ExitCode, sync::Arc};

use patchbay_core::{Code, Name, text::clean_line};
use patchbay_mcp::client::McpServerConfig;
use patchbay_plugin::package::InstalledServer;
use patchbay_policy::{ToolDecision, quoted};
use patchbay_session::{Host, McpFailure, McpReport, McpToolReport};
use serde_json::json;

use crate::{
    CliError,
    args::McpCommand,
    config::ConfigFile,
    home::HomeDirs,
    out::{note, say},
    plugin::installed_servers,
};

/// Runs a command. `open` opens the host, which `list` needs only for packages.
pub(crate) async fn run(
    command: McpCommand,
    home: &HomeDirs,
    config: ConfigFile,
    open: impl FnOnce(ConfigFile) -> Result<Arc<Host>, CliError>,
) -> Result<ExitCode, CliError> {
    match command {
        McpCommand::List { json } => {
            let configured = config.mcp.clone();
            let of_packages = match home.paths.packages().lock.exists() {
                true => installed_servers(home, open(config)?.store()).await,
                false => Ok(Vec::new()),
            };
            let of_packages = of_packages.unwrap_or_else(|error| {
                note(&format!("Note: {error}"));
                Vec::new()
            });
            list(&configured, of_packages.is_empty(), json);
            of_packages.iter().for_each(|server| list_packaged(server, json));
        }
        McpCommand::Check { name, workspace, json } => {
            let names: Vec<_> = config.mcp.keys().cloned().collect();
            let host = open(config)?;
            let name = match names.iter().find(|configured| configured.as_str() == name) {
                Some(configured) => configured.clone(),
                None => allowed_name(&installed_servers(home, host.store()).await?, &name, &names)?,
            };
            check(&host, &name, workspace.as_deref().unwrap_or(Path::new(".")), json).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the name under which a server of a package is allowed. `written` is PACKAGE/SERVER, or that name.
fn allowed_name(servers: &[InstalledServer], written: &str, configured: &[Name]) -> Result<Name, CliError> {
    let named = |server: &&InstalledServer| match written.split_once('/') {
        Some((package, name)) => server.package.as_str() == package && server.name == name,
        None => server.decision.allowance().is_some_and(|allowance| allowance.name.as_str() == written),
    };
    let shown = patchbay_core::text::excerpt(written, 160);
    let found = servers.iter().find(named);
    match found.map(|server| (server.off(), server.decision.allowance())) {
        Some((None, Some(allowance))) => Ok(allowance.name.clone()),
        Some((off, _)) => {
            Err(CliError::new(Code::Unavailable, format!("server '{shown}' is {}", off.unwrap_or_default())))
        }
        None if written.contains('/') => {
            let message = format!("no installed package has the server '{shown}'. To list all: patchbay mcp list");
            Err(CliError::new(Code::McpServerNotFound, message))
        }
        None => {
            let names: Vec<_> = configured.iter().map(Name::as_str).collect();
            let there =
                if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
            let message = format!("config.toml has no MCP server '{shown}'; {there}.");
            Err(CliError::new(Code::McpServerNotFound, message))
        }
    }
}

/// Prints a server of a package.
fn list_packaged(server: &InstalledServer, json: bool) {
    let (package, name, line) = (&server.package, clean_line(&server.name), server.line());
    let (state, allowance) = (server.decision.as_str(), server.decision.allowance());
    if json {
        let (label, env) = (allowance.map(|it| &it.name), allowance.map(|it| &it.env));
        let credential = allowance.and_then(|it| it.credential.as_ref());
        say!(
            "{}",
            json!({"name": label, "package": package, "server": name, "state": state, "runs": line, "env": env, "credential": credential})
        );
        return;
    }
    let (None, Some(allowance)) = (server.off(), allowance) else {
        say!("{package}/{name}: {line}");
        say!("  {}", server.off().unwrap_or_default());
        return;
    };
    say!("{}: {line}", allowance.name);
    say!("  server {name} of package '{package}'");
    if let Some(credential) = &allowance.credential {
        say!("  credential: {credential}");
    }
    if !allowance.env.is_empty() {
        say!("  variables: {}", allowance.env.join(", "));
    }
}

/// Prints the servers of `config.toml`. `is_all` is set if packages have no servers.
fn list(servers: &BTreeMap<Name, McpServerConfig>, is_all: bool, json: bool) {
    if servers.is_empty() && is_all && !json {
        say!("No MCP servers are configured. To add one, write a table [mcp.NAME] in config.toml; see docs/mcp.md.");
    }
    for (name, server) in servers {
        let words = server.command.as_ref().map(|command| command.words()).unwrap_or_default();
        // A query may contain a secret.
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
    let Some(checked) = host.check_mcp(name, workspace).await? else {
        // The caller has just found the server, so its package must have changed since.
        let message = format!("server '{name}' cannot be used. To see why: patchbay plugin verify");
        return Err(CliError::new(Code::Unavailable, message));
    };
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
