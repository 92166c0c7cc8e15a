//! Helpers that the tests and benchmarks share. To write a test, begin with [`binary::Patchbay`] and [`guest::Guest`].
//!
//! | module | provides | use it |
//! | --- | --- | --- |
//! | [`binary`] | `Patchbay`: the built binary with its own home and workspace, `Patchbay::compiled` if many tests call the same skills; `Ran`, the result of one run | to test the program as a user runs it |
//! | [`answers`] | `Patchbay::answers` and `Live`: parsed `exec --json` output, in one run or line by line | to check codes, data and events, or to change files between two lines |
//! | [`acp`] | `Peer`: a client of `patchbay acp` in lines of JSON | to test what an editor sends and receives |
//! | [`serve`] | `Serving`: `patchbay serve` and its clients over WebSockets | to test remote clients |
//! | [`mcp`] | MCP servers that misbehave, over standard input and output and over HTTP | to test calls of MCP tools |
//! | [`home`] | `add_command`, `grant`, `database`, `stored_messages`, `log`, `assert_in_no_file` | to prepare a home or look into it |
//! | [`host`] | `host`: a host with the bundled adapters in the test's own process | to use the Rust interface of a session |
//! | [`play`] | `Play`: such a session with several agents; their rows, mail and turns | to test agents |
//! | [`tree_check`] | `check`: are the stored agents, mail, turns and calls of a session consistent? | after races and crashes |
//! | [`session_events`] | `wait_for_event`, `wait_for_end`, `stored_texts` | to follow a session of that host |
//! | [`guest`] | `Guest`: a skill's component from a builder or from WAT | to run a skill without a compiler |
//! | [`documents`] | `block`, `blocks`: fenced blocks of a document | to run an example exactly as written |
//! | [`calls`] | `fetching`, `relaying`: guests that make one host call | to test a capability |
//! | [`adapter`] | `Adapter`: a provider's component that follows a script in JSON | to test the host with any adapter |
//! | [`mod@format`] | `Format`: the recorded responses and errors of the four provider formats | to test the bundled adapters |
//! | [`server`] | `Server`: an HTTP server on the loopback address that records its requests | if a test sends requests |
//! | [`services`] | `unavailable`, `tools`, `snapshot`, `session`, `context`, `call`: the services and the context of a call | to call the sandbox or the tools directly |
//! | [`schemas`] | `hostile`: JSON schemas that would exhaust time, memory or stack | to test validators |
//! | [`terminal`] | `Terminal`: the binary in a pseudo-terminal | to type keys and look at the screen |
//! | [`paths`] | `local_paths_in`: paths of this machine in a file | to test that builds are reproducible |
//!
//! `assert_…` fails the test; `wait_for_…` polls for up to [`PATIENCE`] and then fails it. Every helper panics if it fails.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

/// The time limit of all helpers that wait. It is long because the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub mod acp;
pub mod adapter;
pub mod answers;
pub mod binary;
pub mod calls;
mod compiled;
pub mod documents;
pub mod format;
pub mod guest;
pub mod home;
pub mod host;
pub mod mcp;
pub mod paths;
pub mod play;
pub mod schemas;
pub mod serve;
pub mod server;
pub mod services;
pub mod session_events;
#[cfg(unix)]
pub mod terminal;
pub mod tree_check;
