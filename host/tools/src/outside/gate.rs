//! The proof that a call of a tool outside of the sandbox was let through. `run` makes it, after all checks.

/// Proof that a call has passed the gate; only the gate can create it.
pub(crate) struct PassedGate(());

impl PassedGate {
    /// Returns the proof. Called at the end of the checks, and nowhere else.
    pub(super) fn after_checks() -> Self {
        Self(())
    }
}
