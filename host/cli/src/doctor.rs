//! `patchbay doctor`: reports the installation, its problems, and a command to fix or to examine each. `main` calls it.
//!
//! Like every start of Patchbay, it creates missing folders and migrates the databases; otherwise it changes nothing. It finds
//! keys, but never shows their values.

mod home;
mod plugins;
mod report;
mod servers;
mod terminal;

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

use patchbay_policy::quoted_folder;

use crate::{
    CliError, FAILED,
    args::{DoctorArguments, VERSION},
    out::say,
};
use report::{DoctorReport, Fact};

pub(crate) async fn run(arguments: &DoctorArguments) -> Result<ExitCode, CliError> {
    let workspace = arguments.workspace.as_deref().unwrap_or(Path::new("."));
    let mut report = DoctorReport::default();
    installation(&mut report);
    match home::check(&mut report).await {
        Some(opened) => {
            plugins::check(&mut report, &opened, workspace).await;
            servers::check(&mut report, &opened);
        }
        None => report.section("Plugins", vec![Fact::new("state", "not checked; fix the problems below first")]),
    }
    terminal::check(&mut report);
    terminal::check_cage(&mut report).await;
    if arguments.json {
        say!("{}", report.to_json());
    } else {
        say!("{}", report.to_text());
    }
    Ok(if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn installation(report: &mut DoctorReport) {
    let program = env::current_exe().ok();
    let shown = program.as_ref().map_or_else(|| "unknown".to_owned(), |path| path.display().to_string());
    let first = on_path();
    let same = |one: &Path, other: &Path| one.canonicalize().ok() == other.canonicalize().ok();
    let on_path = match (&first, &program) {
        (None, _) => "no".to_owned(),
        (Some(first), Some(program)) if same(first, program) => "yes".to_owned(),
        (Some(first), _) => format!("another one, {}", first.display()),
    };
    let certificates = patchbay_egress::check_certificates();
    if let Err(error) = &certificates {
        report.advise(format!("{error}."), "apt-get install ca-certificates");
    }
    report.section(
        "Installation",
        vec![
            Fact::with("version", VERSION, env!("CARGO_PKG_VERSION").into()),
            Fact::new("system", format!("{} {}", env::consts::OS, env::consts::ARCH)),
            Fact::new("program", shown),
            Fact::new("certificates", if certificates.is_ok() { "usable" } else { "none" }),
            Fact::new("found on the PATH", on_path),
        ],
    );
}

/// Returns the first file named `patchbay` on the PATH.
fn on_path() -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join("patchbay")).find(|file| file.is_file())
}

/// Returns the command that opens a file in the user's editor.
fn edit(file: &Path) -> String {
    format!("${{EDITOR:-vi}} {}", word(file))
}

/// Quotes a path for a shell command, if necessary.
fn word(path: &Path) -> String {
    quoted_folder(&path.to_string_lossy()).into_owned()
}

/// Formats a size in bytes with a readable unit.
pub(crate) fn size(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    match bytes {
        _ if bytes < KIB => format!("{bytes} bytes"),
        _ if bytes < MIB => format!("{} KiB", bytes / KIB),
        _ => format!("{}.{} MiB", bytes / MIB, bytes % MIB * 10 / MIB),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_commands_are_readable() {
        assert_eq!([0, 1023, 1024, 1_048_575].map(size), ["0 bytes", "1023 bytes", "1 KiB", "1023 KiB"]);
        assert_eq!([1_048_576, 8_912_896].map(size), ["1.0 MiB", "8.5 MiB"]);
        assert_eq!(edit(Path::new("/my files/a")), "${EDITOR:-vi} '/my files/a'");
    }
}
