//! `patchbay serve`: the sessions of a home over the network. The binary calls [`Server`].
//!
//! - `settings`: `[serve]` of `config.toml`.
//! - `server`: accepts connections, over TLS if configured, and drains them at the end.
//! - `front`: checks each request before looking at its path, then routes it.
//! - `api`: `/v1`, for scripts; `page`: web pages that show the sessions and make changes through `/v1`; `mcp`: tools for
//!   MCP clients.
//! - `body`: reads the body of a request within limits; `request_shares`: how many requests one token may have.
//! - `used_tokens`: closes the connections of a token that is removed.
//! - `supervisor`: accepts a socket from systemd, and reports readiness; `metrics`: the server's counters; `tls`: its certificate.
//! - `socket`: one WebSocket as the lines of the Agent Client Protocol; `receiving`: counts the bytes of incomplete messages.
//!
//! A peer without a token costs no more memory than a request's head. See `HEAD_BYTES`.

// The future of a connection is deeply nested: `acp` within a WebSocket within a request.
#![recursion_limit = "256"]

mod api;
mod body;
mod front;
mod login;
mod mcp;
mod mcp_endpoints;
mod metrics;
mod page;
mod receiving;
mod request_shares;
mod server;
mod settings;
mod socket;
mod state;
mod supervisor;
mod tls;
mod used_tokens;
mod workspaces;

pub use api::{markdown as api_document, open_api};
pub use server::{ServeError, Server};
pub use settings::ServeSettings;
