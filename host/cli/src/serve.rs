//! `patchbay serve`: serves the sessions of this home over the network. `main` calls it.

use std::{path::Path, process::ExitCode, sync::Arc};

use patchbay_core::{Code, text};
use patchbay_serve::{ServeError, ServeSettings, Server};
use patchbay_session::Host;
use tokio_util::sync::CancellationToken;

use crate::{CliError, out::say, signals::cancel_on_signal, token};

/// Serves until a signal.
pub(crate) async fn serve(
    host: Arc<Host>,
    state: &Path,
    settings: ServeSettings,
    open: bool,
) -> Result<ExitCode, CliError> {
    let server = Server::bind(settings).await?;
    let first = token::first(host.store(), state).await?;
    let stopped = CancellationToken::new();
    cancel_on_signal(stopped.clone(), false);
    say!("{}", server.url());
    if let Some(file) = first {
        say!("The first token is in {}", text::clean_line(&file.to_string_lossy()));
    }
    if open {
        say!("Open this link within 60 seconds; it works once: {}", server.link());
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

#[cfg(test)]
mod tests {
    #[test]
    fn api_document_is_what_the_table_says() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
        let expected = format!(
            "# The API of `patchbay serve`\n\n[serve.md](serve.md) shows how to use it. Programs send \
             `Authorization: Bearer TOKEN`. Request bodies are JSON with `Content-Type: application/json`. If a request fails, the \
             status is 400 or higher. The body has an `error` with a [code](codes.md) and a message, or is plain text, for example \
             if the token is missing. You get the same response for things that do not exist and for things that you may not \
             see.\n\n{}",
            patchbay_serve::api_document()
        );
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&file, &expected).unwrap();
        }
        let found = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(found == expected, "docs/api.md is not what the source says; run: make docs");
    }
}
