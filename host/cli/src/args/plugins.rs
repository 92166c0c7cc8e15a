//! The arguments of `patchbay plugin call`, `add` and `list`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use patchbay_policy::Capability;

/// Call one tool of a plugin without installing it
///
/// The tool runs in an empty home and an empty workspace, which are deleted afterwards, with the limits of config.toml. Of your home
/// only compiled components are used. Nothing is granted but what --grant names; no key is there but those that --grant
/// credential:NAME reads from the environment.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    patchbay plugin call greet hello '{\"name\": \"Ada\"}'\n  \
    patchbay plugin call greet/greet.wasm hello Ada --grant kv\n\n\
    Exit code 0: the tool returned a result; 1: it failed, or the plugin cannot be loaded; 2: wrong usage.")]
pub(crate) struct PluginCall {
    /// A component, or a plugin's folder with its component
    #[arg(value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub(crate) plugin: PathBuf,
    /// The tool's name, as the component declares it
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    /// The input: a JSON object, or text if the tool requires one string and nothing else; - reads standard input [default: {}]
    #[arg(value_name = "INPUT")]
    pub(crate) input: Option<String>,
    /// Grant a capability that the SKILL.md asks for, such as kv; may be given several times
    #[arg(long, value_name = "CAP")]
    pub(crate) grant: Vec<Capability>,
    /// Copy a file into the workspace, under its relative path; may be given several times
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) file: Vec<PathBuf>,
    /// Attach a file to the call; may be given several times
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) attach: Vec<PathBuf>,
    /// Print one JSON object: the result, and what the call used, printed and was denied
    #[arg(long)]
    pub(crate) json: bool,
}

/// Add a plugin: a skill to your skills, or an adapter to your providers
///
/// What is added is a copy. It is checked as loading does; what would not load is refused.
#[derive(Args)]
pub(crate) struct PluginAdd {
    /// A component with its SKILL.md embedded, a skill's folder, or the adapter of a provider
    #[arg(value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub(crate) plugin: PathBuf,
    /// Replace the skill of this name
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Args)]
pub(crate) struct PluginList {
    /// The workspace whose skills are listed, too [default: the current folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) workspace: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}
