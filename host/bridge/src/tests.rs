//! The bridge between a test editor and a test server.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
    },
};
use tokio_util::sync::CancellationToken;

use super::{BridgeError, RemoteServer, run};

const TOKEN: &str = "pb_sentinel";

struct Editor {
    input: DuplexStream,
    output: Lines<BufReader<DuplexStream>>,
    bridge: JoinHandle<Result<(), BridgeError>>,
}

impl Editor {
    /// Starts a bridge to `workspace` of the server on `port`.
    fn start(port: u16, workspace: &str) -> Self {
        let (input, far_input) = tokio::io::duplex(1 << 16);
        let (output, far_output) = tokio::io::duplex(1 << 16);
        let server = RemoteServer::new(&format!("ws://127.0.0.1:{port}"), TOKEN).ok().unwrap();
        let workspace = workspace.to_owned();
        let ends = (far_input, far_output);
        let bridge = tokio::spawn(run(server, workspace, "/here".to_owned(), ends, CancellationToken::new()));
        Self { input, output: BufReader::new(output).lines(), bridge }
    }

    async fn send(&mut self, message: Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn request(&mut self, id: i64, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    async fn next(&mut self) -> Value {
        serde_json::from_str(&self.output.next_line().await.unwrap().expect("a message")).unwrap()
    }
}

struct Accepted(WebSocketStream<TcpStream>);

impl Accepted {
    async fn next(&mut self) -> Value {
        loop {
            match self.0.next().await.unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn send(&mut self, message: Value) {
        self.0.send(Message::Text(message.to_string().into())).await.unwrap();
    }

    async fn answer(&mut self, request: &Value, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }

    /// Answers `initialize`.
    async fn initialize(&mut self) {
        let request = self.next().await;
        assert_eq!(request["method"], "initialize");
        let workspaces = json!({"app": "/srv/app"});
        self.answer(&request, json!({"protocolVersion": 1, "_meta": {"patchbay": {"workspaces": workspaces}}})).await;
    }
}

#[expect(clippy::result_large_err, reason = "the library's type")]
fn check(request: &Request, response: Response) -> Result<Response, ErrorResponse> {
    let expected = format!("Bearer {TOKEN}");
    if request.uri() == "/acp" && request.headers().get("authorization").is_some_and(|value| value == expected.as_str())
    {
        return Ok(response);
    }
    let mut refused = ErrorResponse::new(None);
    *refused.status_mut() = http::StatusCode::UNAUTHORIZED;
    Err(refused)
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

async fn accept(listener: &TcpListener) -> Accepted {
    let (stream, _) = listener.accept().await.unwrap();
    Accepted(accept_hdr_async(stream, check).await.unwrap())
}

/// Returns an editor with the session `s`, whose folder is `/home/ada/app`, and its server.
async fn with_session(listener: &TcpListener, port: u16) -> (Editor, Accepted) {
    let mut editor = Editor::start(port, "app");
    let mut server = accept(listener).await;
    editor.request(1, "initialize", json!({"protocolVersion": 1})).await;
    server.initialize().await;
    assert_eq!(editor.next().await["id"], 1);
    editor.request(2, "session/new", json!({"cwd": "/home/ada/app", "mcpServers": []})).await;
    let new = server.next().await;
    assert_eq!(new["params"]["cwd"], "/srv/app");
    server.answer(&new, json!({"sessionId": "s"})).await;
    assert_eq!(editor.next().await["result"]["sessionId"], "s");
    (editor, server)
}

fn prompt(text: &str) -> Value {
    json!({"sessionId": "s", "prompt": [{"type": "text", "text": text}]})
}

/// A server that sends nothing for a long time answers pings, which keeps the connection.
#[tokio::test]
async fn idle_connection_is_pinged() {
    let (listener, port) = listen().await;
    let (_editor, mut server) = with_session(&listener, port).await;
    for _ in 0..2 {
        assert!(matches!(server.0.next().await.unwrap().unwrap(), Message::Ping(_)));
    }
}

#[tokio::test]
async fn folder_of_the_editor_is_absolute() {
    let (listener, port) = listen().await;
    let (mut editor, _server) = with_session(&listener, port).await;
    editor.request(9, "session/new", json!({"cwd": "app", "mcpServers": []})).await;
    let refused = editor.next().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(9), &json!(-32602)), "{refused}");
}

#[tokio::test]
async fn paths_are_translated_both_ways_and_refused_outside() {
    let (listener, port) = listen().await;
    let (mut editor, mut server) = with_session(&listener, port).await;
    let link = |uri: &str| json!({"sessionId": "s", "prompt": [{"type": "resource_link", "name": "x", "uri": uri}]});
    editor.request(3, "session/prompt", link("file:///etc/passwd")).await;
    let refused = editor.next().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(3), &json!(-32602)));
    let words = "file:///etc/passwd is outside of the workspace /home/ada/app.";
    assert_eq!(refused["error"]["message"], words);
    editor.request(4, "session/prompt", link("file:///home/ada/app/a.rs")).await;
    assert_eq!(server.next().await["params"]["prompt"][0]["uri"], "file:///srv/app/a.rs");

    let update =
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "locations": [{"path": "/srv/app/a.rs"}]});
    server
        .send(json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}))
        .await;
    assert_eq!(editor.next().await["params"]["update"]["locations"][0]["path"], "/home/ada/app/a.rs");
    for (path, seen) in [("/etc/shadow", None), ("/srv/app/a.rs", Some("/home/ada/app/a.rs"))] {
        let params = json!({"sessionId": "s", "path": path});
        server.send(json!({"jsonrpc": "2.0", "id": 7, "method": "fs/read_text_file", "params": params})).await;
        match seen {
            None => {
                assert_eq!(server.next().await["error"]["message"], "/etc/shadow is outside of the workspace /srv/app.")
            }
            Some(seen) => {
                let request = editor.next().await;
                assert_eq!((&request["id"], &request["params"]["path"]), (&json!("1:7"), &json!(seen)));
                editor.send(json!({"jsonrpc": "2.0", "id": "1:7", "result": {"content": "text"}})).await;
                assert_eq!(server.next().await, json!({"jsonrpc": "2.0", "id": 7, "result": {"content": "text"}}));
            }
        }
    }
    editor.request(5, "session/list", json!({"cwd": "/home/ada/app"})).await;
    let list = server.next().await;
    let sessions = json!([{"sessionId": "s", "cwd": "/srv/app"}, {"sessionId": "t", "cwd": "/srv/other"}]);
    server.answer(&list, json!({"sessions": sessions})).await;
    assert_eq!(editor.next().await["result"]["sessions"], json!([{"sessionId": "s", "cwd": "/home/ada/app"}]));
    drop(editor.input);
    assert!(editor.bridge.await.unwrap().is_ok());
}

