//! The host: the state that all sessions of a process share. The binary opens it; fronts create and resume sessions with it.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    thread,
};

use parking_lot::Mutex;
use patchbay_agent::AgentSettings;
use patchbay_core::{AgentId, Name, SessionId, text};
use patchbay_egress::{CredentialConfig, Credentials, Egress, EgressLimits, Scrub, Secrets};
use patchbay_fixture::Recorder;
use patchbay_mcp::{
    client::McpServerConfig,
    tools::{McpFailure, McpReport, ServerParts, SessionServers},
};
use patchbay_policy::Identity;
use patchbay_provider::{
    BundledAdapter, CatalogueSettings, ExchangeLimits, Providers, Settings, SettingsSource, Sources,
};
use patchbay_sandbox::{Artefacts, Compiler, Limits, Sandbox, Symbols};
use patchbay_skill::BundledSkill;
use patchbay_store::{AgentRow, Collected, DatabaseHealth, JournalSettings, KvStore, Source, Store, StoreError};
use patchbay_tools::{BundledGrant, Interposer, StoreLedger, Tools};
use patchbay_workspace::{HomeFolder, ProtectedPaths};

use crate::{
    Observer, Session, SessionError, Unobserved,
    line::input::FileMemory,
    lock::{self, SessionLock},
    persona::Personas,
    recap, recording,
    roots::{PackagePaths, Roots, ServedPackage},
    workspace_path::workspace_path,
};

/// The folders that belong to one home.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Configuration: `skills/`, `agents/`, `providers/`, `config.toml`.
    pub config: PathBuf,
    /// Databases and components.
    pub data: PathBuf,
    /// Compiled components; may be deleted at any time.
    pub cache: PathBuf,
    /// The folder for locks, the log and the history.
    pub state: PathBuf,
}

/// The skills that are embedded in the binary.
#[derive(Clone, Copy, Debug, Default)]
pub struct BundledSkills {
    /// The files of the bundled skills.
    pub skills: &'static [BundledSkill],
    /// The capabilities of bundled skills that need no grant.
    pub grants: &'static [BundledGrant],
    /// The stored tool lists of the bundled components, each a JSON string with a digest and tools.
    pub answers: &'static [&'static str],
}

/// The configuration of a [`Host`].
pub struct Config {
    /// The folders of the home to use.
    pub paths: Paths,
    /// The user's home folder (`$HOME`), if known.
    pub home_folder: Option<PathBuf>,
    /// The limits of one tool call.
    pub limits: Limits,
    /// Limits of one HTTP request.
    pub egress: EgressLimits,
    /// Credentials that skills may use.
    pub credentials: BTreeMap<Name, CredentialConfig>,
    /// Limits of one completion.
    pub exchange: ExchangeLimits,
    /// When providers are asked for their models.
    pub catalogue: CatalogueSettings,
    /// The adapters that are embedded in the binary.
    pub bundled_adapters: &'static [BundledAdapter],
    /// Returns the provider settings of `config.toml`, reading the file again at each call.
    pub providers: SettingsSource,
    /// The settings of agents, with the limits of sessions.
    pub agents: AgentSettings,
    /// The MCP servers of `config.toml`.
    pub mcp: BTreeMap<Name, McpServerConfig>,
    /// How much the journal keeps.
    pub journal: JournalSettings,
    /// The program that compiles components.
    pub compiler: Compiler,
    /// The skills that are embedded in the binary.
    pub bundled: BundledSkills,
    /// Receives the progress of compilation.
    pub observer: Arc<dyn Observer>,
    /// More folders of skills, absolute, lowest first: `skill_roots` of `config.toml`.
    pub skill_roots: Vec<PathBuf>,
    /// If set, sessions only have the skills of this package.
    pub package: Option<ServedPackage>,
    /// The command that starts this program, for commands that are printed for the user.
    pub program: String,
    /// The clock and the random ids.
    pub source: Source,
    /// Whether calls are recorded.
    pub record: bool,
}

impl Paths {
    /// Opens the folder of compiled components, whose digests are in `store`.
    pub fn artefacts(&self, store: &Store, compiler: &Compiler) -> Artefacts {
        Artefacts::open(&self.cache.join("aot"), Arc::new(StoreLedger(store.clone())), compiler.clone())
    }

