//! Tools of MCP servers: calls by models and skills take the same path as all calls, and a misbehaving server only harms its own
//! tools.

use std::path::Path;

use patchbay_tests::{
    acp::{Peer, prompt, said},
    answers::{Answer, json_lines},
    binary::{Patchbay, Ran},
    mcp::{assert_group_ends, over_http, program},
    server::Server,
};
use serde_json::{Value, json};

use crate::hot_add::notices;

/// Returns a home whose server `test` behaves as `mode` says. `keys` are further lines of its table.
fn served(mode: &str, keys: &str) -> Patchbay {
    configured(&format!("command = [\"python3\", {:?}, \"{mode}\"]\n{keys}", program()))
}

/// Returns a home that reaches its server `test` over HTTP.
fn served_over_http(server: &Server, keys: &str) -> Patchbay {
    configured(&format!("url = \"http://{}/mcp\"\n{keys}", server.host()))
}

/// Returns a home with this table for the server `test`.
fn configured(table: &str) -> Patchbay {
    let patchbay = Patchbay::quick();
    let demo = "[providers.demo]\noptions = { delay-ms = \"0\" }";
    patchbay.write("home/config/config.toml", format!("{demo}\n[mcp.test]\n{table}\n"));
    patchbay
}

/// Runs lines and returns their messages.
fn lines(patchbay: &Patchbay, lines: &[&str]) -> Vec<String> {
    patchbay.answers(lines).iter().map(|answer| answer.message().to_owned()).collect()
}

fn check(patchbay: &Patchbay, arguments: &[&str]) -> Ran {
    patchbay.run(&[&["mcp", "check"], arguments].concat())
}

const ECHO: &str = r#"call mcp__test__echo {"text": "hi"}"#;
const BREAK: &str = "call mcp__test__break {}";

