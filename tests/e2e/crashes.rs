//! Kills the process during tool calls. Whenever that happens, the resumed session reports the real outcome.
//!
//! Twenty kills by default, and two hundred with `make crash`.

use std::{
    fs,
    hash::{BuildHasher as _, RandomState},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::{
    PATIENCE,
    answers::json_lines,
    binary::{Patchbay, Ran, run_out_of_time},
    calls::SAY,
    guest::Guest,
    server::{Server, page},
};
use rusqlite::Connection;
use serde_json::Value;

/// The visible effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    None,
    /// A request with a method that may change data on the server.
    Post,
    /// An entry in the skill's store.
    Entry,
    File,
    Tokens,
}

/// A line that makes one call, and the effect of that call.
struct Kind {
    line: &'static str,
    effect: Effect,
}

const fn kind(line: &'static str, effect: Effect) -> Kind {
    Kind { line, effect }
}

const KINDS: &[Kind] = &[
    kind("call pure__run {}", Effect::None),
    kind("call poster__run {}", Effect::Post),
    kind("call getter__run {}", Effect::None),
    kind("call keeper__run {}", Effect::Entry),
    kind("call writer__run {}", Effect::File),
    kind("call asker__run {}", Effect::Tokens),
    kind("call nester__run {}", Effect::Entry),
    kind("call use_skill {\"name\":\"guide\",\"input\":\"x\"}", Effect::None),
    kind("/keeper", Effect::Entry),
];

/// How a call of a killed process ended, according to the resumed session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The session has no trace of the call, because the process was killed before the call was requested.
    Absent,
    Finished,
    NotRun,
    Unknown,
}

/// Spins for about a tenth of a second. Most kills then happen after the effect and before the end of the call.
const SPIN: &str = "
(func $spin (local $n i32)
  (loop $again
    (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $n) (i32.const 40000000)))))
