//! `patchbay serve`: who may connect, and sessions over WebSockets.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixDatagram,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use patchbay_tests::{
    PATIENCE,
    acp::{Talk, in_workspace, prompt, said, updates},
    binary::{Patchbay, resident_kib},
    serve::{Serving, closed},
};
use serde_json::{Value, json};
use tungstenite::Message;

/// A tool call that asks the user for permission.
const WRITE: &str = r#"call files__write {"path": "made.txt", "text": "x"}"#;

/// The head of a frame of 60 MiB.
const HALF: [u8; 14] = [0x81, 0xff, 0, 0, 0, 0, 0x03, 0xc0, 0, 0, 1, 2, 3, 4];

/// Returns the parameters of `session/load` and `session/resume`.
fn existing(patchbay: &Patchbay, session: &str) -> Value {
    let mut params = in_workspace(patchbay);
    params["sessionId"] = json!(session);
    params
}

/// Loads a session, and returns the messages to the client up to the list of commands that follows the response.
fn load(client: &mut Talk, patchbay: &Patchbay, session: &str) -> Vec<Value> {
    let answer = client.call(1, "session/load", existing(patchbay, session));
    assert!(answer["result"].is_object(), "{answer}");
    client.until(|message| message["params"]["update"]["sessionUpdate"] == "available_commands_update");
    client.take()
}

fn is_there(path: &Path) -> bool {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if path.exists() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn client_with_the_token_has_a_conversation() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let mut client = serving.client(&json!({}));
    let session = client.session(&patchbay, 1);
    let said = client.say(2, &session, json!([{"type": "text", "text": "say Hello."}]));
    assert_eq!(said.trim(), "Hello.");
}

