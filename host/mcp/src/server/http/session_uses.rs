//! The sessions of connections, ordered by their last use. A client can leave without ending its session. Such a
//! session is closed when a new client needs its slot.

use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::SessionId;

use super::client_sessions::SESSIONS;

/// The open sessions, the longest idle first.
#[derive(Default)]
pub(super) struct SessionUses(Mutex<Vec<SessionUse>>);

struct SessionUse {
    id: SessionId,
    /// Running requests, including open event streams.
    requests: usize,
}

/// A request of a session, until this is dropped.
pub(super) struct SessionRequest {
    all: Arc<SessionUses>,
    id: SessionId,
}

impl SessionUses {
    /// Adds the session `id`, and removes sessions that are no longer open. If there are too many, returns the session to close:
    /// the one that has been idle longest, or `id` itself if all others have running requests.
    pub(super) fn add(&self, id: &SessionId, is_open: impl Fn(&SessionId) -> bool) -> Option<SessionId> {
        let mut all = self.0.lock();
        all.retain(|session| is_open(&session.id));
        let closed = if all.len() < SESSIONS {
            None
        } else if let Some(longest) = all.iter().position(|session| session.requests == 0) {
            Some(all.remove(longest).id)
        } else {
            return Some(Arc::clone(id));
        };
        all.push(SessionUse { id: Arc::clone(id), requests: 0 });
        closed
    }

    /// Begins a request of the session `id`, or returns `None` if the session does not exist.
    pub(super) fn begin(self: &Arc<Self>, id: &str) -> Option<SessionRequest> {
        let mut all = self.0.lock();
        let session = all.iter_mut().find(|session| *session.id == *id)?;
        session.requests += 1;
        Some(SessionRequest { all: Arc::clone(self), id: Arc::clone(&session.id) })
    }
}

impl Drop for SessionRequest {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        let Some(at) = all.iter().position(|session| session.id == self.id) else { return };
        let mut session = all.remove(at);
        session.requests = session.requests.saturating_sub(1);
        all.push(session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> SessionId {
        number.to_string().into()
    }

    /// Returns as many sessions as may be open.
    fn full() -> Arc<SessionUses> {
        let all = Arc::<SessionUses>::default();
        for number in 0..SESSIONS {
            assert_eq!(all.add(&id(number), |_| true), None);
        }
        all
    }

    #[test]
    fn longest_idle_session_makes_room() {
        let all = full();
        let running = all.begin("0");
        drop(all.begin("1"));
        assert_eq!(all.add(&id(100), |_| true), Some(id(2)), "0 has a request, and 1 was used after 2");
        drop(running);
        for expected in (3..SESSIONS).chain([1, 100, 0]) {
            assert_eq!(all.add(&id(1_000 + expected), |_| true), Some(id(expected)));
        }
        assert!(all.begin("2").is_none(), "it is closed");
    }

    #[test]
    fn new_session_is_refused_if_all_others_are_in_use() {
        let all = full();
        let mut running: Vec<_> = (0..SESSIONS).map(|number| all.begin(&number.to_string())).collect();
        assert_eq!(all.add(&id(100), |_| true), Some(id(100)));
        assert!(all.begin("100").is_none());
        running.pop();
        assert_eq!(all.add(&id(100), |_| true), Some(id(SESSIONS - 1)));
    }

    #[test]
    fn ended_sessions_take_no_room() {
        let all = full();
        assert_eq!(all.add(&id(100), |id| &**id != "7"), None);
    }
}
