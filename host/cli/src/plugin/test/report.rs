//! The report of a test run, as text and as JSON.

use patchbay_core::text;
use patchbay_fixture::{ActualOutcome, AnswerCase, CaseDifference, PreparedCase};
use patchbay_plugin::LocatedPlugin;
use patchbay_policy::Capability;
use patchbay_sandbox::{Limits, Usage};
use serde::Serialize;

use crate::{
    args::PluginTest,
    out::{note, say},
    plugin::call::{denied::Denied, printed::PrintedLine},
};

/// Limit of the problems that one rule reports.
const PROBLEMS: usize = 20;
/// How many lines of a failed case's output are shown.
const PRINTED: usize = 20;

/// The cases of a plugin, as `--json` prints them.
#[derive(Debug, Serialize)]
pub(super) struct TestReport {
    plugin: String,
    passed: usize,
    failed: usize,
    /// Cases whose fixture was changed by `--update`.
    updated: usize,
    /// Number of conformance rules that hold and are not listed as cases.
    rules: usize,
    cases: Vec<CaseReport>,
    /// Notes for the author about the plugin.
    notes: Vec<String>,
}

/// The result of one case, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct CaseReport {
    /// The name, such as `fixtures/hello.json`.
    pub(super) case: String,
    /// The tool's name, or the model of an adapter's case.
    tool: String,
    pub(super) passed: bool,
    /// Whether the differences were written into the fixture.
    pub(super) updated: bool,
    /// Why the case could not run; `null` if it ran.
    pub(super) problem: Option<String>,
    pub(super) differences: Vec<CaseDifference>,
    /// Use of each limit; empty if the case did not run.
    pub(super) limits: Vec<LimitUse>,
    pub(super) printed: Vec<PrintedLine>,
    pub(super) denied: Vec<Denied>,
    /// The outcome of the run, which `--update` writes into the fixture.
    #[serde(skip)]
    pub(super) actual: Option<Box<ActualOutcome>>,
}

/// The outcome of a case that ran, or the reason why it did not.
pub(super) enum CaseStatus {
    Ran(Box<ActualOutcome>),
    /// The reason why the case could not run.
    Refused(String),
}

/// A case's use of one limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LimitUse {
    /// The key in `[limits]` of `config.toml`.
    pub(super) limit: &'static str,
    pub(super) used: u64,
    pub(super) most: u64,
}

impl LimitUse {
    /// Whether more than half of the limit was used.
    pub(super) fn is_over_half(&self) -> bool {
        self.used > self.most / 2
    }
}

