//! Adapters of providers: what one says of itself, and the instance that serves one completion.
//!
//! An adapter has no capabilities but its log: it says what is to be done, and the caller does it.

mod action;
mod budgets;
mod manifest;
mod running;
mod wire;
mod world;

pub use action::{Action, AdapterFailure, AdapterRequest, BodyPiece, Input, RetryHint, TransportKind};
pub use budgets::{Budgets, Exceeded};
pub use manifest::{AdapterManifest, CredentialHint, ModelEntry, ModelSize, ThinkingPlan};
pub use running::Running;
pub(crate) use world::add_to_linker;
pub use world::{LoadedAdapter, WORLD};
