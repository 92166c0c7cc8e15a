use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use patchbay_agent::CompactionSettings;
use patchbay_core::{AgentId, Name, PrincipalId, SessionId};
use patchbay_egress::{CredentialConfig, Credentials, Egress, EgressLimits, Secrets};
use patchbay_policy::quoted_folder;
use patchbay_provider::{BundledAdapter, ExchangeLimits, Providers, Settings, SettingsSource, Sources};
use patchbay_sandbox::{Artefacts, Compiler, Limits, Sandbox};
use patchbay_skill::{BundledSkill, Snapshot, SnapshotError};
use patchbay_store::{AgentModel, Collected, JournalSettings, KvStore, SessionRow, Store, StoreError};
use patchbay_tools::{BundledGrant, StoreLedger, Tools};
use patchbay_workspace::{HomeFolder, ProtectedPaths};

use crate::{
    Observer, Session, SessionError, Unobserved,
    json::to_json,
    lock::SessionLock,
    persona::{DEFAULT, Personas},
    recovery,
    roots::Roots,
    session::Opened,
    workspace_path::workspace_path,
};

/// The folders of one home.
#[derive(Clone, Debug)]
pub struct Paths {
    /// `skills/`, `agents/`.
    pub config: PathBuf,
    /// The databases and the components.
    pub data: PathBuf,
    /// What can be made anew: compiled components.
    pub cache: PathBuf,
    /// Locks, logs, history.
    pub state: PathBuf,
}

/// What a host is made of.
pub struct Config {
    /// The folders of its home.
    pub paths: Paths,
    /// The person's own home folder (`$HOME`), where it is known.
    pub home_folder: Option<PathBuf>,
    /// What a call may use.
    pub limits: Limits,
    /// What a request may take.
    pub egress: EgressLimits,
    /// The credentials that skills' requests may name.
    pub credentials: BTreeMap<Name, CredentialConfig>,
    /// What one completion of a provider may take.
    pub exchange: ExchangeLimits,
    /// The adapters that the binary brings along.
    pub bundled_adapters: &'static [BundledAdapter],
    /// What `config.toml` says of providers, read anew each time it is asked.
    pub providers: SettingsSource,
    /// When a conversation is summarised.
    pub compaction: CompactionSettings,
    /// What the journal keeps.
    pub journal: JournalSettings,
    /// The program that compiles components.
    pub compiler: Compiler,
    /// The skills that the binary brings along.
    pub bundled: &'static [BundledSkill],
    /// What they are granted.
    pub bundled_grants: &'static [BundledGrant],
    /// What their components answer when they are asked for their tools, each a JSON text of digest and tools.
    pub bundled_answers: &'static [&'static str],
    /// Who is told while somebody waits for new components.
    pub observer: Arc<dyn Observer>,
    /// How a shell starts this program, for commands that are printed to be pasted.
    pub program: String,
}

impl Paths {
    /// The folders themselves, and what in them may be a link to elsewhere: no plugin uses any of it.
    fn protected(&self) -> ProtectedPaths {
        let folders = [&self.config, &self.data, &self.cache, &self.state].map(Clone::clone);
        let inside = ["skills", "agents", "providers", "config.toml", "credentials.json"];
        let linked = inside.iter().map(|name| self.config.join(name)).filter(|path| path.is_symlink());
        ProtectedPaths::new(folders.into_iter().chain(linked))
    }
}

impl Config {
    /// A host of `paths` with defaults for all else, and nothing bundled.
    pub fn new(paths: Paths, compiler: Compiler) -> Self {
        Self {
            paths,
            home_folder: None,
            limits: Limits::default(),
            egress: EgressLimits::default(),
            credentials: BTreeMap::new(),
            exchange: ExchangeLimits::default(),
            bundled_adapters: &[],
            providers: Box::new(|| Ok(Settings::default())),
            compaction: CompactionSettings::default(),
            journal: JournalSettings::default(),
            compiler,
            bundled: &[],
            bundled_grants: &[],
            bundled_answers: &[],
            observer: Arc::new(Unobserved),
            program: "patchbay".to_owned(),
        }
    }
}

