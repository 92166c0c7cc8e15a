//! The diff of a large change, which is computed before a question opens.

use std::{fs, hint::black_box, time::Instant};

use patchbay_tests::binary::{peak_kib, resident_kib};
use patchbay_tools::FileDiff;

use crate::{
    nanoseconds,
    report::{Report, Samples, ms_row},
};

/// Number of lines in each text. Both texts together have 10 MB.
const LINES: usize = 100_000;
const RUNS: usize = 20;

pub fn measure(report: &mut Report) {
    let text = |word: &str| format!("{word} of a line that is as long as fifty bytes are.\n").repeat(LINES);
    let (old, new) = (text("before"), text("after!"));
    let one_line = old.replacen("before", "after!", LINES / 2).replacen("after!", "before", LINES / 2 - 1);
    let (mut floor, mut all, mut one) = (Vec::new(), Vec::new(), Vec::new());
    // Resets the peak memory.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = resident_kib(std::process::id());
    for _ in 0..RUNS {
        floor.push(time(|| old.bytes().chain(new.bytes()).filter(|byte| *byte == b'\n').count()));
        all.push(time(|| FileDiff::new(&old, &new).to_string()));
        one.push(time(|| FileDiff::new(&old, &one_line).to_string()));
    }
    let grown = peak_kib(std::process::id()).saturating_sub(before);
    report.section(
        "A question about a large change",
        &format!(
            "The difference of two texts that have {} MB together, as a question shows it, beside counting their line ends. All of it \
             takes {:.1} MiB of memory besides the texts. Milliseconds.",
            (old.len() + new.len()) / 1_000_000,
            grown as f64 / 1024.0
        ),
    );
    let rows = [("counting line ends", floor), ("every line differs", all), ("one line differs", one)];
    report.table(&["", "p50", "p99"], &rows.map(|(name, times)| ms_row(name, &Samples::new(times))));
}

fn time<T>(run: impl FnOnce() -> T) -> u64 {
    let start = Instant::now();
    black_box(run());
    nanoseconds(start)
}
