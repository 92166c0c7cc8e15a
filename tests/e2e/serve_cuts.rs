//! Connections that are cut at any byte, and a server that is killed. Each client of a session ends with the same transcript, with
//! each row and each byte once. The clients are bridges, as editors start them.
//!
//! `SERVE_CUTS` connections are cut while `SERVE_SESSIONS` sessions stream, and the server is killed `SERVE_KILLS` times.
//! `PATCHBAY_SEED` seeds the random cuts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use patchbay_bridge::RemoteServer;
use patchbay_tests::{binary::Patchbay, serve::Serving};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream},
    net::{TcpListener, TcpStream},
    sync::{Barrier, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// How long a client may wait for a response, including reconnects.
const PATIENCE: Duration = Duration::from_secs(240);
/// Number of words in an answer.
const WORDS: usize = 150;
/// The maximum number of bytes on a connection before it is cut.
const CUT_BYTES: u64 = 48 << 10;

fn size(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Numbers that depend on the seed alone: xorshift.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// Returns the byte at which a connection is cut. Half of the cuts are within the first bytes, such as the handshake.
    fn cut(&mut self) -> u64 {
        let most = CUT_BYTES >> self.below(6);
        1 + self.below(most)
    }
}

/// Passes connections on to the server, and cuts them.
struct Proxy {
    server: Mutex<String>,
    numbers: Mutex<Numbers>,
    /// How many connections to cut.
    wanted: AtomicUsize,
    cut: AtomicUsize,
}

impl Proxy {
    async fn run(self: Arc<Self>, listener: TcpListener) {
        loop {
            let (near, _) = listener.accept().await.unwrap();
            let proxy = Arc::clone(&self);
            tokio::spawn(async move {
                let server = proxy.server.lock().unwrap().clone();
                let Ok(far) = TcpStream::connect(server).await else { return };
                let (near_read, near_write) = near.into_split();
                let (far_read, far_write) = far.into_split();
                let [up, down] = [0, 1].map(|_| Mutex::new(None));
                // Both ends are dropped together.
                tokio::select! {
                    () = proxy.pass(near_read, far_write, &up) => {}
                    () = proxy.pass(far_read, near_write, &down) => {}
                }
            });
        }
    }

    /// Forwards bytes until the connection is cut or ends. `left` is the number of bytes until the cut, or `None` if there is none
    /// yet.
    async fn pass(
        &self,
        mut from: tokio::net::tcp::OwnedReadHalf,
        mut to: tokio::net::tcp::OwnedWriteHalf,
        left: &Mutex<Option<u64>>,
    ) {
        let mut bytes = vec![0; 4 << 10];
        while let Ok(read @ 1..) = from.read(&mut bytes).await {
            let mut passed = read;
            if self.cut.load(Ordering::SeqCst) < self.wanted.load(Ordering::SeqCst) {
                let mut left = left.lock().unwrap();
                let before_cut = left.get_or_insert_with(|| self.numbers.lock().unwrap().cut());
                passed = read.min(usize::try_from(*before_cut).unwrap());
                *before_cut -= passed as u64;
            }
            if to.write_all(&bytes[..passed]).await.is_err() {
                return;
            }
            if passed < read {
                self.cut.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    }

    fn cuts(&self) -> usize {
        self.cut.load(Ordering::SeqCst)
    }
}

/// What an editor shows of a session.
#[derive(Clone, Debug, Default, PartialEq)]
struct Shown {
    /// The kind, id and text of each message.
    messages: Vec<(String, String, String)>,
    /// The states of each tool call.
    calls: BTreeMap<String, Vec<String>>,
    responses: BTreeMap<i64, Value>,
}

impl Shown {
    fn message(&mut self, message: &Value) {
        if let (Some(id), None) = (message["id"].as_i64(), message.get("method")) {
            let before = self.responses.insert(id, message.clone());
            assert_eq!(before, None, "a second response: {message}");
        }
        let update = &message["params"]["update"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if let Some(kept) = update["_meta"]["patchbay"]["kept"].as_u64() {
            let (_, _, last) = self.messages.iter_mut().rfind(|(kind, ..)| kind == "agent_message_chunk").unwrap();
            last.truncate(usize::try_from(kept).unwrap());
        }
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            kind @ ("agent_message_chunk" | "user_message_chunk" | "agent_thought_chunk") => {
                let (id, piece) = (text(&update["messageId"]), text(&update["content"]["text"]));
                // Messages of the bridge and of the front do not have rows.
                if id.is_empty() || id.starts_with("host ") {
                    return;
                }
                match self.messages.iter_mut().find(|(a, b, _)| (a.as_str(), b) == (kind, &id)) {
                    Some((.., text)) => text.push_str(&piece),
                    None => self.messages.push((kind.to_owned(), id, piece.trim_start_matches("\n\n").to_owned())),
                }
            }
            "tool_call" | "tool_call_update" => {
                let state = text(&update["status"]);
                self.calls.entry(text(&update["toolCallId"])).or_default().push(state);
            }
            _ => {}
        }
    }

    fn texts(&self, kind: &str) -> Vec<&str> {
        let of_kind = self.messages.iter().filter(|(of, _, text)| of == kind && !text.is_empty());
        of_kind.map(|(.., text)| text.as_str()).collect()
    }
}

/// An editor with its bridge.
struct Editor {
    input: DuplexStream,
    shown: watch::Receiver<Shown>,
    last: i64,
}

impl Editor {
    fn start(port: u16, token: &str) -> Self {
        let (input, far_input) = tokio::io::duplex(1 << 16);
        let (output, far_output) = tokio::io::duplex(1 << 16);
        let server = RemoteServer::new(&format!("ws://127.0.0.1:{port}"), token).ok().unwrap();
        let stopped = CancellationToken::new();
        tokio::spawn(async move {
            let ends = (far_input, far_output);
            let ended = patchbay_bridge::run(server, "workspace".to_owned(), "/here".to_owned(), ends, stopped).await;
            assert!(ended.is_ok(), "{ended:?}");
        });
        let (sender, shown) = watch::channel(Shown::default());
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message = serde_json::from_str(&line).unwrap();
                sender.send_modify(|shown: &mut Shown| shown.message(&message));
            }
        });
        Self { input, shown, last: 0 }
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = self.last;
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        self.until(|shown| shown.responses.contains_key(&id)).await;
        let response = self.shown.borrow().responses[&id].clone();
        assert!(response["result"].is_object(), "{response}");
        response["result"].clone()
    }

    async fn until(&mut self, wanted: impl Fn(&Shown) -> bool) {
        let waited = timeout(PATIENCE, self.shown.wait_for(wanted)).await;
        assert!(waited.is_ok_and(|waited| waited.is_ok()), "it does not come: {:?}", self.shown.borrow());
    }

    async fn initialize(&mut self) {
        let capabilities = json!({"session": {"notices": {}}});
        self.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities})).await;
    }

    async fn prompt(&mut self, session: &str, text: &str) {
        let prompt = json!([{"type": "text", "text": text}]);
        self.call("session/prompt", json!({"sessionId": session, "prompt": prompt})).await;
    }
}

