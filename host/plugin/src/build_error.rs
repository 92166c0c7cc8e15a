//! Why a plugin was not built.

use std::{
    io,
    path::{Path, PathBuf},
};

use patchbay_core::{Name, text};
use patchbay_skill::Problem;

use crate::{Language, ToolchainError};

/// Why a plugin was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file that could not be read or written.
        path: PathBuf,
        /// The error reported by the operating system.
        source: io::Error,
    },
    /// The folder has no SKILL.md and nothing to build a component from.
    #[error(
        "{} has no SKILL.md, and no sources that Patchbay can build (Cargo.toml, skill.js, skill.ts, skill.py, skill.c, or for a \
         provider Cargo.toml, provider.js, provider.ts). {}. To begin from a template: patchbay plugin new NAME. To use a component \
         from another compiler: --wasm FILE",
        folder.display(),
        minimal_skill(name)
        )]
    Nothing {
        /// The folder of the plugin's sources.
        folder: PathBuf,
        /// The name that the plugin would have.
        name: Name,
    },
    /// The folder has no SKILL.md, and the component is not the adapter of a provider.
    #[error(
        "{} has no SKILL.md, and its component exports {exports}, not a provider's adapter. {}",
        folder.display(),
        minimal_skill(name)
        )]
    NoSkillMd {
        /// The folder of the plugin's sources.
        folder: PathBuf,
        /// The name that the skill would have.
        name: Name,
        /// The exports of the component, separated by commas.
        exports: String,
    },
    /// The folder's name or the SKILL.md is invalid.
    #[error("{}: [{}] {}", path.display(), problem.code, problem.message)]
    Skill {
        /// The folder or file of the skill.
        path: PathBuf,
        /// The problem, with its code and message.
        problem: Problem,
    },
    /// The folder has sources in several languages.
    #[error("{} has both {first} and {second}, so its language is not clear. Keep one of them there", folder.display())]
    SeveralLanguages {
        /// The folder of the plugin's sources.
        folder: PathBuf,
        /// The entry file of one language.
        first: &'static str,
        /// The entry file of the other language.
        second: &'static str,
    },
    /// Patchbay does not run the compiler of this language.
    #[error(
        "{language} plugins are built by their own Makefile: run 'make' in {}",
        folder.display()
    )]
    BuiltElsewhere {
        /// The folder of the plugin's sources.
        folder: PathBuf,
        /// The language of the plugin's sources.
        language: Language,
    },
    /// A compiler is not installed.
    #[error("{0}")]
    Toolchain(ToolchainError),
    /// A compiler cannot be started.
    #[error("cannot run {program}: {source}")]
    NoCompiler {
        /// The compiler that could not be started.
        program: String,
        /// The error reported by the operating system.
        source: io::Error,
    },
    /// A compiler failed. Its messages went to standard error.
    #[error("{program} could not build {}; its messages are above", folder.display())]
    Compiler {
        /// The compiler that failed, for the message.
        program: String,
        /// The folder with the plugin's sources.
        folder: PathBuf,
    },
    /// The entry file lacks the export that every plugin needs.
    #[error(
        "{} does not export '{wanted}'; it exports {}. Write: {example}",
        file.display(),
        if exports.is_empty() { "nothing".to_owned() } else { text::excerpt(&exports.join(", "), 200) }
    )]
    MissingExport {
        /// The file that should have the export.
        file: PathBuf,
        /// The name of the missing export.
        wanted: &'static str,
        /// The names that the file exports.
        exports: Vec<String>,
        /// An example line with the missing export.
        example: &'static str,
    },
    /// The compiler ran the sources, and they failed.
    #[error("{0}")]
    Source(String),
    /// The WIT of the plugin cannot be used.
    #[error("{}: {}", folder.display(), text::excerpt(reason, 600))]
    Wit {
        /// The folder with the WIT packages.
        folder: PathBuf,
        /// The message of the parser or the generator.
        reason: String,
    },
    /// cargo could not be started, for this reason.
    #[error("cannot run cargo: {0}. Install Rust, or pass the module with --wasm FILE")]
    NoCargo(io::Error),
    /// cargo failed. Its messages went to standard error.
    #[error("cargo could not build {}; {advice}", folder.display())]
    Cargo {
        /// The folder of the plugin's sources.
        folder: PathBuf,
        /// Advice about how to fix the build.
        advice: String,
    },
    /// cargo did not build a WebAssembly library.
    #[error(
        "{} does not build a WebAssembly library: write crate-type = [\"cdylib\", \"rlib\"] under [lib]",
        folder.join("Cargo.toml").display()
    )]
    NoLibrary {
        /// The folder of the plugin's sources.
        folder: PathBuf,
    },
    /// The module cannot be turned into a component.
    #[error("cannot make a component from {}: {reason}", path.display())]
    Encode {
        /// The path of the module or component.
        path: PathBuf,
        /// The message of the encoder or parser.
        reason: String,
    },
    /// The component already has an embedded SKILL.md, so it is the output of a build, not an input.
    #[error("{} already has an embedded SKILL.md; pass the component from before that build, or run cargo again", .0.display())]
    Packaged(PathBuf),
}

/// Describes the smallest SKILL.md, for errors.
fn minimal_skill(name: &Name) -> String {
    format!("A skill needs a SKILL.md with at least four lines: ---, name: {name}, summary: What it does, ---")
}

impl BuildError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
