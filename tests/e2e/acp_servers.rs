//! MCP servers that the client of `patchbay acp` names for its session.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use patchbay_tests::binary::Patchbay;
use serde_json::{Value, json};

/// A client that answers each question with `once`.
struct Editor {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The titles of the questions.
    asked: Vec<String>,
}

impl Editor {
    fn start(patchbay: &Patchbay) -> Self {
        let mut child = patchbay.command(&["acp"]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut editor = Self { child, input, output, asked: Vec::new() };
        let answer = editor.call("initialize", json!({"protocolVersion": 1}));
        assert_eq!(answer["agentCapabilities"]["mcpCapabilities"], json!({"http": true, "sse": false}));
        editor
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    /// Calls a method and returns its result. Updates are skipped, questions answered.
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the agent has ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] == "session/request_permission" {
                self.asked.push(message["params"]["toolCall"]["title"].as_str().unwrap().to_owned());
                let result = json!({"outcome": {"outcome": "selected", "optionId": "once"}});
                self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
            } else if message.get("method").is_none() {
                assert!(message.get("error").is_none(), "{message}");
                return message["result"].clone();
            }
        }
    }

    fn prompt(&mut self, session: &str, text: &str) {
        let prompt = json!([{"type": "text", "text": text}]);
        self.call("session/prompt", json!({"sessionId": session, "prompt": prompt}));
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn server(name: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/fixtures/mcp_server.py");
    json!({"name": name, "command": "python3", "args": [script], "env": [{"name": "GIVEN", "value": "1"}]})
}

#[test]
fn tools_of_the_clients_servers_are_asked_about() {
    let patchbay = Patchbay::new();
    // What is decided about the server of `config.toml` is not decided about the client's.
    let allowed = "[mcp.test]\ncommand = [\"no-such-program\"]\ntools = { \"write.it\" = \"allow\" }\n";
    patchbay.write("home/config/config.toml", allowed);
    let mut editor = Editor::start(&patchbay);
    let params = json!({"cwd": patchbay.workspace(), "mcpServers": [server("test")]});
    let session = editor.call("session/new", params)["sessionId"].as_str().unwrap().to_owned();
    editor.prompt(&session, "call mcp__test__echo {\"text\": \"hi\"}");
    assert!(editor.asked.is_empty(), "{:?}", editor.asked);
    editor.prompt(&session, "call mcp__test__write_it {\"text\": \"hi\"}");
    assert_eq!(editor.asked, ["May the tool 'mcp__test__write_it' be called?"]);
    editor.prompt(&session, "call mcp__test__environment {}");
    editor.call("session/close", json!({"sessionId": session}));
    let results: Vec<_> =
        patchbay.stored_messages(&session).into_iter().filter(|(_, kind, _)| kind == "tool").collect();
    let texts: Vec<_> = results.iter().map(|(_, _, text)| &**text).collect();
    assert_eq!(texts[..2], ["echo: hi", "write.it: hi"]);
    assert!(texts[2].contains("GIVEN") && texts[2].contains(patchbay.workspace().to_str().unwrap()), "{}", texts[2]);
    // A session that is loaded has the servers that are named then.
    let params = json!({"cwd": patchbay.workspace(), "sessionId": session, "mcpServers": [server("other")]});
    editor.call("session/load", params);
    editor.prompt(&session, "call mcp__other__echo {\"text\": \"again\"}");
    let last = patchbay.stored_messages(&session).into_iter().rfind(|(_, kind, _)| kind == "tool").unwrap();
    assert_eq!(last.2, "echo: again");
}
