//! `[serve]` of `config.toml`. The binary reads it and passes it to [`Server`](crate::Server).

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use patchbay_session::KeepSettings;
use schemars::JsonSchema;
use serde::Deserialize;

/// How `patchbay serve` is reached: `[serve]` in `config.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServeSettings {
    /// The address and port to listen on. An address other than loopback requires TLS or `behind_proxy`.
    pub listen: String,
    /// The certificate chain for TLS, a PEM file, as an absolute path.
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate, a PEM file, as an absolute path.
    pub tls_key: Option<PathBuf>,
    /// Set this if a reverse proxy terminates TLS. Without it or a certificate, `listen` must be a loopback address.
    pub behind_proxy: bool,
    /// The host names of the server, such as `["patchbay.example.org"]`, each with its port unless it is the scheme's default.
    /// Requests with another `Host` are refused. The address of `listen` and `localhost` are always accepted.
    pub hosts: Vec<String>,
    /// The folders in which clients may open workspaces, as absolute paths. Sessions elsewhere are neither created nor listed. By
    /// default there are none.
    pub workspaces: Vec<PathBuf>,
    /// Minutes that a session stays open after its last turn while no client is connected.
    #[schemars(range(min = 0, max = 10_080))]
    pub idle_minutes: u32,
    /// Minutes that a question waits for an answer, whether or not a client is connected. After that, the answer is no.
    #[schemars(range(min = 1, max = 10_080))]
    pub question_minutes: u32,
    /// Seconds that running turns may take to finish after SIGTERM. Turns still running then are `interrupted`, as after a crash.
    #[schemars(range(min = 0, max = 3_600))]
    pub drain_seconds: u32,
    /// Number of concurrent requests and connections. 64 more may wait; others are refused. One token may use three quarters.
    #[schemars(range(min = 1, max = 10_000))]
    pub connections: u32,
    /// Size limit in MiB, for all clients together, of messages to clients that are unread, and messages from clients that are
    /// incomplete or not yet handled. Above it, the largest connection of the client with the most is closed.
    #[schemars(range(min = 1, max = 65_536))]
    pub unread_mib: u32,
    /// Seconds between two pings. They detect clients that are gone, and keep proxies from closing idle connections.
    #[schemars(range(min = 1, max = 3_600))]
    pub ping_seconds: u32,
    /// Seconds without any data from a client, even a pong, after which its connection is closed.
    #[schemars(range(min = 1, max = 7_200))]
    pub gone_seconds: u32,
}

impl Default for ServeSettings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7420".to_owned(),
            hosts: Vec::new(),
            workspaces: Vec::new(),
            idle_minutes: 30,
            question_minutes: 60,
            drain_seconds: 60,
            connections: 256,
            unread_mib: 256,
            ping_seconds: 30,
            gone_seconds: 90,
            tls_cert: None,
            tls_key: None,
            behind_proxy: false,
        }
    }
}

impl ServeSettings {
    /// Returns the address to listen on.
    ///
    /// # Errors
    /// A sentence with the value.
    pub(crate) fn address(&self) -> Result<SocketAddr, String> {
        self.listen.parse().map_err(|_| {
            let shown = patchbay_core::text::excerpt(&self.listen, 80);
            format!("[serve]: listen = '{shown}' is not an address with a port, such as 127.0.0.1:7420")
        })
    }

    /// Returns why the server may not listen on `address`; `None` if it may.
    pub(crate) fn exposure(&self, address: SocketAddr) -> Option<String> {
        let is_safe = address.ip().is_loopback() || self.tls_cert.is_some() || self.behind_proxy;
        (!is_safe).then(|| {
            format!(
                "[serve]: {address} can be reached from other machines, where tokens would be readable on the way: set tls_cert \
                 and tls_key, or behind_proxy = true if a proxy does TLS"
            )
        })
    }

    /// Returns the scheme of the server's URLs.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls_cert.is_some() { "https" } else { "http" }
    }

    /// Returns the scheme of the URLs that clients use.
    pub(crate) fn public_scheme(&self) -> &'static str {
        if self.behind_proxy { "https" } else { self.scheme() }
    }

    /// Returns the URL of the proxy in front of the server, by the first of `hosts`.
    pub(crate) fn proxy_url(&self) -> Option<String> {
        self.hosts.first().filter(|_| self.behind_proxy).map(|host| format!("{}://{host}", self.public_scheme()))
    }

    /// Returns how long sessions and questions are kept.
    pub(crate) fn keep(&self) -> KeepSettings {
        let minutes = |minutes: u32| Duration::from_secs(60 * u64::from(minutes));
        KeepSettings { idle: minutes(self.idle_minutes), question: minutes(self.question_minutes) }
    }

    /// Returns the canonical paths of the folders that exist.
    pub(crate) fn workspace_folders(&self) -> Vec<PathBuf> {
        let folder = |folder: &PathBuf| {
            let found = folder.canonicalize();
            found.inspect_err(|error| tracing::warn!("[serve]: cannot use {}: {error}", folder.display())).ok()
        };
        self.workspaces.iter().filter_map(folder).collect()
    }

    /// Returns why the settings cannot be used; `None` if they can.
    pub fn problem(&self) -> Option<String> {
        let relative = self.workspaces.iter().find(|folder| !folder.is_absolute());
        let relative = relative.map(|folder| {
            let shown = patchbay_core::text::excerpt(&folder.to_string_lossy(), 200);
            format!("[serve]: workspaces: '{shown}' is not an absolute path")
        });
        let half = self.tls_cert.is_some() != self.tls_key.is_some();
        let half = half.then(|| "[serve]: tls_cert and tls_key belong together; set both".to_owned());
        let exposed = self.address().map(|address| self.exposure(address));
        exposed.unwrap_or_else(Some).or(relative).or(half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_name_the_proxy_in_front() {
        let hosts = vec!["a.example".to_owned(), "b.example".to_owned()];
        let direct = ServeSettings { hosts, ..ServeSettings::default() };
        assert_eq!(direct.proxy_url(), None);
        let proxied = ServeSettings { behind_proxy: true, ..direct };
        assert_eq!(proxied.proxy_url().as_deref(), Some("https://a.example"));
        assert_eq!(ServeSettings { hosts: Vec::new(), ..proxied }.proxy_url(), None);
    }

    #[test]
    fn addresses_outside_of_loopback_need_tls_or_a_proxy() {
        let listening = |listen: &str| ServeSettings { listen: listen.to_owned(), ..ServeSettings::default() };
        for listen in ["127.0.0.1:1", "[::1]:1", "127.3.2.1:0"] {
            assert_eq!(listening(listen).problem(), None, "{listen}");
        }
        for listen in ["0.0.0.0:1", "[::]:1", "192.168.1.2:1", "203.0.113.9:443"] {
            let problem = listening(listen).problem().unwrap();
            assert!(problem.contains(listen) && problem.contains("tls_cert"), "{problem}");
            assert_eq!(ServeSettings { behind_proxy: true, ..listening(listen) }.problem(), None);
            let cert = Some(PathBuf::from("/cert.pem"));
            let half = ServeSettings { tls_cert: cert.clone(), ..listening(listen) };
            assert!(half.problem().unwrap().contains("set both"));
            assert_eq!(ServeSettings { tls_key: cert, ..half }.problem(), None);
        }
        assert!(listening("localhost").problem().unwrap().contains("'localhost' is not an address with a port"));
        let relative = ServeSettings { workspaces: vec!["src".into()], ..ServeSettings::default() };
        assert!(relative.problem().unwrap().contains("'src' is not an absolute path"));
    }
}
