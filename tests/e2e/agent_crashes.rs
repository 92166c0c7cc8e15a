//! Kills the process while several agents fork, send mail and call tools. Whenever that happens, the resumed session is consistent.
//!
//! Ten kills by default, and two hundred with `make crash`.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher as _, RandomState},
    io::{BufRead as _, BufReader, Read as _},
    process::Stdio,
    thread,
    time::Duration,
};

use patchbay_tests::{
    binary::Patchbay,
    guest::{ECHO, Guest},
    tree_check,
};
use rusqlite::Connection;
use serde_json::Value;

const ROUNDS: usize = 10;

/// Returns a random number below `end`.
fn any(end: usize) -> usize {
    usize::try_from(RandomState::new().hash_one(end) % end as u64).unwrap()
}

/// A home with the skill `keeper`, whose calls have an effect and take a few milliseconds.
fn home() -> Patchbay {
    let patchbay = Patchbay::quick();
    let put = "(call $put (i32.const 2) (i32.const 310) (i32.const 1) (i32.const 300) (i32.const 4) (i32.const 0) \
               (i64.const 0) (i32.const 512))";
    let more = "
(import \"patchbay:host/kv@0.1.0\" \"put\" (func $put (param i32 i32 i32 i32 i32 i32 i64 i32)))
(func $spin (local $n i32)
  (loop $again
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $n) (i32.const 4000000)))))
(data (i32.const 300) \"done\")
(data (i32.const 310) \"k\")
";
    let guest = Guest::calling(&format!("{put} (call $spin) {ECHO}")).with(more);
    patchbay.add_command("keeper", &guest, "capabilities: [{name: kv}]\n");
    patchbay.grant("keeper", &["kv"]);
    patchbay
}

fn json(text: &str) -> String {
    Value::from(text).to_string()
}

/// A message that makes an agent call a tool, fork, and send mail.
fn work(round: usize) -> String {
    let grandchild = "call keeper__run {}\nthen call mail_send {\"to\":\"$$parent\",\"message\":\"tool\"}";
    let child = format!(
        "call mail_send {{\"to\":\"$$parent\",\"message\":\"tool\"}}\nthen call keeper__run {{}}\n\
         then call fork {{\"prompt\":{}}}\nthen call mail_check {{}}\nthen repeat 200 word\non mail call mail_check {{}}",
        json(&grandchild.replace("$$", "$$$$"))
    );
    let fork = format!("call fork {{\"prompt\":{}}}", json(&child));
    let kill = if round % 3 == 2 { "\nthen call kill {\"uuid\":\"$child1\"}" } else { "" };
    format!(
        "{fork}\n{fork}\nthen call keeper__run {{}}{kill}\non mail call mail_check {{}}\non mail then call keeper__run {{}}"
    )
}

fn agents(database: &Connection, session: &str) -> Vec<String> {
    let sql = "SELECT uuid FROM agents WHERE session = ? AND status = 'running' ORDER BY ordinal";
    let mut query = database.prepare(sql).unwrap();
    query.query_map([session], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

/// The lines for one process.
fn lines(round: usize, living: &[String]) -> Vec<String> {
    let agent = || &living[any(living.len())];
    let mut lines = Vec::new();
    if living.len() > 16 {
        lines.extend(living[1..].iter().rev().take(10).map(|agent| format!("/kill {agent}")));
    }
    lines.push("/switch root".to_owned());
    for number in 0..3 {
        lines.push(format!("/mail-send {} \"line {round} {number}\"", agent()));
    }
    lines.push(work(round));
    lines.extend(["/fork", "/capture", "kept", "/fork", "/kill"].map(str::to_owned));
    lines.push(format!("/mail-send {} \"line {round} 3\"", agent()));
    lines.push(format!("/kill {}", agent()));
    // Keeps the process from exiting by itself.
    lines.push("hang".to_owned());
    lines
}

/// Starts a process with these lines, kills it, and returns the lines that it acknowledged.
fn killed(patchbay: &Patchbay, session: &str, lines: &[String], after: Duration) -> Vec<String> {
    let arguments = ["exec", "--json", "--keep-going", "--session", session];
    let mut arguments: Vec<&str> = arguments.to_vec();
    arguments.extend(lines.iter().map(String::as_str));
    let mut child = patchbay.command(&arguments).stderr(Stdio::null()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    output.read_line(&mut first).unwrap();
    thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    let objects = rest.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ended = objects.filter(|object| object["line"].is_string() && object["status"] == "ok");
    ended.map(|object| object["line"].as_str().unwrap().to_owned()).collect()
}

fn count(database: &Connection, sql: &str, session: &str) -> i64 {
    database.query_row(sql, [session], |row| row.get(0)).unwrap()
}

/// Each fork and each mail is stored together with the row that reports it.
fn assert_rows_tell_of_all(database: &Connection, session: &str) {
    let tools = |name: &str| {
        let sql = format!(
            "SELECT count(*) FROM messages WHERE session = ? AND kind = 'tool' AND json_extract(data, '$.name') = '{name}' \
             AND json_extract(data, '$.error') IS NULL"
        );
        count(database, &sql, session)
    };
    let commands = |code: &str| {
        let sql = format!(
            "SELECT count(*) FROM messages WHERE session = ? AND kind = 'command' AND json_extract(data, '$.code') = '{code}'"
        );
        count(database, &sql, session)
    };
    let agents = |foreground: u8| {
        let sql = "SELECT count(*) FROM agents WHERE session = ? AND parent_uuid IS NOT NULL AND foreground = ";
        count(database, &format!("{sql}{foreground}"), session)
    };
    let mails = |body: &str| {
        let sql = "SELECT count(*) FROM mail JOIN agents ON uuid = recipient WHERE session = ? AND body LIKE ";
        count(database, &format!("{sql}'{body}'"), session)
    };
    assert_eq!((agents(0), agents(1)), (tools("fork"), commands("forked")));
    assert_eq!((mails("tool"), mails("line %")), (tools("mail_send"), commands("mail_sent")));
}

#[test]
fn killed_trees_are_whole_after_each_resume() {
    let kills: usize = std::env::var("PATCHBAY_KILLS").map_or(ROUNDS, |kills| kills.parse().unwrap());
    let patchbay = home();
    let (mut session, mut acknowledged, mut turns, mut calls) = (String::new(), BTreeSet::new(), 0, 0);
    let mut round = 0;
    // On a busy machine, a process may be killed before it has begun a turn. More rounds with more time follow.
    while round < kills || turns == 0 && round < 5 * kills {
        if round % ROUNDS == 0 {
            session = patchbay.live(&[]).session().to_owned();
            acknowledged.clear();
        }
        let database = patchbay.database("patchbay.db");
        let lines = lines(round, &agents(&database, &session));
        let after = Duration::from_micros(any(900_000 * (1 + round / kills)) as u64);
        acknowledged.extend(killed(&patchbay, &session, &lines, after));
        let open = "SELECT count(*) FROM turns WHERE session = ? AND state IN ('waiting', 'running')";
        turns += count(&database, open, &session);
        calls += count(
            &database,
            "SELECT count(*) FROM calls JOIN call_sites ON call_sites.id = site \
                                   WHERE session = ? AND unsettled = 1",
            &session,
        );

        let resumed = patchbay.run(&["exec", "--session", &session, "/agents"]);
        assert_eq!(resumed.code, Some(0), "round {round}: {resumed:?}");
        tree_check::check(&database, &session);
        tree_check::check_all_calls_answered(&database, &session);
        assert_rows_tell_of_all(&database, &session);
        for line in acknowledged.iter().filter(|line| line.starts_with("/mail-send")) {
            let body = line.split('"').nth(1).unwrap();
            let found = "SELECT count(*) FROM mail WHERE body = ?";
            assert_eq!(count(&database, found, body), 1, "round {round}: {line}");
        }
        if round % ROUNDS == ROUNDS - 1 {
            // Every conversation is valid for a request.
            for agent in agents(&database, &session) {
                let switch = format!("/switch {agent}");
                // The agent may be capturing.
                let lines = [&*switch, "/cancel", "say whole"];
                let ran = patchbay.run(&[&["exec", "--keep-going", "--session", &*session], &lines[..]].concat());
                assert!(ran.out.contains("whole"), "round {round}: {ran:?}");
            }
        }
        round += 1;
    }
    eprintln!("{kills} kills: {turns} turns and {calls} calls were interrupted");
    assert!(turns > 0 || kills < ROUNDS, "no kill came during a turn");
}
