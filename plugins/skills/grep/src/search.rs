//! Walks over the files of the workspace and searches them, within the limits of one call.

use patchbay_sdk::{
    Failure, Result,
    workspace::{self, Entry, Error},
};

use crate::{
    Search,
    line::Typed,
    matching::find,
    page::{MAX_BYTES, Page},
    pattern::{Pattern, clip},
};

/// The default and the maximum number of matching lines that are shown.
const USUAL: usize = 100;
pub(crate) const MAX_HITS: usize = 1_000;
/// The most context lines before and after a match.
pub(crate) const MAX_CONTEXT: usize = 20;
/// The most bytes of a file. Larger files are data or logs, and a file is in memory while it is searched.
pub(crate) const MAX_FILE: u64 = 8 << 20;
/// The most files of one call. Each takes one or two of the 10,000 host calls of a tool call.
pub(crate) const MAX_FILES: usize = 4_000;
/// The most bytes of one call. A byte costs 5 to 60 instructions, so a search takes one or two seconds at most. A file that
/// would exceed it is left for the next call.
pub(crate) const MAX_SCAN: u64 = 24 << 20;
/// Bytes of one read.
const RANGE: u32 = 1 << 20;
/// The number of bytes at the beginning that are searched for a NUL byte, which marks a binary file.
const PROBE: usize = 8 << 10;
/// Entries of one request.
const ENTRIES: u32 = 1_000;
/// The most files that a note names.
const NAMED: usize = 3;

/// The caller, which decides how the answer explains how to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Tool,
    Person,
}

/// A checked request: pattern, files and limits.
pub(crate) struct Query {
    pattern: Pattern,
    /// The globs to try until one matches a file, and the glob as written by the caller.
    globs: Vec<String>,
    glob: Option<String>,
    context: usize,
    max: usize,
    after: Option<String>,
    caller: Caller,
}

impl Query {
    pub(crate) fn of_tool(input: &Search) -> Result<Self> {
        let max = input.max.unwrap_or(USUAL);
        if max == 0 || max > MAX_HITS {
            return Err(Failure::invalid(format!("'max' must be from 1 to {MAX_HITS}; this is {max}")));
        }
        let context = input.context;
        if context > MAX_CONTEXT {
            return Err(Failure::invalid(format!("'context' must be at most {MAX_CONTEXT}; this is {context}")));
        }
        Ok(Self {
            pattern: Pattern::new(&input.pattern, input.fixed, input.ignore_case)?,
            globs: globs(input.glob.as_deref()),
            glob: input.glob.clone(),
            context,
            max,
            after: input.after.clone(),
            caller: Caller::Tool,
        })
    }

    pub(crate) fn of_person(Typed(input): &Typed) -> Result<Self> {
        Ok(Self { caller: Caller::Person, ..Self::of_tool(input)? })
    }
}

/// Returns the possible meanings of a glob: without a folder it applies to any folder, and it may name a folder.
fn globs(glob: Option<&str>) -> Vec<String> {
    let Some(glob) = glob else { return vec!["**/*".to_owned()] };
    let glob = glob.strip_prefix("./").unwrap_or(glob);
    let folder = glob.trim_end_matches('/');
    let below = format!("{folder}/**/*");
    match (folder, glob.len() > folder.len()) {
        ("" | ".", _) => vec!["**/*".to_owned()],
        (_, true) => vec![below],
        (name, false) if !name.contains('/') => vec![format!("**/{name}"), below],
        (path, false) => vec![path.to_owned(), below],
    }
}

/// Statistics of a search, for the notes of the answer.
#[derive(Default)]
struct Report {
    /// Number of files that were read, of text files among them, and of bytes.
    read: usize,
    searched: usize,
    bytes: u64,
    binary: usize,
    large: Vec<String>,
    unread: Vec<String>,
    /// True if there are more matches than are shown.
    more: bool,
    /// The last file that was searched, if the search stopped at a limit.
    stopped: Option<String>,
}

pub(crate) fn run(query: &Query) -> Result<String> {
    let mut page = Page::new(query.context);
    let mut report = Report::default();
    for glob in &query.globs {
        if scan(glob, query, &mut page, &mut report)? {
            return Ok(report.answer(query, page));
        }
    }
    let after = query.after.as_deref().map(|after| format!(" after '{}'", clip(after))).unwrap_or_default();
    Ok(match &query.glob {
        None => format!("There are no files{after}."),
        Some(glob) => {
            let hint = match query.caller {
                Caller::Person => " A pattern with spaces must be in quotes.",
                Caller::Tool => "",
            };
            format!("No files match '{}'{after}.{hint}", clip(glob))
        }
    })
}

