//! Programs that run for this terminal: those of models, in a cage and after a question, and those that the user types behind `!`. The
//! tools are in `tools`; the loop in `terminal` shows what the user has started.

mod tools;

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use patchbay_cage::{
    CageFolders, CageProgram, FenceOrder, FolderRefusal, Isolation, Order, ProgramEnd, ProtectedFiles, RunningProgram,
    Support, closed_environment,
};
use patchbay_core::text;
use patchbay_session::{OutsideError, OutsideTool, Session, TerminalCommand};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// Programs that may run in the background at once.
const BACKGROUND: usize = 8;
/// Bytes of a program's output that a model or the conversation receives.
const OUTPUT: usize = 64 << 10;
/// What programs print when the cage has refused something.
const REFUSALS: &[&str] = &[
    "Permission denied",
    "permission denied",
    "Operation not permitted",
    "operation not permitted",
    "Read-only file system",
    "EACCES",
    "EPERM",
    "EROFS",
    "Could not resolve host",
    "Network is unreachable",
    "network is unreachable",
    "name resolution",
];

/// How programs run. The binary makes it from `[terminal]` of `config.toml`.
#[derive(Clone, Debug)]
pub struct ProgramOptions {
    /// The child that runs each program.
    pub child: CageProgram,
    /// What programs in the cage may use.
    pub folders: CageFolders,
    /// Names of environment variables that programs in the cage receive besides the usual ones.
    pub environment: Vec<String>,
    /// Whether models have the tools.
    pub are_offered: bool,
}

/// The programs of one session. Dropping it kills them.
pub(crate) struct Programs {
    options: ProgramOptions,
    session: Weak<Session>,
    workspace: PathBuf,
    support: OnceCell<Support>,
    /// The folder for temporary files of programs in the cage.
    temp: OnceLock<TempDir>,
    background: Mutex<Background>,
}

#[derive(Default)]
struct Background {
    last: u32,
    programs: BTreeMap<u32, BackgroundProgram>,
}

/// A program that a model has left running.
#[derive(Clone)]
struct BackgroundProgram {
    line: String,
    running: Arc<RunningProgram>,
    since: Instant,
}

impl Programs {
    pub(crate) fn new(session: &Arc<Session>, options: ProgramOptions) -> Arc<Self> {
        Arc::new(Self {
            options,
            session: Arc::downgrade(session),
            workspace: session.workspace().into(),
            support: OnceCell::new(),
            temp: OnceLock::new(),
            background: Mutex::default(),
        })
    }

    /// Returns the tools for models.
    pub(crate) fn tools(self: &Arc<Self>) -> Vec<Arc<dyn OutsideTool>> {
        if self.options.are_offered { tools::all(self) } else { Vec::new() }
    }

    /// Returns what the fence of this machine consists of. Tried once, when a program is first asked for.
    async fn support(&self) -> Support {
        *self.support.get_or_init(|| Support::probe(&self.options.child)).await
    }

    /// Returns why a yes can be for one call only; `None` if it can be for more.
    fn why_only_once(&self) -> Option<String> {
        self.options.folders.why_workspace_is_special(&self.workspace)
    }

    /// Returns the lines for the question about `command`.
    async fn notes(&self, command: &TerminalCommand) -> Vec<String> {
        let support = self.support().await;
        let gaps = support.gaps();
        let mut notes = Vec::new();
        if !gaps.is_empty() {
            notes.push(format!("not fenced on this machine: it {}", gaps.join(", ")));
        }
        notes.extend(
            self.why_only_once()
                .map(|why| format!("this workspace is not fenced off, because {why}: a yes is for this call only")),
        );
        if command.network {
            notes.push("with the network".to_owned());
        }
        for path in &command.read {
            notes.push(match self.options.folders.readable(path, Some(&self.workspace)) {
                Ok(path) => format!("can also read {}", path.display()),
                Err(refusal) => format!("will not run: {refusal}"),
            });
        }
        for path in &command.write {
            notes.push(match self.options.folders.writable(path, Some(&self.workspace)) {
                Ok(path) => format!("can also change {}", path.display()),
                Err(refusal) => format!("will not run: {refusal}"),
            });
        }
        if support.is_whole() && notes.is_empty() {
            notes.push(
                "in a cage: no network, and only this workspace and caches of toolchains can be changed".to_owned(),
            );
        }
        notes
    }

