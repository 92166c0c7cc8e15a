//! `patchbay plugin dev`: builds a plugin on each save, repeats the last call in a throw-away session, and shows what changed.

mod shown;
mod typed;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant, SystemTime},
};

use patchbay_core::Code;
use patchbay_fixture::{ActualOutcome, CallRecording, FileTree, FixtureFolder, KvTree, PreparedCase};
use patchbay_plugin::{BuildOptions, LocatedPlugin, PluginForm, PluginWatch, build, has_sources, locate};
use patchbay_policy::Capability;
use patchbay_skill::Skill;
use serde_json::{Map, Value};
use tokio::{sync::mpsc, task::spawn_blocking};

use self::{
    shown::{LoadedPlugin, call_changes},
    typed::DevLine,
};
use super::{
    authoring,
    bench::{Bench, CaseEnd, Outside, Trial},
    call::{self, NotCalled, report::CallReport, trial_home, usage},
};
use crate::{
    CliError,
    args::PluginDev,
    config::{self, ConfigFile},
    home,
    out::{note, say},
    progress_line::Style,
    signals::{EndSignal, GRACE},
};

/// Exit code if the plugin cannot be used.
const UNUSABLE: u8 = 2;

const HELP: &str = "\
TOOL [INPUT]     call a tool, such as: hello {\"name\": \"Ada\"}
(an empty line)  repeat the last call live
fixture [NAME]   keep the last call as a test in the folder fixtures
help, quit";

pub(crate) async fn run(arguments: &PluginDev) -> Result<ExitCode, CliError> {
    let signal = EndSignal::watch(true, GRACE);
    let ended = tokio::select! {
        biased;
        code = signal.received() => Err(NotCalled::Stopped(code)),
        ended = develop(arguments) => ended,
    };
    Ok(match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(NotCalled::Usage(error) | NotCalled::Failed(error)) => {
            note(&format!("Error: {error}"));
            ExitCode::from(UNUSABLE)
        }
        Err(NotCalled::Stopped(code)) => ExitCode::from(code),
    })
}

async fn develop(arguments: &PluginDev) -> Result<(), NotCalled> {
    let mut development = Development::open(arguments)?;
    let loaded = development.reload().await;
    shown(loaded)?;
    say!("Saving a file repeats the last call. 'help' lists what you can type.");
    loop {
        tokio::select! {
            biased;
            line = development.lines.recv() => match line {
                Some(line) if DevLine::parse(&line) != DevLine::Quit => {
                    let done = development.line(&line).await;
                    shown(done)?;
                }
                _ => return Ok(()),
            },
            saved = development.watch.changed() => {
                say!("saved: {}", patchbay_core::text::excerpt(&saved.join(", "), 400));
                let reloaded = development.reload().await;
                shown(reloaded)?;
            }
        }
    }
}

/// Shows an error that the author can fix. The command continues.
fn shown(done: Result<(), NotCalled>) -> Result<(), NotCalled> {
    match done {
        Err(NotCalled::Usage(error) | NotCalled::Failed(error)) => {
            note(&format!("Error: {error}"));
            Ok(())
        }
        other => other,
    }
}

/// The last call, with the outcome of its last run.
struct LastCall {
    /// The recording of its last live run.
    recording: CallRecording,
    actual: ActualOutcome,
    /// Whether the last run needed an answer that was not recorded.
    is_incomplete: bool,
}

/// A plugin while its author works on it.
struct Development<'a> {
    arguments: &'a PluginDev,
    bench: Bench,
    lines: mpsc::Receiver<String>,
    watch: PluginWatch,
    /// Whether the author was told that saves are not noticed.
    is_unwatched: bool,
    /// The capabilities that are granted until the command ends.
    grants: Vec<Capability>,
    /// The capabilities that the author was asked about.
    asked: Vec<Capability>,
    plugin: Option<(LocatedPlugin, LoadedPlugin)>,
    last: Option<LastCall>,
    /// The store and the files after the last call.
    kv: KvTree,
    files: FileTree,
}

