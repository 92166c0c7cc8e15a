//! `patchbay plugin test`: runs the cases in a plugin's folder `fixtures` against its component. Each case is a call as with
//! `plugin call`, in its own home and workspace, with recorded answers in place of network, models and other tools.

mod answers;
mod conformance;
mod report;
mod tested;

use std::{path::Path, process::ExitCode};

use patchbay_core::{Code, text};
use patchbay_fixture::{CASES, FixtureError, FixtureFolder, PreparedCase};
use patchbay_plugin::{PluginForm, locate};

use self::{
    conformance::Conformance,
    report::{PrintedReport, TestReport},
    tested::TestedPlugin,
};
use super::call::{NotCalled, usage};
use crate::{
    CliError, FAILED,
    args::PluginTest,
    out::note,
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
    if let PluginForm::Adapter(component) = &located.form {
        return answers::test(test, &located, component, folder).await;
    }
    let filter = test.filter.as_deref();
    let matches = |case: &PreparedCase| matches(case, filter);
    let written = match folder {
        Ok(folder) => Some((files(&folder, filter, |file| folder.cases(file), matches)?, folder)),
        // Without cases, each tool is called once with an input that its schema allows.
        Err(FixtureError::NoFixtures(_)) if test.conformance => None,
        Err(error) => return Err(error.into()),
    };
    let style = if test.json { Style::Silent } else { Style::of_standard_error() };
    let tested = TestedPlugin::open(&located, style)?;
    let mut report = PrintedReport::new(test, &located);
    // With --filter, too few cases run to show everything that the plugin needs.
    let mut rules = match test.conformance || filter.is_none() {
        true => Some(Conformance::new(&tested, &located).await?),
        false => None,
    };
    for (file, folder) in written.iter().flat_map(|(files, folder)| files.iter().map(move |file| (file, folder))) {
        // Each file is read again, because the bodies of all cases together may be large.
        for case in folder.cases(file)?.iter().filter(|case| matches(case)) {
            let mut case_report = tested.run(case).await?;
            if let Some(rules) = &mut rules {
                rules.observe(&tested, case, &case_report).await?;
            }
            if test.conformance {
                continue;
            }
            if let Some(actual) = case_report.actual.as_deref().filter(|_| test.update && !case_report.passed) {
                case_report.updated = folder.update(case, actual)?;
            }
            report.add_case(case_report);
        }
    }
    if let Some(mut rules) = rules {
        if written.is_none() {
            rules.observe_examples(&tested).await?;
        }
        rules.check(&tested, &mut report, written.is_some()).await?;
    }
    Ok(report.end())
}

/// Returns the folder that contains `fixtures`: the plugin's folder, or the folder that contains a component.
fn fixtures_of(plugin: &Path) -> &Path {
    if plugin.is_dir() {
        return plugin;
    }
    plugin.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Checks all fixtures, and returns the files with a case to run.
fn files<T>(
    folder: &FixtureFolder,
    filter: Option<&str>,
    read: impl Fn(&str) -> Result<Vec<T>, FixtureError>,
    matches: impl Fn(&T) -> bool,
) -> Result<Vec<String>, NotCalled> {
    let (mut files, mut cases) = (Vec::new(), 0);
    for file in folder.names()? {
        let of_file = read(&file)?;
        cases += of_file.len();
        if cases > CASES {
            return Err(FixtureError::TooMany(CASES).into());
        }
        if of_file.iter().any(&matches) {
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
