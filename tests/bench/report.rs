//! Statistics of measurements, and the page `docs/benchmarks.md`. Every benchmark uses it.

use std::{fmt::Write as _, fs};

/// Durations in nanoseconds.
pub struct Samples(Vec<u64>);

impl Samples {
    pub fn new(mut nanoseconds: Vec<u64>) -> Self {
        nanoseconds.sort_unstable();
        Self(nanoseconds)
    }

    /// Returns the duration that `percent` of the samples do not exceed.
    pub fn percentile(&self, percent: usize) -> u64 {
        self.0[(self.0.len() - 1) * percent / 100]
    }
}

/// Returns a row of a table: the name, and the percentiles 50 and 99 in milliseconds.
pub fn ms_row(name: &str, samples: &Samples) -> Vec<String> {
    vec![name.to_owned(), ms(samples.percentile(50)), ms(samples.percentile(99))]
}

/// The page that is being written.
pub struct Report(String);

impl Report {
    pub fn new() -> Self {
        let mut text = String::from(
            "# Benchmarks\n\nWritten by `make bench`. The baseline and the host are measured alternately in one run: on a \
             shared machine, differences and ratios are more reliable than absolute times.\n\n",
        );
        writeln!(text, "Machine: {}.\n", machine()).unwrap();
        Self(text)
    }

    pub fn section(&mut self, title: &str, about: &str) {
        write!(self.0, "## {title}\n\n{about}\n\n").unwrap();
    }

    pub fn text_block(&mut self, text: &str) {
        write!(self.0, "{text}\n\n").unwrap();
    }

    pub fn table(&mut self, head: &[&str], rows: &[Vec<String>]) {
        writeln!(self.0, "| {} |", head.join(" | ")).unwrap();
        writeln!(self.0, "|{}", " --- |".repeat(head.len())).unwrap();
        for row in rows {
            writeln!(self.0, "| {} |", row.join(" | ")).unwrap();
        }
        self.0.push('\n');
    }

    pub fn text(&self) -> String {
        format!("{}\n", self.0.trim_end())
    }
}

/// Returns the processor, the number of cores and the kernel.
fn machine() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("unknown", |m| m.1);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores, shared, Linux {}", kernel.trim())
}

/// Formats nanoseconds as microseconds.
pub fn us(nanoseconds: u64) -> String {
    format!("{}.{:02}", nanoseconds / 1_000, nanoseconds % 1_000 / 10)
}

/// Formats nanoseconds as milliseconds.
pub fn ms(nanoseconds: u64) -> String {
    format!("{}.{}", nanoseconds / 1_000_000, nanoseconds % 1_000_000 / 100_000)
}
