//! Creates and resumes sessions, and starts their background tasks.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use patchbay_core::{AgentId, PrincipalId, SessionId};
use patchbay_policy::quoted_folder;
use patchbay_skill::{Snapshot, SnapshotError};
use patchbay_store::{SessionRow, StoreError};

use crate::{
    Host, Session, SessionError,
    json::to_json,
    lock::SessionLock,
    notices,
    persona::{DEFAULT, Persona},
    recovery,
    session::Opened,
    wake,
    workspace_path::workspace_path,
};

impl Host {
    /// Creates a session on the folder `workspace` with a new snapshot, the default persona and a root agent.
    ///
    /// # Errors
    /// [`SessionError`] if the workspace, the persona or the store cannot be used.
    pub async fn new_session(self: &Arc<Self>, workspace: &Path) -> Result<Arc<Session>, SessionError> {
        let workspace = workspace_path(workspace)?;
        let moved = self.pin_models().await?;
        let id = SessionId::from_bytes(self.store.source().uuid());
        let lock = SessionLock::take(&self.lock_folder(), id).await?;
        let built = self.build_snapshot(id, &workspace, 1, false).await?;
        let (surroundings, unused) = self.surroundings(&workspace).await?;
        let persona = Persona { surroundings, ..self.personas(&workspace).await?.read(DEFAULT)? };
        let row = SessionRow {
            id,
            workspace: workspace.clone(),
            agent: AgentId::from_bytes(self.store.source().uuid()),
            persona: to_json(&persona),
            snapshot: built.snapshot.digest(),
            snapshot_version: built.snapshot.version(),
            owner: PrincipalId::LOCAL,
        };
        let hold = self.store.create_session(row.clone(), built.stored()).await?;
        let opened = Opened {
            hold,
            agents: self.store.agents(id).await?,
            row,
            persona,
            snapshot: built.snapshot,
            last_seq: 0,
            dead_in_view: None,
            is_resumed: false,
            tokens: 0,
            start_notices: moved.into_iter().chain(self.home_notice(&workspace).await?).chain(unused).collect(),
        };
        let session = self.start_session(opened, lock)?;
        self.open.lock().insert(id, Arc::new(tokio::sync::Mutex::new(Arc::downgrade(&session))));
        Ok(session)
    }

    /// Resumes a stored session: conversation, persona and snapshot as they were, even if the files have changed since. Lines
    /// that waited for their turns wait again, in a held queue. If the session is already open in this process, that session is
    /// returned.
    ///
    /// # Errors
    /// [`SessionError`] if the session does not exist, is in use by another process, or has damaged rows.
    pub async fn resume(self: &Arc<Self>, id: SessionId) -> Result<Arc<Session>, SessionError> {
        let place = {
            let mut open = self.open.lock();
            // Keeps the entries of sessions that are being resumed.
            open.retain(|_, place| {
                Arc::strong_count(place) > 1 || place.try_lock().is_ok_and(|open| open.strong_count() > 0)
            });
            Arc::clone(open.entry(id).or_default())
        };
        let mut open = place.lock().await;
        match open.upgrade() {
            Some(session) if !session.is_closing() => return Ok(session),
            Some(session) => session.close().await,
            None => {}
        }
        let session = self.open_stored(id).await?;
        *open = Arc::downgrade(&session);
        Ok(session)
    }

    /// Returns the session `id` if it is open in this process.
    pub(crate) async fn open_session(&self, id: SessionId) -> Option<Arc<Session>> {
        let place = self.open.lock().get(&id).cloned()?;
        let open = place.lock().await;
        open.upgrade()
    }

    /// Opens a stored session that is not open in this process.
    async fn open_stored(self: &Arc<Self>, id: SessionId) -> Result<Arc<Session>, SessionError> {
        // Checked before locking; otherwise a mistyped id would create a lock file.
        self.store.session(id).await?;
        let lock = SessionLock::take(&self.lock_folder(), id).await?;
        let row = self.store.session(id).await?;
        let persona = serde_json::from_str(&row.persona).map_err(|_| patchbay_store::StoreError::BadRow("persona"))?;
        let json = self.store.snapshot(&row.snapshot).await?;
        let moved = self.pin_models().await?;
        let hold = self.store.hold(id).await?;
        self.store.recover(&hold, patchbay_agent::join_pieces).await?;
        let agents = self.store.agents(id).await?;
        recovery::settle_interrupted(&self.store, &hold, &agents).await?;
        let dead_in_view = match agents.iter().any(|agent| agent.id == row.agent) {
            true => None,
            false => Some(self.dead_agent(id, row.agent).await?),
        };
        let last_seq = self.store.last_seq(id).await?;
        let snapshot =
            Snapshot::from_json(json, row.snapshot, row.snapshot_version).map_err(|source| match source {
                SnapshotError::Newer => SessionError::Newer(source),
                source => SessionError::Snapshot { id, source },
            })?;
        let tokens = self.store.tokens(id).await?;
        let waiting = self.store.queued_lines(id).await?;
        // This reads the keys of all sessions, which is rarely necessary: most sessions have no waiting lines.
        let keys = if waiting.is_empty() { BTreeMap::new() } else { self.store.sent_keys().await? };
        let opened = Opened {
            hold,
            row,
            persona,
            snapshot,
            last_seq,
            agents,
            dead_in_view,
            is_resumed: true,
            tokens,
            start_notices: moved.into_iter().collect(),
        };
        let session = self.start_session(opened, lock)?;
        session.restore_queue(waiting, &keys);
        Ok(session)
    }

    /// Starts a session, with the tasks that forward changes of providers to it and wake its idle agents.
    fn start_session(self: &Arc<Self>, opened: Opened, lock: SessionLock) -> Result<Arc<Session>, StoreError> {
        let notices = self.providers.notices();
        let (session, idle_agents) = Session::new(Arc::clone(self), opened, lock).ok_or(StoreError::BadRow("agent"))?;
        let (weak, closed) = (Arc::downgrade(&session), session.lines.closing().clone());
        session.lines.spawn(notices::forward(notices, weak.clone(), closed.clone()));
        session.lines.spawn(wake::wake_idle_agents(weak, idle_agents, closed));
        Ok(session)
    }

    /// Returns a notice if the workspace is or contains the user's home folder.
    async fn home_notice(&self, workspace: &str) -> Result<Option<String>, StoreError> {
        let trust = self.tools.workspace_trust(workspace).await?;
        let reads = "this workspace is or contains your home folder: plugins with workspace-read can read your files";
        Ok(match (trust.holds_home, trust.write) {
            (false, _) => None,
            (true, true) => {
                Some(format!("{reads}, and those with workspace-write or workspace-delete can change them."))
            }
            (true, false) => Some(format!(
                "{reads}. None can change them; to allow that: patchbay trust add --write {}",
                quoted_folder(workspace)
            )),
        })
    }
}
