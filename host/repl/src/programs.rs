//! Programs that run for this terminal. A model's programs run in a cage, after a question to the user. Commands that the user
//! types after a `!` run without a cage. The tools are in `tools`; the loop in `terminal` shows the user's commands.

mod given;
mod tools;
mod watched;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use patchbay_cage::{
    CageFolders, CageProgram, Cages, FenceOrder, Isolation, Order, ProgramEnd, ProtectedFiles, RunningProgram, Support,
    closed_environment,
};
use patchbay_core::text;
use patchbay_session::{CallTerms, OutsideError, Session, TerminalCommand};
use tempfile::TempDir;

use self::watched::WatchedProgram;

/// How many programs may run in the background at the same time.
const BACKGROUND: usize = 8;
/// Bytes of a program's output that a model or the conversation receives.
const OUTPUT: usize = 64 << 10;
/// How long leaving the session waits for programs to end.
const SETTLING: Duration = Duration::from_secs(2);
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

/// How programs are run. The binary builds this from `[terminal]` of `config.toml`.
#[derive(Clone, Debug)]
pub struct ProgramOptions {
    /// The child that runs each program.
    pub child: CageProgram,
    /// The folders that programs in the cage may use.
    pub folders: CageFolders,
    /// Names of environment variables that programs in the cage receive besides the usual ones.
    pub environment: Vec<String>,
    /// Whether models are offered the tools.
    pub are_offered: bool,
}

/// The programs that models run in one session. Dropping it kills them.
pub struct Programs {
    options: ProgramOptions,
    /// Starts the programs, and keeps a process ready for the next one.
    cages: Arc<Cages>,
    session: Weak<Session>,
    workspace: PathBuf,
    /// The best support for a fence that a probe has found.
    support: Mutex<Support>,
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
    /// Offers the models of a session the tools that run programs, unless `options` removes them.
    pub fn offer(session: &Arc<Session>, options: ProgramOptions) -> Arc<Self> {
        let programs = Arc::new(Self {
            cages: Cages::new(options.child.clone()),
            options,
            session: Arc::downgrade(session),
            workspace: session.workspace().into(),
            support: Mutex::default(),
            temp: OnceLock::new(),
            background: Mutex::default(),
        });
        session.set_front_tools(if programs.options.are_offered { tools::all(&programs) } else { Vec::new() });
        programs
    }

    /// Probes which parts of the fence this machine supports. If parts are missing, probes again now and for the next question,
    /// because the machine may have lacked resources for a moment.
    async fn probe(&self) -> Support {
        for _ in 0..2 {
            if self.support().is_whole() {
                break;
            }
            let found = Support::probe(&self.options.child).await;
            let mut best = self.support.lock();
            *best = better(*best, found);
        }
        self.support()
    }

    /// Returns the best result of the probes so far.
    fn support(&self) -> Support {
        *self.support.lock()
    }

    /// Returns why a yes can cover only one call; `None` if it can cover more.
    fn why_only_once(&self) -> Option<String> {
        self.options.folders.why_workspace_is_special(&self.workspace)
    }

    /// Returns the terms of a call of `command`, with its paths as they resolve now.
    async fn terms(&self, command: &TerminalCommand) -> CallTerms {
        let only_once = command.widens() || self.why_only_once().is_some();
        let mut terms = CallTerms { only_once, only_this_input: true, ..CallTerms::default() };
        if let Err(refusal) = self.give(command, &mut terms) {
            terms.refusal = Some(refusal);
            return terms;
        }
        let support = self.probe().await;
        // Start the next process while the user reads the question.
        self.prepare();
        terms.notes = self.notes(command, support, &terms);
        terms
    }

