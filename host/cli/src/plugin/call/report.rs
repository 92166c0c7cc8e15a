//! The report of a call: its result, usage, printed lines and denials.

use patchbay_core::{Outcome, Status, text};
use patchbay_policy::quoted;
use patchbay_sandbox::Limits;
use patchbay_store::JournalEntry;
use serde::Serialize;
use serde_json::Value;

use super::{denied::Denied, printed::PrintedLine};
use crate::out::{note, say};

/// The result of `plugin call`, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(in crate::plugin) struct CallReport {
    /// The full name of the tool, `SKILL__TOOL`.
    tool: String,
    status: Status,
    code: &'static str,
    /// The result as text, or why the call failed.
    message: String,
    /// The parts of the result; `null` if the call failed.
    content: Value,
    /// The error code that the tool chose for its failure.
    kind: Value,
    usage: Option<CallUsage>,
    pub(in crate::plugin) printed: Vec<PrintedLine>,
    pub(in crate::plugin) denied: Vec<Denied>,
    /// The calls of other tools.
    calls: Vec<ReportedCall>,
    /// The files of the workspace that the call wrote or deleted.
    pub(in crate::plugin) changed_files: Vec<String>,
    /// Notes for the user about the plugin.
    pub(in crate::plugin) notes: Vec<String>,
    /// The name of the skill, for commands.
    #[serde(skip)]
    skill: String,
}

/// The usage of a call, with the limits.
#[derive(Debug, Serialize)]
struct CallUsage {
    time_us: u64,
    fuel: u64,
    fuel_limit: u64,
    memory_bytes: u64,
    memory_limit: usize,
    host_calls: u64,
    output_bytes: u64,
    output_limit: usize,
}

/// A nested call that the tool made.
#[derive(Debug, Serialize)]
struct ReportedCall {
    tool: String,
    outcome: &'static str,
    time_us: u64,
}

impl CallReport {
    /// Returns the report of a call of `tool`. `rows` are the journal rows of the call and its nested calls.
    pub(in crate::plugin) fn new(tool: String, outcome: &Outcome, rows: &[JournalEntry], limits: &Limits) -> Self {
        let data = outcome.data.as_ref().and_then(|data| serde_json::to_value(data).ok()).unwrap_or_default();
        let skill = tool.split("__").next().unwrap_or_default().to_owned();
        let (outer, nested): (Vec<_>, Vec<_>) =
            rows.iter().map(|entry| &entry.row).partition(|row| row.parent.is_none());
        let usage = outer.first().map(|row| CallUsage {
            time_us: row.time_us,
            fuel: row.fuel,
            fuel_limit: limits.fuel,
            memory_bytes: row.peak_memory,
            memory_limit: limits.memory_bytes,
            host_calls: row.host_calls,
            output_bytes: row.output_bytes,
            output_limit: limits.output_bytes,
        });
        let calls = nested.iter().map(|row| ReportedCall {
            tool: format!("{}__{}", row.skill, row.tool),
            outcome: row.outcome(),
            time_us: row.time_us,
        });
        Self {
            message: for_trial(&without_printed(&outcome.message), &skill),
            tool,
            status: outcome.status,
            code: outcome.code.as_str(),
            content: data["content"].clone(),
            kind: data["kind"].clone(),
            usage,
            printed: Vec::new(),
            denied: Vec::new(),
            calls: calls.collect(),
            changed_files: Vec::new(),
            notes: Vec::new(),
            skill,
        }
    }

    pub(in crate::plugin) fn is_ok(&self) -> bool {
        self.status == Status::Ok
    }

    /// Prints the report as JSON on standard output, or as text, with the result on standard output and the rest on standard error.
    pub(in crate::plugin) fn print(&self, json: bool) {
        if json {
            say!("{}", serde_json::to_string(self).unwrap_or_default());
            return;
        }
        if self.is_ok() {
            say!("{}", self.message);
        }
        for line in &self.printed {
            let level = if line.level == "info" { String::new() } else { format!(" ({})", line.level) };
            note(&format!("printed{level}: {}", line.text));
        }
        for call in &self.calls {
            note(&format!("called: {}, {}, {}", call.tool, call.outcome, milliseconds(call.time_us)));
        }
        for Denied { skill, capability, act } in &self.denied {
            let advice = if *skill == self.skill {
                format!("add --grant {}", quoted(capability))
            } else {
                format!("it is not granted to {skill}")
            };
            note(&format!("denied: {act} ({capability}): {advice}"));
        }
        for file in &self.changed_files {
            note(&format!("file: {file}"));
        }
        if let Some(usage) = &self.usage {
            note(&usage.line());
        }
        for text in &self.notes {
            note(&format!("note: {text}"));
        }
        if !self.is_ok() {
            // The code is appended to the first line; the lines after it are places in the source.
            let (first, rest) = self.message.split_at(self.message.find('\n').unwrap_or(self.message.len()));
            note(&format!("Error: {first} [{}]{rest}", self.code));
        }
    }
}

impl CallUsage {
    fn line(&self) -> String {
        format!(
            "used: {}, fuel {} of {}, memory {} of {}, {} host {}, output {} of {}",
            milliseconds(self.time_us),
            text::with_commas(self.fuel),
            text::with_commas(self.fuel_limit),
            text::size(self.memory_bytes),
            text::size(self.memory_limit as u64),
            self.host_calls,
            if self.host_calls == 1 { "call" } else { "calls" },
            text::size(self.output_bytes),
            text::size(self.output_limit as u64),
        )
    }
}

/// Formats a time in milliseconds, with one digit after the decimal point.
fn milliseconds(us: u64) -> String {
    format!("{}.{} ms", us / 1_000, us % 1_000 / 100)
}

/// Removes printed lines from the message of a trap, because the report contains all of them.
fn without_printed(message: &str) -> String {
    let lines: Vec<&str> = message.lines().filter(|line| !line.starts_with("  printed: ")).collect();
    lines.join("\n")
}

/// Replaces the command that grants a capability to an installed skill with the option of this command.
fn for_trial(message: &str, skill: &str) -> String {
    message.replace(&format!("patchbay grant add {skill} "), "add --grant ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_the_option_of_this_command() {
        let denial = "skill 'greet' may not use 'kv': it is not granted. To grant it: patchbay grant add greet kv";
        let expected = "skill 'greet' may not use 'kv': it is not granted. To grant it: add --grant kv";
        assert_eq!(for_trial(denial, "greet"), expected);
    }

    #[test]
    fn printed_lines_are_not_repeated() {
        assert_eq!(without_printed("stopped: it trapped.\n  printed: a\n  printed: b"), "stopped: it trapped.");
        assert_eq!(without_printed("a\n\nb"), "a\n\nb");
    }

    #[test]
    fn time_has_one_digit_behind_the_point() {
        assert_eq!([0, 49, 1_999, 12_345_678].map(milliseconds), ["0.0 ms", "0.0 ms", "1.9 ms", "12345.6 ms"]);
    }
}