impl<'a> Development<'a> {
    fn open(arguments: &'a PluginDev) -> Result<Self, NotCalled> {
        let path = arguments.plugin.canonicalize().map_err(CliError::io(&arguments.plugin))?;
        let is_built_here = path.is_dir() && has_sources(&path);
        Ok(Self {
            watch: PluginWatch::new(&path, !is_built_here),
            is_unwatched: false,
            bench: Bench::open(Style::of_standard_error(), true)?,
            lines: typed::lines(),
            grants: arguments.grant.clone(),
            asked: arguments.grant.clone(),
            files: trial_home::files_to_copy(&arguments.file)?,
            arguments,
            plugin: None,
            last: None,
            kv: KvTree::new(),
        })
    }

    /// Builds and loads the plugin, shows how it changed, and repeats the last call.
    async fn reload(&mut self) -> Result<(), NotCalled> {
        let start = Instant::now();
        match self.watch.exceeded() {
            Some(most) if !self.is_unwatched => note(&format!(
                "note: saves are not noticed because {} has more than {} files. Move files that are not part of the plugin \
                 elsewhere.",
                patchbay_core::text::clean_line(&self.arguments.plugin.to_string_lossy()),
                patchbay_core::text::with_commas(most as u64)
            )),
            _ => {}
        }
        self.is_unwatched = self.watch.exceeded().is_some();
        self.build().await?;
        let located = locate(&self.arguments.plugin).map_err(|error| usage(format!("{error}.")))?;
        let case = match &self.last {
            Some(last) => self.recorded(last)?,
            None => PreparedCase::unwritten("", Map::new()),
        };
        let is_live = self.last.as_ref().is_none_or(|last| last.recording.effects().next().is_none());
        let outside = if is_live { self.live()? } else { Outside::Recorded };
        let trial = self.bench.load(&located, &case, outside).await?;
        let loaded = LoadedPlugin::new(&located, trial.skill.clone()).map_err(CliError::io(&self.arguments.plugin))?;
        let before = self.plugin.take();
        let changes = match &before {
            Some((_, before)) => loaded.changes(before),
            None => vec![loaded.line()],
        };
        for change in &changes {
            say!("{change}");
        }
        let is_new = before.is_none_or(|(_, before)| before.skill.digest != loaded.skill.digest);
        let skill = loaded.skill.clone();
        self.plugin = Some((located, loaded));
        self.ask_for_grants(&skill).await?;
        if self.last.is_none() {
            trial.close().await;
        } else if is_new {
            self.repeat(&trial, case, is_live, start).await?;
        } else {
            say!("The plugin has not changed.");
            trial.close().await;
        }
        Ok(())
    }

    async fn build(&self) -> Result<(), NotCalled> {
        let folder = self.arguments.plugin.clone();
        if !folder.is_dir() || !has_sources(&folder) {
            return Ok(());
        }
        let symbols = Some(home::paths()?.symbols());
        let options = BuildOptions { toolchains: authoring::toolchains()?, symbols, ..BuildOptions::default() };
        let built = spawn_blocking(move || build(&folder, &options)).await;
        match built {
            Ok(Ok(built)) => {
                built.notes.iter().for_each(|text| note(&format!("note: {}", patchbay_core::text::clean_line(text))));
                Ok(())
            }
            Ok(Err(error)) => Err(CliError::new(Code::BuildFailed, error.to_string()).into()),
            Err(stopped) => Err(CliError::new(Code::BuildFailed, format!("the build was stopped: {stopped}.")).into()),
        }
    }

