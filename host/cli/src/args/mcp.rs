//! The arguments of `patchbay mcp`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use patchbay_core::Name;

#[derive(Args)]
pub(crate) struct ServeMcp {
    /// The workspace of the sessions [default: the current folder]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) workspace: Option<PathBuf>,
    /// Record tool calls, to make tests of them with 'patchbay journal fixture'
    #[arg(long)]
    pub(crate) record: bool,
    /// Offer only the tools of this skill; can be repeated
    #[arg(long = "skill", value_name = "NAME")]
    pub(crate) skills: Vec<Name>,
    /// Serve the skills of the Agent Plugin in this folder, and no others. Without --workspace they have no files
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) package: Option<PathBuf>,
    /// Listen on a port of 127.0.0.1 (a free one by default), and print the URL and the token that each request needs
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "0")]
    pub(crate) http: Option<u16>,
}
