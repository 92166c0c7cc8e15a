//! From a line to what it names: parsing, the shape of a command table, the order of resolution.
//!
//! Pure: no I/O, no clock, no state. What a command *does* is the session's concern.
//!
//! - [`Line::read`]: is it a command or conversation?
//! - [`Spec`]: what a built-in is called, takes and says of itself. One table of them makes the router, `/commands`,
//!   completion and the docs.
//! - [`RESERVED`]: names that no skill's alias may have.
//! - [`resolve`]: built-ins, then aliases; nothing is guessed.

mod line;
mod reserved;
mod resolve;
mod spec;

pub use line::Line;
pub use reserved::RESERVED;
pub use resolve::{Aliases, Resolved, resolve};
pub use spec::{Argument, Completion, Spec};
