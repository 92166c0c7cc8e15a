//! Clients of `patchbay acp` that break the protocol. Each gets an error or a clean end, memory stays bounded, and answers that
//! were sent are stored.

use std::{
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::{
    PATIENCE,
    acp::{Peer, in_workspace, prompt},
    binary::Patchbay,
};
use serde_json::{Value, json};

/// How much memory a process may use in addition to its memory at startup, in bytes: twice the longest line that is accepted.
const MEMORY: u64 = 160 << 20;
/// How long the process must neither read nor allocate to count as blocked.
const STILL: Duration = Duration::from_secs(3);

/// Waits for the session of a client that does not read, and returns its id. A session with the message
/// `say Compiled.` exists already.
fn new_session(patchbay: &Patchbay) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(line) = patchbay.run(&["sessions", "--json"]).out.lines().find(|line| !line.contains("Compiled")) {
            let row: Value = serde_json::from_str(line).unwrap();
            return row["id"].as_str().unwrap().to_owned();
        }
        assert!(Instant::now() < end, "the session is made");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn lines_that_are_no_messages_are_refused() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    for line in [&b"{\"jsonrpc\":\"2.0\",\"id\":\n"[..], b"no JSON\n", b"\xff\xfe\n", b"{}{}\n"] {
        peer.send(line);
        peer.assert_error(Value::Null, -32700);
    }
    // Nested more deeply than any parser should follow.
    peer.send(&[b"[".repeat(1 << 20), b"\n".to_vec()].concat());
    let answer = peer.answer();
    assert!([-32700, -32600].map(Value::from).contains(&answer["error"]["code"]), "{answer}");
    for line in ["1\n", "null\n", "[]\n", "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/list\"}]\n", "{}\n"] {
        peer.send(line.as_bytes());
        peer.assert_error(Value::Null, -32600);
    }
    peer.send(b"\n\r\n   \n");
    // Responses to requests that were never sent.
    peer.send(b"{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":1,\"message\":\"m\"}}\n");
    peer.assert_still_works();
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn half_a_line_and_the_end_of_input_end_the_process() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    assert_eq!(peer.prompt(2, &session, "say Kept."), "end_turn");
    peer.send(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"session/pro");
    assert_eq!(peer.leave(), Some(0));
    assert!(patchbay.run(&["exec", "--session", &session, "/history"]).out.contains("Kept."));
}

