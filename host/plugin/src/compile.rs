//! Compiles a plugin's sources with the compiler of their language.

mod c;
mod javascript;
mod python;
mod rust;

pub(crate) use c::trial as c_trial;
pub use c::write_c_bindings;

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use wit_parser::{Resolve, WorldId};

use crate::{BuildError, Language, PluginKind, Toolchain, Toolchains, contract, toolchain};

/// A plugin's sources, and what compiles them.
pub(crate) struct Sources<'a> {
    /// The plugin's folder.
    pub(crate) folder: &'a Path,
    /// The file that the language's compiler starts with, in the folder.
    pub(crate) entry: &'a str,
    /// Whether the folder has a SKILL.md.
    pub(crate) kind: PluginKind,
    pub(crate) toolchains: &'a Toolchains,
}

/// Compiles the sources and returns the core module or component.
///
/// # Errors
/// The compiler is missing or failed, or the language is not built by Patchbay.
pub(crate) fn compile(language: Language, sources: &Sources<'_>, target: &str) -> Result<Vec<u8>, BuildError> {
    match language {
        Language::Rust => rust::compile(sources.folder, target),
        Language::JavaScript | Language::TypeScript => javascript::compile(sources),
        Language::Python => python::compile(sources),
        Language::C => c::compile(sources),
        Language::Zig | Language::Go => Err(BuildError::BuiltElsewhere { folder: sources.folder.to_owned(), language }),
    }
}

impl Sources<'_> {
    /// Returns the folder of a toolchain.
    fn tools(&self, toolchain: Toolchain) -> Result<PathBuf, BuildError> {
        self.toolchains.find(toolchain).map_err(BuildError::Toolchain)
    }

    /// Returns the folder of the contract: `wit` of the plugin, or the host's own in `scratch`.
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
    /// Reads the WIT in `folder`. The plugin's world is the one in the root package.
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

/// Creates the command of a program of `toolchain`, which is in `folder`.
fn command(folder: &Path, toolchain: Toolchain, name: &str) -> Command {
    let mut command = Command::new(toolchain::program(folder, toolchain, name));
    // What a compiler prints to standard output is progress; its errors go to standard error.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Runs a compiler. Its messages have gone to standard error if it fails.
fn run(command: &mut Command, folder: &Path) -> Result<(), BuildError> {
    let program =
        || Path::new(command.get_program()).file_name().unwrap_or(OsStr::new("?")).to_string_lossy().into_owned();
    let name = program();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(BuildError::Compiler { program: name, folder: folder.to_owned() }),
        Err(source) => Err(BuildError::NoCompiler { program: name, source }),
    }
}

/// Creates a folder for intermediate files.
fn scratch() -> Result<tempfile::TempDir, BuildError> {
    tempfile::Builder::new().prefix("patchbay-build-").tempdir().map_err(BuildError::io(&std::env::temp_dir()))
}

fn read(path: &Path) -> Result<Vec<u8>, BuildError> {
    fs::read(path).map_err(BuildError::io(path))
}
