//! Tests of `patchbay exec`, the front for scripts: input, output, exit codes and timeouts.

use std::{
    io::{Read as _, Write as _},
    process::Stdio,
};

use patchbay_tests::{
    answers::json_lines,
    binary::{Patchbay, Ran, ran, run_out_of_time},
    guest::Guest,
    terminal::Terminal,
};
use serde_json::json;

/// Runs `exec` with `arguments`; `input` is its standard input.
fn with_input(patchbay: &Patchbay, arguments: &[&str], input: &[u8]) -> Ran {
    let mut child = patchbay.command(&[&["exec"], arguments].concat()).stdin(Stdio::piped()).spawn().unwrap();
    // Fails if the process ends before it reads everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    ran(child.wait_with_output().unwrap())
}

fn assert_ran(ran: &Ran, code: i32, out: &str, err: &str) {
    assert_eq!((ran.code, &*ran.out, ran.errors()), (Some(code), out, err));
}

#[test]
fn lines_come_from_arguments_or_standard_input() {
    let patchbay = Patchbay::new();
    assert_ran(&patchbay.run(&["exec", "/calc 1 + 1", "/calc 2 * 3"]), 0, "2\n6\n", "");
    assert_ran(&with_input(&patchbay, &[], b"/calc 1 + 1\n/calc 2 * 3"), 0, "2\n6\n", "");
    // With lines as arguments, standard input is not read.
    assert_ran(&with_input(&patchbay, &["/calc 1"], b"/calc 2\n"), 0, "1\n", "");
}

#[test]
fn blank_lines_are_skipped_and_crlf_is_accepted() {
    let patchbay = Patchbay::new();
    assert_ran(&with_input(&patchbay, &[], b"\n  \n/calc 1\r\n\t\r\n\n/calc 2\n\n"), 0, "1\n2\n", "");
    assert_ran(&patchbay.run(&["exec", "", "  ", "/calc 1"]), 0, "1\n", "");
    assert_ran(&with_input(&patchbay, &[], b""), 0, "", "");
}

#[test]
fn error_stops_exec_without_keep_going() {
    let patchbay = Patchbay::new();
    let error = "Error: unknown command '/nope'.\n";
    assert_ran(&patchbay.run(&["exec", "/calc 1", "/nope", "/calc 2"]), 1, "1\n", error);
    assert_ran(&patchbay.run(&["exec", "--keep-going", "/calc 1", "/nope", "/calc 2"]), 1, "1\n2\n", error);
    assert_ran(&with_input(&patchbay, &[], b"/calc 1\n/nope\n/calc 2\n"), 1, "1\n", error);
    assert_ran(&with_input(&patchbay, &["--keep-going"], b"/calc 1\n/nope\n/calc 2\n"), 1, "1\n2\n", error);
}

#[test]
fn quit_ignores_later_lines() {
    let patchbay = Patchbay::new();
    let quit = patchbay.run(&["exec", "/quit", "/nope"]);
    let words = format!("The session is kept. To continue: patchbay --session {}\n", &patchbay.last_session()[..8]);
    assert_ran(&quit, 0, &words, "");
    let quit = with_input(&patchbay, &["--keep-going"], b"/nope\n/quit\n/calc 1\n");
    assert_eq!((quit.code, quit.out.lines().count()), (Some(1), 1), "{quit:?}");
}