#[test]
fn line_of_100_megabytes_is_refused_in_bounded_memory() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let before = peer.peak_memory();
    peer.send(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/prompt\",\"params\":{\"x\":\"");
    for _ in 0..100 {
        peer.send(&vec![b'x'; 1 << 20]);
    }
    peer.send(b"\"}}\n");
    peer.assert_error(Value::Null, -32600);
    peer.assert_still_works();
    let used = peer.peak_memory() - before;
    assert!(used < MEMORY, "{used} bytes");
    // None of these lines ends.
    for _ in 0..100 {
        peer.send(&vec![b' '; 1 << 20]);
    }
    let used = peer.peak_memory() - before;
    assert!(used < MEMORY, "{used} bytes");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn unknown_methods_and_versions_are_answered() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::start(&patchbay);
    peer.request(1, "initialize", json!({"protocolVersion": "one"}));
    peer.assert_error(1, -32602);
    let answer = peer.call(2, "initialize", json!({"protocolVersion": 65535, "clientCapabilities": {"later": [1]}}));
    assert_eq!(answer["result"]["protocolVersion"], 1);
    for method in ["session/unheard_of", "_patchbay/x", "", "fs/read_text_file"] {
        peer.request("text id", method, json!({}));
        peer.assert_error("text id", -32601);
    }
    peer.send(b"{\"jsonrpc\":\"2.0\",\"method\":\"session/unheard_of\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"_x\",\"params\":[1]}\n");
    for (method, params) in [
        ("session/new", json!({"cwd": "relative", "mcpServers": []})),
        ("session/new", json!({"cwd": 5, "mcpServers": []})),
        ("session/new", json!([])),
        ("session/prompt", json!({})),
        ("session/prompt", Value::Null),
    ] {
        peer.request(3, method, params);
        peer.assert_error(3, -32602);
    }
    peer.assert_still_works();
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn calls_before_initialize_are_refused() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::start(&patchbay);
    for method in ["session/new", "session/prompt", "session/list", "session/load"] {
        peer.request(1, method, json!({"cwd": patchbay.workspace(), "mcpServers": [], "sessionId": "x"}));
        peer.assert_error(1, -32600);
    }
    peer.send(b"{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"x\"}}\n");
    peer.call(2, "initialize", json!({"protocolVersion": 1}));
    peer.request(3, "initialize", json!({"protocolVersion": 1}));
    peer.assert_error(3, -32600);
    peer.assert_still_works();
    assert!(patchbay.run(&["sessions", "--all", "--json"]).out.is_empty());
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn repeated_id_is_refused_while_its_request_is_open() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    peer.request(2, "session/prompt", prompt(&session, "hang"));
    peer.request(2, "session/list", json!({}));
    peer.assert_error(2, -32600);
    peer.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(peer.answer()["result"]["stopReason"], "cancelled");
    // The id may be used again.
    assert_eq!(peer.prompt(2, &session, "say Again."), "end_turn");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn flood_of_requests_is_bounded() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    let before = peer.peak_memory();
    peer.request(2, "session/prompt", prompt(&session, "hang"));
    for id in 0..5_000 {
        peer.request(10 + id, "session/prompt", prompt(&session, &format!("say {}", "x".repeat(1_000))));
    }
    let used = peer.peak_memory() - before;
    assert!(used < MEMORY, "{used} bytes");
    peer.notify("session/cancel", json!({"sessionId": session}));
    // Each request gets exactly one response.
    let mut answered: Vec<_> = (0..5_001).map(|_| peer.answer()["id"].as_i64().unwrap()).collect();
    answered.sort_unstable();
    let expected: Vec<_> = [2].into_iter().chain(10..5_010).collect();
    assert_eq!(answered, expected);
    assert_eq!(peer.prompt(3, &session, "say Still here."), "end_turn");
    assert_eq!(peer.leave(), Some(0));
}

