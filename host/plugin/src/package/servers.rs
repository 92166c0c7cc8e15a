//! The MCP servers that installed packages declare, with the operator's decisions about them.

use std::fmt;

use patchbay_core::{PackageName, text};
use patchbay_policy::allow_server_command;
use patchbay_skill::{
    LockedPackage, LockedServer,
    agent_plugin::{PackageServer, read_locked_servers},
};
use patchbay_store::ServerAllowance;

use super::{Packages, report::server_line};

/// An MCP server that an installed package declares.
#[derive(Clone, Debug)]
pub struct InstalledServer {
    /// The package that declares the server.
    pub package: PackageName,
    /// The server's name in the package.
    pub name: String,
    /// Its entry; `None` if the files no longer contain the entry that the lock names.
    pub entry: Option<PackageServer>,
    /// The operator's decision about it.
    pub decision: ServerDecision,
}

/// The operator's decision about a server of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerDecision {
    /// No decision yet, so the server is off.
    Off,
    /// The server is allowed with this entry.
    Allowed(ServerAllowance),
    /// A different entry was allowed, so the server is off.
    Changed(ServerAllowance),
}

impl ServerDecision {
    /// Returns the decision's name in JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Allowed(_) => "allowed",
            Self::Changed(_) => "changed",
        }
    }

    /// Returns the allowance, which may be for another entry.
    pub fn allowance(&self) -> Option<&ServerAllowance> {
        match self {
            Self::Off => None,
            Self::Allowed(allowance) | Self::Changed(allowance) => Some(allowance),
        }
    }
}

impl InstalledServer {
    /// Returns the servers of an installed package, sorted by name.
    pub fn of_package(packages: &Packages, package: &LockedPackage, allowances: &[ServerAllowance]) -> Vec<Self> {
        // `verify` reports files that cannot be read.
        let entries = read_locked_servers(&packages.folder_of(package), package).unwrap_or_default();
        let server = |locked: &LockedServer| {
            let of_server =
                |allowance: &&ServerAllowance| allowance.package == package.name && allowance.server == locked.name;
            let decision = match allowances.iter().find(of_server) {
                None => ServerDecision::Off,
                Some(allowance) if allowance.digest == locked.digest => ServerDecision::Allowed(allowance.clone()),
                Some(allowance) => ServerDecision::Changed(allowance.clone()),
            };
            let entry = entries.iter().find(|entry| entry.name == locked.name).cloned();
            Self { package: package.name.clone(), name: locked.name.clone(), entry, decision }
        };
        package.servers.iter().map(server).collect()
    }

    /// Returns the command that allows the server. `name` adds `--as`, the name for its tools.
    pub fn allow_command(&self, name: Option<&str>) -> String {
        allow_server_command(self.package.as_str(), &self.name, name)
    }

    /// Returns why the server is off, with the command that allows it; `None` if it is allowed.
    pub fn off(&self) -> Option<String> {
        let why = match self.decision {
            ServerDecision::Off => "off; to allow it",
            ServerDecision::Changed(_) => "off, because it has changed; to allow it again",
            ServerDecision::Allowed(_) => return None,
        };
        Some(format!("{why}: {}", self.allow_command(None)))
    }

    /// Returns the server's whole command or address.
    pub fn line(&self) -> String {
        self.entry
            .as_ref()
            .map_or_else(|| "its entry has changed since the package was installed".to_owned(), server_line)
    }
}

impl fmt::Display for InstalledServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {}: {}", text::clean_line(&self.name), self.line())?;
        match (self.off(), self.decision.allowance()) {
            (None, Some(allowance)) => write!(f, "\n    allowed as '{}'", allowance.name),
            (off, _) => write!(f, "\n    {}", off.unwrap_or_default()),
        }
    }
}
