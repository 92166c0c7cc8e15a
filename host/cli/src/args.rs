//! The command line, as clap parses it. The doc comments become the `--help` text.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueHint};
use patchbay_core::Name;

mod authority;
mod exec;
mod mcp;
mod plugins;
mod recordings;
mod token;

pub(crate) use authority::{GrantCommand, GrantTarget, PolicyCommand, TrustCommand};
pub(crate) use exec::{Exec, is_standard_input};
pub(crate) use mcp::{ConnectArguments, McpCommand, ServeMcp};
pub(crate) use plugins::{
    NewPlugin, PluginAdd, PluginAllow, PluginBuild, PluginCall, PluginDeny, PluginDev, PluginDiff, PluginExport,
    PluginKindArgument, PluginList, PluginPush, PluginRemove, PluginSums, PluginSync, PluginTest, PluginUpdate,
    PluginVerify, RegistrySignIn, Rename, ToolsCommand,
};
pub(crate) use recordings::{CallFixture, FixtureOptions, JournalCommand, SessionFixtures};
pub(crate) use token::TokenCommand;

use crate::{age::Age, day::Day};

/// The version with the commit and the build target, for bug reports.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("PATCHBAY_BUILD"), ")");

/// Run AI agents whose tools are sandboxed WebAssembly components.
///
/// Without a command, this opens a terminal on a new session. Lines that begin with '/' are commands; '/commands' lists them.
/// Any other line is a message to a model; pick one with '/model'. You can pass the first line: patchbay "fix the tests".
#[derive(Parser)]
// The options belong to the terminal. Before a subcommand they would have no effect, so they are refused there.
#[command(name = "patchbay", version, long_version = VERSION, max_term_width = 100, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) session: SessionArguments,
    /// Use plain lines without drawing, even in a terminal
    #[arg(long)]
    pub(crate) plain: bool,
    /// The first line to run: a quoted message of several words, or a command with its '/'
    #[arg(value_name = "LINE", value_parser = first_line)]
    pub(crate) line: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

// A front's session: a new one on a workspace, or a stored one. (Clap would use a doc comment as the description of the command.)
#[derive(Args, Clone)]
pub(crate) struct SessionArguments {
    /// Continue this stored session; a unique prefix is enough
    #[arg(long, value_name = "ID", conflicts_with_all = ["workspace", "continue"])]
    pub(crate) session: Option<String>,
    /// Continue the most recent session of the workspace
    #[arg(long = "continue", short = 'c', id = "continue")]
    pub(crate) continues: bool,
    /// The workspace of the session [default: the current folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    workspace: Option<PathBuf>,
    /// Record tool calls, to make tests of them with 'patchbay journal fixture'
    #[arg(long)]
    pub(crate) record: bool,
    /// Use this model for the agent in view, as with '/model'
    #[arg(long, value_name = "MODEL[/THINKING]")]
    pub(crate) model: Option<String>,
}

impl SessionArguments {
    /// Returns the workspace, by default the current folder.
    pub(crate) fn workspace(&self) -> &Path {
        self.workspace.as_deref().unwrap_or(Path::new("."))
    }
}

