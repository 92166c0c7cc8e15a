//! One tool in several languages, and the same tool as an MCP server and as a process per call.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use patchbay_tests::binary::Patchbay;
use serde_json::{Value, json};

use crate::{
    host::Host,
    report::{Report, Samples},
};

/// The languages of `plugin new`, with their source files and their names in the report.
const LANGUAGES: &[(&str, &str, &str)] = &[
    ("rust", "src/lib.rs", "Rust"),
    ("c", "skill.c", "C"),
    ("js", "skill.js", "JavaScript"),
    ("ts", "skill.ts", "TypeScript"),
    ("python", "skill.py", "Python"),
];

const WARM: usize = 300;
const SPAWNS: usize = 30;

/// Returns an input of about two kilobytes.
fn input() -> Value {
    json!({"text": "The quick brown fox jumps over the lazy dog.\n".repeat(45)})
}

const MEASURED: &str = r#"{"bytes":2025,"hash":683911644,"points":2025}"#;

pub fn measure(report: &mut Report) {
    report.section(
        "Languages, and other ways to offer a tool",
        "A tool that counts and hashes two kilobytes, byte by byte; `patchbay plugin build` has built the plugins. *Cold*: the \
         component is new; it is compiled, its tools are listed, and one is called. *From disk*: the same in a new host that finds the compiled component. *Warm*: each \
         further call, in a fresh instance. For a server over standard input and output, cold is the time from the \
         start of the process to its first answer; a process for each call is always cold. Milliseconds. *Memory*: of the \
         instance at the peak of a call, or resident in the server's process at its peak; MiB.",
    );
    let plugins: Vec<_> = LANGUAGES.iter().map(|(language, file, name)| (built(language, file), name)).collect();
    let mut rows: Vec<_> = plugins.iter().map(|(plugin, name)| component(plugin, name)).collect();
    rows.push(server("MCP server, Python, by hand", "measure", python().arg(peer("mcp_stdio.py"))));
    rows.push(server("MCP server, Node.js, its SDK", "measure", Command::new("node").arg(peer("mcp_stdio.mjs"))));
    let patchbay = with_probe(&plugins[0].0);
    let mut served = patchbay.command(&["mcp"]);
    rows.push(server("The component in Rust, through `patchbay mcp`", "probe__measure", &mut served));
    rows.push(process("A Python process for each call", || {
        let mut command = python();
        command.arg(peer("spawned.py")).arg("measure");
        command
    }));
    report.table(&["", "size", "cold", "from disk", "warm p50", "warm p99", "memory"], &rows);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guests")
}

/// Returns the interpreter itself, because `python3` may be a wrapper.
fn python() -> Command {
    Command::new(folder().join(".tools/python/bin/python"))
}

fn peer(name: &str) -> PathBuf {
    folder().join("peers").join(name)
}

/// Returns the skill `same` in a language as a plugin called `probe`, built as its author would build it, with the compilers of
/// `make test-authors`.
fn built(language: &str, file: &str) -> Vec<u8> {
    let patchbay = Patchbay::blank();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tools = tests.join("../target/tmp/authors/tools");
    fs::create_dir_all(&tools).unwrap();
    fs::create_dir_all(patchbay.home().join("cache")).unwrap();
    symlink(tools.canonicalize().unwrap(), patchbay.home().join("cache/tools")).unwrap();
    let run = |arguments: &[&str]| {
        let ran = patchbay.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.err);
    };
    match language {
        "rust" => {}
        "ts" => run(&["plugin", "tools", "install", "js"]),
        _ => run(&["plugin", "tools", "install", language]),
    }
    run(&["plugin", "new", "probe", "--lang", language]);
    let folder = patchbay.workspace().join("probe");
    let source = Path::new(file).extension().unwrap();
    fs::copy(tests.join("authors/same/skill").with_extension(source), folder.join(file)).unwrap();
    fs::write(folder.join("SKILL.md"), "---\nname: probe\nsummary: Measures texts\n---\nUse `measure`.\n").unwrap();
    run(&["plugin", "build", "probe"]);
    fs::read(folder.join("probe.wasm")).unwrap()
}

/// Returns a home with the skill in Rust, compiled.
fn with_probe(plugin: &[u8]) -> Patchbay {
    let patchbay = Patchbay::quick();
    patchbay.write("home/config/skills/probe.wasm", plugin);
    assert_eq!(patchbay.exec(&["/skills"]).code, Some(0));
    patchbay
}

fn component(plugin: &[u8], name: &str) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    let first = || {
        // A separate runtime, because no task of the previous host may remain.
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let start = Instant::now();
        let host = runtime.block_on(async {
            let host = Host::with_plugin(home.path(), plugin).await;
            assert_eq!(host.call("probe__measure", &input()).await, MEASURED);
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
        assert_eq!(runtime.block_on(host.call("probe__measure", &input)), MEASURED);
        elapsed(start)
    });
    let warm = Samples::new(warm.collect());
    let memory = mib(runtime.block_on(host.peak_memory()));
    eprintln!("{name}: {WARM} warm calls");
    let size = format!("{} KiB", plugin.len() >> 10);
    vec![name.into(), size, ms(cold), ms(from_disk), ms(warm.percentile(50)), ms(warm.percentile(99)), memory]
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

    fn measured(&mut self, tool: &str) {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": input()}));
        assert_eq!(answer["content"][0]["text"], MEASURED, "{answer}");
    }
}

fn server(name: &str, tool: &str, command: &mut Command) -> Vec<String> {
    let cold: Vec<_> = (0..SPAWNS)
        .map(|_| {
            let start = Instant::now();
            let mut peer = Peer::start(command);
            peer.measured(tool);
            let time = elapsed(start);
            peer.process.kill().unwrap();
            peer.process.wait().unwrap();
            time
        })
        .collect();
    let mut peer = Peer::start(command);
    let warm = (0..WARM).map(|_| {
        let start = Instant::now();
        peer.measured(tool);
        elapsed(start)
    });
    let (cold, warm) = (Samples::new(cold), Samples::new(warm.collect()));
    let memory = resident(peer.process.id()).map_or_else(String::new, mib);
    peer.process.kill().unwrap();
    peer.process.wait().unwrap();
    eprintln!("{name}: {SPAWNS} starts, {WARM} warm calls");
    let none = String::new;
    vec![name.into(), none(), ms(cold.percentile(50)), none(), ms(warm.percentile(50)), ms(warm.percentile(99)), memory]
}

/// Returns a process's peak resident memory in bytes; `None` if the system does not report it in a file.
fn resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

fn process(name: &str, command: impl Fn() -> Command) -> Vec<String> {
    let times = (0..SPAWNS).map(|_| {
        let start = Instant::now();
        let mut process = command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        write!(process.stdin.take().unwrap(), "{}", input()).unwrap();
        let output = process.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), MEASURED);
        elapsed(start)
    });
    let times = Samples::new(times.collect());
    eprintln!("{name}: {SPAWNS} processes");
    let none = String::new;
    vec![name.into(), none(), ms(times.percentile(50)), none(), none(), none(), none()]
}

fn elapsed(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap()
}

fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

/// Nanoseconds as milliseconds.
fn ms(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1_000_000, nanoseconds % 1_000_000 / 1_000)
}
