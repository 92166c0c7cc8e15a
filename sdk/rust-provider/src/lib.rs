//! Writes a Patchbay provider in Rust: an adapter to a language-model API, as a state machine without I/O.
//!
//! One type implements [`Adapter`], one macro makes a component of it: [`provider!`]. The host sends what the adapter asks it
//! to send and feeds back what comes; an adapter has no network, no clock and no secret. So its tests are plain
//! `cargo test`: bytes in, [`Action`]s out.
//!
//! ```
//! use patchbay_provider_sdk::*;
//!
//! /// Answers without asking anybody.
//! struct Parrot;
//!
//! impl Adapter for Parrot {
//!     fn describe() -> Manifest {
//!         Manifest {
//!             name: "parrot".to_owned(),
//!             display_name: "Parrot".to_owned(),
//!             version: "0.1.0".to_owned(),
//!             model_prefixes: vec!["parrot-".to_owned()],
//!             models: Vec::new(),
//!             default_base_url: None,
//!             credentials: Vec::new(),
//!             extra: Vec::new(),
//!         }
//!     }
//!
//!     fn explain_thinking(_model: &str, _level: Option<&str>) -> ThinkingPlan {
//!         ThinkingPlan { description: vec!["Thinking: off".to_owned()], warning: None }
//!     }
//!
//!     fn begin(request: CompletionRequest) -> (Self, Vec<Action>) {
//!         let text = format!("{} messages", request.messages.len());
//!         let actions = vec![
//!             Action::Emit(Event::BlockStart(BlockStart { index: 0, kind: BlockKind::Text })),
//!             Action::Emit(Event::BlockDelta(BlockDelta { index: 0, text })),
//!             Action::Emit(Event::BlockEnd(BlockEnd { index: 0, opaque: None })),
//!             Action::Finish(Finish { stop: "end-turn".to_owned(), raw: "end".to_owned() }),
//!         ];
//!         (Self, actions)
//!     }
//!
//!     fn resume(&mut self, _: Input) -> Vec<Action> {
//!         unreachable!("nothing was sent")
//!     }
//! }
//!
//! provider!(Parrot);
//! # fn main() {}
//! ```
//!
//! Beside it stands a `Cargo.toml` with `crate-type = ["cdylib", "rlib"]`; `patchbay plugin build DIR` makes the component,
//! `patchbay provider add FILE` puts it among the providers. `docs/providers.md` has an adapter that asks a server.
//!
//! What to mind:
//!
//! - An adapter gives a path, which the host joins to the operator's base URL, and names a credential, which the host fills
//!   in. It learns neither.
//! - Bytes are cut anywhere: in the middle of a character, of a line, of an event.
//! - At most one request and one timer are pending, each replaced by the next of its kind alone; whichever is ready first is
//!   told. A step that leaves neither, and does not end, breaks the law.
//! - Blocks are numbered from 0, each started once and ended once. Opaque blocks have no deltas; what an API wants back with
//!   any block goes out with its end ([`BlockEnd`]) and comes back in [`Part`], to this adapter and the same model alone.
//! - What failed is told by its kind ([`Failure`]); trying again is the host's affair, in a new instance.
//! - A panic ends the completion as `trap`, and its message goes to the log. Whatever a server sends is data: answer it with [`Action::Fail`].

// What the macros below expand to names this crate as its users do.
extern crate self as patchbay_provider_sdk;

/// The bindings of `wit/`, as wit-bindgen makes them.
#[doc(hidden)]
#[allow(missing_docs, unsafe_code, clippy::all)]
pub mod bindings {
    wit_bindgen::generate!({
        path: ["../../wit/host", "../../wit/provider"],
        world: "patchbay:provider/provider-plugin",
        generate_all,
        additional_derives: [PartialEq, Eq],
        pub_export_macro: true,
        export_macro_name: "export_component",
        default_bindings_module: "patchbay_provider_sdk::bindings",
        runtime_path: "patchbay_provider_sdk::wit_bindgen::rt",
    });
}

