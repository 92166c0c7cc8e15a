//! `/v1` and the page of `patchbay serve`, and editors behind `patchbay acp --connect`.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::{
    PATIENCE,
    acp::{Peer, prompt},
    binary::Patchbay,
    serve::Serving,
};
use serde_json::{Value, json};

/// A tool call that asks the user for permission.
pub(crate) const WRITE: &str = r#"call files__write {"path": "made.txt", "text": "x"}"#;

/// A response: its status, head and body.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{} {}", self.head, self.body))
    }
}

/// Sends a request with these header lines.
pub(crate) fn send(serving: &Serving, method: &str, path: &str, headers: &str, body: &str) -> Reply {
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\nHost: {}", serving.address);
    let mut stream = serving.connect();
    write!(stream, "{head}\r\nConnection: close\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Reply { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

pub(crate) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n")
}

pub(crate) fn get(serving: &Serving, path: &str) -> Reply {
    send(serving, "GET", path, &bearer(&serving.token), "")
}

pub(crate) fn post(serving: &Serving, path: &str, body: &Value) -> Reply {
    send(serving, "POST", path, &bearer(&serving.token), &body.to_string())
}

/// Creates a session, and returns its path.
pub(crate) fn session(serving: &Serving) -> String {
    let created = post(serving, "/v1/sessions", &json!({"workspace": "workspace"}));
    assert_eq!(created.status, 201, "{}", created.body);
    format!("/v1/sessions/{}", created.json()["id"].as_str().unwrap())
}

/// Follows events until `wanted` accepts one. Returns the name, id and data of each.
pub(crate) fn follow(
    serving: &Serving,
    path: &str,
    headers: &str,
    wanted: impl Fn(&str, &Value) -> bool,
) -> Vec<(String, Option<u64>, Value)> {
    let mut stream = serving.connect();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}{}", serving.address, bearer(&serving.token));
    write!(stream, "{head}\r\n").unwrap();
    read_events(stream, wanted)
}

fn read_events(stream: TcpStream, wanted: impl Fn(&str, &Value) -> bool) -> Vec<(String, Option<u64>, Value)> {
    let (mut events, mut name, mut id, mut data) = (Vec::new(), String::new(), None, None);
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        if let Some(value) = line.strip_prefix("event: ") {
            name = value.to_owned();
        } else if let Some(value) = line.strip_prefix("id: ") {
            id = Some(value.parse().unwrap());
        } else if let Some(value) = line.strip_prefix("data: ") {
            data = Some(serde_json::from_str::<Value>(value).unwrap());
        } else if let (true, Some(data)) = (line.is_empty(), data.take()) {
            let is_last = wanted(&name, &data);
            events.push((std::mem::take(&mut name), id.take(), data));
            if is_last {
                return events;
            }
        }
    }
    panic!("the stream ended: {events:?}");
}