/// What all sessions of the process share.
pub struct Host {
    pub(crate) paths: Paths,
    pub(crate) store: Store,
    pub(crate) tools: Arc<Tools>,
    pub(crate) providers: Arc<Providers>,
    pub(crate) compaction: CompactionSettings,
    pub(crate) roots: Roots,
    pub(crate) observer: Arc<dyn Observer>,
    protected: ProtectedPaths,
    pub(crate) program: String,
    kv: KvStore,
    /// The sessions that are open in this process. Held while one is resumed, so that two callers get the same session.
    open: tokio::sync::Mutex<HashMap<SessionId, Weak<Session>>>,
}

impl Host {
    /// Opens the home: its databases and components. No component is run yet.
    ///
    /// # Errors
    /// Where the home cannot be used.
    pub fn open(config: Config) -> Result<Arc<Self>, SessionError> {
        let Config { paths, limits, egress, credentials, journal, compiler, bundled, home_folder, .. } = config;
        let store = Store::open(&paths.data)?.with_journal(journal);
        let kv = KvStore::open(&paths.data, store.clone())?;
        let artefacts = || {
            let ledger = Arc::new(StoreLedger(store.clone()));
            Artefacts::open(&paths.cache.join("aot"), ledger, compiler.clone())
        };
        let egress = Egress::new(egress).map_err(SessionError::Egress)?;
        let secrets = Arc::new(Secrets::open(&paths.config));
        let credentials = Credentials::new(credentials, Arc::clone(&secrets));
        // Adapters have an engine and a pool of their own: no skill can keep a model from answering, nor the other way.
        let adapters =
            Sandbox::new(config.exchange.sandbox(&limits)).decommit_immediately().with_artefacts(artefacts());
        let sources = Sources {
            folder: paths.config.join("providers"),
            bundled: config.bundled_adapters,
            settings: config.providers,
            limits: config.exchange,
        };
        let providers =
            Providers::new(store.clone(), Arc::new(adapters), secrets, sources).map_err(SessionError::Egress)?;
        let root_limits = limits.root.clone();
        let sandbox = Arc::new(Sandbox::new(limits).with_artefacts(artefacts()));
        let tools = Tools::new(sandbox, store.clone(), kv.clone(), egress, credentials, config.bundled_grants)
            .with_bundled_answers(config.bundled_answers);
        let protected = paths.protected();
        let home_folder = home_folder.as_deref().map(HomeFolder::new).unwrap_or_default();
        let tools = tools.with_protection(protected.clone(), home_folder);
        let roots = Roots::new(bundled, paths.config.join("skills"), root_limits);
        let (tools, compaction) = (Arc::new(tools), config.compaction);
        let (observer, program) = (config.observer, config.program);
        Ok(Arc::new(Self {
            paths,
            store,
            tools,
            providers,
            compaction,
            roots,
            observer,
            program,
            protected,
            kv,
            open: Default::default(),
        }))
    }

    /// The providers of models.
    pub fn providers(&self) -> &Arc<Providers> {
        &self.providers
    }

    /// The store, for what is no session's affair: listing, grants, trust.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Makes a session on the folder `workspace`: a snapshot, the default persona, a root agent.
    ///
    /// # Errors
    /// Where the workspace, the persona or the store cannot be used.
    pub async fn new_session(self: &Arc<Self>, workspace: &Path) -> Result<Arc<Session>, SessionError> {
        let workspace = workspace_path(workspace)?;
        let id = SessionId::random();
        let lock = SessionLock::take(&self.lock_folder(), id)?;
        let built = self.build_snapshot(id, &workspace, 1).await?;
        let persona = self.personas(&workspace).await?.read(DEFAULT)?;
        let row = SessionRow {
            id,
            workspace: workspace.clone(),
            agent: AgentId::random(),
            persona: to_json(&persona),
            snapshot: built.snapshot.digest(),
            snapshot_version: built.snapshot.version(),
            owner: PrincipalId::LOCAL,
        };
        let hold = self.store.create_session(row.clone(), built.stored()).await?;
        let (model, snapshot) = (AgentModel::default(), built.snapshot);
        let home_notice = self.home_notice(&workspace).await?;
        let opened = Opened { hold, row, persona, snapshot, last_seq: 0, model, tokens: 0, home_notice };
        let session = Session::new(Arc::clone(self), opened, lock);
        self.open.lock().await.insert(id, Arc::downgrade(&session));
        Ok(session)
    }

