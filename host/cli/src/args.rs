//! The command line, as clap parses it. The doc comments are the texts of `--help`.

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
pub(crate) use mcp::ServeMcp;
pub(crate) use plugins::{
    NewPlugin, PluginAdd, PluginBuild, PluginCall, PluginDev, PluginDiff, PluginExport, PluginKindArgument, PluginList,
    PluginPush, PluginRemove, PluginSums, PluginSync, PluginTest, PluginUpdate, PluginVerify, RegistrySignIn,
    ToolsCommand,
};
pub(crate) use recordings::{CallFixture, FixtureOptions, JournalCommand, SessionFixtures};
pub(crate) use token::TokenCommand;

use crate::{age::Age, day::Day};

/// The version with the commit and the target of the build, for reports of faults.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("PATCHBAY_BUILD"), ")");

/// An agent host whose every extension is a sandboxed WebAssembly component.
///
/// Without a command it opens a terminal on a new session. Lines that begin with '/' are commands; '/commands' lists them.
/// Any other line is a message to a model; '/model' chooses the model. You can pass the first line: patchbay "fix the tests".
#[derive(Parser)]
// The options are those of the terminal: before a subcommand they would have no effect, so that they are refused there.
#[command(name = "patchbay", version, long_version = VERSION, max_term_width = 100, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) session: SessionArguments,
    /// Read plain lines, without drawing, even in a terminal
    #[arg(long)]
    pub(crate) plain: bool,
    /// The first line to run: a message of several words in quotes, or a command with its '/'
    #[arg(value_name = "LINE", value_parser = first_line)]
    pub(crate) line: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

// The session of a front: a new one on a workspace, or a stored one. A doc comment would become the description of the command.
#[derive(Args, Clone)]
pub(crate) struct SessionArguments {
    /// Continue a stored session: its id, or a unique beginning of it
    #[arg(long, value_name = "ID", conflicts_with_all = ["workspace", "continue"])]
    pub(crate) session: Option<String>,
    /// Continue the session of the workspace that was used last
    #[arg(long = "continue", short = 'c', id = "continue")]
    pub(crate) continues: bool,
    /// The workspace of the session [default: the current folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    workspace: Option<PathBuf>,
    /// Record the calls of tools, for tests: 'patchbay journal fixture'
    #[arg(long)]
    pub(crate) record: bool,
    /// Set the model of the agent in view, as with '/model'
    #[arg(long, value_name = "MODEL[/THINKING]")]
    pub(crate) model: Option<String>,
}

impl SessionArguments {
    /// Returns the folder of the workspace.
    pub(crate) fn workspace(&self) -> &Path {
        self.workspace.as_deref().unwrap_or(Path::new("."))
    }
}