#[test]
fn usage_error_is_exit_code_2() {
    let patchbay = Patchbay::new();
    for arguments in [
        &["exec", "--nope"][..],
        &["exec", "--timeout", "0", "/skills"],
        &["exec", "--timeout", "soon", "/skills"],
        &["exec", "--session", "x", "--workspace", ".", "/skills"],
        &["exec", "--session", "x", "--continue", "/skills"],
        // Options that the terminal has and `exec` does not.
        &["--workspace", ".", "exec", "/skills"],
        &["--session", "x", "exec", "/skills"],
        &["--continue", "exec", "/skills"],
        &["sessions", "--all", "gc"],
        &["nope"],
        &["grant", "add", "Bad Name", "kv"],
        &["grant", "add", "notes", "files"],
    ] {
        let ran = patchbay.run(arguments);
        assert_eq!((ran.code, &*ran.out), (Some(2), ""), "{arguments:?}");
        assert!(ran.err.starts_with("error: "), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn line_with_leading_dash_follows_double_dash() {
    assert_ran(&Patchbay::new().run(&["exec", "--", "--not-an-option"]), 0, "You said: --not-an-option\n", "");
}

/// Creates a home in which `/spin` only ends at the timeout.
fn spinning() -> Patchbay {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "[limits]\nfuel = 1000000000000000\ntime_ms = 600000\n");
    let skill_md = "---\ninvocation_mode: tool_dispatch\ncommand: spin\ncommand_tool: run\n---\n";
    let guest = Guest::spinning();
    patchbay.write("home/config/skills/spin.wasm", guest.packaged(skill_md));
    patchbay
}

fn not_done(seconds: u32) -> String {
    format!("Error: timed out after {seconds} s (--timeout). [timeout]\n")
}

#[test]
fn timeout_is_exit_code_3() {
    let home = || {
        let patchbay = spinning();
        // Compiles the component in advance.
        assert_eq!(patchbay.line("/calc 1"), "1");
        patchbay
    };
    let arguments = ["--keep-going", "/calc 1", "/spin", "/calc 2"];
    let (patchbay, out_of_time, seconds) = run_out_of_time(home, &arguments, |_, ran| ran.out == "1\n");
    assert_ran(&out_of_time, 3, "1\n", &not_done(seconds));
    // The printed part is stored, and the session can be resumed.
    let session = patchbay.last_session();
    assert_ran(&patchbay.run(&["exec", "--session", &session, "/calc 2"]), 0, "2\n", "");
}

#[test]
fn timeout_applies_while_waiting_for_input() {
    let patchbay = Patchbay::new();
    let mut child = patchbay.command(&["exec", "--timeout", "1"]).stdin(Stdio::piped()).spawn().unwrap();
    // The input stays open, and nothing is written to it.
    let input = child.stdin.take();
    let mut waited = 0;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if waited == 300 => {
                child.kill().unwrap();
                panic!("it waits for a line for ever");
            }
            None => std::thread::sleep(std::time::Duration::from_millis(100)),
        }
        waited += 1;
    };
    drop(input);
    assert_eq!(status.code(), Some(3));
}

#[test]
fn json_output_has_session_events_and_line_results() {
    let patchbay = Patchbay::new();
    let ran = patchbay.run(&["exec", "--json", "--keep-going", "/calc 1 + 1", "hello", "", "/nope"]);
    assert_eq!((ran.code, &*ran.err), (Some(1), ""), "everything is on standard output");
    let mut objects = json_lines(&ran.out);
    // The digest of the answer's prefix, which differs in each session.
    let prefix = objects[7]["data"].as_object_mut().unwrap().remove("prefix").unwrap();
    assert!(prefix.as_str().unwrap().starts_with("sha256:"), "{prefix}");
    let agent = objects[1]["agent"].clone();
    assert_eq!(agent.as_str().map(str::len), Some(36));
    let sum = json!({"content": [{"type": "text", "text": "2"}], "tool": "calc__eval"});
    let row = |seq: u64, kind: &str, content: &str| json!({"agent": agent, "seq": seq, "event": "message", "kind": kind, "content": content});
    let with_data = |mut row: serde_json::Value, data: serde_json::Value| {
        row["data"] = data;
        row
    };
    let delta = |text: &str| json!({"agent": agent, "seq": 2, "event": "delta", "block": "text", "text": text});
    let nope = "Error: unknown command '/nope'.";
    assert_eq!(
        objects,
        [
            json!({"session": patchbay.last_session()}),
            with_data(
                row(1, "command", "/calc 1 + 1"),
                json!({"status": "ok", "code": "tool_result", "message": "2", "data": sum})
            ),
            json!({"line": "/calc 1 + 1", "status": "ok", "code": "tool_result", "message": "2", "data": sum}),
            row(2, "user", "hello"),
            delta("You"),
            delta(" said:"),
            delta(" hello"),
            with_data(
                row(3, "assistant", "You said: hello"),
                json!({
                    "provider": "demo",
                    "adapter": "demo:demo",
                    "model": "demo-1",
                    "effective_model": "demo-1",
                    "usage": objects[7]["data"]["usage"],
                    "stop": "end-turn",
                    "raw": "end-turn",
                    "parts": [{"type": "text", "text": "You said: hello"}],
                })
            ),
            json!({
                "event": "turn", "agent": agent, "turn": 2, "cause": "person", "state": "done", "code": "answered",
            }),
            json!({
                "line": "hello",
                "status": "ok",
                "code": "answered",
                "message": "You said: hello",
                "data": {"provider": "demo", "model": "demo-1", "stop": "end-turn"},
            }),
            with_data(
                row(4, "command", "/nope"),
                json!({"status": "error", "code": "unknown_command", "message": nope})
            ),
            json!({"line": "/nope", "status": "error", "code": "unknown_command", "message": nope}),
            json!({"event": "idle"}),
        ]
    );
}

