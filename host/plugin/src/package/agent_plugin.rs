//! The parts of an Agent Plugin that installing needs: name, version, skills and servers.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use patchbay_core::{Digest, PackageName, text};
use patchbay_tools::{command_line, input_json};
use serde_json::Value;

use super::PackageError;
use crate::inspect::read_at_most;

/// The manifest at the root of an Agent Plugin.
pub(crate) const MANIFEST: &str = "plugin.json";
const SERVERS: &str = "mcp.json";
const MANIFEST_BYTES: u64 = 256 << 10;
const VERSIONS: [&str; 2] = ["1.0.0", "1.1.0"];
/// Entries that other clients use, or that no client may use, and that are never read here.
const UNUSED: [&str; 9] =
    ["commands", "agents", "hooks", "rules", "bin", ".mcp.json", ".lsp.json", ".claude-plugin", ".codex-plugin"];

/// An Agent Plugin, as far as it is installed.
#[derive(Debug)]
pub(crate) struct AgentPlugin {
    pub(crate) name: PackageName,
    pub(crate) version: Option<String>,
    /// The folders directly in `skills/` that have a `SKILL.md`, sorted.
    pub(crate) skills: Vec<String>,
    pub(crate) servers: Vec<DeclaredServer>,
    /// What is not used, and why. One line each.
    pub(crate) notes: Vec<String>,
}

/// An MCP server that a package declares. It is never started by adding the package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredServer {
    /// The name in `mcp.json`.
    pub name: String,
    /// The whole command, or the URL, with escapes for invisible characters.
    pub shown: String,
    /// The digest of the entry.
    pub digest: Digest,
}

/// Reads the Agent Plugin in `folder`.
pub(crate) fn read(folder: &Path) -> Result<AgentPlugin, PackageError> {
    let manifest = json(&folder.join(MANIFEST))?;
    let word = |key: &str| match manifest.get(key) {
        None => Ok(None),
        Some(Value::String(word)) => Ok(Some(word.as_str())),
        Some(_) => Err(PackageError::invalid(format!("'{key}' in {MANIFEST} is not a string."))),
    };
    let schema = word("$schema")?.unwrap_or_default();
    let is_known = |version: &&str| schema == schema_url(version, "plugin");
    let Some(version_of_form) = VERSIONS.into_iter().find(|version| is_known(version)) else {
        let message = format!(
            "'$schema' in {MANIFEST} is '{}', and this Patchbay reads Agent Plugins {}.",
            text::excerpt(schema, 120),
            VERSIONS.join(" and ")
        );
        return Err(PackageError::invalid(message));
    };
    let name = word("name")?.unwrap_or_default();
    let name = name.parse().map_err(|error| PackageError::invalid(format!("'name' in {MANIFEST}: {error}.")))?;
    let mut notes: Vec<String> = UNUSED
        .into_iter()
        .filter(|entry| folder.join(entry).symlink_metadata().is_ok())
        .map(|entry| {
            format!("'{entry}' is not used: Patchbay reads skills/ and {SERVERS} of a package, and runs nothing else.")
        })
        .collect();
    let servers = servers(folder, version_of_form, &mut notes)?;
    let version = word("version")?.map(str::to_owned);
    Ok(AgentPlugin { name, version, skills: skills(folder)?, servers, notes })
}

fn schema_url(version: &str, of: &str) -> String {
    format!("https://agent-plugins.org/schemas/{version}/{of}.schema.json")
}

fn json(path: &Path) -> Result<Value, PackageError> {
    let bytes = read_at_most(path, MANIFEST_BYTES).map_err(PackageError::io(path))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| PackageError::invalid(format!("{} is not valid JSON: {error}.", super::error::shown(path))))
}

fn skills(folder: &Path) -> Result<Vec<String>, PackageError> {
    let skills: PathBuf = folder.join("skills");
    let entries = match fs::read_dir(&skills) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(PackageError::io(&skills)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(PackageError::io(&skills))?.file_name();
        if skills.join(&name).join("SKILL.md").is_file() {
            names.extend(name.into_string().ok());
        }
    }
    names.sort();
    Ok(names)
}

fn servers(folder: &Path, version: &str, notes: &mut Vec<String>) -> Result<Vec<DeclaredServer>, PackageError> {
    let path = folder.join(SERVERS);
    if path.symlink_metadata().is_err() {
        return Ok(Vec::new());
    }
    let file = json(&path)?;
    if file.get("$schema").and_then(Value::as_str) != Some(&schema_url(version, "mcp")) {
        notes.push(format!("{SERVERS} is not used: its '$schema' is not that of version {version}, as in {MANIFEST}."));
        return Ok(Vec::new());
    }
    let mut servers = BTreeMap::new();
    for (name, entry) in file.get("mcpServers").and_then(Value::as_object).into_iter().flatten() {
        let words = |key: &str| entry.get(key).and_then(Value::as_str);
        let arguments = entry.get("args").and_then(Value::as_array).into_iter().flatten();
        let shown = match words("type") {
            Some("stdio") => words("command").map(|command| {
                command_line([command].into_iter().chain(arguments.map(|argument| argument.as_str().unwrap_or("?"))))
            }),
            Some("streamable-http") => words("url").map(|url| command_line([url])),
            _ => None,
        };
        match shown {
            Some(shown) => {
                let digest = Digest::of(input_json(entry).as_bytes());
                servers.insert(name.clone(), DeclaredServer { name: name.clone(), shown, digest });
            }
            None => notes.push(format!(
                "server '{}' is not used: its type is not stdio or streamable-http, or it has no command or URL.",
                text::excerpt(name, 80)
            )),
        }
    }
    Ok(servers.into_values().collect())
}
