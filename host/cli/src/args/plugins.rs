//! The arguments of the commands of `patchbay plugin`.

use std::{path::PathBuf, str::FromStr};

use clap::{Args, Subcommand, ValueHint};
use patchbay_core::{Digest, DigestError, Name, PackageName};
use patchbay_egress::{Origin, is_variable};
use patchbay_plugin::{Language, RegistryAddress};
use patchbay_policy::Capability;
use patchbay_skill::Fingerprint;

/// Call one tool of a plugin without installing it
///
/// The tool runs in an empty home and an empty workspace, which are deleted afterwards, with the limits of config.toml. Only
/// compiled components of your home are used. The tool only has the capabilities that you name with --grant; for --grant
/// credential:NAME, the key is read from the environment.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    patchbay plugin call greet hello '{\"name\": \"Ada\"}'\n  \
    patchbay plugin call greet/greet.wasm hello Ada --grant kv\n\n\
    Exit code 0: the tool returned a result; 1: it failed, or the plugin cannot be loaded; 2: wrong usage.")]
pub(crate) struct PluginCall {
    /// A component, or a plugin's folder with its component
    #[arg(value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub(crate) plugin: PathBuf,
    /// The name of the tool, as the component declares it
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    /// The input: a JSON object, or text if the tool requires one string and nothing else; - reads standard input [default: {}]
    #[arg(value_name = "INPUT")]
    pub(crate) input: Option<String>,
    /// Grant a capability that SKILL.md requests, such as kv; can be repeated
    #[arg(long, value_name = "CAP")]
    pub(crate) grant: Vec<Capability>,
    /// Copy a file into the workspace at its relative path; can be repeated
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) file: Vec<PathBuf>,
    /// Attach a file to the call; can be repeated
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) attach: Vec<PathBuf>,
    /// Print one JSON object: the result, with the usage, output and denials of the call
    #[arg(long)]
    pub(crate) json: bool,
}

/// Add a plugin: a package of skills, or the adapter of a provider
///
/// You see what the package contains and which capabilities it requests, and are asked before anything is added. The package is
/// copied, and its origin and digests are recorded in packages.lock. Adding a package grants nothing and runs none of its programs;
/// its tools are listed in the sandbox.
///
/// With --link, the folder is linked instead of copied, and sessions see each build. Grants to a linked skill apply to any files in
/// the folder until you remove the link, so only link a folder if you review every change in it.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    patchbay plugin add ./greet.wasm\n  \
    patchbay plugin add ./aws-core --rename deploy=aws-deploy\n  \
    patchbay plugin add https://acme.example/greet.wasm --sha256 3f7f…\n  \
    patchbay plugin add oci://ghcr.io/acme/greet:1.2.0\n\n\
    Exit code 0: the plugin was added; 1: it was refused; 2: you declined, or the folder only lists plugins.")]
pub(crate) struct PluginAdd {
    /// A .wasm file with its SKILL.md embedded, the folder of a skill or of a plugin for other clients, the adapter of a provider,
    /// the https:// URL of a .wasm or .tar.gz, or oci://HOST/PATH:VERSION
    #[arg(value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    pub(crate) plugin: PathBuf,
    /// The name of the package [default: its own name]
    #[arg(long, value_name = "NAME", conflicts_with = "link")]
    pub(crate) name: Option<PackageName>,
    /// Give a skill another name; can be repeated
    #[arg(long, value_name = "OLD=NEW", conflicts_with = "link")]
    pub(crate) rename: Vec<Rename>,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "link")]
    pub(crate) json: bool,
    /// Accept the file only if it has this SHA-256
    #[arg(long, value_name = "DIGEST", value_parser = sha256, conflicts_with = "link")]
    pub(crate) sha256: Option<Digest>,
    /// The folder in the .tar.gz that contains the package
    #[arg(long, value_name = "DIR", conflicts_with = "link")]
    pub(crate) path: Option<String>,
    #[command(flatten)]
    pub(crate) sign_in: RegistrySignIn,
    /// Link the folder of a skill that you are developing, instead of copying it
    #[arg(long)]
    pub(crate) link: bool,
    /// Replace the skill of this name in your skills folder
    #[arg(long, requires = "link")]
    pub(crate) replace: bool,
}

