//! The bundled skill `code`: programs that call tools.

use patchbay_tests::{
    acp::{Peer, prompt, said},
    binary::Patchbay,
    calls::relaying,
    guest::{self, Guest},
};
use serde_json::{Value, json};

use crate::journal::journal_rows;

#[test]
fn a_person_runs_a_program() {
    let answers = Patchbay::quick().answers(&[
        "/code 6 * 7",
        "/code `${'calc' in tools} ${Object.keys(tools.calc)}`",
        "/code console.log('a', [1]); typeof input",
        "/code console.log('a'); output",
        r#"/code {"code": "input.n * 2", "input": {"n": 4}}"#,
        "/code await nothing",
    ]);
    let failed = "Error: ReferenceError: output is not defined\n    at code.js:1:19\nLogged before:\na";
    let expected = ["42", "true eval", "a [1]\nundefined", failed, "8"];
    assert_eq!(answers[..5].iter().map(|answer| answer.message()).collect::<Vec<_>>(), expected);
    assert_eq!(answers[5].data()["kind"], "exception");
}

#[test]
fn a_program_calls_tools_under_one_parent() {
    // The journal of this home is empty.
    let patchbay = Patchbay::new();
    let program =
        "(await Promise.all(['1+1', '2+2', '3+3'].map((expression) => tools.calc.eval({expression})))).join()";
    assert_eq!(patchbay.line(&format!("/code {program}")), "2,4,6");
    let rows = journal_rows(&patchbay, &[]);
    assert_eq!(rows.len(), 4);
    let (nested, own): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(|row| row["parent"].is_string());
    assert_eq!((own.len(), &own[0]["asker"], &own[0]["grants"]), (1, &json!("person"), &json!(["tools"])));
    for row in nested {
        assert_eq!((&row["parent"], &row["asker"]), (&own[0]["call"], &json!("tool:code__run")));
        assert!(own[0]["fuel"].as_u64() > row["fuel"].as_u64());
    }
}

