//! JSON-RPC 2.0 as lines of JSON, bounded in both directions: a client that never stops sending, or never reads, cannot use more
//! memory than the limits here allow. `acp` uses most of it; `bridge` uses the lines, messages and outbox; `serve` uses the lines
//! and the byte counts. `mcp` only reads lines and checks JSON with it, and leaves the messages to `rmcp`.

mod bounds;
mod client;
mod lines;
mod message;
mod outbox;
mod read_ahead;
mod total_bytes;

pub use bounds::{VALUES, is_parsable};
pub use client::Client;
pub use lines::{BoundedLines, ReadLine};
pub use message::{Incoming, RequestId, RpcError, params_of};
pub use outbox::{OpenRequests, Outbox, OutboxClosed, Responder};
pub use read_ahead::{LinePermit, UnhandledLine, read_ahead};
pub use total_bytes::{ConnectionBytes, TotalBytes, WaitingBytes};