#[test]
fn request_without_the_token_gets_the_same_bytes_everywhere() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let status = |answer: &str| answer.split(' ').nth(1).unwrap_or_default().to_owned();
    assert_eq!(status(&serving.raw("GET /healthz HTTP/1.1")), "200");
    assert_eq!(status(&serving.raw("GET /readyz HTTP/1.1")), "200");
    let refused = serving.raw("GET /acp HTTP/1.1");
    assert_eq!(status(&refused), "401");
    let without_date = |answer: &str| {
        let lines = answer.lines().filter(|line| !line.starts_with("date:"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let other = format!("Authorization: Bearer {}x", serving.token);
    for head in
        ["GET / HTTP/1.1", "POST /acp HTTP/1.1", "GET /nowhere HTTP/1.1", &format!("GET /acp HTTP/1.1\r\n{other}")]
    {
        assert_eq!(without_date(&serving.raw(head)), without_date(&refused), "{head}");
    }
    let with_token = format!("GET /acp HTTP/1.1\r\nAuthorization: Bearer {}", serving.token);
    assert_eq!(status(&serving.raw_to(&with_token, "evil.example")), "421");
    assert_eq!(status(&serving.raw(&format!("{with_token}\r\nOrigin: http://evil.example"))), "403");
    // A token in the query string is ignored.
    assert_eq!(status(&serving.raw(&format!("GET /acp?token={} HTTP/1.1", serving.token))), "401");
    // The token is right, but this is not a WebSocket request.
    assert_eq!(status(&serving.raw(&with_token)), "400");
}

#[test]
fn binary_frame_closes_the_connection() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let mut socket = serving.socket();
    socket.send(Message::binary("{}")).unwrap();
    assert_eq!(closed(&mut socket), Some(1003));
}

#[test]
fn turn_goes_on_without_its_client_and_is_joined_in_mid_answer() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "[providers.demo]\noptions = { delay-ms = \"60\" }\n");
    let serving = Serving::start(&patchbay, "");
    let mut first = serving.client(&json!({}));
    let session = first.session(&patchbay, 1);
    let words: Vec<String> = (0..120).map(|word| format!("word{word}")).collect();
    let text = words.join(" ");
    first.request(2, "session/prompt", prompt(&session, &format!("say {text}")));
    first.until(|message| message.to_string().contains("word9"));
    drop(first);
    let mut second = serving.client(&json!({}));
    let replayed = load(&mut second, &patchbay, &session);
    assert!(said(&replayed).contains("word0 word1"), "the text so far: {replayed:?}");
    let last = second.until(|message| message.to_string().contains("word119"));
    let mut all = replayed;
    all.extend(second.take());
    assert_eq!(said(&all).trim(), text, "each piece once; the last message is {last}");
    let lines = updates(&all, "user_message_chunk");
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[test]
fn question_goes_to_all_clients_and_the_first_answer_counts() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let mut first = serving.client(&json!({}));
    let session = first.session(&patchbay, 1);
    let mut second = serving.client(&json!({}));
    load(&mut second, &patchbay, &session);
    first.request(2, "session/prompt", prompt(&session, WRITE));
    let (asked, also_asked) = (first.asked("session/request_permission"), second.asked("session/request_permission"));
    assert_eq!(asked["params"]["toolCall"]["title"], also_asked["params"]["toolCall"]["title"]);
    let options = asked["params"]["options"].to_string();
    assert!(!options.contains("\"always\""), "the token has no right to give grants: {options}");
    // A client that joins later is asked as well.
    let mut third = serving.client(&json!({}));
    third.request(1, "session/load", existing(&patchbay, &session));
    let late = third.asked("session/request_permission");
    // If one client responds with an error, the question stays open for the others.
    let mut fourth = serving.client(&json!({}));
    fourth.request(1, "session/load", existing(&patchbay, &session));
    let unknown = fourth.asked("session/request_permission");
    fourth.message(&json!({"jsonrpc": "2.0", "id": unknown["id"], "error": {"code": -32601, "message": "unknown"}}));
    fourth.call(2, "session/list", json!({}));
    second.respond(&also_asked, json!({"outcome": {"outcome": "selected", "optionId": "once"}}));
    for (client, asked) in [(&mut first, &asked), (&mut third, &late)] {
        let withdrawn = client.until(|message| message["method"] == "$/cancel_request");
        assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
        // A second answer changes nothing.
        client.respond(asked, json!({"outcome": {"outcome": "selected", "optionId": "no"}}));
    }
    assert!(is_there(&patchbay.workspace().join("made.txt")));
    let journal = patchbay.run(&["journal", "--json"]).out;
    assert!(journal.contains(r#""client":"first""#), "the journal names the token: {journal}");
    // Both clients see the same conversation.
    let seen =
        second.until(|message| message.to_string().contains("made.txt") && message.to_string().contains("completed"));
    assert_eq!(seen["method"], "session/update");
}

#[test]
fn client_without_the_right_to_answer_is_not_asked() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let lines = patchbay.run(&["token", "add", "--may", "lines", "lines-only"]).out.trim().to_owned();
    let mut first = patchbay_tests::serve::talk(serving.socket_with(&lines), &json!({}));
    let session = first.session(&patchbay, 1);
    first.request(2, "session/prompt", prompt(&session, WRITE));
    first.until(|message| message["params"]["update"]["sessionUpdate"] == "tool_call");
    let mut second = serving.client(&json!({}));
    second.request(1, "session/load", existing(&patchbay, &session));
    let asked = second.asked("session/request_permission");
    second.respond(&asked, json!({"outcome": {"outcome": "selected", "optionId": "once"}}));
    let answer = first.answer();
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let seen = first.take();
    assert!(seen.iter().all(|message| message["method"] != "session/request_permission"), "{seen:?}");
    let refused = first.say(3, &session, json!([{"type": "text", "text": "/mode edits"}]));
    assert!(refused.contains("may not set a mode"), "{refused}");
}

