//! `patchbay plugin build --agent-plugin`: a folder that Patchbay and other clients load.

use std::{path::PathBuf, process::ExitCode};

use patchbay_core::{Code, text};
use patchbay_plugin::{AgentPluginOptions, WrittenAgentPlugin, write_agent_plugin};

use crate::{CliError, out::say};

/// Builds the skills in `folders`, writes the package, and prints its content.
pub(super) fn build(folders: &[PathBuf], options: &AgentPluginOptions) -> Result<ExitCode, CliError> {
    let written = write_agent_plugin(folders, options);
    let written = written.map_err(|error| CliError::new(Code::BuildFailed, error.to_string()))?;
    let WrittenAgentPlugin { folder, plugin, with_tools, notes } = written;
    let (files, bytes) = (plugin.files.len(), plugin.files.iter().map(|file| file.size).sum());
    let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
    say!("{}: {files}, {}", text::clean_line(&folder.to_string_lossy()), text::size(bytes));
    for skill in plugin.skills.iter().filter_map(|skill| skill.found.candidate.as_ref().ok()) {
        let tools = if with_tools.contains(&skill.name) { ", with tools" } else { "" };
        say!("skill {}{tools}: {}", skill.name, skill.manifest.summary);
    }
    for server in &plugin.servers {
        say!("server {}: yours, from mcp.json", text::clean_line(&server.name));
    }
    for note in notes.iter().map(String::as_str).chain(plugin.notes.iter().map(|note| &*note.message)) {
        say!("note: {}", text::clean_line(note));
    }
    Ok(ExitCode::SUCCESS)
}
