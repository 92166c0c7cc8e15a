//! `patchbay mcp` over standard input and output: an MCP client's calls take the same path as all calls, and nothing that a client
//! sends harms the host.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use patchbay_tests::{
    binary::{Patchbay, Ran},
    calls::{completing, relaying},
    guest::Guest,
};
use serde_json::{Value, json};

use crate::journal::journal_rows;

/// A running server and its client.
pub(crate) struct Connected {
    server: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
}

/// Starts a server whose output is not read yet.
fn start(patchbay: &Patchbay, arguments: &[&str]) -> Child {
    let mut command: Command = patchbay.command(&[&["mcp"], arguments].concat());
    command.stdin(Stdio::piped()).spawn().unwrap()
}

impl Connected {
    fn new(patchbay: &Patchbay, arguments: &[&str]) -> Self {
        let mut server = start(patchbay, arguments);
        let (input, output) = (server.stdin.take(), server.stdout.take().unwrap());
        Self { server, input, lines: lines(output) }
    }

    /// Starts a server and completes the handshake of revision 2025-11-25 as the client `name`.
    pub(crate) fn initialized(patchbay: &Patchbay, arguments: &[&str], name: &str) -> Self {
        let mut connected = Self::new(patchbay, arguments);
        let answer = connected.ask(&initialize(name, "2025-11-25"));
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "patchbay");
        connected.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        connected
    }

    fn send(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
    }

    fn read(&self) -> Value {
        self.lines.recv_timeout(Duration::from_secs(60)).expect("a line of the server")
    }

    pub(crate) fn ask(&mut self, message: &Value) -> Value {
        self.send(&message.to_string());
        self.read()
    }

    pub(crate) fn call(&mut self, tool: &str, input: Value) -> Value {
        self.ask(&call(1, tool, input))
    }

    /// Closes the input, and returns how the server ended.
    pub(crate) fn end(mut self) -> Ran {
        drop(self.input.take());
        while self.lines.recv_timeout(Duration::from_secs(60)).is_ok() {}
        patchbay_tests::binary::ran(self.server.wait_with_output().unwrap())
    }
}

/// Reads the lines of a server on a thread.
fn lines(output: ChildStdout) -> Receiver<Value> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let value = serde_json::from_str(&line.unwrap()).expect("each line is JSON");
            if sender.send(value).is_err() {
                return;
            }
        }
    });
    lines
}

fn initialize(name: &str, version: &str) -> Value {
    let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": name, "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn call(id: u32, tool: &str, input: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": input}})
}

#[test]
fn client_lists_and_calls_tools_by_the_one_path() {
    let patchbay = Patchbay::new();
    let mut client = Connected::initialized(&patchbay, &[], "test \u{1b}[31mclient");
    let list = client.ask(&json!({"jsonrpc": "2.0", "id": "list", "method": "tools/list"}));
    let tools = list["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.is_sorted() && names.contains(&"calc__eval"), "{names:?}");
    // Only the host's own models may use the host's tools.
    assert!(names.iter().all(|name| name.contains("__")), "{names:?}");
    let eval = &tools[names.iter().position(|name| *name == "calc__eval").unwrap()];
    assert_eq!((&eval["inputSchema"]["type"], &eval["annotations"]["readOnlyHint"]), (&json!("object"), &json!(true)));
    let answer = client.call("calc__eval", json!({"expression": "2^100"}));
    assert_eq!(answer["result"]["isError"], false);
    assert!(answer.to_string().contains("1267650600228229401496703205376"), "{answer}");

    let wrong = client.call("calc__eval", json!({"expression": 3}));
    let text = wrong["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("input for 'calc__eval' is invalid:"), "{wrong}");
    assert_eq!(
        (&wrong["result"]["isError"], &wrong["result"]["_meta"]["patchbay/code"]),
        (&json!(true), &json!("invalid_input"))
    );
    let unknown = client.call("use_skill", json!({"name": "calc"}));
    assert_eq!(unknown["error"]["code"], -32602);
    assert_eq!(unknown["error"]["message"], "tool 'use_skill' not found in snapshot.");
    let method =
        client.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "a:b"}}));
    assert_eq!(method["error"]["code"], -32601);

    let ran = client.end();
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    let rows = journal_rows(&patchbay, &[]);
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows.iter().all(|row| row["asker"] == "mcp:test [31mclient"), "{rows:?}");
    assert_eq!(rows[0]["session"], json!(patchbay.last_session()));
}