/// Compiles the component on standard input to standard output
#[derive(Args)]
pub(crate) struct Compile {
    /// Memory, in bytes
    pub(crate) bytes: u64,
    /// Processor time, in seconds
    pub(crate) seconds: u64,
    /// Compiled functions come before the component, and after its compiled form
    #[arg(long)]
    pub(crate) functions: bool,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run lines, commands and messages, as if they were typed, and exit
    #[command(
        after_help = "A line is done when its own turn is done. Answers of the agent in view go to standard output: in a \
                      terminal as they arrive, elsewhere when they are whole. What other agents do is a line on standard \
                      error. It ends when every agent is idle.\n\n\
                      Exit code 0: every line succeeded; 1: a line failed, or the last turn of the agent in view; 2: wrong \
                      usage; 3: out of time (--timeout), all turns were stopped; 129, 130 or 143: SIGHUP, SIGINT (Ctrl+C) or \
                      SIGTERM, all turns were stopped; 141: nothing reads standard output."
    )]
    Exec(Exec),
    /// Serve an editor that speaks the Agent Client Protocol, over standard input and output
    ///
    /// An editor starts this command; docs/editors.md shows how to configure it. The log goes to the log file of the home.
    Acp {
        /// Record the calls of tools, for tests: 'patchbay journal fixture'
        #[arg(long, conflicts_with = "connect")]
        record: bool,
        #[command(flatten)]
        connect: ConnectArguments,
    },
    /// List, show and remove stored sessions, and delete what no session needs
    ///
    /// Without a command it lists the sessions of this workspace, the last used first: short id, age, and first words.
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
    /// Adapters to model APIs: check, add, allow, list, remove, forget
    Provider {
        #[command(subcommand)]
        command: Provider,
    },
    /// What would decide about a call, and tests of a configuration
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Add, remove and list grants: what skills may do
    Grant {
        #[command(subcommand)]
        command: GrantCommand,
    },
    /// Workspaces whose skills and personas may replace yours
    Trust {
        #[command(subcommand)]
        command: TrustCommand,
    },
    /// Tokens for clients of 'patchbay serve': add, list, remove
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Show tool calls: time, caller, outcome and cost
    Journal(Journal),
    /// Show what models have cost in this home: by day, session, agent, tool and model
    Usage(UsageList),
    /// Serve the tools of your skills to an MCP client, such as an editor or another agent
    ///
    /// The client starts this command and speaks to it over standard input and output; with --http, clients connect to a port.
    /// Each connection is a session of its own. Calls run in the sandbox, with the grants, limits and journal of every call.
    /// Nothing is asked: a denied call names the command that grants what is missing.
    ///
    /// The other way round, models call the tools of the MCP servers in [mcp.NAME] of config.toml: 'list' and 'check' show them.
    #[command(args_conflicts_with_subcommands = true)]
    #[command(after_help = "Example, for a client that reads JSON:\n  \
        {\"mcpServers\": {\"patchbay\": {\"command\": \"patchbay\", \"args\": [\"mcp\", \"--workspace\", \"/home/ada/project\"]}}}")]
    Mcp {
        #[command(flatten)]
        serve: ServeMcp,
        #[command(subcommand)]
        command: Option<McpCommand>,
    },
    /// Serve the sessions of this home to clients elsewhere, over WebSockets
    ///
    /// Listens as [serve] of config.toml says, by default on 127.0.0.1 alone. A client brings a token. Sessions outlive their
    /// connections: a turn that runs goes on when its client leaves.
    Serve {
        /// Print a link that opens the page in a browser of this machine; it works once, within 60 seconds
        #[arg(long)]
        open: bool,
        /// Record the calls of tools, for tests: 'patchbay journal fixture'
        #[arg(long)]
        record: bool,
    },
    /// Copy the home into an empty folder, while it is in use: sessions, state of skills and configuration
    ///
    /// The copy is a home: set PATCHBAY_HOME to it, or put its folders back. It has no credentials.json, no tokens of clients and no
    /// logs. Links are copied as links.
    Backup {
        /// A folder that is empty or does not exist
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
    /// Check the installation: what is there, what works, what is wrong and how to mend it
    #[command(after_help = "Exit code 0: nothing is wrong; 1: something is wrong, or could not be checked.")]
    Doctor(DoctorArguments),
    /// Print the completions of a shell
    #[command(after_help = "Examples:\n  \
        patchbay completions bash > ~/.local/share/bash-completion/completions/patchbay\n  \
        patchbay completions zsh > ~/.local/share/zsh/site-functions/_patchbay    (a folder of your $fpath)\n  \
        patchbay completions fish > ~/.config/fish/completions/patchbay.fish")]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the manual page, in roff
    #[command(after_help = "Example:\n  patchbay man > ~/.local/share/man/man1/patchbay.1")]
    Man,
    /// What the host itself calls to compile a component
    #[command(hide = true)]
    Compile(Compile),
    /// What the host itself calls to run a program in a cage
    #[command(hide = true)]
    Cage,
}

// The server that a bridge connects to.
#[derive(Args)]
pub(crate) struct ConnectArguments {
    /// Use the sessions of the 'patchbay serve' at this URL, such as wss://HOST/acp; nothing runs on this machine
    #[arg(long, value_name = "URL", requires = "remote")]
    pub(crate) connect: Option<String>,
    /// The folder on the server that takes the place of the editor's: a workspace of [serve] in its config.toml, or a path
    #[arg(long = "workspace", id = "remote", value_name = "NAME|PATH", requires = "connect")]
    pub(crate) workspace: Option<String>,
    /// The file with the token [default: the variable PATCHBAY_TOKEN]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "connect")]
    pub(crate) token_file: Option<PathBuf>,
}

