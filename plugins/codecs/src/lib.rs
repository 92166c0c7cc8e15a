//! The wire formats of language-model APIs, shared by the bundled adapters.

pub mod chat;
pub mod gemini;
pub mod messages;
pub mod responses;
pub mod sse;
pub mod stream;