#[test]
fn annotations_are_what_a_tool_can_do_whatever_is_granted() {
    let patchbay = Patchbay::new();
    let mut client = Connected::new(&patchbay, &[]);
    let opened = client.ask(&initialize("c", "2025-11-25"));
    // The list of a connection never changes, so no change is announced.
    assert_eq!(opened["result"]["capabilities"], json!({"tools": {}}), "{opened}");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
    let mut listed = || {
        let list = client.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
        let tools = list["result"]["tools"].as_array().unwrap();
        let annotations = |tool: &Value| (tool["name"].as_str().unwrap().to_owned(), tool["annotations"].clone());
        tools.iter().map(annotations).collect::<Vec<_>>()
    };
    let before = listed();
    let of = |name: &str| &before.iter().find(|(listed, _)| listed == name).unwrap_or_else(|| panic!("{before:?}")).1;
    for name in
        ["files__write", "files__edit", "files__patch", "files__rename", "files__delete", "notes__add", "code__run"]
    {
        // According to the protocol, a tool without these hints is destructive and not idempotent.
        let (reads, destroys, repeats) =
            (&of(name)["readOnlyHint"], &of(name)["destructiveHint"], &of(name)["idempotentHint"]);
        assert_eq!((reads, destroys, repeats), (&json!(false), &Value::Null, &Value::Null), "{name}");
    }
    for name in ["files__read", "files__list", "files__find", "grep__search", "calc__eval"] {
        assert_eq!((&of(name)["readOnlyHint"], &of(name)["destructiveHint"]), (&json!(true), &json!(false)), "{name}");
    }
    for capability in ["workspace-write", "workspace-delete"] {
        assert_eq!(patchbay.run(&["grant", "add", "--root", "bundled", "files", capability]).code, Some(0));
    }
    assert_eq!(listed(), before);
    client.end();
}

#[test]
fn lines_that_a_program_logs_are_progress() {
    let patchbay = Patchbay::new();
    let mut client = Connected::initialized(&patchbay, &[], "c");
    let code = "for (let n = 1; n < 4; n++) console.log('line', n); await tools.calc.eval({expression: '6*7'})";
    let mut request = call(5, "code__run", json!({"code": code}));
    assert_eq!(patchbay.run(&["grant", "add", "--root", "bundled", "code", "tools"]).code, Some(0));
    request["params"]["_meta"] = json!({"progressToken": "p"});
    client.send(&request.to_string());
    for (number, sent) in [(1, 1.0), (2, 2.0), (3, 3.0)] {
        let progress = client.read();
        assert_eq!(progress["method"], "notifications/progress", "{progress}");
        let expected = json!({"progressToken": "p", "progress": sent, "message": format!("line {number}\n")});
        assert_eq!(progress["params"], expected);
    }
    let result = client.read();
    assert_eq!((&result["id"], &result["result"]["content"][1]["text"]), (&json!(5), &json!("42")), "{result}");
    client.end();
}

