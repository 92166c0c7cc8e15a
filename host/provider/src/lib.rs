//! Providers: an adapter each, plus what the operator decided for it.
//!
//! - [`Sink`], [`Completed`], [`ExchangeError`]: one completion as whoever asks sees it.

mod error;
mod exchange;
mod limits;
mod route;
mod sink;

pub use error::ExchangeError;
pub use limits::ExchangeLimits;
pub use sink::{Completed, Retrying, Sink};