/// The start, before any connection is cut, because a bridge whose first connection fails gives up immediately.
struct Start {
    /// Held while an editor connects: with too many connections, the server closes the oldest one that has sent no request.
    connecting: tokio::sync::Mutex<()>,
    connected: Barrier,
}

/// Sends messages in one session, from two editors, until `is_over`. Returns the session's id and what both editors have shown.
async fn talk(
    number: usize,
    port: u16,
    token: String,
    start: Arc<Start>,
    is_over: watch::Receiver<bool>,
) -> (String, [Shown; 2]) {
    let [mut writer, mut watcher] = {
        let _turn = start.connecting.lock().await;
        let mut editors = [0, 1].map(|_| Editor::start(port, &token));
        for editor in &mut editors {
            editor.initialize().await;
        }
        editors
    };
    start.connected.wait().await;
    let folder = json!({"cwd": "/here", "mcpServers": []});
    let session = writer.call("session/new", folder.clone()).await["sessionId"].as_str().unwrap().to_owned();
    if number.is_multiple_of(2) {
        writer.prompt(&session, "/thinking low").await;
    }
    let mut load = folder;
    load["sessionId"] = json!(session);
    watcher.call("session/load", load).await;
    let mut prompts = 0;
    while !*is_over.borrow() {
        prompts += 1;
        let words =
            |part: usize| (0..WORDS).map(|word| format!("s{number}p{prompts}.{part}.{word}")).collect::<Vec<_>>();
        let [first, second] = [0, 1].map(|part| words(part).join(" "));
        let text = format!("say {first}\ncall files__read {{\"path\": \"a.txt\"}}\nthen say {second}");
        writer.prompt(&session, &text).await;
    }
    // If a kill left the last message unanswered, the model answers it together with this one.
    writer.prompt(&session, "say No server is killed any more.").await;
    let end = format!("The end of {number}.");
    writer.prompt(&session, &format!("say {end}")).await;
    for editor in [&mut writer, &mut watcher] {
        editor.until(|shown| shown.texts("agent_message_chunk").last() == Some(&&*end)).await;
    }
    (session, [writer, watcher].map(|editor| editor.shown.borrow().clone()))
}