/// Repeats a request until `wanted` accepts the reply.
pub(crate) fn wait_for(serving: &Serving, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let reply = get(serving, path).json();
        if wanted(&reply) {
            return reply;
        }
        assert!(Instant::now() < end, "{reply}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn line_with_a_key_runs_once_also_over_a_restart() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let path = session(&serving);
    let lines = format!("{path}/lines");
    let keyed = format!("{}Idempotency-Key: build-17\r\n", bearer(&serving.token));
    let body = r#"{"text": "say Hello."}"#;
    let first = send(&serving, "POST", &format!("{lines}?wait=60"), &keyed, body);
    assert_eq!(first.status, 202, "{}", first.body);
    let first = first.json();
    assert_eq!((&first["outcome"]["status"], &first["is_repeated"]), (&json!("ok"), &json!(false)), "{first}");
    drop(serving);

    let serving = Serving::start(&patchbay, "");
    let again = send(&serving, "POST", &lines, &keyed, body).json();
    assert_eq!((&again["line"], &again["is_repeated"]), (&first["line"], &json!(true)));
    assert_eq!(again["outcome"], first["outcome"], "as it is stored");
    let other = send(&serving, "POST", &lines, &keyed, r#"{"text": "say else"}"#);
    assert_eq!(other.status, 409, "{}", other.body);
    // A repeated request also waits for the line.
    let keyed = keyed.replace("build-17", "build-18");
    let running = send(&serving, "POST", &lines, &keyed, r#"{"text": "pause 1000"}"#).json();
    let waited = send(&serving, "POST", &format!("{lines}?wait=60"), &keyed, r#"{"text": "pause 1000"}"#).json();
    assert_eq!((&waited["line"], &waited["outcome"]["status"]), (&running["line"], &json!("ok")), "{waited}");
    let shown = patchbay.run(&["sessions", "show", path.rsplit('/').next().unwrap()]).out;
    assert_eq!(shown.matches("> say Hello.").count(), 1, "{shown}");
}

/// After a day, a key may name another line. If the server is killed before that line has a row, the line runs when it is sent
/// again.
#[test]
fn key_used_again_after_a_day_runs_its_new_line() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let lines = format!("{}/lines?wait=60", session(&serving));
    let sent = |serving: &Serving, text: &str| {
        let keyed = format!("{}Idempotency-Key: daily\r\n", bearer(&serving.token));
        let reply = send(serving, "POST", &lines, &keyed, &json!({"text": text}).to_string()).json();
        (reply["is_repeated"].clone(), reply["outcome"]["message"].clone())
    };
    let change = |sql: &str| {
        let database = patchbay.database("patchbay.db");
        assert_eq!(database.execute(sql, []).unwrap(), 1);
    };
    assert_eq!(sent(&serving, "say First."), (json!(false), json!("First.")));
    drop(serving);
    // A day later, the server was killed before the line had a row.
    let line = patchbay_core::LineId::from_bytes([7; 16]);
    change(&format!("UPDATE sent_lines SET line = '{line}'"));
    let serving = Serving::start(&patchbay, "");
    assert_eq!(sent(&serving, "say First."), (json!(false), json!("First.")), "it did not run");
    assert_eq!(sent(&serving, "say First."), (json!(true), json!("First.")));
    drop(serving);
    change("UPDATE sent_lines SET created_at = created_at - 86400");
    let serving = Serving::start(&patchbay, "");
    assert_eq!(sent(&serving, "say Second."), (json!(false), json!("Second.")));
    assert_eq!(sent(&serving, "say Second."), (json!(true), json!("Second.")));
}

/// A key returns how its line ended, failed or was interrupted. If the line has not run yet, it runs.
#[test]
fn repeated_line_has_the_stored_outcome() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let lines = format!("{}/lines", session(&serving));
    let sent = |serving: &Serving, key: &str, text: &str, wait: u32| {
        let keyed = format!("{}Idempotency-Key: {key}\r\n", bearer(&serving.token));
        let reply = send(serving, "POST", &format!("{lines}?wait={wait}"), &keyed, &json!({"text": text}).to_string());
        assert_eq!(reply.status, 202, "{}", reply.body);
        reply.json()
    };
    let ended = [("a", "/calc 6 * 7"), ("b", "say Hello."), ("c", "fail invalid-request never"), ("d", "/nonsense")];
    let first = ended.map(|(key, text)| sent(&serving, key, text, 60)["outcome"].clone());
    sent(&serving, "e", "say Half.\npause 60000", 0);
    sent(&serving, "f", "say After.", 0);
    let id = lines.split('/').nth(3).unwrap();
    wait_for(&serving, &format!("/v1/sessions/{id}"), |state| state["waiting"][0] == "say After.");
    // The server is killed in the turn of the fifth line, while the sixth waits.
    drop(serving);
    let serving = Serving::start(&patchbay, "");
    for ((key, text), first) in ended.iter().zip(&first) {
        let again = sent(&serving, key, text, 0);
        assert_eq!(again["is_repeated"], true, "{again}");
        for member in ["status", "code", "message"] {
            assert_eq!(again["outcome"][member], first[member], "{again}");
        }
    }
    let interrupted = sent(&serving, "e", "say Half.\npause 60000", 60);
    assert_eq!(interrupted["outcome"]["code"], "turn_interrupted", "{interrupted}");
    let waited = sent(&serving, "f", "say After.", 60);
    // The model also echoes the previous message, which has no answer.
    assert_eq!(waited["outcome"]["message"], "Half.\nAfter.", "{waited}");
    let again = sent(&serving, "f", "say After.", 60);
    assert_eq!((&again["line"], &again["outcome"]), (&waited["line"], &waited["outcome"]));
    let shown = patchbay.run(&["sessions", "show", id]).out;
    assert_eq!(shown.matches("> say After.").count(), 1, "{shown}");
}

#[test]
fn events_continue_after_the_last_id() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let path = session(&serving);
    let events = format!("{path}/events");
    let sent = post(&serving, &format!("{path}/lines"), &json!({"text": "say One."})).json();
    let is_end = |name: &str, data: &Value| name == "line" && data["line"] == sent["line"];
    let seen = follow(&serving, &format!("{events}?after={}", sent["after"]), "", is_end);
    let rows: Vec<u64> = seen.iter().filter_map(|(_, id, _)| *id).collect();
    assert_eq!(rows, (1..=*rows.last().unwrap()).collect::<Vec<_>>());
    assert!(seen.iter().any(|(_, _, data)| data["kind"] == "assistant" && data["content"] == "One."), "{seen:?}");
    let stored = patchbay.run(&["sessions", "show", path.rsplit('/').next().unwrap(), "--json"]).out;
    let stored: Vec<Value> = stored.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown: Vec<&Value> = seen.iter().filter(|(_, id, _)| id.is_some()).map(|(_, _, data)| data).collect();
    assert_eq!(shown, stored.iter().collect::<Vec<_>>(), "the JSON of the command line");

    let last = *rows.last().unwrap();
    let headers = format!("Last-Event-ID: {}\r\n", last - 1);
    let rest = follow(&serving, &format!("{events}?after=0"), &headers, |_, data| data["event"] == "message");
    assert_eq!(rest.iter().filter_map(|(_, id, _)| *id).collect::<Vec<_>>(), [last]);
    assert_eq!(
        send(&serving, "GET", &events, &format!("{}Last-Event-ID: x\r\n", bearer(&serving.token)), "").status,
        400
    );
}

#[test]
fn question_is_answered_once_and_a_removed_token_ends_its_stream() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let path = session(&serving);
    post(&serving, &format!("{path}/lines"), &json!({"text": WRITE}));
    let open = wait_for(&serving, &format!("{path}/questions"), |open| open["questions"][0].is_object());
    let question = &open["questions"][0];
    assert!(question["diff"].as_str().unwrap().contains('x'), "{question}");
    let answer = format!("{path}/questions/{}", question["id"]);
    let reader = patchbay.run(&["token", "add", "reader", "--may", "lines"]).out;
    let refused = send(&serving, "POST", &answer, &bearer(reader.trim()), r#"{"answer": "once"}"#);
    assert_eq!(refused.status, 403);
    let always = post(&serving, &answer, &json!({"answer": "always"}));
    assert_eq!((always.status, &always.json()["error"]["code"]), (403, &json!("token_right")), "{}", always.body);
    assert_eq!(post(&serving, &answer, &json!({"answer": "maybe"})).status, 400);
    assert_eq!(post(&serving, &answer, &json!({"answer": "once"})).status, 200);
    let twice = post(&serving, &answer, &json!({"answer": "no"}));
    assert_eq!((twice.status, &twice.json()["error"]["code"]), (409, &json!("question_closed")));
    wait_for(&serving, &path, |state| state["is_running"] == false);
    assert_eq!(fs::read_to_string(patchbay.workspace().join("made.txt")).unwrap(), "x");
    let journal = get(&serving, "/v1/journal").json();
    assert!(journal["rows"].as_array().unwrap().iter().any(|row| row["tool"] == "write"), "{journal}");

    let mut stream = serving.connect();
    let head = format!("GET {path}/events HTTP/1.1\r\nHost: {}\r\n{}", serving.address, bearer(reader.trim()));
    write!(stream, "{head}Connection: close\r\n\r\n").unwrap();
    patchbay.run(&["token", "remove", "reader"]);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("HTTP/1.1 200"), "{rest}");
}

