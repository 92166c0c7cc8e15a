//! `[serve]` of `config.toml`. The binary reads it and passes it to [`Server`](crate::Server).

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::Deserialize;

/// How `patchbay serve` is reached: `[serve]` in `config.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServeSettings {
    /// The address and port to listen on. Outside of the loopback address, TLS or `behind_proxy` is required.
    pub listen: String,
    /// The names under which clients reach the server, with the port unless it is the scheme's own, such as
    /// `["patchbay.example.org"]`. Requests with another `Host` are refused. The address of `listen` and `localhost` always work.
    pub hosts: Vec<String>,
}

impl Default for ServeSettings {
    fn default() -> Self {
        Self { listen: "127.0.0.1:7420".to_owned(), hosts: Vec::new() }
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

    /// Returns why the settings cannot be used; `None` if they can.
    pub fn problem(&self) -> Option<String> {
        self.address().err()
    }
}
