//! The arguments of the commands of `patchbay plugin`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use patchbay_core::Name;
use patchbay_plugin::Language;
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
/// The plugin is copied. It is checked first, and refused if it would not load.
///
/// With --link, the folder is linked instead, and sessions see each build. Grants to a linked skill hold for any files in the folder
/// until you remove the link, so only link a folder if you review every change in it.
#[derive(Args)]
pub(crate) struct PluginAdd {
    /// A component with its SKILL.md embedded, a skill's folder, or the adapter of a provider
    #[arg(value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub(crate) plugin: PathBuf,
    /// Link the folder of a skill that you are developing, instead of copying it
    #[arg(long)]
    pub(crate) link: bool,
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

pub(crate) const BUILD_HELP: &str = "The language is that of the file found in the folder: Cargo.toml (Rust), skill.js, skill.ts, skill.py or skill.c, for a \
provider also provider.js or provider.ts. SKILL.md and the skill's other files are embedded; sources and build folders are left out.";

/// Build a folder with sources into one component: a skill with its SKILL.md, or a provider's adapter
///
/// With --agent-plugin, build one or more skills into an Agent Plugin (agent-plugins.org): a folder that other clients load, too. They
/// get the tools of its skills from 'patchbay mcp --package'.
#[derive(Args)]
#[command(after_help = BUILD_HELP)]
pub(crate) struct PluginBuild {
    /// The folder; its name is the name of the skill or the provider. Several only with --agent-plugin
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::AnyPath)]
    pub(crate) folders: Vec<PathBuf>,
    /// The file to write [default: NAME.wasm in the folder]
    #[arg(long, value_name = "FILE", conflicts_with = "agent_plugin")]
    pub(crate) out: Option<PathBuf>,
    /// Use this core module or component, from any compiler, instead of building the sources
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "agent_plugin"])]
    pub(crate) wasm: Option<PathBuf>,
    /// The Rust target [default: wasm32-unknown-unknown]
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Write an Agent Plugin into this folder; its name is the name of the package
    #[arg(long, value_name = "OUT", value_hint = ValueHint::DirPath)]
    pub(crate) agent_plugin: Option<PathBuf>,
    /// Make OUT a marketplace for Codex and Claude Code, with the package in plugins/NAME
    #[arg(long, requires = "agent_plugin")]
    pub(crate) marketplace: bool,
    /// Add .mcp.json, from which Claude Code starts the server
    #[arg(long, requires = "agent_plugin")]
    pub(crate) claude: bool,
}

#[derive(Args)]
pub(crate) struct NewPlugin {
    /// The name of the plugin and of its folder
    #[arg(value_name = "NAME")]
    pub(crate) name: Name,
    /// rust, js, ts, python, c, zig or go; without it, a terminal asks
    #[arg(long, value_name = "LANG")]
    pub(crate) lang: Option<Language>,
    /// The kind of plugin
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    pub(crate) kind: PluginKindArgument,
}

/// The kind of a plugin.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub(crate) enum PluginKindArgument {
    /// Tools and commands
    #[default]
    Skill,
    /// The adapter of a language-model API
    Provider,
}

#[derive(Subcommand)]
pub(crate) enum ToolsCommand {
    /// Install the compilers of a language into the cache folder, in the versions that this Patchbay was tested with
    Install {
        /// js (also for ts), python or c
        #[arg(value_name = "LANG", value_parser = ["js", "ts", "python", "c"])]
        language: String,
    },
}

/// Run the test cases of a plugin against its component, in the real sandbox
///
/// The cases are the files fixtures/*.json of the plugin's folder, each with a tool's input, its grants, the answers to its host calls,
/// and the expected result. Those of an adapter have a request, the API's answers, and the expected events. docs/fixtures.md describes
/// them. Each case has an empty home and workspace of its own, the default limits, and no network: a host call without a recorded
/// answer fails as not_recorded. Of your home only compiled components are used.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    patchbay plugin test\n  \
    patchbay plugin test greet --filter hello --update\n  \
    patchbay plugin test --conformance stranger.wasm\n  \
    patchbay plugin test greet.wasm    (the fixtures are beside the component)\n\n\
    Exit code 0: every case passed, or was updated; 1: a case failed; 2: the plugin or its fixtures cannot be used.")]
pub(crate) struct PluginTest {
    /// A plugin's folder with its component, or a component
    #[arg(value_name = "DIR|FILE", default_value = ".", value_hint = ValueHint::AnyPath)]
    pub(crate) plugin: PathBuf,
    /// Run only cases whose name or tool contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Make what differs the expected result: shows each difference, and writes it into the fixture
    ///
    /// Recorded host calls are not changed: a case whose host calls differ still fails.
    #[arg(long)]
    pub(crate) update: bool,
    /// Check only the rules that hold for every plugin, and show all of them; fixtures are not needed
    ///
    /// Without this option, the rules are checked together with the results unless --filter is given. The list of tools is valid and the
    /// same in fresh instances; input that a schema refuses is refused; the same input gives the same bytes in two fresh
    /// instances; each case stays within half of each default limit; the SKILL.md requests every capability that is used; output has no
    /// control characters.
    #[arg(long, conflicts_with = "update")]
    pub(crate) conformance: bool,
    /// Print one JSON object: each case with its differences, and how much of each limit it used
    #[arg(long)]
    pub(crate) json: bool,
}

/// Work on a plugin: build it on each save, repeat the last call, and show what changed
///
/// Type calls such as 'hello {"name": "Ada"}'. After a save, the last call is repeated in a fresh throw-away session, with the store and
/// the files that it began with. If it sent requests other than GET, or used credentials, models or other tools, its recorded answers
/// are used until you press Enter. Grants last until the command ends.
#[derive(Args)]
#[command(after_help = "Lines that you can type:
  \
    TOOL [INPUT]     call a tool, as with 'plugin call'
  \
    (an empty line)  repeat the last call live
  \
    fixture [NAME]   keep the last call as a test in the folder fixtures
  \
    help, quit")]
pub(crate) struct PluginDev {
    /// A plugin's folder, or a component that something else builds
    #[arg(value_name = "DIR|FILE", default_value = ".", value_hint = ValueHint::AnyPath)]
    pub(crate) plugin: PathBuf,
    /// Grant a capability that the SKILL.md asks for, without a question; may be given several times
    #[arg(long, value_name = "CAP")]
    pub(crate) grant: Vec<Capability>,
    /// Copy a file into the workspace, under its relative path; may be given several times
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) file: Vec<PathBuf>,
    /// Use this folder as the workspace: calls change its files
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "file")]
    pub(crate) workspace: Option<PathBuf>,
}