    /// Asks about each capability that SKILL.md requests, unless the author was asked about it before.
    async fn ask_for_grants(&mut self, skill: &Skill) -> Result<(), NotCalled> {
        // The generated SKILL.md of a bare component requests everything, which does not mean that the author wants it.
        if matches!(&self.plugin, Some((LocatedPlugin { form: PluginForm::Bare(_), .. }, _))) {
            return Ok(());
        }
        for requested in &skill.manifest.capabilities {
            let capability = &requested.capability;
            if self.asked.iter().any(|asked| asked.includes(capability)) {
                continue;
            }
            self.asked.push(capability.clone());
            let reason = requested.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            say!("Grant {capability} to {} until this command ends{reason}? y or n:", skill.name);
            if self.says_yes().await {
                self.grants.push(capability.clone());
                if let Err(error) = self.settings() {
                    self.grants.pop();
                    shown(Err(error))?;
                }
            }
        }
        Ok(())
    }

    /// Reads lines until one is a yes or a no. An empty line or the end of the input counts as a no.
    async fn says_yes(&mut self) -> bool {
        while let Some(line) = self.lines.recv().await {
            match &*line.to_ascii_lowercase() {
                "y" | "yes" => return true,
                "n" | "no" | "" => return false,
                _ => say!("Type y or n:"),
            }
        }
        false
    }

    /// Returns the settings of live calls.
    fn settings(&self) -> Result<ConfigFile, NotCalled> {
        call::live_settings(config::read(&self.bench.home.paths.config)?, &self.grants)
    }

    fn live(&self) -> Result<Outside, NotCalled> {
        let workspace = self.arguments.workspace.as_ref();
        let workspace: Option<PathBuf> =
            workspace.map(|path| path.canonicalize().map_err(CliError::io(path))).transpose()?;
        Ok(Outside::Live { settings: Box::new(self.settings()?), workspace })
    }

    fn recorded(&self, last: &LastCall) -> Result<PreparedCase, NotCalled> {
        Ok(last.recording.case(&self.grants)?)
    }

    /// Repeats the last call after the plugin has changed.
    async fn repeat(
        &mut self,
        trial: &Trial,
        mut case: PreparedCase,
        is_live: bool,
        start: Instant,
    ) -> Result<(), NotCalled> {
        case.grants = self.granted(&trial.skill);
        let ended = self.bench.call(trial, &case).await?;
        let Some(before) = self.last.as_ref().map(|last| last.actual.clone()) else { return Ok(()) };
        let changes = call_changes(&before, &ended.actual);
        let how = self.how(is_live);
        let what = if changes.is_empty() { "nothing changed" } else { "changed" };
        say!("repeated {}{how} in {}: {what}", case.tool, seconds(start.elapsed()));
        for change in &changes {
            say!("{change}");
        }
        print_sides(&ended);
        self.keep_last(&case, ended);
        if self.last.as_ref().is_some_and(|last| last.is_incomplete) {
            say!("Press Enter to run the call live.");
        }
        Ok(())
    }

    /// Describes where a repeated call gets its answers; empty for a live call.
    fn how(&self, is_live: bool) -> String {
        let effects: Vec<&str> = self.last.iter().flat_map(|last| last.recording.effects()).take(3).collect();
        match is_live {
            true => String::new(),
            false => format!(" against its recorded answers (it used: {})", effects.join(", ")),
        }
    }

    /// Remembers a call and its outcome.
    fn keep_last(&mut self, case: &PreparedCase, ended: CaseEnd) {
        let is_incomplete = !ended.actual.problems.is_empty();
        self.kv = ended.actual.kv.clone().unwrap_or_default();
        if self.arguments.workspace.is_none() {
            self.files = ended.actual.files.clone().unwrap_or_default();
        }
        let recording = ended.recording.or_else(|| self.last.take().map(|last| last.recording));
        debug_assert!(recording.is_some(), "{} was not recorded", case.tool);
        self.last = recording.map(|recording| LastCall { recording, actual: ended.actual, is_incomplete });
    }