/// Asserts that both editors have shown what is stored.
fn assert_whole(patchbay: &Patchbay, session: &str, [writer, watcher]: &[Shown; 2]) {
    let stored = patchbay.run(&["sessions", "show", session, "--json"]).out;
    let rows: Vec<Value> = stored.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_kind = |kind: &str| rows.iter().filter(|row| row["kind"] == kind).collect::<Vec<_>>();
    let contents = |kind: &str| -> Vec<&str> {
        let contents = of_kind(kind).into_iter().map(|row| row["content"].as_str().unwrap());
        contents.filter(|content| !content.is_empty()).collect()
    };
    let whole = of_kind("assistant").into_iter().filter(|row| row["data"]["interrupted"] != true);
    let thoughts: Vec<&str> = whole
        .flat_map(|row| row["data"]["parts"].as_array().unwrap())
        .filter_map(|part| part["text"].as_str().filter(|_| part["type"] == "thinking"))
        .collect();
    for (who, shown) in [("writer", writer), ("watcher", watcher)] {
        assert_eq!(shown.texts("agent_message_chunk"), contents("assistant"), "{who} of {session}");
        let seen = shown.texts("agent_thought_chunk");
        for thought in &thoughts {
            let times = seen.iter().filter(|it| *it == thought).count();
            assert_eq!(times, 1, "{who} of {session}: {thought} in {seen:?}");
        }
        let calls = of_kind("tool").len();
        let ended =
            |states: &&Vec<String>| states.last().is_some_and(|state| state == "completed" || state == "failed");
        let seen = (shown.calls.len(), shown.calls.values().filter(ended).count());
        assert_eq!(seen, (calls, calls), "{who} of {session}: {:?}", shown.calls);
    }
    assert_eq!(writer.texts("user_message_chunk"), Vec::<&str>::new(), "the editor shows its own prompts");
    assert_eq!(watcher.texts("user_message_chunk").len(), contents("user").len() + contents("command").len());
    let distinct: BTreeSet<&str> = contents("user").into_iter().collect();
    assert_eq!(distinct.len(), contents("user").len(), "a prompt ran twice");
}

#[test]
fn clients_of_cut_connections_and_killed_servers_end_with_one_transcript() {
    let [cuts, sessions, kills] =
        [("SERVE_CUTS", 60), ("SERVE_SESSIONS", 4), ("SERVE_KILLS", 2)].map(|(name, default)| size(name, default));
    let seed = size("PATCHBAY_SEED", 20_261_127);
    println!("PATCHBAY_SEED={seed} SERVE_CUTS={cuts} SERVE_SESSIONS={sessions} SERVE_KILLS={kills}");
    let patchbay = Arc::new(Patchbay::new());
    patchbay.write("home/config/config.toml", "[providers.demo]\noptions = { delay-ms = \"4\" }\n");
    patchbay.write("workspace/a.txt", "one line\n");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let transcripts = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let settings = format!("hosts = [\"127.0.0.1:{port}\"]\nconnections = 1000");
        let start = {
            let patchbay = Arc::clone(&patchbay);
            move || Serving::start(&patchbay, &settings)
        };
        let mut serving = start();
        let proxy = Arc::new(Proxy {
            server: Mutex::new(serving.address.clone()),
            numbers: Mutex::new(Numbers(seed as u64 | 1)),
            wanted: AtomicUsize::new(0),
            cut: AtomicUsize::new(0),
        });
        tokio::spawn(Arc::clone(&proxy).run(listener));
        let (over, is_over) = watch::channel(false);
        let editors =
            Arc::new(Start { connecting: tokio::sync::Mutex::new(()), connected: Barrier::new(sessions + 1) });
        let talking: Vec<_> = (0..sessions)
            .map(|number| {
                let (token, editors) = (serving.token.clone(), Arc::clone(&editors));
                tokio::spawn(talk(number, port, token, editors, is_over.clone()))
            })
            .collect();
        timeout(PATIENCE, editors.connected.wait()).await.expect("every bridge connects");
        for kill in 1..=kills + 1 {
            let until = cuts * kill / (kills + 1);
            proxy.wanted.store(until, Ordering::SeqCst);
            while proxy.cuts() < until && !talking.iter().any(tokio::task::JoinHandle::is_finished) {
                sleep(Duration::from_millis(20)).await;
            }
            if kill <= kills {
                // Its process is killed when it is dropped.
                drop(serving);
                serving = tokio::task::block_in_place(&start);
                proxy.server.lock().unwrap().clone_from(&serving.address);
                sleep(Duration::from_millis(200)).await;
            }
        }
        let _ = over.send(true);
        let mut transcripts = Vec::new();
        for talk in talking {
            transcripts.push(talk.await.unwrap());
        }
        assert!(proxy.cuts() >= cuts);
        transcripts
    });
    for (session, shown) in &transcripts {
        assert_whole(&patchbay, session, shown);
    }
}
