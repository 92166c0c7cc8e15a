//! The wire formats of language-model APIs, shared by the bundled adapters.
//!
//! A codec turns a completion request into one HTTP request, and server-sent events into the contract's events. What all
//! of them do alike is here once:
//!
//! * [`sse`] cuts a body into server-sent events, wherever its chunks were cut,
//! * [`stream`] drives one codec through one exchange: heads, bodies, refusals, ends,
//! * [`body`] writes a request's JSON, with the host's blobs spliced in,
//! * [`failure`] puts statuses and hints into the contract's failures,
//! * [`thinking`] reads levels, and counts their budgets,
//! * [`openai`] is what [`responses`] and [`chat`] share,
//! * [`messages`], [`responses`], [`chat`] and [`gemini`] are the codecs.
//!
//! Not here: what differs from provider to provider (names, catalogues, sizes), which stands in each adapter's own crate.
#![deny(missing_docs)]

pub mod body;
pub mod chat;
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
