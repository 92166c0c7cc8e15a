use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::sync::OnceCell;

use crate::EgressError;

/// Whom a server may name as its witness.
pub(crate) enum Trust {
    /// The certificate authorities of the system.
    System,
    /// These alone.
    #[cfg(test)]
    These(RootCertStore),
}

/// The settings of TLS. The system's certificates are read when the first request needs them, once.
pub(crate) struct Tls {
    trust: Trust,
    safe: OnceCell<ClientConfig>,
}

impl Tls {
    pub(crate) fn new(trust: Trust) -> Self {
        Self { trust, safe: OnceCell::new() }
    }

    /// For https.
    pub(crate) async fn safe(&self) -> Result<ClientConfig, EgressError> {
        let config = self.safe.get_or_try_init(|| async {
            match &self.trust {
                // It reads files.
                Trust::System => match tokio::task::spawn_blocking(system).await {
                    Ok(config) => config.map_err(setup),
                    Err(error) => Err(EgressError::Setup { cause: error.to_string() }),
                },
                #[cfg(test)]
                Trust::These(roots) => these(roots.clone()).map_err(setup),
            }
        });
        config.await.cloned()
    }

    /// For plain http: nobody is trusted, so that a machine without certificates can still talk to itself.
    pub(crate) fn plain(&self) -> Result<ClientConfig, EgressError> {
        these(RootCertStore::empty()).map_err(setup)
    }
}

fn setup(error: rustls::Error) -> EgressError {
    EgressError::Setup { cause: format!("{error}. Install the system's CA certificates") }
}

/// The provider is handed on, not installed: nothing of this is global.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn system() -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    Ok(only_http1(builder.with_platform_verifier()?.with_no_client_auth()))
}

fn these(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    Ok(only_http1(builder.with_root_certificates(roots).with_no_client_auth()))
}

fn only_http1(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}
