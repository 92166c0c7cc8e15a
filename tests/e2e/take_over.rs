//! A session whose lock another process took over: the first process stores nothing more, and reports it.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use patchbay_tests::binary::{Patchbay, ran};

const FENCED: &str = "Error: another process has taken this session over. Nothing of this line was kept.";

fn signal(pid: u32, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap();
    assert!(sent.success(), "{name}");
}

/// Stops a process at a moment when it holds no database lock, because others would wait for it in vain.
fn stop(patchbay: &Patchbay, pid: u32) {
    let database = patchbay.database("patchbay.db");
    database.busy_timeout(Duration::from_millis(100)).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        signal(pid, "STOP");
        sleep(Duration::from_millis(50));
        let Err(error) = database.execute_batch("BEGIN IMMEDIATE; ROLLBACK") else { return };
        assert!(Instant::now() < until, "{error}");
        signal(pid, "CONT");
        sleep(Duration::from_millis(50));
    }
}

/// Takes over the session of a stopped process by deleting its lock file, and runs a line in it.
fn take_over(patchbay: &Patchbay, session: &str, line: &str) {
    let refused = patchbay.run(&["exec", "--session", session, line]);
    assert!(refused.err.contains("is in use by process"), "{refused:?}");
    fs::remove_file(patchbay.home().join(format!("state/sessions/{session}.lock"))).unwrap();
    let taken = patchbay.run(&["exec", "--session", session, line]);
    assert_eq!((taken.code, &*taken.err), (Some(0), ""));
}

#[test]
fn process_that_lost_its_session_stores_nothing() {
    let patchbay = Patchbay::new();
    let mut lost = patchbay.live(&[]);
    let session = lost.session().to_owned();
    lost.answer("/calc 1");
    stop(&patchbay, lost.pid());
    take_over(&patchbay, &session, "/calc 2");
    signal(lost.pid(), "CONT");
    for line in ["/calc 3", "hello", "/note add lost", "/agent default", "/reload_skills"] {
        let answer = lost.answer(line);
        assert_eq!((answer.code(), answer.message()), ("session_fenced", FENCED), "{line}");
    }
    drop(lost);
    assert_eq!(patchbay.run(&["exec", "--session", &session, "/note list"]).out, "No notes.\n");
    let command = |seq, line: &str| (seq, "command".to_owned(), line.to_owned());
    assert_eq!(
        patchbay.stored_messages(&session),
        [command(1, "/calc 1"), command(2, "/calc 2"), command(3, "/note list")]
    );
}

#[test]
fn running_answer_ends_when_its_session_is_taken_over() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "[providers.demo]\noptions = { delay-ms = \"500\" }\n");
    let session = patchbay.live(&[]).session().to_owned();
    let mut command = patchbay.command(&["exec", "--keep-going", "--session", &session]);
    let mut lost = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = lost.stdin.take().unwrap();
    // Twelve seconds of words. The answer continues when the process does, and is refused when it ends.
    writeln!(input, "say {}\n/calc 3", ["word"; 24].join(" ")).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let pieces = |patchbay: &Patchbay| {
        patchbay
            .database("patchbay.db")
            .query_row("SELECT count(*) FROM partial_pieces", [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    while pieces(&patchbay) < 2 {
        assert!(Instant::now() < until, "nothing of the answer was kept");
        sleep(Duration::from_millis(20));
    }
    stop(&patchbay, lost.id());
    take_over(&patchbay, &session, "/calc 2");
    let taken = patchbay.stored_messages(&session);
    let kinds: Vec<&str> = taken.iter().map(|(_, kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["user", "assistant", "notice", "command"]);
    signal(lost.id(), "CONT");
    drop(input);
    let ended = ran(lost.wait_with_output().unwrap());
    assert!(ended.err.contains("Error: another process has taken this session over."), "{ended:?}");
    assert!(ended.err.contains(FENCED), "{ended:?}");
    assert_eq!(patchbay.stored_messages(&session), taken);
}