#[test]
fn denial_names_the_command_and_the_grant_works_at_once() {
    let patchbay = Patchbay::new();
    patchbay.add_command(
        "relay",
        &relaying("calc__eval", r#"{"expression":"6*7"}"#),
        "capabilities: [{name: tools}]\n",
    );
    let mut client = Connected::initialized(&patchbay, &[], "c");
    let denied = client.call("relay__run", json!({}));
    let text = denied["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(denied["result"]["isError"] == true && text.contains("patchbay grant add relay tools"), "{denied}");
    assert_eq!(denied["result"]["_meta"]["patchbay/code"], "denied");
    let typed = patchbay.line("/relay {}");
    assert!(typed.contains(&text), "{typed}\n{text}");
    patchbay.grant("relay", &["tools"]);
    let allowed = client.call("relay__run", json!({}));
    assert!(allowed["result"]["isError"] == false && allowed.to_string().contains("42"), "{allowed}");
    client.end();
    let nested = journal_rows(&patchbay, &[]);
    assert!(nested.iter().any(|row| row["asker"] == "tool:relay__run" && row["outcome"] == "ok"), "{nested:?}");
}

#[test]
fn skill_that_asks_a_model_has_none() {
    let patchbay = Patchbay::new();
    patchbay.add_command("asks", &completing("", "hello"), "capabilities: [{name: inference}]\n");
    patchbay.grant("asks", &["inference"]);
    let mut client = Connected::initialized(&patchbay, &[], "c");
    let answer = client.call("asks__run", json!({}));
    assert!(answer["result"]["isError"] == true && answer.to_string().contains("no model is available"), "{answer}");
    client.end();
}

#[test]
fn only_named_skills_are_offered() {
    let patchbay = Patchbay::new();
    patchbay.add_command("one", &Guest::default(), "");
    patchbay.add_command("two", &Guest::default(), "");
    let mut client = Connected::initialized(&patchbay, &["--skill", "one"], "c");
    let list = client.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}));
    let names: Vec<_> = list["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["one__run"]);
    assert_eq!(client.call("one__run", json!({}))["result"]["content"][0]["text"], "{}");
    assert_eq!(client.call("two__run", json!({}))["error"]["message"], "tool 'two__run' not found in snapshot.");
    client.end();
    let ran = patchbay.run(&["mcp", "--skill", "three"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    assert_eq!(ran.err, "Error: skill 'three' not found in snapshot. [skill_not_found]\n");
    // The failed start leaves no session. The only one belongs to the first client.
    assert_eq!(patchbay.run(&["sessions", "--all", "--json"]).out.lines().count(), 1);
}

#[test]
fn named_skill_that_offers_nothing_is_an_error() {
    let patchbay = Patchbay::new();
    patchbay.add_command("mine", &Guest::default(), "disable-model-invocation: true\n");
    patchbay.skill("notes", "summary: Notes", "Take notes.");
    for (skill, error) in [
        ("mine", "Error: skill 'mine' can only be invoked by a user. [skill_not_for_models]\n"),
        ("notes", "Error: skill 'notes' has no tools; it offers nothing to MCP clients. [tool_not_found]\n"),
    ] {
        for transport in [&[][..], &["--http"]] {
            let ran = patchbay.run(&[&["mcp", "--skill", skill], transport].concat());
            assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(1), "", error));
        }
    }
}

#[test]
fn skills_for_people_are_not_offered() {
    let patchbay = Patchbay::new();
    patchbay.add_command("mine", &Guest::default(), "disable-model-invocation: true\n");
    let mut client = Connected::initialized(&patchbay, &[], "c");
    let list = client.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}));
    let tools = list["result"]["tools"].as_array().unwrap();
    let calc = tools.iter().find(|tool| tool["name"] == "calc__eval").unwrap();
    assert_eq!(calc["annotations"]["readOnlyHint"], true);
    assert!(!tools.iter().any(|tool| tool["name"] == "mine__run"), "{tools:?}");
    assert_eq!(client.call("mine__run", json!({}))["error"]["message"], "tool 'mine__run' not found in snapshot.");
    client.end();
}

#[test]
fn cancel_stops_a_call_and_progress_is_reported() {
    let patchbay = Patchbay::new();
    // The call would not end by itself while the test runs.
    patchbay.write("home/config/config.toml", "[limits]\nfuel = 9000000000000\ntime_ms = 600000\n");
    patchbay.add_command("spin", &Guest::reporting_and_spinning(), "");
    let mut client = Connected::initialized(&patchbay, &[], "c");
    let mut spin = call(5, "spin__run", json!({"n": 1}));
    spin["params"]["_meta"] = json!({"progressToken": "p"});
    let progress = client.ask(&spin);
    assert_eq!(progress["method"], "notifications/progress");
    assert_eq!(progress["params"], json!({"progressToken": "p", "progress": 1.0, "message": r#"{"n":1}"#}));
    client
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}).to_string());
    // The connection stays open, and the cancelled request gets no response.
    assert_eq!(client.call("calc__eval", json!({"expression": "1"}))["id"], 1);
    client.end();
    let rows = journal_rows(&patchbay, &[]);
    let stopped = rows.iter().find(|row| row["skill"] == "spin").unwrap();
    assert_eq!(stopped["outcome"], "cancelled", "{rows:?}");
}

#[test]
fn connection_without_a_handshake_is_served() {
    let patchbay = Patchbay::new();
    let mut client = Connected::new(&patchbay, &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "2"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let request = |id, method: &str, mut params: Value| {
        params["_meta"] = meta.clone();
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    };
    let discovered = client.ask(&request(1, "server/discover", json!({})));
    let versions = discovered["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-11-25")), "{discovered}");
    let answer =
        client.ask(&request(2, "tools/call", json!({"name": "calc__eval", "arguments": {"expression": "2+3"}})));
    assert_eq!((&answer["result"]["resultType"], &answer["result"]["isError"]), (&json!("complete"), &json!(false)));
    client.end();
    assert_eq!(journal_rows(&patchbay, &[])[0]["asker"], "mcp:modern");
}

