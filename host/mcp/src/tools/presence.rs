//! Tracks whether a server is available, and words the notices about it.

use std::time::Duration;

use patchbay_policy::quoted_folder;

/// How long the begin of a turn waits for servers that start. The tools of slower ones join a later turn.
const TURN_WAIT: Duration = Duration::from_secs(20);
/// Time that the start of a turn waits for a server that a notice has already reported as missing.
const REPORTED_WAIT: Duration = Duration::from_secs(1);

/// Whether a server is there, from good to bad. A notice reports each worse state once, until the server is ready again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Presence {
    #[default]
    Ready,
    Starting,
    Unavailable,
    /// No further start is attempted.
    GivenUp,
    /// The operator's decision is missing: it is not started in a workspace that is not trusted, or its allowance was taken back.
    Untrusted,
}

impl Presence {
    /// Returns how long the begin of a turn waits for a server whose last reported state is this one.
    pub(super) fn turn_wait(self) -> Duration {
        // An untrusted server costs no time. Once its workspace is trusted, it needs the time of any first start.
        if matches!(self, Self::Ready | Self::Untrusted) { TURN_WAIT } else { REPORTED_WAIT }
    }

    /// Notes the state `now`. Returns whether a notice is to report it. The words about a server that is not there can differ each
    /// time: they are reported once for each state.
    pub(super) fn reports(&mut self, now: Self) -> bool {
        // When the workspace is trusted, the server starts for the first time.
        if *self == Self::Untrusted && now != Self::Untrusted {
            *self = Self::Ready;
        }
        let is_new = now > *self;
        *self = if now == Self::Ready { now } else { now.max(*self) };
        is_new
    }
}

/// Ends the problem of a server in this state with a full stop, unless it ends in a command: a pasted full stop would be part of it.
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