#[doc(hidden)]
pub use wit_bindgen;

/// What the `provider!` macro expands to. Not for authors.
#[doc(hidden)]
#[allow(missing_docs)]
pub mod rt {
    /// Has a panic write its message and place to the host's log, from where the host shows it with the trap. Without a
    /// system beneath it the standard library would drop it.
    #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
    pub fn log_panics() {
        use crate::log;
        std::panic::set_hook(Box::new(|panic| log::write(log::Level::Error, &panic.to_string())));
    }

    /// The standard library writes the message to standard error, which is the log.
    #[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
    pub fn log_panics() {}
}

pub use bindings::patchbay::host::log;
/// The words of the contract; `wit/provider/provider.wit` says what each means.
pub use bindings::patchbay::provider::types::{
    Action, Auth, BlobRef, Block, BlockDelta, BlockEnd, BlockKind, BlockStart, BodyPiece, CompletionRequest,
    Credential, Event, Failure, Finish, HttpRequest, Input, Manifest, Message, Model, Pair, Part, Piece, Placement,
    ResponseHead, Retry, Role, ThinkingPlan, Tool, ToolCall, ToolChoice, ToolHead, ToolResult, TransportFailure, Usage,
};

/// An adapter: one value serves one completion. The contract's law holds: `begin` comes once, one request is in flight at a
/// time, nothing comes after `finish` or `fail`, and what neither sends, waits nor ends while nothing is in flight breaks it.
pub trait Adapter: Sized + 'static {
    /// What the provider is, and what it suggests to the operator. Must be constant: it is asked once for each component.
    fn describe() -> Manifest;

    /// What a thinking level (`none`, `low`, `med`, `high`) comes to for `model`, in words for people; no level is the
    /// provider's default. It should be what `begin` would send.
    fn explain_thinking(model: &str, level: Option<&str>) -> ThinkingPlan;

    /// Begins the completion `request`: the first actions, in order.
    fn begin(request: CompletionRequest) -> (Self, Vec<Action>);

    /// Goes on with what came of a request or a timer: the next actions, in order.
    fn resume(&mut self, input: Input) -> Vec<Action>;
}

/// Makes a component of an [`Adapter`]. Once in a crate.
#[macro_export]
macro_rules! provider {
    ($adapter:ty) => {
        // Public, so that tests, which export no component, do not report the adapter as dead code.
        #[doc(hidden)]
        pub struct PatchbayProvider;

        const _: () = {
            use $crate::bindings::exports::patchbay::provider::adapter::Guest;

            ::std::thread_local! {
                static RUNNING: ::std::cell::RefCell<::std::option::Option<$adapter>> =
                    const { ::std::cell::RefCell::new(::std::option::Option::None) };
            }

            impl Guest for PatchbayProvider {
                fn describe() -> $crate::Manifest {
                    $crate::rt::log_panics();
                    <$adapter as $crate::Adapter>::describe()
                }

                fn explain_thinking(
                    model: ::std::string::String,
                    level: ::std::option::Option<::std::string::String>,
                ) -> $crate::ThinkingPlan {
                    $crate::rt::log_panics();
                    <$adapter as $crate::Adapter>::explain_thinking(&model, level.as_deref())
                }

                fn begin(request: $crate::CompletionRequest) -> ::std::vec::Vec<$crate::Action> {
                    $crate::rt::log_panics();
                    let (adapter, actions) = <$adapter as $crate::Adapter>::begin(request);
                    RUNNING.set(::std::option::Option::Some(adapter));
                    actions
                }

                fn resume(input: $crate::Input) -> ::std::vec::Vec<$crate::Action> {
                    RUNNING.with_borrow_mut(|running| match running {
                        ::std::option::Option::Some(adapter) => $crate::Adapter::resume(adapter, input),
                        ::std::option::Option::None => ::std::panic!("resume came before begin"),
                    })
                }
            }

            #[cfg(target_arch = "wasm32")]
    $crate::bindings::export_component!(PatchbayProvider with_types_in $crate::bindings);
        };
    };
}