#[test]
fn client_that_leaves_does_not_spoil_its_key() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let lines = format!("{}/lines", session(&serving));
    let body = r#"{"text": "/mode"}"#;
    for number in 0..40 {
        let keyed = format!("{}Idempotency-Key: cut-{number}\r\n", bearer(&serving.token));
        let mut stream = serving.connect();
        let head = format!("POST {lines} HTTP/1.1\r\nHost: {}\r\n{keyed}", serving.address);
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        thread::sleep(Duration::from_micros(number * 100));
        drop(stream);
        thread::sleep(Duration::from_millis(50));
        let again = send(&serving, "POST", &lines, &keyed, body);
        assert_eq!(again.status, 202, "{}", again.body);
    }
}

#[test]
fn sockets_without_a_token_take_no_permit_and_cut_no_stream() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "connections = 4");
    let path = session(&serving);
    let mut stream = serving.connect();
    let (address, token) = (&serving.address, bearer(&serving.token));
    write!(stream, "GET {path}/events?after=0 HTTP/1.1\r\nHost: {address}\r\n{token}\r\n").unwrap();
    let mut status = [0; 15];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200 OK");
    let half = format!("POST /open HTTP/1.1\r\nHost: {address}\r\nContent-Length: 10\r\n\r\n{{");
    let _half: Vec<TcpStream> =
        (0..80).map(|_| serving.connect()).inspect(|mut stream| stream.write_all(half.as_bytes()).unwrap()).collect();
    assert_eq!(post(&serving, &format!("{path}/lines"), &json!({"text": "say One."})).status, 202);
    read_events(stream, |_, data| data["kind"] == "assistant");
}