#[test]
fn client_without_the_right_to_lines_changes_no_session() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let token = patchbay.run(&["token", "add", "--may", "none", "reader"]).out.trim().to_owned();
    let mut first = serving.client(&json!({}));
    let session = first.session(&patchbay, 1);
    let mut reader = patchbay_tests::serve::talk(serving.socket_with(&token), &json!({}));
    load(&mut reader, &patchbay, &session);
    first.request(2, "session/prompt", prompt(&session, "pause 1500"));
    first.until(|message| message["params"]["update"].is_object());
    reader.notify("session/cancel", json!({"sessionId": session}));
    let mut with_server = existing(&patchbay, &session);
    with_server["mcpServers"] = json!([{"type": "http", "name": "x", "url": "https://example.org/mcp", "headers": []}]);
    for (method, params) in [
        ("session/new", in_workspace(&patchbay)),
        ("session/resume", with_server),
        ("session/close", json!({"sessionId": session})),
        ("session/delete", json!({"sessionId": session})),
    ] {
        let refused = reader.call(3, method, params);
        assert_eq!(refused["error"]["data"]["code"], "denied", "{method}: {refused}");
    }
    assert_eq!(first.until(|message| message["id"] == 2)["result"]["stopReason"], "end_turn");
}

#[test]
fn other_clients_are_told_who_moved_the_view() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let capabilities = json!({"session": {"notices": {}}});
    let mut first = serving.client(&capabilities);
    let session = first.session(&patchbay, 1);
    assert_eq!(first.prompt(2, &session, "/fork \"say Child.\""), "end_turn");
    let mut second = serving.client(&capabilities);
    load(&mut second, &patchbay, &session);
    assert_eq!(first.prompt(3, &session, "/switch root"), "end_turn");
    let told = second.until(|message| message["params"]["update"]["sessionUpdate"] == "notice");
    assert_eq!(told["params"]["update"]["title"], "first: /switch root");
    // Each client sees the other's message and its answer.
    first.prompt(4, &session, "say Both.");
    let seen = second.until(|message| said(std::slice::from_ref(message)).contains("Both."));
    assert_eq!(seen["params"]["sessionId"], session);
    let seen = second.take();
    let lines: Vec<_> =
        updates(&seen, "user_message_chunk").into_iter().map(|it| it["content"]["text"].clone()).collect();
    assert!(lines.contains(&json!("say Both.")), "{lines:?}");
}

#[test]
fn option_is_a_command_for_the_other_clients_alone() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let mut first = serving.client(&json!({}));
    let session = first.session(&patchbay, 1);
    let mut second = serving.client(&json!({}));
    load(&mut second, &patchbay, &session);
    let option = json!({"sessionId": session, "configId": "model", "value": "demo:demo-big"});
    let set = first.call(2, "session/set_config_option", option);
    assert_eq!(set["result"]["configOptions"][0]["currentValue"], "demo:demo-big", "{set}");
    second.until(|message| message["params"]["update"]["content"]["text"] == "/model demo:demo-big");
    assert_eq!(first.prompt(3, &session, "say Done."), "end_turn");
    let seen = first.take();
    assert_eq!(updates(&seen, "user_message_chunk"), Vec::<&Value>::new());
}

#[test]
fn files_are_those_of_the_client_whose_line_runs() {
    let patchbay = Patchbay::quick();
    patchbay.write("workspace/a.txt", "on disk");
    let granted = patchbay.run(&["grant", "add", "--root", "bundled", "files", "workspace-write"]);
    assert_eq!(granted.code, Some(0), "{granted:?}");
    let serving = Serving::start(&patchbay, "");
    let mut editor = serving.client(&json!({"fs": {"readTextFile": true, "writeTextFile": true}}));
    let session = editor.session(&patchbay, 1);
    let mut other = serving.client(&json!({}));
    load(&mut other, &patchbay, &session);
    // A line from the client without an editor uses the disk.
    let edit = r#"call files__edit {"path": "a.txt", "old": "disk", "new": "paper"}"#;
    assert_eq!(other.prompt(2, &session, edit), "end_turn");
    assert_eq!(fs::read_to_string(patchbay.workspace().join("a.txt")).unwrap(), "on paper");
    // The line from the editor reads unsaved text, and fails when the editor disconnects. The turn continues.
    editor.request(3, "session/prompt", prompt(&session, &format!("{edit}\nthen say Done.")));
    editor.asked("fs/read_text_file");
    drop(editor);
    let failed = other.until(|message| message.to_string().contains("client_gone"));
    assert_eq!(failed["params"]["update"]["status"], "failed", "{failed}");
    other.until(|message| said(std::slice::from_ref(message)).contains("Done."));
}

