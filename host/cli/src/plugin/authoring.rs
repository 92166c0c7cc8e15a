//! `patchbay plugin new`, `wit`, `bindings` and `tools install`: the commands that an author needs before building.

use std::{
    env,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    path::Path,
    process::ExitCode,
};

use patchbay_core::{Code, text};
use patchbay_plugin::{
    Language, PluginKind, Toolchain, ToolchainError, Toolchains, ZIG_INSTALL, create, write_c_bindings, write_contract,
};
use patchbay_policy::quoted;

use crate::{
    CliError,
    args::{self, NewPlugin},
    home,
    out::{note, say},
};

/// Returns the compilers that are installed in the home.
pub(super) fn toolchains() -> Result<Toolchains, CliError> {
    Ok(Toolchains::new(home::paths()?.cache.join("tools")))
}

impl From<args::PluginKindArgument> for PluginKind {
    fn from(kind: args::PluginKindArgument) -> Self {
        match kind {
            args::PluginKindArgument::Skill => Self::Skill,
            args::PluginKindArgument::Provider => Self::Provider,
        }
    }
}

pub(super) fn new(new: &NewPlugin) -> Result<ExitCode, CliError> {
    let language = match new.lang {
        Some(language) => language,
        None => ask_language()?,
    };
    let kind = new.kind.into();
    let parent = env::current_dir().map_err(CliError::io(Path::new(".")))?;
    create(&parent, &new.name, language, kind)
        .map_err(|error| CliError::new(Code::PluginNotCreated, format!("{error}.")))?;
    let program = quoted(&crate::program()).into_owned();
    let (name, what) = (&new.name, if kind == PluginKind::Skill { "skill" } else { "provider" });
    say!("Created {name}/, a {what} in {language}. Next:\n");
    say!("  cd {name}");
    if let Some(toolchain) = toolchain(language).filter(|toolchain| !installed(*toolchain)) {
        say!("  {program} plugin tools install {}", toolchain.word());
    }
    match language {
        Language::Zig => say!("  {ZIG_INSTALL}\n  make"),
        Language::Go => say!("  make"),
        _ => say!("  {program} plugin build"),
    }
    match kind {
        PluginKind::Skill => say!("  {program} plugin call . hello '{{\"name\":\"Ada\"}}'\n\nREADME.md has the rest."),
        PluginKind::Provider => say!("  {program} plugin add .\n\nREADME.md has the rest."),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the compilers that `plugin tools install` can install for a language; `None` if it needs none of them.
fn toolchain(language: Language) -> Option<Toolchain> {
    match language {
        Language::JavaScript | Language::TypeScript => Some(Toolchain::JavaScript),
        Language::Python => Some(Toolchain::Python),
        Language::C => Some(Toolchain::C),
        Language::Rust | Language::Go | Language::Zig => None,
    }
}

fn installed(toolchain: Toolchain) -> bool {
    toolchains().is_ok_and(|toolchains| toolchains.is_installed(toolchain))
}

/// Asks for the language. Fails if standard input is not a terminal.
fn ask_language() -> Result<Language, CliError> {
    let usage = |message: String| CliError::new(Code::PluginNotCreated, message);
    let names = Language::names().join(", ");
    if !io::stdin().is_terminal() {
        return Err(usage(format!("name the language with --lang: {names}.")));
    }
    let mut answer = String::new();
    let mut error = io::stderr();
    let _ = write!(error, "Language ({names}): ").and_then(|()| error.flush());
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| usage(format!("cannot read standard input: {error}.")))?;
    answer.trim().parse().map_err(|error| usage(format!("{error}.")))
}

pub(super) fn wit(folder: &Path, kind: args::PluginKindArgument) -> Result<ExitCode, CliError> {
    for path in write_contract(folder, kind.into()).map_err(CliError::io(folder))? {
        say!("{}", text::clean_line(&path.to_string_lossy()));
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn bindings(wit: &Path, folder: &Path) -> Result<ExitCode, CliError> {
    write_c_bindings(wit, folder).map_err(|error| CliError::new(Code::BuildFailed, error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn install(word: &str) -> Result<ExitCode, CliError> {
    let word = if word == "ts" { "js" } else { word };
    let Some(toolchain) = Toolchain::ALL.into_iter().find(|toolchain| toolchain.word() == word) else {
        return Err(CliError::new(Code::InvalidArgs, format!("unknown language '{word}'.")));
    };
    let toolchains = toolchains()?;
    if !toolchains.is_installed(toolchain) {
        note(&format!("Installing the {toolchain} compilers …"));
    }
    let (folder, new) = toolchains.install(toolchain).map_err(tools_error)?;
    let folder = text::clean_line(&folder.to_string_lossy());
    match new {
        true => say!("Installed the {toolchain} compilers in {folder}."),
        false => say!("The {toolchain} compilers are already installed in {folder}."),
    }
    Ok(ExitCode::SUCCESS)
}

fn tools_error(error: ToolchainError) -> CliError {
    CliError::new(Code::ToolsNotInstalled, format!("{error}."))
}
