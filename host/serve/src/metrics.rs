//! `/metrics`: numbers about the whole server, in the text format of Prometheus. Labels contain neither sessions nor names.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
};

use patchbay_session::SharedSessions;
use patchbay_store::ProcessCounts;

/// Counters since the start of the server.
#[derive(Default)]
pub(crate) struct ServeCounters {
    pub(crate) connections: AtomicU64,
    pub(crate) refused_host: AtomicU64,
    pub(crate) refused_origin: AtomicU64,
    pub(crate) refused_token: AtomicU64,
    pub(crate) refused_draining: AtomicU64,
    pub(crate) refused_busy: AtomicU64,
}

impl ServeCounters {
    /// Returns the page.
    pub(crate) fn page(&self, sessions: &SharedSessions) -> String {
        let open = sessions.all();
        let sum = |count: fn(&patchbay_session::SharedSession) -> usize| {
            open.iter().map(|shared| count(shared) as u64).sum::<u64>()
        };
        let mut page = String::new();
        for (name, help, value) in [
            ("sessions", "Open sessions", open.len() as u64),
            (
                "busy_sessions",
                "Open sessions in which something runs",
                sum(|shared| usize::from(!shared.session().is_idle())),
            ),
            ("running_turns", "Running turns", sum(|shared| shared.session().working_agents())),
            (
                "clients",
                "Clients of open sessions; one that has two sessions counts twice",
                sum(|shared| shared.clients().len()),
            ),
            ("questions", "Questions that wait for an answer", sum(|shared| shared.questions().borrow().len())),
        ] {
            metric(&mut page, name, "gauge", help, [(String::new(), value)]);
        }
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let ProcessCounts { calls, turns, tokens } = sessions.host().store().counts();
        let used = "Tokens that models have used, without those read from a cache";
        for (name, help, value) in [
            ("connections_total", "WebSockets opened", read(&self.connections)),
            ("turns_total", "Turns that have ended", turns),
            ("tokens_total", used, tokens),
        ] {
            metric(&mut page, name, "counter", help, [(String::new(), value)]);
        }
        let calls = calls.into_iter().map(|(outcome, count)| (format!("{{outcome=\"{outcome}\"}}"), count));
        metric(&mut page, "calls_total", "counter", "Tool calls that have ended, by their code in the journal", calls);
        let refused = [
            ("host", &self.refused_host),
            ("origin", &self.refused_origin),
            ("token", &self.refused_token),
            ("draining", &self.refused_draining),
            ("busy", &self.refused_busy),
        ];
        let refused = refused.map(|(why, count)| (format!("{{reason=\"{why}\"}}"), read(count)));
        metric(&mut page, "refusals_total", "counter", "Refused requests", refused);
        page
    }
}

/// Adds a metric with its values, each with its labels.
fn metric(page: &mut String, name: &str, kind: &str, help: &str, values: impl IntoIterator<Item = (String, u64)>) {
    let _ = writeln!(page, "# HELP patchbay_{name} {help}.\n# TYPE patchbay_{name} {kind}");
    for (labels, value) in values {
        let _ = writeln!(page, "patchbay_{name}{labels} {value}");
    }
}
