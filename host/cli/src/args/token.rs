//! The arguments of `patchbay token`.

use clap::Subcommand;
use patchbay_core::Name;
use patchbay_store::TokenRights;

use crate::age::Age;

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token for a client and print it. It is shown only now: the database stores its SHA-256
    #[command(
        after_help = "Example:\n  patchbay token add laptop --expires 90d\n\nA client sends it as 'Authorization: Bearer TOKEN'."
    )]
    Add {
        /// Your name for the client, such as laptop; the journal shows it for answered questions
        #[arg(value_name = "NAME")]
        name: Name,
        /// When it stops working, such as 12h, 90d or 8w [default: never]
        #[arg(long, value_name = "AGE")]
        expires: Option<Age>,
        /// What its clients may do besides reading: lines (send messages and commands), answers (to questions), grants (answer
        /// 'always', and trust), or none
        #[arg(long, value_name = "RIGHTS", default_value = "lines,answers")]
        may: TokenRights,
    },
    /// List all tokens: name, rights, expiry and last use
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Remove a token, and close the connections of its clients
    Remove {
        /// The token's name
        #[arg(value_name = "NAME")]
        name: Name,
    },
}
