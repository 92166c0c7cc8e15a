//! `patchbay mcp --http`: which requests are answered, with and without a handshake, and its limits.

use std::{
    io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use patchbay_tests::{answers::json_lines, binary::Patchbay, guest::Guest};
use serde_json::{Value, json};

struct Serving {
    server: Child,
    address: String,
    authorization: String,
}

struct HttpAnswer {
    status: u16,
    head: String,
    body: String,
}

impl HttpAnswer {
    /// Returns the last message of the body: the body itself, or the last event of a stream.
    fn message(&self) -> Value {
        let mut events = self.body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
        let last = events.rfind(|data| !data.is_empty()).unwrap_or(&self.body);
        serde_json::from_str(last).unwrap_or_else(|_| panic!("{} {}", self.status, self.body))
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Serving {
    fn start(patchbay: &Patchbay) -> Self {
        let mut server = patchbay.command(&["mcp", "--http"]).stderr(Stdio::inherit()).spawn().unwrap();
        let mut output = BufReader::new(server.stdout.take().unwrap());
        let mut line = || {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let (url, authorization) = (line(), line());
        let address = url.strip_prefix("http://").and_then(|url| url.strip_suffix("/mcp")).expect("a URL").to_owned();
        assert!(address.starts_with("127.0.0.1:"), "{url}");
        Self { server, address, authorization }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends a request with these headers, plus `Host`, `Connection: close` and the length of the body.
    fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> HttpAnswer {
        let mut stream = self.connect();
        let mut head = format!("{method} /mcp HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        // A server that refuses a request by its head closes the connection before the whole body has arrived.
        let _ = stream.write_all(format!("{head}\r\n{body}").as_bytes());
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        HttpAnswer { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// Posts a message with the token.
    fn post(&self, headers: &[(&str, &str)], message: &Value) -> HttpAnswer {
        self.post_text(headers, &message.to_string())
    }

    fn post_text(&self, headers: &[(&str, &str)], body: &str) -> HttpAnswer {
        let token = self.authorization.strip_prefix("Authorization: ").unwrap();
        let usual = [
            ("Authorization", token),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        self.send("POST", &[&usual, headers].concat(), body)
    }

    /// Begins a session with revision 2025-11-25, and returns its id.
    fn session(&self, name: &str) -> String {
        let answer = self.post(&[], &initialize(name));
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.header("Mcp-Session-Id").expect("an id").to_owned()
    }

    /// Opens the event stream of a session, and waits until it has begun.
    fn events(&self, session: &str) -> TcpStream {
        let Self { address, authorization, .. } = self;
        let mut events = self.connect();
        let head = format!(
            "GET /mcp HTTP/1.1\r\nHost: {address}\r\n{authorization}\r\nAccept: text/event-stream\r\n\
             Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n\r\n"
        );
        events.write_all(head.as_bytes()).unwrap();
        let mut status = [0; 12];
        events.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
        events
    }

    /// Lists the tools in a session. Returns the status.
    fn list(&self, session: &str) -> u16 {
        let headers = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")];
        self.post(&headers, &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).status
    }

    /// Calls a tool in a session.
    fn call(&self, session: &str, tool: &str, input: Value) -> Value {
        let message =
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": input}});
        let headers = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")];
        let answer = self.post(&headers, &message);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.message()
    }

    fn stop(mut self) {
        #[cfg(unix)]
        {
            let process = self.server.id().to_string();
            assert!(std::process::Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
            assert_eq!(self.server.wait().unwrap().code(), Some(0));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Returns the request with which the client `name` begins a session.
pub(crate) fn initialize(name: &str) -> Value {
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

/// Sends a request of revision 2026-07-28, which needs no handshake.
fn modern(serving: &Serving, name: &str, tool: &str, input: Value) -> HttpAnswer {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": name, "version": "2"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": tool, "arguments": input, "_meta": meta});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
    serving.post(&headers, &message)
}

/// Returns whether the server has closed a connection. Waits as long as reading from `stream` does.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        // A reset, for example.
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

fn rows(patchbay: &Patchbay) -> Vec<Value> {
    json_lines(&patchbay.run(&["journal", "--json"]).out)
}

#[test]
fn each_connection_has_a_session() {
    let patchbay = Patchbay::new();
    let serving = Serving::start(&patchbay);
    // Neither the check at startup nor a client that calls nothing leaves a session.
    let (one, two) = (serving.session("one"), serving.session("two"));
    assert_eq!(patchbay.run(&["sessions", "--all", "--json"]).out, "");
    for (session, expr) in [(&one, "1+1"), (&two, "2+2"), (&one, "3+3")] {
        assert_eq!(serving.call(session, "calc__eval", json!({"expression": expr}))["result"]["isError"], false);
    }
    // A later connection sees new skills, an earlier one does not.
    patchbay.add_command("later", &Guest::default(), "");
    assert_eq!(serving.call(&one, "later__run", json!({}))["error"]["code"], -32602);
    assert_eq!(serving.call(&serving.session("three"), "later__run", json!({}))["result"]["isError"], false);
    let token = serving.authorization.strip_prefix("Authorization: ").unwrap();
    let ended = serving.send("DELETE", &[("Authorization", token), ("Mcp-Session-Id", &one)], "");
    assert!((200..300).contains(&ended.status), "{}", ended.status);
    assert_eq!(serving.list(&one), 404);
    serving.stop();
    let rows = rows(&patchbay);
    let of =
        |asker: &str| rows.iter().filter(|row| row["asker"] == asker).map(|row| &row["session"]).collect::<Vec<_>>();
    let (one, two) = (of("mcp:one"), of("mcp:two"));
    assert!(one.len() == 2 && one[0] == one[1] && two.len() == 1 && one[0] != two[0], "{rows:?}");
}

#[test]
fn client_without_a_handshake_has_one_session() {
    let patchbay = Patchbay::new();
    let serving = Serving::start(&patchbay);
    for _ in 0..2 {
        let answer = modern(&serving, "modern", "calc__eval", json!({"expression": "1+1"}));
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.header("Mcp-Session-Id"), None);
        assert_eq!(answer.message()["result"]["isError"], false, "{}", answer.body);
    }
    modern(&serving, "other", "calc__eval", json!({"expression": "1+1"}));
    serving.stop();
    let rows = rows(&patchbay);
    let of =
        |asker: &str| rows.iter().filter(|row| row["asker"] == asker).map(|row| &row["session"]).collect::<Vec<_>>();
    let (modern, other) = (of("mcp:modern"), of("mcp:other"));
    assert!(modern.len() == 2 && modern[0] == modern[1] && other.len() == 1 && modern[0] != other[0], "{rows:?}");
}

#[test]
fn requests_without_token_or_with_a_foreign_name_are_refused() {
    let patchbay = Patchbay::new();
    let serving = Serving::start(&patchbay);
    let token = serving.authorization.strip_prefix("Authorization: ").unwrap();
    let initialize = initialize("x").to_string();
    let with = |headers: &[(&str, &str)]| serving.send("POST", headers, &initialize).status;
    assert_eq!(with(&[]), 401);
    assert_eq!(with(&[("Authorization", "Bearer 0000")]), 401);
    assert_eq!(with(&[("Authorization", token), ("Host", "evil.example")]), 421);
    assert_eq!(with(&[("Authorization", token), ("Origin", "http://evil.example")]), 403);
    assert_eq!(with(&[("Authorization", token), ("Origin", "null")]), 403);
    let refused = serving.send("GET", &[], "");
    assert_eq!((refused.status, refused.header("WWW-Authenticate")), (401, Some("Bearer")));
    assert!(!refused.body.contains(&token["Bearer ".len()..]));
    assert_eq!(serving.post(&[], &self::initialize("y")).status, 200);
    // The token is in no file: neither in the log nor in a database.
    serving.stop();
}

#[test]
fn connection_of_a_refused_request_is_closed() {
    let patchbay = Patchbay::new();
    let serving = Serving::start(&patchbay);
    let own = format!("Host: {}", serving.address);
    let cases = [
        ("401", own.clone()),
        ("403", format!("{own}\r\nOrigin: http://evil.example")),
        ("421", "Host: evil.example".to_owned()),
    ];
    for (status, headers) in cases {
        let mut stream = serving.connect();
        stream.write_all(format!("GET /mcp HTTP/1.1\r\n{headers}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let is_expected =
            answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains("\r\nconnection: close\r\n");
        assert!(is_expected, "{answer}");
    }
    serving.stop();
}

#[test]
fn connection_takes_several_requests() {
    let patchbay = Patchbay::new();
    let serving = Serving::start(&patchbay);
    let Serving { address, authorization, .. } = &serving;
    let body = initialize("c").to_string();
    let request = |connection: &str| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\n{authorization}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nConnection: {connection}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let mut stream = serving.connect();
    stream.write_all(format!("{}{}", request("keep-alive"), request("close")).as_bytes()).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 2, "{answers}");
    serving.stop();
}

#[test]
fn idle_connections_do_not_keep_clients_out() {
    let patchbay = Patchbay::new();
    let serving = Serving::start(&patchbay);
    let mut events = serving.events(&serving.session("one"));
    // Three times as many connections as may be idle. Half of them send part of a head.
    let mut idle: Vec<_> = (0..200).map(|_| serving.connect()).collect();
    for stream in idle.iter_mut().skip(1).step_by(2) {
        // An error means that the connection is closed.
        let _ = stream.write_all(b"GET /mcp");
    }
    serving.session("two");
    assert!(is_closed(&mut idle[0]), "it was idle longest");
    events.set_nonblocking(true).unwrap();
    assert!(!is_closed(&mut events), "a stream of events is not idle");
    serving.stop();
}

#[test]
fn token_is_in_no_file() {
    let patchbay = Patchbay::new();
    let serving = Serving::start(&patchbay);
    let session = serving.session("c");
    serving.call(&session, "calc__eval", json!({"expression": "1"}));
    let token = serving.authorization.rsplit(' ').next().unwrap().to_owned();
    serving.stop();
    patchbay_tests::home::assert_in_no_file(&patchbay.home(), &[token]);
}

#[test]
fn bad_requests_are_answered_and_change_nothing() {
    let patchbay = Patchbay::new();
    let serving = Serving::start(&patchbay);
    let session = serving.session("c");
    let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
    for body in ["", "{nonsense", "[]", "3", "{}", "{\"jsonrpc\": \"2.0\", \"id\""] {
        let status = serving.post_text(&headers, body).status;
        assert!((400..500).contains(&status), "{body}: {status}");
    }
    assert_eq!(serving.post_text(&headers, &" ".repeat((4 << 20) + 1)).status, 413);
    assert_eq!(serving.post_text(&headers, &format!("[{}0]", "0,".repeat(200_000))).status, 400);
    // A call without a session, and one of a session that does not exist.
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    assert!((400..500).contains(&serving.post(&[], &list).status));
    assert_eq!(serving.post(&[("Mcp-Session-Id", "00000000-0000-4000-8000-000000000000")], &list).status, 404);
    assert_eq!(serving.call(&session, "calc__eval", json!({"expression": "1"}))["result"]["isError"], false);
    serving.stop();
}

#[test]
fn clients_that_leave_keep_no_other_client_out() {
    let patchbay = Patchbay::new();
    let serving = Serving::start(&patchbay);
    let [watched, used, left] = ["watched", "used", "left"].map(|name| serving.session(name));
    let _events = serving.events(&watched);
    for number in 0..40 {
        serving.session(&format!("c{number}"));
        serving.call(&used, "calc__eval", json!({"expression": "1+1"}));
        // Its requests do not begin a session.
        assert_eq!(modern(&serving, "modern", "calc__eval", json!({"expression": "1+1"})).status, 200);
    }
    let statuses = [&watched, &used, &left].map(|session| serving.list(session));
    assert_eq!(statuses, [200, 200, 404], "the one that was idle longest makes room");
    serving.stop();
}

#[test]
fn sessions_in_use_at_once_are_limited() {
    let patchbay = Patchbay::new();
    let serving = Serving::start(&patchbay);
    let mut streams: Vec<_> = (0..32).map(|number| serving.events(&serving.session(&format!("c{number}")))).collect();
    let refused = serving.post(&[], &initialize("one more"));
    assert_eq!(refused.status, 503);
    assert_eq!(refused.message()["error"]["message"], "32 MCP sessions are in use; close one of them");
    streams.pop();
    // The server notices the end of a stream a little later.
    let end = Instant::now() + Duration::from_secs(60);
    while serving.post(&[], &initialize("one more")).status != 200 {
        assert!(Instant::now() < end, "a session whose stream has ended makes room");
        std::thread::sleep(Duration::from_millis(50));
    }
    serving.stop();
}

#[test]
fn port_in_use_is_an_error() {
    let patchbay = Patchbay::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let ran = patchbay.run(&["mcp", "--http", &port.to_string()]);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    let words = format!("Error: cannot listen on port {port} of 127.0.0.1: ");
    assert!(ran.err.starts_with(&words) && ran.err.ends_with("[port_unusable]\n"), "{}", ran.err);
}