    /// Runs a line that the author typed.
    async fn line(&mut self, line: &str) -> Result<(), NotCalled> {
        match DevLine::parse(line) {
            DevLine::Help => say!("{HELP}"),
            DevLine::Quit => {}
            DevLine::Keep(name) => self.keep(name)?,
            DevLine::Again => match &self.last {
                Some(last) => {
                    let case = self.recorded(last)?;
                    self.call(case).await?;
                }
                None => say!("No call to repeat yet. Type one, such as: hello {{\"name\": \"Ada\"}}"),
            },
            DevLine::Call(_, Some("-")) => return Err(usage("type the input instead of '-'.")),
            DevLine::Call(tool, input) => {
                let Some((_, loaded)) = &self.plugin else {
                    return Err(usage("the plugin could not be loaded yet. Fix it and save."));
                };
                let spec = call::tool(&loaded.skill, tool)?;
                let full_name = format!("{}__{}", loaded.skill.name, spec.name);
                let Value::Object(input) = call::input(&full_name, spec, input)? else { return Ok(()) };
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let start = Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or_default());
                let seed = start.as_millis() as u64;
                let (kv, files) = (self.kv.clone(), self.files.clone());
                let case = PreparedCase::live((spec.name.as_str(), input), kv, files, start, seed);
                self.call(case).await?;
            }
        }
        Ok(())
    }

    /// Makes a live call.
    async fn call(&mut self, mut case: PreparedCase) -> Result<(), NotCalled> {
        let Some((located, loaded)) = &self.plugin else { return Ok(()) };
        case.grants = self.granted(&loaded.skill);
        let trial = self.bench.load(located, &case, self.live()?).await?;
        let full_name = format!("{}__{}", trial.skill.name, case.tool);
        let mut ended = self.bench.call(&trial, &case).await?;
        let mut report = CallReport::new(full_name, &ended.outcome, &ended.rows, &self.settings()?.limits);
        report.printed = std::mem::take(&mut ended.printed);
        report.denied = std::mem::take(&mut ended.denied);
        report.changed_files =
            ended.recording.iter().flat_map(|recording| recording.changed_files(&ended.actual)).collect();
        report.print(false);
        self.keep_last(&case, ended);
        Ok(())
    }

    /// Returns the granted capabilities that SKILL.md still requests.
    fn granted(&self, skill: &Skill) -> Vec<Capability> {
        let asked = &skill.manifest.capabilities;
        let is_asked = |grant: &&Capability| asked.iter().any(|asked| asked.capability.includes(grant));
        self.grants.iter().filter(is_asked).cloned().collect()
    }

    /// Keeps the last call as a fixture.
    fn keep(&self, name: Option<&str>) -> Result<(), NotCalled> {
        let (Some(last), Some((_, loaded))) = (&self.last, &self.plugin) else {
            return Err(usage("no call to keep yet. Type one first, such as: hello {\"name\": \"Ada\"}"));
        };
        if last.is_incomplete {
            return Err(usage(
                "the last call needed answers that were not recorded. Press Enter to run it live first.",
            ));
        }
        let plugin = &self.arguments.plugin;
        let folder = if plugin.is_dir() { plugin } else { plugin.parent().unwrap_or(Path::new(".")) };
        let folder = FixtureFolder::create(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?;
        let file = folder.keep(name, &last.recording, &self.granted(&loaded.skill), &last.actual)?;
        say!("Kept as {}/{file}. 'patchbay plugin test' runs it.", FixtureFolder::NAME);
        Ok(())
    }
}

/// Prints a repeated call's log lines, its denied acts, and the host calls that differ from the recording.
fn print_sides(ended: &CaseEnd) {
    for difference in ended.actual.host_call_differences() {
        say!("{difference}");
    }
    for line in &ended.printed {
        note(&format!("printed: {}", line.text));
    }
    for denied in &ended.denied {
        note(&format!("denied: {} ({})", denied.act, denied.capability));
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}
