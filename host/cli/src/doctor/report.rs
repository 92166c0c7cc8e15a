//! The result of the checks: facts in sections, problems and advice. It is printed as JSON, or as text that screen readers handle.

use patchbay_core::text;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The result of all checks, in the order in which they ran.
#[derive(Default)]
pub(crate) struct DoctorReport {
    sections: Vec<Section>,
    problems: Vec<Finding>,
    advice: Vec<Finding>,
}

struct Section {
    title: &'static str,
    facts: Vec<Fact>,
}

/// One fact: `NAME: TEXT` in the text, a key and a value in JSON.
pub(crate) struct Fact {
    name: String,
    text: String,
    value: Value,
}

/// A problem or a piece of advice, with the command that resolves it.
#[derive(Serialize)]
struct Finding {
    what: String,
    command: String,
}

impl Fact {
    /// Returns a fact whose value in JSON is its text.
    pub(crate) fn new(name: impl AsRef<str>, text: impl AsRef<str>) -> Self {
        let text = text::clean_line(text.as_ref());
        Self { name: text::clean_line(name.as_ref()), value: Value::String(text.clone()), text }
    }

    /// Returns a fact with a separate value for JSON.
    pub(crate) fn with(name: impl AsRef<str>, text: impl AsRef<str>, value: Value) -> Self {
        Self { value, ..Self::new(name, text) }
    }

    /// Returns a fact that lists names.
    pub(crate) fn list(name: impl AsRef<str>, items: &[String]) -> Self {
        let text = if items.is_empty() { "none".to_owned() } else { items.join(", ") };
        Self::with(name, text, json!(items))
    }
}

impl DoctorReport {
    pub(crate) fn section(&mut self, title: &'static str, facts: Vec<Fact>) {
        self.sections.push(Section { title, facts });
    }

    /// Adds a problem and the command that fixes it.
    pub(crate) fn problem(&mut self, what: impl AsRef<str>, command: impl Into<String>) {
        self.problems.push(Finding::new(what.as_ref(), command.into()));
    }

    /// Adds something that works but could be better.
    pub(crate) fn advise(&mut self, what: impl AsRef<str>, command: impl Into<String>) {
        self.advice.push(Finding::new(what.as_ref(), command.into()));
    }

    /// Returns whether no problems were found. Advice does not count.
    pub(crate) fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }

    /// Returns a paragraph for each section, then the problems and the advice, each with its command on its own line.
    pub(crate) fn to_text(&self) -> String {
        let mut paragraphs: Vec<String> = self.sections.iter().map(Section::to_text).collect();
        paragraphs.push(match self.problems.len() {
            0 => "All is well.".to_owned(),
            1 => "1 problem:".to_owned(),
            several => format!("{several} problems:"),
        });
        let findings = |list: &[Finding]| {
            let lines =
                (1..).zip(list).map(|(number, Finding { what, command })| format!("{number}. {what}\n   {command}"));
            lines.collect::<Vec<_>>().join("\n")
        };
        if !self.problems.is_empty() {
            let last = paragraphs.pop().unwrap_or_default();
            paragraphs.push(format!("{last}\n{}", findings(&self.problems)));
        }
        if !self.advice.is_empty() {
            paragraphs.push(format!("Advice:\n{}", findings(&self.advice)));
        }
        paragraphs.join("\n\n")
    }

    /// Returns one object: `ok`, `sections`, `problems`, `advice`.
    pub(crate) fn to_json(&self) -> Value {
        let sections = self.sections.iter().map(|section| {
            let facts = section.facts.iter().map(|fact| (key(&fact.name), fact.value.clone()));
            (key(section.title), Value::Object(facts.collect()))
        });
        let sections: Map<String, Value> = sections.collect();
        json!({"ok": self.is_ok(), "sections": sections, "problems": self.problems, "advice": self.advice})
    }
}

impl Section {
    fn to_text(&self) -> String {
        let facts = self.facts.iter().map(|Fact { name, text, .. }| format!("\n  {name}: {text}"));
        facts.fold(self.title.to_owned(), |text, fact| text + &fact)
    }
}

impl Finding {
    fn new(what: &str, command: String) -> Self {
        Self { what: text::clean_line(what), command }
    }
}

/// Returns a name as a JSON key.
fn key(name: &str) -> String {
    name.to_lowercase().replace(' ', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_names_problems_with_their_commands() {
        let mut report = DoctorReport::default();
        report.section("Folders", vec![Fact::new("data", "/a\u{1b}[2J"), Fact::list("found in it", &[])]);
        assert_eq!(report.to_text(), "Folders\n  data: /a[2J\n  found in it: none\n\nAll is well.");
        report.advise("Better.", "do it");
        assert!(report.is_ok());
        report.problem("Wrong.", "mend it");
        report.problem("Also\nwrong.", "mend that");
        assert!(!report.is_ok());
        let end =
            "\n\n2 problems:\n1. Wrong.\n   mend it\n2. Also wrong.\n   mend that\n\nAdvice:\n1. Better.\n   do it";
        assert!(report.to_text().ends_with(end), "{}", report.to_text());
        let expected = json!({
            "ok": false,
            "sections": {"folders": {"data": "/a[2J", "found_in_it": []}},
            "problems": [{"what": "Wrong.", "command": "mend it"}, {"what": "Also wrong.", "command": "mend that"}],
            "advice": [{"what": "Better.", "command": "do it"}],
        });
        assert_eq!(report.to_json(), expected);
    }
}
