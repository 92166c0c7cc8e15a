//! Predicts the effects of a call from its input alone, before it runs: `session` explains decisions with it.

use patchbay_egress::Target;
use patchbay_policy::{Capability, HostPattern, Permits};
use patchbay_sandbox::GuestEffect;
use patchbay_workspace::Workspace;

use crate::{Mode, Tools};

/// Returns the capability limited to the host that a request to `url` goes to, or `None`
/// if `url` is not a valid address.
pub fn http_capability(url: &str) -> Option<Capability> {
    let target = Target::parse(url).ok()?;
    let origin = target.origin();
    let port = (!origin.is_default_port()).then(|| origin.port());
    HostPattern::exactly(origin.host(), port).map(Capability::Http)
}

impl Mode {
    /// Returns whether this mode lets a skill write `contents` to `path` without a question.
    pub fn writes_alone(self, path: &str, contents: &str) -> bool {
        self.allows(GuestEffect::Write { path, contents: contents.as_bytes() })
    }
}

impl Tools {
    /// Returns why a call with `permits` could not change the file at `path` in `workspace`, regardless of grants: it is protected,
    /// or the path is not valid. Reads the file and changes nothing.
    pub async fn refusal_of_change(&self, workspace: &str, path: &str, permits: &Permits) -> Option<String> {
        let access = self.workspaces.access(workspace, permits.may_write_instructions());
        let path = path.to_owned();
        let checked = tokio::task::spawn_blocking(move || {
            let workspace = Workspace::open_for_plugins(&access).map_err(|error| error.to_string())?;
            workspace.before_change(&path).map(|_| ()).map_err(|error| error.to_string())
        });
        checked.await.unwrap_or_else(|error| Err(error.to_string())).err()
    }
}
