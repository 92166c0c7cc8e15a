//! What a guest may call. One module a capability, each of the same shape: the trait that the host's side implements
//! (where there is one), and the functions of the WIT interface over [`State`](crate::call::State), which can be called in
//! a test with no component at all.
//!
//! Every function first counts itself against the call's budget, then checks its permit.

pub(crate) mod kv;
pub(crate) mod log;
pub(crate) mod progress;
#[cfg(test)]
mod tests;
mod unavailable;

use crate::{bindings::patchbay, call::State};

// Interfaces of types alone.
impl patchbay::host::types::Host for State {}
impl patchbay::skill::types::Host for State {}
