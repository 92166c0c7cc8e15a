//! `patchbay serve`: the sessions of this home over the network. `main` calls it.

use std::{path::Path, process::ExitCode, sync::Arc};

use patchbay_core::{Code, text};
use patchbay_serve::{ServeError, ServeSettings, Server};
use patchbay_session::Host;
use tokio_util::sync::CancellationToken;

use crate::{CliError, out::say, signals::cancel_on_signal, token};

/// Serves until a signal.
pub(crate) async fn serve(host: Arc<Host>, state: &Path, settings: ServeSettings) -> Result<ExitCode, CliError> {
    let server = Server::bind(settings).await?;
    let first = token::first(host.store(), state).await?;
    let stopped = CancellationToken::new();
    cancel_on_signal(stopped.clone(), false);
    say!("{}", server.url());
    if let Some(file) = first {
        say!("The first token is in {}", text::clean_line(&file.to_string_lossy()));
    }
    server.run(host, env!("CARGO_PKG_VERSION"), stopped).await;
    Ok(ExitCode::SUCCESS)
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