#[test]
fn a_model_runs_a_program() {
    let patchbay = Patchbay::quick();
    let line = r#"call code__run {"code": "await tools.calc.eval({expression: input})", "input": "6 * 7"}"#;
    let answer = &patchbay.answers(&[line])[0];
    assert!(
        answer.message().contains(r#"code__run said: {"tool_success":true,"result":"42"}"#),
        "{}",
        answer.message()
    );
}

#[test]
fn calls_with_effects_run_side_by_side() {
    // The journal of this home is empty.
    let patchbay = Patchbay::new();
    let program = "await Promise.all(Array.from({length: 20}, (_, n) => tools.notes.add({text: `note ${n}`}))); \
                   (await tools.notes.list()).match(/note \\d+/g).length";
    assert_eq!(patchbay.line(&format!("/code {program}")), "20");
    let rows = journal_rows(&patchbay, &[]);
    assert_eq!((rows.len(), rows.iter().filter(|row| row["outcome"] == "ok").count()), (22, 22));
}

#[test]
fn edits_of_one_file_at_once_are_all_kept() {
    let patchbay = Patchbay::quick();
    assert_eq!(patchbay.run(&["grant", "add", "--root", "bundled", "files", "workspace-write"]).code, Some(0));
    let lines: String = (0..20).map(|n| format!("line {n}\n")).collect();
    patchbay.write("workspace/a.txt", &lines);
    let program = "await Promise.all(Array.from({length: 20}, (_, n) => \
                   tools.files.edit({path: 'a.txt', old: `line ${n}\\n`, new: `LINE ${n}\\n`}))); 'done'";
    assert_eq!(patchbay.line(&format!("/code {program}")), "done");
    assert_eq!(std::fs::read_to_string(patchbay.workspace().join("a.txt")).unwrap(), lines.to_uppercase());
}

/// Each call has its own queue: a tool that calls tools does not wait for its siblings.
#[test]
fn nested_callers_side_by_side_end() {
    let patchbay = Patchbay::quick();
    patchbay.add_relay("first", "notes__add", r#"{"text": "by-first"}"#);
    patchbay.add_relay("second", "first__run", "{}");
    let program = "await Promise.all([tools.second.run({}), tools.notes.add({text: 'by-code'}), tools.first.run({}), \
                   tools.calc.eval({expression: '1'})]); (await tools.notes.list()).match(/by-[a-z]+/g).sort().join()";
    assert_eq!(patchbay.line(&format!("/code {program}")), "by-code,by-first,by-first");
}

#[test]
fn failed_call_does_not_stop_the_others() {
    let patchbay = Patchbay::quick();
    let program = "await Promise.all([tools.files.read({path: 'missing'}), ...Array.from({length: 7}, (_, n) => \
                   tools.notes.add({text: `note ${n}`}))])";
    // Some of the other calls may have ended before it failed.
    assert!(patchbay.line(&format!("/code {program}")).contains("'missing' not found in the workspace"));
    assert_eq!(patchbay.line("/code (await tools.notes.list()).match(/note /g).length"), "7");
    assert!(journal_rows(&patchbay, &[]).iter().all(|row| row["tool"] != "add" || row["outcome"] == "ok"));
}

#[test]
fn eight_calls_that_ask_are_all_answered() {
    let patchbay = Patchbay::quick();
    for number in 0..8 {
        patchbay.add_command(&format!("keeper{number}"), &crate::asking::keeper(), "capabilities: [kv]\n");
    }
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    let program = "/code (await Promise.all(Array.from({length: 8}, (_, n) => tools[`keeper${n}`].run({})))).join()";
    peer.request(2, "session/prompt", prompt(&session, program));
    for _ in 0..8 {
        let question = peer.asked("session/request_permission");
        peer.respond(&question, json!({"outcome": {"outcome": "selected", "optionId": "once"}}));
    }
    assert_eq!(peer.answer()["result"]["stopReason"], "end_turn");
    assert!(said(&peer.take()).contains(&["stored"; 8].join(",")));
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn program_reads_more_than_one_call_may_return() {
    let patchbay = Patchbay::quick();
    patchbay.write("workspace/big.txt", "0123456789abcde\n".repeat(4_000));
    let program = "let bytes = 0; for (let n = 0; n < 15; n++) bytes += (await Promise.all(Array.from({length: 8}, () => \
                   tools.files.read({path: 'big.txt'})))).join().length; bytes > 2 * 1024 * 1024";
    patchbay.write("home/config/config.toml", "[limits]\noutput_bytes = 1000000\n");
    assert_eq!(patchbay.line(&format!("/code {program}")), "true");
}

#[test]
fn tools_have_their_own_grants() {
    let patchbay = Patchbay::quick();
    let write = r#"tools.files.write({path: "a.txt", text: "x"})"#;
    let words = "skill 'files' may not use 'workspace-write': it is not granted. To grant it: patchbay grant add --root bundled \
                 files workspace-write";
    let answers = patchbay.answers(&[
        &format!("/code await {write}"),
        &format!("/code try {{ await {write} }} catch (error) {{ [error.kind, error.message] }}"),
    ]);
    assert_eq!(answers[0].data()["kind"], "denied");
    assert_eq!(answers[0].message(), format!("Error: ToolError: {words}\n    at code.js:1:18"));
    assert_eq!(answers[1].data()["content"][0]["json"], json!(["denied", words]));
    assert!(!patchbay.workspace().join("a.txt").exists());
    assert_eq!(patchbay.run(&["grant", "add", "--root", "bundled", "files", "workspace-write"]).code, Some(0));
    assert_eq!(patchbay.line(&format!("/code (await {write}).slice(0, 15)")), "Created 'a.txt'");
}

#[test]
fn declarations_are_found_inside() {
    let answers = Patchbay::quick().answers(&[
        "/code await tools.find('calculate a unit of an expression')",
        "/code await tools.find()",
        "/code await tools.calc.eval({})",
        "/code await tools.calc.evaluate({})",
    ]);
    for (answer, words) in answers.iter().zip([
        ["declare const tools: {\n", "  calc: {\n", "expression: string;"],
        ["tools.files: delete, edit, find, list, ", "", ""],
        ["is invalid: \"expression\" is a required property", "eval(input: {", ""],
        ["'calc__evaluate' not found", "calc__eval", ""],
    ]) {
        assert!(words.iter().all(|words| answer.message().contains(words)), "{}", answer.message());
    }
    assert!(answers[0].message().starts_with("declare const tools: {\n"), "{}", answers[0].message());
}

#[test]
fn programs_are_deterministic() {
    let patchbay = Patchbay::quick();
    let program =
        "/code [Date.now(), new Date().toString(), Math.random(), typeof performance, Object.keys(globalThis)]";
    let first = patchbay.line(program);
    assert!(first.starts_with("[0,") || first.contains("\n  0,"), "{first}");
    assert_eq!(patchbay.line(program), first);
}

#[test]
fn hostile_programs_end_in_typed_errors() {
    let patchbay = Patchbay::quick();
    patchbay.add_command("spin", &Guest::spinning(), "");
    let table = [
        ("for (;;);", "limit_fuel", None),
        ("for (;;) await 1", "limit_fuel", None),
        ("/^(a+)+$/.test('a'.repeat(40) + 'b')", "limit_fuel", None),
        ("const a = []; for (;;) a.push(new Uint8Array(1000000))", "tool_failed", Some("exception")),
        ("await new Promise(() => {})", "tool_failed", Some("stalled")),
        ("const f = () => f() + 1; f()", "tool_failed", Some("exception")),
        ("let a = []; for (let n = 0; n < 20000; n++) a = [a]; JSON.stringify(a)", "trap", None),
        ("await tools.code.run({code: '1'})", "tool_failed", Some("denied")),
        ("await tools.code__run({code: '1'})", "tool_failed", Some("denied")),
        ("await tools.use_skill.x({})", "tool_failed", Some("not-found")),
        ("await tools.spin.run({})", "tool_failed", Some("failed")),
        ("await Promise.all(Array.from({length: 30}, () => tools.spin.run({})))", "tool_failed", Some("failed")),
    ];
    let lines: Vec<_> =
        table.iter().flat_map(|(program, ..)| [format!("/code {program}"), "/calc 1 + 1".to_owned()]).collect();
    let answers = patchbay.answers(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(answers.len(), lines.len());
    for ((program, code, kind), answers) in table.into_iter().zip(answers.chunks(2)) {
        let kind_found = answers[0].data()["kind"].as_str();
        assert_eq!((answers[0].code(), kind_found), (code, kind), "{program}: {}", answers[0].message());
        assert_eq!(answers[1].message(), "2", "{program}");
    }
}

/// A skill that calls `code`, which calls the skill again, and so on.
#[test]
fn circular_programs_end_at_the_depth_limit() {
    let patchbay = Patchbay::quick();
    patchbay.add_relay("ping", "code__run", r#"{"code": "await tools.ping.run({})"}"#);
    let answer = &patchbay.answers(&["/code await tools.ping.run({})"])[0];
    assert_eq!((answer.code(), answer.data()["kind"].as_str()), ("tool_failed", Some("too-deep")));
    assert!(answer.message().contains("tools can call tools at most 4 deep"), "{}", answer.message());
}

#[test]
fn nested_time_is_that_of_the_program() {
    let patchbay = Patchbay::quick();
    // Long enough for the programs themselves on a busy machine.
    patchbay.write("home/config/config.toml", "[limits]\nfuel = 1000000000000\ntime_ms = 5000\ncode_ms = 1000\n");
    patchbay.add_command("spin", &Guest::spinning(), "");
    let answers = patchbay.answers(&["/code await tools.spin.run({})", "/calc 1 + 1"]);
    assert_eq!(answers[0].code(), "limit_time");
    assert!(answers[0].message().contains("6000 ms (limits.time_ms with limits.code_ms)"), "{}", answers[0].message());
    assert_eq!(answers[1].message(), "2");
    let rows = journal_rows(&patchbay, &[]);
    let cancelled = rows.iter().find(|row| row["tool"] == "run" && row["skill"] == "spin");
    let cancelled = cancelled.unwrap_or_else(|| panic!("{rows:?}"));
    assert!(["cancelled", "limit_time"].contains(&cancelled["outcome"].as_str().unwrap()), "{cancelled}");
}

/// A program that has failed waits for its other calls. If one of them hangs, the error must not be lost.
#[test]
fn failed_program_whose_call_hangs_tells_the_model_why() {
    let patchbay = Patchbay::quick();
    let config = "[limits]\nfuel = 1000000000000\ntime_ms = 5000\ncode_ms = 1000\n\
                  [providers.demo]\noptions = { delay-ms = \"0\" }\n";
    patchbay.write("home/config/config.toml", config);
    patchbay.add_command("spin", &Guest::spinning(), "");
    let code =
        "const slow = tools.spin.run({}); await tools.calc.eval({expression: '1'}); throw new Error('the reason')";
    let call = format!("call code__run {}", json!({ "code": code }));
    let said = &patchbay.answers(&[&call])[0];
    let words = [
        "tool 'code__run' was stopped: call exceeded its time limit of 6000 ms",
        "Before that it reported:\\nError: the reason",
        "The program has failed and waits for 1 other call.",
    ];
    for words in words {
        assert!(said.message().contains(words), "{words}: {}", said.message());
    }
}

/// The component imports interfaces of contract 0.1.1 in its own world.
#[test]
fn a_guest_without_the_grant_cannot_start_calls() {
    let patchbay = Patchbay::new();
    let start = Guest::calling(
        "(call $start (i32.const 0) (i32.const 0) (i32.const 512))
         (i32.store8 (i32.const 0) (i32.const 1))
         (i32.store (i32.const 4) (i32.load (i32.const 516))) (i32.store (i32.const 8) (i32.load (i32.const 520)))
         (i32.store (i32.const 12) (i32.load (i32.const 524))) (i32.store (i32.const 16) (i32.load (i32.const 528)))
         (i32.const 0)",
    );
    let start =
        start.with("\n(import \"patchbay:host/tool-calls@0.1.0\" \"start\" (func $start (param i32 i32 i32)))\n");
    let skill_md =
        "---\ninvocation_mode: tool_dispatch\ncommand: calls\ncommand_tool: run\ncapabilities: [{name: tools}]\n---\n";
    patchbay.write("home/config/skills/calls.wasm", guest::package(start.importing("tool-calls"), skill_md));
    let words =
        "Error: skill 'calls' may not use 'tools': it is not granted. To grant it: patchbay grant add calls tools";
    assert_eq!(patchbay.line("/calls"), words);
    // A relay built for an older contract still works next to it.
    patchbay.add_command("old", &relaying("calc__eval", r#"{"expression":"1+1"}"#), "capabilities: [{name: tools}]\n");
    patchbay.grant("old", &["tools"]);
    assert_eq!(patchbay.line("/old"), "2");
}
