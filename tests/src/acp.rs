//! `Peer`, a client of `patchbay acp`, and `Talk`, a client over any transport. They send any bytes, valid or not, and read lines.

use std::{
    collections::VecDeque,
    io::{BufRead as _, BufReader, Write},
    ops::{Deref, DerefMut},
    process::{Child, ChildStdout, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    PATIENCE,
    binary::{Patchbay, peak_kib},
};

/// A client with its process. The process is killed when this value is dropped.
pub struct Peer {
    /// The process under test.
    pub child: Child,
    /// The process's standard output, if this client does not read it.
    pub unread: Option<ChildStdout>,
    talk: Talk,
}

/// A client over any transport that carries lines.
pub struct Talk {
    /// Sends to the agent; `None` after the input was closed.
    pub input: Option<Box<dyn Write + Send>>,
    lines: Option<Receiver<Value>>,
    /// The updates and requests since the last call of [`Talk::take`].
    seen: VecDeque<Value>,
}

impl Deref for Peer {
    type Target = Talk;

    fn deref(&self) -> &Talk {
        &self.talk
    }
}

impl DerefMut for Peer {
    fn deref_mut(&mut self) -> &mut Talk {
        &mut self.talk
    }
}

impl Peer {
    /// Starts a client that reads what the agent sends.
    pub fn start(patchbay: &Patchbay) -> Self {
        Self::start_with(patchbay, &["acp"])
    }

    /// Like [`Peer::start`], but with arguments other than `acp`.
    pub fn start_with(patchbay: &Patchbay, arguments: &[&str]) -> Self {
        let mut peer = Self::deaf_with(patchbay, arguments);
        let (sender, lines) = channel();
        let output = BufReader::new(peer.unread.take().expect("an output"));
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let Ok(()) = sender.send(serde_json::from_str(&line).expect("JSON")) else { return };
            }
        });
        peer.talk.lines = Some(lines);
        peer
    }

    /// Starts a client that never reads.
    pub fn deaf(patchbay: &Patchbay) -> Self {
        Self::deaf_with(patchbay, &["acp"])
    }

    fn deaf_with(patchbay: &Patchbay, arguments: &[&str]) -> Self {
        let mut command = patchbay.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary starts");
        let input = child.stdin.take().map(|input| Box::new(input) as Box<dyn Write + Send>);
        let unread = child.stdout.take();
        Self { child, unread, talk: Talk { input, lines: None, seen: VecDeque::new() } }
    }

    /// Like [`Peer::start`], then initializes the connection without client capabilities.
    pub fn initialized(patchbay: &Patchbay) -> Self {
        Self::with_capabilities(patchbay, &json!({}))
    }

    /// Like [`Peer::start`], then initializes the connection with the capabilities of a full client.
    pub fn with_capabilities(patchbay: &Patchbay, capabilities: &Value) -> Self {
        let mut peer = Self::start(patchbay);
        peer.initialize(capabilities);
        peer
    }

    /// Returns the peak of resident memory in bytes.
    pub fn peak_memory(&self) -> u64 {
        peak_kib(self.child.id()) << 10
    }

    /// Closes the input and waits for the process to exit. Returns its exit code.
    pub fn leave(mut self) -> Option<i32> {
        self.input.take();
        self.wait()
    }

    /// Waits for the process to exit. Returns its exit code.
    pub fn wait(&mut self) -> Option<i32> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().expect("a process") {
                return status.code();
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the process does not end");
    }
}

impl Talk {
    /// Returns a client that sends to `input` and receives from `lines`.
    pub fn new(input: Box<dyn Write + Send>, lines: Receiver<Value>) -> Self {
        Self { input: Some(input), lines: Some(lines), seen: VecDeque::new() }
    }