impl TestReport {
    fn new(plugin: &str) -> Self {
        Self {
            plugin: plugin.to_owned(),
            passed: 0,
            failed: 0,
            updated: 0,
            rules: 0,
            cases: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a case without its outcome, which is no longer needed and may be large.
    fn add(&mut self, mut case: CaseReport) {
        *(match (case.passed, case.updated) {
            (true, _) => &mut self.passed,
            (false, true) => &mut self.updated,
            (false, false) => &mut self.failed,
        }) += 1;
        for used in case.limits.iter().filter(|used| used.is_over_half()) {
            self.notes.push(format!("{} {}", case.case, used.sentence()));
        }
        case.actual = None;
        self.cases.push(case);
    }

    pub(super) fn is_ok(&self) -> bool {
        self.failed == 0
    }

    pub(super) fn print(&self, json: bool) {
        if json {
            say!("{}", serde_json::to_string(self).unwrap_or_default());
            return;
        }
        let updated = if self.updated > 0 { format!(", {} updated", self.updated) } else { String::new() };
        let rules = if self.rules > 0 { format!("; {} rules hold", self.rules) } else { String::new() };
        say!("{} passed, {} failed{updated}{rules}", self.passed, self.failed);
        for text in &self.notes {
            note(&format!("note: {text}"));
        }
    }
}

impl LimitUse {
    pub(super) fn sentence(&self) -> String {
        let percent = self.used.saturating_mul(100) / self.most.max(1);
        let (used, most) = (text::with_commas(self.used), text::with_commas(self.most));
        format!("used {percent} % of limits.{} ({used} of {most})", self.limit)
    }
}

impl CaseReport {
    pub(super) fn new(case: &PreparedCase, status: CaseStatus) -> Self {
        let (problem, actual) = match status {
            CaseStatus::Ran(actual) => (None, Some(actual)),
            CaseStatus::Refused(problem) => (Some(problem), None),
        };
        let differences = actual.as_ref().map(|actual| actual.differences(case)).unwrap_or_default();
        Self {
            case: case.name(),
            tool: case.tool.clone(),
            passed: problem.is_none() && differences.is_empty(),
            updated: false,
            problem,
            differences,
            limits: Vec::new(),
            printed: Vec::new(),
            denied: Vec::new(),
            actual,
        }
    }

    /// Returns the report of a rule that holds for every plugin.
    pub(super) fn of_rule(rule: &str, problems: Vec<String>) -> Self {
        let problem = (!problems.is_empty()).then(|| problems.join("\n"));
        Self::without_call(format!("conformance: {rule}"), String::new(), problem, Vec::new())
    }

    /// Returns the report of an adapter's case.
    pub(super) fn of_answer(case: &AnswerCase, problem: Option<String>, differences: Vec<CaseDifference>) -> Self {
        Self::without_call(case.name(), case.model().to_owned(), problem, differences)
    }

    fn without_call(case: String, tool: String, problem: Option<String>, differences: Vec<CaseDifference>) -> Self {
        Self {
            case,
            tool,
            passed: problem.is_none() && differences.is_empty(),
            updated: false,
            problem,
            differences,
            limits: Vec::new(),
            printed: Vec::new(),
            denied: Vec::new(),
            actual: None,
        }
    }

    /// Notes how much of each limit the case used.
    pub(super) fn count(&mut self, grants: &[Capability], limits: &Limits) {
        if let Some(actual) = &self.actual {
            self.limits = uses(&actual.usage, grants, limits);
        }
    }

    /// Returns the lines of the text report: whether the case passed, or why it failed.
    pub(super) fn lines(&self) -> Vec<String> {
        if self.passed {
            return vec![format!("passed  {}", self.case)];
        }
        let mut lines = vec![format!("{} {}", if self.updated { "updated" } else { "FAILED " }, self.case)];
        lines.extend(self.problem.clone());
        lines.extend(self.differences.iter().map(ToString::to_string));
        for Denied { capability, act, .. } in &self.denied {
            lines.push(format!("denied: {act} ({capability}): to allow it, add \"{capability}\" to \"grants\""));
        }
        let printed = self.printed.iter().take(PRINTED);
        lines.extend(printed.map(|PrintedLine { text, .. }| format!("printed: {text}")));
        if self.printed.len() > PRINTED {
            lines.push(format!("printed: … {} more lines", self.printed.len() - PRINTED));
        }
        let (head, rest) = lines.split_at(1);
        let rest = rest.iter().flat_map(|text| text.lines()).map(|line| format!("  {line}"));
        head.iter().cloned().chain(rest).collect()
    }
}

/// A report whose cases are printed as they are added.
pub(super) struct PrintedReport {
    report: TestReport,
    is_json: bool,
    /// Whether all rules are shown. Otherwise, rules that hold are only counted.
    shows_rules: bool,
}

impl PrintedReport {
    pub(super) fn new(test: &PluginTest, plugin: &LocatedPlugin) -> Self {
        let mut report = TestReport::new(plugin.name.as_str());
        if let Some(newer) = &plugin.newer {
            let folder = patchbay_policy::quoted(&test.plugin.to_string_lossy()).into_owned();
            report.notes.push(format!(
                "'{newer}' was changed after the component was built. To build it again: patchbay plugin build {folder}"
            ));
        }
        Self { report, is_json: test.json, shows_rules: test.conformance }
    }

    /// Adds a case and prints its report.
    pub(super) fn add_case(&mut self, case: CaseReport) {
        if !self.is_json {
            case.lines().iter().for_each(|line| say!("{line}"));
        }
        self.report.add(case);
    }

    /// Adds a rule with its problems. It holds if there are none.
    pub(super) fn add_rule(&mut self, rule: &str, mut problems: Vec<String>) {
        if problems.is_empty() && !self.shows_rules {
            self.report.rules += 1;
            return;
        }
        // The rule reports the same problem.
        self.report.notes.retain(|note| !problems.contains(note));
        if problems.len() > PROBLEMS {
            let more = problems.len() - PROBLEMS;
            problems.truncate(PROBLEMS);
            problems.push(format!("… {more} more"));
        }
        self.add_case(CaseReport::of_rule(rule, problems));
    }

    /// Whether all rules are shown.
    pub(super) fn shows_rules(&self) -> bool {
        self.shows_rules
    }

    pub(super) fn note(&mut self, note: String) {
        if !self.report.notes.contains(&note) {
            self.report.notes.push(note);
        }
    }

    pub(super) fn end(self) -> TestReport {
        self.report
    }
}

/// The factor by which the grant `tools` raises the limit of host calls.
const TOOLS_HOST_CALLS: u64 = 10;

/// Returns how much of each limit a call used.
fn uses(usage: &Usage, grants: &[Capability], limits: &Limits) -> Vec<LimitUse> {
    let (tools, inference) = (grants.contains(&Capability::Tools), grants.contains(&Capability::Inference));
    let host_calls = u64::from(limits.host_calls) * if tools { TOOLS_HOST_CALLS } else { 1 };
    let mut time_ms = limits.time_ms;
    time_ms += if tools { limits.code_ms } else { 0 };
    time_ms += if inference { limits.inference_ms } else { 0 };
    let mut uses = vec![
        LimitUse { limit: "fuel", used: usage.fuel, most: limits.fuel },
        LimitUse { limit: "memory_bytes", used: usage.peak_memory as u64, most: limits.memory_bytes as u64 },
        LimitUse { limit: "host_calls", used: usage.host_calls.into(), most: host_calls },
        LimitUse { limit: "output_bytes", used: usage.output_bytes as u64, most: limits.output_bytes as u64 },
        LimitUse { limit: "time_ms", used: u64::try_from(usage.time.as_millis()).unwrap_or(u64::MAX), most: time_ms },
    ];
    if inference {
        let most = limits.inference_tokens;
        uses.push(LimitUse { limit: "inference_tokens", used: usage.inference_tokens, most });
    }
    uses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_of_a_limit_is_a_note() {
        let usage = Usage { fuel: 1_000_000_001, host_calls: 5_001, ..Usage::default() };
        let over = |grants: &[Capability]| {
            let uses = uses(&usage, grants, &Limits::default());
            uses.iter().filter(|used| used.is_over_half()).map(LimitUse::sentence).collect::<Vec<_>>()
        };
        let fuel = "used 50 % of limits.fuel (1,000,000,001 of 2,000,000,000)";
        assert_eq!(over(&[]), [fuel, "used 50 % of limits.host_calls (5,001 of 10,000)"]);
        assert_eq!(over(&[Capability::Tools]), [fuel]);
    }
}
