//! Providers: an adapter each, plus what the operator decided for it.
//!
//! - [`Providers`]: all of them; whose a model is, which one a text names, and asking it.
//! - [`Checked`]: what a file would be among them.
//! - [`Settings`], [`ProviderConfig`]: what `config.toml` says of them.
//! - [`Sink`], [`Completed`], [`ExchangeError`]: one completion as whoever asks sees it.
//! - [`ExchangeLimits`]: what one completion may take.
//!
//! Authority is the operator's: what an adapter says of origins and keys is a suggestion. An adapter never sees a key and
//! never chooses a host; the driver of an exchange does what it asks for, after its checks.

mod adapters;
mod base;
mod bundled;
mod choice;
mod complete_error;
mod config;
mod error;
mod exchange;
mod limits;
mod model_error;
mod path;
mod prefix;
mod providers;
mod registry;
mod retry;
mod route;
mod sink;
mod status;
mod watch;

pub use bundled::BundledAdapter;
pub use choice::{Choice, Selector};
pub use complete_error::CompleteError;
pub use config::{ModelConfig, ProviderConfig, Settings};
pub use error::ExchangeError;
pub use limits::{ExchangeLimits, LimitError};
pub use model_error::ModelError;
pub use providers::{Checked, DefaultChoice, ModelInfo, Providers, SettingsSource, Sources};
pub use sink::{Completed, Retrying, Sink};
pub use status::{ProviderStatus, render};
pub use watch::{Watch, WatchError};