    /// Returns the debug symbols of components that were built in this home.
    pub fn symbols(&self) -> Symbols {
        Symbols::new(self.cache.join("debug"))
    }

    /// Returns the paths of the home's packages.
    pub fn packages(&self) -> PackagePaths {
        PackagePaths {
            folder: self.data.join("packages"),
            data: self.data.join("package-data"),
            lock: self.config.join("packages.lock"),
        }
    }

    /// Returns the protected paths. Plugins can use neither the home's folders nor the targets of links directly in the
    /// configuration folder. They cannot write to `skill_roots` or to the targets of linked skills, personas and adapters.
    fn protected(&self, skill_roots: &[PathBuf]) -> ProtectedPaths {
        let folders = [&self.config, &self.data, &self.cache, &self.state].map(Clone::clone);
        let inside = ["skills", "agents", "providers", "config.toml", "credentials.json"];
        let linked = inside.iter().map(|name| self.config.join(name)).filter(|path| path.is_symlink());
        let protected =
            ProtectedPaths::new(folders.into_iter().chain(linked)).with_skill_roots(skill_roots.iter().cloned());
        protected.with_links_in(["skills", "agents", "providers"].map(|name| self.config.join(name)))
    }
}

impl Config {
    /// Returns a configuration with defaults and without embedded plugins.
    pub fn new(paths: Paths, compiler: Compiler) -> Self {
        Self {
            paths,
            home_folder: None,
            limits: Limits::default(),
            egress: EgressLimits::default(),
            credentials: BTreeMap::new(),
            exchange: ExchangeLimits::default(),
            catalogue: CatalogueSettings::default(),
            bundled_adapters: &[],
            providers: Box::new(|| Ok(Settings::default())),
            agents: AgentSettings::default(),
            mcp: BTreeMap::new(),
            journal: JournalSettings::default(),
            compiler,
            bundled: BundledSkills::default(),
            observer: Arc::new(Unobserved),
            skill_roots: Vec::new(),
            package: None,
            program: "patchbay".to_owned(),
            source: Source::default(),
            record: false,
        }
    }
}

/// The open sessions of a process. The inner lock is held while a session is resumed: concurrent callers must get the same
/// session, and callers for other sessions must not wait.
pub(crate) type HostSessions = Mutex<HashMap<SessionId, Arc<tokio::sync::Mutex<Weak<Session>>>>>;

/// The state that all sessions of a process share.
pub struct Host {
    pub(crate) paths: Paths,
    pub(crate) store: Store,
    pub(crate) tools: Arc<Tools>,
    pub(crate) providers: Arc<Providers>,
    pub(crate) agent_settings: AgentSettings,
    pub(crate) roots: Roots,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) protected: ProtectedPaths,
    pub(crate) program: String,
    /// The memory limit for the attached files of all lines.
    pub(crate) file_memory: FileMemory,
    pub(crate) servers: Arc<ServerParts>,
    kv: KvStore,
    records: bool,
    /// The open sessions of this process.
    pub(crate) open: HostSessions,
}

impl Host {
    /// Opens the home with its databases. Runs no component.
    ///
    /// # Errors
    /// [`SessionError`] if the home or the configuration cannot be used.
    pub fn open(config: Config) -> Result<Arc<Self>, SessionError> {
        Self::open_with(config, None, None)
    }

    /// Like [`Host::open`], but with the compiled components of another home, given by its `paths` and `store`. For a home that
    /// is deleted soon.
    ///
    /// # Errors
    /// The same as for [`Host::open`].
    pub fn open_compiled_by(config: Config, paths: &Paths, store: &Store) -> Result<Arc<Self>, SessionError> {
        Self::open_with(config, Some((paths, store)), None)
    }

    /// Like [`Host::open_compiled_by`], with `interposer` between the tools of skills and the services of the host.
    ///
    /// # Errors
    /// The same as for [`Host::open`].
    pub fn open_interposed(
        config: Config,
        paths: &Paths,
        store: &Store,
        interposer: Arc<dyn Interposer>,
    ) -> Result<Arc<Self>, SessionError> {
        Self::open_with(config, Some((paths, store)), Some(interposer))
    }

