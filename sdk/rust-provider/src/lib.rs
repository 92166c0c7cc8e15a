//! The SDK for providers in Rust. A provider is an adapter to a language-model API, written as a state machine without
//! I/O.
//!
//! One type implements [`Adapter`], and the macro [`provider!`] turns it into a component. The host sends the requests
//! that the adapter returns and passes the responses back; an adapter has no network, no clock and no secret. So its
//! tests are plain `cargo test`: bytes in, [`Action`]s out.
//!
//! ```
//! use patchbay_provider_sdk::*;
//!
//! /// Answers without a request.
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
//! An adapter also needs a `Cargo.toml` with `crate-type = ["cdylib", "rlib"]`; `patchbay plugin build DIR` builds the
//! component, `patchbay provider add FILE` installs it. `docs/providers-authors.md` has an adapter that sends requests to a
//! server.
//!
//! Rules for adapters:
//!
//! - An adapter returns a path, which the host joins to the operator's base URL, and the id of a credential, which the
//!   host fills in. The adapter sees neither the URL nor the secret.
//! - Chunks of a response end anywhere: in the middle of a character, a line or an event.
//! - At most one request and one timer are pending. A new request replaces the pending request, a new timer the pending
//!   timer. The adapter is resumed with whichever is ready first. A step that leaves neither pending must finish or
//!   fail.
//! - Blocks are numbered from 0; each is started once and ended once. Opaque blocks have no deltas. Data that the API
//!   requires back with a block is sent with its end ([`BlockEnd`]) and returned in [`Part`], only to this adapter and
//!   the same model.
//! - A failure is reported by its kind ([`Failure`]). The host decides about retries and uses a new instance for each.
//! - A panic ends the completion as `trap`, and its message goes to the log. Do not panic on bytes from a server;
//!   return [`Action::Fail`].

// The macros below refer to this crate by the name that its users see.
extern crate self as patchbay_provider_sdk;

/// The bindings that wit-bindgen generates from `wit/`.
#[doc(hidden)]
#[allow(missing_docs, unsafe_code, clippy::all)]
pub mod bindings {
    wit_bindgen::generate!({
        path: ["wit/host", "wit/provider"],
        world: "patchbay:provider/provider-plugin",
        generate_all,
        additional_derives: [PartialEq, Eq],
        pub_export_macro: true,
        export_macro_name: "export_component",
        default_bindings_module: "patchbay_provider_sdk::bindings",
        runtime_path: "patchbay_provider_sdk::wit_bindgen::rt",
    });
}

/// The bindings of the optional interfaces, each with its own world and its own macro.
#[doc(hidden)]
#[allow(missing_docs, unsafe_code, clippy::all)]
pub mod optional {
    pub mod catalogue {
        wit_bindgen::generate!({
            path: ["wit/host", "wit/provider"],
            inline: "
                package patchbay:with-catalogue;
                world with-catalogue { export patchbay:provider/catalogue@0.1.2; }
            ",
            with: { "patchbay:provider/types@0.1.2": crate::bindings::patchbay::provider::types },
            additional_derives: [PartialEq, Eq],
            pub_export_macro: true,
            export_macro_name: "export_catalogue",
            default_bindings_module: "patchbay_provider_sdk::optional::catalogue",
            runtime_path: "patchbay_provider_sdk::wit_bindgen::rt",
        });
    }
    pub mod models {
        wit_bindgen::generate!({
            path: ["wit/host", "wit/provider"],
            inline: "
                package patchbay:with-models;
                world with-models { export patchbay:provider/models@0.1.2; }
            ",
            with: { "patchbay:provider/types@0.1.2": crate::bindings::patchbay::provider::types },
            additional_derives: [PartialEq, Eq],
            pub_export_macro: true,
            export_macro_name: "export_models",
            default_bindings_module: "patchbay_provider_sdk::optional::models",
            runtime_path: "patchbay_provider_sdk::wit_bindgen::rt",
        });
    }
    pub mod thinking {
        wit_bindgen::generate!({
            path: ["wit/host", "wit/provider"],
            inline: "
                package patchbay:with-thinking;
                world with-thinking { export patchbay:provider/thinking@0.1.2; }
            ",
            with: { "patchbay:provider/types@0.1.2": crate::bindings::patchbay::provider::types },
            additional_derives: [PartialEq, Eq],
            pub_export_macro: true,
            export_macro_name: "export_thinking",
            default_bindings_module: "patchbay_provider_sdk::optional::thinking",
            runtime_path: "patchbay_provider_sdk::wit_bindgen::rt",
        });
    }
}

