//! The wire formats of language-model APIs, shared by the bundled adapters.
//!
//! A codec converts a completion request to one HTTP request, and server-sent events to events of the contract. The
//! adapters in `plugins/providers` use:
//!
//! * [`messages`], [`responses`], [`chat`] and [`gemini`]: the codecs,
//! * [`openai`]: common parts of [`responses`] and [`chat`],
//! * [`stream`]: drives one codec through one exchange: heads, bodies, refusals, ends,
//! * [`sse`]: splits a body into server-sent events, however it is chunked,
//! * [`body`]: writes the JSON of a request, with blobs that the host inserts,
//! * [`options`]: the operator's additions to the body and the headers of every request,
//! * [`context_window`]: recognises failures of conversations that are too long,
//! * [`listing`]: drives a listing of models through its pages,
//! * [`failure`]: converts statuses and retry hints to failures of the contract,
//! * [`models`]: the dated table of an adapter's models,
//! * [`thinking`]: parses levels and computes their budgets.
//!
//! Everything that differs between providers (names, catalogues, sizes) is in the crate of each adapter.
#![deny(missing_docs)]

pub mod body;
pub mod chat;
pub mod context_window;
#[cfg(test)]
mod conversations;
pub mod failure;
pub mod gemini;
pub mod listing;
pub mod messages;
pub mod models;
pub mod openai;
pub mod options;
#[cfg(test)]
mod recording;
pub mod responses;
pub mod sse;
pub mod stream;
pub mod thinking;
