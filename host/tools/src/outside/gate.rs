//! Proves that a call to a tool outside of the sandbox passed all checks. `run` creates the proof after the last check.

/// Proof that a call has passed all checks. Its field is private, so only [`PassedGate::after_checks`] can create one.
pub(crate) struct PassedGate(());

impl PassedGate {
    /// Returns the proof. Only `run` may call this, after its last check.
    pub(super) fn after_checks() -> Self {
        Self(())
    }
}
