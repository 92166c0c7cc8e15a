//! `make bench`: what the host costs beside the floor, measured in one run, printed and written to docs/benchmarks.md.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bare;
mod host;
mod languages;
mod path;
mod process;
mod report;

use std::{fs, path::Path};

fn main() {
    if cfg!(debug_assertions) {
        eprintln!("this binary was built for tests; measure with: make bench");
        std::process::exit(1);
    }
    let mut report = report::Report::new();
    path::measure(&mut report);
    process::measure(&mut report);
    languages::measure(&mut report);
    let text = report.text();
    print!("{text}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks.md");
    fs::write(&file, text).unwrap();
}