#[test]
fn event_numbers_continue_across_processes() {
    let patchbay = Patchbay::quick();
    let mut seqs = Vec::new();
    let mut session = String::new();
    for _ in 0..3 {
        let options: &[&str] = if session.is_empty() { &[] } else { &["--session", &session] };
        for answer in patchbay.answers_in(options, &["/calc 1", "hello", "/plan tea"]) {
            let rows = answer.events.iter().filter(|event| event["event"] == "message");
            seqs.extend(rows.map(|event| event["seq"].as_u64().unwrap()));
        }
        session = patchbay.last_session();
    }
    assert_eq!(seqs, (1..=18).collect::<Vec<_>>());
}

#[test]
fn invalid_utf_8_is_not_run() {
    let words = "Error: a line of standard input is not UTF-8; neither it nor any later line was run. [parse_error]\n";
    assert_ran(&with_input(&Patchbay::new(), &["--keep-going"], b"/calc 1\n/calc \xff\n/calc 3\n"), 1, "1\n", words);
}

#[test]
fn line_over_the_limit_is_rejected_and_next_line_runs() {
    let mut input = vec![b'x'; (1 << 20) + 1];
    input.extend(b"\n/calc 1\n");
    let words = "Error: a line of 1048577 bytes exceeds the limit of 1048576; it was discarded.\n";
    assert_ran(&with_input(&Patchbay::new(), &["--keep-going"], &input), 1, "1\n", words);
}

