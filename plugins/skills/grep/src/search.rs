//! Passes a search to the host and writes the answer.

use patchbay_sdk::{
    Failure, Result,
    workspace_search::{self, Error, Position, Skipped, TextQuery, TextResults},
};

use crate::{
    Search,
    line::{Typed, clip},
    page::{MAX_BYTES, MAX_LINE, Page},
};

/// The default and the maximum number of matching lines that are shown.
const USUAL: usize = 100;
pub(crate) const MAX_HITS: usize = 1_000;
/// The most context lines before and after a match.
pub(crate) const MAX_CONTEXT: usize = 20;
/// Maximum number of bytes of a file that the host searches.
const MAX_FILE: u64 = 8 << 20;
/// Maximum number of files that a note names.
const NAMED: usize = 3;

/// The kind of caller. The answer's advice on how to continue depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Tool,
    Person,
}

pub(crate) struct Query {
    request: TextQuery,
    /// The glob as written by the caller.
    glob: Option<String>,
    max: usize,
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
        let request = TextQuery {
            pattern: input.pattern.clone(),
            fixed: input.fixed,
            ignore_case: input.ignore_case,
            globs: globs(input.glob.as_deref()),
            after: input.after.clone().map(|path| Position { path, line: None }),
            context: context as u32,
            max_lines: max as u32,
            max_line_bytes: MAX_LINE,
            time_ms: None,
            extra: Vec::new(),
        };
        Ok(Self { request, glob: input.glob.clone(), max, caller: Caller::Tool })
    }

    pub(crate) fn of_person(Typed(input): &Typed) -> Result<Self> {
        Ok(Self { caller: Caller::Person, ..Self::of_tool(input)? })
    }
}

/// Returns all meanings of a glob: without a folder it applies to any folder, and it may also be the name of a folder.
fn globs(glob: Option<&str>) -> Vec<String> {
    let Some(glob) = glob else { return Vec::new() };
    if let Some(excluded) = glob.strip_prefix('!') {
        return globs(Some(excluded)).into_iter().map(|glob| format!("!{glob}")).collect();
    }
    let glob = glob.strip_prefix("./").unwrap_or(glob);
    let folder = glob.trim_end_matches('/');
    let below = format!("{folder}/**/*");
    match (folder, glob.len() > folder.len()) {
        ("" | ".", _) => Vec::new(),
        (_, true) => vec![below],
        (name, false) if !name.contains('/') => vec![format!("**/{name}"), below],
        (path, false) => vec![path.to_owned(), below],
    }
}

pub(crate) fn run(query: &Query) -> Result<String> {
    match workspace_search::search(&query.request) {
        Ok(results) => Ok(answer(query, &results)),
        Err(Error { kind, message }) if kind == "invalid" => {
            // The user does not see the tool's inputs, so the hint names the option of the command.
            let hint = if message.ends_with("set fixed") { " (-F)" } else { "" };
            Err(Failure::invalid(message + hint))
        }
        Err(error) => Err(error.into()),
    }
}

fn answer(query: &Query, results: &TextResults) -> String {
    if results.files.is_empty() && results.searched == 0 && results.skipped.is_empty() && results.stopped.is_none() {
        return nothing(query);
    }
    let mut page = Page::new(query.request.context);
    let is_whole = results.files.iter().all(|file| page.add(file));
    let hits = page.hits;
    let mut notes = Vec::new();
    if hits == 0 {
        let (s, n) = (if results.searched == 1 { "" } else { "s" }, results.searched);
        notes.push(format!("No matches in {n} file{s}."));
    }
    match (results.stopped.as_deref(), &results.next) {
        // The host's limit of bytes is larger than a page.
        (Some("lines" | "bytes"), _) => notes.push(more(query, hits)),
        _ if !is_whole => notes.push(more(query, hits)),
        (Some(_), Some(next)) => notes.push(stopped(query, results, next)),
        _ => {}
    }
    if !results.skipped.is_empty() {
        let skipped: Vec<String> = results.skipped.iter().map(passed_over).collect();
        notes.push(format!("Files skipped: {}.", skipped.join(", ")));
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

/// Returns the answer if no files can be searched.
fn nothing(query: &Query) -> String {
    let after = query.request.after.as_ref().map(|after| format!(" after '{}'", clip(&after.path))).unwrap_or_default();
    match &query.glob {
        None => format!("There are no files{after}."),
        Some(glob) => {
            let hint = match query.caller {
                Caller::Person => " A pattern with spaces must be in quotes.",
                Caller::Tool => "",
            };
            format!("No files match '{}'{after}.{hint}", clip(glob))
        }
    }
}

/// Returns the note that there are more matches than are shown.
fn more(query: &Query, hits: usize) -> String {
    let narrow = match query.caller {
        Caller::Tool if hits == query.max && hits < MAX_HITS => {
            format!("Narrow pattern or glob, or raise max (up to {MAX_HITS}).")
        }
        Caller::Tool => "Narrow pattern or glob, or ask for less context.".to_owned(),
        Caller::Person => "Narrow the pattern, or add a glob.".to_owned(),
    };
    let full = if hits < query.max { format!(" ({MAX_BYTES} bytes)") } else { String::new() };
    format!("There are more matches than these {hits}{full}. {narrow}")
}

/// Returns the note that the host stopped before the last file.
fn stopped(query: &Query, results: &TextResults, next: &Position) -> String {
    let last = clip(&next.path);
    let go_on = match query.caller {
        Caller::Tool => format!("To continue: search with after '{last}'; or narrow the glob."),
        Caller::Person => "To search the rest, use a glob for it.".to_owned(),
    };
    format!("Stopped after {} files and {} bytes, at '{last}'. {go_on}", results.searched, results.bytes)
}

/// Returns how many files were skipped for one reason, with the names of some.
fn passed_over(Skipped { reason, count, paths }: &Skipped) -> String {
    let reason = match reason.as_str() {
        "binary" => return format!("{count} binary"),
        "too-large" => format!("over {MAX_FILE} bytes"),
        "unreadable" => "that cannot be read".to_owned(),
        other => other.to_owned(),
    };
    let mut names: Vec<&str> = paths.iter().take(NAMED).map(String::as_str).collect();
    if *count as usize > names.len() {
        names.push("…");
    }
    format!("{count} {reason} ({})", names.join(", "))
}

#[cfg(test)]
mod tests;
