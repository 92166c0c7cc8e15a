//! The rules that hold for every skill. `plugin test` checks them with the skill's own cases; `--conformance` checks nothing else
//! and does not need cases.

mod inputs;

use std::collections::BTreeSet;

use patchbay_fixture::PreparedCase;
use patchbay_plugin::{LocatedPlugin, PluginForm};
use patchbay_policy::Capability;
use patchbay_skill::Skill;
use serde_json::json;

use super::{
    report::{CaseReport, PrintedReport},
    tested::TestedPlugin,
};
use crate::plugin::call::NotCalled;

/// The observations from the cases of a skill.
pub(super) struct Conformance {
    skill: Skill,
    /// Whether the author wrote a SKILL.md.
    has_manifest: bool,
    different: Vec<String>,
    over_half: Vec<String>,
    not_asked: Vec<String>,
    unclean: Vec<String>,
    used: BTreeSet<Capability>,
    notes: Vec<String>,
}

impl Conformance {
    pub(super) async fn new(tested: &TestedPlugin<'_>, plugin: &LocatedPlugin) -> Result<Self, NotCalled> {
        Ok(Self {
            skill: tested.skill().await?,
            has_manifest: !matches!(plugin.form, PluginForm::Bare(_)),
            different: Vec::new(),
            over_half: Vec::new(),
            not_asked: Vec::new(),
            unclean: Vec::new(),
            used: BTreeSet::new(),
            notes: Vec::new(),
        })
    }

    /// Observes the first run of a case, and runs it once more in a fresh home.
    pub(super) async fn observe(
        &mut self,
        tested: &TestedPlugin<'_>,
        case: &PreparedCase,
        first: &CaseReport,
    ) -> Result<(), NotCalled> {
        let name = match case.is_unwritten() {
            true => format!("{} with {}", case.tool, json!(case.input)),
            false => first.case.clone(),
        };
        let second = tested.run(case).await?;
        let (Some(one), Some(other)) = (&first.actual, &second.actual) else {
            self.different.push(format!("{name}: {}", first.problem.clone().unwrap_or_default()));
            return Ok(());
        };
        if one.effects() != other.effects() {
            self.different.push(format!("{name}: {} and {}", shown(&one.effects()), shown(&other.effects())));
        }
        for used in first.limits.iter().filter(|used| used.is_over_half()) {
            // Time depends on the machine, so it is only noted.
            let list = if used.limit == "time_ms" { &mut self.notes } else { &mut self.over_half };
            list.push(format!("{name} {}", used.sentence()));
        }
        let asked = || self.skill.manifest.capabilities.iter().map(|asked| &asked.capability);
        for wanted in one.wanted.iter().filter(|_| self.has_manifest) {
            let is_asked = wanted.parse().is_ok_and(|wanted| asked().any(|asked| asked.includes(&wanted)));
            if !is_asked {
                self.not_asked.push(format!("{name} needs '{wanted}'"));
            }
        }
        if one.has_unclean_text() {
            self.unclean.push(format!("{name}: the result has characters that are not shown; the host removed them"));
        }
        self.used.extend(one.usage.capabilities.iter().cloned());
        Ok(())
    }

    /// Calls each tool once, with an input that its schema allows.
    pub(super) async fn observe_examples(&mut self, tested: &TestedPlugin<'_>) -> Result<(), NotCalled> {
        self.notes.push("no fixtures found; each tool was called once with a generated input".to_owned());
        for tool in self.skill.tools.clone().iter() {
            let case = PreparedCase::unwritten(tool.name.as_str(), inputs::example(&tool.input_schema));
            let first = tested.run(&case).await?;
            self.observe(tested, &case, &first).await?;
        }
        Ok(())
    }

    /// Checks the rules. `has_cases` is false if only generated inputs were tried.
    pub(super) async fn check(
        self,
        tested: &TestedPlugin<'_>,
        report: &mut PrintedReport,
        has_cases: bool,
    ) -> Result<(), NotCalled> {
        let skill = &self.skill;
        report.add_rule("the list of tools is the same in fresh instances", same_tools(tested, skill).await?);
        let (refusals, accepting) = refusals(tested, skill).await?;
        report.add_rule("input that violates a schema is refused", refusals);
        let accepting = if report.shows_rules() { accepting } else { Vec::new() };
        for tool in accepting {
            report.note(format!("the schema of '{tool}' refuses no object, so nothing was refused"));
        }
        report.add_rule("the same input gives the same bytes in fresh instances", self.different);
        report.add_rule("each case stays within half of each default limit", self.over_half);
        report.add_rule("SKILL.md asks for everything that is used", self.not_asked);
        report.add_rule("texts have no control characters", self.unclean);
        if has_cases && self.has_manifest {
            let asked = skill.manifest.capabilities.iter().map(|asked| &asked.capability);
            let is_used =
                |asked: &Capability| self.used.iter().any(|used| asked.includes(used) || used.includes(asked));
            for asked in asked.filter(|asked| !is_used(asked)) {
                report.note(format!("SKILL.md asks for '{asked}', which no case uses"));
            }
        }
        self.notes.into_iter().for_each(|note| report.note(note));
        Ok(())
    }
}

async fn same_tools(tested: &TestedPlugin<'_>, skill: &Skill) -> Result<Vec<String>, NotCalled> {
    let again = tested.skill().await?;
    Ok(if again.tools == skill.tools {
        Vec::new()
    } else {
        let names = |skill: &Skill| skill.tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>().join(", ");
        vec![format!(
            "a second instance lists other tools, or describes them differently: first {}, then {}",
            names(skill),
            names(&again)
        )]
    })
}

/// Calls each tool with inputs that its schema refuses. Returns the problems, and the tools whose schema refuses nothing.
async fn refusals(tested: &TestedPlugin<'_>, skill: &Skill) -> Result<(Vec<String>, Vec<String>), NotCalled> {
    let (mut problems, mut accepting) = (Vec::new(), Vec::new());
    for tool in skill.tools.iter() {
        let refused = inputs::refused(&tool.input_schema);
        if refused.is_empty() {
            accepting.push(tool.name.to_string());
        }
        for input in refused {
            let shown = json!(input).to_string();
            let report = tested.run(&PreparedCase::unwritten(tool.name.as_str(), input)).await?;
            let kind = report.actual.as_ref().and_then(|actual| actual.failure_kind());
            if kind != Some("invalid_input") {
                problems.push(format!("{} accepted {shown}", tool.name));
            }
        }
    }
    Ok((problems, accepting))
}

fn shown(value: &serde_json::Value) -> String {
    patchbay_core::text::excerpt(&value.to_string(), 200)
}
