//! Tests of accepted and rejected certificates.

use std::sync::Arc;

use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;

use crate::{
    Egress, EgressError, Placed, Placement, Request, Secret,
    tests::{
        Script, get, limits,
        server::{Server, ok, read_request},
    },
    tls::Trust,
};

// Made for these tests: an authority whose key was deleted, and a certificate that it signed for `localhost`,
// 127.0.0.1, and a name that contains the secret of these tests.
const AUTHORITY: &[u8] = include_bytes!("tls/authority.pem");
const CERTIFICATE: &[u8] = include_bytes!("tls/server.pem");
const KEY: &[u8] = include_bytes!("tls/server.key");

async fn server() -> Server {
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(CERTIFICATE).unwrap()],
            PrivateKeyDer::from_pem_slice(KEY).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Server::raw("127.0.0.1:0", move |stream, log| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            while let Some(request) = read_request(&mut stream).await {
                log(request);
                stream.write_all(&ok("", "safe")).await.unwrap();
                stream.flush().await.unwrap();
            }
        }
    })
    .await
}

fn egress(trust: Trust) -> Egress {
    Egress::with(limits(), Script::new(&["127.0.0.1"]), trust)
}

fn trusted() -> Egress {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(AUTHORITY).unwrap()).unwrap();
    egress(Trust::These(roots))
}

fn request(url: &str) -> Request {
    let placement = Placement::Header { name: "authorization".to_owned(), prefix: String::new() };
    let secret = Secret::new("sentinel-0123456789").unwrap();
    let origin = get(url).target.origin().clone();
    Request { secrets: vec![Placed { secret, placement, origin }], ..get(url) }
}

#[tokio::test]
async fn server_with_a_trusted_certificate_is_accepted() {
    let server = server().await;
    let egress = trusted();
    for _ in 0..3 {
        let url = format!("https://localhost:{}/", server.address.port());
        assert_eq!(egress.send(request(&url)).await.unwrap().body, b"safe");
    }
    assert_eq!(server.connections(), 1);
    let url = format!("https://127.0.0.1:{}/", server.address.port());
    assert_eq!(egress.send(request(&url)).await.unwrap().body, b"safe");
    assert!(server.requests().iter().all(|request| request.contains("authorization: sentinel-0123456789\r\n")));
}

#[tokio::test]
async fn server_with_an_untrusted_certificate_receives_nothing() {
    let server = server().await;
    let port = server.address.port();
    // No trusted authority has signed it.
    let error = egress(Trust::System).send(request(&format!("https://localhost:{port}/"))).await.unwrap_err();
    assert!(matches!(error, EgressError::Tls { .. }), "{error}");
    // The certificate is for another name.
    let error = trusted().send(request(&format!("https://app.localhost:{port}/"))).await.unwrap_err();
    assert!(matches!(error, EgressError::Tls { .. }), "{error}");
    assert!(error.to_string().contains("not valid for"), "{error}");
    // The error contains the names of the certificate, which the server chooses.
    assert!(error.to_string().contains("[secret].example") && !format!("{error:?}").contains("sentinel"), "{error:?}");
    assert_eq!(server.connections(), 2);
    assert_eq!(server.requests(), [""; 0]);
}

#[tokio::test]
async fn server_without_tls_receives_nothing() {
    let server = Server::raw("127.0.0.1:0", |mut stream, log| async move {
        stream.write_all(&ok("", "plain")).await.unwrap();
        if let Some(request) = read_request(&mut stream).await {
            log(request);
        }
    })
    .await;
    let error = trusted().send(request(&format!("https://localhost:{}/", server.address.port()))).await.unwrap_err();
    assert!(matches!(error, EgressError::Tls { .. }), "{error}");
    assert_eq!(server.requests(), [""; 0]);
}
