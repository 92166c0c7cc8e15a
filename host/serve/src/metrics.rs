//! `/metrics`: numbers of the whole server in the text format of Prometheus. No session and no name is in a label.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
};

use patchbay_session::SharedSessions;

/// What is counted since the start.
#[derive(Default)]
pub(crate) struct ServeCounters {
    pub(crate) connections: AtomicU64,
    pub(crate) refused_host: AtomicU64,
    pub(crate) refused_origin: AtomicU64,
    pub(crate) refused_token: AtomicU64,
    pub(crate) refused_draining: AtomicU64,
}

impl ServeCounters {
    /// Returns the page.
    pub(crate) fn page(&self, sessions: &SharedSessions) -> String {
        let open = sessions.all();
        let busy = open.iter().filter(|shared| !shared.session().is_idle()).count();
        let questions: usize = open.iter().map(|shared| shared.questions().borrow().len()).sum();
        let clients: usize = open.iter().map(|shared| shared.clients().len()).sum();
        let mut page = String::new();
        let gauges = [
            ("sessions", "Open sessions", open.len()),
            ("busy_sessions", "Open sessions in which something runs", busy),
            ("clients", "Clients of open sessions; one that has two sessions counts twice", clients),
            ("questions", "Questions that wait for an answer", questions),
        ];
        for (name, help, value) in gauges {
            let _ =
                writeln!(page, "# HELP patchbay_{name} {help}.\n# TYPE patchbay_{name} gauge\npatchbay_{name} {value}");
        }
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let name = "patchbay_connections_total";
        let _ = writeln!(
            page,
            "# HELP {name} WebSockets opened.\n# TYPE {name} counter\n{name} {}",
            read(&self.connections)
        );
        let name = "patchbay_refusals_total";
        let _ =
            writeln!(page, "# HELP {name} Requests refused before their path was looked at.\n# TYPE {name} counter");
        let refusals = [
            ("host", &self.refused_host),
            ("origin", &self.refused_origin),
            ("token", &self.refused_token),
            ("draining", &self.refused_draining),
        ];
        for (why, count) in refusals {
            let _ = writeln!(page, "{name}{{reason=\"{why}\"}} {}", read(count));
        }
        page
    }
}