#[test]
fn model_calls_tools_of_a_server() {
    let patchbay = served("plain", "");
    let calls =
        [ECHO, "call mcp__test__fail {}", "call mcp__test__echo {}", "call mcp__test__image {}", "show context"];
    let answers = patchbay.answers(&calls);
    let said: Vec<_> = answers.iter().map(Answer::message).collect();
    let progress: Vec<_> = answers[0].events.iter().filter(|event| event["event"] == "progress").collect();
    assert_eq!(progress.len(), 1, "{progress:?}");
    assert_eq!((&progress[0]["tool"], &progress[0]["text"]), (&"mcp__test__echo".into(), &"half".into()));
    assert!(said[0].contains("mcp__test__echo said: ") && said[0].contains("echo: hi"), "{}", said[0]);
    assert!(!said[0].contains('\u{202e}'), "the texts of servers are cleaned");
    assert!(said[1].contains("mcp__test__fail failed: ") && said[1].contains("the disk is full."), "{}", said[1]);
    assert!(said[2].contains(r#"\"text\" is a required property"#), "{}", said[2]);
    assert!(said[3].contains("[image/png, 3 bytes]") || said[3].contains("image"), "{}", said[3]);
    assert!(said[3].contains("[content of the kind 'hologram' is left out]"), "{}", said[3]);
    assert!(said[4].contains("mcp__test__write_it"), "{}", said[4]);
    let journal = json_lines(&patchbay.run(&["journal", "--json", "--plugin", "mcp__test"]).out);
    let told: Vec<_> =
        journal.iter().map(|row| (row["tool"].as_str().unwrap(), row["outcome"].as_str().unwrap())).collect();
    assert_eq!(told, [("echo", "ok"), ("fail", "tool_failed"), ("echo", "invalid_input"), ("image", "ok")]);
    assert!(journal.iter().all(|row| row["root"] == "mcp" && row["skill"] == "mcp__test"));
}

#[test]
fn person_calls_tools_of_a_server() {
    let said = lines(
        &served("plain", ""),
        &[
            r#"/tool mcp__test__echo {"text": "hi"}"#,
            "/tool mcp__test__fail",
            r#"/tool mcp__test__write_it {"text": "hi"}"#,
            "/tool mcp__test__nope",
        ],
    );
    assert_eq!(said[0], "echo: hi");
    assert_eq!(said[1], "Error: the disk is full.");
    let denied = "Error: tool 'mcp__test__write_it' may not be called: it is not allowed.";
    assert!(said[2].starts_with(denied), "{}", said[2]);
    assert_eq!(said[3], "Error: tool 'mcp__test__nope' not found: no available MCP server has it.");
}

#[test]
fn tool_with_effects_needs_a_decision() {
    let write = r#"call mcp__test__write_it {"text": "hi"}"#;
    let denied = "tool 'mcp__test__write_it' may not be called: it is not allowed. To allow it: set \
                  tools.\\\"write.it\\\" = \\\"allow\\\" in [mcp.test] of config.toml";
    let said = &lines(&served("plain", ""), &[write])[0];
    assert!(said.contains(denied) && said.contains("denied"), "{said}");
    let allowed = served("plain", "tools = { \"write.it\" = \"allow\", echo = \"deny\" }");
    let said = lines(&allowed, &[write, ECHO]);
    assert!(said[0].contains("write.it: hi"), "{}", said[0]);
    assert!(said[1].contains("tool 'mcp__test__echo' may not be called: it is denied."), "{}", said[1]);
}

#[test]
fn server_gets_named_variables_only() {
    let patchbay = served("plain", "env = [\"FOR_THE_SERVER\", \"NOT_SET\"]");
    let mut command = patchbay.command(&["exec", "call mcp__test__environment {}"]);
    command.env("FOR_THE_SERVER", "1").env("ANOTHER_SECRET", "2");
    let out = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(out.contains("FOR_THE_SERVER") && out.contains("PATH"), "{out}");
    assert!(!out.contains("ANOTHER_SECRET") && !out.contains("PATCHBAY"), "{out}");
    assert!(out.contains("home/config\""), "it is started in the configuration folder: {out}");
    let inside = served("plain", "in_workspace = true");
    assert_eq!(inside.run(&["trust", "add", "."]).code, Some(0));
    let said = &lines(&inside, &["call mcp__test__environment {}"])[0];
    assert!(said.contains(&format!("{}", inside.workspace().display())), "{said}");
}

/// Returns a home whose server `test` is the program `server.py` of the workspace. The program records that it ran.
fn served_by_the_workspace() -> Patchbay {
    let patchbay = Patchbay::quick();
    let table = "[mcp.test]\ncommand = [\"python3\", \"server.py\"]\nin_workspace = true\n";
    patchbay.write("home/config/config.toml", format!("[providers.demo]\noptions = {{ delay-ms = \"0\" }}\n{table}"));
    patchbay.write("workspace/server.py", noting_program());
    patchbay
}

fn noting_program() -> String {
    format!("open('ran', 'w').close()\nexec(compile(open({:?}).read(), 'server', 'exec'))\n", program())
}

#[test]
fn server_in_the_workspace_runs_only_where_it_is_trusted() {
    let patchbay = served_by_the_workspace();
    let command = format!("patchbay trust add {}", patchbay.workspace().canonicalize().unwrap().display());
    let has_run = || patchbay.workspace().join("ran").exists();
    let mut live = patchbay.live(&[]);
    let untrusted = live.answer(ECHO);
    assert!(untrusted.message().contains("tool 'mcp__test__echo' not found"), "{}", untrusted.message());
    let told: Vec<_> = notices(&untrusted).collect();
    assert!(told.len() == 1 && told[0].ends_with(&format!("is not trusted. To trust it: {command}")), "{told:?}");
    assert_eq!(notices(&live.answer(ECHO)).count(), 0, "it is reported once");
    let checked = check(&patchbay, &["test"]);
    assert_eq!(checked.code, Some(1));
    assert!(checked.err.contains(&format!("To trust it: {command} [unavailable]\n")), "{}", checked.err);
    assert!(!has_run());
    assert_eq!(patchbay.run(&["trust", "add", "."]).code, Some(0));
    let trusted = live.message(ECHO);
    assert!(trusted.contains("echo: hi") && has_run(), "{trusted}");
    // The program still starts.
    assert_eq!(patchbay.run(&["trust", "remove", "."]).code, Some(0));
    let removed = live.answer(ECHO);
    assert!(removed.message().contains("not found") && notices(&removed).count() == 1, "{}", removed.message());
}

#[test]
fn always_of_a_server_in_the_workspace_is_for_one_workspace() {
    let patchbay = served_by_the_workspace();
    patchbay.write("other/server.py", noting_program());
    let other = patchbay.folder().join("other");
    let write = r#"call mcp__test__write_it {"text": "hi"}"#;
    let mut peer = Peer::initialized(&patchbay);
    let mut asked_in = |folder: &Path, id: i64, line: &str| {
        let made = peer.call(id, "session/new", json!({"cwd": folder, "mcpServers": []}));
        let session = made["result"]["sessionId"].as_str().unwrap().to_owned();
        peer.take();
        peer.request(id + 1, "session/prompt", prompt(&session, line));
        let mut asked = 0;
        loop {
            let message = peer.next_message();
            if message["method"] == "session/request_permission" {
                asked += 1;
                peer.respond(&message, json!({"outcome": {"outcome": "selected", "optionId": "always"}}));
            } else if message["id"] == id + 1 {
                return (asked, said(&peer.take()));
            }
        }
    };
    for folder in [&patchbay.workspace(), &other] {
        assert_eq!(patchbay.run(&["trust", "add", folder.to_str().unwrap()]).code, Some(0));
    }
    for (id, folder, questions) in
        [(1, patchbay.workspace(), 1), (3, patchbay.workspace(), 0), (5, other.clone(), 1), (7, other.clone(), 0)]
    {
        let (asked, said) = asked_in(&folder, id, write);
        assert!(said.contains("write.it: hi"), "{said}");
        assert_eq!(asked, questions, "{}", folder.display());
    }
    // An untrusted workspace can neither call nor start it.
    patchbay.write("stranger/server.py", noting_program());
    let stranger = patchbay.folder().join("stranger");
    let (asked, said) = asked_in(&stranger, 9, write);
    assert_eq!((asked, stranger.join("ran").exists()), (0, false), "{said}");
    let granted = patchbay.run(&["grant", "list"]).out;
    for folder in [patchbay.workspace(), other] {
        assert!(granted.contains(folder.canonicalize().unwrap().to_str().unwrap()), "{granted}");
    }
}

#[test]
fn secret_of_a_server_is_in_no_result_and_no_file() {
    let mut patchbay = served("plain", "env = [\"SERVER_TOKEN\"]");
    patchbay.set("SERVER_TOKEN", "sesame-0123456789");
    let said = &lines(&patchbay, &["call mcp__test__environment {}"])[0];
    assert!(said.contains("[secret]") && !said.contains("sesame"), "{said}");
    patchbay_tests::home::assert_in_no_file(&patchbay.home(), &["sesame-0123456789".to_owned()]);
}

#[test]
fn skill_with_the_grant_tools_calls_a_server() {
    let patchbay = served("plain", "");
    patchbay.add_relay("ask", "mcp__test__echo", r#"{"text":"nested"}"#);
    patchbay.add_relay("write", "mcp__test__write_it", r#"{"text":"nested"}"#);
    let answers = patchbay.answers(&["/ask", "/write"]);
    assert_eq!(answers[0].message(), "echo: nested");
    assert_eq!(answers[1].data()["kind"], "denied");
    let asker = |row: &Value| row["asker"].as_str().unwrap().to_owned();
    let journal = json_lines(&patchbay.run(&["journal", "--json", "--plugin", "mcp__test"]).out);
    assert_eq!(journal.iter().map(asker).collect::<Vec<_>>(), ["tool:ask__run", "tool:write__run"]);
}

#[test]
fn misbehaving_server_costs_its_own_call_only() {
    for (mode, code, words) in [
        ("dies", "unavailable", "the MCP server 'test' ended before it had responded"),
        ("hangs", "limit_time", "call exceeded its time limit of 700 ms (mcp.test.call_ms)"),
        ("floods", "limit_time", "call exceeded its time limit of 700 ms (mcp.test.call_ms)"),
        ("responses", "limit_time", "call exceeded its time limit of 700 ms (mcp.test.call_ms)"),
        (
            "garbage",
            "unavailable",
            "the MCP server 'test' wrote 1000 lines that are not messages before it had responded",
        ),
        ("half", "unavailable", "the MCP server 'test' ended before it had responded"),
        ("long", "unavailable", "sent a message of more than 9437184 bytes"),
        ("big", "limit_output", "the response has more than 4194304 bytes (limits.output_bytes)"),
        ("nonsense", "invalid_output", "the result of the call is invalid"),
    ] {
        // Servers in the other modes respond, which takes longer on a busy machine.
        let keys = if code == "limit_time" { "call_ms = 700" } else { "" };
        let patchbay = served(mode, keys);
        let said = lines(&patchbay, &[BREAK, "/calc 6 * 7"]);
        assert!(
            said[0].contains(&format!("\"error_code\":\"{code}\"")) && said[0].contains(words),
            "{mode}: {}",
            said[0]
        );
        assert_eq!(said[1], "42", "{mode}");
    }
    // The server is stopped if its requests arrive faster than they are answered.
    for mode in ["asks", "same id"] {
        let asks = lines(&served(mode, "call_ms = 700"), &[BREAK, "/calc 6 * 7"]);
        assert!(asks[0].contains("tool 'mcp__test__break' was stopped: ") && asks[1] == "42", "{asks:?}");
    }
    // The second call does not fit into the pipe.
    let more = "/code try { await tools.mcp.test.break({text: 'x'.repeat(200000)}) } catch (error) { error.message }";
    let deaf = lines(&served("deaf", "call_ms = 700"), &[BREAK, more, "/calc 6 * 7"]);
    let is_late = |said: &String| said.contains("call exceeded its time limit of 700 ms (mcp.test.call_ms)");
    assert!(deaf[..2].iter().all(is_late) && deaf[2] == "42", "{deaf:?}");
    let twice = lines(&served("twice", ""), &[BREAK, ECHO]);
    assert!(twice[0].contains("first") && twice[1].contains("echo: hi"), "{twice:?}");
}

#[test]
fn misbehaving_server_over_http_costs_its_own_call_only() {
    for (mode, code, words) in [
        ("hangs", "limit_time", "call exceeded its time limit of 700 ms (mcp.test.call_ms)"),
        (
            "missing",
            "unavailable",
            "the MCP server 'test' is not available: it responded with HTTP status 404. Run 'patchbay mcp check \
             test' for details.",
        ),
        ("fails", "unavailable", "the MCP server 'test' is not available: it responded with HTTP status 500. "),
        ("redirects", "unavailable", "the MCP server 'test' is not available: it responded with HTTP status 302. "),
        ("page", "unavailable", "is not available: it responded with the media type 'text/html' instead of "),
        ("nonsense", "unavailable", "the MCP server 'test' is not available: it sent no response. "),
        ("wrong id", "unavailable", "the MCP server 'test' is not available: it sent no response. "),
        ("half", "unavailable", "the MCP server 'test' is not available: the response from http://127.0.0.1:"),
        ("events", "limit_time", "call exceeded its time limit of 700 ms (mcp.test.call_ms)"),
        ("long event", "unavailable", "it sent a message of more than 9437184 bytes"),
        ("refuses", "tool_failed", "the MCP server 'test' refused the request: no"),
    ] {
        // On a busy machine, good responses may also take more than 700 ms. The call is then repeated.
        let (keys, attempts) = if code == "limit_time" { ("call_ms = 700", 60) } else { ("", 1) };
        let patchbay = served_over_http(&over_http(mode), keys);
        let mut live = patchbay.live(&[]);
        let said = live.message(BREAK);
        let is_expected = said.contains(&format!("\"error_code\":\"{code}\"")) && said.contains(words);
        assert!(is_expected, "{mode}: {said}");
        let mut said = live.message(ECHO);
        for _ in 1..attempts {
            if said.contains("echo: hi") {
                break;
            }
            said = live.message(ECHO);
        }
        assert!(said.contains("echo: hi"), "{mode}: {said}");
        assert_eq!(live.message("/calc 6 * 7"), "42", "{mode}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn misbehaving_server_takes_no_memory() {
    use patchbay_tests::binary::peak_kib;
    let keys = "call_ms = 2000";
    let flooding = ["events", "long event"].map(over_http);
    let mut homes = Vec::from(["long", "floods", "responses", "garbage"].map(|mode| served(mode, keys)));
    homes.extend(flooding.iter().map(|server| served_over_http(server, keys)));
    for patchbay in homes {
        let mut live = patchbay.live(&[]);
        live.message("/calc 6 * 7");
        live.message(ECHO);
        let before = peak_kib(live.pid());
        let said = live.message(BREAK);
        assert!(said.contains("tool 'mcp__test__break' was stopped: "), "{said}");
        assert_eq!(live.message("/calc 6 * 7"), "42");
        let grown = peak_kib(live.pid()).saturating_sub(before);
        assert!(grown < 64 << 10, "{grown} KiB: {said}");
    }
}

#[test]
fn server_with_an_unknown_revision_is_refused() {
    let old = over_http("old");
    for patchbay in [served("old", ""), served_over_http(&old, "")] {
        let words = "Error: the MCP server 'test' is not available: it speaks revision '1999-01-01' of MCP, which \
            is not supported; use 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25";
        let ran = check(&patchbay, &["test"]);
        assert!(ran.code == Some(1) && ran.err.starts_with(words) && ran.err.ends_with("[unavailable]\n"), "{ran:?}");
    }
}

#[test]
fn server_that_died_is_started_again() {
    let patchbay = served("dies", "");
    let said = lines(&patchbay, &[BREAK, ECHO, BREAK, "pause 1500", ECHO]);
    assert!(said[1].contains("echo: hi"), "{}", said[1]);
    assert!(said[4].contains("echo: hi"), "{}", said[4]);
}

#[test]
fn server_is_killed_with_its_children() {
    // On a busy machine, the time may be over before the server has called its tool. The limit is then raised.
    for limit in [500, 5_000, 30_000, 60_000] {
        let patchbay = served("hangs", &format!("call_ms = {limit}"));
        lines(&patchbay, &[BREAK]);
        let group = std::fs::read_to_string(patchbay.home().join("config/children")).unwrap_or_default();
        if !group.is_empty() {
            assert_group_ends(&group);
            return;
        }
    }
    panic!("the server does not call its tool");
}

#[test]
fn changed_list_is_taken_up_at_the_next_turn() {
    let patchbay = served("plain", "");
    let change = r#"call mcp__test__echo {"text": "change"}"#;
    let same_turn = format!("{change}\nthen call mcp__test__late {{}}");
    let said = lines(&patchbay, &[&same_turn, "call mcp__test__late {}"]);
    assert!(said[0].contains("tool 'mcp__test__late' not found"), "{}", said[0]);
    assert!(said[1].contains("late: None"), "{}", said[1]);
}

#[test]
fn list_that_fails_is_read_again() {
    let patchbay = served("relists", "");
    let change = r#"call mcp__test__echo {"text": "change"}"#;
    let said = lines(&patchbay, &[change, ECHO, "call mcp__test__late {}"]);
    assert!(said[1].contains("echo: hi"), "the tools stay as they were: {}", said[1]);
    assert!(said[2].contains("late: None"), "{}", said[2]);
}

#[test]
fn server_that_is_not_there_is_reported_once() {
    let patchbay = Patchbay::quick();
    patchbay.write("home/config/config.toml", "[mcp.test]\ncommand = [\"no-such-program\"]\n");
    let ran = patchbay.exec(&["say 1", "say 2", "say 3", "call mcp__test__echo {}", "say 5", "say 6"]);
    let words = "the MCP server 'test' is not available: no absolute folder in PATH has the program 'no-such-program'";
    let reported = ran.err.matches(words).count();
    // On a busy machine, the server may have failed five times.
    let given_up = ran.err.matches("not restarted in this session").count();
    assert_eq!((ran.code, reported - given_up), (Some(0), 1), "{}", ran.err);
    assert!(ran.err.contains(&format!("{words}. Run 'patchbay mcp check test' for details.")), "{}", ran.err);
    let missing = "tool 'mcp__test__echo' not found: no available MCP server has it.";
    assert!(ran.out.contains(missing), "{}", ran.out);
}

#[test]
fn check_shows_tools_decisions_and_what_is_left_out() {
    let patchbay = served("lies", "tools = { echo = \"ask\", gone = \"allow\" }");
    let ran = check(&patchbay, &["test"]);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    let long = format!("mcp__test__{}", "x".repeat(45));
    for line in [
        "test: test server 7, MCP 2025-11-25",
        "ask    decided in config.toml",
        "allow  the server marks it as read-only",
        "ask    the server does not mark it as read-only",
        "Note: Tool 'write_it' is left out: like 'write.it', it would be named 'mcp__test__write_it'.",
        "Note: Tool 'echo' is declared twice; the first one is used.",
        "Note: Tool 'no_schema' is left out: its declaration is invalid: missing field `inputSchema`.",
        "The schema of tool 'mcp__test__bad' uses 'unevaluatedProperties', which is not supported",
        "Note: config.toml has a rule for 'gone', which is not a usable tool of the server.",
        &long,
    ] {
        assert!(ran.out.contains(line), "{line}\n{}", ran.out);
    }
    let talks = check(&served("talks", ""), &["test"]);
    assert!(talks.out.contains("something other than a message on standard output: Server is ready!"), "{}", talks.out);
}

#[test]
fn check_of_a_server_that_does_not_answer_shows_what_it_printed() {
    let is_shown = |limit: u32| {
        let silent = check(&served("silent", &format!("start_ms = {limit}")), &["test"]);
        assert_eq!(silent.code, Some(1));
        let error = format!(
            "Error: the MCP server 'test' is not available: it was not ready within {limit} ms (start_ms). [unavailable]\n"
        );
        assert!(silent.err.ends_with(&error), "{silent:?}");
        silent.err == format!("printed: I wait.\n{error}")
    };
    // On a busy machine, the time may be over before the server has printed anything. The limit is then raised.
    assert!([1_000, 10_000, 60_000].into_iter().any(is_shown));
    let unknown = check(&served("plain", ""), &["other"]);
    let words = "Error: config.toml has no MCP server 'other'; it has test. [mcp_server_not_found]\n";
    assert_eq!((unknown.code, &*unknown.err), (Some(1), words));
}

#[test]
fn list_shows_configured_servers_without_starting_them() {
    let patchbay = Patchbay::new();
    let none = patchbay.run(&["mcp", "list"]);
    assert!(none.out.starts_with("No MCP servers are configured. "), "{}", none.out);
    let table = "[mcp.a]\ncommand = [\"no-such\", \"two words\"]\nenv = [\"TOKEN\"]\ntools = { x = \"deny\" }\n";
    patchbay.write("home/config/config.toml", table);
    let listed = patchbay.run(&["mcp", "list"]);
    assert_eq!(listed.out, "a: no-such 'two words'\n  variables: TOKEN\n  tools: x deny\n");
    let json = json_lines(&patchbay.run(&["mcp", "list", "--json"]).out);
    assert_eq!(json[0]["command"], serde_json::json!(["no-such", "two words"]));
}

#[test]
fn tools_of_a_server_are_found() {
    let patchbay = served("plain", "tools = { \"write.it\" = \"deny\" }\n[context]\ntools_max = 1");
    let said = lines(
        &patchbay,
        &[
            "show context",
            r#"call find_tools {"query": "echo a text"}"#,
            r#"call call_tool {"name": "mcp__test__echo", "input": {"text": "hi"}}"#,
            r#"call call_tool {"name": "mcp__test__write_it", "input": {"text": "hi"}}"#,
            "/code await tools.find('echo a text')",
            "/code await tools.mcp.test.echo({text: 'nested'})",
        ],
    );
    assert!(!said[0].contains("mcp__test__") && said[0].contains("find_tools"), "{}", said[0]);
    assert!(said[1].contains("mcp__test__echo") && said[1].contains("input_schema"), "{}", said[1]);
    assert!(said[2].contains("echo: hi"), "{}", said[2]);
    assert!(said[3].contains("tool 'mcp__test__write_it' may not be called: it is denied."), "{}", said[3]);
    assert!(said[4].contains("echo(input: {"), "{}", said[4]);
    assert!(said[5].contains("echo: nested"), "{}", said[5]);
    let journal = json_lines(&patchbay.run(&["journal", "--json", "--plugin", "mcp__test"]).out);
    let told: Vec<_> =
        journal.iter().map(|row| (row["tool"].as_str().unwrap(), row["outcome"].as_str().unwrap())).collect();
    assert_eq!(told, [("echo", "ok"), ("write.it", "denied"), ("echo", "ok")]);
}

#[test]
fn nested_answer_is_bounded_by_what_its_caller_has_left() {
    let patchbay = served("large", "");
    let call = "/code try { await tools.mcp.test.break({}) } catch (error) { error.message }";
    // A single call may use half of the program's output limit.
    let expected = "tool 'mcp__test__break' was stopped: the response has more than 2097152 bytes (its share of \
        the caller's remaining limits.output_bytes).";
    assert_eq!(patchbay.line(call), expected);
}
