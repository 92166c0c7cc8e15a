//! The output that an author sees, without the parts that differ between machines and runs.

use std::path::Path;

use patchbay_tests::binary::Ran;

/// Maximum number of lines of an output in docs/errors-for-authors.md.
const LINES: usize = 24;

/// Returns the lines that are about a mistake: standard error first, then the findings on standard output.
pub fn text(ran: &Ran, work: &Path) -> String {
    let errors = ran.err.lines().filter(|line| !is_progress(line));
    let is_finding = |line: &&str| {
        ["note: ", "wrong: ", "  at ", "  printed: "].iter().any(|mark| line.starts_with(mark))
            && !line.starts_with("note: not embedded because ")
    };
    let findings = ran.out.lines().filter(is_finding);
    let lines = errors.chain(findings).map(|line| shortened(line, work));
    let mut lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    lines.dedup_by(|next, before| next.is_empty() && before.is_empty());
    without_warnings(&lines).join("\n").trim_matches('\n').to_owned()
}

/// Leaves out warnings by rustc before its first error, and its summaries.
fn without_warnings(lines: &[String]) -> Vec<&str> {
    let first = lines.iter().position(|line| line.starts_with("error")).filter(|_| lines[0].starts_with("warning"));
    let lines = lines[first.unwrap_or_default()..].iter().map(String::as_str);
    let is_summary = |line: &&str| {
        ["error: could not compile ", "For more information about ", "Some errors have detailed ", "warning: `greet`"]
            .iter()
            .any(|start| line.starts_with(start))
    };
    lines.filter(|line| !is_summary(line)).collect()
}

/// Returns the text, shortened in the middle to `LINES` lines for docs/errors-for-authors.md.
pub fn excerpt(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= LINES {
        return text.to_owned();
    }
    let (start, end) = (&lines[..LINES - 4], &lines[lines.len() - 3..]);
    format!("{}\n…\n{}", start.join("\n"), end.join("\n"))
}

/// Returns whether a line is cargo's progress, the resource usage of a call (`used:`), or the session's id (`Session:`).
fn is_progress(line: &str) -> bool {
    const CARGO: &[&str] = &[
        "Compiling",
        "Locking",
        "Adding",
        "Finished",
        "Updating",
        "Downloading",
        "Downloaded",
        "Blocking",
        "Checking",
    ];
    line.starts_with("used: ")
        || line.starts_with("Session: ")
        || CARGO.contains(&line.split_whitespace().next().unwrap_or_default()) && line.starts_with("  ")
}

/// Replaces the paths of this machine.
fn shortened(line: &str, work: &Path) -> String {
    let work = work.canonicalize().unwrap_or(work.to_owned());
    let line = line.replace(&format!("{}/", work.display()), "");
    let line = line.replace(&work.display().to_string(), ".");
    // `/rustc/COMMIT/library/std/…`
    match line.split_once("/rustc/") {
        Some((before, after)) => format!("{before}{}", after.split_once('/').map_or(after, |(_, path)| path)),
        None => line,
    }
}