    /// Returns the lines for the question about `command`.
    fn notes(&self, command: &TerminalCommand, support: Support, terms: &CallTerms) -> Vec<String> {
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
            notes.push("with the network, including servers on this machine".to_owned());
        }
        notes.extend(terms.read.iter().map(|path| format!("can also read {}", path.display())));
        notes.extend(terms.write.iter().map(|path| format!("can also change {}", path.display())));
        if support.is_whole() && notes.is_empty() {
            notes.push(
                "in a cage: no network, and only this workspace and caches of toolchains can be changed".to_owned(),
            );
        }
        notes
    }

    /// Returns the folder for temporary files.
    fn temp(&self) -> io::Result<PathBuf> {
        let temp = match self.temp.get() {
            Some(temp) => temp,
            None => {
                let made = tempfile::Builder::new().prefix("patchbay-run-").tempdir()?;
                self.temp.get_or_init(|| made)
            }
        };
        temp.path().canonicalize()
    }

    /// Returns the order that starts a model's program.
    fn order(&self, command: &TerminalCommand, terms: &CallTerms) -> Result<Order, OutsideError> {
        let cannot = |error: io::Error| {
            OutsideError::Unavailable(format!(
                "cannot create a folder for temporary \
            files: {error}"
            ))
        };
        let temp = self.temp().map_err(cannot)?;
        let folder = given::folder(&self.workspace, command.cwd.as_deref()).map_err(OutsideError::Failed)?;
        let fence = self.fence(command, terms, &temp);
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

    fn fence(&self, command: &TerminalCommand, terms: &CallTerms, temp: &Path) -> FenceOrder {
        let mut fence = self.options.folders.fence(self.support(), &self.workspace, temp);
        fence.network = command.network;
        fence.read.extend(terms.read.iter().cloned());
        fence.write.extend(terms.write.iter().cloned());
        let linked = given::linked(&self.workspace, &fence.read_only);
        fence.read_only.extend(linked);
        fence
    }

    /// Starts a model's program, after looking at the protected files.
    async fn start(
        self: &Arc<Self>,
        command: &TerminalCommand,
        terms: &CallTerms,
    ) -> Result<WatchedProgram, OutsideError> {
        let session = self.session.upgrade();
        let session = session.ok_or_else(|| OutsideError::Unavailable("the session is closed".to_owned()))?;
        let order = self.order(command, terms)?;
        let before = self.protected().await;
        let running = self.cages.start(&order);
        let running = running.map_err(|error| OutsideError::Unavailable(format!("cannot start a cage: {error}")))?;
        Ok(WatchedProgram::new(Arc::clone(self), session, running, before))
    }

    /// Starts the shell command that the user typed after `!`. It has all rights of the user.
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
        self.cages.start(&order)
    }

    /// Starts a process in advance for the next program, unless one is already waiting.
    pub(crate) fn prepare(&self) {
        self.cages.prepare();
    }

    async fn protected(&self) -> ProtectedFiles {
        let workspace = self.workspace.clone();
        tokio::task::spawn_blocking(move || ProtectedFiles::look(&workspace)).await.unwrap_or_default()
    }

    /// Finds out which protected files a program has changed in spite of the fence, or has created. If agents read one of them, the
    /// workspace is no longer trusted.
    async fn changed(&self, before: &ProtectedFiles) -> Option<String> {
        let mounted = self.support().isolation >= Isolation::Mounts;
        let changed = before.changed(&self.protected().await, mounted);
        if changed.is_empty() {
            return None;
        }
        let names = changed.join(", ");
        let mut said = format!("The program has changed files that run later or instruct agents: {names}.");
        let is_for_agents = changed.iter().any(|name| ProtectedFiles::is_for_agents(name));
        if is_for_agents && let Some(session) = self.session.upgrade() {
            session.withdraw_trust(&said).await;
        } else if let Some(session) = self.session.upgrade() {
            session.notify(&said);
        }
        said.push_str(" The user was told.");
        Some(said)
    }

    /// Keeps a program that continues in the background, and returns its id.
    fn keep(&self, line: String, watched: WatchedProgram) -> Result<u32, OutsideError> {
        let mut background = self.background.lock();
        let running_now = background.programs.values().filter(|program| program.running.end().is_none()).count();
        if running_now >= BACKGROUND {
            let message = format!("{BACKGROUND} programs run in the background; stop one with terminal__stop");
            return Err(OutsideError::Unavailable(message));
        }
        // Programs that have ended are removed, the oldest first.
        while background.programs.len() >= 2 * BACKGROUND {
            let ended = background.programs.iter().find(|(_, program)| program.running.end().is_some());
            let Some(id) = ended.map(|(id, _)| *id) else { break };
            background.programs.remove(&id);
        }
        background.last += 1;
        let id = background.last;
        let running = Arc::clone(watched.running());
        background.programs.insert(id, BackgroundProgram { line, running, since: Instant::now() });
        watched.leave_in_background(id);
        Ok(id)
    }

    /// Closes the session, and waits until the models' programs have ended and their changes to protected files are known. Does not
    /// wait if no model has requested a program.
    pub async fn settle(&self) {
        self.cages.close();
        if self.temp.get().is_some()
            && let Some(session) = self.session.upgrade()
        {
            // After that, the end of the process kills them.
            let _ = tokio::time::timeout(SETTLING, session.close()).await;
        }
    }

    fn background(&self, id: u32) -> Result<BackgroundProgram, OutsideError> {
        let found = self.background.lock().programs.get(&id).cloned();
        found.ok_or_else(|| OutsideError::Failed(format!("no background program {id} found")))
    }

    /// Runs `/ps ARGUMENT` and returns the text to print.
    ///
    /// # Errors
    /// A message for the user, if there is no such program, or the argument is neither empty, `N` nor `stop N`.
    pub fn list(&self, argument: &str) -> Result<String, String> {
        let words: Vec<&str> = argument.split_whitespace().collect();
        match words[..] {
            [] => {
                let background = self.background.lock();
                let lines: Vec<String> =
                    background.programs.iter().map(|(id, program)| format!("{id}  {program}")).collect();
                Ok(if lines.is_empty() { "No programs in the background.".to_owned() } else { lines.join("\n") })
            }
            ["stop", id] => {
                let program = self.named(id)?;
                program.running.stop();
                Ok(format!("Stopped {}", text::excerpt(&program.line, 200)))
            }
            [id] => {
                let program = self.named(id)?;
                Ok(format!("{program}\n{}", shown_output(&program.running)))
            }
            _ => Err("Error: use /ps, /ps N or /ps stop N.".to_owned()),
        }
    }

    /// Finds the program with the id that the user typed.
    fn named(&self, id: &str) -> Result<BackgroundProgram, String> {
        let program = id.parse().ok().and_then(|id| self.background(id).ok());
        program.ok_or_else(|| format!("Error: program {} not found. To list programs: /ps", text::excerpt(id, 40)))
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

/// Returns the fence with more parts.
fn better(one: Support, other: Support) -> Support {
    let parts = |support: Support| (support.landlock, support.seccomp, support.isolation);
    if parts(other) > parts(one) { other } else { one }
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

/// Shortest interval between two reports of a running program's output.
const REPORTS: Duration = Duration::from_millis(200);
