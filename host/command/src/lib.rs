//! Parses an input line and resolves the command that it names.
//!
//! The crate `session` calls it for every line that a front submits. This crate does no I/O and has no state; the
//! implementations of the built-in commands are in `session/src/builtin`.
//!
//! - [`Line::parse`]: is the line a command or conversation?
//! - [`resolve`]: which built-in or which skill's alias does the name belong to?
//! - [`Spec`]: name, argument and summary of a built-in. Routing, `/commands`, completion and the docs all use the same table of
//!   specs.
//! - [`RESERVED`]: names that no alias may have.
//!
//! ```
//! use patchbay_command::{Aliases, Argument, Completion, Line, Resolved, Spec, resolve};
//! use patchbay_core::Name;
//!
//! const HELP: Spec =
//!     Spec { name: "help", argument: Argument::None, summary: "Show help", completion: Completion::None };
//!
//! struct NoAliases;
//!
//! impl Aliases for NoAliases {
//!     fn claimants(&self, _alias: &str) -> &[Name] {
//!         &[]
//!     }
//! }
//!
//! assert_eq!(Line::parse("/help"), Ok(Line::Command { name: "help", argument: "" }));
//! assert_eq!(Line::parse("Help me"), Ok(Line::Conversation("Help me")));
//!
//! assert_eq!(resolve("help", &[&HELP], &NoAliases), Ok(Resolved::BuiltIn(&HELP)));
//! let outcome = resolve("halp", &[&HELP], &NoAliases).unwrap_err();
//! assert_eq!(outcome.line(), "Error: unknown command '/halp'.");
//! ```

mod line;
mod quoted;
mod reserved;
mod resolve;
mod spec;

pub use line::Line;
pub use quoted::quoted;
pub use reserved::RESERVED;
pub use resolve::{Aliases, HasSpec, Resolved, resolve};
pub use spec::{Argument, Completion, Spec};
