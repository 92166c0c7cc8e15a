//! The remote server: checks its URL and token, and opens a WebSocket to it.

use std::{sync::Arc, time::Duration};

use http::{HeaderValue, StatusCode, header};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{self, client::IntoClientRequest as _, protocol::WebSocketConfig},
};
use url::{Host, Url};

use crate::BridgeError;

/// Size limit of a message and of a frame, in bytes. Must equal the server's.
pub(crate) const MESSAGE_BYTES: usize = 64 << 20;
/// How long connecting may take, including TLS and the WebSocket handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) type Socket = WebSocketStream<Box<dyn ServerStream>>;

pub(crate) trait ServerStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> ServerStream for S {}

/// The URL of a server, and the token that authorises this client.
pub struct RemoteServer {
    url: Url,
    authorization: HeaderValue,
}

/// Why a connection could not be established.
pub(crate) enum NoConnection {
    /// A temporary problem: try again later.
    Later(String),
    /// The user has to change something first.
    Never(BridgeError),
}

impl RemoteServer {
    /// Parses the URL of a server. The scheme is `wss`, or `ws` for a server on this machine; `https` and `http` are
    /// accepted as aliases. The default path is `/acp`.
    ///
    /// # Errors
    /// The URL is invalid or would send the token in the clear, or the token has characters that no header can contain.
    pub fn new(url: &str, token: &str) -> Result<Self, BridgeError> {
        let wrong = |why: &'static str| BridgeError::Url { url: patchbay_core::text::excerpt(url, 200), why };
        // `https` becomes `wss`, too.
        let url = url.replacen("http", "ws", usize::from(url.starts_with("http")));
        let mut url = Url::parse(&url).map_err(|_| wrong("write it as wss://HOST/acp"))?;
        let is_local = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => return Err(wrong("the host is missing")),
        };
        match url.scheme() {
            "wss" => {}
            "ws" if is_local => {}
            "ws" => return Err(wrong("the token would be sent in the clear; use wss, or a tunnel to localhost")),
            _ => return Err(wrong("write it as wss://HOST/acp")),
        }
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            return Err(wrong("remove the user, password and query; the token is read from a file"));
        }
        if url.path() == "/" {
            url.set_path("/acp");
        }
        let mut authorization =
            HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| BridgeError::TokenForm)?;
        authorization.set_sensitive(true);
        Ok(Self { url, authorization })
    }

    /// Returns the URL for logs and errors. It never contains a secret.
    pub(crate) fn url(&self) -> &str {
        self.url.as_str()
    }

    pub(crate) async fn connect(&self) -> Result<Socket, NoConnection> {
        match timeout(CONNECT_TIMEOUT, self.try_connect()).await {
            Ok(connected) => connected,
            Err(_) => Err(NoConnection::Later(format!("no response within {} s", CONNECT_TIMEOUT.as_secs()))),
        }
    }

    async fn try_connect(&self) -> Result<Socket, NoConnection> {
        let later = |error: std::io::Error| NoConnection::Later(error.to_string());
        let host = self.url.host_str().unwrap_or_default();
        // URLs put IPv6 addresses in brackets; the resolver and TLS don't accept them.
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let port = self.url.port_or_known_default().unwrap_or(443);
        let tcp = TcpStream::connect((name, port)).await.map_err(later)?;
        let _ = tcp.set_nodelay(true);
        let stream: Box<dyn ServerStream> = match self.url.scheme() {
            "wss" => {
                let config = patchbay_egress::https_config().await;
                let config = config.map_err(|error| NoConnection::Never(BridgeError::Tls(error.to_string())))?;
                let name = rustls::pki_types::ServerName::try_from(name.to_owned())
                    .map_err(|error| NoConnection::Never(BridgeError::Tls(error.to_string())))?;
                let connected = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
                Box::new(connected.map_err(|error| {
                    match error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
                        // A certificate that is not trusted now will not be trusted in five minutes either.
                        true => NoConnection::Never(BridgeError::Tls(error.to_string())),
                        false => later(error),
                    }
                })?)
            }
            _ => Box::new(tcp),
        };
        let mut request = self.url.as_str().into_client_request().map_err(handshake_error)?;
        request.headers_mut().insert(header::AUTHORIZATION, self.authorization.clone());
        let limits = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES))
            .max_frame_size(Some(MESSAGE_BYTES))
            .write_buffer_size(0);
        client_async_with_config(request, stream, Some(limits)).await.map(|(socket, _)| socket).map_err(handshake_error)
    }
}

/// Sorts the error of a WebSocket handshake into temporary and permanent ones.
fn handshake_error(error: tungstenite::Error) -> NoConnection {
    let tungstenite::Error::Http(response) = &error else { return NoConnection::Later(error.to_string()) };
    match response.status() {
        StatusCode::UNAUTHORIZED => NoConnection::Never(BridgeError::TokenRefused),
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            NoConnection::Later(format!("the server responded {status}"))
        }
        status => NoConnection::Never(BridgeError::Refused(status.as_u16())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_sent_over_tls_or_to_this_machine_only() {
        for (url, used) in [
            ("wss://patchbay.example.org", "wss://patchbay.example.org/acp"),
            ("https://patchbay.example.org/", "wss://patchbay.example.org/acp"),
            ("http://localhost:8790", "ws://localhost:8790/acp"),
            ("ws://127.0.0.1:1/other", "ws://127.0.0.1:1/other"),
            ("ws://[::1]:1", "ws://[::1]:1/acp"),
        ] {
            assert_eq!(RemoteServer::new(url, "pb_x").ok().unwrap().url(), used);
        }
        for url in
            ["ws://example.org", "http://10.0.0.1", "ftp://localhost", "", "wss://a:b@localhost", "wss://x/?token=t"]
        {
            assert!(matches!(RemoteServer::new(url, "pb_x"), Err(BridgeError::Url { .. })), "{url}");
        }
        assert!(matches!(RemoteServer::new("wss://x", "a\nb"), Err(BridgeError::TokenForm)));
        let server = RemoteServer::new("wss://x", "pb_secret").ok().unwrap();
        assert!(!format!("{:?}", server.authorization).contains("secret"));
    }
}
