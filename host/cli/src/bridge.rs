//! `patchbay acp --connect`: connects an editor on this machine to sessions on a server.

use std::{io::Read as _, path::Path, process::ExitCode};

use patchbay_bridge::{BridgeError, RemoteServer};
use patchbay_core::Code;
use tokio_util::sync::CancellationToken;

use crate::{CliError, home::HomeDirs, log, signals};

/// Size limit of a token file, in bytes.
const TOKEN_BYTES: u64 = 4 << 10;
const VARIABLE: &str = "PATCHBAY_TOKEN";

pub(crate) async fn run(url: &str, workspace: String, token_file: Option<&Path>) -> Result<ExitCode, CliError> {
    let server = RemoteServer::new(url, token(token_file)?.trim())?;
    log::start(&HomeDirs::find()?.paths.state)?;
    let stopped = CancellationToken::new();
    signals::cancel_on_signal(stopped.clone(), true);
    let own_folder = std::env::current_dir().map_err(CliError::io(Path::new(".")))?.to_string_lossy().into_owned();
    let ends = (tokio::io::stdin(), tokio::io::stdout());
    patchbay_bridge::run(server, workspace, own_folder, ends, stopped).await?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the token. It is not an argument, because other users can see a process's arguments.
fn token(file: Option<&Path>) -> Result<String, CliError> {
    let Some(file) = file else {
        return std::env::var(VARIABLE).map_err(|_| {
            let message = format!("no token: pass --token-file FILE, or set {VARIABLE}.");
            CliError::new(Code::InvalidArgs, message)
        });
    };
    let mut token = String::new();
    let opened = std::fs::File::open(file).map_err(CliError::io(file))?;
    opened.take(TOKEN_BYTES).read_to_string(&mut token).map_err(CliError::io(file))?;
    Ok(token)
}

impl From<BridgeError> for CliError {
    fn from(error: BridgeError) -> Self {
        let code = match error {
            BridgeError::Url { .. } | BridgeError::TokenForm => Code::InvalidArgs,
            BridgeError::TokenRefused
            | BridgeError::Refused(_)
            | BridgeError::Workspace { .. }
            | BridgeError::Protocol => Code::ServerRefused,
            BridgeError::Tls(_) | BridgeError::Unreachable { .. } => Code::ServerUnreachable,
            BridgeError::Input(_) => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}
