//! Sends every outgoing HTTP request of the process. Because no other crate sends any, every request passes these
//! checks.
//!
//! A request is made in three steps, and the types enforce their order:
//!
//! 1. [`Target::parse`] parses a URL. It does not look up names.
//! 2. [`Target::allow`] checks it against a permit, the pattern that `patchbay_policy` found for its [`Origin`]. It returns a
//!    [`CheckedTarget`] with an [`AddressScope`]: the addresses that its request may connect to.
//! 3. [`Egress::send`] sends a [`Request`] to it and returns the whole [`Response`]; [`Egress::open`] returns an [`Answer`], whose
//!    body arrives in pieces.
//!
//! What the crate ensures:
//!
//! - *Addresses.* A [`Resolver`] looks a name up once for each connection. Every address is checked, a single refused address
//!   refuses the whole name, and connections are only made to checked addresses. Proxies and redirects are not used.
//! - *Requests* are built from their parts. Only the host sets the headers that delimit a request, name its host or control the
//!   connection ([`is_reserved_header`]).
//! - *Limits* of time and size ([`EgressLimits`]), each with its own error.
//! - *Secrets.* A [`Secret`] is added last, only for the origin that it is bound to. A [`Scrub`] removes every secret that is bound
//!   to the request's host from the response and from errors, whether or not the request carried it. [`Credentials`] holds the
//!   operator's table; [`Secrets`] reads the environment, `credentials.json` and key commands, and knows all bindings.
//! - *Concurrency.* The number of concurrent requests is limited, for the process and for each owner.
//! - *Connections* are reused only for requests of the same owner that the same rule allowed.
//!
//! Key commands are programs of the operator; [`find_program`] and [`ProcessGroup`] start other such programs in the same way.
//!
//! An [`EgressError`] has a [`kind`](EgressError::kind), which is part of the plugin contract.
//!
//! ```
//! use patchbay_egress::{Egress, EgressError, EgressLimits, Request, Target};
//! use patchbay_policy::HostPattern;
//!
//! // What the operator granted to the skill 'notes'.
//! let granted = HostPattern::exactly("api.example.com", None).unwrap();
//!
//! let target = Target::parse("https://api.example.com/v1/items?page=2")?.allow(granted.clone())?;
//! let request = Request::get("notes", target);
//!
//! let refused = Target::parse("https://example.org/")?.allow(granted);
//! assert!(matches!(refused, Err(EgressError::NotCovered { .. })));
//!
//! async fn status(egress: &Egress, request: Request) -> Result<u16, EgressError> {
//!     Ok(egress.send(request).await?.status)
//! }
//! let egress = Egress::new(EgressLimits::default());
//! let sending = status(&egress, request);
//! # drop(sending);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod answer;
mod credentials;
mod egress;
mod error;
mod exchange;
mod headers;
mod key_command;
mod limits;
mod permits;
mod pools;
mod program;
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
mod variables;

pub use address::AddressScope;
pub use answer::{Answer, Response};
pub use credentials::{Credential, CredentialConfig, CredentialError, Credentials, PlacementError};
pub use egress::Egress;
pub use error::EgressError;
pub use headers::is_reserved_header;
pub use key_command::{CommandLine, KEY_COMMAND_MS, KeyCommand};
pub use limits::{EgressLimits, LimitKey};
pub use program::{ProcessGroup, find_program, is_executable, kill_process_groups};
pub use request::{Request, RequestError};
pub use resolve::{Resolver, Resolving, SystemResolver};
pub use scrub::{Scrub, Scrubber};
pub use secret::{Placed, Placement, Secret, SecretError};
pub use secrets::{
    Binding, KeyCommandError, KeyCommandFailure, Loader, Malformed, SecretLookup, SecretRef, SecretSource, Secrets,
};
pub use target::{CheckedTarget, Origin, Target, UrlError};
pub use tls::{check_certificates, https_config};
pub use variables::{Variables, is_variable};
