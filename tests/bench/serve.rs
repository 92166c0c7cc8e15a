//! Measures `patchbay serve`: a command over a WebSocket, clients that only listen, and the server's share of the binary.

use std::{process::Command, time::Instant};

use patchbay_tests::{
    acp::{Peer, Talk, prompt},
    binary::{self, Patchbay, resident_kib},
    guest::Guest,
    serve::Serving,
};
use serde_json::{Value, json};

use crate::{
    nanoseconds,
    report::{Report, Samples, us},
};

const TIMES: usize = 500;
const CLIENTS: usize = 1_000;
/// Crates that are only in the binary because of the server.
const CRATES: &[&str] =
    &["patchbay_serve", "patchbay_bridge", "axum", "axum_core", "tungstenite", "matchit", "maud", "listenfd"];

pub fn measure(report: &mut Report) {
    report.section(
        "A server",
        "A command of a skill (`tool_dispatch`): from the prompt that a client writes to the first update that it reads, over a \
         WebSocket of `patchbay serve` and over the pipes of `patchbay acp`, alternately. Microseconds.",
    );
    command(report);
    idle(report);
    size(report);
}

fn command(report: &mut Report) {
    let (served, started) = (Patchbay::quick(), Patchbay::quick());
    for patchbay in [&served, &started] {
        patchbay.add_command("echo", &Guest::default(), "");
    }
    let serving = Serving::start(&served, "");
    let mut client = serving.client(&json!({}));
    let mut peer = Peer::initialized(&started);
    let (over_socket, over_pipes) = (client.session(&served, 1), peer.session(&started, 1));
    let (mut socket, mut pipes) = (Vec::new(), Vec::new());
    for time in 0..TIMES {
        let id = i64::try_from(time).unwrap() + 2;
        socket.push(first_update(&mut client, id, &over_socket));
        pipes.push(first_update(&mut peer, id, &over_pipes));
    }
    let (socket, pipes) = (Samples::new(socket), Samples::new(pipes));
    let row = |name: &str, value: &dyn Fn(usize) -> u64| vec![name.to_owned(), us(value(50)), us(value(99))];
    let difference = |percent| socket.percentile(percent).saturating_sub(pipes.percentile(percent));
    report.table(
        &["", "p50", "p99"],
        &[
            row("over a WebSocket", &|percent| socket.percentile(percent)),
            row("over pipes", &|percent| pipes.percentile(percent)),
            row("difference", &difference),
        ],
    );
    eprintln!("serve: {TIMES} commands each way");
    assert_eq!(peer.leave(), Some(0));
}

/// Returns the nanoseconds between a prompt and its first update.
fn first_update(client: &mut Talk, id: i64, session: &str) -> u64 {
    let start = Instant::now();
    client.request(id, "session/prompt", prompt(session, "/echo {}"));
    client.until(|message: &Value| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
    let time = nanoseconds(start);
    client.answer();
    client.take();
    time
}

fn idle(report: &mut Report) {
    let patchbay = Patchbay::quick();
    // A single token may use three quarters of the connections.
    let serving = Serving::start(&patchbay, &format!("connections = {}", CLIENTS * 4 / 3 + 8));
    let connect = || {
        let mut client = serving.client(&json!({}));
        client.session(&patchbay, 1);
        client
    };
    // The first session loads what all sessions share.
    let first = connect();
    let before = resident_kib(serving.child.id());
    let clients: Vec<Talk> = (0..CLIENTS).map(|_| connect()).collect();
    let each = resident_kib(serving.child.id()).saturating_sub(before) / CLIENTS as u64;
    report.text_block(&format!(
        "{CLIENTS} clients, each with a WebSocket and a session of its own in which nothing runs: {each} KiB of resident memory for \
         each; {:.1} MiB with one client.",
        before as f64 / 1024.0
    ));
    eprintln!("serve: {CLIENTS} idle clients, {each} KiB each");
    drop((first, clients));
}

/// Adds up the symbols that name the crates, including types in another crate's generic code. Code that the linker could have
/// removed without these crates is not counted.
fn size(report: &mut Report) {
    let program = binary::path();
    let listed = Command::new("nm").args(["--size-sort", "--radix=d", "--demangle=rust"]).arg(&program).output();
    let listed = listed.map(|listed| String::from_utf8_lossy(&listed.stdout).into_owned()).unwrap_or_default();
    let is_counted = |name: &str| CRATES.iter().any(|of| name.contains(&format!("{of}::")));
    let sizes = listed.lines().filter_map(|line| {
        let mut words = line.splitn(3, ' ');
        let size: u64 = words.next()?.parse().ok()?;
        words.nth(1).filter(|name| is_counted(name)).map(|_| size)
    });
    let (symbols, bytes) = sizes.fold((0, 0), |(symbols, bytes): (u64, u64), size| (symbols + 1, bytes + size));
    if symbols == 0 {
        return eprintln!("serve: no program `nm`, or no symbols in {}", program.display());
    }
    report.text_block(&format!(
        "In the binary, {symbols} symbols name the crates that only the server and the bridge need ({}): {:.2} MiB, by `nm`.",
        CRATES.join(", "),
        bytes as f64 / f64::from(1 << 20)
    ));
}
