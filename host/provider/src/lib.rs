//! Model providers. A provider is an adapter (a WebAssembly component that speaks one API) and the operator's settings for it.
//!
//! - [`Providers`]: all providers of the process. Finds the provider of a model and asks it.
//! - [`CheckedAdapter`]: the result of examining an adapter file before it is added.
//! - [`Settings`], [`ProviderConfig`]: the providers' part of `config.toml`.
//! - [`Sink`], [`Completed`], [`ExchangeError`]: one completion, as its caller sees it.
//! - [`ExchangeLimits`]: the limits of one completion.
//! - [`ProviderStatus`], [`render`]: the list of providers for users and programs.
//!
//! The operator decides: the origin and the key variables in an adapter's manifest are only suggestions. An adapter never sees a
//! key and never chooses a host. It requests actions, and the `exchange` performs them after its checks.
//!
//! Modules, from the outside in: `providers` (the public face), `registry` (the configured providers), `adapters`
//! (their components), `catalogue` and `facts` (the known models and their properties), `route` (where requests go),
//! `exchange` (one completion, or one listing of models).

mod adapters;
mod catalogue;
mod choice;
mod config;
mod error;
mod exchange;
mod facts;
mod limits;
mod model_name;
mod providers;
mod readiness;
mod registry;
mod retry;
mod route;
mod sink;
mod status;
mod watch;

pub use adapters::BundledAdapter;
pub use choice::{Choice, Selector};
pub use config::{CatalogueSettings, ModelConfig, ProviderConfig, Settings};
pub use error::{CompleteError, ExchangeError, ModelError};
pub use facts::{Prices, TokenPrices};
pub use limits::ExchangeLimits;
pub use providers::{
    CheckedAdapter, DefaultChoice, ModelInfo, ModelOffer, MovedName, Providers, ReadyModel, RefreshedProvider,
    Refreshing, SettingsSource, Sources, SuggestedModel,
};
pub use sink::{Completed, Sink};
pub use status::{ProviderSource, ProviderState, ProviderStatus, render};
pub use watch::{Watch, WatchError};
