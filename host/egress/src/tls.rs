//! The TLS configuration: the system's certificates, loaded on first use. `egress` uses it for new clients.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::sync::OnceCell;

use crate::EgressError;

/// Which certificate authorities are trusted.
pub(crate) enum Trust {
    /// The certificate authorities of the system.
    System,
    /// Trust only these certificates.
    #[cfg(test)]
    These(RootCertStore),
}

/// The TLS configuration. The system's certificates are read once, when the first request needs them.
pub(crate) struct Tls {
    trust: Trust,
    safe: OnceCell<ClientConfig>,
}

impl Tls {
    pub(crate) fn new(trust: Trust) -> Self {
        Self { trust, safe: OnceCell::new() }
    }

    /// Returns the configuration for HTTPS.
    ///
    /// # Errors
    /// [`EgressError::Setup`], if this machine has no usable certificates.
    pub(crate) async fn safe(&self) -> Result<ClientConfig, EgressError> {
        let config = self.safe.get_or_try_init(|| async {
            match &self.trust {
                // The system's verifier reads files.
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

    /// Returns the configuration for plain HTTP. It trusts no authority, and therefore works on
    /// a machine without certificates.
    pub(crate) fn plain(&self) -> Result<ClientConfig, EgressError> {
        these(RootCertStore::empty()).map_err(setup)
    }
}

fn setup(error: rustls::Error) -> EgressError {
    EgressError::Setup {
        cause: format!(
            "{error}. Install the package ca-certificates, or set SSL_CERT_FILE to a PEM file of certificates"
        ),
    }
}

/// Checks that HTTPS works on this machine. Reads the system's certificates, which takes milliseconds.
///
/// # Errors
/// [`EgressError::Setup`], if this machine has no usable certificates.
pub fn check_certificates() -> Result<(), EgressError> {
    system().map(drop).map_err(setup)
}

/// Reads the system's certificates and returns a TLS configuration for connections that this crate does not make, such
/// as WebSockets.
///
/// # Errors
/// [`EgressError::Setup`], if this machine has no usable certificates.
pub async fn https_config() -> Result<ClientConfig, EgressError> {
    Tls::new(Trust::System).safe().await
}

/// The cryptography provider, passed to each configuration: nothing is installed globally.
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
