//! The `patchbay` binary: parses the command line, opens the home and runs a front or a subcommand.

mod age;
mod args;
mod authority;
mod backup;
mod blocks;
mod bridge;
mod bundled;
#[cfg(test)]
#[path = "../commit.rs"]
mod commit;
mod compile;
mod config;
mod day;
mod doctor;
mod error;
mod exec;
mod home;
mod journal;
mod log;
mod mcp;
mod mcp_servers;
mod out;
mod plugin;
mod policy;
mod progress_line;
mod provider;
mod recordings;
mod serve;
mod sessions;
mod shell;
mod signals;
mod terminal;
mod token;
mod usage;

use std::{env, io::IsTerminal as _, process::ExitCode, sync::Arc, time::Duration};

use clap::Parser as _;
use patchbay_core::{Code, text};
use patchbay_policy::quoted;
use patchbay_provider::Watch;
use patchbay_repl::ProgramOptions;
use patchbay_session::{AgentSettings, BundledSkills, Host, Observer, Session, Unobserved};
use patchbay_store::Source;
use tokio_util::sync::CancellationToken;

use args::{Arguments, Command, ConnectArguments, Exec, SessionArguments};
use error::CliError;
use home::HomeDirs;
use out::note;
use progress_line::{ProgressLine, Style};
use signals::{EndSignal, GRACE};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit code if a line or command failed. Usage errors exit with clap's code 2.
const FAILED: u8 = 1;

/// File descriptors that a session with many agents, servers and watched folders may need. macOS allows 256 by default.
const DESCRIPTORS: u64 = 4_096;

fn main() -> ExitCode {
    // A program in a cage waits until this process has started, so this skips clap, which takes milliseconds. It also comes before
    // the runtime, because a process with other threads cannot create namespaces.
    if env::args_os().nth(1).is_some_and(|argument| argument == terminal::CAGE) {
        return patchbay_cage::supervise();
    }
    let arguments = Arguments::parse();
    // If the limit cannot be raised, a call that runs out of descriptors fails with its own error.
    let _ = rlimit::increase_nofile_limit(DESCRIPTORS);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            note(&format!("Error: cannot start: {error}"));
            return ExitCode::from(FAILED);
        }
    };
    let code = run(arguments, &runtime).unwrap_or_else(|failure| {
        note(&format!("Error: {failure}"));
        ExitCode::from(FAILED)
    });
    // A blocked read of standard input must not keep the process alive.
    runtime.shutdown_background();
    patchbay_egress::kill_process_groups();
    code
}

