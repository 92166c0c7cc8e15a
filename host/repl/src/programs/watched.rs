//! A program that a model runs, with the protected files to compare when it ends, however it ends.

use std::sync::Arc;

use patchbay_cage::{ProtectedFiles, RunningProgram};
use patchbay_session::Session;

use super::{Programs, end_line};

/// A program that runs or has ended, and the protected files as they were before its start. If this is dropped before the files are
/// compared, because the call was stopped, the program is stopped, and the files are compared once it has ended.
pub(super) struct WatchedProgram {
    programs: Arc<Programs>,
    /// The session, which waits for the comparison when it closes.
    session: Arc<Session>,
    running: Arc<RunningProgram>,
    /// The protected files before the start; `None` once they have been compared.
    before: Option<ProtectedFiles>,
}

impl WatchedProgram {
    pub(super) fn new(
        programs: Arc<Programs>,
        session: Arc<Session>,
        running: RunningProgram,
        before: ProtectedFiles,
    ) -> Self {
        Self { programs, session, running: Arc::new(running), before: Some(before) }
    }

    pub(super) fn running(&self) -> &Arc<RunningProgram> {
        &self.running
    }

    /// Compares the protected files, and tells the user which of them differ. The program must have ended.
    pub(super) async fn changed(mut self) -> Option<String> {
        let before = self.before.as_ref()?;
        let said = self.programs.changed(before).await;
        self.before = None;
        said
    }

    /// Lets the program run until it ends or the session closes, and then notifies the user that it has ended.
    pub(super) fn leave_in_background(self, id: u32) {
        let session = Arc::clone(&self.session);
        session.spawn(async move {
            let end = tokio::select! {
                end = self.running.ended() => end,
                () = self.session.closing() => {
                    self.running.stop();
                    self.running.ended().await
                }
            };
            let session = Arc::clone(&self.session);
            // This notifies the user of the changed files.
            self.changed().await;
            session.notify(&format!("Program {id} has ended: {}.", end_line(&end)));
        });
    }
}

impl Drop for WatchedProgram {
    fn drop(&mut self) {
        self.running.stop();
        let Some(before) = self.before.take() else { return };
        // Without a runtime, the process is ending.
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (programs, running) = (Arc::clone(&self.programs), Arc::clone(&self.running));
        self.session.spawn(async move {
            running.ended().await;
            programs.changed(&before).await;
        });
    }
}
