//! The session's tools as an MCP server, over stdio and streamable HTTP. `session` implements [`SessionSource`]; `cli` starts a
//! server.
//!
//! - [`serve_stdio`]: one connection, over standard input and output.
//! - [`HttpServer`]: connections over HTTP on the loopback address. [`McpEndpoint`] answers its requests, and also those to
//!   `patchbay serve`.
//! - [`HostGate`], [`OpenConnections`], [`TimedIo`]: checks and limits that all HTTP servers of the host use.
//! - [`SessionSource`], [`ServedSession`]: the interface that a server requires of sessions.
//!
//! The server speaks the protocol revisions that `rmcp` knows: 2024-11-05 to 2026-07-28 (checked 2026-11-23,
//! modelcontextprotocol.io/specification). A client is not trusted: the size of messages is limited before they are parsed, and so
//! is the number of concurrent requests, connections and sessions.

mod answer;
mod handler;
mod http;
mod line_transport;
mod open_session;
mod progress;
mod source;
mod stdio;

pub use http::{
    ActiveRequest, ConnectionLimits, HostGate, HttpReply, HttpServer, HttpServerError, McpEndpoint, Misdirected,
    OpenConnection, OpenConnections, TimedIo, bearer_digest,
};
pub use source::{ClientCall, OfferedTool, ServedError, ServedSession, SessionSource};
pub use stdio::{StdioServerError, serve_stdio};

/// Size limit of a client's message, in bytes: a line, or the body of an HTTP request.
pub const MESSAGE_BYTES: usize = 4 << 20;

/// Limit of concurrent requests on one connection.
const REQUESTS_AT_ONCE: usize = 32;