#[test]
fn snapshot_is_fixed_for_a_connection() {
    let patchbay = Patchbay::new();
    let mut client = Connected::initialized(&patchbay, &[], "c");
    patchbay.add_command("later", &Guest::default(), "");
    assert_eq!(client.call("later__run", json!({}))["error"]["code"], -32602);
    client.end();
    let mut client = Connected::initialized(&patchbay, &[], "c");
    assert_eq!(client.call("later__run", json!({}))["result"]["isError"], false);
    client.end();
}

#[test]
fn bad_clients_get_an_error_or_a_clean_end() {
    let patchbay = Patchbay::new();
    // No input, half a line, and the end of the input in the middle of a call.
    for input in ["", "{\"jsonrpc\": \"2.0\", \"id\""] {
        let mut server = start(&patchbay, &[]);
        server.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let ran = patchbay_tests::binary::ran(server.wait_with_output().unwrap());
        assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(0), "", ""), "{input}");
    }
    // A call before `initialize` gets an error, and the handshake is still possible.
    let mut client = Connected::new(&patchbay, &[]);
    assert_eq!(client.ask(&call(1, "calc__eval", json!({"expression": "1"})))["error"]["code"], -32602);
    assert_eq!(client.ask(&initialize("c", "1999-01-01"))["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(client.ask(&json!("{nonsense"))["error"]["code"], -32600);
    client.send("{nonsense");
    assert_eq!(client.read()["error"]["code"], -32700);
    client.send("\u{feff}[{}]");
    assert!(client.read()["error"]["code"].is_i64());
    assert_eq!(client.ask(&json!({"jsonrpc": "2.0", "id": 9, "method": "no/such"}))["error"]["code"], -32601);
    let unfit = client.ask(&json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": 7}}));
    assert_eq!((&unfit["id"], &unfit["error"]["message"]), (&json!(9), &json!("invalid parameters for the method")));
    assert_eq!(client.call("calc__eval", json!({"expression": "1"}))["result"]["isError"], false);
    assert_eq!(client.end().code, Some(0));
    // A notification before the handshake ends the connection.
    let mut client = Connected::new(&patchbay, &[]);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
    let ran = client.end();
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    assert!(ran.err.starts_with("Error: the client sent another message before 'initialize'"), "{}", ran.err);
}

#[test]
#[cfg(target_os = "linux")]
fn floods_take_no_memory() {
    use patchbay_tests::binary::peak_kib;
    let patchbay = Patchbay::new();
    let mut client = Connected::initialized(&patchbay, &[], "c");
    client.call("calc__eval", json!({"expression": "1"}));
    let before = peak_kib(client.server.id());
    // A line of 100 MB, and a line of the maximum size that would need much memory once parsed.
    let input = client.input.as_mut().unwrap();
    for _ in 0..100 {
        input.write_all(&vec![b'['; 1 << 20]).unwrap();
    }
    input.write_all(b"\n").unwrap();
    assert_eq!(client.read()["error"]["message"], "the message is longer than 4 MiB");
    client.send(&format!("[{}0]", "0,".repeat(2 << 19)));
    assert_eq!(client.read()["error"]["message"], "the message has too many values");
    assert_eq!(client.call("calc__eval", json!({"expression": "1"}))["result"]["isError"], false);
    let grown = peak_kib(client.server.id()) - before;
    assert!(grown < 64 << 10, "{grown} KiB");
    client.end();
}

/// Lists are large, so unread responses would show in the memory of the process.
#[test]
#[cfg(target_os = "linux")]
fn client_that_never_reads_is_bounded() {
    use patchbay_tests::binary::peak_kib;
    let patchbay = Patchbay::new();
    let mut server = start(&patchbay, &[]);
    let mut input = server.stdin.take().unwrap();
    let (sender, blocked) = channel::<()>();
    writeln!(input, "{}", initialize("c", "2025-11-25")).unwrap();
    let process = server.id();
    let flood = std::thread::spawn(move || {
        for id in 0..2_000_000_u32 {
            if writeln!(input, r#"{{"jsonrpc":"2.0","id":{},"method":"tools/list"}}"#, id + 1).is_err() {
                break;
            }
        }
        drop(sender);
    });
    // The pipe is full, because the server has stopped reading.
    assert_eq!(blocked.recv_timeout(Duration::from_secs(5)), Err(std::sync::mpsc::RecvTimeoutError::Timeout));
    let peak = peak_kib(process);
    assert!(peak < 400 << 10, "{peak} KiB");
    server.kill().unwrap();
    server.wait().unwrap();
    flood.join().unwrap();
}