    /// Returns the order for a program of a model.
    async fn order(&self, command: &TerminalCommand) -> Result<Order, OutsideError> {
        let cannot = |error: io::Error| OutsideError::Unavailable(format!("no folder for temporary files: {error}"));
        let temp = match self.temp.get() {
            Some(temp) => temp,
            None => {
                let made = tempfile::Builder::new().prefix("patchbay-run-").tempdir().map_err(cannot)?;
                self.temp.get_or_init(|| made)
            }
        };
        let temp = temp.path().canonicalize().map_err(cannot)?;
        let folder = self.workspace.join(command.cwd.as_deref().unwrap_or_default());
        let folder = folder.canonicalize().ok().filter(|folder| folder.is_dir());
        let folder = folder.ok_or_else(|| {
            let written = text::excerpt(command.cwd.as_deref().unwrap_or("."), 200);
            OutsideError::Failed(format!("'{written}' is not a folder below the workspace"))
        })?;
        let fence = self.fence(command, &temp).await.map_err(|refusal| OutsideError::Failed(refusal.to_string()))?;
        let mut environment: BTreeMap<String, String> =
            closed_environment(&self.options.environment).into_iter().collect();
        environment.insert("TMPDIR".to_owned(), temp.to_string_lossy().into_owned());
        environment.extend(command.env.clone());
        Ok(Order {
            program: command.command.clone(),
            arguments: command.args.clone(),
            folder,
            environment: environment.into_iter().collect(),
            fence: Some(fence),
        })
    }

    async fn fence(&self, command: &TerminalCommand, temp: &std::path::Path) -> Result<FenceOrder, FolderRefusal> {
        let (folders, base) = (&self.options.folders, Some(self.workspace.as_path()));
        let mut fence = folders.fence(self.support().await, &self.workspace, temp);
        fence.network = command.network;
        for path in &command.read {
            fence.read.push(folders.readable(path, base)?);
        }
        for path in &command.write {
            fence.write.push(folders.writable(path, base)?);
        }
        Ok(fence)
    }

    /// Starts a program of a model, and looks at the protected files first.
    async fn start(&self, command: &TerminalCommand) -> Result<(RunningProgram, ProtectedFiles), OutsideError> {
        let order = self.order(command).await?;
        let before = self.protected().await;
        let running = RunningProgram::start(&self.options.child, &order);
        let running =
            running.map_err(|error| OutsideError::Unavailable(format!("no cage could be started: {error}")))?;
        Ok((running, before))
    }

    /// Starts what the user typed behind `!`: a shell command that may do what the user may.
    pub(crate) fn start_own(&self, line: &str) -> io::Result<RunningProgram> {
        let variables = std::env::vars_os();
        let variables =
            variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let order = Order {
            program: "/bin/sh".to_owned(),
            arguments: vec!["-c".to_owned(), line.to_owned()],
            folder: self.workspace.clone(),
            environment: variables.collect(),
            fence: None,
        };
        RunningProgram::start(&self.options.child, &order)
    }

    async fn protected(&self) -> ProtectedFiles {
        let workspace = self.workspace.clone();
        tokio::task::spawn_blocking(move || ProtectedFiles::look(&workspace)).await.unwrap_or_default()
    }

    /// Finds out which protected files a program has changed in spite of the fence, or has created. If agents read one of them, the
    /// workspace is no longer trusted.
    async fn changed(&self, before: &ProtectedFiles) -> Option<String> {
        let mounted = self.support().await.isolation >= Isolation::Mounts;
        let changed = before.changed(&self.protected().await, mounted);
        if changed.is_empty() {
            return None;
        }
        let names = changed.join(", ");
        let mut said = format!("The program has changed what runs later or what agents are told: {names}.");
        let is_for_agents = changed.iter().any(|name| ProtectedFiles::is_for_agents(name));
        if is_for_agents && let Some(session) = self.session.upgrade() {
            session.withdraw_trust(&said).await;
        } else if let Some(session) = self.session.upgrade() {
            session.notify(&said);
        }
        said.push_str(" The user was told.");
        Some(said)
    }