#[test]
fn sockets_without_a_tls_handshake_are_bounded() {
    let patchbay = Patchbay::quick();
    let file = |name: &str| json!(format!("{}/../host/serve/src/tls/{name}.pem", env!("CARGO_MANIFEST_DIR")));
    let tls = format!("tls_cert = {}\ntls_key = {}", file("test-cert"), file("test-key"));
    let serving = Serving::start(&patchbay, &tls);
    let open: Vec<TcpStream> = (0..70).map(|_| serving.connect()).collect();
    let mut first = &open[0];
    // Shorter than the time limit of a handshake.
    first.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
    assert_eq!(first.read(&mut [0]).unwrap(), 0, "the socket that was idle longest is closed");
}

#[test]
fn question_of_another_session_has_another_id() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let [first, second] = [(); 2].map(|()| {
        let path = session(&serving);
        post(&serving, &format!("{path}/lines"), &json!({"text": WRITE}));
        let open = wait_for(&serving, &format!("{path}/questions"), |open| open["questions"][0].is_object());
        open["questions"][0]["id"].as_u64().unwrap()
    });
    assert_ne!(first, second);
    assert!(first < 1 << 53, "JavaScript reads it exactly");
}

#[test]
fn clients_are_told_of_lines_over_http_and_stop_their_own_prompts_alone() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let mut editor = serving.client(&json!({"session": {"notices": {}}}));
    let id = editor.session(&patchbay, 1);
    let lines = format!("/v1/sessions/{id}/lines");
    post(&serving, &format!("{lines}?wait=60"), &json!({"text": "/mode edits"}));
    let told = editor.until(|message| message["params"]["update"]["sessionUpdate"] == "notice");
    assert_eq!(told["params"]["update"]["title"], "first: /mode edits");
    // The editor's prompt waits for the line of another client, which continues.
    let keyed = format!("{}Idempotency-Key: long\r\n", bearer(&serving.token));
    send(&serving, "POST", &lines, &keyed, r#"{"text": "pause 1500"}"#);
    wait_for(&serving, &format!("/v1/sessions/{id}"), |state| state["is_running"] == true);
    editor.request(2, "session/prompt", prompt(&id, "say Later."));
    wait_for(&serving, &format!("/v1/sessions/{id}"), |state| state["waiting"][0] == "say Later.");
    editor.notify("$/cancel_request", json!({"requestId": 2}));
    let ended = send(&serving, "POST", &format!("{lines}?wait=60"), &keyed, r#"{"text": "pause 1500"}"#).json();
    assert_eq!(ended["outcome"]["status"], "ok", "{ended}");
    assert!(editor.until(|message| message["id"] == 2)["error"].is_object());
}

#[test]
fn line_can_be_stopped_while_the_server_drains() {
    let patchbay = Patchbay::quick();
    let mut serving = Serving::start(&patchbay, "");
    let path = session(&serving);
    post(&serving, &format!("{path}/lines"), &json!({"text": "pause 60000"}));
    wait_for(&serving, &path, |state| state["is_running"] == true);
    assert!(Command::new("kill").args(["-TERM", &serving.child.id().to_string()]).status().unwrap().success());
    let end = Instant::now() + PATIENCE;
    while serving.raw("GET /readyz HTTP/1.1").starts_with("HTTP/1.1 200") {
        assert!(Instant::now() < end, "the server does not drain");
    }
    let refused = post(&serving, &format!("{path}/lines"), &json!({"text": "say no"}));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (503, &json!("server_draining")));
    assert_eq!(post(&serving, &format!("{path}/stop"), &json!({})).json()["stopped"], 1);
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
}

