//! `patchbay serve`: the sessions of this home over the network. `main` calls it.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use futures_util::future::BoxFuture;
use patchbay_core::{Code, Digest, text};
use patchbay_serve::{ServeError, ServeSettings, ServeToken, Server, Tokens};
use patchbay_session::Host;
use tokio_util::sync::CancellationToken;

use crate::{CliError, out::say, signals::cancel_on_signal};

/// Serves until a signal.
pub(crate) async fn serve(host: Arc<Host>, state: &Path, settings: ServeSettings) -> Result<ExitCode, CliError> {
    let server = Server::bind(settings).await?;
    let file = state.join("serve.token");
    let tokens = FileToken::open(&file).map_err(CliError::io(&file))?;
    let stopped = CancellationToken::new();
    cancel_on_signal(stopped.clone(), false);
    say!("{}\nThe token is in {}", server.url(), text::clean_line(&file.to_string_lossy()));
    server.run(host, Arc::new(tokens), env!("CARGO_PKG_VERSION"), stopped).await;
    Ok(ExitCode::SUCCESS)
}

/// The token of a home without tokens, in a file that only the user can read.
struct FileToken(Digest);

impl FileToken {
    /// Reads the file, or writes a new token to it.
    fn open(file: &Path) -> io::Result<Self> {
        let token = match fs::read_to_string(file) {
            Ok(token) => token,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let token = format!("pb_{}", hex::encode(rand::random::<[u8; 32]>()));
                let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
                file.write_all(token.as_bytes())?;
                token
            }
            Err(error) => return Err(error),
        };
        Ok(Self(Digest::of(token.trim().as_bytes())))
    }
}

impl Tokens for FileToken {
    fn find(&self, digest: Digest) -> BoxFuture<'_, Option<ServeToken>> {
        let token = (digest == self.0).then(|| ServeToken { name: "serve.token".to_owned() });
        Box::pin(async { token })
    }
}

impl From<ServeError> for CliError {
    fn from(error: ServeError) -> Self {
        let code = match error {
            ServeError::Settings(_) => Code::ConfigInvalid,
            ServeError::Address { .. } => Code::PortUnusable,
        };
        Self::new(code, error.to_string())
    }
}
