//! The seam between tools and the host's services. A test answers host calls from recordings here, and a recorder stores them; the
//! call itself runs like any other.

use std::sync::Arc;

use patchbay_core::{CallId, Digest, SessionId};
use patchbay_policy::Permits;
use patchbay_sandbox::{Budget, Content, Finished, Limits, Services};

use crate::{CallTape, ToolError};

/// A call of a skill's tool that is about to run.
pub struct BegunCall<'a> {
    /// The id that identifies the call.
    pub id: CallId,
    /// The session that it belongs to.
    pub session: SessionId,
    /// The name of the skill that has the tool.
    pub skill: &'a str,
    /// The tool's name without its skill.
    pub tool: &'a str,
    /// The digest of the skill's component.
    pub component: Digest,
    /// The input of the call, as JSON.
    pub input: &'a str,
    /// Media type and bytes of each attachment.
    pub attachments: &'a [(String, Vec<u8>)],
    /// The capabilities that the call may use.
    pub permits: &'a Arc<Permits>,
    /// The limits that apply to any call.
    pub limits: &'a Limits,
    /// The rest of the calling tool's budget; `None` for an outermost call.
    pub budget: Option<&'a Budget>,
    /// When it begins, in milliseconds since 1970.
    pub unix_ms: i64,
}

/// Stands between the tools of skills and the services of the host.
pub trait Interposer: Send + Sync {
    /// Returns the services for a call that begins, and its tape if it has one. `own` are the host's services, used
    /// wherever they are not replaced.
    fn services(&self, call: &BegunCall<'_>, own: Services) -> (Services, Option<Arc<dyn CallTape>>);

    /// Receives the result and the usage of a call, before its caller does.
    fn finished(&self, finished: &Finished<Vec<Content>, ToolError>) {
        let _ = finished;
    }
}
