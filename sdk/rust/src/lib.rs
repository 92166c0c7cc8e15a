//! The SDK for skills in Rust: one macro, typed inputs, errors with `?`. Skill authors and the bundled skills use it.
//!
//! ```no_run
//! use patchbay_sdk::{Result, skill};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Greet {
//!     /// Name of the person to greet.
//!     name: String,
//! }
//!
//! skill! {
//!     /// Greets a person by name.
//!     fn greet(input: Greet) -> Result<String> {
//!         Ok(format!("Hello, {}!", input.name))
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! A skill also needs a `SKILL.md` and a `Cargo.toml` with `crate-type = ["cdylib", "rlib"]`; `patchbay plugin build
//! DIR` builds the component. The documentation comment of a tool is its description. The JSON Schema is derived from
//! the input type, and the documentation comments of its fields describe them to a model.
//!
//! The capabilities of the host are in [`kv`], [`http`], [`workspace`], [`inference`], [`tools`], [`tool_calls`],
//! [`tool_index`], [`skill_files`], [`call`], [`workspace_search`], [`log`] and [`progress`]; a component imports only
//! those that it uses. Everything also compiles natively, which lets you test a skill with plain `cargo test`. In such
//! tests, calls to capabilities panic, unless the feature `testing` is enabled: its module `testing` has a host in
//! memory for most of them, with files, key-value store and HTTP. A panic in a component ends the call as `trap`, and its message goes to
//! the log, where `patchbay plugin inspect` and a user's command show it.

// The macros below refer to this crate by the name that its users see.
extern crate self as patchbay_sdk;

mod failure;
mod mistakes;
mod reply;
mod unsupported;

#[doc(hidden)]
pub mod rt;
#[cfg(test)]
mod tests;

pub use failure::{Failure, Result};
pub use reply::Reply;

/// The bindings that wit-bindgen generates from `wit/`.
#[doc(hidden)]
#[allow(missing_docs, unsafe_code, clippy::all)]
pub mod bindings;

#[doc(hidden)]
pub use {schemars, serde_json, wit_bindgen};

#[cfg(all(any(test, feature = "testing"), not(target_arch = "wasm32")))]
pub mod testing;

#[cfg(not(all(any(test, feature = "testing"), not(target_arch = "wasm32"))))]
use bindings::patchbay::host as capabilities;
#[cfg(all(any(test, feature = "testing"), not(target_arch = "wasm32")))]
use testing::capabilities;

/// A small durable key-value store for the skill. Needs the capability `kv`.
pub use capabilities::kv;

/// Requests to the origins that the operator granted. Needs `http:HOST`.
pub use capabilities::http;

/// One completion by the calling agent's model. Needs `inference`.
pub use capabilities::inference;

/// Calls to other tools of the session. Needs `tools`.
pub use capabilities::tools;

/// Calls other tools in parallel: `start` returns immediately, `wait` blocks.
/// Needs `tools`, and a host with contract 0.1.1.
pub use capabilities::tool_calls;

/// The tools that this call may call. Needs `tools`, and a host with contract 0.1.1.
pub use capabilities::tool_index;

/// The files of the skill itself: templates and data beside its SKILL.md. Always granted. A component that uses them needs a
/// host with contract 0.1.1.
pub use capabilities::skill_files;

/// The running call: its id, for requests that must not be repeated, and its remaining limits. Unavailable to a call that
/// has no granted capability besides `workspace-read`. Needs a host with contract 0.1.1.
pub use capabilities::call;

/// Diagnostics for the operator. Always granted.
pub use capabilities::log;

/// Partial output of a running tool. Always granted.
pub use capabilities::progress;

/// Files below the workspace root. Needs `workspace-read`, `workspace-write`, `workspace-delete`. A tool that changes several files
/// calls `declare` first, which needs a host with contract 0.1.2: the user then answers one question for all of them.
pub mod workspace {
    pub use crate::capabilities::{
        workspace_changes::{Change, declare},
        workspace_read::{Entry, Error, read, walk},
        workspace_write::{delete, write},
    };
}

/// Searches all files of the workspace in one call, by text and by name. Needs `workspace-read`,
/// and a host with contract 0.1.2.
pub use capabilities::workspace_search;

pub use bindings::patchbay::skill::types::{Blob, Content, Link};

/// Declares the tools of a skill. Each is a function that takes one input and returns a [`Result`].
///
/// The input is any type with `serde::Deserialize` and `schemars::JsonSchema`; the result is any `Into<Reply>`. An
/// optional second parameter of type `Vec<Blob>` receives the attachments.
///
/// After the documentation, `#[extra("read-only" = "true", "kind" = "search")]` sets annotations, whose names are in
/// `wit/skill/skill.wit`. A tool that declares `read-only` is denied every capability with effects, and can run in parallel.
#[macro_export]
macro_rules! skill {
    ($(
        $(#[doc = $doc:expr])*
        $(#[extra($($key:literal = $value:literal),+ $(,)?)])?
        $vis:vis fn $name:ident($input:ident : $ty:ty $(, $blobs:ident : $blobs_ty:ty)? $(,)?) -> $ret:ty $body:block
    )+) => {
        $(
            $(#[doc = $doc])*
            $vis fn $name($input: $ty $(, $blobs: $blobs_ty)?) -> $ret $body
        )+

        #[doc(hidden)]
        pub struct PatchbaySkill;

        impl $crate::bindings::exports::patchbay::skill::skill::Guest for PatchbaySkill {
            fn tools() -> Vec<$crate::bindings::patchbay::skill::types::Tool> {
                $crate::rt::log_panics();
                vec![$($crate::rt::tool::<$ty>(stringify!($name), &[$($doc),*], &[$($(($key, $value)),+)?])),+]
            }

            fn call(
                tool: String,
                input: String,
                attachments: Vec<$crate::Blob>,
            ) -> ::core::result::Result<
                Vec<$crate::Content>,
                $crate::bindings::patchbay::skill::types::Failure,
            > {
                $crate::rt::log_panics();
                let _ = &attachments;
                match tool.as_str() {
                    $(stringify!($name) => $crate::rt::run(&input, |input: $ty| {
                        $name(input $(, { let $blobs: $blobs_ty = $crate::rt::attachments::<$blobs_ty>(attachments); $blobs })?)
                    }),)+
                    _ => $crate::rt::unknown(&tool),
                }
            }
        }

        #[cfg(target_arch = "wasm32")]
        $crate::bindings::export_component!(PatchbaySkill with_types_in $crate::bindings);
    };
    // Anything else is a mistake: the message shows what to write, and the compiler then shows where.
    ($($tools:tt)*) => {
        $crate::__explain_tools! { $($tools)* }
    };
}
