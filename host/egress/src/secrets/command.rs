//! Runs key commands and keeps the keys that they print. Called by `secrets`. A command's output is never logged and
//! never part of an error.

use std::{
    collections::HashMap,
    env,
    ffi::OsStr,
    path::Path,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use jiff::Timestamp;
use parking_lot::Mutex;
use patchbay_core::Name;
use serde_json::Value;
use tokio::{io::AsyncReadExt as _, process::Child};

use super::SecretRef;
use crate::{
    KeyCommand, Secret,
    program::{ProcessGroup, find_program},
};

/// Size limit of the output of a key command, in bytes.
const OUTPUT_BYTES: usize = 64 << 10;
/// How long a key is kept if its command does not report when it expires.
const KEPT: Duration = Duration::from_secs(300);
/// A key is replaced this long before it expires.
const MARGIN: Duration = Duration::from_secs(60);
/// The longest time that a key is kept, in seconds. Also prevents an overflow of the clock.
const LONGEST: f64 = 365.0 * 86_400.0;

/// Why a key command produced no key. The message contains none of the command's output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key command of '{name}' failed ({failure}). Run it yourself to see why: {command}")]
pub struct KeyCommandError {
    /// The provider or the credential.
    pub name: Name,
    /// The command that failed to print a key.
    pub command: KeyCommand,
    /// The way in which the command failed.
    pub failure: KeyCommandFailure,
}

impl KeyCommandError {
    /// Returns the message for a plugin, which does not learn the command.
    pub(crate) fn without_command(&self) -> String {
        format!("the key command of '{}' failed ({})", self.name, self.failure)
    }
}

/// The way in which a key command failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyCommandFailure {
    /// The command ended with this exit code.
    #[error("exit {0}")]
    Exit(i32),
    /// The command was ended by this signal.
    #[error("signal {0}")]
    Signal(i32),
    /// PATH has no such program.
    #[error("no absolute folder in PATH has this program")]
    NotFound,
    /// The command cannot be started, with the system's error.
    #[error("it cannot be started: {0}")]
    Start(String),
    /// It took too long and was killed.
    #[error("no key within {ms} ms, the limit 'key_command_ms'")]
    Timeout {
        /// The limit, in milliseconds.
        ms: u64,
    },
    /// It printed too much and was killed.
    #[error("more than {OUTPUT_BYTES} bytes of output")]
    TooLong,
    /// The output is in neither of the two forms.
    #[error(
        "its output is neither a key on one line nor {{\"token\": \"…\"}} with \"expires_at\" in RFC 3339 or \"expires_in\" in seconds"
    )]
    Form,
    /// Its output cannot be used as a key.
    #[error("its key must have {least} to {most} printable ASCII characters", least = Secret::SHORTEST, most = Secret::LONGEST)]
    Key,
}

/// The keys of all key commands of the process.
#[derive(Default)]
pub(super) struct KeyCommands {
    tables: Mutex<HashMap<SecretRef, Arc<tokio::sync::Mutex<Option<CommandRun>>>>>,
}

/// The last run of a command.
struct CommandRun {
    ended: Instant,
    result: Result<CommandKey, KeyCommandError>,
}

#[derive(Clone)]
struct CommandKey {
    secret: Secret,
    /// When the command is run again. Uses the system clock, because the time that the machine sleeps must count.
    until: SystemTime,
}

impl KeyCommands {
    /// Returns the key of `secret`, whose command is `command`. Runs the command in `folder`, unless its last key is still valid.
    /// Only one run happens at a time: callers that wait for a run share its result.
    pub(super) async fn get(
        &self,
        secret: &SecretRef,
        command: &KeyCommand,
        folder: &Path,
    ) -> Result<Secret, KeyCommandError> {
        let asked = Instant::now();
        let table = self.table(secret);
        let mut last = table.lock().await;
        if let Some(run) = last.as_ref() {
            match &run.result {
                Ok(key) if run.ended >= asked || key.until > SystemTime::now() => return Ok(key.secret.clone()),
                Err(error) if run.ended >= asked => return Err(error.clone()),
                Ok(_) | Err(_) => {}
            }
        }
        *last = None;
        let result = match run(command, folder, env::var_os("PATH").as_deref()).await {
            Ok(output) => key(&output, SystemTime::now()),
            Err(failure) => Err(failure),
        };
        let result = result.map_err(|failure| {
            let error = KeyCommandError { name: secret.name.clone(), command: command.clone(), failure };
            tracing::warn!("{error}");
            error
        });
        let found = result.clone().map(|key| key.secret);
        *last = Some(CommandRun { ended: Instant::now(), result });
        found
    }

