//! `patchbay completions` and `patchbay man`: generated from the command line's definition in `args`. `main` calls both.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;
use patchbay_core::Code;

use crate::{CliError, args::Arguments};

/// Prints the completions of `shell`.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode, CliError> {
    let mut command = visible(Arguments::command(), |subcommand| subcommand);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "patchbay", &mut script);
    print(&script)
}

/// Prints one manual page with the pages of all subcommands.
pub(crate) fn man() -> Result<ExitCode, CliError> {
    // Otherwise, each section would repeat the option --help.
    let subcommand = |command: Command| command.disable_help_flag(true).subcommand_value_name("COMMAND");
    let mut command = visible(Arguments::command(), subcommand).subcommand_value_name("COMMAND");
    command.build();
    let mut page = Vec::new();
    let written = render(&command, &mut page);
    written.map_err(|error| CliError::new(Code::Internal, format!("the manual page cannot be made: {error}.")))?;
    print(&page)
}

/// Returns `command` without hidden subcommands. clap cannot remove a subcommand, so the command is assembled again from its
/// parts, with its subcommands changed by `change`.
fn visible(command: Command, change: fn(Command) -> Command) -> Command {
    let subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned().map(change);
    let mut visible = Command::new("patchbay")
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .subcommands(subcommands);
    if let Some(about) = command.get_about() {
        visible = visible.about(about.clone());
    }
    if let Some(about) = command.get_long_about() {
        visible = visible.long_about(about.clone());
    }
    visible
}

/// Writes the page of `patchbay`, with a section for each subcommand.
fn render(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(command.clone()).title("PATCHBAY");
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    writeln!(page, ".SH COMMANDS")?;
    for subcommand in command.get_subcommands() {
        render_subcommand("patchbay", subcommand, page)?;
    }
    man.render_version_section(page)
}

/// Writes the section of a subcommand, then the sections of its subcommands. `parent` is the full name of its parent.
fn render_subcommand(parent: &str, command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let name = format!("{parent} {}", command.get_name());
    writeln!(page, ".SS {name}")?;
    let man = Man::new(command.clone());
    for (first, section) in [(true, Man::render_synopsis_section as Render), (false, Man::render_description_section)]
        .into_iter()
        .chain(command.get_arguments().next().map(|_| (false, Man::render_options_section as Render)))
        .chain(command.get_after_help().map(|_| (false, Man::render_extra_section as Render)))
    {
        let mut text = Vec::new();
        section(&man, &mut text)?;
        if !first {
            writeln!(page, ".PP")?;
        }
        // Inner headings are left out, and so are the lines that define the apostrophe, which the page already has.
        let is_kept = |line: &&str| ![".SH", ".ie ", ".el "].iter().any(|request| line.starts_with(request));
        for line in String::from_utf8_lossy(&text).lines().filter(is_kept) {
            writeln!(page, "{line}")?;
        }
    }
    let mut subcommands = command.get_subcommands();
    subcommands.try_for_each(|subcommand| render_subcommand(&name, subcommand, page))
}

/// Writes one subsection, such as the options.
type Render = fn(&Man, &mut dyn io::Write) -> io::Result<()>;

fn print(text: &[u8]) -> Result<ExitCode, CliError> {
    match io::stdout().lock().write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::new(Code::Internal, format!("cannot write to standard output: {error}.")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
