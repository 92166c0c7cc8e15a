//! Compiles a plugin's sources with the compiler of their language.

mod c;
mod javascript;
mod python;
mod rust;

pub(crate) use c::places_of as c_places_of;
pub use c::write_c_bindings;

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use patchbay_core::text;
use wit_parser::{Resolve, WorldId};

use crate::{BuildError, Language, PluginKind, Toolchain, Toolchains, contract, toolchain};

/// A plugin's sources, and the installed compilers.
pub(crate) struct PluginSources<'a> {
    pub(crate) folder: &'a Path,
    /// The entry file for the compiler, relative to the folder.
    pub(crate) entry: &'a str,
    /// A skill if the folder has a SKILL.md, otherwise a provider.
    pub(crate) kind: PluginKind,
    pub(crate) toolchains: &'a Toolchains,
}

/// The result of a compiler.
pub(crate) struct Compiled {
    /// A core module or component.
    pub(crate) bytes: Vec<u8>,
    /// The source map of the JavaScript bundle in `bytes`.
    pub(crate) source_map: Option<Vec<u8>>,
    /// Likely mistakes in the sources that did not stop the compiler.
    pub(crate) notes: Vec<String>,
}

impl From<Vec<u8>> for Compiled {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, source_map: None, notes: Vec::new() }
    }
}

/// Compiles the sources and returns the core module or component.
///
/// # Errors
/// The compiler is missing or failed, or Patchbay does not build this language.
pub(crate) fn compile(language: Language, sources: &PluginSources<'_>, target: &str) -> Result<Compiled, BuildError> {
    match language {
        Language::Rust => rust::compile(sources.folder, target).map(Compiled::from),
        Language::JavaScript | Language::TypeScript => javascript::compile(sources),
        Language::Python => python::compile(sources),
        Language::C => c::compile(sources).map(Compiled::from),
        Language::Zig | Language::Go => Err(BuildError::BuiltElsewhere { folder: sources.folder.to_owned(), language }),
    }
}

impl PluginSources<'_> {
    /// Returns the folder of a toolchain.
    fn tools(&self, toolchain: Toolchain) -> Result<PathBuf, BuildError> {
        self.toolchains.find(toolchain).map_err(BuildError::Toolchain)
    }

    /// Returns the folder of the contract: the plugin's own `wit`, or a copy of the host's contract that is written to `scratch`.
    fn wit(&self, scratch: &Path) -> Result<PathBuf, BuildError> {
        let own = self.folder.join("wit");
        if own.is_dir() {
            return Ok(own);
        }
        let written = scratch.join("wit");
        contract::write_contract(&written, self.kind).map_err(BuildError::io(&written))?;
        Ok(written)
    }
}

/// A parsed contract with the plugin's world.
struct Contract {
    resolve: Resolve,
    world: WorldId,
}

impl Contract {
    /// Reads the WIT in `folder`. The plugin's world is the only world of the root package.
    fn read(folder: &Path) -> Result<Self, BuildError> {
        let invalid = |reason: String| BuildError::Wit { folder: folder.to_owned(), reason };
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_dir(folder).map_err(|error| invalid(format!("{error:#}")))?;
        let world = resolve.select_world(&[package], None).map_err(|error| invalid(format!("{error:#}")))?;
        Ok(Self { resolve, world })
    }

    fn world_name(&self) -> &str {
        &self.resolve.worlds[self.world].name
    }
}

/// Creates a command that runs the program `name` of `toolchain`, which is installed in `folder`.
fn command(folder: &Path, toolchain: Toolchain, name: &str) -> Command {
    silent(Command::new(toolchain::program(folder, toolchain, name)))
}

/// Makes a compiler silent except for its errors: its standard output is only progress.
fn silent(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Runs a compiler and prints its messages to standard error, after `explain` has added advice.
fn run_explained(
    command: &mut Command,
    program: &str,
    folder: &Path,
    explain: impl FnOnce(&str) -> String,
) -> Result<(), BuildError> {
    let output = command.stderr(Stdio::piped()).output();
    let output = output.map_err(|source| BuildError::NoCompiler { program: program.to_owned(), source })?;
    if !output.stderr.is_empty() {
        let printed = explain(&text::clean(&String::from_utf8_lossy(&output.stderr)));
        let _ = writeln!(io::stderr(), "{}", printed.trim_end());
    }
    match output.status.success() {
        true => Ok(()),
        false => Err(BuildError::Compiler { program: program.to_owned(), folder: folder.to_owned() }),
    }
}

/// Runs a compiler that evaluates the sources. If it fails, `message` extracts the error that concerns the author from its output.
fn run_evaluating(
    program: &str,
    command: &mut Command,
    folder: &Path,
    message: impl FnOnce(&str) -> Option<String>,
) -> Result<(), BuildError> {
    let name = program.to_owned();
    let output = command.stderr(Stdio::piped()).output();
    let output = output.map_err(|source| BuildError::NoCompiler { program: name.clone(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let printed = text::clean(&String::from_utf8_lossy(&output.stderr));
    match message(&printed).filter(|message| !message.trim().is_empty()) {
        Some(message) => Err(BuildError::Source(message.trim().to_owned())),
        None => {
            let _ = io::stderr().write_all(printed.as_bytes());
            Err(BuildError::Compiler { program: name, folder: folder.to_owned() })
        }
    }
}

/// Creates a folder for intermediate files.
fn scratch() -> Result<tempfile::TempDir, BuildError> {
    // The path must not contain links, because a bundler would resolve them.
    let parent = std::env::temp_dir();
    let parent = parent.canonicalize().map_err(BuildError::io(&parent))?;
    tempfile::Builder::new().prefix("patchbay-build-").tempdir_in(&parent).map_err(BuildError::io(&parent))
}

fn read(path: &Path) -> Result<Vec<u8>, BuildError> {
    fs::read(path).map_err(BuildError::io(path))
}
