//! The child process that compiles a component: standard input to standard output, within limits of its own.

use std::{
    io::{self, Read as _, Write as _},
    process::ExitCode,
};

use patchbay_core::Code;
use patchbay_sandbox::{Compiler, Failure as PluginFailure, precompile};

use crate::{CliError, FAILED, args::Compile};

/// How the host calls this very binary.
pub(crate) fn compiler() -> Result<Compiler, CliError> {
    // On Linux this is the very program that runs, also when its file has been replaced meanwhile.
    let program = if cfg!(target_os = "linux") {
        "/proc/self/exe".into()
    } else {
        std::env::current_exe()
            .map_err(|error| CliError::new(Code::Internal, format!("the program's own path is not known: {error}.")))?
    };
    Ok(Compiler { program, arguments: vec!["compile".to_owned()] })
}

pub(crate) fn run(compile: &Compile) -> ExitCode {
    let (words, code) = match limit(compile).and_then(|()| read()) {
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory => (error.to_string(), OVER_A_LIMIT),
        Err(error) => (error.to_string(), NOT_ITS_FAULT),
        Ok(component) => match precompile(&component) {
            Err(failure @ PluginFailure::InvalidComponent(_)) => (failure.to_string(), FAILED),
            Err(failure) => (failure.to_string(), NOT_ITS_FAULT),
            Ok(artefact) => match io::stdout().lock().write_all(&artefact) {
                Ok(()) => return ExitCode::SUCCESS,
                Err(error) => (error.to_string(), NOT_ITS_FAULT),
            },
        },
    };
    eprint!("{words}");
    ExitCode::from(code)
}

/// The exit code where the component is not to blame.
const NOT_ITS_FAULT: u8 = 2;
/// Any other code, and any signal, says that a limit was met.
const OVER_A_LIMIT: u8 = 3;

fn limit(compile: &Compile) -> io::Result<()> {
    // The processor time of all cores counts.
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let seconds = compile.seconds.saturating_mul(cores);
    die_first();
    rlimit::setrlimit(rlimit::Resource::AS, compile.bytes, compile.bytes)?;
    // At the first of the two a signal says that it was time; the second is the same as a kill for want of memory.
    rlimit::setrlimit(rlimit::Resource::CPU, seconds, seconds.saturating_add(5))?;
    rlimit::setrlimit(rlimit::Resource::CORE, 0, 0)
}

/// If the machine runs out of memory, the system kills this process before the host and before anything else. A process may
/// always raise its own score; where it cannot, nothing is lost but the order.
fn die_first() {
    if cfg!(target_os = "linux") {
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    }
}

fn read() -> io::Result<Vec<u8>> {
    let mut component = Vec::new();
    io::stdin().lock().read_to_end(&mut component)?;
    Ok(component)
}