#[tokio::test]
async fn after_a_cut_everything_open_is_sent_again_with_the_same_key() {
    let (listener, port) = listen().await;
    let (mut editor, mut server) = with_session(&listener, port).await;
    editor.request(3, "session/prompt", prompt("go")).await;
    let sent = server.next().await;
    assert!(sent["params"]["_meta"]["patchbay"]["key"].is_string());
    let piece = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "one"}});
    let params = json!({"sessionId": "s", "update": piece});
    server.send(json!({"jsonrpc": "2.0", "method": "session/update", "params": params})).await;
    assert_eq!(editor.next().await["params"]["update"]["content"]["text"], "one");
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": {"sessionId": "s"}});
    server.send(ask.clone()).await;
    assert_eq!(editor.next().await["id"], "1:1");
    drop(server);

    let cancelled = editor.next().await;
    assert_eq!((&cancelled["method"], &cancelled["params"]["requestId"]), (&json!("$/cancel_request"), &json!("1:1")));
    assert!(editor.next().await["params"]["update"]["content"]["text"].as_str().unwrap().contains("Reconnecting"));
    editor.send(json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}})).await;
    editor.request(4, "session/prompt", prompt("and then")).await;
    // A late answer to a question of the lost connection.
    editor.send(json!({"jsonrpc": "2.0", "id": "1:1", "result": {"outcome": "yes"}})).await;

    let mut server = accept(&listener).await;
    server.initialize().await;
    let resumed = server.next().await;
    assert_eq!((&resumed["method"], &resumed["params"]["cwd"]), (&json!("session/resume"), &json!("/srv/app")));
    // The server refuses messages about a session that is not open yet.
    editor.request(5, "session/set_mode", json!({"sessionId": "s", "modeId": "ask"})).await;
    let early = tokio::time::timeout(std::time::Duration::from_millis(200), server.next()).await;
    assert!(early.is_err(), "sent before the session was open: {early:?}");
    server.answer(&resumed, json!({})).await;
    assert_eq!(server.next().await, sent);
    let cancel = server.next().await;
    assert_eq!(cancel["method"], "session/cancel", "before the prompt that came after it");
    assert_eq!(server.next().await["params"]["prompt"][0]["text"], "and then");
    assert_eq!(server.next().await["method"], "session/set_mode");
    server.send(ask).await;
    assert_eq!(editor.next().await["id"], "2:1");
    editor.send(json!({"jsonrpc": "2.0", "id": "2:1", "result": {"outcome": "no"}})).await;
    assert_eq!(server.next().await["result"]["outcome"], "no", "the late answer was dropped");
    server.answer(&sent, json!({"stopReason": "end_turn"})).await;
    assert_eq!(editor.next().await, json!({"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}}));
}

fn update(text: &str, meta: Value) -> Value {
    let update = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
    let params = json!({"sessionId": "s", "update": update, "_meta": {"patchbay": meta}});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
}

#[tokio::test]
async fn updates_continue_after_the_last_position() {
    let (listener, port) = listen().await;
    let (mut editor, mut server) = with_session(&listener, port).await;
    let shown = |message: Value| message["params"]["update"]["content"]["text"].as_str().unwrap().to_owned();
    editor.request(3, "session/prompt", prompt("go")).await;
    let sent = server.next().await;
    server.send(update("one", json!({"position": {"row": 1}}))).await;
    // Two updates that belong together, then the first of another two.
    server.send(update("two", json!({"more": true}))).await;
    server.send(update("three", json!({"position": {"row": 2}}))).await;
    server.send(update("four", json!({"more": true}))).await;
    for text in ["one", "two", "three"] {
        assert_eq!(shown(editor.next().await), text);
    }
    drop(server);
    assert!(shown(editor.next().await).contains("Reconnecting"), "the fourth is not shown");

    let mut server = accept(&listener).await;
    server.initialize().await;
    let resumed = server.next().await;
    assert_eq!(resumed["method"], "session/resume");
    assert_eq!(resumed["params"]["_meta"], json!({"patchbay": {"after": {"row": 2}}}));
    // The editor already shows its own prompt.
    let mut own = update("go", json!({"position": {"row": 3}}));
    own["params"]["update"]["_meta"]["patchbay"]["key"] = sent["params"]["_meta"]["patchbay"]["key"].clone();
    server.send(own).await;
    server.send(update("four", json!({"more": true}))).await;
    server.send(update("five", json!({"position": {"row": 4}}))).await;
    server.answer(&resumed, json!({})).await;
    for text in ["four", "five"] {
        assert_eq!(shown(editor.next().await), text);
    }
    assert_eq!(server.next().await, sent);
    let position = json!({"patchbay": {"position": {"row": 5}}});
    server.answer(&sent, json!({"stopReason": "end_turn", "_meta": position})).await;
    assert_eq!(editor.next().await["id"], 3);
    // A session that was partly loaded is resumed after its last update.
    editor.request(4, "session/load", json!({"sessionId": "s", "cwd": "/home/ada/app", "mcpServers": []})).await;
    assert_eq!(server.next().await["method"], "session/load");
    server.send(update("one", json!({"position": {"row": 1}}))).await;
    assert_eq!(shown(editor.next().await), "one");
    drop(server);
    let mut server = accept(&listener).await;
    server.initialize().await;
    let loaded = server.next().await;
    let params = &loaded["params"];
    assert_eq!((&loaded["method"], &params["cwd"]), (&json!("session/resume"), &json!("/srv/app")));
    assert_eq!((&loaded["id"], &params["_meta"]["patchbay"]["after"]), (&json!(4), &json!({"row": 1})));
}

#[tokio::test]
async fn one_mebibyte_waits_for_a_connection() {
    let (listener, port) = listen().await;
    let (mut editor, mut server) = with_session(&listener, port).await;
    editor.request(3, "session/prompt", prompt("go")).await;
    server.next().await;
    drop(server);
    assert!(editor.next().await["params"]["update"]["content"]["text"].as_str().unwrap().contains("Reconnecting"));
    let half = "x".repeat(600 << 10);
    for id in [4, 5] {
        editor.request(id, "session/prompt", prompt(&half)).await;
    }
    let refused = editor.next().await;
    assert_eq!(refused["id"], 5);
    assert!(refused["error"]["message"].as_str().unwrap().contains("the server is not connected"), "{refused}");
}

#[tokio::test]
async fn wrong_tokens_names_and_servers_end_with_their_reason() {
    let (listener, port) = listen().await;
    let refusing = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        #[expect(clippy::result_large_err, reason = "the type of tungstenite's callback")]
        let refuse = |_: &Request, _: Response| {
            let mut refused = ErrorResponse::new(None);
            *refused.status_mut() = http::StatusCode::UNAUTHORIZED;
            Err(refused)
        };
        assert!(accept_hdr_async(stream, refuse).await.is_err());
        listener
    });
    let editor = Editor::start(port, "app");
    let error = editor.bridge.await.unwrap().unwrap_err();
    assert!(matches!(error, BridgeError::TokenRefused) && !error.to_string().contains(TOKEN), "{error}");

    let listener = refusing.await.unwrap();
    let mut editor = Editor::start(port, "other");
    let mut server = accept(&listener).await;
    editor.request(1, "initialize", json!({})).await;
    server.initialize().await;
    assert_eq!(editor.next().await["error"]["code"], -32602);
    let error = editor.bridge.await.unwrap().unwrap_err().to_string();
    assert_eq!(error, "the server has no workspace 'other' (it has app). Use one of them, or a path below one.");

    drop((listener, server));
    let editor = Editor::start(port, "app");
    let error = editor.bridge.await.unwrap().unwrap_err();
    assert!(matches!(error, BridgeError::Unreachable { .. }), "{error}");
}
