//! TLS by rustls, with a certificate from files that are read at startup.

use std::{path::Path, sync::Arc};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio_rustls::TlsAcceptor;

/// Returns the acceptor for a certificate and its key.
///
/// # Errors
/// A sentence with the file that cannot be used. It contains nothing of the key.
pub(crate) fn acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let unusable = |name: &str, path: &Path, why: &dyn std::fmt::Display| {
        format!(
            "[serve]: {name} = '{}' cannot be used: {why}",
            patchbay_core::text::clean_line(&path.to_string_lossy())
        )
    };
    let read = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = read.map_err(|error| unusable("tls_cert", cert, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable("tls_key", key, &error))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let config = builder.with_no_client_auth().with_single_cert(chain, secret);
    let mut config = config.map_err(|error| unusable("tls_cert", cert, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::TlsConnector;

    use super::*;

    fn file(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tls").join(name)
    }

    #[tokio::test]
    async fn certificate_is_served() {
        let acceptor = acceptor(&file("test-cert.pem"), &file("test-key.pem")).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(file("test-cert.pem")).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let client = TlsConnector::from(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()));
        let (near, far) = tokio::io::duplex(16 << 10);
        let name = ServerName::try_from("localhost").unwrap();
        let (served, connected) = tokio::join!(acceptor.accept(far), client.connect(name, near));
        let (mut served, mut connected) = (served.unwrap(), connected.unwrap());
        connected.write_all(b"hello").await.unwrap();
        connected.flush().await.unwrap();
        let mut read = [0; 5];
        served.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"hello");
    }

    #[test]
    fn errors_name_the_key_and_the_file() {
        let (cert, key) = (file("test-cert.pem"), file("test-key.pem"));
        for (cert, key, name) in [
            (&file("missing.pem"), &key, "tls_cert"),
            (&cert, &file("missing.pem"), "tls_key"),
            (&cert, &cert, "tls_key"),
        ] {
            let error = acceptor(cert, key).map(drop).unwrap_err();
            assert!(error.starts_with(&format!("[serve]: {name} = '")), "{error}");
        }
    }
}
