//! Tracks whether a server is available, and words the notices about it.

use std::time::Duration;

use patchbay_policy::quoted_folder;

/// How long the start of a turn waits for servers that are starting. The tools of slower servers are available in a
/// later turn.
const TURN_WAIT: Duration = Duration::from_secs(20);
/// How long the start of a turn waits for a server that a notice has already reported as missing.
const REPORTED_WAIT: Duration = Duration::from_secs(1);

/// A server's availability, from best to worst. A notice reports each worse state once, until the server is ready again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Presence {
    #[default]
    Ready,
    Starting,
    Unavailable,
    /// No further start is attempted.
    GivenUp,
    /// The operator must allow it first: the workspace is not trusted, or the allowance was revoked.
    Untrusted,
}

impl Presence {
    /// Returns how long the start of a turn waits for a server whose last reported state is this one.
    pub(super) fn turn_wait(self) -> Duration {
        // An untrusted server is not waited for. Once it is trusted, it needs as long as any server that starts.
        if matches!(self, Self::Ready | Self::Untrusted) { TURN_WAIT } else { REPORTED_WAIT }
    }

    /// Records the state `now`, and returns whether a notice should report it. This compares states, not messages, because the
    /// message about a missing server can differ each time.
    pub(super) fn reports(&mut self, now: Self) -> bool {
        // Once the workspace is trusted, the server starts for the first time.
        if *self == Self::Untrusted && now != Self::Untrusted {
            *self = Self::Ready;
        }
        let is_new = now > *self;
        *self = if now == Self::Ready { now } else { now.max(*self) };
        is_new
    }
}

/// Appends a full stop to a server's problem, unless the problem ends in a command: users would copy the full stop with it.
pub(super) fn as_sentence(state: Presence, problem: String) -> String {
    if state == Presence::Untrusted { problem } else { format!("{problem}.") }
}

/// Returns why the server `name` does not run in the folder `workspace`, which is not trusted.
pub(super) fn untrusted(name: &str, workspace: &str) -> String {
    format!(
        "the MCP server '{name}' was not started: it runs in the workspace (in_workspace), where it may load code, and this \
         workspace is not trusted. To trust it: patchbay trust add {}",
        quoted_folder(workspace)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_of_a_server_is_reported_once() {
        use Presence::{GivenUp, Ready, Starting, Unavailable, Untrusted};
        let mut reported = Presence::default();
        let states = [Ready, Starting, Starting, Unavailable, Starting, Unavailable, Unavailable, GivenUp, GivenUp];
        assert_eq!(
            states.map(|state| reported.reports(state)),
            [false, true, false, true, false, false, false, true, false]
        );
        assert_eq!([Ready, Unavailable, Starting].map(|state| reported.reports(state)), [false, true, false]);
        let states = [Untrusted, Untrusted, Starting, Unavailable, Untrusted, Ready];
        assert_eq!(states.map(|state| reported.reports(state)), [true, false, true, true, true, false]);
    }

    #[test]
    fn turn_waits_for_a_missing_server_only_until_it_is_reported() {
        let mut reported = Presence::default();
        assert_eq!(reported.turn_wait(), TURN_WAIT);
        reported.reports(Presence::Starting);
        assert_eq!(reported.turn_wait(), REPORTED_WAIT);
        reported.reports(Presence::Ready);
        assert_eq!(reported.turn_wait(), TURN_WAIT);
        reported.reports(Presence::Untrusted);
        assert_eq!(reported.turn_wait(), TURN_WAIT);
    }

    #[test]
    fn command_that_trusts_the_workspace_is_quoted() {
        let problem = untrusted("helper", "/home/ada/it's mine");
        assert!(problem.ends_with(r#"To trust it: patchbay trust add "/home/ada/it's mine""#), "{problem}");
    }
}
