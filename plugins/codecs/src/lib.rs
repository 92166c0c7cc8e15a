//! The wire formats of language-model APIs, shared by the bundled adapters.
//!
//! A codec converts a completion request to one HTTP request, and server-sent events to events of the contract. The
//! adapters in `plugins/providers` use:
//!
//! * [`messages`], [`responses`], [`chat`] and [`gemini`]: the codecs,
//! * [`openai`]: common parts of [`responses`] and [`chat`],
//! * [`stream`]: drives one codec through one exchange: heads, bodies, refusals, ends,
//! * [`sse`]: splits a body into server-sent events, for any chunks,
//! * [`body`]: writes the JSON of a request, with blobs that the host inserts,
//! * [`failure`]: converts statuses and retry hints to failures of the contract,
//! * [`thinking`]: parses levels and computes their budgets.
//!
//! Everything that differs between providers (names, catalogues, sizes) is in the crate of each adapter.
#![deny(missing_docs)]

pub mod body;
pub mod chat;
#[cfg(test)]
mod conversations;
pub mod failure;
pub mod gemini;
pub mod messages;
pub mod openai;
#[cfg(test)]
mod recording;
pub mod responses;
pub mod sse;
pub mod stream;
pub mod thinking;