    /// Resumes a stored session: conversation, persona and snapshot as they were, also if the files have changed since. A
    /// session that is open in this process is returned as it is.
    ///
    /// # Errors
    /// Where there is none, another process has it, or its rows are damaged.
    pub async fn resume(self: &Arc<Self>, id: SessionId) -> Result<Arc<Session>, SessionError> {
        let mut open = self.open.lock().await;
        open.retain(|_, session| session.strong_count() > 0);
        match open.get(&id).and_then(Weak::upgrade) {
            Some(session) if !session.is_closing() => return Ok(session),
            Some(session) => session.close().await,
            None => {}
        }
        let session = self.take_up(id).await?;
        open.insert(id, Arc::downgrade(&session));
        Ok(session)
    }

    /// Opens a stored session that is not open in this process.
    async fn take_up(self: &Arc<Self>, id: SessionId) -> Result<Arc<Session>, SessionError> {
        // Before the lock: a mistyped id leaves no lock file.
        self.store.session(id).await?;
        let lock = SessionLock::take(&self.lock_folder(), id)?;
        let row = self.store.session(id).await?;
        let persona = serde_json::from_str(&row.persona).map_err(|_| patchbay_store::StoreError::BadRow("persona"))?;
        let json = self.store.snapshot(&row.snapshot).await?;
        let hold = self.store.hold(id).await?;
        self.store.recover(&hold, patchbay_agent::join_pieces).await?;
        recovery::settle_interrupted(&self.store, &hold).await?;
        let last_seq = self.store.last_seq(id).await?;
        let snapshot =
            Snapshot::from_json(json, row.snapshot, row.snapshot_version).map_err(|source| match source {
                SnapshotError::Newer => SessionError::Newer(source),
                source => SessionError::Snapshot { id, source },
            })?;
        let (model, tokens) = (self.store.agent_model(row.agent).await?, self.store.tokens(id).await?);
        let opened = Opened { hold, row, persona, snapshot, last_seq, model, tokens, home_notice: None };
        Ok(Session::new(Arc::clone(self), opened, lock))
    }

    /// Removes a session and all that skills kept for it.
    ///
    /// # Errors
    /// Where there is none, or another process has it.
    pub async fn remove_session(&self, id: SessionId) -> Result<(), SessionError> {
        self.store.session(id).await?;
        let lock = SessionLock::take(&self.lock_folder(), id)?;
        self.store.remove_session(id).await?;
        self.kv.remove_session(id).await?;
        lock.remove(&self.lock_folder(), id);
        Ok(())
    }

    /// Takes away snapshots that no session has, and components, compiled or not, that no snapshot has.
    ///
    /// # Errors
    /// The store, or its folders.
    pub async fn collect(&self) -> Result<Collected, SessionError> {
        let collected = self.store.collect().await?;
        if let Some(artefacts) = self.tools.sandbox().artefacts() {
            for component in &collected.artefacts {
                artefacts.remove(component).map_err(|source| SessionError::Folder {
                    what: "the folder of compiled components".to_owned(),
                    source,
                })?;
            }
        }
        Ok(collected)
    }

    /// Returns what the person is told once, when a session begins in a workspace that is or holds their home folder.
    async fn home_notice(&self, workspace: &str) -> Result<Option<String>, StoreError> {
        let trust = self.tools.workspace_trust(workspace).await?;
        let reads = "this workspace is or holds your home folder: plugins with workspace-read can read your files";
        Ok(match (trust.holds_home, trust.write) {
            (false, _) => None,
            (true, true) => Some(format!("{reads}, and those with workspace-write can change them.")),
            (true, false) => Some(format!(
                "{reads}. None can change them; to allow that: patchbay trust add --write {}",
                quoted_folder(workspace)
            )),
        })
    }

    pub(crate) async fn personas<'a>(&'a self, workspace: &'a str) -> Result<Personas<'a>, SessionError> {
        Ok(Personas {
            user: self.paths.config.join("agents"),
            workspace: Path::new(workspace),
            trusted: self.store.is_trusted(workspace).await?,
            protected: &self.protected,
        })
    }

    fn lock_folder(&self) -> PathBuf {
        self.paths.state.join("sessions")
    }
}
