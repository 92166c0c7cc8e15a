//! `patchbay compile`, the child process that compiles a component from standard input to standard output within its own
//! limits. The sandbox starts it.

use std::{
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
};

use patchbay_core::Code;
use patchbay_sandbox::{
    COMPILER_MEMORY_IS_WATCHED, Compiler, Failure as PluginFailure, precompile, precompile_with_functions,
};

use crate::{CliError, FAILED, args::Compile};

/// Returns the command with which the host starts this binary as a compiler.
pub(crate) fn compiler() -> Result<Compiler, CliError> {
    Ok(Compiler { program: own_program()?, arguments: vec!["compile".to_owned()], keeps_functions: false })
}

/// Returns the path with which this process can start its own program as a child.
pub(crate) fn own_program() -> Result<PathBuf, CliError> {
    // On Linux this is the running program, even if its file has been replaced.
    let running = Path::new("/proc/self/exe");
    match running.symlink_metadata() {
        Ok(_) => Ok(running.to_owned()),
        Err(_) => std::env::current_exe().map_err(|error| {
            let mount = if cfg!(target_os = "linux") { " Mount /proc: mount -t proc proc /proc" } else { "" };
            let what = "this program's own file, which compiles plugins and runs programs in processes of their own, cannot be found";
            CliError::new(Code::Internal, format!("{what} ({error}).{mount}"))
        }),
    }
}

pub(crate) fn run(compile: &Compile) -> ExitCode {
    // Otherwise, Ctrl+C in the parent's terminal would look like a component that cannot be compiled.
    #[cfg(unix)]
    let _ = rustix::process::setpgid(None, None);
    let (words, code) = match end_with_parent().and_then(|()| limit(compile)).and_then(|()| read()) {
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory => (error.to_string(), OVER_A_LIMIT),
        Err(error) => (error.to_string(), NOT_ITS_FAULT),
        Ok(input) => match if compile.functions { precompile_with_functions(&input) } else { precompile(&input) } {
            Err(failure @ PluginFailure::InvalidComponent(_)) => (failure.to_string(), FAILED),
            Err(failure) => (failure.to_string(), NOT_ITS_FAULT),
            Ok(artefact) => match io::stdout().lock().write_all(&artefact) {
                Ok(()) => return ExitCode::SUCCESS,
                Err(error) => (error.to_string(), NOT_ITS_FAULT),
            },
        },
    };
    let _ = write!(io::stderr(), "{words}");
    ExitCode::from(code)
}

/// Exit code for failures that are not the component's fault.
const NOT_ITS_FAULT: u8 = 2;
/// Exit code for an exceeded limit. The parent treats unknown codes and most signals the same way.
const OVER_A_LIMIT: u8 = 3;

/// Starts a thread that ends this process when nothing reads its output any more, because the parent was killed.
fn end_with_parent() -> io::Result<()> {
    #[cfg(unix)]
    thread::Builder::new().spawn(|| {
        use rustix::{
            event::{PollFd, PollFlags, poll},
            io::retry_on_intr,
        };
        let out = io::stdout();
        // Linux always reports that the reader is gone, macOS only if HUP is requested.
        let mut polled = [PollFd::new(&out, PollFlags::HUP)];
        if retry_on_intr(|| poll(&mut polled, None)).is_ok() {
            std::process::exit(NOT_ITS_FAULT.into());
        }
    })?;
    Ok(())
}

fn limit(compile: &Compile) -> io::Result<()> {
    raise_oom_score();
    // macOS refuses such a limit on Apple silicon; there the parent watches the memory.
    if !COMPILER_MEMORY_IS_WATCHED {
        rlimit::setrlimit(rlimit::Resource::AS, compile.bytes, compile.bytes)?;
    }
    // Exceeding the soft limit sends SIGXCPU, which the parent reports as a time limit; exceeding the hard limit sends
    // SIGKILL, as running out of memory does.
    rlimit::setrlimit(rlimit::Resource::CPU, compile.seconds, compile.seconds.saturating_add(5))?;
    rlimit::setrlimit(rlimit::Resource::CORE, 0, 0)
}

/// Makes Linux kill this process first when memory runs out; a process may always raise its own score. Does nothing on other
/// systems.
fn raise_oom_score() {
    if cfg!(target_os = "linux") {
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    }
}

fn read() -> io::Result<Vec<u8>> {
    let mut component = Vec::new();
    io::stdin().lock().read_to_end(&mut component)?;
    Ok(component)
}