(data (i32.const 300) \"done\")
(data (i32.const 310) \"k\")";

/// Installs a user's skill and command `name` that makes one host call, spins, and returns `done`.
fn skill(patchbay: &Patchbay, name: &str, call: &str, more: &str, capability: &str) {
    let body = format!("{call} (call $spin) (call $say (i32.const 300) (i32.const 4))");
    let guest = Guest::calling(&body).with(&format!("\n{more}\n")).with(SPIN).with(SAY);
    let capabilities = match capability {
        "" => String::new(),
        capability => format!("capabilities: [{{name: '{capability}'}}]\n"),
    };
    let skill_md =
        format!("---\ninvocation_mode: tool_dispatch\ncommand: {name}\ncommand_tool: run\n{capabilities}---\n");
    patchbay.write(&format!("home/config/skills/{name}.wasm"), guest.packaged(&skill_md));
    if !capability.is_empty() {
        let granted = patchbay.run(&["grant", "add", name, capability]);
        assert_eq!(granted.code, Some(0), "{granted:?}");
    }
}

/// Installs the skill `name`, which sends a request with `method` to `server`.
fn request(patchbay: &Patchbay, name: &str, method: &str, server: &Server) {
    let url = format!("http://{}/", server.host());
    let zeros = "(i32.const 0) ".repeat(9);
    let call = format!(
        "(call $send (i32.const 320) (i32.const {}) (i32.const 330) (i32.const {}) {zeros} (i32.const 512))",
        method.len(),
        url.len()
    );
    let import = "(import \"patchbay:host/http@0.1.0\" \"send\" (func $send (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))";
    let more = format!("{import}\n(data (i32.const 320) \"{method}\")\n(data (i32.const 330) \"{url}\")");
    skill(patchbay, name, &call, &more, &format!("http:{}", server.host()));
}

const PUT: &str = "(call $put (i32.const 2) (i32.const 310) (i32.const 1) (i32.const 300) (i32.const 4) (i32.const 0) (i64.const 0) (i32.const 512))";
const IMPORT_PUT: &str =
    "(import \"patchbay:host/kv@0.1.0\" \"put\" (func $put (param i32 i32 i32 i32 i32 i32 i64 i32)))";

/// Creates a home with a skill for each kind of call.
fn home(server: &Server) -> Patchbay {
    let patchbay = Patchbay::quick();
    skill(&patchbay, "pure", "", "", "");
    request(&patchbay, "poster", "POST", server);
    request(&patchbay, "getter", "GET", server);
    skill(&patchbay, "keeper", PUT, IMPORT_PUT, "kv");
    skill(
        &patchbay,
        "writer",
        "(call $write (i32.const 310) (i32.const 1) (i32.const 300) (i32.const 4) (i32.const 512))",
        "(import \"patchbay:host/workspace-write@0.1.0\" \"write\" (func $write (param i32 i32 i32 i32 i32)))",
        "workspace-write",
    );
    skill(
        &patchbay,
        "asker",
        "(call $complete (i32.const 300) (i32.const 4) (i32.const 300) (i32.const 4) (i32.const 512))",
        "(import \"patchbay:host/inference@0.1.0\" \"complete\" (func $complete (param i32 i32 i32 i32 i32)))",
        "inference",
    );
    skill(
        &patchbay,
        "nester",
        "(call $other (i32.const 320) (i32.const 11) (i32.const 340) (i32.const 2) (i32.const 512))",
        "(import \"patchbay:host/tools@0.1.0\" \"call\" (func $other (param i32 i32 i32 i32 i32)))\n\
         (data (i32.const 320) \"keeper__run\")\n(data (i32.const 340) \"{}\")",
        "tools",
    );
    patchbay.skill("guide", "summary: Guides\ninvocation_mode: llm_orchestration", "Do as you are told.");
    patchbay
}

fn count(database: &Connection, sql: &str) -> u64 {
    database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap().cast_unsigned()
}

/// Returns whether the effect has happened since [`undo`]; `None` if the effect is not visible.
fn happened(patchbay: &Patchbay, server: &Server, posts: usize, effect: Effect) -> Option<bool> {
    match effect {
        Effect::Post => Some(self::posts(server) > posts),
        Effect::Entry => Some(count(&patchbay.database("kv.db"), "SELECT count(*) FROM entries") > 0),
        Effect::File => Some(patchbay.workspace().join("k").exists()),
        Effect::None | Effect::Tokens => None,
    }
}

fn posts(server: &Server) -> usize {
    server.requests().iter().filter(|request| request.starts_with("POST")).count()
}

/// Removes the effects of the previous round.
fn undo(patchbay: &Patchbay) {
    patchbay.database("kv.db").execute_batch("DELETE FROM entries; DELETE FROM scopes").unwrap();
    let _ = fs::remove_file(patchbay.workspace().join("k"));
}

/// Returns the rows of a session: kind, text and data.
fn rows(patchbay: &Patchbay, session: &str) -> Vec<(String, String, Value)> {
    let database = patchbay.database("patchbay.db");
    let mut query =
        database.prepare("SELECT kind, content, data FROM messages WHERE session = ? ORDER BY seq").unwrap();
    let rows = query.query_map([session], |row| {
        let data: Option<String> = row.get(2)?;
        Ok((row.get(0)?, row.get(1)?, data.map_or(Value::Null, |json| serde_json::from_str(&json).unwrap())))
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

/// Returns the end of the call of `line`, according to the rows of its session.
fn end(patchbay: &Patchbay, session: &str, line: &str) -> End {
    let rows = rows(patchbay, session);
    let word = if line.starts_with('/') {
        let command = rows.iter().find(|(kind, text, _)| kind == "command" && text == line);
        match command.map(|(_, _, data)| data["code"].as_str().unwrap()) {
            None => return End::Absent,
            Some("tool_result") => None,
            Some(code) => Some(code.to_owned()),
        }
    } else {
        let calls = |data: &Value| {
            let parts = data["parts"].as_array().into_iter().flatten();
            data["interrupted"] != true && parts.clone().any(|part| part["type"] == "tool_call")
        };
        let answer = rows.iter().position(|(kind, _, data)| kind == "assistant" && calls(data));
        let Some(answer) = answer else { return End::Absent };
        let results: Vec<_> = rows[answer..].iter().filter(|(kind, ..)| kind == "tool").collect();
        let [(_, text, data)] = &results[..] else { panic!("{} results in {rows:?}", results.len()) };
        let error = data["error"].as_str().map(str::to_owned);
        let sent = data["content"][0]["text"].as_str().unwrap();
        let envelope: Value = serde_json::from_str(sent).unwrap();
        assert_eq!(envelope["error_code"].as_str(), error.as_deref(), "{text}");
        error
    };
    match word.as_deref() {
        None => End::Finished,
        Some("not_run") => End::NotRun,
        Some("outcome_unknown") => End::Unknown,
        Some(other) => panic!("{line} ended with {other}: {rows:?}"),
    }
}

/// Returns a random number below `end`.
fn any(end: u64) -> u64 {
    RandomState::new().hash_one(end) % end
}

/// Waits until the effect of a call has happened; if it is not visible, waits a random time.
fn wait_for_effect(happened: impl Fn() -> Option<bool>) {
    let end = Instant::now() + PATIENCE;
    while happened() == Some(false) {
        assert!(Instant::now() < end, "the effect does not happen");
        thread::sleep(Duration::from_millis(1));
    }
    if happened().is_none() {
        thread::sleep(Duration::from_micros(any(120_000)));
    }
}

#[test]
fn killed_calls_have_their_real_outcome() {
    let kills: usize = std::env::var("PATCHBAY_KILLS").map_or(20, |kills| kills.parse().unwrap());
    let server = Server::new(|_| page("ok"));
    let patchbay = home(&server);
    // Without a kill, each call succeeds and has its effect. This run also compiles all components.
    for Kind { line, effect } in KINDS {
        let before = posts(&server);
        let mut live = patchbay.live(&[]);
        let answer = live.answer(line);
        assert!(matches!(answer.code(), "answered" | "tool_result"), "{line}: {}", answer.outcome);
        assert_eq!(end(&patchbay, live.session(), line), End::Finished, "{line}");
        assert_ne!(happened(&patchbay, &server, before, *effect), Some(false), "{line}");
        assert_eq!(live.wait_for_exit(), Some(0));
        undo(&patchbay);
    }
    let mut ends = Vec::new();
    for round in 0..kills {
        let Kind { line, effect } = &KINDS[round % KINDS.len()];
        let before = posts(&server);
        let mut live = patchbay.live(&[]);
        let session = live.session().to_owned();
        live.start(line);
        // On a busy machine, kills at random times rarely fall between the effect and the end of the call.
        match round % 2 {
            0 => thread::sleep(Duration::from_micros(any(120_000))),
            _ => wait_for_effect(|| happened(&patchbay, &server, before, *effect)),
        }
        live.kill();

        // The resumed session reports the interrupted call and continues the conversation.
        let goes_on = &patchbay.answers_in(&["--session", &session], &["hello"])[0];
        assert_eq!(goes_on.code(), "answered", "{line}: {}", goes_on.outcome);
        let end = end(&patchbay, &session, line);
        let happened = happened(&patchbay, &server, before, *effect);
        match end {
            End::Absent | End::NotRun => assert_ne!(happened, Some(true), "round {round}, {line}: {end:?}"),
            End::Finished => assert_ne!(happened, Some(false), "round {round}, {line}"),
            End::Unknown => assert_ne!(*effect, Effect::None, "round {round}, {line}: a pure call is repeatable"),
        }
        let open = "SELECT count(*) FROM calls WHERE outcome IS NULL OR unsettled IS NOT NULL OR line IS NOT NULL";
        assert_eq!(count(&patchbay.database("patchbay.db"), open), 0, "round {round}, {line}: a call is still open");
        let journal = patchbay.run(&["journal", "--json", "--session", &session]);
        if end == End::Unknown {
            let outcomes: Vec<_> = json_lines(&journal.out).into_iter().map(|row| row["outcome"].clone()).collect();
            assert!(!outcomes.is_empty(), "round {round}, {line}: the journal does not know the call");
        }
        ends.push(end);
        undo(&patchbay);
    }
    let of = |end: End| ends.iter().filter(|found| **found == end).count();
    eprintln!(
        "{kills} kills: {} before the call, {} not run, {} unknown, {} finished",
        of(End::Absent),
        of(End::NotRun),
        of(End::Unknown),
        of(End::Finished)
    );
    assert!(of(End::Unknown) > 0 || kills < 20, "no kill came in the middle of an effect");
}

#[test]
fn stopped_call_with_an_effect_is_unknown() {
    let home = || {
        let patchbay = Patchbay::new();
        patchbay.write("home/config/config.toml", "[limits]\nfuel = 1000000000000000\ntime_ms = 600000\n");
        let hangs = format!("{PUT} (loop $for_ever (br $for_ever))");
        skill(&patchbay, "hang", &hangs, IMPORT_PUT, "kv");
        patchbay
    };
    let entries =
        |patchbay: &Patchbay, _: &Ran| count(&patchbay.database("kv.db"), "SELECT count(*) FROM entries") == 1;
    let (patchbay, stopped, _) = run_out_of_time(home, &["/hang {}"], entries);
    assert_eq!(stopped.code, Some(3), "{stopped:?}");
    let session = patchbay.last_session();
    let journal = json_lines(&patchbay.run(&["journal", "--json"]).out);
    assert_eq!(journal.iter().map(|row| row["outcome"].as_str().unwrap()).collect::<Vec<_>>(), ["outcome_unknown"]);
    // The outcome is reported once, in the session of the call.
    for _ in 0..2 {
        patchbay.answers_in(&["--session", &session], &["/skills"]);
        let rows = rows(&patchbay, &session);
        let told: Vec<_> = rows.iter().filter(|(kind, text, _)| kind == "command" && text == "/hang {}").collect();
        let [(_, _, data)] = &told[..] else { panic!("{rows:?}") };
        assert_eq!(data["code"], "outcome_unknown");
        let words = "Error: 'hang__run' was interrupted after it had begun; whether it took effect is not known. Check before you call it again.";
        assert_eq!(data["message"], words);
    }
}

/// A call that ends before an earlier call of the same answer becomes a row only after that one, but its result is stored.
#[test]
fn result_behind_a_running_call_survives_a_kill() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "[limits]\nfuel = 1000000000000000\ntime_ms = 600000\n");
    for (name, guest) in [("hang", Guest::spinning()), ("quick", Guest::answering("done"))] {
        patchbay.write(&format!("home/config/skills/{name}.wasm"), guest.packaged("---\nsummary: Reads\n---\n"));
    }
    assert_eq!(patchbay.exec(&["call quick__run {}"]).code, Some(0));
    let kept = || count(&patchbay.database("patchbay.db"), "SELECT count(*) FROM early_results");
    let mut command = patchbay.command(&["exec", "call hang__run {}\ncall quick__run {}"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + PATIENCE;
    while kept() == 0 && Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(kept(), 1);
    let session = "SELECT session FROM agents JOIN early_results ON agent = uuid";
    let session: String = patchbay.database("patchbay.db").query_row(session, [], |row| row.get(0)).unwrap();
    assert_eq!(patchbay.answers_in(&["--session", &session], &["hello"])[0].code(), "answered");
    let rows = rows(&patchbay, &session);
    let results: Vec<_> =
        rows.iter().filter(|(kind, ..)| kind == "tool").map(|(_, text, data)| (&**text, &data["error"])).collect();
    let not_run = "'hang__run' was not run: the process ended first.";
    assert_eq!(results, [(not_run, &Value::from("not_run")), ("done", &Value::Null)]);
    assert_eq!(kept(), 0);
}
