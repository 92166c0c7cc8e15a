//! Runs cases of one plugin, each in a home of its own.

use std::sync::Arc;

use patchbay_fixture::{CaseRun, PreparedCase};
use patchbay_plugin::LocatedPlugin;
use patchbay_sandbox::Limits;
use patchbay_session::{BundledSkills, Host, LineInput, NewAttachment};
use patchbay_skill::Skill;
use patchbay_store::Store;
use serde_json::Map;
use tokio::time::timeout;

use super::{
    report::{CaseReport, CaseStatus},
    workspace,
};
use crate::{
    CliError,
    config::ConfigFile,
    home::HomeDirs,
    plugin::call::{self, NotCalled, denied::DenyingApprover, printed::PrintedLines, trial_home::TrialHome, usage},
    progress_line::{ProgressLine, Style},
    signals::SETTLING,
};

/// The parts that all cases of one plugin share.
pub(super) struct TestBench<'a> {
    plugin: &'a LocatedPlugin,
    /// The user's home, which has compiled components and the list of blocked ones. A case gets nothing else of it.
    home: HomeDirs,
    store: Store,
    printed: PrintedLines,
    progress: ProgressLine,
}

impl<'a> TestBench<'a> {
    pub(super) fn open(plugin: &'a LocatedPlugin, style: Style) -> Result<Self, NotCalled> {
        // Says at once that an adapter, or a skill of instructions alone, has no tools.
        drop(TrialHome::new(plugin, &[], &[])?);
        let home = HomeDirs::find()?;
        let store = Store::open(&home.paths.data)?;
        let progress = ProgressLine::new(style, &tokio::runtime::Handle::current());
        Ok(Self { plugin, home, store, printed: PrintedLines::collect(), progress })
    }

    /// Runs a case.
    pub(super) async fn run(&self, case: &PreparedCase) -> Result<CaseReport, NotCalled> {
        match self.run_in_home(case).await {
            // The case names something that does not exist; other cases may still pass.
            Err(NotCalled::Usage(error)) => Ok(CaseReport::new(case, CaseStatus::Refused(error.to_string()))),
            other => other,
        }
    }

    /// Returns the skill as loading finds it, described by a fresh instance.
    pub(super) async fn skill(&self) -> Result<Skill, NotCalled> {
        let trial = TrialHome::new(self.plugin, &[], &[])?;
        let host = self.host(&trial, Arc::new(CaseRun::new(&PreparedCase::unwritten("", Map::new()))))?;
        let session = host.new_session(&trial.workspace()).await?;
        let skill = call::loaded(&session, &trial)?;
        call::refuse_blocked(&self.store, &skill).await?;
        let _ = timeout(SETTLING, session.close()).await;
        drop(self.printed.take());
        Ok(skill)
    }

    /// Opens the host of a throw-away home, with `run` between the tools and its services.
    fn host(&self, trial: &TrialHome, run: Arc<CaseRun>) -> Result<Arc<Host>, NotCalled> {
        let mut settings = crate::host_config(&trial.dirs(&self.home), ConfigFile::default(), self.progress.clone())?;
        // Calls of other tools are answered by the fixture.
        settings.bundled = BundledSkills::default();
        settings.bundled_adapters = &[];
        Ok(Host::open_interposed(settings, &self.home.paths, &self.store, run)?)
    }

    async fn run_in_home(&self, case: &PreparedCase) -> Result<CaseReport, NotCalled> {
        let trial = TrialHome::new(self.plugin, &case.grants, &[])?;
        workspace::write(&trial.workspace(), &case.files_before())?;
        let run = Arc::new(CaseRun::new(case));
        let host = self.host(&trial, Arc::clone(&run))?;
        let session = host.new_session(&trial.workspace()).await?;
        let skill = call::loaded(&session, &trial)?;
        call::refuse_blocked(&self.store, &skill).await?;
        let spec = call::tool(&skill, &case.tool)?;
        call::grant(&host, &session, &skill, &case.grants).await?;
        let denied = Arc::new(DenyingApprover::default());
        session.set_approver(Arc::clone(&denied) as Arc<_>);
        let input = serde_json::Value::Object(case.input.clone());
        let mut line = LineInput::from(&*format!("/tool {}__{} {input}", skill.name, spec.name));
        line.attachments = attachments(case)?;
        // The lines that it printed when it was asked for its tools.
        drop(self.printed.take());
        let outcome = session.submit_input(line).await;
        let files = workspace::read(&trial.workspace())?;
        let actual = run.outcome(case, (outcome.code.as_str(), &outcome.message), files).await;
        let _ = timeout(SETTLING, session.close()).await;
        let actual =
            actual.map_err(|problem| CliError::new(patchbay_core::Code::StoreFailed, format!("{problem}.")))?;
        let mut report = CaseReport::new(case, CaseStatus::Ran(Box::new(actual)));
        (report.printed, report.denied) = (self.printed.take(), denied.take());
        report.count(&case.grants, &Limits::default());
        Ok(report)
    }
}

fn attachments(case: &PreparedCase) -> Result<Vec<NewAttachment>, NotCalled> {
    let attach = |(name, content): &(String, Vec<u8>)| {
        NewAttachment::for_command(name, None, content.clone()).map_err(|refused| usage(refused.message))
    };
    case.attachments.iter().map(attach).collect()
}