    /// Forgets the key of `secret` if it equals `rejected`. The command is then run again for the next request.
    pub(super) async fn discard(&self, secret: &SecretRef, rejected: &Secret) {
        let table = self.table(secret);
        let mut last = table.lock().await;
        if last.as_ref().is_some_and(|run| run.result.as_ref().is_ok_and(|key| key.secret.is(rejected))) {
            *last = None;
        }
    }

    fn table(&self, secret: &SecretRef) -> Arc<tokio::sync::Mutex<Option<CommandRun>>> {
        Arc::clone(self.tables.lock().entry(secret.clone()).or_default())
    }
}

/// Parses the output of a command at the time `now`.
fn key(output: &[u8], now: SystemTime) -> Result<CommandKey, KeyCommandFailure> {
    let text = str::from_utf8(output).map_err(|_| KeyCommandFailure::Form)?.trim_matches(['\r', '\n']);
    let (token, kept) = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(fields)) => {
            let token = fields.get("token").and_then(Value::as_str).ok_or(KeyCommandFailure::Form)?.to_owned();
            let ends = [fields.get("expires_at").map(|at| until(at, now)), fields.get("expires_in").map(seconds)];
            let ends: Option<Vec<f64>> = ends.into_iter().flatten().collect();
            let first = ends.ok_or(KeyCommandFailure::Form)?.into_iter().min_by(f64::total_cmp);
            let kept = first.map(|end| Duration::from_secs_f64(end.clamp(0.0, LONGEST)).saturating_sub(MARGIN));
            (token, kept.unwrap_or(KEPT))
        }
        _ if text.contains(['\r', '\n']) || text.starts_with('{') => return Err(KeyCommandFailure::Form),
        _ => (text.to_owned(), KEPT),
    };
    let secret = Secret::new(&token).map_err(|_| KeyCommandFailure::Key)?;
    Ok(CommandKey { secret, until: now + kept })
}

/// Returns the seconds from `now` to the time `at` in RFC 3339; negative if it has passed.
fn until(at: &Value, now: SystemTime) -> Option<f64> {
    let at: Timestamp = at.as_str()?.parse().ok()?;
    let now = Timestamp::try_from(now).ok()?;
    Some(at.duration_since(now).as_secs_f64())
}

fn seconds(value: &Value) -> Option<f64> {
    value.as_f64().filter(|seconds| *seconds >= 0.0)
}

/// Runs the command and returns its output.
async fn run(command: &KeyCommand, folder: &Path, path: Option<&OsStr>) -> Result<Vec<u8>, KeyCommandFailure> {
    let (program, arguments) = command.words.split_first().ok_or(KeyCommandFailure::NotFound)?;
    let program = find_program(program, path).ok_or(KeyCommandFailure::NotFound)?;
    let mut process = tokio::process::Command::new(program);
    process.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut group = ProcessGroup::spawn(&mut process).map_err(|error| KeyCommandFailure::Start(error.to_string()))?;
    match tokio::time::timeout(command.limit(), output(group.process())).await {
        Ok(output) => output,
        Err(_) => Err(KeyCommandFailure::Timeout { ms: command.limit_ms }),
    }
}

/// Reads the output to its end, then waits for the end of the process.
async fn output(process: &mut Child) -> Result<Vec<u8>, KeyCommandFailure> {
    let failed = |error: std::io::Error| KeyCommandFailure::Start(error.to_string());
    let mut output = Vec::new();
    if let Some(out) = process.stdout.take() {
        out.take(OUTPUT_BYTES as u64 + 1).read_to_end(&mut output).await.map_err(failed)?;
    }
    if output.len() > OUTPUT_BYTES {
        return Err(KeyCommandFailure::TooLong);
    }
    let status = process.wait().await.map_err(failed)?;
    match (status.code(), signal(status)) {
        (Some(0), _) => Ok(output),
        (Some(code), _) => Err(KeyCommandFailure::Exit(code)),
        (None, signal) => Err(KeyCommandFailure::Signal(signal)),
    }
}

#[cfg(unix)]
fn signal(status: std::process::ExitStatus) -> i32 {
    std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or_default()
}

#[cfg(not(unix))]
fn signal(_: std::process::ExitStatus) -> i32 {
    0
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