/// Compiles the component on standard input to standard output
#[derive(Args)]
pub(crate) struct Compile {
    /// Memory limit of the compiler, in bytes
    pub(crate) bytes: u64,
    /// CPU time limit of the compiler, in seconds
    pub(crate) seconds: u64,
    /// Read known compiled functions before the component, and write the new set after its compiled form
    #[arg(long)]
    pub(crate) functions: bool,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run commands and messages as if they were typed, then exit
    #[command(
        after_help = "The next line starts when the turn of the previous one has ended. Responses of the agent in view are \
                      printed to standard output: as they arrive in a terminal, once complete elsewhere. Activity of other \
                      agents is reported on standard error. The command ends when every agent is idle.\n\n\
                      Exit code 0: every line succeeded; 1: a line failed, or the last turn of the agent in view; 2: wrong \
                      usage; 3: timed out (--timeout), all turns were stopped; 129, 130 or 143: SIGHUP, SIGINT (Ctrl+C) or \
                      SIGTERM, all turns were stopped; 141: standard output was closed."
    )]
    Exec(Exec),
    /// Serve an editor that speaks the Agent Client Protocol, over standard input and output
    ///
    /// Your editor starts this command; docs/editors.md shows how to configure it. Log messages go to Patchbay's log file.
    Acp {
        /// Record tool calls, to make tests of them with 'patchbay journal fixture'
        #[arg(long, conflicts_with = "connect")]
        record: bool,
        #[command(flatten)]
        connect: ConnectArguments,
    },
    /// List, show and remove stored sessions, and delete data that no session needs
    ///
    /// Without a command, this lists the sessions of this workspace, most recent first: short id, age, and first words.
    #[command(args_conflicts_with_subcommands = true)]
    Sessions {
        #[command(flatten)]
        list: SessionList,
        #[command(subcommand)]
        command: Option<Sessions>,
    },
    /// Create, build, call, add, inspect and block plugins
    Plugin {
        #[command(subcommand)]
        command: Plugin,
    },
    /// Check, add, allow, list, remove and forget adapters of model APIs
    Provider {
        #[command(subcommand)]
        command: Provider,
    },
    /// Explain how a call would be decided, and test the policy
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Add, remove and list grants, which permit skills to use a capability
    Grant {
        #[command(subcommand)]
        command: GrantCommand,
    },
    /// Trust workspaces, whose skills and personas may then replace yours
    Trust {
        #[command(subcommand)]
        command: TrustCommand,
    },
    /// Add, list and remove tokens for clients of 'patchbay serve'
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Show tool calls: time, caller, outcome and cost
    Journal(Journal),
    /// Show the cost of models by day, session, agent, tool and model
    Usage(UsageList),
    /// Serve the tools of your skills to an MCP client, such as an editor or another agent
    ///
    /// The client starts this command and talks to it over standard input and output; with --http, clients connect to a port.
    /// Each connection usually gets its own session. Calls run in the sandbox, with the usual grants, limits and journal. No user
    /// can be asked, so a denied call usually names the command that grants the missing capability.
    ///
    /// In the other direction, models can call the tools of MCP servers that [mcp.NAME] in config.toml configures, and of servers
    /// of packages that you allow: see 'list' and 'check'.
    #[command(args_conflicts_with_subcommands = true)]
    #[command(after_help = "Example, for a client that reads JSON:\n  \
        {\"mcpServers\": {\"patchbay\": {\"command\": \"patchbay\", \"args\": [\"mcp\", \"--workspace\", \"/home/ada/project\"]}}}")]
    Mcp {
        #[command(flatten)]
        serve: ServeMcp,
        #[command(subcommand)]
        command: Option<McpCommand>,
    },
    /// Serve your sessions to browsers, editors and scripts, also on other machines
    ///
    /// Listens on 127.0.0.1 unless config.toml names another address. Each client needs a token: see 'patchbay token'.
    /// Turns keep running when their client disconnects. docs/serve.md shows how to set it up.
    Serve {
        /// Print a link that signs in a browser, on this machine or through your proxy; it works once, within 60 seconds
        #[arg(long)]
        open: bool,
        /// Record tool calls, to make tests of them with 'patchbay journal fixture'
        #[arg(long)]
        record: bool,
    },
    /// Back up sessions, skills' data and configuration to an empty folder, even while Patchbay runs
    ///
    /// To restore the backup, set PATCHBAY_HOME to it, or move its folders back into place. It does not contain credentials.json,
    /// client tokens or logs. Links are copied as links.
    Backup {
        /// The folder to write to, which must be empty or not exist
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
    /// Check the installation, and show how to fix each problem
    #[command(after_help = "Exit code 0: nothing is wrong; 1: something is wrong, or could not be checked.")]
    Doctor(DoctorArguments),
    /// Print shell completions
    #[command(after_help = "Examples:\n  \
        patchbay completions bash > ~/.local/share/bash-completion/completions/patchbay\n  \
        patchbay completions zsh > ~/.local/share/zsh/site-functions/_patchbay    (a folder of your $fpath)\n  \
        patchbay completions fish > ~/.config/fish/completions/patchbay.fish")]
    Completions {
        /// The shell to generate completions for
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the manual page, in roff
    #[command(after_help = "Example:\n  patchbay man > ~/.local/share/man/man1/patchbay.1")]
    Man,
    /// Compile a component; started by the host itself
    #[command(hide = true)]
    Compile(Compile),
}

// Options of `sessions` and `sessions list`.
#[derive(Args, Clone, Copy)]
pub(crate) struct SessionList {
    /// List the sessions of all workspaces, this one first
    #[arg(long)]
    pub(crate) all: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct DoctorArguments {
    /// The workspace whose skills are checked [default: the current folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) workspace: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
pub(crate) enum Sessions {
    /// List stored sessions, most recent first; the same as 'patchbay sessions'
    List(SessionList),
    /// Remove a session with its conversation
    Rm {
        /// The session's id, or a unique prefix of it
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Print the conversation of a stored session, even while another process has it open
    Show(ShowSession),
    /// Delete snapshots, components, attached files and cached skill files that no session needs
    ///
    /// With --older-than, or sessions.keep_days in config.toml, old sessions are removed first.
    Gc(CollectGarbage),
    /// Turn all recorded calls of a session into tests for 'patchbay plugin test'; see 'patchbay journal fixture'
    Fixtures(SessionFixtures),
}

#[derive(Args)]
pub(crate) struct ShowSession {
    /// The session's id, or a unique prefix of it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Print the agent tree, with the status, model, tokens, turns and mail of each agent
    #[arg(long, conflicts_with = "agent")]
    pub(crate) tree: bool,
    /// Print the conversation of this agent; a unique prefix of its UUID is enough
    #[arg(long, value_name = "UUID")]
    pub(crate) agent: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct CollectGarbage {
    /// Remove sessions unused for this long, such as 12h, 30d or 8w; sessions that a process has open are kept
    #[arg(long, value_name = "AGE")]
    pub(crate) older_than: Option<Age>,
    /// List the sessions that would be removed, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Subcommand)]
pub(crate) enum Plugin {
    /// Create a folder with a working plugin: source, test case, SDK and contract
    New(NewPlugin),
    /// Write the contract (WIT), in the layout that bindings generators read
    Wit {
        /// The folder to write to; an existing world.wit is kept
        #[arg(value_name = "DIR", default_value = "wit")]
        folder: PathBuf,
        /// The kind of plugin to write the contract for
        #[arg(long, value_name = "KIND", value_enum, default_value_t)]
        kind: PluginKindArgument,
    },
    /// Write the C bindings of a world, for languages that build with a C toolchain
    Bindings {
        /// The language of the bindings
        #[arg(value_name = "LANG", value_parser = ["c"])]
        language: String,
        /// The folder to write the bindings to
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The folder with the contract
        #[arg(long, value_name = "DIR", default_value = "wit")]
        wit: PathBuf,
    },
    /// Install compilers for plugins in languages other than Rust
    Tools {
        #[command(subcommand)]
        command: ToolsCommand,
    },
    Build(PluginBuild),
    Call(PluginCall),
    Test(PluginTest),
    Dev(PluginDev),
    /// Print the log lines of a skill
    Log {
        /// The name of the skill
        #[arg(value_name = "SKILL")]
        skill: Name,
        /// Keep printing new lines until Ctrl+C
        #[arg(long, short)]
        follow: bool,
        /// Number of lines to print
        #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
        lines: usize,
    },
    Add(PluginAdd),
    Update(PluginUpdate),
    Diff(PluginDiff),
    Remove(PluginRemove),
    Allow(PluginAllow),
    Deny(PluginDeny),
    Verify(PluginVerify),
    Sums(PluginSums),
    Sync(PluginSync),
    Export(PluginExport),
    Push(PluginPush),
    /// List the plugins of a new session: skills, and adapters of providers
    List(PluginList),
    /// Show a plugin's contents, the capabilities that it requests, and its problems
    Inspect {
        /// A component, or a plugin's folder
        #[arg(value_name = "FILE")]
        path: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Block a component or skill in every session at once, regardless of its grants
    Block {
        /// The digest, as '/help SKILL' and 'plugin inspect' show it; 8 digits are enough for one known on this machine
        #[arg(value_name = "DIGEST")]
        digest: String,
    },
    /// Unblock a component or skill
    Unblock {
        /// The digest, or at least its first 8 digits
        #[arg(value_name = "DIGEST")]
        digest: String,
    },
    /// List blocked components and skills
    Blocked,
}

#[derive(Subcommand)]
pub(crate) enum Provider {
    /// Add an adapter to your providers; it can be used once you allow it
    Add {
        /// The component of the adapter
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The name of the provider [default: the name in the adapter]
        #[arg(long, value_name = "NAME")]
        name: Option<Name>,
    },
    /// Approve the origin and the credential that a provider requests
    Allow {
        /// The name of the provider
        #[arg(value_name = "NAME")]
        name: Name,
    },
    /// Remove a provider: its file, its approval, and its prefixes
    Remove {
        /// The name of the provider
        #[arg(value_name = "NAME")]
        name: Name,
    },
    /// Free the names, prefixes and approval of a provider that no longer exists
    Forget {
        /// The name of the provider
        #[arg(value_name = "NAME")]
        name: Name,
    },
    /// List all providers with their state
    List {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Fetch the providers' lists of models
    #[command(after_help = "Exit code 0: every provider that has a key responded; 1: one failed.")]
    Refresh {
        /// The name of a provider [default: all]
        #[arg(value_name = "NAME")]
        name: Option<Name>,
    },
    /// Check an adapter file without installing it
    Check {
        /// The component of the adapter
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct UsageList {
    /// Show only this day in UTC, such as 2026-11-27
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) day: Option<Day>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Journal {
    #[command(subcommand)]
    pub(crate) command: Option<JournalCommand>,
    /// Show only calls of this skill, or of an MCP server: mcp__NAME
    #[arg(long, value_name = "NAME", value_parser = called_plugin)]
    pub(crate) plugin: Option<String>,
    /// Show only calls in this session; a unique prefix is enough
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Print one JSON object per line, with everything recorded about a call
    #[arg(long)]
    pub(crate) json: bool,
    /// Show only the newest N calls [default: 100 in the table, all in JSON]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
}

/// Checks the name of a skill, or of an MCP server as the journal stores it.
fn called_plugin(text: &str) -> Result<String, String> {
    let is_plain = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    match text.strip_prefix("mcp__") {
        Some(server) if !server.is_empty() && is_plain(server) => Ok(text.to_owned()),
        _ => text.parse::<Name>().map(String::from).map_err(|error| error.to_string()),
    }
}

/// Checks the first line. A single word is refused because it is more often a mistyped subcommand than a message.
fn first_line(text: &str) -> Result<String, String> {
    if text.starts_with('/') || text.trim().contains(char::is_whitespace) {
        return Ok(text.to_owned());
    }
    Err("no such command. To pass a first line, quote several words, as in: patchbay \"fix the tests\"".to_owned())
}
