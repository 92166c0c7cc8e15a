//! MCP servers as sources of tools. `session` makes their tools available to models; `cli` lists and checks servers.
//!
//! - [`McpServerConfig`]: a server in `config.toml`.
//! - [`McpServer`]: a server that is started or connected to when it is needed; [`McpServer::tools`], [`McpServer::call`].
//! - [`full_name`]: the name by which models call a tool.
//!
//! A server is not trusted. Its messages are bounded before they are parsed; it gets no variable that is not named; it is killed with
//! everything that it started. A server that ends, hangs or breaks the protocol costs its own tools only.

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

/// How long a test waits for an expected end.
#[cfg(test)]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