#[test]
fn remote_client_has_the_configured_folders_alone() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    fs::create_dir(patchbay.folder().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(patchbay.folder().join("elsewhere"), patchbay.workspace().join("link")).unwrap();
    fs::create_dir(patchbay.workspace().join("below")).unwrap();
    let mut client = serving.client(&json!({}));
    let mut refusals = Vec::new();
    for cwd in
        [patchbay.folder().join("elsewhere"), patchbay.workspace().join("link"), patchbay.folder().join("nowhere")]
    {
        let answer = client.call(1, "session/new", json!({"cwd": cwd, "mcpServers": []}));
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        refusals.push(answer["error"]["message"].as_str().unwrap().replace(&*cwd.to_string_lossy(), "CWD"));
    }
    assert!(refusals.iter().all(|refusal| refusal == &refusals[0]), "{refusals:?}");
    let servers = json!([{"name": "shell", "command": "/bin/sh", "args": [], "env": []}]);
    client.request(2, "session/new", json!({"cwd": patchbay.workspace().join("below"), "mcpServers": servers}));
    let session = client.answer()["result"]["sessionId"].as_str().unwrap().to_owned();
    let shown = client.say(3, &session, json!([{"type": "text", "text": "say Hello."}]));
    assert!(shown.contains("The MCP server 'shell' is left out"), "{shown}");
    // A session in another folder cannot be listed, opened or deleted.
    let made =
        patchbay.run(&["exec", "--workspace", patchbay.folder().join("elsewhere").to_str().unwrap(), "say Secret."]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let all = patchbay.run(&["sessions", "--all", "--json"]).out;
    let hidden: Value = all
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .find(|row: &Value| row["workspace"].as_str().unwrap().ends_with("elsewhere"))
        .unwrap();
    let id = hidden["id"].as_str().unwrap();
    let listed = client.call(4, "session/list", json!({}));
    assert!(!listed.to_string().contains(id), "{listed}");
    let answer = client.call(5, "session/load", json!({"sessionId": id, "cwd": hidden["workspace"], "mcpServers": []}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    // The folder of this session is not served, so the session is unknown.
    let [foreign, unknown] = [id, "00000000-0000-4000-8000-000000000000"].map(|id| {
        let params = json!({"sessionId": id, "cwd": patchbay.workspace(), "mcpServers": []});
        client.call(7, "session/load", params)["error"].to_string().replace(id, "ID")
    });
    assert_eq!(foreign, unknown);
    assert!(client.call(6, "session/delete", json!({"sessionId": id}))["result"].is_object());
    assert!(patchbay.run(&["sessions", "--all", "--json"]).out.contains(id));
}

/// Asks the server to shut down.
fn terminate(serving: &Serving) {
    let id = serving.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
}

/// Waits for the server to exit, and returns its exit code.
fn ended(serving: &mut Serving) -> Option<i32> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(status) = serving.child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the server does not end");
}

/// A home whose model needs this many milliseconds per word.
fn slow(milliseconds: u32) -> Patchbay {
    let patchbay = Patchbay::new();
    let config = format!("[providers.demo]\noptions = {{ delay-ms = \"{milliseconds}\" }}\n");
    patchbay.write("home/config/config.toml", config);
    patchbay
}

#[test]
fn drain_lets_turns_end_and_refuses_new_lines() {
    let patchbay = slow(30);
    let mut serving = Serving::start(&patchbay, "");
    let mut idle = serving.socket();
    let mut client = serving.client(&json!({}));
    let session = client.session(&patchbay, 1);
    let text: Vec<String> = (0..60).map(|word| format!("word{word}")).collect();
    client.request(2, "session/prompt", prompt(&session, &format!("say {}", text.join(" "))));
    client.until(|message| message.to_string().contains("word3"));
    terminate(&serving);
    assert_eq!(closed(&mut idle), Some(1012));
    assert!(serving.raw("GET /readyz HTTP/1.1").starts_with("HTTP/1.1 503"));
    assert!(serving.raw("GET /healthz HTTP/1.1").starts_with("HTTP/1.1 200"));
    let with_token = format!("GET /acp HTTP/1.1\r\nAuthorization: Bearer {}", serving.token);
    assert!(serving.raw(&with_token).starts_with("HTTP/1.1 503"));
    client.request(3, "session/prompt", prompt(&session, "say More."));
    let refused = client.until(|message| message["id"] == 3);
    assert_eq!(refused["error"]["data"]["code"], "unavailable", "{refused}");
    let answer = client.until(|message| message["id"] == 2);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(ended(&mut serving), Some(0));
}

#[test]
fn turn_that_outlasts_the_drain_is_interrupted() {
    let patchbay = slow(50);
    let mut serving = Serving::start(&patchbay, "drain_seconds = 1");
    let mut client = serving.client(&json!({}));
    let session = client.session(&patchbay, 1);
    client.request(2, "session/prompt", prompt(&session, "repeat 2000 word"));
    client.until(|message| message.to_string().contains("word"));
    terminate(&serving);
    assert_eq!(ended(&mut serving), Some(0));
    let serving = Serving::start(&patchbay, "");
    // The turn ends without a client.
    let end = Instant::now() + PATIENCE;
    while !patchbay.run(&["sessions", "show", &session]).out.contains("The process ended during this turn") {
        assert!(Instant::now() < end, "the turn is not settled");
    }
    let mut client = serving.client(&json!({}));
    let replayed = load(&mut client, &patchbay, &session);
    let shown = said(&replayed);
    assert!(shown.contains("word word") && shown.contains("The process ended during this turn"), "{shown}");
}

#[test]
fn token_that_is_removed_closes_its_connections() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let phone = patchbay.run(&["token", "add", "phone"]).out.trim().to_owned();
    let (mut removed, mut kept) = (serving.socket_with(&phone), serving.socket());
    assert_eq!(patchbay.run(&["token", "remove", "phone"]).code, Some(0));
    assert_eq!(closed(&mut removed), Some(1008));
    kept.send(Message::binary("x")).unwrap();
    assert_eq!(closed(&mut kept), Some(1003), "the other token's connection is open");
    let head = format!("GET /acp HTTP/1.1\r\nAuthorization: Bearer {phone}");
    assert!(serving.raw(&head).starts_with("HTTP/1.1 401"));
    let numbers = serving.raw("GET /metrics HTTP/1.1");
    assert!(numbers.contains("patchbay_refusals_total{reason=\"token\"} 1\n"), "{numbers}");
    assert!(numbers.contains("patchbay_connections_total 2\n"), "{numbers}");
}

/// Half a frame, a frame that never ends, a peer that never reads, and many peers without a token: other clients are still served,
/// and memory is bounded.
#[test]
fn bad_peers_cost_little() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "gone_seconds = 3\nping_seconds = 1");
    let mut client = serving.client(&json!({}));
    let session = client.session(&patchbay, 1);
    let before = resident_kib(serving.child.id());
    // A frame header for 60 MiB without any content, a frame over the limit, and a thousand bytes that are not a frame.
    let half = serving.socket();
    half.get_ref().write_all(&[&HALF[..], &[9]].concat()).unwrap();
    let mut long = serving.socket();
    long.get_ref().write_all(&[0x81, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4]).unwrap();
    assert_eq!(closed(&mut long), Some(1009));
    let mut broken = serving.socket();
    broken.get_ref().write_all(&[0xff; 1000]).unwrap();
    assert_eq!(closed(&mut broken), Some(1002));
    // Request heads that never end, over the limit.
    let mut endless = serving.connect();
    let _ = endless.write_all(&[b"GET /acp HTTP/1.1\r\nX: ".as_slice(), &[b'a'; 20 << 10]].concat());
    let mut answer = String::new();
    let _ = endless.read_to_string(&mut answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    let silent: Vec<_> = (0..1000)
        .filter_map(|_| std::net::TcpStream::connect(&serving.address).ok())
        .inspect(|mut stream| drop(stream.write_all(b"GET /acp HTTP/1.1\r\nHost: x\r\n")))
        .collect();
    assert!(silent.len() > 900, "{}", silent.len());
    let began = Instant::now();
    assert_eq!(client.prompt(2, &session, "say Still here."), "end_turn");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let grown = resident_kib(serving.child.id()).saturating_sub(before);
    assert!(grown < 48 << 10, "{grown} KiB");
    // This client does not respond to pings.
    let mut stream = half.get_ref();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
}

