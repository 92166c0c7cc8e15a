//! For who writes a plugin: making one component of a folder, and telling what a component is.
//!
//! - [`build`]: a folder with Rust sources (or a `.wasm` that something else made) becomes one `NAME.wasm`: a skill with its
//!   SKILL.md embedded, or the adapter of a provider.
//! - [`Inspector`]: manifest, tools, imports, exports, digest, and what is wrong, as loading would judge it.
//!
//! `patchbay-bundle`, this package's binary, builds the bundled plugins before there is a `patchbay` that embeds them.

mod build;
mod cargo;
mod inspect;

pub use build::{BuildError, Built, Options, build};
pub use inspect::{Inspector, Report};
