//! The Model Context Protocol, with the crate `rmcp`. Used by `session`.
//!
//! - [`client`]: MCP servers as sources of tools.
//! - [`tools`]: the servers of one session and their tools.
//! - [`server`]: the tools of a session for MCP clients, over standard input and output or HTTP.
//!
//! Everything that a peer sends is data: it is bounded, and cleaned before a model or the user sees it.

pub mod client;
pub mod server;
pub mod tools;
