//! Runs the terminal front with the history file of the home, one session after another. `main` calls it.

use std::{path::Path, process::ExitCode, sync::Arc};

use patchbay_cage::{CageFolders, CageProgram, UserFolders};
use patchbay_core::{Code, SessionId};
use patchbay_repl::{FrontEnd, NextSession, ProgramOptions, ProgramUse, TerminalSettings};
use patchbay_session::{Host, Paths, Session};
use tokio::time::timeout;

use crate::{
    CliError,
    compile::own_program,
    config,
    home::HomeDirs,
    progress_line::ProgressLine,
    signals::{EndSignal, GRACE, SETTLING},
};

/// Returns the settings of the terminal. `plain` is the option `--plain`.
pub(crate) fn settings(home: &HomeDirs, plain: bool) -> Result<TerminalSettings, CliError> {
    let settings = config::read(&home.paths.config)?.terminal;
    Ok(TerminalSettings { plain: plain || settings.plain, ..settings })
}

/// Returns the settings for programs that models or the user start.
///
/// # Errors
/// If `[terminal.cage]` names a folder that programs must not get access to.
pub(crate) fn programs(home: &HomeDirs, settings: &TerminalSettings) -> Result<ProgramOptions, CliError> {
    let Paths { config, data, cache, state } = &home.paths;
    let own = [config, data, cache, state].map(Clone::clone);
    let path = std::env::var("PATH").unwrap_or_default();
    let user = UserFolders::new(home.home_folder.as_deref().unwrap_or(Path::new("/")), &path, own);
    let folders = CageFolders::new(&settings.cage, user)
        .map_err(|refusal| CliError::new(Code::ConfigInvalid, format!("[terminal.cage] in config.toml: {refusal}.")))?;
    Ok(ProgramOptions {
        child: cage_program()?,
        folders,
        environment: settings.cage.env.clone(),
        are_offered: settings.run == ProgramUse::Ask,
    })
}

/// The argument that makes this binary the child that runs a program. It is not part of the command line that users see.
pub(crate) const CAGE: &str = "cage";

/// Returns the command with which the host starts this binary as the child that runs a program.
pub(crate) fn cage_program() -> Result<CageProgram, CliError> {
    Ok(CageProgram { program: own_program()?, arguments: vec![CAGE.to_owned()] })
}

/// The terminal front and everything that it needs.
pub(crate) struct TerminalFront<'a> {
    pub(crate) runtime: &'a tokio::runtime::Runtime,
    pub(crate) home: &'a HomeDirs,
    pub(crate) settings: TerminalSettings,
    pub(crate) progress: &'a ProgressLine,
    /// Finds a session by its id, or a unique prefix of it.
    pub(crate) find: &'a dyn Fn(&str) -> Result<SessionId, CliError>,
}

impl TerminalFront<'_> {
    /// Runs the front on `session`, and on the sessions that `/new` and `/resume` name, until the user leaves. `first` is the first
    /// line that runs.
    pub(crate) fn run(
        &self,
        host: &Arc<Host>,
        mut session: Arc<Session>,
        mut first: Option<String>,
    ) -> Result<ExitCode, CliError> {
        let history = self.home.paths.state.join("history");
        // The front handles the signals itself: SIGINT counts as Ctrl+C, and the others end the front.
        let signal = EndSignal::watch(false, GRACE);
        let programs = programs(self.home, &self.settings)?;
        let mut notice = None;
        loop {
            let options = patchbay_repl::Options {
                history: &history,
                version: env!("CARGO_PKG_VERSION"),
                settings: self.settings.clone(),
                programs: programs.clone(),
                compiling: &|| self.progress.hand_over(),
                first: first.take(),
                notice: notice.take(),
            };
            let ended = self.runtime.block_on(patchbay_repl::run(Arc::clone(&session), options));
            match ended.map_err(|error| CliError::new(Code::Internal, error.to_string()))? {
                FrontEnd::Left => return Ok(ExitCode::SUCCESS),
                // `EndSignal` receives the signal as well, but perhaps later. A terminal can be closed without a signal.
                FrontEnd::Signalled => {
                    // `timeout` must be called within the runtime.
                    let received = self.runtime.block_on(async { timeout(SETTLING, signal.received()).await });
                    return Ok(received.map_or(ExitCode::SUCCESS, ExitCode::from));
                }
                FrontEnd::Next(next) => {
                    (session, notice) = self.follow(host, session, &next)?;
                }
            }
        }
    }

    /// Closes `session` and opens the next one. If the next one cannot be opened, resumes `session` and returns the reason.
    fn follow(
        &self,
        host: &Arc<Host>,
        session: Arc<Session>,
        next: &NextSession,
    ) -> Result<(Arc<Session>, Option<String>), CliError> {
        let (id, workspace) = (session.id(), session.workspace().to_owned());
        self.runtime.block_on(session.close());
        drop(session);
        let opened = match next {
            NextSession::New => Ok(self.runtime.block_on(host.new_session(Path::new(&workspace)))),
            NextSession::Resume(next) => (self.find)(next).map(|next| self.runtime.block_on(host.resume(next))),
        };
        match opened.and_then(|opened| opened.map_err(CliError::from)) {
            Ok(opened) => Ok((opened, None)),
            Err(error) => Ok((self.runtime.block_on(host.resume(id))?, Some(format!("Error: {error}")))),
        }
    }
}
