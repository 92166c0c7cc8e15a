//! `patchbay token`: creates, lists and removes client tokens. `serve` creates the first one.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use patchbay_core::{Code, Digest, Name};
use patchbay_store::{ClientToken, Store, TokenRights};
use serde_json::json;

use crate::{CliError, args::TokenCommand, day, out::say};

/// Lets users and secret scanners recognise a token.
const PREFIX: &str = "pb_";
/// The file with the first token, in the home's state folder.
const FIRST_FILE: &str = "serve.token";
const FIRST_NAME: &str = "first";

pub(crate) async fn run(store: &Store, command: TokenCommand) -> Result<ExitCode, CliError> {
    match command {
        TokenCommand::Add { name, expires, may } => {
            let token = new_token();
            let digest = Digest::of(token.as_bytes());
            if !store.add_client_token(name.clone(), digest, may, expires.map(crate::age::Age::seconds)).await? {
                let message = format!("token '{name}' already exists. To remove it: patchbay token remove {name}");
                return Err(CliError::new(Code::InvalidArgs, message));
            }
            // The note goes to standard error, and only the token to standard output, for scripts.
            crate::out::note(&format!("Token '{name}' ({may}). Store it now: it is not shown again."));
            say!("{token}");
        }
        TokenCommand::List { json } => list(store, json).await?,
        TokenCommand::Remove { name } => {
            if !store.remove_client_token(&name).await? {
                let message = format!("token '{name}' not found. To list tokens: patchbay token list");
                return Err(CliError::new(Code::TokenNotFound, message));
            }
            say!("Removed token '{name}'. Connections of its clients are closed.");
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(store: &Store, as_json: bool) -> Result<(), CliError> {
    let tokens = store.client_tokens().await?;
    if tokens.is_empty() && !as_json {
        say!("No tokens. To create one: patchbay token add NAME");
    }
    let now = store.source().unix_s();
    for token in tokens {
        let expired = token.has_expired(now);
        let ClientToken { name, may, created_at, expires_at, used_at, .. } = token;
        if as_json {
            let row = json!({"name": name, "may": may.to_string(), "created_at": day::minute(created_at),
                "expires_at": expires_at.map(day::minute), "expired": expired, "used_at": used_at.map(day::minute)});
            say!("{row}");
            continue;
        }
        let expiry = match expires_at {
            None => "does not expire".to_owned(),
            Some(at) if expired => format!("expired {}", day::minute(at)),
            Some(at) => format!("expires {}", day::minute(at)),
        };
        let used = used_at.map_or_else(|| "never used".to_owned(), |at| format!("last used {}", day::minute(at)));
        say!("{name}  {may}  {expiry}  {used}");
    }
    Ok(())
}

/// Creates a token if the home has none, and writes it to a file that only the user can read. Returns the file's path, or `None`
/// if there is a token already.
///
/// # Errors
/// The database or the file could not be written.
pub(crate) async fn first(store: &Store, state: &Path) -> Result<Option<PathBuf>, CliError> {
    if !store.client_tokens().await?.is_empty() {
        return Ok(None);
    }
    let path = state.join(FIRST_FILE);
    let token = new_token();
    // Created with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(state).map_err(CliError::io(state))?;
    writeln!(file, "{token}").map_err(CliError::io(&path))?;
    let name: Name =
        FIRST_NAME.parse().map_err(|_| CliError::new(Code::Internal, "invalid name of the first token."))?;
    let may = TokenRights { lines: true, answers: true, grants: false };
    // Another process may have created the first token, and its file, in the meantime.
    if !store.add_client_token(name, Digest::of(token.as_bytes()), may, None).await? {
        return Ok(None);
    }
    file.persist(&path).map_err(|error| CliError::io(&path)(error.error))?;
    Ok(Some(path))
}

/// Returns a new token, from 32 random bytes.
fn new_token() -> String {
    format!("{PREFIX}{}", hex::encode(rand::random::<[u8; 32]>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_token_is_written_once_and_only_for_the_user() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path()).unwrap();
        let path = first(&store, home.path()).await.unwrap().unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions()) & 0o777,
            0o600
        );
        let token = written.trim_end();
        let found = store.client_token(&Digest::of(token.as_bytes())).await.unwrap().unwrap();
        assert_eq!((found.name.as_str(), found.may.to_string().as_str()), ("first", "lines,answers"));
        assert_eq!(token.len(), "pb_".len() + 64);
        assert_eq!(first(&store, home.path()).await.unwrap(), None);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), written);
    }
}
