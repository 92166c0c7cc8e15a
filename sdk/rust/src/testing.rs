//! A host in memory for the tests of skills: files of a workspace, the key-value store, HTTP. Skills enable it as the
//! feature `testing` in their `[dev-dependencies]`; components never contain it.
//!
//! With the feature, the functions of `workspace`, `workspace_search`, `kv`, `http`, `log`, `progress`, `call` and
//! `skill_files` use the [`Host`] whose [`run`](Host::run) is active on the current thread. A test can therefore call
//! the code of a skill unchanged:
//!
//! ```
//! use patchbay_sdk::{Result, testing::Host, workspace};
//!
//! /// Counts the lines of a file of at most 1 MiB.
//! fn lines(path: &str) -> Result<usize> {
//!     let text = workspace::read(path, 0, 1 << 20)?;
//!     Ok(text.split_inclusive(|byte| *byte == b'\n').count())
//! }
//!
//! let host = Host::new().with_file("a.txt", "one\ntwo\n");
//! assert_eq!(host.run(|| lines("a.txt")).unwrap(), 2);
//! let failure = host.run(|| lines("b.txt")).unwrap_err();
//! assert_eq!(failure.kind(), "not-found");
//! ```
//!
//! Grants, quotas, `.gitignore` and forbidden paths are not simulated; [`Host::on_call`] makes any call fail. The other
//! capabilities, `inference`, `tools`, `tool_calls` and `tool_index`, panic.

pub(crate) mod capabilities;
mod host;

pub use host::{Call, Host, Reaction, response};

#[cfg(test)]
mod tests;