fn run(arguments: Arguments, runtime: &tokio::runtime::Runtime) -> Result<ExitCode, CliError> {
    let Arguments { session, plain, line, command } = arguments;
    match command {
        None => {
            let home = HomeDirs::find()?;
            let settings = terminal::settings(&home, plain)?;
            if !patchbay_repl::draws(&settings) {
                let is_typed = std::io::stdin().is_terminal();
                let programs = is_typed.then(|| terminal::programs(&home, &settings)).transpose()?;
                let style = Style::of_standard_error().beside_plain_lines();
                return lines(Exec::standard_input(session, line, is_typed), programs, style, runtime);
            }
            let progress = ProgressLine::new(Style::of_standard_error(), runtime.handle());
            let host = open_watched(&home, progress.clone(), session.record)?;
            let (_watch, _refreshing, session) = runtime.block_on(async {
                Ok::<_, CliError>((watch(&host), host.providers().keep_refreshed(), start(&host, &session).await?))
            })?;
            let find = |id: &str| runtime.block_on(sessions::find(&host, id));
            let front = terminal::TerminalFront { runtime, home: &home, settings, progress: &progress, find: &find };
            front.run(&host, session, line)
        }
        Some(Command::Exec(exec)) => {
            exec.check();
            let style = if exec.json { Style::Silent } else { Style::of_standard_error() };
            lines(exec, None, style, runtime)
        }
        Some(Command::Acp { connect: ConnectArguments { connect: Some(url), workspace, token_file }, .. }) => {
            runtime.block_on(bridge::run(&url, workspace.unwrap_or_default(), token_file.as_deref()))
        }
        Some(Command::Acp { record, .. }) => acp(record, runtime),
        Some(Command::Sessions { list, command }) => {
            let home = HomeDirs::find()?;
            let host = open(&home)?;
            runtime.block_on(async {
                match command {
                    None => sessions::list(&host, list).await,
                    Some(command) => sessions::run(&host, &home, command).await,
                }
            })
        }
        Some(Command::Plugin { command }) => runtime.block_on(plugin::run(command)),
        Some(Command::Provider { command }) => {
            let host = open(&HomeDirs::find()?)?;
            end_on_signal();
            runtime.block_on(provider::run(&host, command))
        }
        Some(Command::Grant { command }) => runtime.block_on(authority::grant(&open(&HomeDirs::find()?)?, command)),
        Some(Command::Policy { command }) => runtime.block_on(policy::run(&open(&HomeDirs::find()?)?, command)),
        Some(Command::Trust { command }) => runtime.block_on(authority::trust(&open(&HomeDirs::find()?)?, command)),
        Some(Command::Token { command }) => runtime.block_on(token::run(open(&HomeDirs::find()?)?.store(), command)),
        Some(Command::Journal(journal)) => runtime.block_on(journal::run(&open(&HomeDirs::find()?)?, &journal)),
        Some(Command::Usage(usage)) => runtime.block_on(usage::run(&*open(&HomeDirs::find()?)?, &usage)),
        Some(Command::Mcp { command: Some(command), .. }) => {
            let home = HomeDirs::find()?;
            let config = config::read(&home.paths.config)?;
            end_on_signal();
            runtime.block_on(mcp_servers::run(command, &home, config, |config| {
                log::start(&home.paths.state)?;
                Ok(Host::open(host_config(&home, config, Unobserved)?)?)
            }))
        }
        Some(Command::Mcp { serve, command: None }) => {
            let progress = ProgressLine::new(Style::of_standard_error(), runtime.handle());
            let host = open_served(&HomeDirs::find()?, progress, &serve)?;
            runtime.block_on(mcp::serve(host, serve))
        }
        Some(Command::Serve { open, record }) => serve(open, record, runtime),
        Some(Command::Backup { folder }) => runtime.block_on(backup::run(&folder)),
        Some(Command::Doctor(doctor)) => runtime.block_on(doctor::run(&doctor)),
        Some(Command::Completions { shell }) => shell::completions(shell),
        Some(Command::Man) => shell::man(),
        Some(Command::Compile(compile)) => Ok(compile::run(&compile)),
    }
}

