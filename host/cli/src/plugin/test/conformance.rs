//! The rules that hold for every plugin, whatever its tools do: `plugin test --conformance`.

mod inputs;

use std::collections::BTreeSet;

use patchbay_fixture::{FixtureError, FixtureFolder, PreparedCase};
use patchbay_plugin::{LocatedPlugin, PluginForm};
use patchbay_policy::Capability;
use patchbay_skill::Skill;
use serde_json::json;

use super::{
    files,
    report::{CaseReport, TestReport},
    tested::TestedPlugin,
};
use crate::{args::PluginTest, plugin::call::NotCalled, progress_line::Style};

/// The most problems that a rule reports.
const PROBLEMS: usize = 20;

/// Checks the rules. Without fixtures, each tool is called once with an input that its schema allows.
pub(super) async fn check(
    test: &PluginTest,
    plugin: &LocatedPlugin,
    style: Style,
    folder: Result<FixtureFolder, FixtureError>,
) -> Result<TestReport, NotCalled> {
    let filter = test.filter.as_deref();
    let written = match folder {
        Ok(folder) => Some((files(&folder, filter)?, folder)),
        Err(FixtureError::None(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let tested = TestedPlugin::open(plugin, style)?;
    let skill = tested.skill().await?;
    let mut rules = CheckedRules { json: test.json, report: TestReport::new(skill.name.as_str()) };
    rules.add("the list of tools is the same in fresh instances", same_tools(&tested, &skill).await?);
    let (refusals, accepting) = refusals(&tested, &skill).await?;
    rules.add("what a schema refuses is refused", refusals);
    for tool in accepting {
        rules.report.notes.push(format!("the schema of '{tool}' refuses no object, so nothing was refused"));
    }
    let has_manifest = !matches!(plugin.form, PluginForm::Bare(_));
    let mut seen = Observations::default();
    match &written {
        Some((files, folder)) => {
            for file in files {
                for case in folder.cases(file)?.iter().filter(|case| super::matches(case, filter)) {
                    seen.run_twice(&tested, case, &skill, has_manifest).await?;
                }
            }
        }
        None => {
            rules
                .report
                .notes
                .push("there are no fixtures; each tool was called once, with a made-up input".to_owned());
            for tool in skill.tools.iter() {
                let input = inputs::example(&tool.input_schema);
                let case = PreparedCase::unwritten(tool.name.as_str(), input);
                seen.run_twice(&tested, &case, &skill, has_manifest).await?;
            }
        }
    }
    rules.add("the same input gives the same bytes in fresh instances", seen.different);
    rules.add("each case stays within half of each default limit", seen.over_half);
    rules.add("SKILL.md asks for everything that is used", seen.not_asked);
    rules.add("texts have no control characters", seen.unclean);
    let mut report = rules.report;
    if written.is_some() && has_manifest {
        let asked = skill.manifest.capabilities.iter().map(|asked| &asked.capability);
        let is_used = |asked: &Capability| seen.used.iter().any(|used| asked.includes(used) || used.includes(asked));
        let unused = asked.filter(|asked| !is_used(asked));
        report.notes.extend(unused.map(|asked| format!("SKILL.md asks for '{asked}', which no case uses")));
    }
    report.notes.append(&mut seen.notes);
    Ok(report)
}

/// The rules that were checked so far.
struct CheckedRules {
    json: bool,
    report: TestReport,
}

impl CheckedRules {
    fn add(&mut self, rule: &str, mut problems: Vec<String>) {
        if problems.len() > PROBLEMS {
            let more = problems.len() - PROBLEMS;
            problems.truncate(PROBLEMS);
            problems.push(format!("… {more} more"));
        }
        let rule = CaseReport::of_rule(rule, problems);
        if !self.json {
            super::print_case(&rule);
        }
        self.report.add(rule);
    }
}

async fn same_tools(tested: &TestedPlugin<'_>, skill: &Skill) -> Result<Vec<String>, NotCalled> {
    let again = tested.skill().await?;
    Ok(if again.tools == skill.tools {
        Vec::new()
    } else {
        let names = |skill: &Skill| skill.tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>().join(", ");
        vec![format!(
            "a second instance lists other tools, or describes them in another way: first {}, then {}",
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

/// What the cases showed.
#[derive(Default)]
struct Observations {
    different: Vec<String>,
    over_half: Vec<String>,
    not_asked: Vec<String>,
    unclean: Vec<String>,
    used: BTreeSet<Capability>,
    notes: Vec<String>,
}

impl Observations {
    /// Runs a case twice, in fresh homes.
    async fn run_twice(
        &mut self,
        tested: &TestedPlugin<'_>,
        case: &PreparedCase,
        skill: &Skill,
        has_manifest: bool,
    ) -> Result<(), NotCalled> {
        let (mut first, second) = (tested.run(case).await?, tested.run(case).await?);
        if case.is_unwritten() {
            first.case = format!("{} with {}", case.tool, json!(case.input));
        }
        let name = &first.case;
        let (Some(one), Some(other)) = (&first.actual, &second.actual) else {
            self.different.push(format!("{name}: {}", first.problem.unwrap_or_default()));
            return Ok(());
        };
        if one.effects() != other.effects() {
            self.different.push(format!("{name}: {} and {}", shown(&one.effects()), shown(&other.effects())));
        }
        for used in first.limits.iter().filter(|used| used.is_over_half()) {
            // Time depends on the machine.
            let list = if used.limit == "time_ms" { &mut self.notes } else { &mut self.over_half };
            list.push(format!("{name} {}", used.sentence()));
        }
        let asked = || skill.manifest.capabilities.iter().map(|asked| &asked.capability);
        for wanted in one.wanted.iter().filter(|_| has_manifest) {
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
}

fn shown(value: &serde_json::Value) -> String {
    patchbay_core::text::excerpt(&value.to_string(), 200)
}
