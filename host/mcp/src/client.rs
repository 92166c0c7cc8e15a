//! Starts and calls MCP servers. `session` makes their tools available to models; `cli` lists and checks servers.
//!
//! - [`McpServerConfig`]: a server in `config.toml`.
//! - [`McpServer`]: a server, which is started or connected to on first use; see [`McpServer::tools`] and [`McpServer::call`].
//! - [`full_name`]: the name under which models call a tool.
//!
//! A server is not trusted. Its messages are limited in size before they are parsed. It receives only a fixed list of environment
//! variables and the ones that its configuration names. It is killed together with all processes that it started. If a server
//! exits, hangs or breaks the protocol, only its own tools are lost.

mod config;
mod connection;
mod events;
mod http;
mod inbox;
mod listing;
mod names;
mod package_files;
mod process;
mod refresh;
mod request;
mod result;
mod secret_names;
mod server;

pub use config::McpServerConfig;
pub use http::HttpEndpoint;
pub use listing::{ListedTool, ToolList};
pub use names::{full_name, group};
pub use package_files::PackageFiles;
pub use process::{Launch, LaunchError};
pub use server::{McpServer, ServerAbout, ServerAddress, ServerError, ServerLimits};

/// How long a test waits for an event before it fails.
#[cfg(test)]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
