//! `patchbay plugin test`: runs the cases of a plugin's folder `fixtures` against its component. Each case is a call as `plugin call`
//! makes it, in a home and a workspace of its own, with recorded answers in place of network, models and other tools.

mod conformance;
mod report;
mod tested;

use std::{path::Path, process::ExitCode};

use patchbay_core::{Code, text};
use patchbay_fixture::{CASES, FixtureError, FixtureFolder, PreparedCase};
use patchbay_plugin::locate;

use self::{
    report::{CaseReport, TestReport},
    tested::TestedPlugin,
};
use super::call::{NotCalled, usage};
use crate::{
    CliError, FAILED,
    args::PluginTest,
    out::{note, say},
    progress_line::Style,
    signals::{EndSignal, GRACE},
};

/// Exit code if the plugin or its fixtures cannot be used.
const UNUSABLE: u8 = 2;

impl From<FixtureError> for NotCalled {
    fn from(error: FixtureError) -> Self {
        Self::Usage(CliError::new(error.code(), format!("{error}.")))
    }
}

pub(crate) async fn run(test: &PluginTest) -> Result<ExitCode, CliError> {
    let signal = EndSignal::watch(true, GRACE);
    let tested = tokio::select! {
        biased;
        code = signal.received() => Err(NotCalled::Stopped(code)),
        tested = tested(test) => tested,
    };
    match tested {
        Ok(report) => {
            report.print(test.json);
            Ok(if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
        }
        Err(NotCalled::Usage(error) | NotCalled::Failed(error)) => {
            note(&format!("Error: {error}"));
            Ok(ExitCode::from(UNUSABLE))
        }
        Err(NotCalled::Stopped(code)) => Ok(ExitCode::from(code)),
    }
}

async fn tested(test: &PluginTest) -> Result<TestReport, NotCalled> {
    let located = locate(&test.plugin).map_err(|error| usage(format!("{error}.")))?;
    let folder = FixtureFolder::open(fixtures_of(&test.plugin));
    let style = if test.json { Style::Silent } else { Style::of_standard_error() };
    if test.conformance {
        return conformance::check(test, &located, style, folder).await;
    }
    let folder = folder?;
    let files = files(&folder, test.filter.as_deref())?;
    let tested = TestedPlugin::open(&located, style)?;
    let mut report = TestReport::new(located.name.as_str());
    if let Some(newer) = &located.newer {
        let folder = patchbay_policy::quoted(&test.plugin.to_string_lossy()).into_owned();
        report.notes.push(format!(
            "'{newer}' was changed after the component was built. To build it again: patchbay plugin build {folder}"
        ));
    }
    for file in files {
        // Read once more: the bodies of all cases together may be large.
        for case in folder.cases(&file)?.iter().filter(|case| matches(case, test.filter.as_deref())) {
            let mut case_report = tested.run(case).await?;
            if let Some(actual) = case_report.actual.as_deref().filter(|_| test.update && !case_report.passed) {
                case_report.updated = folder.update(case, actual)?;
            }
            if !test.json {
                print_case(&case_report);
            }
            report.add(case_report);
        }
    }
    Ok(report)
}

/// Returns the folder that contains `fixtures`: the plugin's own, or the one beside a component.
fn fixtures_of(plugin: &Path) -> &Path {
    if plugin.is_dir() {
        return plugin;
    }
    plugin.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Checks all fixtures, and returns those with a case to run.
fn files(folder: &FixtureFolder, filter: Option<&str>) -> Result<Vec<String>, NotCalled> {
    let (mut files, mut cases) = (Vec::new(), 0);
    for file in folder.names()? {
        let of_file = folder.cases(&file)?;
        cases += of_file.len();
        if cases > CASES {
            return Err(FixtureError::TooMany(CASES).into());
        }
        if of_file.iter().any(|case| matches(case, filter)) {
            files.push(file);
        }
    }
    match filter {
        _ if cases == 0 => Err(fixture_error("the fixtures have no cases.".to_owned())),
        Some(filter) if files.is_empty() => {
            Err(fixture_error(format!("--filter: no case or tool has '{}' in its name.", text::excerpt(filter, 80))))
        }
        _ => Ok(files),
    }
}

fn fixture_error(message: String) -> NotCalled {
    NotCalled::Usage(CliError::new(Code::FixtureInvalid, message))
}

fn matches(case: &PreparedCase, filter: Option<&str>) -> bool {
    filter.is_none_or(|filter| case.name().contains(filter) || case.tool.contains(filter))
}

fn print_case(report: &CaseReport) {
    for line in report.lines() {
        say!("{line}");
    }
}
