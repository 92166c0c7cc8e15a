//! The arguments of `patchbay exec`.

use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory as _, ValueHint, error::ErrorKind};

use super::{Arguments, SessionArguments};

#[derive(Args)]
pub(crate) struct Exec {
    #[command(flatten)]
    pub(crate) session: SessionArguments,
    /// Print one JSON object per line: the session, then events, each with its agent, and a result after each line
    #[arg(long)]
    pub(crate) json: bool,
    /// Attach an image, a PDF or a text file to the first line, a message or a command that accepts files; '-' attaches text from
    /// standard input; can be repeated
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) attach: Vec<PathBuf>,
    /// Do not attach piped text to the first line
    #[arg(long)]
    no_stdin: bool,
    /// Continue after a line fails
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Stop after this many seconds
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
    /// The lines to run [default: the lines of standard input]
    #[arg(value_name = "LINE")]
    pub(crate) lines: Vec<String>,
    /// Whether a user types the lines at a prompt.
    #[arg(skip)]
    pub(crate) typed: bool,
    /// A line that runs before the lines that a user types.
    #[arg(skip)]
    pub(crate) first: Option<String>,
}

impl Exec {
    /// Returns the arguments for `patchbay` without a subcommand, when nothing is drawn. They run the line `first`, then lines from
    /// standard input, and continue after errors. If no user types (`typed` is false) and `first` is given, it is the only line.
    pub(crate) fn standard_input(session: SessionArguments, first: Option<String>, typed: bool) -> Self {
        let (first, lines) = match first {
            Some(first) if !typed => (None, vec![first]),
            first => (first, Vec::new()),
        };
        let attach = Vec::new();
        let no_stdin = lines.is_empty();
        Self { session, json: false, attach, no_stdin, keep_going: true, timeout: None, lines, typed, first }
    }

    /// Exits with a usage error, as clap does, if `--attach -` cannot work.
    pub(crate) fn check(&self) {
        if let Err(wrong) = self.check_standard_input() {
            Arguments::command().error(ErrorKind::ArgumentConflict, wrong).exit();
        }
    }

    fn check_standard_input(&self) -> Result<(), &'static str> {
        match self.attach.iter().filter(|file| is_standard_input(file)).count() {
            0 => Ok(()),
            _ if self.lines.is_empty() => {
                Err("--attach - needs a LINE, because without one the lines are read from standard input")
            }
            _ if self.no_stdin => Err("--attach - cannot be combined with --no-stdin"),
            1 => Ok(()),
            _ => Err("--attach - can be given once"),
        }
    }

    /// Returns whether piped text may be attached to the first line: the line must be a message, and standard input not in use.
    pub(crate) fn may_have_piped_text(&self) -> bool {
        let first = self.lines.iter().find(|line| !line.trim().is_empty());
        let is_used = self.no_stdin || self.attach.iter().any(|file| is_standard_input(file));
        !is_used && first.is_some_and(|line| !line.starts_with('/'))
    }
}

/// Returns whether a value of `--attach` means standard input.
pub(crate) fn is_standard_input(file: &Path) -> bool {
    file == Path::new("-")
}