/// Parses a digest with or without `sha256:`.
fn sha256(text: &str) -> Result<Digest, String> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text);
    format!("sha256:{hex}").parse().map_err(|error: DigestError| error.to_string())
}

/// A skill's name in its package, and its name in sessions.
#[derive(Clone, Debug)]
pub(crate) struct Rename {
    pub(crate) old: Name,
    pub(crate) new: Name,
}

impl FromStr for Rename {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (old, new) = text.split_once('=').ok_or("write it as OLD=NEW")?;
        let name = |name: &str| name.parse::<Name>().map_err(|error| error.to_string());
        Ok(Self { old: name(old)?, new: name(new)? })
    }
}

/// Update packages from where they were added
///
/// Reads the file or folder again, downloads the URL again, or looks for the highest version in the registry. You see what would
/// change, and are asked before an update. Grants for capabilities that both versions request are kept; new ones need a grant from
/// you. Nothing is updated automatically.
#[derive(Args)]
#[command(
    after_help = "Exit code 0: up to date, updated, or only checked; 1: a source cannot be used; 2: a new version was not accepted."
)]
pub(crate) struct PluginUpdate {
    /// The packages [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<PackageName>,
    /// Only show what would change
    #[arg(long)]
    pub(crate) check: bool,
    /// Update to exactly this version, even if it is lower; for a package without a version, to this digest
    #[arg(long, value_name = "VERSION")]
    pub(crate) to: Option<String>,
    /// Give a skill of the new version another name; can be repeated
    #[arg(long, value_name = "OLD=NEW", requires = "names")]
    pub(crate) rename: Vec<Rename>,
    /// Accept this key in place of the pinned one, after its publisher has confirmed it
    #[arg(long, value_name = "FINGERPRINT")]
    pub(crate) accept_signer: Option<Fingerprint>,
    #[command(flatten)]
    pub(crate) sign_in: RegistrySignIn,
    /// Do not ask; requires --to, and refuses a version that requests more, or whose signer is not the pinned one
    #[arg(long)]
    pub(crate) yes: bool,
    /// Show the changed lines of instructions
    #[arg(long)]
    pub(crate) text: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what changes between two versions of a package
#[derive(Args)]
pub(crate) struct PluginDiff {
    /// The name of an installed package, or a file or folder, such as ./NAME
    #[arg(value_name = "OLD", value_hint = ValueHint::AnyPath)]
    pub(crate) old: PathBuf,
    /// The name of an installed package, or a file or folder, such as ./NAME
    #[arg(value_name = "NEW", value_hint = ValueHint::AnyPath)]
    pub(crate) new: PathBuf,
    /// Show the changed lines of instructions
    #[arg(long)]
    pub(crate) text: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Install and update packages to match another packages.lock
///
/// You see the whole plan, and are asked before the first change. Grants are not part of a lock, so add them on each machine.
#[derive(Args)]
#[command(after_help = "Example:\n  patchbay plugin sync team/packages.lock --from team\n\n\
    Exit code 0: the packages match the lock; 1: a package cannot be read; 2: you declined.")]
pub(crate) struct PluginSync {
    /// The packages.lock to match
    #[arg(value_name = "LOCK", value_hint = ValueHint::FilePath)]
    pub(crate) lock: PathBuf,
    /// A folder that 'plugin export' wrote [default: where each package was found]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) from: Option<PathBuf>,
    /// Also remove packages that are not in LOCK
    #[arg(long)]
    pub(crate) exact: bool,
    #[command(flatten)]
    pub(crate) sign_in: RegistrySignIn,
    /// Do not ask; refuses updates that request more
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Check that the installed packages match packages.lock, without running anything
#[derive(Args)]
#[command(after_help = "Exit code 0: all match; 1: a package does not match; 2: a package could not be checked.")]
pub(crate) struct PluginVerify {
    /// The packages [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<PackageName>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the digest of each file in a package, in the format of 'sha256sum -c'
///
/// The digest of a folder is the SHA-256 of this list.
#[derive(Args)]
pub(crate) struct PluginSums {
    /// The file or folder of a package
    #[arg(value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,
}

/// Write the installed packages and packages.lock to a folder, for 'plugin sync --from' on another machine
#[derive(Args)]
pub(crate) struct PluginExport {
    /// The folder to write to, which must be empty or not exist
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
}

/// Remove a package with its grants, or a skill from your skills folder
#[derive(Args)]
pub(crate) struct PluginRemove {
    /// The package, or the skill in your skills folder
    #[arg(value_name = "NAME")]
    pub(crate) name: PackageName,
    /// Also delete what its skills and servers have stored
    #[arg(long)]
    pub(crate) data: bool,
}

/// Allow an MCP server of an installed package
///
/// You see the server's whole command or address, and are asked before it is allowed. Models can then call its tools, named
/// mcp__NAME__TOOL. You are asked about each call unless the server marks the tool as read-only. If an update changes the server's
/// entry, the server is turned off again.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    patchbay plugin allow tools docs\n  \
    patchbay plugin allow tools github --as work --env GITHUB_TOKEN\n\n\
    Exit code 0: the server is allowed; 1: it cannot be allowed; 2: you declined.")]
pub(crate) struct PluginAllow {
    /// The package
    #[arg(value_name = "PACKAGE")]
    pub(crate) package: PackageName,
    /// The server, as 'plugin list' shows it
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,
    /// The server's name in the names of its tools [default: its own name]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<Name>,
    /// Pass this variable of your environment to the program; can be repeated
    #[arg(long, value_name = "VAR", value_parser = variable)]
    pub(crate) env: Vec<String>,
    /// Send this credential of config.toml to the server's URL, as Authorization: Bearer
    #[arg(long, value_name = "NAME")]
    pub(crate) credential: Option<Name>,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Parses the name of an environment variable that is passed to a program.
fn variable(text: &str) -> Result<String, &'static str> {
    match text {
        "PLUGIN_ROOT" | "PLUGIN_DATA" => Err("Patchbay sets it"),
        text if is_variable(text) => Ok(text.to_owned()),
        _ => Err("name a variable without its value, such as GITHUB_TOKEN"),
    }
}

/// Turn off an MCP server of a package
#[derive(Args)]
pub(crate) struct PluginDeny {
    /// The package
    #[arg(value_name = "PACKAGE")]
    pub(crate) package: PackageName,
    /// The server, as 'plugin list' shows it
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,
}

/// Publish a component as one version in an OCI registry
///
/// A published version is never overwritten. If FILE.sig exists, it must be a valid signature of FILE, and is published, too. To
/// sign in, add a credential to config.toml whose origin is the registry.
#[derive(Args)]
#[command(after_help = "Example:\n  patchbay plugin push greet.wasm oci://ghcr.io/acme/greet:1.2.0")]
pub(crate) struct PluginPush {
    /// A skill in one file, or the adapter of a provider
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// The address to publish to, with the version: oci://HOST/PATH:VERSION
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: RegistryAddress,
    #[command(flatten)]
    pub(crate) sign_in: RegistrySignIn,
}

#[derive(Args)]
pub(crate) struct RegistrySignIn {
    /// Also send the registry's credential to this server, which issues the registry's tokens; can be repeated
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) sign_in_at: Vec<Origin>,
}

#[derive(Args)]
pub(crate) struct PluginList {
    /// List package changes instead: date, user and change
    #[arg(long)]
    pub(crate) changes: bool,
    /// Also list the skills of this workspace [default: the current folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) workspace: Option<PathBuf>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const BUILD_HELP: &str = "The language is detected by the file in the folder: Cargo.toml (Rust), skill.js, skill.ts, skill.py or skill.c; a \
provider can also have provider.js or provider.ts. SKILL.md and the skill's other files are embedded, without sources and build folders.";

/// Build a folder with sources into one component: a skill with its SKILL.md, or a provider's adapter
///
/// With --agent-plugin, build one or more skills into an Agent Plugin (agent-plugins.org), a folder that other clients can load,
/// too. They get the skills' tools from 'patchbay mcp --package'.
#[derive(Args)]
#[command(after_help = BUILD_HELP)]
pub(crate) struct PluginBuild {
    /// The folder, whose name is the name of the skill or provider; several are only possible with --agent-plugin
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
    /// Write an Agent Plugin to this folder, whose name is the name of the package
    #[arg(long, value_name = "OUT", value_hint = ValueHint::DirPath)]
    pub(crate) agent_plugin: Option<PathBuf>,
    /// Make OUT a marketplace for Codex, Copilot and Claude Code, with the package in plugins/NAME
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
    /// rust, js, ts, python, c, zig or go [default: ask in a terminal]
    #[arg(long, value_name = "LANG")]
    pub(crate) lang: Option<Language>,
    /// Whether to create a skill or a provider's adapter
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    pub(crate) kind: PluginKindArgument,
}

/// The kind of plugin that an author creates.
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
    /// Install the compilers of a language into the cache folder, in the versions that this release was tested with
    Install {
        /// js (also for ts), python or c
        #[arg(value_name = "LANG", value_parser = ["js", "ts", "python", "c"])]
        language: String,
    },
}

/// Run the test cases of a plugin against its component, in the real sandbox
///
/// The cases are the files fixtures/*.json of the plugin's folder, each with a tool's input, its grants, the responses to its host
/// calls, and the expected result. Cases of an adapter have a request, the API's responses, and the expected events.
/// docs/fixtures.md describes them. Each case has its own empty home and workspace, the default limits, and no network: a host call
/// without a recorded response fails with not_recorded. Only compiled components of your home are used.
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
    /// Run only cases with this text in their name or tool
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Accept differences: show each one and write it into the fixture as the expected result
    ///
    /// Recorded host calls are not changed: a case whose host calls differ still fails.
    #[arg(long)]
    pub(crate) update: bool,
    /// Check only the rules for all plugins, and show all of them; needs no fixtures
    ///
    /// Without this option, the rules are checked together with the results unless --filter is given. The list of tools is valid
    /// and the same in fresh instances; input that a schema refuses is refused; the same input gives the same bytes in two fresh
    /// instances; each case stays within half of each default limit; the SKILL.md requests every capability that is used; output
    /// has no control characters.
    #[arg(long, conflicts_with = "update")]
    pub(crate) conformance: bool,
    /// Print one JSON object: each case with its differences and its use of each limit
    #[arg(long)]
    pub(crate) json: bool,
}

/// Work on a plugin: build it on each save, repeat the last call, and show what changed
///
/// Type calls such as 'hello {"name": "Ada"}'. After each save, the last call is repeated in a new temporary session, with the
/// store and files that it started with. If the call sent requests other than GET, used credentials, models or other tools, or wrote
/// into the folder of --workspace, its recorded responses are used until you press Enter. Grants last until the command ends.
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
    /// The folder of a plugin, or a component that another tool builds
    #[arg(value_name = "DIR|FILE", default_value = ".", value_hint = ValueHint::AnyPath)]
    pub(crate) plugin: PathBuf,
    /// Grant a capability that SKILL.md requests, instead of asking; can be repeated
    #[arg(long, value_name = "CAP")]
    pub(crate) grant: Vec<Capability>,
    /// Copy a file into the workspace at its relative path; can be repeated
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) file: Vec<PathBuf>,
    /// Use this folder as the workspace; calls change its files
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "file")]
    pub(crate) workspace: Option<PathBuf>,
}
