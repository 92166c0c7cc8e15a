//! A program that runs in a child process, as the host sees it.

use std::{io, path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    runtime::Handle,
    sync::{oneshot, watch},
};

use crate::{
    order::{Order, ProgramEnd},
    output::ProgramOutput,
};

/// Size limit of the child's report, in bytes.
const REPORT: u64 = 64 << 10;
/// How long the child may take to kill its programs, before it is killed itself.
const ENDING: Duration = Duration::from_secs(10);

/// How long to wait for the rest of the output after the child has ended.
const REST: Duration = Duration::from_secs(2);

/// How the host starts itself as the child.
#[derive(Clone, Debug)]
pub struct CageProgram {
    /// The absolute path of this program.
    pub program: PathBuf,
    /// The arguments that make it run as the child.
    pub arguments: Vec<String>,
}

impl CageProgram {
    /// Starts a child, which waits for an order. It has no environment, and waits in `/` to keep no other folder in use.
    pub(crate) fn spawn(&self) -> io::Result<CageChild> {
        let mut process = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let missing = || io::Error::other("the child has no pipes");
        let stdin = process.stdin.take().ok_or_else(missing)?;
        let stdout = process.stdout.take().ok_or_else(missing)?;
        let stderr = process.stderr.take().ok_or_else(missing)?;
        Ok(CageChild { process, stdin, stdout, stderr })
    }
}

/// A child process and its pipes.
#[derive(Debug)]
pub(crate) struct CageChild {
    pub(crate) process: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: ChildStderr,
}

impl CageChild {
    /// Sends the order. If this fails, the child has not received a complete order, and has run nothing.
    async fn send(&mut self, line: &[u8]) -> io::Result<()> {
        self.stdin.write_all(line).await?;
        self.stdin.flush().await
    }

    /// Ends a child that has received no order.
    pub(crate) fn discard(mut self) {
        // This fails only if the child has already ended.
        let _ = self.process.start_kill();
        // Without a runtime, this process is ending.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { self.process.wait().await });
        }
    }
}

/// A program that runs, or has ended. Dropping it kills the program and all that it started.
#[derive(Debug)]
pub struct RunningProgram {
    output: Arc<Mutex<ProgramOutput>>,
    /// Changes with each piece of output.
    grown: watch::Receiver<()>,
    end: watch::Receiver<Option<ProgramEnd>>,
    /// Dropped to stop the program.
    stop: Mutex<Option<oneshot::Sender<()>>>,
}

impl RunningProgram {
    /// Starts a program in a new child. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the child cannot be started. If the child cannot start the program, its [`ProgramEnd`] reports it.
    pub fn start(child: &CageProgram, order: &Order) -> io::Result<Self> {
        Self::start_in(child.spawn()?, None, order)
    }

    /// Starts a program in a child that is waiting for its order. If the child has ended in the meantime and `replacement` is set,
    /// a new child runs the program.
    pub(crate) fn start_in(child: CageChild, replacement: Option<CageProgram>, order: &Order) -> io::Result<Self> {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        let output = Arc::new(Mutex::new(ProgramOutput::default()));
        let (grows, grown) = watch::channel(());
        let (ends, end) = watch::channel(None);
        let (stop, stopped) = oneshot::channel();
        let written = Arc::clone(&output);
        tokio::spawn(async move {
            let ended = match deliver(child, replacement, &line).await {
                Ok(child) => {
                    let mut reading = tokio::spawn(read(child.stdout, written, grows));
                    let ended = watch(child.process, child.stdin, child.stderr, stopped).await;
                    // If the child was killed, a process that escaped from it may still have the output open.
                    if tokio::time::timeout(REST, &mut reading).await.is_err() {
                        reading.abort();
                    }
                    ended
                }
                Err(error) => ProgramEnd::failed(format!("cannot start a cage: {error}")),
            };
            ends.send_replace(Some(ended));
        });
        Ok(Self { output, grown, end, stop: Mutex::new(Some(stop)) })
    }

    /// Returns a channel that is set to the end of the program.
    pub(crate) fn ending(&self) -> watch::Receiver<Option<ProgramEnd>> {
        self.end.clone()
    }

    /// Kills the program and all that it started. [`RunningProgram::ended`] returns when they are gone.
    pub fn stop(&self) {
        self.stop.lock().take();
    }

    /// Returns how the program ended; `None` while it runs.
    pub fn end(&self) -> Option<ProgramEnd> {
        self.end.borrow().clone()
    }

    /// Waits until the program and all processes that it started have ended, and its output has been read.
    pub async fn ended(&self) -> ProgramEnd {
        let mut end = self.end.clone();
        let ended = end.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|ended| ended.clone());
        ended.unwrap_or_else(|| ProgramEnd::failed("the program was stopped, because Patchbay is exiting"))
    }

    /// Returns a channel that changes with each piece of output, and closes at the end of the output.
    pub fn growth(&self) -> watch::Receiver<()> {
        self.grown.clone()
    }

    /// Reads the output.
    pub fn output<T>(&self, read: impl FnOnce(&ProgramOutput) -> T) -> T {
        read(&self.output.lock())
    }
}

async fn read(mut stdout: ChildStdout, output: Arc<Mutex<ProgramOutput>>, grows: watch::Sender<()>) {
    let mut piece = vec![0; 64 << 10];
    while let Ok(size @ 1..) = stdout.read(&mut piece).await {
        output.lock().push(&piece[..size]);
        grows.send_replace(());
    }
}

/// Sends the order to `child`. If that fails, starts `replacement` and sends the order to the new child.
async fn deliver(mut child: CageChild, replacement: Option<CageProgram>, line: &[u8]) -> io::Result<CageChild> {
    if child.send(line).await.is_err()
        && let Some(replacement) = replacement
    {
        child.discard();
        child = replacement.spawn()?;
        // If this fails, the new child has ended, and its report or exit status says more than the error.
        let _ = child.send(line).await;
    }
    Ok(child)
}

/// Waits until the child has ended. To stop the program, this closes the child's standard input.
async fn watch(mut child: Child, stdin: ChildStdin, stderr: ChildStderr, stopped: oneshot::Receiver<()>) -> ProgramEnd {
    let reporting = async {
        let mut report = Vec::new();
        // If reading fails, the bytes before the error are the report.
        let _ = stderr.take(REPORT).read_to_end(&mut report).await;
        report
    };
    let lifeline = async {
        // Returns when the sender is used or dropped.
        let _ = stopped.await;
        drop(stdin);
        tokio::time::sleep(ENDING).await;
    };
    let waiting = async { tokio::join!(child.wait(), reporting) };
    let ended = tokio::select! {
        ended = waiting => Some(ended),
        () = lifeline => None,
    };
    let Some((status, report)) = ended else {
        let _ = child.kill().await;
        return ProgramEnd::killed(format!("it did not end within {} s", ENDING.as_secs()));
    };
    serde_json::from_slice(&report).unwrap_or_else(|_| {
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let words = patchbay_core::text::excerpt(&String::from_utf8_lossy(&report), 400);
        ProgramEnd::failed(format!("the cage ended without a report: {status} {words}").trim().to_owned())
    })
}
