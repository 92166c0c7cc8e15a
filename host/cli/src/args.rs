//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use patchbay_core::Name;
use patchbay_policy::{Capability, Root};

/// An agent host whose every extension is a sandboxed WebAssembly component.
///
/// Without a command it opens a terminal on a new session. Lines that begin with '/' are commands; '/commands' lists them.
/// Any other line is said to a model, which '/model' chooses.
#[derive(Parser)]
#[command(name = "patchbay", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Go on with a stored session: its id, or a unique beginning of it
    #[arg(long, value_name = "ID", conflicts_with = "workspace")]
    pub(crate) session: Option<String>,
    /// The workspace of a new session [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// A component on standard input, what the engine makes of it on standard output.
#[derive(Args)]
pub(crate) struct Compile {
    /// Address space, in bytes
    pub(crate) bytes: u64,
    /// Wall clock, in seconds
    pub(crate) seconds: u64,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run lines as if they were typed, commands and messages, and end
    #[command(after_help = "Exit code 0: all went well; 1: a line failed; 2: wrong usage; 3: out of time.")]
    Exec(Exec),
    /// Stored sessions: list, remove, collect what none needs
    Sessions {
        #[command(subcommand)]
        command: Sessions,
    },
    /// Build, inspect and block plugins
    Plugin {
        #[command(subcommand)]
        command: Plugin,
    },
    /// Adapters to model APIs: add, allow, remove, list, check
    Provider {
        #[command(subcommand)]
        command: Provider,
    },
    /// What skills may do: add, remove, list grants
    Grant {
        #[command(subcommand)]
        command: Grant,
    },
    /// Workspaces whose skills and personas may take the place of yours
    Trust {
        #[command(subcommand)]
        command: Trust,
    },
    /// What tools were called, by whom, and what each call took
    Journal(Journal),
    /// What the host itself calls to compile a component
    #[command(hide = true)]
    Compile(Compile),
}

#[derive(Args)]
pub(crate) struct Exec {
    /// Go on with a stored session: its id, or a unique beginning of it
    #[arg(long, value_name = "ID", conflicts_with = "workspace")]
    pub(crate) session: Option<String>,
    /// The workspace of a new session [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Print JSON, one object a line: the session, then events, and a result after each line
    #[arg(long)]
    pub(crate) json: bool,
    /// Go on after a line that failed
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// End after this many seconds
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
    /// The lines [default: those of standard input]
    #[arg(value_name = "LINE")]
    pub(crate) lines: Vec<String>,
}

#[derive(Subcommand)]
pub(crate) enum Sessions {
    /// List stored sessions, the last used first
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Remove a session with its conversation
    Rm {
        /// Its id, or a unique beginning of it
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Delete snapshots and components that no session needs
    Gc,
}

#[derive(Subcommand)]
pub(crate) enum Plugin {
    /// Make one component of a folder with Rust sources: a skill, its SKILL.md embedded, or a provider's adapter
    Build {
        /// The folder; it is called as the skill or the provider is
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Where the component goes [default: NAME.wasm in the folder]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Take this core module or component instead of running cargo
        #[arg(long, value_name = "FILE", conflicts_with = "target")]
        wasm: Option<PathBuf>,
        /// The Rust target [default: wasm32-unknown-unknown]
        #[arg(long, value_name = "TARGET")]
        target: Option<String>,
    },
    /// Tell what a plugin is, and what is wrong with it
    Inspect {
        /// A component, or a plugin's folder
        #[arg(value_name = "FILE")]
        path: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Stop a component at once in every session, whatever it was granted
    Block {
        /// Its digest, as '/help SKILL' and 'plugin inspect' show it, or 8 or more of its digits if it was seen here
        #[arg(value_name = "DIGEST")]
        digest: String,
    },
    /// Let a blocked component run again
    Unblock {
        /// Its digest, or 8 or more of its digits
        #[arg(value_name = "DIGEST")]
        digest: String,
    },
    /// List the components that are blocked
    Blocked,
}

#[derive(Subcommand)]
pub(crate) enum Provider {
    /// Put an adapter among your providers; it may be asked once you allow it
    Add {
        /// The adapter's component
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// What it is to be called [default: as it calls itself]
        #[arg(long, value_name = "NAME")]
        name: Option<Name>,
    },
    /// Let a provider ask the origin that it asks for, with the key that it asks for
    Allow {
        /// The provider
        #[arg(value_name = "NAME")]
        name: Name,
    },
    /// Take a provider away: its file, what it was allowed, and its prefixes
    Remove {
        /// The provider
        #[arg(value_name = "NAME")]
        name: Name,
    },
    /// List the providers and where each stands
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Tell what a file would be as a provider, and what is wrong with it; nothing is changed
    Check {
        /// The adapter's component
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct Journal {
    /// Calls of this skill alone
    #[arg(long, value_name = "NAME")]
    pub(crate) plugin: Option<Name>,
    /// Calls in this session alone: its id, or a unique beginning of it
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Print one JSON object a line, with everything that is known of a call
    #[arg(long)]
    pub(crate) json: bool,
    /// The newest calls alone, so many [default: 100 in the table, all in JSON]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
}

/// Whose skill is meant.
#[derive(Args)]
pub(crate) struct Whose {
    /// Where the skill comes from
    #[arg(long, value_enum, default_value_t = RootArgument::User)]
    root: RootArgument,
    /// The workspace, for --root workspace [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// The skill
    #[arg(value_name = "SKILL")]
    pub(crate) skill: Name,
    /// What it may do, such as kv
    #[arg(value_name = "CAPABILITY")]
    pub(crate) capability: Capability,
}

impl Whose {
    pub(crate) fn root(&self) -> Root {
        match self.root {
            RootArgument::Bundled => Root::Bundled,
            RootArgument::User => Root::User,
            RootArgument::Workspace => Root::Workspace,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum RootArgument {
    Bundled,
    User,
    Workspace,
}

#[derive(Subcommand)]
pub(crate) enum Grant {
    /// Let a skill do something that its SKILL.md asks for
    Add(Whose),
    /// Take that back
    Remove(Whose),
    /// List all grants
    List {
        /// Print the commands that renew stale grants instead; why each is stale goes to standard error
        #[arg(long)]
        stale: bool,
    },
}

#[derive(Subcommand)]
pub(crate) enum Trust {
    /// Let a workspace's skills and personas take the place of yours; with --write, let skills write there
    Add {
        /// The workspace
        #[arg(value_name = "DIR", default_value = ".")]
        workspace: PathBuf,
        /// Let skills with the grant workspace-write also write AGENTS.md and its like, and write at all where DIR is or
        /// holds your home folder
        #[arg(long)]
        write: bool,
    },
    /// Take both back
    Remove {
        /// The workspace
        #[arg(value_name = "DIR", default_value = ".")]
        workspace: PathBuf,
    },
    /// List the workspaces that are trusted
    List,
}
