//! What a client from elsewhere may use. An editor that started this process may use everything.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use patchbay_core::text;
use patchbay_jsonrpc::RpcError;
use patchbay_session::{ClientIdentity, workspace_path};

use super::{
    Connection,
    servers::{self, NamedServers},
};
use crate::RemoteClient;
use crate::params::{Bounded, NamedServer};

impl Connection {
    /// Returns whose client this is.
    pub(super) fn identity(&self) -> Option<ClientIdentity> {
        self.remote.as_ref().map(|remote| remote.identity.clone())
    }

    /// Returns the folder that a client named.
    ///
    /// # Errors
    /// Error -32602: the path is not absolute, or a client from elsewhere may not use the folder. Whether it exists is not told.
    pub(super) fn workspace(&self, cwd: &str) -> Result<PathBuf, RpcError> {
        let path = Path::new(cwd);
        if !path.is_absolute() {
            return Err(RpcError::invalid_params("cwd is not an absolute path."));
        }
        // Links are resolved first.
        if self.remote.is_some() && !workspace_path(path).is_ok_and(|path| self.may_use(&path)) {
            let shown = text::excerpt(cwd, 200);
            return Err(RpcError::invalid_params(format_args!(
                "'{shown}' is not in a folder of workspaces in [serve] of the server's config.toml."
            )));
        }
        Ok(path.to_owned())
    }

    /// Returns whether the client may use the sessions of a workspace, which is a canonical path.
    pub(super) fn may_use(&self, workspace: &str) -> bool {
        let below = |folder: &PathBuf| Path::new(workspace).starts_with(folder);
        self.remote.as_ref().is_none_or(|remote| remote.workspaces.iter().any(below))
    }

    /// Returns the servers that a client named.
    ///
    /// # Errors
    /// Which server is not one, without its values.
    pub(super) fn servers(&self, named: Option<Bounded<NamedServer, 64>>) -> Result<NamedServers, RpcError> {
        let used = servers::servers(named)?;
        Ok(match self.remote {
            Some(_) => servers::for_remote(used),
            None => NamedServers { used, left_out: Vec::new() },
        })
    }
}

impl RemoteClient {
    /// Returns the folders by the names under which a bridge finds them. A name that two folders have is left out.
    pub(super) fn workspace_names(&self) -> BTreeMap<&str, &str> {
        let is_only = |folder: &PathBuf| {
            self.workspaces.iter().filter(|other| other.file_name() == folder.file_name()).count() == 1
        };
        let folders = self.workspaces.iter().filter(|folder| is_only(folder));
        folders.filter_map(|folder| Some((folder.file_name()?.to_str()?, folder.to_str()?))).collect()
    }
}
