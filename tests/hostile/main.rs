//! The host with hostile guests. Each attack ends with its typed failure within its limits, and the next call works.
//!
//! A guest is a few lines of WebAssembly text. [`support::Harness`] runs it in a sandbox with small limits, within 30 seconds, and
//! then calls a good guest in the same sandbox.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod adapters;
mod answers;
mod approvals;
mod bytes;
mod capabilities;
mod compiler;
mod declared;
mod describe;
mod floods;
mod internal;
mod limits;
mod loaded;
mod matrix;
mod memory;
mod neighbours;
mod outside;
mod schemas;
mod support;
mod traps;
mod wasi;
