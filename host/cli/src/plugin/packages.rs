//! Shared by the package commands: the packages of the home, the question before a change, and the suggested grant commands.

use std::{
    collections::BTreeMap,
    env,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    path::Path,
    process::ExitCode,
};

use patchbay_core::{Code, Name, text};
use patchbay_plugin::package::{InstalledServer, PackageError, PackageReport, Packages};
use patchbay_policy::{Capability, quoted};
use patchbay_store::Store;

use crate::{
    CliError,
    args::Rename,
    home::HomeDirs,
    out::{note, say},
};

/// Exit code if nothing was changed because the user did not agree to it.
pub(super) const UNDECIDED: u8 = 2;

impl From<PackageError> for CliError {
    fn from(error: PackageError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// Returns the packages of the home.
pub(crate) fn packages(home: &HomeDirs, store: &Store) -> Packages {
    let user =
        ["USER", "LOGNAME"].into_iter().filter_map(|variable| env::var(variable).ok()).find(|user| !user.is_empty());
    let who = user.map_or_else(|| "unknown".to_owned(), |user| text::excerpt(&user, 80));
    Packages::new(home.paths.packages(), store.clone(), who)
}

/// Returns the MCP servers of all installed packages, sorted by package and name.
pub(crate) async fn installed_servers(home: &HomeDirs, store: &Store) -> Result<Vec<InstalledServer>, CliError> {
    let (packages, allowances) = (packages(home, store), store.server_allowances().await?);
    let lock = packages.read()?;
    let of_package = |package| InstalledServer::of_package(&packages, package, &allowances);
    Ok(lock.packages().iter().flat_map(of_package).collect())
}

/// Prints a refusal, and returns the exit code for it.
pub(super) fn undecided(code: Code, message: &str) -> ExitCode {
    note(&format!("Error: {}", CliError::new(code, message)));
    ExitCode::from(UNDECIDED)
}

/// Asks `question` unless `yes` is set. Returns the exit code if the answer is not yes.
pub(super) fn confirm(question: &str, yes: bool) -> Result<(), ExitCode> {
    if yes {
        return Ok(());
    }
    let message = match ask(question) {
        Some(true) => return Ok(()),
        Some(false) => "nothing was changed.",
        None => {
            "no terminal can answer the question. Read what is printed above, and repeat the command with --yes. Nothing was changed."
        }
    };
    Err(undecided(Code::NotConfirmed, message))
}

/// Asks `question` in a terminal, and returns whether the answer is yes; `None` without a terminal.
pub(super) fn ask(question: &str) -> Option<bool> {
    if !io::stdin().is_terminal() {
        return None;
    }
    let (mut answer, mut error) = (String::new(), io::stderr());
    let _ = write!(error, "{} [y/N] ", text::clean_line(question)).and_then(|()| error.flush());
    let read = io::stdin().lock().read_line(&mut answer);
    Some(read.is_ok() && matches!(&*answer.trim().to_lowercase(), "y" | "yes"))
}

/// Returns the new names of skills by their names in the package.
pub(super) fn renames(rename: &[Rename]) -> BTreeMap<Name, Name> {
    rename.iter().map(|rename| (rename.old.clone(), rename.new.clone())).collect()
}

/// Checks that the package contains each skill to rename.
pub(super) fn check_renames(rename: &[Rename], report: &PackageReport) -> Result<(), CliError> {
    let own: Vec<&str> = report.skills.iter().map(|skill| &*skill.inspected.name).collect();
    let unknown = rename.iter().find(|rename| !own.contains(&rename.old.as_str()));
    unknown.map_or(Ok(()), |Rename { old, .. }| {
        let message = format!("the package has no skill '{old}' to rename; it has {}.", own.join(", "));
        Err(CliError::new(Code::InvalidArgs, message))
    })
}

/// Prints the commands that grant the capabilities for which `is_wanted` returns true.
pub(super) fn print_grants(report: &PackageReport, is_wanted: impl Fn(&Name, &Capability) -> bool) {
    for skill in report.skills.iter().filter(|skill| skill.inspected.component.is_some()) {
        let wanted = skill.asks().iter().map(|asked| &asked.capability).filter(|asked| is_wanted(&skill.name, asked));
        let wanted: Vec<String> = wanted.map(|asked| quoted(&asked.to_string()).into_owned()).collect();
        if !wanted.is_empty() {
            say!("To grant it: patchbay grant add --package {} {} {}", report.name, skill.name, wanted.join(" "));
        }
    }
}

/// Quotes a path for a shell command.
pub(super) fn shown(path: &Path) -> String {
    quoted(&text::clean_line(&path.to_string_lossy())).into_owned()
}
