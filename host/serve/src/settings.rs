//! `[serve]` of `config.toml`. The binary reads it and passes it to [`Server`](crate::Server).

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use patchbay_session::KeepSettings;
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
    /// The folders in which clients may have their workspaces, as absolute paths: sessions elsewhere are neither made nor listed.
    /// None by default.
    pub workspaces: Vec<PathBuf>,
    /// Minutes for which a session stays open without a client, after its last turn.
    #[schemars(range(min = 0, max = 10_080))]
    pub idle_minutes: u32,
    /// Minutes for which a question waits for its answer, with or without a client. Then the answer is no.
    #[schemars(range(min = 1, max = 10_080))]
    pub question_minutes: u32,
}

impl Default for ServeSettings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7420".to_owned(),
            hosts: Vec::new(),
            workspaces: Vec::new(),
            idle_minutes: 30,
            question_minutes: 60,
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

    /// Returns how long sessions and questions are kept.
    pub(crate) fn keep(&self) -> KeepSettings {
        let minutes = |minutes: u32| Duration::from_secs(60 * u64::from(minutes));
        KeepSettings { idle: minutes(self.idle_minutes), question: minutes(self.question_minutes) }
    }

    /// Returns the canonical paths of the folders that are there.
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
        self.address().err().or(relative)
    }
}