#[test]
fn invalid_workspace_is_named() {
    let ran = Patchbay::new().run(&["exec", "--workspace", "nowhere", "/skills"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    assert!(ran.err.starts_with("Error: cannot use the workspace 'nowhere': "), "{}", ran.err);
    assert!(ran.err.ends_with(". [folder_unusable]\n"), "{}", ran.err);
}

#[test]
fn configuration_error_names_its_position() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "[limits]\nfule = 1\n");
    let ran = patchbay.run(&["exec", "/skills"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    assert!(ran.err.contains("config.toml: ") && ran.err.contains("line 2") && ran.err.contains("fule"), "{}", ran.err);
    assert!(ran.err.ends_with(" [config_invalid]\n"), "{}", ran.err);
}

/// The text of the last answer of a session.
fn last_answer(patchbay: &Patchbay) -> String {
    let database = patchbay.database("patchbay.db");
    let query = "SELECT content FROM messages WHERE kind = 'assistant' ORDER BY seq DESC LIMIT 1";
    database.query_row(query, [], |row| row.get(0)).unwrap()
}

#[test]
fn terminal_shows_an_answer_while_it_streams() {
    let patchbay = Patchbay::new();
    // One word in 20 ms: ten seconds in total.
    let mut terminal = Terminal::open(&patchbay, &["exec", "repeat 500 word"]);
    terminal.wait_for_prefix("word word");
    let stored: i64 = patchbay.query_one("SELECT count(*) FROM messages WHERE kind = 'assistant'", []);
    assert_eq!(stored, 0, "the first words came with the last ones");
    assert_eq!(terminal.wait_for_end(), 0);
    let written = terminal.written();
    assert!(written.contains(&format!("{}word\r\n", "word ".repeat(499))), "{written}");
}

/// Until its row is stored, a broken answer can be requested again.
#[test]
fn pipe_receives_an_answer_when_it_is_whole() {
    let patchbay = Patchbay::new();
    // One word in 20 ms: two seconds in total.
    let mut child = patchbay.command(&["exec", "repeat 100 word"]).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut first = [0];
    output.read_exact(&mut first).unwrap();
    let whole = format!("{}word", "word ".repeat(99));
    assert_eq!(last_answer(&patchbay), whole);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(format!("{}{rest}", char::from(first[0])), format!("{whole}\n"));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn long_answer_is_printed_completely_and_once() {
    let patchbay = Patchbay::quick();
    let ran = patchbay.run(&["exec", "repeat 30000 word"]);
    assert_eq!((ran.code, ran.errors()), (Some(0), ""));
    assert!(ran.out == format!("{}word\n", "word ".repeat(29_999)), "{} bytes", ran.out.len());
}

#[test]
fn all_texts_of_a_turn_are_printed() {
    let patchbay = Patchbay::quick();
    let turn = "say I look.\ncall calc__eval {\"expression\": \"6 * 7\"}\nthen say It is 42.";
    assert_ran(&patchbay.run(&["exec", turn]), 0, "I look.\nIt is 42.\n", "");
}

#[test]
fn partial_text_of_a_failed_answer_is_printed() {
    let patchbay = Patchbay::quick();
    let ran = patchbay.run(&["exec", "--keep-going", "say one two three\nfail server never after 2", "say next"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), "one two\nnext\n"));
    assert!(ran.err.starts_with("Error: demo: demo fails as requested: server"), "{}", ran.err);
    // A partial answer is an answer, so there is nothing to retry or drop.
    assert!(!ran.err.contains("/retry"), "{}", ran.err);
}

#[test]
fn partial_answer_at_timeout_is_printed_and_stored() {
    let begins = |_: &Patchbay, ran: &Ran| ran.out.starts_with("word word ");
    // All words take 100 seconds.
    let (patchbay, ran, seconds) = run_out_of_time(Patchbay::new, &["repeat 5000 word"], begins);
    assert_eq!((ran.code, ran.errors()), (Some(3), &*not_done(seconds)));
    assert!(ran.out.ends_with('\n') && ran.out.len() < 20_000, "{}", ran.out);
    assert_eq!(ran.out.trim_end_matches('\n'), last_answer(&patchbay));
}

#[test]
fn hanging_answer_ends_at_the_timeout() {
    let said = |_: &Patchbay, ran: &Ran| ran.out == "one two\n";
    let (patchbay, ran, seconds) = run_out_of_time(Patchbay::quick, &["say one two\nhang"], said);
    assert_ran(&ran, 3, "one two\n", &not_done(seconds));
    let session = patchbay.last_session();
    assert_ran(&patchbay.run(&["exec", "--session", &session, "hello"]), 0, "You said: hello\n", "");
}

#[test]
fn waits_are_reported_on_standard_error() {
    let patchbay = Patchbay::quick();
    let ran = patchbay.run(&["exec", "fail rate-limit 0"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    let first = ran.err.lines().next().unwrap();
    assert!(first.starts_with("Rate limit exceeded: demo. Retrying in 1 s (attempt 1 of "), "{}", ran.err);
    let last: Vec<_> = ran.errors().lines().rev().take(2).collect();
    assert!(
        last[1].starts_with("Error: demo: ") && last[0].contains("/retry sends it again, /drop takes it out"),
        "{}",
        ran.err
    );
}

#[test]
fn last_turn_without_a_result_fails() {
    let patchbay = Patchbay::quick();
    let ran = patchbay.run(&["exec", "say No.\nstop refusal"]);
    assert_eq!((ran.code, &*ran.out, ran.errors()), (Some(1), "No.\n", "The model refuses to answer this.\n"));
    // The beginning of a long answer is a result, and so is the text after a refusal.
    assert_eq!(patchbay.run(&["exec", "say Half\nstop max-tokens"]).code, Some(0));
    assert_eq!(patchbay.run(&["exec", "say No.\nstop refusal", "hello"]).code, Some(0));
}

#[test]
fn rejected_skills_are_reported_on_standard_error() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/skills/bad/SKILL.md", "---\nname: other\n---\n");
    assert_ran(&patchbay.run(&["exec", "/calc 1"]), 0, "1\n", "1 skill is left out or limited. To see why: /skills\n");
    // The diagnostic is printed once, because the session keeps its snapshot.
    let session = patchbay.last_session();
    assert_ran(&patchbay.run(&["exec", "--session", &session, "/calc 1"]), 0, "1\n", "");
    assert_eq!(patchbay.run(&["exec", "--json", "/calc 1"]).err, "");
}

#[test]
fn session_id_is_printed_at_the_end_of_conversations() {
    let patchbay = Patchbay::quick();
    let ran = patchbay.run(&["exec", "hello"]);
    let session = patchbay.last_session();
    assert_eq!(ran.err, format!("Session: {session}\n"));
    // A message without an answer is stored and sent with the next one.
    let ran = patchbay.run(&["exec", "fail server never"]);
    let named =
        ran.err.lines().last().and_then(|line| line.strip_prefix("Session: ")).unwrap_or_else(|| panic!("{ran:?}"));
    assert_eq!(ran.code, Some(1));
    assert!(patchbay.run(&["exec", "--session", named, "show context"]).out.contains(", text(17), "));
    // The hint is left out if `/quit` or the caller already named the session, and if there is no conversation.
    assert_eq!(patchbay.run(&["exec", "hello", "/quit"]).err, "");
    assert_eq!(patchbay.run(&["exec", "--session", &session, "hello"]).err, "");
    assert_eq!(patchbay.run(&["exec", "/calc 1"]).err, "");
    assert_eq!(patchbay.run(&["exec", "--json", "hello"]).err, "");
}

/// Like `patchbay exec … | head -c 64`.
#[test]
fn closed_output_pipe_ends_exec_quietly() {
    let patchbay = Patchbay::quick();
    // The answer is longer than the buffer of a pipe.
    let mut child = patchbay.command(&["exec", "repeat 30000 word", "/calc 1"]).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut [0; 64]).unwrap();
    drop(output);
    let ended = ran(child.wait_with_output().unwrap());
    assert_eq!((ended.code, &*ended.err), (Some(128 + 13), ""));
    assert!(last_answer(&patchbay).starts_with("word word "), "the answer is kept");
}
