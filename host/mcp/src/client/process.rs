//! The process of an MCP server: an argument list, a closed environment, a process group of its own. Its messages are lines of
//! standard input and output.

use std::{env, fmt, future::Future, io, path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use patchbay_egress::{ProcessGroup, find_program};
use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::inbox::{Inbox, Judged};
use crate::lines::{BoundedLines, ReadLine};

/// The variables that every server gets, if they are set: programs do not start without them. None of them holds a secret.
pub(super) const VARIABLES: [&str; 11] =
    ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "SYSTEMROOT", "TERM", "TMPDIR", "TZ", "USER"];

/// How long a server may take to end after its input is closed. Then it is killed with all that it started.
const CLOSE_TIME: Duration = Duration::from_millis(500);
/// How long a server may take to read a message.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// Limit in bytes of a line of standard error that is kept.
const ERROR_LINE_BYTES: usize = 4 << 10;

/// How a server is started.
#[derive(Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program, then its arguments.
    pub words: Vec<String>,
    /// Variables besides those that every server gets.
    pub variables: Vec<(String, String)>,
    /// Working directory.
    pub folder: PathBuf,
}

/// Without the values of variables, which can be secrets.
impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch").field("words", &self.words).finish_non_exhaustive()
    }
}

/// Why a server cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// PATH has no such program.
    #[error("no absolute folder of PATH has the program '{0}'")]
    NotFound(String),
    /// The system cannot start it.
    #[error("the program '{program}' cannot be started: {problem}")]
    Start {
        /// The program.
        program: String,
        /// The error of the system.
        problem: String,
    },
}

/// A connection over standard input and output. Dropping it kills the server with all that it started.
pub(super) struct ProcessTransport {
    group: ProcessGroup,
    lines: BoundedLines<BufReader<ChildStdout>>,
    input: Arc<ServerInput>,
    inbox: Arc<Inbox>,
    /// Limit of a message, for the reason of the end.
    limit: usize,
}

/// Standard input of the server, which tasks share.
struct ServerInput {
    pipe: tokio::sync::Mutex<Option<ChildStdin>>,
    /// Cancelled if the server cannot be written to.
    broken: CancellationToken,
}

impl ProcessTransport {
    /// Starts the server. Messages of more than `limit` bytes end the connection.
    pub(super) fn launch(launch: &Launch, inbox: Arc<Inbox>, limit: usize) -> Result<Self, LaunchError> {
        let (name, arguments) = launch.words.split_first().ok_or_else(|| LaunchError::NotFound(String::new()))?;
        let shown = patchbay_core::text::excerpt(name, 120);
        let program = find_program(name, env::var_os("PATH").as_deref());
        let program = program.ok_or_else(|| LaunchError::NotFound(shown.clone()))?;
        let inherited = VARIABLES.iter().filter_map(|name| Some((*name, env::var_os(name)?)));
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(inherited).envs(launch.variables.iter().cloned());
        command.current_dir(&launch.folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: io::Error| LaunchError::Start { program: shown.clone(), problem: error.to_string() };
        let mut group = ProcessGroup::spawn(&mut command).map_err(failed)?;
        let process = group.process();
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(LaunchError::Start { program: shown, problem: "it has no pipes".to_owned() });
        };
        tokio::spawn(keep_errors(stderr, Arc::clone(&inbox)));
        let input = ServerInput { pipe: tokio::sync::Mutex::new(Some(stdin)), broken: CancellationToken::new() };
        let lines = BoundedLines::new(BufReader::new(stdout), limit);
        Ok(Self { group, lines, input: Arc::new(input), inbox, limit })
    }

    /// Reads the rest of standard output, so that the server can write it and end.
    async fn drain(&mut self) {
        while !matches!(self.lines.next().await, Ok(ReadLine::End) | Err(_)) {}
    }
}

/// Keeps the last lines of standard error, until it is closed.
async fn keep_errors(stderr: ChildStderr, inbox: Arc<Inbox>) {
    let mut lines = BoundedLines::new(BufReader::new(stderr), ERROR_LINE_BYTES);
    loop {
        match lines.next().await {
            Ok(ReadLine::Line(line)) => inbox.prints(&line),
            Ok(ReadLine::TooLong) => inbox.prints(b"[a line that is too long]"),
            Ok(ReadLine::End) | Err(_) => break,
        }
    }
    inbox.errors_closed().cancel();
}

impl Transport<RoleClient> for ProcessTransport {
    type Error = io::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (input, inbox) = (Arc::clone(&self.input), Arc::clone(&self.inbox));
        inbox.sends(&message);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let writing = async {
                let mut pipe = input.pipe.lock().await;
                let pipe = pipe.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
                pipe.write_all(&line).await?;
                pipe.flush().await
            };
            let written = timeout(WRITE_TIME, writing).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            if let Err(error) = &written {
                inbox.note_end(match error.kind() {
                    io::ErrorKind::TimedOut => format!("did not read its input for {} s", WRITE_TIME.as_secs()),
                    _ => "ended".to_owned(),
                });
                input.broken.cancel();
            }
            written
        }
    }

    /// `rmcp` drops the future when it has something else to do; nothing is lost by that, except for a wait.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let broken = self.input.broken.clone();
        loop {
            let line = match broken.run_until_cancelled(self.lines.next()).await {
                Some(Ok(ReadLine::Line(line))) => line,
                Some(Ok(ReadLine::TooLong)) => {
                    self.inbox.note_end(format!("sent a message of more than {} bytes", self.limit));
                    return None;
                }
                Some(Ok(ReadLine::End) | Err(_)) | None => {
                    self.inbox.note_end("ended".to_owned());
                    return None;
                }
            };
            match self.inbox.judge(&line) {
                Judged::Message(message) => return Some(*message),
                Judged::Handled(wait) if wait.is_zero() => {}
                Judged::Handled(wait) => sleep(wait).await,
                Judged::End => return None,
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // The end of its input asks a server to end.
        let closing = async {
            self.input.pipe.lock().await.take();
        };
        let _ = timeout(CLOSE_TIME, closing).await;
        let _ = timeout(CLOSE_TIME, self.drain()).await;
        Ok(())
    }
}

impl Drop for ProcessTransport {
    fn drop(&mut self) {
        tracing::debug!(process = ?self.group.process().id(), "an MCP server is stopped");
    }
}
