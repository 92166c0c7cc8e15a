//! MCP tools for a session. Servers come from `config.toml`, from packages, or from the client of a front. Each session has its own
//! servers; they start when a turn first needs them.
//!
//! - [`ServerParts`]: the parts shared by the servers of all sessions.
//! - [`SessionServers`]: the servers of one session, and their tools for a turn.
//! - [`McpReport`]: what `patchbay mcp check` shows.

mod checked;
mod packaged;
mod parts;
mod presence;
mod report;
mod server;
mod session;

pub use packaged::PackagedServer;
pub use parts::{ClientAddress, ClientServer, ServerParts};
pub use report::{McpFailure, McpReport, McpToolReport};
pub use session::SessionServers;
