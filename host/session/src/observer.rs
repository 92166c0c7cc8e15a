//! Progress of the compilation of components, for fronts.

use patchbay_core::SessionId;

/// Observes the compilation of components while a snapshot is built, which lets a front show progress. The methods are
/// called from worker threads and must not block.
pub trait Observer: Send + Sync {
    /// Reports that `done` of the `total` components that are new to this home are compiled and described, for `session`. Called
    /// first with 0, then after each component; not called if there are none.
    fn compiling(&self, session: SessionId, done: usize, total: usize);

    /// The compilation for `session` has ended, successfully or not. Called only after [`Observer::compiling`].
    fn compiled(&self, session: SessionId);
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn compiling(&self, _: SessionId, _: usize, _: usize) {}
    fn compiled(&self, _: SessionId) {}
}
