//! The MCP servers of packages for a session: the servers that the operator has allowed and whose entries have not changed since.
//! They are read before each turn, because `plugin allow`, `deny`, `update` and `remove` take effect in open sessions.

use std::{collections::BTreeMap, sync::Arc};

use patchbay_core::PackageName;
use patchbay_mcp::{client::PackageFiles, tools::PackagedServer};
use patchbay_policy::allow_server_command;
use patchbay_skill::{
    LockedPackage,
    agent_plugin::{PackageServer, read_locked_servers},
};
use patchbay_store::ServerAllowance;

use crate::Host;

impl Host {
    /// Returns the allowed servers of packages, and a sentence about each server that cannot be used.
    pub(crate) async fn package_servers(self: &Arc<Self>) -> (Vec<PackagedServer>, Vec<String>) {
        let allowances = match self.store.server_allowances().await {
            Ok(allowances) => allowances,
            Err(error) => {
                return (Vec::new(), vec![format!("The MCP servers of packages are not available: {error}.")]);
            }
        };
        if allowances.is_empty() {
            return Default::default();
        }
        let host = Arc::clone(self);
        // The closure does not panic, and the task is never cancelled.
        tokio::task::spawn_blocking(move || host.find_package_servers(allowances)).await.unwrap_or_default()
    }

    /// Reads the entries of the allowed servers.
    fn find_package_servers(&self, allowances: Vec<ServerAllowance>) -> (Vec<PackagedServer>, Vec<String>) {
        let lock = match self.roots.read_lock() {
            Ok(lock) => lock,
            Err(why) => {
                return (Vec::new(), vec![format!("No MCP server of a package is used: packages.lock: {why}.")]);
            }
        };
        let paths = self.paths.packages();
        let (mut servers, mut left_out) = (Vec::new(), Vec::new());
        let mut declared = BTreeMap::<PackageName, Vec<PackageServer>>::new();
        for allowance in allowances {
            // `packages.lock` may come from another machine and lack the package.
            let Some(package) = lock.package(allowance.package.as_str()) else { continue };
            if let Some(why) = changed(&allowance, package) {
                left_out.push(why);
                continue;
            }
            let root = paths.folder.join(package.folder());
            let entries = declared.entry(package.name.clone());
            let entries = entries.or_insert_with(|| read_locked_servers(&root, package).unwrap_or_default());
            let Some(entry) = entries.iter().find(|entry| entry.name == allowance.server) else {
                left_out.push(format!(
                    "The MCP server '{}' is not used: the files of package '{}' do not match packages.lock. To see what changed: \
                     patchbay plugin verify {}",
                    allowance.name, package.name, package.name
                ));
                continue;
            };
            servers.push(PackagedServer {
                transport: entry.transport.clone(),
                variables: entry.variables.clone(),
                files: PackageFiles {
                    package: package.name.clone(),
                    root,
                    digest: package.digest,
                    data: paths.data_of(&package.name),
                },
                allowance,
            });
        }
        (servers, left_out)
    }
}

/// Returns why the server is off, if its entry in the installed package differs from the allowed entry.
fn changed(allowance: &ServerAllowance, package: &LockedPackage) -> Option<String> {
    let ServerAllowance { name, server, digest, .. } = allowance;
    let locked = package.servers.iter().find(|locked| locked.name == *server);
    let package = &package.name;
    match locked {
        Some(locked) if locked.digest == *digest => None,
        Some(_) => Some(format!(
            "The MCP server '{name}' is off: package '{package}' has changed it since you allowed it. To allow it again: {}",
            allow_server_command(package.as_str(), server, None)
        )),
        None => Some(format!("The MCP server '{name}' is gone: package '{package}' no longer has it.")),
    }
}
