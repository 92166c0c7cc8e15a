//! Adapters of providers: their manifest, and the instance that serves one completion. `provider` uses both.
//!
//! An adapter has no capability except its log: it returns actions, which the caller performs.

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