/// Serves an editor over standard input and output.
fn acp(record: bool, runtime: &tokio::runtime::Runtime) -> Result<ExitCode, CliError> {
    let host = open_watched(&HomeDirs::find()?, Unobserved, record)?;
    runtime.block_on(async {
        let (_watch, _refreshing) = (watch(&host), host.providers().keep_refreshed());
        let stopped = CancellationToken::new();
        signals::cancel_on_signal(stopped.clone(), true);
        let options = patchbay_acp::AcpOptions { version: env!("CARGO_PKG_VERSION"), stopped, remote: None };
        let served = patchbay_acp::serve(host, tokio::io::stdin(), tokio::io::stdout(), options).await;
        served.map_err(|error| CliError::new(Code::Internal, format!("standard input cannot be read: {error}.")))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Serves sessions over the network, for `patchbay serve`.
fn serve(open: bool, record: bool, runtime: &tokio::runtime::Runtime) -> Result<ExitCode, CliError> {
    let home = HomeDirs::find()?;
    let settings = config::read(&home.paths.config)?.serve;
    let host = open_watched(&home, ProgressLine::new(Style::of_standard_error(), runtime.handle()), record)?;
    runtime.block_on(async {
        let (_watch, _refreshing) = (watch(&host), host.providers().keep_refreshed());
        serve::serve(host, &home.paths.state, settings, open).await
    })
}

/// Runs the lines of `exec` in a session. `programs` is set only if a user types the lines; models can then run programs.
fn lines(
    exec: Exec,
    programs: Option<ProgramOptions>,
    style: Style,
    runtime: &tokio::runtime::Runtime,
) -> Result<ExitCode, CliError> {
    let host = open_watched(&HomeDirs::find()?, ProgressLine::new(style, runtime.handle()), exec.session.record)?;
    runtime.block_on(async {
        // A single line ends before a provider could be added.
        let _watch = (exec.lines.len() != 1).then(|| watch(&host));
        let _refreshing = exec.typed.then(|| host.providers().keep_refreshed());
        let session = exec.session.clone();
        exec::run(start(&host, &session), exec, programs, &EndSignal::watch(true, GRACE)).await
    })
}

/// Lets a signal end a command that has no session, together with the programs that it has started. These have their own process
/// groups, which Ctrl+C in a terminal does not reach.
fn end_on_signal() {
    EndSignal::watch(true, Duration::ZERO);
}

fn open(home: &HomeDirs) -> Result<Arc<Host>, CliError> {
    open_watched(home, Unobserved, false)
}

/// Opens the host for fronts that create sessions. `observer` follows the compilation of components; `record` is `--record`.
fn open_watched(home: &HomeDirs, observer: impl Observer + 'static, record: bool) -> Result<Arc<Host>, CliError> {
    log::start(&home.paths.state)?;
    let mut config = config::read(&home.paths.config)?;
    config.sessions.record |= record;
    Ok(Host::open(host_config(home, config, observer)?)?)
}

/// Opens the host for `patchbay mcp`. A package is checked first.
fn open_served(
    home: &HomeDirs,
    observer: impl Observer + 'static,
    serve: &args::ServeMcp,
) -> Result<Arc<Host>, CliError> {
    let package = serve.package.as_deref().map(|folder| mcp::check_package(home, folder)).transpose()?;
    log::start(&home.paths.state)?;
    let mut config = config::read(&home.paths.config)?;
    config.sessions.record |= serve.record;
    Ok(Host::open(patchbay_session::Config { package, ..host_config(home, config, observer)? })?)
}

/// Returns the configuration of a host with the bundled plugins.
fn host_config(
    home: &HomeDirs,
    config: config::ConfigFile,
    observer: impl Observer + 'static,
) -> Result<patchbay_session::Config, CliError> {
    Ok(patchbay_session::Config {
        paths: home.paths.clone(),
        skill_roots: config.skill_roots(home.home_folder.as_deref()),
        home_folder: home.home_folder.clone(),
        compiler: compile::compiler()?,
        limits: config.limits,
        egress: config.egress,
        exchange: config.exchange,
        catalogue: config.catalogue,
        agents: AgentSettings {
            compaction: config.compaction,
            context: config.context,
            budget: config.budget,
            limits: config.session_limits,
        },
        bundled_adapters: bundled::ADAPTERS,
        providers: {
            let folder = home.paths.config.clone();
            Box::new(move || {
                config::read(&folder).map(config::ConfigFile::settings).map_err(|failure| failure.to_string())
            })
        },
        credentials: config.credentials,
        mcp: config.mcp,
        journal: config.journal,
        record: config.sessions.record,
        bundled: BundledSkills { skills: bundled::SKILLS, grants: bundled::GRANTS, answers: bundled::TOOL_LISTS },
        observer: Arc::new(observer),
        package: None,
        program: program(),
        source: Source::default(),
    })
}

/// Returns the command that starts this program from the user's shell: its name if it was found on the PATH, else the path
/// that was typed.
fn program() -> String {
    let typed = env::args_os().next().and_then(|typed| typed.into_string().ok());
    let typed = typed.filter(|typed| !typed.is_empty() && text::clean(typed) == *typed);
    typed.map_or_else(|| "patchbay".to_owned(), |typed| quoted(&typed).into_owned())
}

/// Reloads providers when their files change, until the returned value is dropped.
fn watch(host: &Host) -> Option<Watch> {
    host.providers()
        .watch()
        .inspect_err(|error| note(&format!("Note: {error}. Its changes are seen at the next start.")))
        .ok()
}

/// Creates a session, or resumes the stored session that `arguments` name, and sets the model that they name.
async fn start(host: &Arc<Host>, arguments: &SessionArguments) -> Result<Arc<Session>, CliError> {
    let workspace = arguments.workspace();
    let session = match &arguments.session {
        Some(id) => host.resume(sessions::find(host, id).await?).await?,
        None if arguments.continues => host.resume(sessions::newest(host, workspace).await?).await?,
        None => host.new_session(workspace).await?,
    };
    if let Some(model) = &arguments.model {
        let set = session.submit(&format!("/model {model}")).await;
        if !set.is_ok() {
            return Err(CliError::new(set.code, set.message));
        }
        set.message.lines().map(str::trim).filter(|line| line.starts_with('⚠')).for_each(note);
    }
    Ok(session)
}
