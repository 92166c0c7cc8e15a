//! The seam between tools and the world outside of them. A test answers host calls from recordings here; the call itself takes the
//! same path as any other.

use patchbay_sandbox::{Content, Finished, Services};

use crate::ToolError;

/// Stands between the tools of skills and the services of the host.
pub trait Interposer: Send + Sync {
    /// Returns the services for a call that begins. `own` are the host's, for what is not replaced.
    fn services(&self, own: Services) -> Services;

    /// Receives the result and the usage of a call, before its caller does.
    fn finished(&self, finished: &Finished<Vec<Content>, ToolError>);
}
