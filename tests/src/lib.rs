//! What the tests and benchmarks share: the binary in a home of its own, and guests written by hand.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod adapter;
pub mod answers;
pub mod binary;
pub mod calls;
pub mod format;
pub mod guest;
pub mod paths;
pub mod schemas;
pub mod server;
pub mod services;