// Which sessions are listed, and how.
#[derive(Args, Clone, Copy)]
pub(crate) struct SessionList {
    /// List the sessions of all workspaces, those of this one first
    #[arg(long)]
    pub(crate) all: bool,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
pub(crate) enum McpCommand {
    /// List the MCP servers of config.toml, without starting them
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Start an MCP server of config.toml, show its tools and what is decided about them, and end it
    #[command(after_help = "Exit code 0: the server answered; 1: it did not.")]
    Check {
        /// The server
        #[arg(value_name = "NAME")]
        name: Name,
        /// The workspace of the session [default: the current folder]
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        workspace: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
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
    /// List stored sessions, the last used first; the same as 'patchbay sessions'
    List(SessionList),
    /// Remove a session with its conversation
    Rm {
        /// Its id, or a unique beginning of it
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Print a stored session: the conversation of the agent in view, also while another process has the session open
    Show(ShowSession),
    /// Delete snapshots, components and attached files that no session needs, and what is remembered of skills' files
    ///
    /// With --older-than, or sessions.keep_days in config.toml, old sessions are removed first.
    Gc(CollectGarbage),
    /// Make tests of all recorded calls of a session, for 'patchbay plugin test'; see 'patchbay journal fixture'
    Fixtures(SessionFixtures),
}

#[derive(Args)]
pub(crate) struct ShowSession {
    /// Its id, or a unique beginning of it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Print the tree of agents: status, model, tokens, turns and mails of each
    #[arg(long, conflicts_with = "agent")]
    pub(crate) tree: bool,
    /// Print the conversation of this agent: its UUID, or a unique beginning of it
    #[arg(long, value_name = "UUID")]
    pub(crate) agent: Option<String>,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct CollectGarbage {
    /// Remove sessions that were not used for this time, such as 12h, 30d or 8w; never one that a process has open
    #[arg(long, value_name = "AGE")]
    pub(crate) older_than: Option<Age>,
    /// Only list the sessions that would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Subcommand)]
pub(crate) enum Plugin {
    /// Create a folder with a working plugin: source, test case, SDK and contract
    New(NewPlugin),
    /// Write the contract (WIT), in the layout that bindings generators read
    Wit {
        /// The folder to write into; a world.wit that is there stays
        #[arg(value_name = "DIR", default_value = "wit")]
        folder: PathBuf,
        /// The kind of plugin
        #[arg(long, value_name = "KIND", value_enum, default_value_t)]
        kind: PluginKindArgument,
    },
    /// Write the C bindings of a world, for languages that are built with a C toolchain
    Bindings {
        /// The language of the bindings
        #[arg(value_name = "LANG", value_parser = ["c"])]
        language: String,
        /// The folder to write into
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The folder with the contract
        #[arg(long, value_name = "DIR", default_value = "wit")]
        wit: PathBuf,
    },
    /// Install compilers for plugins in other languages than Rust
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
        /// The skill
        #[arg(value_name = "SKILL")]
        skill: Name,
        /// Keep printing new lines until Ctrl+C
        #[arg(long, short)]
        follow: bool,
        /// How many lines to print
        #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
        lines: usize,
    },
    Add(PluginAdd),
    Update(PluginUpdate),
    Diff(PluginDiff),
    Remove(PluginRemove),
    Verify(PluginVerify),
    Sums(PluginSums),
    Sync(PluginSync),
    Export(PluginExport),
    Push(PluginPush),
    /// List the plugins that a new session would have: skills, and adapters of providers
    List(PluginList),
    /// Show what a plugin is, what it asks for, and what is wrong with it
    Inspect {
        /// A component, or a plugin's folder
        #[arg(value_name = "FILE")]
        path: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Stop a component or a skill in every session at once, whatever it was granted
    Block {
        /// Its digest, as '/help SKILL' and 'plugin inspect' show it; 8 or more digits are enough if it was seen here
        #[arg(value_name = "DIGEST")]
        digest: String,
    },
    /// Let a blocked component or skill run again
    Unblock {
        /// Its digest, or 8 or more of its digits
        #[arg(value_name = "DIGEST")]
        digest: String,
    },
    /// List what is blocked
    Blocked,
}

#[derive(Subcommand)]
pub(crate) enum Provider {
    /// Add an adapter to your providers; it answers once you allow it
    Add {
        /// The adapter's component
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The name of the provider [default: the name in the adapter]
        #[arg(long, value_name = "NAME")]
        name: Option<Name>,
    },
    /// Approve the origin and the credential that a provider requests
    Allow {
        /// The provider
        #[arg(value_name = "NAME")]
        name: Name,
    },
    /// Remove a provider: its file, its approval, and its prefixes
    Remove {
        /// The provider
        #[arg(value_name = "NAME")]
        name: Name,
    },
    /// Free the names, prefixes and approval of a provider that no longer exists
    Forget {
        /// The provider
        #[arg(value_name = "NAME")]
        name: Name,
    },
    /// List the providers and the state of each
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Ask the providers for their models
    #[command(after_help = "Exit code 0: every provider that could be asked answered; 1: one failed.")]
    Refresh {
        /// Only this provider
        #[arg(value_name = "NAME")]
        name: Option<Name>,
    },
    /// Check an adapter file without installing it
    Check {
        /// The adapter's component
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct UsageList {
    /// Only this day in UTC, such as 2026-11-27
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) day: Option<Day>,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Journal {
    #[command(subcommand)]
    pub(crate) command: Option<JournalCommand>,
    /// Only calls of this skill; mcp__NAME for those of an MCP server
    #[arg(long, value_name = "NAME", value_parser = called_plugin)]
    pub(crate) plugin: Option<String>,
    /// Only calls in this session: its id, or a unique beginning of it
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Print one JSON object a line, with everything that is known of a call
    #[arg(long)]
    pub(crate) json: bool,
    /// Only the newest N calls [default: 100 in the table, all in JSON]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
}

/// Checks the name of a skill, or of an MCP server as the journal has it.
fn called_plugin(text: &str) -> Result<String, String> {
    let is_plain = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    match text.strip_prefix("mcp__") {
        Some(server) if !server.is_empty() && is_plain(server) => Ok(text.to_owned()),
        _ => text.parse::<Name>().map(String::from).map_err(|error| error.to_string()),
    }
}

/// Checks the first line. A single word is refused, because it is more often a mistyped subcommand than a message.
fn first_line(text: &str) -> Result<String, String> {
    if text.starts_with('/') || text.trim().contains(char::is_whitespace) {
        return Ok(text.to_owned());
    }
    Err("no such command. To pass a first line, quote several words, as in: patchbay \"fix the tests\"".to_owned())
}
