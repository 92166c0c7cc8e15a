//! The arguments of `patchbay token`.

use clap::Subcommand;
use patchbay_core::Name;
use patchbay_store::TokenRights;

use crate::age::Age;

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token for a client, and print it
    ///
    /// The token cannot be shown again, because only its SHA-256 is stored.
    #[command(
        after_help = "Example:\n  patchbay token add laptop --expires 90d\n\nClients send the token as 'Authorization: Bearer TOKEN'."
    )]
    Add {
        /// A name for the client, such as laptop; the journal shows it with the questions that the client answered
        #[arg(value_name = "NAME")]
        name: Name,
        /// How long the token works, such as 12h, 90d or 8w [default: until you remove it]
        #[arg(long, value_name = "AGE")]
        expires: Option<Age>,
        /// What clients can do besides reading: lines (send messages and commands), answers (answer questions), grants (also
        /// answer 'always'), or none
        #[arg(long, value_name = "RIGHTS", default_value = "lines,answers")]
        may: TokenRights,
    },
    /// List all tokens with their rights, expiry and last use
    List {
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Remove a token, and disconnect its clients
    Remove {
        /// The name of the token
        #[arg(value_name = "NAME")]
        name: Name,
    },
}
