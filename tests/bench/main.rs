//! `make bench` measures the host's overhead over the baseline in one run, and writes docs/benchmarks.md. With names of parts as
//! arguments, it measures only those and writes no file.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod acp;
mod agents;
mod bare;
#[cfg(target_os = "linux")]
mod cage;
mod code;
mod gathering;
mod host;
mod kept;
mod languages;
mod models;
mod packages;
mod path;
mod process;
mod question;
mod recording;
mod reload;
mod report;
mod round_trip;
mod search;
mod serve;
mod shown;
mod skill_files;
mod streaming;
mod terminal;
mod tokens;

use std::{env, fs, path::Path, time::Instant};

// The same allocator as in the host.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    if cfg!(debug_assertions) {
        eprintln!("this binary was built for tests; measure with: make bench");
        std::process::exit(1);
    }
    let wanted: Vec<String> = env::args().skip(1).collect();
    match wanted.first().map(String::as_str) {
        Some(streaming::many::ARGUMENT) => return streaming::many::process(&wanted[1..]),
        Some(agents::ARGUMENT) => return agents::process(),
        _ => {}
    }
    if let Some(unknown) = wanted.iter().find(|name| !PARTS.iter().any(|(part, _)| part == name)) {
        let parts: Vec<_> = PARTS.iter().map(|(part, _)| *part).collect();
        eprintln!("no part is called '{unknown}'; there are {}", parts.join(", "));
        std::process::exit(2);
    }
    let mut report = report::Report::new();
    for (_, measure) in PARTS.iter().filter(|(part, _)| wanted.is_empty() || wanted.iter().any(|name| name == part)) {
        measure(&mut report);
    }
    let text = report.text();
    print!("{text}");
    if wanted.is_empty() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks.md");
        fs::write(&file, text).unwrap();
    }
}

type Measure = fn(&mut report::Report);

/// The parts, in the order of the page.
const PARTS: &[(&str, Measure)] = &[
    ("path", path::measure),
    ("process", process::measure),
    #[cfg(target_os = "linux")]
    ("cage", cage::measure),
    ("reload", reload::measure),
    ("skill_files", skill_files::measure),
    ("packages", packages::measure),
    ("streaming", streaming::measure),
    ("terminal", terminal::measure),
    ("agents", agents::measure),
    ("gathering", gathering::measure),
    ("acp", acp::measure),
    ("serve", serve::measure),
    ("models", models::measure),
    ("tokens", tokens::measure),
    ("round_trip", round_trip::measure),
    ("search", search::measure),
    ("question", question::measure),
    ("kept", kept::measure),
    ("recording", recording::measure),
    ("languages", languages::measure),
    ("code", code::measure),
    ("shown", shown::measure),
];

fn nanoseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap()
}