#[doc(hidden)]
pub use wit_bindgen;

/// Functions that code generated by `provider!` calls. Not for authors.
#[doc(hidden)]
#[allow(missing_docs)]
pub mod rt {
    /// Installs a panic hook that writes the message to the host's log; the host shows it with the trap. Without a
    /// system interface the standard library would discard the message.
    #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
    pub fn log_panics() {
        use crate::log;
        std::panic::set_hook(Box::new(|panic| log::write(log::Level::Error, &panic.to_string())));
    }

    /// Does nothing: the standard library writes the message to standard error, which the host logs.
    #[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
    pub fn log_panics() {}
}

pub use bindings::patchbay::host::log;
/// The types of the contract, documented in `wit/provider/provider.wit`.
pub use bindings::patchbay::provider::types::{
    Action, Auth, BlobRef, Block, BlockDelta, BlockEnd, BlockKind, BlockStart, BodyPiece, CompletionRequest,
    Credential, Event, Failure, Finish, HttpRequest, Input, Manifest, Message, Model, Pair, Part, Piece, Placement,
    ResponseHead, Retry, Role, ThinkingPlan, Tool, ToolCall, ToolChoice, ToolHead, ToolResult, TransportFailure, Usage,
};

pub use optional::{
    catalogue::exports::patchbay::provider::catalogue::{Listing, ListingAction, ListingEnd, ModelFacts},
    thinking::exports::patchbay::provider::thinking::LevelPlan,
};

/// An adapter: one value serves one completion. `begin` is called once; one request is pending at a time;
/// no action may follow `finish` or `fail`; and while nothing is pending, each step must send a request,
/// start a timer, finish or fail.
pub trait Adapter: Sized + 'static {
    /// Returns the manifest: the provider's name, models and suggested settings. Must be constant, because it is
    /// called once for each component.
    fn describe() -> Manifest;

    /// Describes for the user what a thinking level (`none`, `low`, `med`, `high`) does for `model`; `None` is the
    /// provider's default. It must match the request that `begin` sends.
    fn explain_thinking(model: &str, level: Option<&str>) -> ThinkingPlan;

    /// Begins the completion `request`. Returns the adapter and its first actions, in order.
    fn begin(request: CompletionRequest) -> (Self, Vec<Action>);

    /// Continues with the next input from the pending request or timer. Returns the next actions, in order.
    fn resume(&mut self, input: Input) -> Vec<Action>;
}

/// A listing of the models of an API: one value serves one listing. The same rules apply as to [`Adapter`].
/// Export it with [`catalogue!`].
pub trait Catalogue: Sized + 'static {
    /// Begins a listing. Returns the listing and its first actions, in order.
    fn begin(listing: Listing) -> (Self, Vec<ListingAction>);

    /// Continues with the next input from the pending request or timer. Returns the next actions, in order.
    fn resume(&mut self, input: Input) -> Vec<ListingAction>;
}

/// The facts that an adapter knows about a model that is not in its catalogue. Export it with [`models!`].
pub trait Models {
    /// Returns a JSON object as in [`ModelFacts`]; `{}` if nothing is known. The same arguments return the same result.
    fn facts(model: &str, options: &[Pair]) -> String;
}

/// [`Adapter::explain_thinking`] with the options of a completion. Export it with [`thinking!`].
pub trait Thinking {
    /// Describes what `begin` would send for this level with these options; no level is the provider's default. The same
    /// arguments return the same result.
    fn explain(model: &str, level: Option<&str>, options: &[Pair]) -> LevelPlan;
}