    fn open_with(
        config: Config,
        compiled_by: Option<(&Paths, &Store)>,
        interposer: Option<Arc<dyn Interposer>>,
    ) -> Result<Arc<Self>, SessionError> {
        let Config { paths, limits, egress, credentials, journal, compiler, bundled, home_folder, .. } = config;
        let protected = paths.protected(&config.skill_roots);
        let (user, source) = (paths.config.join("skills"), config.source);
        let (packages, root) = (paths.packages(), config.agents.limits.root.clone());
        let roots = match config.package {
            None => Roots::new(bundled.skills, user, config.skill_roots, packages, root, source.clone()),
            Some(package) => Roots::of_package(package, user, packages, root, source.clone()),
        };
        let store = thread::scope(|threads| {
            // Reading the bundled skills takes as long as opening the store, so both happen in parallel. If the thread cannot be
            // started, the first scan reads the skills.
            let _ = thread::Builder::new().spawn_scoped(threads, || roots.bundled());
            Store::open_with(&paths.data, source)
        });
        let store = store?.with_journal(journal);
        let kv = KvStore::open(&paths.data, store.clone())?;
        let (compiled_in, ledger) = compiled_by.unwrap_or((&paths, &store));
        let artefacts = || compiled_in.artefacts(ledger, &compiler);
        let symbols = compiled_in.symbols();
        let egress = Egress::new(egress);
        let secrets = Arc::new(Secrets::open(&paths.config));
        let for_servers = Credentials::new(credentials.clone(), Arc::clone(&secrets));
        let servers = ServerParts::new(config.mcp, store.clone(), paths.config.clone(), for_servers, &limits);
        let credentials = Credentials::new(credentials, Arc::clone(&secrets));
        let recorder = (config.record && interposer.is_none()).then(|| {
            let secrets = Arc::clone(&secrets);
            Arc::new(Recorder::new(store.clone(), move || secrets.scrub_known()))
        });
        let interposer = interposer.or_else(|| recorder.clone().map(|recorder| recorder as Arc<dyn Interposer>));
        // Adapters have their own engine and instance pool because skills and models must not block each other.
        let adapters = Sandbox::new(config.exchange.sandbox(&limits))
            .decommit_immediately()
            .with_artefacts(artefacts())
            .with_symbols(symbols.clone());
        let sources = Sources {
            folder: paths.config.join("providers"),
            bundled: config.bundled_adapters,
            settings: config.providers,
            limits: config.exchange,
            catalogue: config.catalogue,
        };
        let providers = Providers::new(store.clone(), Arc::new(adapters), secrets, sources);
        let sandbox = Arc::new(Sandbox::new(limits).with_artefacts(artefacts()).with_symbols(symbols));
        let tools = Tools::new(sandbox, store.clone(), kv.clone(), egress, credentials, bundled.grants)
            .with_bundled_answers(bundled.answers)
            .with_user_skills(paths.config.join("skills"))
            .with_interposer(interposer);
        let home_folder = home_folder.as_deref().map(HomeFolder::new).unwrap_or_default();
        let tools = tools.with_protection(protected.clone(), home_folder);
        let tools = Arc::new(tools);
        let (observer, program) = (config.observer, config.program);
        let host = Arc::new(Self {
            paths,
            store,
            tools,
            providers,
            agent_settings: config.agents,
            roots,
            observer,
            program,
            servers: Arc::new(servers),
            protected,
            file_memory: FileMemory::default(),
            kv,
            records: recorder.is_some(),
            open: Default::default(),
        });
        if let Some(recorder) = recorder {
            recording::notify_when_full(&host, &recorder);
        }
        Ok(host)
    }

    /// Returns the providers of models.
    pub fn providers(&self) -> &Arc<Providers> {
        &self.providers
    }

    /// Returns whether calls are recorded.
    pub fn records(&self) -> bool {
        self.records
    }

    /// Returns a scrub for every secret of the home, for text that leaves the home.
    pub async fn scrub_all(&self) -> Scrub {
        self.tools.secrets().scrub_all().await
    }

