//! MCP servers that misbehave: the program `e2e/fixtures/mcp_server.py`, and servers over HTTP. Both have the tools `echo`, which
//! returns its input `text`, and `break`, which misbehaves.

use std::{
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    PATIENCE,
    server::{Server, Step, body, response},
};

/// Returns the path of the program, for `python3`. Its argument selects how it misbehaves.
pub fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/fixtures/mcp_server.py")
}

/// Starts a server over HTTP at the path `/mcp`. `mode` selects the response to `break`:
///
/// | mode | response |
/// | --- | --- |
/// | `hangs` | none for two minutes |
/// | `missing`, `fails`, `redirects` | the HTTP status 404, 500, 302 |
/// | `page` | an HTML page |
/// | `nonsense` | invalid JSON |
/// | `half` | half of the body |
/// | `events` | an endless stream of notifications and of results for another request |
/// | `long event` | a stream with one endless event |
/// | `wrong id` | a result for another request |
/// | `refuses` | a JSON-RPC error |
///
/// With `old`, the server selects an unknown protocol revision. With any other mode, `break` works.
pub fn over_http(mode: &'static str) -> Server {
    Server::scripted(move |request| {
        let message: Value = serde_json::from_str(body(request)).unwrap_or_default();
        let Some(id) = message.get("id") else { return vec![answer("202 Accepted", "text/plain", "")] };
        let result = |result: Value| {
            answer("200 OK", "application/json", &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
        };
        let params = &message["params"];
        vec![match message["method"].as_str() {
            Some("initialize") => {
                let revision = if mode == "old" { "1999-01-01" } else { "2025-11-25" };
                let about = json!({"name": "test server", "version": "7"});
                result(json!({"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": about}))
            }
            Some("tools/list") => result(json!({"tools": [tool("echo"), tool("break")]})),
            Some("tools/call") if params["name"] == "break" => match mode {
                "hangs" => Step::Pause(120_000),
                "missing" => answer("404 Not Found", "text/plain", "no"),
                "fails" => answer("500 Internal Server Error", "text/plain", "no"),
                "redirects" => Step::Bytes(
                    b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n".to_vec(),
                ),
                "page" => answer("200 OK", "text/html", "<p>Hello</p>"),
                "nonsense" => answer("200 OK", "application/json", "{nonsense"),
                "half" => Step::Bytes(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{\"jsonrpc\""
                        .to_vec(),
                ),
                "events" => return endless(&event_flood()),
                "long event" => return endless(&"x".repeat(1 << 16)),
                "wrong id" => {
                    let other = json!({"jsonrpc": "2.0", "id": 9_999, "result": text("It does not break.")});
                    answer("200 OK", "application/json", &other.to_string())
                }
                "refuses" => {
                    let error = json!({"code": -32603, "message": "no", "data": {"why": "it is a test"}});
                    let refusal = json!({"jsonrpc": "2.0", "id": id, "error": error});
                    answer("200 OK", "application/json", &refusal.to_string())
                }
                _ => result(text("It does not break.")),
            },
            Some("tools/call") => {
                let words = params["arguments"]["text"].as_str().unwrap_or_default();
                result(text(&format!("echo: {words}")))
            }
            _ => result(json!({})),
        }]
    })
}

fn answer(status: &str, media: &str, body: &str) -> Step {
    Step::Bytes(response(status, media, body))
}

/// Returns a stream of events that begins with `data: ` and repeats `text`.
fn endless(text: &str) -> Vec<Step> {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: ".to_vec();
    vec![Step::Bytes(head), Step::Endless(text.as_bytes().to_vec(), 0)]
}

/// Returns messages that no client waits for, as events, followed by the beginning of the next event.
fn event_flood() -> String {
    let log = json!({"level": "info", "data": "x".repeat(1_000)});
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": log});
    let response = json!({"jsonrpc": "2.0", "id": 9_999, "result": text("It does not break.")});
    format!("{log}\n\ndata: {response}\n\ndata: ")
}

/// A tool that the server marks as read-only.
fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}})
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// Waits for the file `children` in `folder` and returns the process group in it. The program writes the file when its tool
/// `break` hangs, or at startup if its argument is `stuck`.
pub fn wait_for_group(folder: &Path) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let group = std::fs::read_to_string(folder.join("children")).unwrap_or_default();
        if !group.is_empty() {
            return group;
        }
        assert!(Instant::now() < end, "the program hangs");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Asserts that all processes of a process group end in time. Without a signal they run for ten minutes.
pub fn assert_group_ends(group: &str) {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let found = Command::new("pgrep").args(["-g", group]).output().expect("pgrep runs");
        if found.stdout.is_empty() {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("the process group {group} is alive");
}