#[test]
fn page_opens_by_a_link_and_shows_text_inert() {
    let patchbay = Patchbay::quick();
    let (serving, link) = Serving::start_open(&patchbay);
    let (_, code) = link.split_once("/open#").unwrap();
    let origin = format!("Origin: http://{}\r\nContent-Type: application/json\r\n", serving.address);
    let body = json!({"code": code}).to_string();
    let opened = send(&serving, "POST", "/open", &origin, &body);
    assert_eq!(opened.status, 200, "{}", opened.body);
    assert!(opened.head.contains("httponly; samesite=strict"), "{}", opened.head);
    assert_eq!(send(&serving, "POST", "/open", &origin, &body).status, 403, "a link works once");
    let cookie = opened.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());

    let path = session(&serving);
    let hostile = "say Hi <script>alert(1)</script> [a](javascript:alert(1)) ![b](data:image/png;base64,x) **bold**";
    post(&serving, &format!("{path}/lines?wait=60"), &json!({"text": hostile}));
    let page = send(&serving, "GET", &path.replace("/v1", ""), &cookie, "");
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(page.head.contains("content-security-policy: default-src 'self'"), "{}", page.head);
    assert!(page.body.contains("&lt;script&gt;alert(1)&lt;/script&gt; a b <strong>bold</strong>"), "{}", page.body);
    for inert in ["<script>", "href=\"javascript", "<img", "onclick", "style=\""] {
        assert!(!page.body.contains(inert), "{inert}: {}", page.body);
    }
    assert!(send(&serving, "GET", "/", &cookie, "").body.contains("workspace"));
    assert_eq!(send(&serving, "GET", "/usage", &cookie, "").status, 200);

    // A change requires the page's own origin, and reading requires the cookie.
    let lines = format!("{path}/lines");
    let typed = format!("{cookie}Content-Type: application/json\r\n");
    assert_eq!(send(&serving, "POST", &lines, &typed, r#"{"text": "say no"}"#).status, 401);
    let foreign = format!("{typed}Origin: http://evil.example\r\n");
    assert_eq!(send(&serving, "POST", &lines, &foreign, r#"{"text": "say no"}"#).status, 403);
    assert_eq!(send(&serving, "POST", &lines, &format!("{cookie}{origin}"), r#"{"text": "say yes"}"#).status, 202);
    assert_eq!(send(&serving, "GET", "/", "", "").status, 401);
    let listed = patchbay.run(&["token", "list"]).out;
    let browser = listed.lines().find(|line| line.starts_with("browser-")).unwrap();
    patchbay.run(&["token", "remove", browser.split(' ').next().unwrap()]);
    assert_eq!(send(&serving, "GET", "/", &cookie, "").status, 401);
}

#[test]
fn editor_behind_the_bridge_works_on_the_server() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let editor = Patchbay::blank();
    editor.write("token", format!("{}\n", serving.token));
    let (url, file) = (format!("ws://{}", serving.address), editor.folder().join("token"));
    let workspace = patchbay.workspace();
    let arguments =
        ["acp", "--connect", &url, "--workspace", workspace.to_str().unwrap(), "--token-file", file.to_str().unwrap()];
    let mut peer = Peer::start_with(&editor, &arguments);
    peer.initialize(&json!({}));
    let session = peer.session(&editor, 1);
    let said = peer.say(2, &session, json!([{"type": "text", "text": "say Hello."}]));
    assert_eq!(said.trim(), "Hello.");
    peer.request(3, "session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": WRITE}]}));
    let asked = peer.asked("session/request_permission");
    let diff = &asked["params"]["toolCall"]["content"][1];
    let here = editor.workspace().join("made.txt");
    assert_eq!((&diff["newText"], &diff["path"]), (&json!("x"), &json!(here)), "{asked}");
    assert_eq!(peer.leave(), Some(0));
    let elsewhere = editor.run(&[
        "acp",
        "--connect",
        "ws://127.0.0.1:9",
        "--workspace",
        "x",
        "--token-file",
        file.to_str().unwrap(),
    ]);
    assert!(
        elsewhere.err.contains("cannot reach ws://127.0.0.1:9/acp") && elsewhere.err.contains("[server_unreachable]"),
        "{}",
        elsewhere.err
    );
    assert!(!elsewhere.err.contains(&serving.token));
}
