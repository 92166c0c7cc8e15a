//! Runs calls of one plugin, each in its own throw-away home, for `plugin test` and `plugin dev`.

mod workspace;

use std::{path::PathBuf, sync::Arc};

use patchbay_core::{Code, Outcome};
use patchbay_fixture::{ActualOutcome, CallRecording, CaseRun, PreparedCase};
use patchbay_plugin::LocatedPlugin;
use patchbay_session::{BundledSkills, Host, LineInput, NewAttachment, Session};
use patchbay_skill::Skill;
use patchbay_store::{JournalEntry, JournalFilter, Store};
use tokio::time::timeout;

use super::call::{
    self, NotCalled,
    denied::{Denied, DenyingApprover},
    printed::{PrintedLine, PrintedLines},
    trial_home::TrialHome,
    usage,
};
use crate::{
    CliError,
    config::ConfigFile,
    home::HomeDirs,
    progress_line::{ProgressLine, Style},
    signals::SETTLING,
};

/// State that all calls of a plugin share.
pub(super) struct Bench {
    /// The user's home. A call uses only its compiled components and its block list.
    pub(super) home: HomeDirs,
    store: Store,
    printed: PrintedLines,
    progress: ProgressLine,
    /// Whether compiled functions are kept, because the plugin is compiled again after each change.
    keeps_functions: bool,
}

/// Where requests, completions and calls of other tools get their answers.
pub(super) enum Outside {
    /// The recorded answers of the case.
    Recorded,
    /// The network, the models and the bundled tools, with these settings.
    Live {
        settings: Box<ConfigFile>,
        /// The user's own workspace; `None` for the workspace of the throw-away home.
        workspace: Option<PathBuf>,
    },
}

/// A plugin that is loaded into a throw-away session.
pub(super) struct Trial {
    home: TrialHome,
    host: Arc<Host>,
    session: Arc<Session>,
    run: Arc<CaseRun>,
    /// The loaded skill, with the tools that a fresh instance declares.
    pub(super) skill: Skill,
}

/// The outcome of a call, with its recording.
pub(super) struct CaseEnd {
    pub(super) outcome: Outcome,
    pub(super) actual: ActualOutcome,
    /// `None` for a call with recorded answers.
    pub(super) recording: Option<CallRecording>,
    pub(super) printed: Vec<PrintedLine>,
    pub(super) denied: Vec<Denied>,
    /// The journal rows of the call and of its nested calls.
    pub(super) rows: Vec<JournalEntry>,
}

impl Bench {
    pub(super) fn open(style: Style, keeps_functions: bool) -> Result<Self, NotCalled> {
        let home = HomeDirs::find()?;
        let store = Store::open(&home.paths.data)?;
        let progress = ProgressLine::new(style, &tokio::runtime::Handle::current());
        Ok(Self { home, store, printed: PrintedLines::collect(), progress, keeps_functions })
    }

    /// Loads the plugin into a session, with the store and the files of `case`.
    pub(super) async fn load(
        &self,
        plugin: &LocatedPlugin,
        case: &PreparedCase,
        outside: Outside,
    ) -> Result<Trial, NotCalled> {
        let home = TrialHome::new(plugin, &case.grants, &[])?;
        let (run, settings, workspace) = match outside {
            Outside::Recorded => (CaseRun::new(case), None, None),
            Outside::Live { settings, workspace } => {
                (CaseRun::live(case, workspace.is_some()), Some(settings), workspace)
            }
        };
        if workspace.is_none() {
            workspace::write(&home.workspace(), &case.files_before())?;
        }
        let is_recorded = settings.is_none();
        let settings = settings.map(|settings| *settings).unwrap_or_default();
        let mut settings = crate::host_config(&home.dirs(&self.home), settings, self.progress.clone())?;
        settings.compiler.keeps_functions = self.keeps_functions;
        if is_recorded {
            // Calls of other tools are answered by the case.
            settings.bundled = BundledSkills::default();
            settings.bundled_adapters = &[];
        }
        let run = Arc::new(run);
        let host = Host::open_interposed(settings, &self.home.paths, &self.store, Arc::clone(&run) as Arc<_>)?;
        let session = host.new_session(&workspace.unwrap_or_else(|| home.workspace())).await?;
        let skill = call::loaded(&session, &home)?;
        call::refuse_blocked(&self.store, &skill).await?;
        // Discard lines that the plugin printed while it declared its tools.
        drop(self.printed.take());
        Ok(Trial { home, host, session, run, skill })
    }

    /// Makes the call of `case`, with its grants, and closes the session.
    pub(super) async fn call(&self, trial: &Trial, case: &PreparedCase) -> Result<CaseEnd, NotCalled> {
        let Trial { home, host, session, run, skill } = trial;
        let spec = call::tool(skill, &case.tool)?;
        call::grant(host, session, skill, &case.grants).await?;
        let denied = Arc::new(DenyingApprover::default());
        session.set_approver(Arc::clone(&denied) as Arc<_>);
        let input = serde_json::Value::Object(case.input.clone());
        let mut line = LineInput::from(&*format!("/tool {}__{} {input}", skill.name, spec.name));
        line.attachments = attachments(case)?;
        let outcome = session.submit_input(line).await;
        let files = workspace::read(&home.workspace())?;
        let actual = run.outcome(case, (outcome.code.as_str(), &outcome.message), files).await;
        let mut actual = actual.map_err(|problem| CliError::new(Code::StoreFailed, format!("{problem}.")))?;
        let recording = run.recording(case, &mut actual).await;
        let filter = JournalFilter { session: Some(session.id()), skill: None };
        let rows = host.store().journal_rows(&filter, 0, call::CALLS).await?;
        let _ = timeout(SETTLING, session.close()).await;
        Ok(CaseEnd { outcome, actual, recording, printed: self.printed.take(), denied: denied.take(), rows })
    }
}

impl Trial {
    /// Closes the session without making a call.
    pub(super) async fn close(self) {
        let _ = timeout(SETTLING, self.session.close()).await;
    }
}

fn attachments(case: &PreparedCase) -> Result<Vec<NewAttachment>, NotCalled> {
    let attach = |(name, content): &(String, Vec<u8>)| {
        NewAttachment::for_command(name, None, content.clone()).map_err(|refused| usage(refused.message))
    };
    case.attachments.iter().map(attach).collect()
}
