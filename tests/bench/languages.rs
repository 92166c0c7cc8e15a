//! One tool in several languages, and the same tool by other means: an MCP server, and a process for each call.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use patchbay_tests::{binary::Patchbay, guest::package};
use serde_json::{Value, json};

use crate::{
    host::Host,
    report::{Report, Samples},
};

const GUESTS: &[(&str, &str)] = &[
    ("wasip2", "Rust, `wasm32-wasip2`"),
    ("c", "C"),
    ("javascript", "JavaScript, QuickJS"),
    ("javascript-wasi", "JavaScript, QuickJS, with WASI"),
    ("python", "Python"),
    ("python-wasi", "Python, with WASI"),
];

const WARM: usize = 300;
const SPAWNS: usize = 30;

/// Returns an input of about two kilobytes.
fn input() -> Value {
    json!({"text": "The quick brown fox jumps over the lazy dog.\n".repeat(45)})
}

const COUNTED: &str = r#"{"bytes":2025,"lines":45,"words":405}"#;

pub fn measure(report: &mut Report) {
    report.section(
        "Languages, and other ways to offer a tool",
        "A tool that counts the words of two kilobytes. *Cold*: the component is new; it is compiled, asked for its \
         tools, and called. *From disk*: the same in a new host that finds the compiled component. *Warm*: each \
         further call, in a fresh instance. For a server over standard input and output, cold is the time from the \
         start of the process to its first answer; a process for each call is always cold. Milliseconds.",
    );
    let mut rows: Vec<_> = GUESTS.iter().map(|(guest, name)| component(guest, name)).collect();
    rows.push(server("MCP server, Python, by hand", "stats", python().arg(peer("mcp_stdio.py"))));
    rows.push(server("MCP server, Node.js, its SDK", "stats", Command::new("node").arg(peer("mcp_stdio.mjs"))));
    let patchbay = with_probe();
    let mut served = patchbay.command(&["mcp"]);
    rows.push(server("The component in Rust, through `patchbay mcp`", "probe__stats", &mut served));
    rows.push(process("A Python process for each call", || {
        let mut command = python();
        command.arg(peer("spawned.py")).arg("stats");
        command
    }));
    report.table(&["", "size", "cold", "from disk", "warm p50", "warm p99"], &rows);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guests")
}

/// Returns the interpreter itself, in case `python3` is a wrapper.
fn python() -> Command {
    Command::new(folder().join(".tools/python/bin/python"))
}

fn peer(name: &str) -> PathBuf {
    folder().join("peers").join(name)
}

/// Returns the component of a guest.
fn bytes(guest: &str) -> Vec<u8> {
    let path = folder().join(format!("dist/{guest}.wasm"));
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run: make guests", path.display()))
}

/// Returns a home with the guest in Rust as the skill `probe`, compiled.
fn with_probe() -> Patchbay {
    let patchbay = Patchbay::quick();
    patchbay.write("home/config/skills/probe.wasm", package(bytes("wasip2"), "---\n---\n"));
    assert_eq!(patchbay.exec(&["/skills"]).code, Some(0));
    patchbay
}

fn component(guest: &str, name: &str) -> Vec<String> {
    let bytes = bytes(guest);
    let home = tempfile::tempdir().unwrap();
    let first = || {
        // A separate runtime, so that no task of the previous host remains.
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let start = Instant::now();
        let host = runtime.block_on(async {
            let host = Host::new(home.path(), &bytes).await;
            assert_eq!(host.call("probe__stats", &input()).await, COUNTED);
            host
        });
        (elapsed(start), runtime, host)
    };
    let (cold, runtime, host) = first();
    drop((host, runtime));
    let (from_disk, runtime, host) = first();
    let input = input();
    let warm = (0..WARM).map(|_| {
        let start = Instant::now();
        assert_eq!(runtime.block_on(host.call("probe__stats", &input)), COUNTED);
        elapsed(start)
    });
    let warm = Samples::new(warm.collect());
    eprintln!("{name}: {WARM} warm calls");
    let size = format!("{} KiB", bytes.len() >> 10);
    vec![name.into(), size, ms(cold), ms(from_disk), ms(warm.percentile(50)), ms(warm.percentile(99))]
}

/// A JSON-RPC server with one message per line.
struct Peer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl Peer {
    fn start(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        let mut peer = Self { process, input, output, id: 0 };
        let client = json!({"name": "bench", "version": "1"});
        peer.ask("initialize", &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}));
        writeln!(peer.input, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#).unwrap();
        peer
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.id += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        writeln!(self.input, "{message}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], self.id, "{answer}");
        answer["result"].clone()
    }

    fn stats(&mut self, tool: &str) {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": input()}));
        assert_eq!(answer["content"][0]["text"], COUNTED, "{answer}");
    }
}

fn server(name: &str, tool: &str, command: &mut Command) -> Vec<String> {
    let cold: Vec<_> = (0..SPAWNS)
        .map(|_| {
            let start = Instant::now();
            let mut peer = Peer::start(command);
            peer.stats(tool);
            let time = elapsed(start);
            peer.process.kill().unwrap();
            peer.process.wait().unwrap();
            time
        })
        .collect();
    let mut peer = Peer::start(command);
    let warm = (0..WARM).map(|_| {
        let start = Instant::now();
        peer.stats(tool);
        elapsed(start)
    });
    let (cold, warm) = (Samples::new(cold), Samples::new(warm.collect()));
    peer.process.kill().unwrap();
    peer.process.wait().unwrap();
    eprintln!("{name}: {SPAWNS} starts, {WARM} warm calls");
    let none = String::new;
    vec![name.into(), none(), ms(cold.percentile(50)), none(), ms(warm.percentile(50)), ms(warm.percentile(99))]
}

fn process(name: &str, command: impl Fn() -> Command) -> Vec<String> {
    let times = (0..SPAWNS).map(|_| {
        let start = Instant::now();
        let mut process = command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        write!(process.stdin.take().unwrap(), "{}", input()).unwrap();
        let output = process.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), COUNTED);
        elapsed(start)
    });
    let times = Samples::new(times.collect());
    eprintln!("{name}: {SPAWNS} processes");
    let none = String::new;
    vec![name.into(), none(), ms(times.percentile(50)), none(), none(), none()]
}

fn elapsed(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap()
}

/// Nanoseconds as milliseconds.
fn ms(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1_000_000, nanoseconds % 1_000_000 / 1_000)
}
