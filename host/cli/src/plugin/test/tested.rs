//! A plugin under test: runs its cases with recorded answers.

use patchbay_fixture::PreparedCase;
use patchbay_plugin::LocatedPlugin;
use patchbay_sandbox::Limits;
use patchbay_skill::Skill;
use serde_json::Map;

use super::report::{CaseReport, CaseStatus};
use crate::{
    plugin::{
        bench::{Bench, CaseEnd, Outside},
        call::{NotCalled, trial_home::TrialHome},
    },
    progress_line::Style,
};

pub(super) struct TestedPlugin<'a> {
    plugin: &'a LocatedPlugin,
    bench: Bench,
}

impl<'a> TestedPlugin<'a> {
    pub(super) fn open(plugin: &'a LocatedPlugin, style: Style) -> Result<Self, NotCalled> {
        // This refuses adapters, and skills without tools, before anything runs.
        drop(TrialHome::new(plugin, &[], &[])?);
        Ok(Self { plugin, bench: Bench::open(style, false)? })
    }

    /// Runs a case in a temporary home.
    pub(super) async fn run(&self, case: &PreparedCase) -> Result<CaseReport, NotCalled> {
        match self.call(case).await {
            Ok(CaseEnd { actual, printed, denied, .. }) => {
                let mut report = CaseReport::new(case, CaseStatus::Ran(Box::new(actual)));
                (report.printed, report.denied) = (printed, denied);
                report.count(&case.grants, &Limits::default());
                Ok(report)
            }
            // The case names something that does not exist; other cases may still pass.
            Err(NotCalled::Usage(error)) => Ok(CaseReport::new(case, CaseStatus::Refused(error.to_string()))),
            Err(other) => Err(other),
        }
    }

    async fn call(&self, case: &PreparedCase) -> Result<CaseEnd, NotCalled> {
        let trial = self.bench.load(self.plugin, case, Outside::Recorded).await?;
        self.bench.call(&trial, case).await
    }

    /// Loads the skill, with the tools that a fresh instance declares.
    pub(super) async fn skill(&self) -> Result<Skill, NotCalled> {
        let trial = self.bench.load(self.plugin, &PreparedCase::unwritten("", Map::new()), Outside::Recorded).await?;
        let skill = trial.skill.clone();
        trial.close().await;
        Ok(skill)
    }
}
