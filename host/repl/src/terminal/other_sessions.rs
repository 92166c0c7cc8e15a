//! `/new` and `/resume`: leave the session for another one. The binary opens the other session and runs the front again.

use std::sync::Arc;

use patchbay_session::StoredSession;

use super::Front;
use crate::{NextSession, words};

/// The last line of the list.
const HINT: &str = "/resume ID continues one of them, /new starts a new session.";

impl Front {
    /// Leaves the session for `next`. Running agents are stopped, as with `/quit`.
    pub(super) fn go_on_in(&mut self, next: NextSession) {
        let stopped = self.session.stop_all();
        if stopped > 0 {
            self.conversation.transcript.end();
            self.conversation.transcript.notice(&words::stopped(stopped));
        }
        self.next_session = Some(next);
        self.leaving = true;
    }

    /// Reads the list of the workspace's sessions.
    pub(super) fn list_sessions(&mut self) {
        let session = Arc::clone(&self.session);
        self.input.listing = Some(Box::pin(async move {
            match session.sessions_here().await {
                Ok(sessions) => rendered(&sessions),
                Err(error) => format!("Error: {error}."),
            }
        }));
    }

    pub(super) fn listed(&mut self, list: &str) {
        self.input.listing = None;
        self.window.change();
        self.conversation.transcript.print(list);
    }
}

fn rendered(sessions: &[StoredSession]) -> String {
    if sessions.is_empty() {
        return "This workspace has no other sessions yet.".to_owned();
    }
    let width = sessions.iter().map(|session| session.short_id.len()).max().unwrap_or_default();
    let each = sessions.iter().map(|StoredSession { short_id, used_at, words, is_this }| {
        let mark = if *is_this { '*' } else { ' ' };
        format!("{mark} {short_id:width$}  {used_at}  {words}")
    });
    each.chain([HINT.to_owned()]).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_marks_this_session() {
        let session = |short_id: &str, words: &str, is_this| StoredSession {
            short_id: short_id.to_owned(),
            used_at: "2026-11-21 20:04".to_owned(),
            words: words.to_owned(),
            is_this,
        };
        let list = rendered(&[session("a1b2c3d4", "Fix the tests", true), session("a1b2c3d4-e", "/calc 1", false)]);
        let expected = "* a1b2c3d4    2026-11-21 20:04  Fix the tests\n  a1b2c3d4-e  2026-11-21 20:04  /calc 1\n\
                        /resume ID continues one of them, /new starts a new session.";
        assert_eq!(list, expected);
        assert_eq!(rendered(&[]), "This workspace has no other sessions yet.");
    }
}