    /// Returns the store, for operations outside of sessions such as grants and trust.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns an agent that was killed, with the ids of its ancestors.
    pub(crate) async fn dead_agent(
        &self,
        session: SessionId,
        id: AgentId,
    ) -> Result<(AgentRow, Vec<AgentId>), StoreError> {
        let row = self.store.agent(session, id).await?.ok_or(StoreError::BadRow("agent"))?;
        let (mut ancestors, mut parent) = (Vec::new(), row.parent);
        while let Some(id) = parent.filter(|id| !ancestors.contains(id)) {
            ancestors.push(id);
            parent = self.store.agent(session, id).await?.and_then(|row| row.parent);
        }
        Ok((row, ancestors))
    }

    /// Starts the MCP server `name` from `config.toml` or a package like a session on the folder `workspace` would, reports its
    /// tools, and ends it. Returns `None` if there is no such server.
    ///
    /// # Errors
    /// [`SessionError`] if the workspace cannot be used.
    pub async fn check_mcp(
        self: &Arc<Self>,
        name: &Name,
        workspace: &Path,
    ) -> Result<Option<Result<McpReport, McpFailure>>, SessionError> {
        let workspace = workspace_path(workspace)?;
        let servers = self.servers(&workspace);
        let (packaged, left_out) = self.package_servers().await;
        servers.set_packaged(packaged, left_out);
        let report = servers.check(name.as_str()).await;
        servers.close().await;
        Ok(report)
    }

    /// Returns the MCP servers for a session on `workspace`. None of them is started.
    pub(crate) fn servers(&self, workspace: &str) -> SessionServers {
        SessionServers::new(Arc::clone(&self.servers), workspace)
    }

    /// Removes a session and the data that skills stored for it.
    ///
    /// # Errors
    /// [`SessionError`] if the session does not exist or another process has it open.
    pub async fn remove_session(&self, id: SessionId) -> Result<(), SessionError> {
        self.store.session(id).await?;
        let lock = SessionLock::take(&self.lock_folder(), id).await?;
        self.store.remove_session(id).await?;
        self.kv.remove_session(id).await?;
        lock.remove(&self.lock_folder(), id);
        Ok(())
    }

    /// Deletes all data that a skill has stored. Returns whether there was any.
    ///
    /// # Errors
    /// The store could not be written.
    pub async fn remove_state(&self, skill: &Identity) -> Result<bool, SessionError> {
        let Identity { root, workspace, name } = skill.clone();
        Ok(self.kv.remove_skill(root.to_string(), workspace, name.into()).await?)
    }

    /// Returns the id of the process that has the session `id` open, as text; `None` if there is none.
    pub fn session_holder(&self, id: SessionId) -> Option<String> {
        lock::holder(&self.lock_folder(), id)
    }

    /// Returns the words that lists show for a session, in one line of at most `max` characters: its title, or else its first
    /// message or command. Returns `None` if it has none of these.
    ///
    /// # Errors
    /// The store could not be read or written.
    pub async fn first_words(&self, id: SessionId, max: usize) -> Result<Option<String>, SessionError> {
        if let Some(title) = self.store.title(id).await? {
            return Ok(Some(text::excerpt(&title, max)));
        }
        // Reads more than is shown, because white space at the beginning of the message is skipped.
        let read = u32::try_from(max).unwrap_or(u32::MAX).saturating_mul(4);
        Ok(self.store.first_message(id, read).await?.map(|message| recap::first_words(&message, max)))
    }

    /// Checks the databases: sessions first, then the key-value store of skills. Reads them whole.
    ///
    /// # Errors
    /// The store could not be read or written.
    pub async fn database_health(&self) -> Result<[DatabaseHealth; 2], SessionError> {
        Ok([self.store.health().await?, self.kv.health().await?])
    }

    /// Deletes snapshots without a session, and components without a snapshot, including their compiled form.
    ///
    /// # Errors
    /// Errors of the store or its folders.
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

    pub(crate) async fn personas<'a>(&'a self, workspace: &'a str) -> Result<Personas<'a>, SessionError> {
        Ok(Personas {
            user: self.paths.config.join("agents"),
            workspace: Path::new(workspace),
            trusted: self.store.is_trusted(workspace).await?,
            protected: &self.protected,
        })
    }

    pub(crate) fn kv_store(&self) -> &KvStore {
        &self.kv
    }

    pub(crate) fn lock_folder(&self) -> PathBuf {
        self.paths.state.join("sessions")
    }
}