    /// Keeps a program that goes on in the background, and returns its id.
    fn keep(
        self: &Arc<Self>,
        line: String,
        running: RunningProgram,
        before: ProtectedFiles,
    ) -> Result<u32, OutsideError> {
        let running = Arc::new(running);
        let mut background = self.background.lock();
        let running_now = background.programs.values().filter(|program| program.running.end().is_none()).count();
        if running_now >= BACKGROUND {
            let message = format!("{BACKGROUND} programs run in the background; stop one with terminal__stop");
            return Err(OutsideError::Unavailable(message));
        }
        // Programs that have ended give way, the oldest first.
        while background.programs.len() >= 2 * BACKGROUND {
            let ended = background.programs.iter().find(|(_, program)| program.running.end().is_some());
            let Some(id) = ended.map(|(id, _)| *id) else { break };
            background.programs.remove(&id);
        }
        background.last += 1;
        let id = background.last;
        background
            .programs
            .insert(id, BackgroundProgram { line, running: Arc::clone(&running), since: Instant::now() });
        let programs = Arc::downgrade(self);
        tokio::spawn(async move {
            let end = running.ended().await;
            drop(running);
            if let Some(programs) = programs.upgrade() {
                // It publishes what it finds.
                programs.changed(&before).await;
                if let Some(session) = programs.session.upgrade() {
                    session.notify(&format!("Program {id} has ended: {}.", end_line(&end)));
                }
            }
        });
        Ok(id)
    }

    fn background(&self, id: u32) -> Result<BackgroundProgram, OutsideError> {
        let found = self.background.lock().programs.get(&id).cloned();
        found.ok_or_else(|| OutsideError::Failed(format!("no program {id} runs or has run in the background")))
    }

    /// Returns what `/ps ARGUMENT` prints, or an error for the user.
    pub(crate) fn list(&self, argument: &str) -> Result<String, String> {
        let words: Vec<&str> = argument.split_whitespace().collect();
        match words[..] {
            [] => {
                let background = self.background.lock();
                let lines: Vec<String> =
                    background.programs.iter().map(|(id, program)| format!("{id}  {program}")).collect();
                Ok(if lines.is_empty() { "No programs in the background.".to_owned() } else { lines.join("\n") })
            }
            ["stop", id] => {
                let program = id.parse().ok().and_then(|id| self.background(id).ok());
                let program = program
                    .ok_or_else(|| format!("Error: there is no program {}; /ps lists them.", text::excerpt(id, 40)))?;
                program.running.stop();
                Ok(format!("Stopped {}", text::excerpt(&program.line, 200)))
            }
            _ => Err("Error: /ps lists programs in the background, /ps stop N stops one.".to_owned()),
        }
    }
}

impl std::fmt::Display for BackgroundProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let total = self.running.output(|output| output.tail(0).total);
        let state = match self.running.end() {
            Some(end) => end_line(&end),
            None => format!("running for {} s", self.since.elapsed().as_secs()),
        };
        write!(f, "{} · {state} · {}", text::excerpt(&self.line, 200), text::size(total))
    }
}

/// Returns how a program ended.
pub(crate) fn end_line(end: &ProgramEnd) -> String {
    match end {
        ProgramEnd { failed: Some(why), .. } => why.clone(),
        ProgramEnd { killed: Some(why), .. } => format!("killed: {why}"),
        ProgramEnd { signal: Some(signal), .. } => format!("ended by signal {signal}"),
        ProgramEnd { exit_code, .. } => format!("exit code {}", exit_code.unwrap_or_default()),
    }
}

/// Returns the end of an output for a model or the conversation, cleaned.
pub(crate) fn shown_output(running: &RunningProgram) -> String {
    let page = running.output(|output| output.tail(OUTPUT));
    let output = text::clean(&page.text);
    match page.start {
        0 => output,
        before => format!("[{} before this are left out]\n{output}", text::size(before)),
    }
}

/// How often the output of a running program is reported at most.
const REPORTS: Duration = Duration::from_millis(200);