/// Searches the files that match `glob`. Returns true if there are any.
fn scan(glob: &str, query: &Query, page: &mut Page, report: &mut Report) -> Result<bool> {
    let mut any = false;
    let mut after = query.after.clone();
    loop {
        let entries = workspace::walk(glob, after.as_deref(), ENTRIES)?;
        let is_last = entries.len() < ENTRIES as usize;
        for entry in entries {
            if !entry.is_directory {
                any = true;
                let is_read = entry.size <= MAX_FILE;
                if report.read >= MAX_FILES || (is_read && report.bytes + entry.size > MAX_SCAN) {
                    report.stopped = after;
                    return Ok(true);
                }
                one(&entry, query, page, report)?;
                if report.more {
                    return Ok(true);
                }
            }
            after = Some(entry.path);
        }
        if is_last {
            return Ok(any);
        }
    }
}

fn one(entry: &Entry, query: &Query, page: &mut Page, report: &mut Report) -> Result<()> {
    if entry.size > MAX_FILE {
        report.large.push(entry.path.clone());
        return Ok(());
    }
    report.read += 1;
    let text = match contents(entry) {
        Ok(Some(text)) => text,
        Ok(None) => {
            report.binary += 1;
            return Ok(());
        }
        // A file that was removed or cannot be read does not end the search.
        Err(error) if is_of_file(&error) => {
            report.unread.push(entry.path.clone());
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    report.searched += 1;
    report.bytes += text.len() as u64;
    report.more = !page.add(&entry.path, &text, find(&text, &query.pattern), query.max);
    Ok(())
}

fn is_of_file(error: &Error) -> bool {
    ["not-found", "denied", "invalid", "too-large", "failed"].contains(&error.kind.as_str())
}

/// Reads the text of a file; `None` if it is binary.
fn contents(entry: &Entry) -> Result<Option<Vec<u8>>, Error> {
    let mut text: Vec<u8> = Vec::new();
    while (text.len() as u64) < entry.size {
        let range = workspace::read(&entry.path, text.len() as u64, RANGE)?;
        if range.is_empty() {
            break;
        }
        if text.is_empty() && range.iter().take(PROBE).any(|byte| *byte == 0) {
            return Ok(None);
        }
        text.extend_from_slice(&range);
    }
    Ok(Some(text))
}

impl Report {
    fn answer(self, query: &Query, page: Page) -> String {
        let mut notes = Vec::new();
        let hits = page.hits;
        if hits == 0 {
            let (s, n) = (if self.searched == 1 { "" } else { "s" }, self.searched);
            notes.push(format!("No matches in {n} file{s}."));
        }
        if self.more {
            let narrow = match query.caller {
                Caller::Tool if hits == query.max && hits < MAX_HITS => {
                    format!("Narrow pattern or glob, or raise max (up to {MAX_HITS}).")
                }
                Caller::Tool => "Narrow pattern or glob, or ask for less context.".to_owned(),
                Caller::Person => "Narrow the pattern, or add a glob.".to_owned(),
            };
            let full = if hits < query.max { format!(" ({MAX_BYTES} bytes)") } else { String::new() };
            notes.push(format!("There are more matches than these {hits}{full}. {narrow}"));
        }
        if let Some(last) = &self.stopped {
            let go_on = match query.caller {
                Caller::Tool => format!("To go on: search with after '{last}'; or narrow the glob."),
                Caller::Person => "To search the rest, give a glob for it.".to_owned(),
            };
            notes.push(format!("Stopped after {} files and {} bytes, at '{last}'. {go_on}", self.read, self.bytes));
        }
        if query.pattern.is_approximate() {
            notes.push(
                "There was so much text beside ASCII that \\b took letters such as é for no part of a word from some line on. \
                 Narrow the glob to be exact."
                    .to_owned(),
            );
        }
        let mut over = Vec::new();
        if self.binary > 0 {
            over.push(format!("{} binary", self.binary));
        }
        if !self.large.is_empty() {
            over.push(format!("{} over {MAX_FILE} bytes ({})", self.large.len(), named(&self.large)));
        }
        if !self.unread.is_empty() {
            over.push(format!("{} that cannot be read ({})", self.unread.len(), named(&self.unread)));
        }
        if !over.is_empty() {
            notes.push(format!("Files passed over: {}.", over.join(", ")));
        }
        // An answer that consists of one sentence needs no brackets.
        match (hits, &notes[..]) {
            (0, [only]) => only.clone(),
            (0, [first, rest @ ..]) => {
                let rest: Vec<String> = rest.iter().map(|note| format!("\n[{note}]")).collect();
                format!("{first}{}", rest.concat())
            }
            _ => page.finish(&notes),
        }
    }
}

fn named(paths: &[String]) -> String {
    let mut names: Vec<&str> = paths.iter().take(NAMED).map(String::as_str).collect();
    if paths.len() > NAMED {
        names.push("…");
    }
    names.join(", ")
}

#[cfg(test)]
mod tests;