/// Exports the interface `catalogue`. Use it beside [`provider!`], at most once in a crate.
#[macro_export]
macro_rules! catalogue {
    ($catalogue:ty) => {
        // Public, because tests, which export no component, would otherwise report it as dead code.
        #[doc(hidden)]
        pub struct PatchbayCatalogue;

        const _: () = {
            use $crate::optional::catalogue::exports::patchbay::provider::catalogue::Guest;

            ::std::thread_local! {
                static RUNNING: ::std::cell::RefCell<::std::option::Option<$catalogue>> =
                    const { ::std::cell::RefCell::new(::std::option::Option::None) };
            }

            impl Guest for PatchbayCatalogue {
                fn begin(listing: $crate::Listing) -> ::std::vec::Vec<$crate::ListingAction> {
                    $crate::rt::log_panics();
                    let (catalogue, actions) = <$catalogue as $crate::Catalogue>::begin(listing);
                    RUNNING.set(::std::option::Option::Some(catalogue));
                    actions
                }

                fn resume(input: $crate::Input) -> ::std::vec::Vec<$crate::ListingAction> {
                    RUNNING.with_borrow_mut(|running| match running {
                        ::std::option::Option::Some(catalogue) => $crate::Catalogue::resume(catalogue, input),
                        ::std::option::Option::None => ::std::panic!("resume came before begin"),
                    })
                }
            }

            #[cfg(target_arch = "wasm32")]
    $crate::optional::catalogue::export_catalogue!(PatchbayCatalogue with_types_in $crate::optional::catalogue);

            // Tests export nothing; without a use, code in a private module would be reported as dead.
            let _: (fn(_) -> _, fn(_) -> _) =
                (<PatchbayCatalogue as Guest>::begin, <PatchbayCatalogue as Guest>::resume);
        };
    };
}

/// Exports the interface `models`. Use it beside [`provider!`], at most once in a crate.
#[macro_export]
macro_rules! models {
    ($models:ty) => {
        #[doc(hidden)]
        pub struct PatchbayModels;

        const _: () = {
            impl $crate::optional::models::exports::patchbay::provider::models::Guest for PatchbayModels {
                fn facts(
                    model: ::std::string::String,
                    options: ::std::vec::Vec<$crate::Pair>,
                ) -> ::std::string::String {
                    $crate::rt::log_panics();
                    <$models as $crate::Models>::facts(&model, &options)
                }
            }

            #[cfg(target_arch = "wasm32")]
    $crate::optional::models::export_models!(PatchbayModels with_types_in $crate::optional::models);

            let _: fn(_, _) -> _ =
                <PatchbayModels as $crate::optional::models::exports::patchbay::provider::models::Guest>::facts;
        };
    };
}

/// Exports the interface `thinking`. Use it beside [`provider!`], at most once in a crate.
#[macro_export]
macro_rules! thinking {
    ($thinking:ty) => {
        #[doc(hidden)]
        pub struct PatchbayThinking;

        const _: () = {
            impl $crate::optional::thinking::exports::patchbay::provider::thinking::Guest for PatchbayThinking {
                fn explain(
                    model: ::std::string::String,
                    level: ::std::option::Option<::std::string::String>,
                    options: ::std::vec::Vec<$crate::Pair>,
                ) -> $crate::LevelPlan {
                    $crate::rt::log_panics();
                    <$thinking as $crate::Thinking>::explain(&model, level.as_deref(), &options)
                }
            }

            #[cfg(target_arch = "wasm32")]
    $crate::optional::thinking::export_thinking!(PatchbayThinking with_types_in $crate::optional::thinking);

            let _: fn(_, _, _) -> _ =
                <PatchbayThinking as $crate::optional::thinking::exports::patchbay::provider::thinking::Guest>::explain;
        };
    };
}

/// Turns an [`Adapter`] into a component. Use it once in a crate.
#[macro_export]
macro_rules! provider {
    ($adapter:ty) => {
        // Public, because tests, which export no component, would otherwise report the adapter as dead code.
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
