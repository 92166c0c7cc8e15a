//! Limits what a remote client may do. An editor that started this process may do everything.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use patchbay_core::{Code, text};
use patchbay_jsonrpc::RpcError;
use patchbay_session::{ClientIdentity, workspace_path};

use super::{
    Connection,
    servers::{self, UsableServers},
};
use crate::RemoteClient;
use crate::params::{Bounded, NamedServer};

/// How often a draining connection checks whether its sessions are idle.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

impl Connection {
    /// Returns the identity of a remote client.
    pub(super) fn identity(&self) -> Option<ClientIdentity> {
        self.remote.as_ref().map(|remote| remote.identity.clone())
    }

    /// Returns the folder that a client named.
    ///
    /// # Errors
    /// Error -32602: the path is not absolute, or a remote client may not use the folder. The error does not reveal whether the
    /// folder exists.
    pub(super) fn workspace(&self, cwd: &str) -> Result<PathBuf, RpcError> {
        let path = Path::new(cwd);
        if !path.is_absolute() {
            return Err(RpcError::invalid_params("cwd is not an absolute path."));
        }
        // `workspace_path` resolves symbolic links before the check.
        if self.remote.is_some() && !workspace_path(path).is_ok_and(|path| self.may_use(&path)) {
            let shown = text::excerpt(cwd, 200);
            return Err(RpcError::invalid_params(format_args!(
                "'{shown}' is not in a folder of workspaces in [serve] of the server's config.toml."
            )));
        }
        Ok(path.to_owned())
    }

    /// Waits until the server is draining and nothing runs in the sessions of this client.
    pub(super) async fn drained(&self) {
        let Some(remote) = &self.remote else { return std::future::pending().await };
        remote.draining.cancelled().await;
        while self.sessions.is_any_busy() {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
    }

    /// Checks that a client may change sessions.
    ///
    /// # Errors
    /// Its token lacks the right `lines`.
    pub(super) fn check_lines(&self) -> Result<(), RpcError> {
        match &self.remote {
            Some(remote) if !remote.identity.may.lines => {
                let message = "this client's token lacks the right to send lines or change sessions.";
                Err(RpcError::of_host(Code::Denied, message))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a client may send a line now.
    ///
    /// # Errors
    /// The server is draining.
    pub(super) fn check_draining(&self) -> Result<(), RpcError> {
        match &self.remote {
            Some(remote) if remote.draining.is_cancelled() => {
                let message = "the server is restarting; connect again, then send this line again.";
                Err(RpcError::of_host(Code::Unavailable, message))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the client may use the sessions of a workspace, which is a canonical path.
    pub(super) fn may_use(&self, workspace: &str) -> bool {
        let below = |folder: &PathBuf| Path::new(workspace).starts_with(folder);
        self.remote.as_ref().is_none_or(|remote| remote.workspaces.iter().any(below))
    }

    /// Returns the servers that a client named.
    ///
    /// # Errors
    /// A server is invalid, or the client may not name servers. The error does not contain the server's values.
    pub(super) fn servers(&self, named: Option<Bounded<NamedServer, 64>>) -> Result<UsableServers, RpcError> {
        let used = servers::servers(named)?;
        if !used.is_empty() {
            self.check_lines()?;
        }
        Ok(match self.remote {
            Some(_) => servers::for_remote(used),
            None => UsableServers { used, left_out: Vec::new() },
        })
    }
}

impl RemoteClient {
    /// Returns the workspace folders by their names, which a bridge uses to find them. A name that two folders share is left out.
    pub(super) fn workspace_names(&self) -> BTreeMap<&str, &str> {
        let is_only = |folder: &PathBuf| {
            self.workspaces.iter().filter(|other| other.file_name() == folder.file_name()).count() == 1
        };
        let folders = self.workspaces.iter().filter(|folder| is_only(folder));
        folders.filter_map(|folder| Some((folder.file_name()?.to_str()?, folder.to_str()?))).collect()
    }
}
