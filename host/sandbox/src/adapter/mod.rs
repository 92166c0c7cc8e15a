//! Adapters of providers: their manifest, and the instances that serve one completion or list
//! the models. Used by `provider`.
//!
//! An adapter has no capability except its log: it returns actions, which the caller performs.

mod action;
mod budgets;
mod listing;
mod manifest;
mod running;
mod stepped;
mod wire;
mod world;

pub use action::{Action, AdapterFailure, AdapterRequest, BodyPiece, Input, RetryHint, TransportKind};
pub use budgets::{Budgets, Exceeded};
pub use listing::{Coverage, FACTS_BYTES, ListedModel, ListingAction, ListingEnd, ListingEvent, RunningListing};
pub use manifest::{AdapterManifest, CredentialHint, ModelEntry, ModelSize, ThinkingPlan};
pub use running::Running;
pub(crate) use world::add_to_linker;
pub use world::{LoadedAdapter, WORLD};