    /// Initializes the connection with the capabilities of a full client.
    pub fn initialize(&mut self, capabilities: &Value) {
        let answer = self.call(0, "initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities}));
        assert_eq!(answer["result"]["protocolVersion"], 1);
    }

    /// Sends bytes to the process unchanged.
    pub fn send(&mut self, bytes: &[u8]) {
        self.input.as_mut().expect("an open input").write_all(bytes).expect("the process reads");
    }

    /// Sends a message as one line of JSON.
    pub fn message(&mut self, message: &Value) {
        self.send(format!("{message}\n").as_bytes());
    }

    /// Sends a request with this id.
    pub fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        self.message(&json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params}));
    }

    /// Sends a notification to the process.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.message(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Responds to a request of the agent.
    pub fn respond(&mut self, request: &Value, result: Value) {
        self.message(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Returns the next message.
    pub fn next_message(&mut self) -> Value {
        let message = self.lines.as_ref().expect("a client that reads").recv_timeout(PATIENCE).expect("a message");
        if message.get("method").is_some() {
            self.seen.push_back(message.clone());
        }
        message
    }

    /// Returns the next message that `wanted` accepts.
    pub fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let message = self.next_message();
            if wanted(&message) {
                return message;
            }
            assert!(Instant::now() < end, "the message does not come");
        }
    }

    /// Returns the next response to a request of this client.
    pub fn answer(&mut self) -> Value {
        self.until(|message| message.get("method").is_none())
    }

    /// Returns the next request of the agent.
    pub fn asked(&mut self, method: &str) -> Value {
        let asked = self.until(|message| message.get("id").is_some() && message.get("method").is_some());
        assert_eq!(asked["method"], method, "{asked}");
        asked
    }

    /// Sends a request and returns the response.
    pub fn call(&mut self, id: i64, method: &str, params: Value) -> Value {
        self.request(id, method, params);
        let answer = self.answer();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Creates a session in the workspace and returns its id, once its list of commands has arrived.
    pub fn session(&mut self, patchbay: &Patchbay, id: i64) -> String {
        let answer = self.call(id, "session/new", in_workspace(patchbay));
        let session = answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        self.until(|message| message["params"]["update"]["sessionUpdate"] == "available_commands_update");
        session
    }

    /// Sends a prompt of one text block and returns its stop reason.
    pub fn prompt(&mut self, id: i64, session: &str, text: &str) -> Value {
        self.call(id, "session/prompt", prompt(session, text))["result"]["stopReason"].clone()
    }

    /// Sends a prompt of these blocks, which must succeed, and returns the text of the answer.
    pub fn say(&mut self, id: i64, session: &str, blocks: impl Into<Value>) -> String {
        self.take();
        let answer = self.call(id, "session/prompt", json!({"sessionId": session, "prompt": blocks.into()}));
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        said(&self.take())
    }

    /// Returns the updates and requests that came since the last call.
    pub fn take(&mut self) -> Vec<Value> {
        self.seen.drain(..).collect()
    }

    /// Asserts that the next response is this error.
    pub fn assert_error(&mut self, id: impl Into<Value>, code: i64) {
        let answer = self.answer();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id.into(), &json!(code)), "{answer}");
        assert_ne!(answer["error"]["message"].as_str().unwrap_or_default(), "");
    }

    /// Asserts that the connection still works.
    pub fn assert_still_works(&mut self) {
        let answer = self.call(999, "session/list", json!({}));
        assert!(answer["result"]["sessions"].is_array(), "{answer}");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the parameters of `session/new` in the workspace.
pub fn in_workspace(patchbay: &Patchbay) -> Value {
    json!({"cwd": patchbay.workspace(), "mcpServers": []})
}

/// Returns the parameters of a prompt of one text block.
pub fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

/// Returns the updates of a kind, such as `tool_call`, among messages.
pub fn updates<'a>(messages: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let updates = messages.iter().map(|message| &message["params"]["update"]);
    updates.filter(|update| update["sessionUpdate"] == kind).collect()
}

/// Returns the joined text of the agent's messages.
pub fn said(messages: &[Value]) -> String {
    let chunks = updates(messages, "agent_message_chunk");
    chunks.iter().filter_map(|update| update["content"]["text"].as_str()).collect()
}
