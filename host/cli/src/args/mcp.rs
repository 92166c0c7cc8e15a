//! The arguments of the servers and bridges: `patchbay mcp`, and `patchbay acp --connect`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use patchbay_core::Name;

// The server that a bridge connects to.
#[derive(Args)]
pub(crate) struct ConnectArguments {
    /// Use the sessions of the 'patchbay serve' at this URL, such as wss://HOST/acp; nothing runs on this machine
    #[arg(long, value_name = "URL", requires = "remote")]
    pub(crate) connect: Option<String>,
    /// The folder on the server to use instead of the editor's folder: a workspace that its config.toml names, or a path
    #[arg(long = "workspace", id = "remote", value_name = "NAME|PATH", requires = "connect")]
    pub(crate) workspace: Option<String>,
    /// The file with the token [default: the variable PATCHBAY_TOKEN]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "connect")]
    pub(crate) token_file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct ServeMcp {
    /// The workspace of the sessions [default: the current folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) workspace: Option<PathBuf>,
    /// Record tool calls, to make tests of them with 'patchbay journal fixture'
    #[arg(long)]
    pub(crate) record: bool,
    /// Offer only the tools of this skill; can be repeated
    #[arg(long = "skill", value_name = "NAME")]
    pub(crate) skills: Vec<Name>,
    /// Serve the skills of the Agent Plugin in this folder, and no others. Without --workspace they have no files
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) package: Option<PathBuf>,
    /// Listen on a port of 127.0.0.1 (a free one by default), and print the URL and the token that each request needs
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "0")]
    pub(crate) http: Option<u16>,
}

#[derive(Subcommand)]
pub(crate) enum McpCommand {
    /// List the MCP servers of config.toml and of packages, without starting them
    List {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Start an MCP server, list its tools with your decision about each, and stop it
    #[command(after_help = "Exit code 0: the server responded; 1: it did not.")]
    Check {
        /// The name of the server, as in [mcp.NAME], or an allowed server of a package
        #[arg(value_name = "NAME|PACKAGE/SERVER")]
        name: String,
        /// The workspace of the session [default: the current folder]
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        workspace: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}
