//! The Model Context Protocol, with the crate `rmcp`. Used by `session`.
//!
//! - [`client`]: MCP servers as sources of tools.
//! - [`tools`]: the servers of one session and their tools.
//! - [`server`]: the tools of a session for MCP clients, over standard input and output or HTTP.
//!
//! A peer is not trusted: everything that it sends is limited in size, and cleaned before a model or the user sees it.

pub mod client;
pub mod server;
pub mod tools;
