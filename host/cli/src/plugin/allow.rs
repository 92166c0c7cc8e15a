//! `patchbay plugin allow` and `deny`: the operator's decision about an MCP server of a package.

use std::process::ExitCode;

use patchbay_core::{Code, Name, text};
use patchbay_egress::Target;
use patchbay_plugin::package::{InstalledServer, server_line};
use patchbay_policy::quoted;
use patchbay_skill::agent_plugin::{PackageServer, ServerTransport};
use patchbay_store::ServerAllowance;

use super::{
    packages::{confirm, packages},
    update::installed,
};
use crate::{
    CliError,
    args::{PluginAllow, PluginDeny},
    config::{self, ConfigFile},
    home::HomeDirs,
    open,
    out::say,
};

/// The note about running programs of servers that are no longer allowed.
pub(super) const STILL_RUNNING: &str =
    "A running program is stopped at its session's next turn, or when the session ends.";

pub(super) async fn allow(arguments: &PluginAllow) -> Result<ExitCode, CliError> {
    let home = HomeDirs::find()?;
    let host = open(&home)?;
    let config = config::read(&home.paths.config)?;
    let held = packages(&home, host.store()).hold().await?;
    let package = installed(held.lock(), &arguments.package)?;
    let mut servers = InstalledServer::of_package(held.packages(), &package, &[]);
    let names: Vec<String> = servers.iter().map(|server| text::clean_line(&server.name)).collect();
    servers.retain(|server| server.name == arguments.server);
    let Some(server) = servers.pop() else {
        let there = if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
        let shown = text::excerpt(&arguments.server, 80);
        let message = format!("package '{}' has no server '{shown}'; {there}.", package.name);
        return Err(CliError::new(Code::McpServerNotFound, message));
    };
    let Some(entry) = &server.entry else {
        let message = format!(
            "the files of package '{name}' do not match packages.lock. To see what changed: patchbay plugin verify {name}",
            name = package.name
        );
        return Err(CliError::new(Code::PackageChanged, message));
    };
    let name = tool_name(arguments, &server)?;
    check_settings(arguments, entry, &config)?;
    let mut env = arguments.env.clone();
    env.sort();
    env.dedup();
    let allowance = ServerAllowance {
        name: name.clone(),
        package: package.name.clone(),
        server: server.name.clone(),
        digest: entry.digest,
        env,
        credential: arguments.credential.clone(),
    };
    let taken = |by: String| {
        let message = format!("{by} '{name}'. Choose another name: {}", server.allow_command(Some("NAME")));
        Err(CliError::new(Code::NameTaken, message))
    };
    if config.mcp.contains_key(&name) {
        return taken("config.toml has an MCP server".to_owned());
    }
    // Quoted, because the name could look like the text around it.
    let shown = text::clean_line(&server.name);
    let shown = quoted(&shown);
    say!("package '{}', server {shown}: {}", package.name, server_line(entry));
    describe(&allowance, entry).iter().for_each(|line| say!("  {line}"));
    if let Err(code) = confirm(&format!("Package '{}': allow its server {shown}?", package.name), arguments.yes) {
        return Ok(code);
    }
    if let Some(owner) = host.store().allow_server(allowance).await? {
        let server = text::clean_line(&owner.server);
        return taken(format!("server '{server}' of package '{}' has the name", owner.package));
    }
    say!(
        "Allowed. Sessions have its tools (mcp__{name}__TOOL) from their next turn on. To check it: patchbay mcp check {name}"
    );
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn deny(PluginDeny { package, server }: &PluginDeny) -> Result<ExitCode, CliError> {
    let host = open(&HomeDirs::find()?)?;
    let shown = text::excerpt(server, 80);
    if !host.store().deny_server(package.clone(), server.clone()).await? {
        let message = format!("server '{shown}' of package '{package}' was not allowed.");
        return Err(CliError::new(Code::GrantNotFound, message));
    }
    say!("Server '{shown}' of package '{package}' is off. Open sessions can no longer call its tools. {STILL_RUNNING}");
    Ok(ExitCode::SUCCESS)
}

/// Returns the name of a server in the names of its tools.
fn tool_name(arguments: &PluginAllow, server: &InstalledServer) -> Result<Name, CliError> {
    if let Some(name) = &arguments.name {
        return Ok(name.clone());
    }
    server.name.parse().map_err(|error: patchbay_core::NameError| {
        let message = format!("{error}. Give the server another name: {}", server.allow_command(Some("NAME")));
        CliError::new(Code::InvalidName, message)
    })
}

/// Checks that the options fit the server. `--env` is only for programs and `--credential` only for URLs, the credential must be
/// bound to the URL's origin, and the options must cover every variable that the entry needs.
fn check_settings(arguments: &PluginAllow, entry: &PackageServer, config: &ConfigFile) -> Result<(), CliError> {
    let wrong = |message: String| Err(CliError::new(Code::InvalidArgs, message));
    let (url, headers) = match &entry.transport {
        ServerTransport::Stdio { .. } if arguments.credential.is_some() => {
            return wrong(
                "--credential is for servers with a URL. Name the variable of the secret with --env.".to_owned(),
            );
        }
        ServerTransport::Stdio { .. } => {
            let needed = entry.variables.iter().filter(|(_, default)| default.is_none()).map(|(name, _)| name);
            let missing: Vec<String> =
                needed.filter(|name| !arguments.env.contains(name)).map(|name| format!("--env {name}")).collect();
            if missing.is_empty() {
                return Ok(());
            }
            return wrong(format!("the server needs variables of your environment. Add {}", missing.join(" ")));
        }
        ServerTransport::StreamableHttp { url, headers } => (url, headers),
    };
    if !arguments.env.is_empty() {
        return wrong("--env is for programs. Name a credential of config.toml with --credential.".to_owned());
    }
    let is_replaced = |header: &str| header.eq_ignore_ascii_case("authorization") && arguments.credential.is_some();
    let kept = headers.iter().filter(|(header, _)| !is_replaced(header));
    let needed = kept.into_iter().find_map(|(header, value)| Some((header, entry.needed_variable(value)?)));
    if let Some((header, variable)) = needed {
        return wrong(format!(
            "its header '{header}' needs the variable {variable}. Patchbay sends secrets to a URL only as a credential in the header \
             Authorization: add [credentials.NAME] to config.toml, and --credential NAME."
        ));
    }
    let Some(name) = &arguments.credential else { return Ok(()) };
    let target = Target::parse(url.as_str()).map_err(|error| CliError::new(Code::InvalidArgs, format!("{error}.")))?;
    let origin = target.origin();
    match config.credentials.get(name) {
        None => {
            let table = format!("[credentials.{name}] with origin = \"{origin}\"");
            wrong(format!("config.toml has no credential '{name}'. Add a table {table}."))
        }
        Some(credential) if credential.origin != *origin => {
            let bound = &credential.origin;
            wrong(format!("credential '{name}' is bound to {bound}, but the server is at {origin}."))
        }
        Some(_)
            if headers.iter().any(|(header, value)| is_replaced(header) && entry.needed_variable(value).is_none()) =>
        {
            wrong("the server's entry sets the header Authorization itself, so you cannot add a credential.".to_owned())
        }
        Some(_) => Ok(()),
    }
}

/// Returns lines about the server, to print before the question.
fn describe(allowance: &ServerAllowance, entry: &PackageServer) -> Vec<String> {
    let mut lines = vec![format!("its tools: mcp__{}__TOOL", allowance.name)];
    if !allowance.env.is_empty() {
        lines.push(format!("gets the variables: {}", allowance.env.join(", ")));
    }
    lines.extend(allowance.credential.iter().map(|name| format!("gets the credential: {name}")));
    lines.push(match entry.transport {
        ServerTransport::Stdio { .. } => "runs outside of the sandbox, with the rights of your user".to_owned(),
        ServerTransport::StreamableHttp { .. } => "runs elsewhere, and gets the input of each call".to_owned(),
    });
    lines
}
