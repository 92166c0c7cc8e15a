//! The host functions that a guest can call. Each capability has a module with the trait that the host implements (if
//! any) and the functions of the WIT interface over [`GuestState`], which tests can call without a component.
//!
//! Every function first counts itself against the call's budget, then checks its permit, which can ask the user.

/// Unwraps a result of the host, or returns its error to the guest: `?` stops the guest. With wasmtime's `trappable_error_type`, `?`
/// could do both, but the error type and its conversions take some 24 lines, and each test of a host function would convert back.
macro_rules! or_return {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(refusal) => return Ok(Err(refusal)),
        }
    };
}

pub(crate) mod call;
pub(crate) mod http;
pub(crate) mod inference;
pub(crate) mod kv;
pub(crate) mod log;
pub(crate) mod progress;
pub(crate) mod skill_files;
#[cfg(test)]
mod tests;
mod tool_calls;
pub(crate) mod tool_index;
pub(crate) mod tools;
mod workspace;
mod workspace_changes;
mod workspace_search;

pub(crate) use tool_calls::NestedCalls;

use patchbay_policy::Denial;
use wasmtime::component::{HasSelf, Linker};

use crate::{
    bindings::{
        patchbay::{
            host::{self, types::Error as WitError},
            skill,
        },
        unlisted,
    },
    state::{CallAccess, GuestState},
};

/// The outer error stops the guest; the inner one is returned to it.
type HostResult<T> = wasmtime::Result<Result<T, WitError>>;

/// Why a host function failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The call lacks the permit for it.
    #[error("{0}")]
    Denied(#[from] Denial),
    /// The operation was allowed, but failed.
    #[error("{message}")]
    Failed {
        /// The stable kind of the error, one of those in `wit/host/host.wit`.
        kind: String,
        /// A message for the user, without secrets.
        message: String,
    },
}

impl CallAccess {
    /// Converts a fault for the guest. A denial is recorded.
    pub(crate) fn guest_error(&self, fault: Fault) -> WitError {
        match fault {
            Fault::Denied(denial) => self.deny(denial),
            Fault::Failed { kind, message } => WitError { kind, message },
        }
    }
}

// These interfaces contain only types.
impl host::types::Host for GuestState {}
impl skill::types::Host for GuestState {}

/// Links every interface of `patchbay:host`.
pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    fn own(state: &mut GuestState) -> &mut GuestState {
        state
    }
    host::types::add_to_linker::<_, HasSelf<_>>(linker, own)?;
    skill::types::add_to_linker::<_, HasSelf<_>>(linker, own)?;
    host::log::add_to_linker::<_, HasSelf<_>>(linker, own)?;
    host::progress::add_to_linker::<_, HasSelf<_>>(linker, own)?;
    host::kv::add_to_linker::<_, HasSelf<_>>(linker, own)?;
    host::http::add_to_linker::<_, HasSelf<_>>(linker, own)?;
    host::workspace_read::add_to_linker::<_, HasSelf<_>>(linker, own)?;
    host::workspace_write::add_to_linker::<_, HasSelf<_>>(linker, own)?;
    host::inference::add_to_linker::<_, HasSelf<_>>(linker, own)?;
    unlisted::patchbay::host::call::add_to_linker::<_, HasSelf<_>>(linker, own)?;
    unlisted::patchbay::host::skill_files::add_to_linker::<_, HasSelf<_>>(linker, own)?;
    unlisted::patchbay::host::workspace_changes::add_to_linker::<_, HasSelf<_>>(linker, own)?;
    unlisted::patchbay::host::workspace_search::add_to_linker::<_, HasSelf<_>>(linker, own)?;
    tools::add_to_linker(linker)?;
    tool_calls::add_to_linker(linker)?;
    tool_index::add_to_linker(linker)
}
