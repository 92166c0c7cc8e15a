//! JSON-RPC 2.0 in lines of JSON: what every message has in common. `connection` reads and dispatches messages, `session` sends
//! them.

mod client;
mod line_reader;
mod message;
mod outbox;
mod read_ahead;

pub(crate) use client::Client;
pub(crate) use line_reader::{LineReader, ReceivedLine};
pub(crate) use message::{Incoming, RequestId, RpcError, params_of};
pub(crate) use outbox::{OpenRequests, Outbox, Responder};
pub(crate) use read_ahead::{LineRoom, UnhandledLine, read_ahead};