/// Asserts that a client that sends requests and reads nothing costs little memory. `request` returns the method and the parameters
/// for its session; `delay_ms` is the time between two words of the model.
fn assert_unread_answers_are_bounded(delay_ms: u32, request: fn(&str) -> (&'static str, Value)) {
    let patchbay = Patchbay::new();
    let config = format!("[providers.demo]\noptions = {{ delay-ms = \"{delay_ms}\" }}\n");
    patchbay.write("home/config/config.toml", config);
    // A first run compiles all components.
    assert_eq!(patchbay.run(&["exec", "say Compiled."]).code, Some(0));
    let mut peer = Peer::deaf(&patchbay);
    peer.request(0, "initialize", json!({"protocolVersion": 1}));
    peer.request(1, "session/new", in_workspace(&patchbay));
    let session = new_session(&patchbay);
    let before = peer.peak_memory();
    peer.request(2, "session/prompt", prompt(&session, "repeat 900000 wordword"));
    // If the pipe is full, this waits until the process has exited.
    let mut input = peer.input.take().unwrap();
    let (method, params) = request(&session);
    let sent = Arc::new(AtomicU32::new(0));
    let progress = Arc::clone(&sent);
    let writer = thread::spawn(move || {
        for id in 3..20_000 {
            let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string() + "\n";
            if input.write_all(line.as_bytes()).is_err() {
                return;
            }
            progress.store(id, Ordering::Relaxed);
        }
    });
    let end = Instant::now() + Duration::from_secs(20);
    let (mut last, mut since) = ((0, 0), Instant::now());
    while Instant::now() < end && since.elapsed() < STILL && peer.child.try_wait().unwrap().is_none() {
        let used = peer.peak_memory().saturating_sub(before);
        assert!(used < MEMORY, "{used} bytes");
        let now = (sent.load(Ordering::Relaxed), used);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        thread::sleep(Duration::from_millis(200));
    }
    // The client goes away: nothing reads its output any more, and its input closes with the writer.
    drop(peer.unread.take());
    peer.wait();
    writer.join().unwrap();
    // The rows before the end are stored, and the session is not locked.
    let history = patchbay.run(&["exec", "--session", &session, "/history"]);
    assert!(history.code == Some(0) && history.out.contains("repeat 900000 wordword"), "{history:?}");
}

#[test]
fn client_that_never_reads_costs_bounded_memory() {
    assert_unread_answers_are_bounded(0, |_| ("session/list", json!({})));
}

#[test]
fn large_prompts_of_a_client_that_never_reads_are_bounded() {
    // With a delay, each word is an update. The session soon waits for the client, and the prompts wait for the session.
    assert_unread_answers_are_bounded(1, |session| {
        let image = json!({"type": "image", "mimeType": "image/png", "data": "A".repeat(12 << 20)});
        ("session/prompt", json!({"sessionId": session, "prompt": [image]}))
    });
}

#[test]
fn client_that_never_reads_and_ends_its_input_ends_the_process() {
    let patchbay = Patchbay::quick();
    assert_eq!(patchbay.run(&["exec", "say Compiled."]).code, Some(0));
    let mut peer = Peer::deaf(&patchbay);
    peer.request(0, "initialize", json!({"protocolVersion": 1}));
    peer.request(1, "session/new", in_workspace(&patchbay));
    let session = new_session(&patchbay);
    peer.request(2, "session/prompt", prompt(&session, "repeat 900000 wordword"));
    let end = Instant::now() + Duration::from_secs(60);
    while !patchbay.stored_messages(&session).iter().any(|(_, _, text)| text.starts_with("repeat 900000")) {
        assert!(Instant::now() < end, "the prompt is not stored");
        thread::sleep(Duration::from_millis(20));
    }
    // The answer fills the pipe. Only as many requests as may wait are sent, because a client that sends more is disconnected after
    // a minute.
    for id in 3..200 {
        peer.request(id, "session/list", json!({}));
    }
    let unread = peer.unread.take();
    let began = Instant::now();
    assert_eq!(peer.leave(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    drop(unread);
    let history = patchbay.run(&["exec", "--session", &session, "/history"]);
    assert!(history.code == Some(0) && history.out.contains("repeat 900000 wordword"), "{history:?}");
}

#[test]
fn client_that_leaves_loses_nothing() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    assert_eq!(peer.prompt(2, &session, "say First."), "end_turn");
    peer.request(3, "session/prompt", prompt(&session, "say Half\nhang"));
    peer.until(|message| message.to_string().contains("Half"));
    assert_eq!(peer.leave(), Some(0));
    let history = patchbay.run(&["exec", "--session", &session, "/history"]).out;
    assert!(history.contains("First.") && history.contains("Half"), "{history}");
}

#[test]
fn sessions_that_are_opened_at_once_are_limited() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    // A session that cannot be opened does not count towards the limit.
    for id in 1_000..1_300 {
        peer.request(id, "session/new", json!({"cwd": patchbay.workspace().join("missing"), "mcpServers": []}));
    }
    assert!((0..300).all(|_| peer.answer()["error"].is_object()));
    for id in 1..=300 {
        peer.request(id, "session/new", in_workspace(&patchbay));
    }
    let answers: Vec<Value> = (0..300).map(|_| peer.answer()).collect();
    let (opened, refused): (Vec<&Value>, Vec<&Value>) = answers.iter().partition(|answer| answer["result"].is_object());
    assert_eq!(opened.len(), 256);
    let message = "256 sessions are open; close one with session/close.";
    assert!(refused.iter().all(|answer| answer["error"]["message"] == message), "{refused:?}");
    // Closing a session allows another one.
    let closed = peer.call(301, "session/close", json!({"sessionId": opened[0]["result"]["sessionId"]}));
    assert!(closed["result"].is_object(), "{closed}");
    peer.session(&patchbay, 302);
    assert_eq!(peer.leave(), Some(0));
}
