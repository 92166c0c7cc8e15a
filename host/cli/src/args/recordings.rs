//! The arguments of commands that turn recorded calls into fixtures.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

#[derive(Subcommand)]
pub(crate) enum JournalCommand {
    /// Turn a recorded call into a test for 'patchbay plugin test'
    ///
    /// Calls are recorded with '--record', or with 'record = true' in the table 'sessions' of config.toml. The command lists the
    /// hosts, files and bodies in the fixture, and writes it only with --out.
    #[command(
        after_help = "Exit code 0: written or listed; 1: the call was not recorded, or the fixture may contain a secret."
    )]
    Fixture(CallFixture),
}

#[derive(Args)]
pub(crate) struct CallFixture {
    /// The number of the call in 'patchbay journal', or a unique prefix of its id
    #[arg(value_name = "CALL")]
    pub(crate) call: String,
    #[command(flatten)]
    pub(crate) options: FixtureOptions,
}

#[derive(Args)]
pub(crate) struct SessionFixtures {
    /// The session's id, or a unique prefix of it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) options: FixtureOptions,
}

#[derive(Args)]
pub(crate) struct FixtureOptions {
    /// Write the fixture to this folder, such as the folder 'fixtures' of a plugin
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
    /// Replace this text with 'x' characters; can be repeated
    #[arg(long, value_name = "TEXT")]
    pub(crate) redact: Vec<String>,
}