/// Incomplete messages of all clients share one limit. The client with the most bytes is disconnected, and the others continue.
#[test]
fn bytes_that_wait_in_all_connections_are_bounded() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "unread_mib = 8");
    let mut client = serving.client(&json!({}));
    let session = client.session(&patchbay, 1);
    // Frames of 60 MiB that have only begun.
    let half = |mib: usize| {
        let socket = serving.socket();
        let mut stream = socket.get_ref();
        stream.write_all(&HALF).unwrap();
        stream.write_all(&vec![b' '; mib << 20]).unwrap();
        socket
    };
    let mut largest = half(5);
    let kept = half(2);
    let _third = half(2);
    assert_eq!(closed(&mut largest), Some(1013));
    kept.get_ref().write_all(b" ").unwrap();
    assert_eq!(client.prompt(2, &session, "say Still here."), "end_turn");
}

#[test]
fn supervisor_passes_the_socket_and_is_told_the_state() {
    let patchbay = Patchbay::quick();
    let told = patchbay.folder().join("notify");
    let socket = UnixDatagram::bind(&told).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let program = "import os, socket, sys\n\
                   s = socket.create_server(('127.0.0.1', 0)); os.dup2(s.fileno(), 3); os.set_inheritable(3, True)\n\
                   print('port', s.getsockname()[1], flush=True)\n\
                   os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))\n\
                   os.execv(sys.argv[1], sys.argv[1:])";
    let command = patchbay.command(&["serve"]);
    let mut python = Command::new("python3");
    python.args(["-c", program]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => python.env(name, value),
            None => python.env_remove(name),
        };
    }
    python.env("NOTIFY_SOCKET", &told).current_dir(patchbay.workspace()).stdout(std::process::Stdio::piped());
    let mut child = python.spawn().unwrap();
    let mut read = [0; 64];
    let count = socket.recv(&mut read).unwrap();
    assert_eq!(&read[..count], b"READY=1");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut line = || lines.next().unwrap().unwrap();
    let port = line().strip_prefix("port ").unwrap().to_owned();
    assert_eq!(line(), format!("http://127.0.0.1:{port}"));
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let count = socket.recv(&mut read).unwrap();
    assert_eq!(&read[..count], b"STOPPING=1");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn address_outside_of_loopback_is_refused_without_tls() {
    let patchbay = Patchbay::quick();
    patchbay.write("home/config/config.toml", "[serve]\nlisten = \"0.0.0.0:0\"\n");
    let ran = patchbay.run(&["serve"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("can be reached from other machines") && ran.err.contains("[config_invalid]"), "{ran:?}");
}

#[test]
fn idle_session_is_closed_and_another_process_has_it() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "idle_minutes = 0");
    let mut client = serving.client(&json!({}));
    let session = client.session(&patchbay, 1);
    assert_eq!(client.prompt(2, &session, "say One."), "end_turn");
    let exec = || patchbay.run(&["exec", "--session", &session, "say Two."]);
    assert!(exec().err.contains("session_in_use"), "a client is there");
    drop(client);
    let end = Instant::now() + PATIENCE;
    while exec().code != Some(0) {
        assert!(Instant::now() < end, "the session stays open");
    }
    // The server opens it again.
    let mut client = serving.client(&json!({}));
    assert!(said(&load(&mut client, &patchbay, &session)).contains("Two."));
}
