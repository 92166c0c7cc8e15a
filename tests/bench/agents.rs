//! Measures agents: forks, mail, memory, kills, and many that answer at once.

use std::{
    env, fs,
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use patchbay_core::Outcome;
use patchbay_provider::Settings;
use patchbay_session::{Host, Session, SessionLimits};
use patchbay_tests::{
    binary::{Patchbay, resident_kib},
    host::host_with,
};
use rusqlite::Connection;
use tokio::runtime::Runtime;

use crate::{
    nanoseconds,
    report::{Report, Samples, us},
    terminal::typing_while_agents_answer,
};

/// Rows of the long conversation.
const ROWS: i64 = 10_000;
const FORKS: usize = 200;
const MAILS: usize = 2_000;
const AGENTS: usize = 64;
/// Words in the answer of one of many agents. The demo provider sends 50 per second.
const WORDS: usize = 150;

pub fn measure(report: &mut Report) {
    let runtime = runtime();
    report.section(
        "Agents",
        "Sessions in the process of the benchmark, with the provider `demo`, which sends 50 words in a second. *One row* is a \
         command that commits nothing but its own row, in the same session and alternately.",
    );
    forks(report, &runtime);
    mails(report, &runtime);
    memory(report);
    kills(report, &runtime);
    streams(report, &runtime);
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

fn open(runtime: &Runtime, patchbay: &Patchbay) -> (Arc<Host>, Arc<Session>) {
    let limits = SessionLimits { agents: 1_000, concurrent_requests: 64, mails: 100_000, ..SessionLimits::default() };
    let host = host_with(patchbay, Settings::default(), limits);
    let session = runtime.block_on(host.new_session(&patchbay.workspace())).unwrap();
    (host, session)
}

async fn line(session: &Arc<Session>, line: &str) -> (u64, Outcome) {
    let start = Instant::now();
    let outcome = session.submit(line).await;
    (nanoseconds(start), outcome)
}

async fn ok(session: &Arc<Session>, text: &str) -> (u64, Outcome) {
    let (time, outcome) = line(session, text).await;
    assert!(outcome.is_ok(), "{text}: {}", outcome.message);
    (time, outcome)
}

/// Forks a child, which is then in view, and returns its UUID.
async fn fork(session: &Arc<Session>, text: &str) -> (u64, String) {
    let (time, outcome) = ok(session, text).await;
    (time, outcome.forked().unwrap().child_uuid.to_string())
}

fn forks(report: &mut Report, runtime: &Runtime) {
    let mut rows = Vec::new();
    for length in [10, ROWS] {
        let patchbay = Patchbay::new();
        let (host, session) = open(runtime, &patchbay);
        let id = session.id();
        runtime.block_on(session.close());
        drop(session);
        fill(&patchbay, &id.to_string(), length);
        let session = runtime.block_on(host.resume(id)).unwrap();
        let (mut forks, mut floor) = (Vec::new(), Vec::new());
        runtime.block_on(async {
            for _ in 0..FORKS {
                floor.push(line(&session, "/cancel").await.0);
                let (time, child) = fork(&session, "/fork").await;
                forks.push(time);
                ok(&session, &format!("/kill {child}")).await;
            }
            session.close().await;
        });
        let (forks, floor) = (Samples::new(forks), Samples::new(floor));
        rows.push(vec![
            format!("after {length} rows"),
            us(forks.percentile(50)),
            us(forks.percentile(99)),
            us(floor.percentile(50)),
        ]);
    }
    report.text_block(&format!(
        "`/fork` of a conversation, from the line to its result, {FORKS} times each. Microseconds."
    ));
    report.table(&["", "p50", "p99", "one row, p50"], &rows);
}

/// Adds `count` rows of conversation to a closed session.
fn fill(patchbay: &Patchbay, session: &str, count: i64) {
    let mut database = patchbay.database("patchbay.db");
    let transaction = database.transaction().unwrap();
    transaction
        .execute(
            "WITH RECURSIVE n(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < ?2) \
             INSERT INTO messages (session, seq, agent, kind, content, data, created_at) \
             SELECT ?1, seq, (SELECT agent FROM sessions WHERE id = ?1), 'user', 'row ' || seq, NULL, 0 FROM n",
            (session, count),
        )
        .unwrap();
    transaction.execute("UPDATE sessions SET last_seq = ?2 WHERE id = ?1", (session, count)).unwrap();
    transaction.commit().unwrap();
}

fn mails(report: &mut Report, runtime: &Runtime) {
    let patchbay = Patchbay::new();
    let (_host, session) = open(runtime, &patchbay);
    let (alone, in_turn, at_once) = runtime.block_on(async {
        let mut agents = Vec::new();
        for _ in 0..AGENTS - 1 {
            agents.push(fork(&session, "/fork").await.1);
            ok(&session, "/switch root").await;
        }
        // Agents that were stopped are not woken.
        session.stop_all();
        let mail = |number: usize| format!("/mail-send {} \"mail number {number}\"", agents[number % agents.len()]);
        let mut alone = Vec::new();
        let start = Instant::now();
        for number in 0..MAILS {
            alone.push(ok(&session, &mail(number)).await.0);
        }
        let in_turn = nanoseconds(start);
        let start = Instant::now();
        for first in (0..MAILS).step_by(AGENTS) {
            // Each line starts running as soon as it is submitted.
            let lines: Vec<_> =
                (first..(first + AGENTS).min(MAILS)).map(|number| session.submit(&mail(number))).collect();
            for line in lines {
                assert!(line.await.is_ok());
            }
        }
        let at_once = nanoseconds(start);
        session.close().await;
        (Samples::new(alone), in_turn, at_once)
    });
    let bare = bare_commits(&patchbay.folder().join("bare.db"), MAILS);
    report.text_block(&format!(
        "{MAILS} mails to {} agents by `/mail-send`, one after another and {AGENTS} at once. Each is stored before its result is \
         shown, with the row of its command. *SQLite* commits as many single rows one after another, with the same settings.",
        AGENTS - 1
    ));
    let per_second = |count: usize, time: u64| (count as u64 * 1_000_000_000 / time.max(1)).to_string();
    report.table(
        &["", "mails a second", "p50, µs", "p99, µs"],
        &[
            vec![
                "one after another".to_owned(),
                per_second(MAILS, in_turn),
                us(alone.percentile(50)),
                us(alone.percentile(99)),
            ],
            vec![format!("{AGENTS} at once"), per_second(MAILS, at_once), String::new(), String::new()],
            vec![
                "SQLite, one row each".to_owned(),
                per_second(1, bare.percentile(50)),
                us(bare.percentile(50)),
                us(bare.percentile(99)),
            ],
        ],
    );
}

fn bare_commits(path: &Path, count: usize) -> Samples {
    let database = Connection::open(path).unwrap();
    database.pragma_update(None, "journal_mode", "WAL").unwrap();
    database.pragma_update(None, "synchronous", "NORMAL").unwrap();
    database.execute("CREATE TABLE mail (number INTEGER PRIMARY KEY, body TEXT) STRICT", []).unwrap();
    let commit = |number: usize| {
        let start = Instant::now();
        database.execute("INSERT INTO mail (body) VALUES (?)", [format!("mail number {number}")]).unwrap();
        nanoseconds(start)
    };
    Samples::new((0..count).map(commit).collect())
}

/// The first argument of the separate process whose memory is measured, which identifies it.
pub const ARGUMENT: &str = "idle-agents";

fn memory(report: &mut Report) {
    let output = Command::new(env::current_exe().unwrap()).arg(ARGUMENT).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let used: u64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    report.text_block(&format!(
        "Memory of {AGENTS} idle agents: a tenth of what {} more take of a process's resident memory: {} KiB.",
        10 * AGENTS,
        used / 10
    ));
}

/// Prints how many KiB the idle agents need. This runs in a separate process, because in this one, memory that other parts freed
/// would return to the system at the same time.
pub fn process() {
    let runtime = runtime();
    let patchbay = Patchbay::new();
    let (_host, session) = open(&runtime, &patchbay);
    runtime.block_on(async {
        let fork_idle = async |count: usize| {
            for _ in 0..count {
                fork(&session, "/fork").await;
                ok(&session, "/switch root").await;
            }
        };
        ok(&session, "hello").await;
        // Fills the database caches, which would otherwise count as memory of agents.
        for _ in 0..20 * AGENTS {
            let child = fork(&session, "/fork").await.1;
            ok(&session, &format!("/kill {child}")).await;
        }
        fork_idle(AGENTS).await;
        let before = resident_kib(std::process::id());
        fork_idle(10 * AGENTS).await;
        println!("{}", resident_kib(std::process::id()).saturating_sub(before));
        session.close().await;
    });
}

fn kills(report: &mut Report, runtime: &Runtime) {
    let mut rows = Vec::new();
    for count in [1, AGENTS - 1] {
        let patchbay = Patchbay::new();
        let (_host, session) = open(runtime, &patchbay);
        let (mut times, mut ends) = (Vec::new(), Vec::new());
        runtime.block_on(async {
            for _ in 0..10 {
                let (_, top) = fork(&session, "/fork \"hang\"").await;
                for _ in 1..count {
                    ok(&session, &format!("/switch {top}")).await;
                    fork(&session, "/fork \"hang\"").await;
                }
                ok(&session, "/switch root").await;
                while session.working_agents() < count {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                let start = Instant::now();
                times.push(ok(&session, &format!("/kill {top}")).await.0);
                session.wait_idle().await;
                ends.push(nanoseconds(start));
            }
            session.close().await;
        });
        let (times, ends) = (Samples::new(times), Samples::new(ends));
        let name = if count == 1 { "1 agent".to_owned() } else { format!("a tree of {count}") };
        rows.push(vec![name, us(times.percentile(50)), us(ends.percentile(50)), us(ends.percentile(100))]);
    }
    report.text_block(
        "`/kill` of agents that hang in their adapter: until the result is shown, and until all their tasks have ended; ten \
         times each. Microseconds.",
    );
    report.table(&["", "shown, p50", "ended, p50", "ended, longest"], &rows);
}

fn streams(report: &mut Report, runtime: &Runtime) {
    let answer = format!("repeat {WORDS} word");
    let mut rows = Vec::new();
    for count in [1, AGENTS] {
        let patchbay = Patchbay::new();
        let (_host, session) = open(runtime, &patchbay);
        let (time, cpu) = runtime.block_on(async {
            let (start, cpu) = (Instant::now(), cpu_time());
            for _ in 0..count {
                fork(&session, &format!("/fork \"{answer}\"")).await;
                ok(&session, "/switch root").await;
            }
            session.wait_idle().await;
            let measured = (nanoseconds(start), cpu_time() - cpu);
            session.close().await;
            measured
        });
        let words = (count * WORDS) as u64;
        rows.push(vec![
            if count == 1 { "1 agent".to_owned() } else { format!("{count} agents") },
            (time / 1_000_000).to_string(),
            (cpu / 1_000_000).to_string(),
            us(cpu / words),
        ]);
    }
    report.text_block(&format!(
        "Agents that answer at the same time with {WORDS} words each (`concurrent_requests = 64`), from the first fork until all \
         are idle, and the CPU time of the process. Milliseconds; the last column is CPU time for each word in microseconds."
    ));
    report.table(&["", "time", "CPU time", "a word"], &rows);
    typing_while_agents_answer(report, AGENTS - 1);
}

/// Returns the CPU time of this process in nanoseconds.
fn cpu_time() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit_once(") ").unwrap().1;
    let ticks: u64 = after_name.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    ticks * 10_000_000
}
