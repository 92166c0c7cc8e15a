//! Tools for plugin authors: builds a plugin and inspects one. Behind `patchbay plugin build` and `patchbay plugin
//! inspect`.
//!
//! - [`build`]: turns a folder with Rust sources, or a `.wasm` from another compiler, into one `NAME.wasm`: a skill
//!   with its SKILL.md and its files embedded, or the adapter of a provider.
//! - [`Inspector`]: reports manifest, tools, imports, exports and digest of a plugin, and each reason why loading would
//!   refuse it.
//!
//! The binary `patchbay-bundle` of this package builds the bundled plugins, which the binary `patchbay` then embeds.

mod build;
mod cargo;
mod files;
mod inspect;

pub use build::{BuildError, BuildOptions, BuiltPlugin, build};
pub use inspect::{InspectionReport, Inspector};
