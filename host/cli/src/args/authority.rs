//! The arguments of `patchbay grant`, `policy` and `trust`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use patchbay_core::{Name, PackageName};
use patchbay_policy::{Capability, Root};

/// The skill and the capabilities to grant or remove
#[derive(Args)]
pub(crate) struct GrantTarget {
    /// The root that the skill comes from
    #[arg(long, value_enum, default_value_t = RootArgument::User)]
    root: RootArgument,
    /// The package that contains the skill
    #[arg(long, value_name = "PACKAGE", conflicts_with_all = ["root", "workspace"])]
    pub(crate) package: Option<PackageName>,
    /// The workspace, or the folder of --root extra [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Grant only in this workspace [default: in all]
    #[arg(long = "in", value_name = "DIR")]
    pub(crate) place: Option<PathBuf>,
    /// The name of the skill
    #[arg(value_name = "SKILL")]
    pub(crate) skill: Name,
    /// One or more capabilities, such as kv
    #[arg(value_name = "CAPABILITY", required = true)]
    pub(crate) capabilities: Vec<Capability>,
}

impl GrantTarget {
    pub(crate) fn root(&self) -> Root {
        if self.package.is_some() {
            return Root::Package;
        }
        match self.root {
            RootArgument::Extra => Root::Extra,
            RootArgument::Bundled => Root::Bundled,
            RootArgument::User => Root::User,
            RootArgument::WorkspaceClaude => Root::WorkspaceClaude,
            RootArgument::WorkspaceAgents => Root::WorkspaceAgents,
            RootArgument::Workspace => Root::Workspace,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum RootArgument {
    Extra,
    Bundled,
    User,
    WorkspaceClaude,
    WorkspaceAgents,
    Workspace,
}

#[derive(Subcommand)]
pub(crate) enum GrantCommand {
    /// Grant capabilities that the skill's SKILL.md asks for
    Add(GrantTarget),
    /// Remove grants
    Remove(GrantTarget),
    /// Forget every 'always' answer for a tool of an MCP server, an editor or the terminal
    Forget {
        /// The full name of the tool, as 'patchbay grant list' shows it
        #[arg(value_name = "TOOL")]
        tool: String,
    },
    /// List all grants
    List {
        /// Print only the commands that renew stale grants, with the reasons on standard error
        #[arg(long)]
        stale: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum PolicyCommand {
    /// Explain how a call would be decided, without running it
    Explain {
        /// The full name of a tool, such as files__write, optionally with its input, or a line that begins with '/'
        #[arg(value_name = "CALL")]
        what: String,
        /// The mode of the session: ask, edits or plan [default: ask]
        #[arg(long, value_name = "MODE")]
        mode: Option<String>,
        /// The workspace [default: the current folder]
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        workspace: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check a file of cases, one JSON object per line: call, capability, expect (allow, ask, deny), and mode. Exits with 1 if a
    /// decision is not the expected one
    Test {
        /// The file with the cases
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// The workspace [default: the current folder]
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        workspace: Option<PathBuf>,
    },
}

#[derive(Subcommand)]
pub(crate) enum TrustCommand {
    /// Let a workspace's skills and personas replace yours, and let MCP servers with in_workspace start in it; with --write, only
    /// let skills write there
    Add {
        /// The workspace to trust
        #[arg(value_name = "DIR", default_value = ".")]
        workspace: PathBuf,
        /// Let skills with the grant workspace-write also write AGENTS.md and similar files, and write in DIR even if it is or
        /// contains your home folder; nothing else changes
        #[arg(long)]
        write: bool,
    },
    /// Remove both kinds of trust
    Remove {
        /// The workspace to stop trusting
        #[arg(value_name = "DIR", default_value = ".")]
        workspace: PathBuf,
    },
    /// List trusted workspaces
    List,
}
