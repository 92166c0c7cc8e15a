//! Every outgoing HTTP request of the process. Nothing else speaks HTTP, so what is checked here is checked for all.
//!
//! A URL becomes an answer in three steps, and the types allow no shorter way:
//!
//! 1. [`Target::parse`] reads a URL: pure, no name is looked up.
//! 2. [`Target::allow`] shows it a permit, the pattern that `patchbay_policy` found for its [`Origin`]; a [`Checked`]
//!    target comes out, with its [`Reach`]: what kind of address may be dialled for it.
//! 3. [`Egress::send`] sends a [`Request`] to it and gives the whole [`Response`], or [`Egress::open`] an [`Answer`]
//!    whose body comes piece by piece.
//!
//! What it sees to on the way:
//!
//! - *Addresses.* A name is looked up once for a connection, by a [`Resolver`]; each address is checked, one that is out
//!   of reach refuses the name, and only what was checked is dialled. No proxy, no redirect, no other name.
//! - *Requests* are built anew from their parts: the host sets where a request ends, whom it goes to and how the
//!   connection is used; [`is_reserved_header`] tells what a plugin may not set.
//! - *Limits* of time and size, [`EgressLimits`], each with an error of its own.
//! - *Secrets.* A [`Secret`] goes in last, only for the origin that it is bound to. A [`Scrub`] removes every secret that is
//!   bound to an origin from all answers of that origin, and from every error, whether or not the request carried it.
//!   [`Credentials`] holds the operator's table; [`Secrets`] reads the environment and `credentials.json`, and knows all bindings.
//! - *Places.* The number of requests at once is limited, for the process and for each owner.
//! - *Connections* are kept for further requests of the same owner by the same rule, and shared no further.
//!
//! An [`EgressError`] is one of a few kinds, in the words of the plugins' contract.

mod address;
mod answer;
mod credentials;
mod egress;
mod error;
mod exchange;
mod headers;
mod limits;
mod places;
mod pools;
mod request;
mod resolve;
mod scrub;
mod secret;
mod secrets;
mod spelling;
mod target;
#[cfg(test)]
mod tests;
mod tls;

pub use address::Reach;
pub use answer::{Answer, Response};
pub use credentials::{Credential, CredentialConfig, CredentialError, Credentials, PlacementError, is_variable};
pub use egress::Egress;
pub use error::EgressError;
pub use headers::is_reserved_header;
pub use limits::{EgressLimits, LimitKey};
pub use request::{Request, RequestError};
pub use resolve::{Resolver, Resolving, System};
pub use scrub::{Scrub, Scrubber};
pub use secret::{Placed, Placement, Secret, SecretError};
pub use secrets::{Binding, Loader, Malformed, Place, Secrets};
pub use target::{Checked, Origin, Target, UrlError};
