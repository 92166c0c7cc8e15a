//! Compiled components (artefacts) on disk, and the child process that compiles them.
//!
//! The engine trusts an artefact completely: a forged one is native code. Therefore the folder is used only if no other user can
//! access it, the digest of an artefact is stored elsewhere (the [`Ledger`]) and checked, and a plugin's package never contributes
//! an artefact. If an artefact fails the check, this is logged, and its component is compiled again.

use std::{
    fs::{self, TryLockError},
    future::pending,
    io,
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use patchbay_core::{Digest, Hasher, text};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::Semaphore,
};
use wasmtime::{Config, Engine};

use crate::{CompileLimit, Failure, Limits, component::invalid, config, memory_watch};

/// Stores the digests of artefacts, separate from the files.
pub trait Ledger: Send + Sync {
    /// Returns the digest of the artefact of `component` for the engine `fingerprint`, if it is stored.
    fn artefact<'a>(&'a self, component: &'a Digest, fingerprint: &'a str) -> BoxFuture<'a, Option<Digest>>;
    /// Stores the digest of an artefact.
    fn keep<'a>(&'a self, component: Digest, fingerprint: &'a str, artefact: Digest) -> BoxFuture<'a, ()>;
}

/// The program that compiles. It reads a component from standard input and writes the artefact ([`precompile`]) to
/// standard output, or one line to standard error. Exit code 1 means that the component is invalid, 2 that the system
/// failed, any other that a limit was exceeded.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// The path of the compiler's program.
    pub program: PathBuf,
    /// The first arguments. Two whole numbers follow: the memory in bytes and the processor time in seconds. The compiler limits
    /// its address space to that memory unless [`COMPILER_MEMORY_IS_WATCHED`].
    pub arguments: Vec<String>,
    /// Whether compiled functions are kept for the next compilation, which helps with plugins that change often. If so, a third
    /// argument follows, `--functions`, and [`crate::precompile_with_functions`] compiles.
    pub keeps_functions: bool,
}

/// Memory in bytes that every compiler may use (twice as much if it keeps compiled functions): address space, or resident memory
/// where that is watched. Compilers that need more are started again one at a time, because together they could exhaust the
/// machine's memory. Python's runtime (18 MB) compiles within this limit.
const SHARED_BYTES: u64 = 1 << 30;

/// The complete environment of a compiler. By default the allocator (mimalloc) reserves address space in steps of 1
/// GiB, which would count against the limit. With 0 it reserves only as much as it needs.
pub const COMPILER_ENVIRONMENT: [(&str, &str); 1] = [("MIMALLOC_ARENA_RESERVE", "0")];

/// Whether the host watches the memory of compilers and stops those that need too much. On other systems, compilers limit their own
/// address space.
pub const COMPILER_MEMORY_IS_WATCHED: bool = cfg!(target_os = "macos");

/// Locked while a compiler runs with more than [`SHARED_BYTES`].
static LARGE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
/// A permit for each compiler whose memory is watched. Limited, because each can exceed its memory limit between two checks.
static WATCHED: Semaphore = Semaphore::const_new(4);

/// A folder of artefacts and their compiler.
pub struct Artefacts {
    /// `None` if artefacts are neither read nor written.
    folder: Option<PathBuf>,
    ledger: Arc<dyn Ledger>,
    pub(crate) compiler: Compiler,
    /// Whether the memory of the compiler is watched.
    watches_memory: bool,
}

/// A ledger without entries.
struct NoLedger;

impl Ledger for NoLedger {
    fn artefact<'a>(&'a self, _: &'a Digest, _: &'a str) -> BoxFuture<'a, Option<Digest>> {
        Box::pin(async { None })
    }

    fn keep<'a>(&'a self, _: Digest, _: &'a str, _: Digest) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

impl Artefacts {
    /// Opens or creates the folder. If it cannot be created, or other users can access it, it is not used: each process
    /// compiles for itself, and a warning is logged.
    pub fn open(folder: &Path, ledger: Arc<dyn Ledger>, compiler: Compiler) -> Self {
        let folder = match private_folder(folder) {
            Ok(()) => Some(folder.to_owned()),
            Err(error) => {
                tracing::warn!("compiled components are not cached: {}: {error}", folder.display());
                None
            }
        };
        Self { folder, ledger, compiler, watches_memory: COMPILER_MEMORY_IS_WATCHED }
    }

    /// Compiles in a child process and stores nothing.
    pub fn not_kept(compiler: Compiler) -> Self {
        let ledger = Arc::new(NoLedger);
        Self { folder: None, ledger, compiler, watches_memory: COMPILER_MEMORY_IS_WATCHED }
    }

    /// Returns the digest that the artefact of `component` must have, if one is stored.
    pub(crate) async fn expected(&self, component: &Digest, fingerprint: &str) -> Option<Digest> {
        self.folder.as_ref()?;
        self.ledger.artefact(component, fingerprint).await
    }

    /// Returns the artefact of `component` if it exists and its digest is `expected`.
    pub(crate) fn read(&self, component: &Digest, fingerprint: &str, expected: &Digest) -> Option<Vec<u8>> {
        match fs::read(self.path(component, fingerprint)?) {
            Ok(bytes) if Digest::of(&bytes) == *expected => Some(bytes),
            Ok(_) => {
                tracing::warn!(%component, "the compiled component on disk is damaged; compiling it again");
                None
            }
            Err(error) => {
                tracing::info!(%component, "no compiled component on disk: {error}");
                None
            }
        }
    }

    /// Stores an artefact. A failure is only logged, because the component can be compiled again next time.
    pub(crate) async fn keep(&self, component: Digest, fingerprint: &str, bytes: &[u8]) {
        let Some(path) = self.path(&component, fingerprint) else { return };
        match write(&path, bytes) {
            Ok(()) => self.ledger.keep(component, fingerprint, Digest::of(bytes)).await,
            Err(error) => tracing::warn!(%component, "cannot store a compiled component: {error}"),
        }
    }

    /// Deletes the artefacts of `component`.
    ///
    /// # Errors
    /// An I/O error of the folder.
    pub fn remove(&self, component: &Digest) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&component.to_hex()) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn path(&self, component: &Digest, fingerprint: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{}-{fingerprint}.cwasm", component.to_hex())))
    }

    /// Waits until no other process compiles `component`. Other processes wait until the returned lock is dropped. Returns
    /// `None` if artefacts are not kept, or if the folder does not support locks.
    pub(crate) async fn lock(&self, component: &Digest) -> Option<ArtefactLock> {
        let path = self.folder.as_ref()?.join(format!("{}.lock", component.to_hex()));
        let opened = fs::File::options().create(true).truncate(false).write(true).open(&path);
        let file = opened.inspect_err(|error| tracing::warn!("{}: {error}", path.display())).ok()?;
        loop {
            match file.try_lock() {
                Ok(()) => return Some(ArtefactLock { path, _file: file }),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_POLL).await,
                Err(TryLockError::Error(error)) => {
                    tracing::warn!("{}: {error}", path.display());
                    return None;
                }
            }
        }
    }

    /// Compiles in a child process within `limits`: first with a share of the memory; if that is not enough, again with the
    /// full limit while no other compiler exceeds its share.
    ///
    /// The time limit counts the processor time of each child, so a busy machine does not change which components compile. A
    /// child is also stopped after [`WALL_CLOCK_FACTOR`] times the limit in wall-clock time.
    ///
    /// # Errors
    /// [`Failure::InvalidComponent`], [`Failure::Compile`], [`Failure::Unavailable`].
    pub(crate) async fn compile(&self, bytes: &[u8], limits: &Limits) -> Result<Vec<u8>, Failure> {
        // The semaphore is never closed.
        let _watched = if self.watches_memory { WATCHED.acquire().await.ok() } else { None };
        // Keeping functions needs as much memory again.
        let share = if self.compiler.keeps_functions { 2 * SHARED_BYTES } else { SHARED_BYTES };
        let shared = self.compile_within(bytes, limits.compile_bytes.min(share), limits).await;
        match shared {
            Err(Failure::Compile(CompileLimit::Memory { .. })) if limits.compile_bytes > share => {
                let _alone = LARGE.lock().await;
                self.compile_within(bytes, limits.compile_bytes, limits).await
            }
            compiled => compiled,
        }
    }

    async fn compile_within(&self, bytes: &[u8], memory: u64, limits: &Limits) -> Result<Vec<u8>, Failure> {
        let elapsed_ms = limits.compile_ms.saturating_mul(WALL_CLOCK_FACTOR);
        let time = Duration::from_millis(elapsed_ms);
        let seconds = limits.compile_ms.div_ceil(1000);
        let output = match tokio::time::timeout(time, self.run_compiler(bytes, memory, seconds)).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => return Err(Failure::Unavailable(format!("cannot run the compiler: {error}"))),
            Err(_) => return Err(Failure::Compile(CompileLimit::Stalled { elapsed_ms })),
        };
        match output.end {
            CompilerExit::Code(0) => Ok(output.out),
            CompilerExit::Code(1) => Err(Failure::InvalidComponent(output.words())),
            CompilerExit::Code(2) => Err(Failure::Unavailable(format!("the compiler failed: {}", output.words()))),
            CompilerExit::Signal(SIGXCPU) => Err(Failure::Compile(CompileLimit::Time { limit_ms: limits.compile_ms })),
            CompilerExit::Signal(SIGKILL) => Err(Failure::Compile(CompileLimit::Killed)),
            // Out of memory: the allocator aborts, a thread cannot be started, or the compiler reports it.
            CompilerExit::OverMemory | CompilerExit::Code(_) | CompilerExit::Signal(_) => {
                Err(Failure::Compile(CompileLimit::Memory { limit_bytes: limits.compile_bytes }))
            }
        }
    }

    /// Runs the compiler to its end, or until it uses more than `memory` bytes. Dropping the future kills it.
    async fn run_compiler(&self, bytes: &[u8], memory: u64, seconds: u64) -> io::Result<CompilerOutput> {
        let mut child = tokio::process::Command::new(&self.compiler.program)
            .args(&self.compiler.arguments)
            .args([memory.to_string(), seconds.to_string()])
            .args(self.compiler.keeps_functions.then_some("--functions"))
            .env_clear()
            .envs(COMPILER_ENVIRONMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (input, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let (mut input, out, err) = (input.ok_or_else(missing)?, out.ok_or_else(missing)?, err.ok_or_else(missing)?);
        let feed = async move {
            // A child that ends early reports the reason in its exit code.
            let _ = input.write_all(bytes).await;
        };
        let (mut artefact, mut words) = (Vec::new(), Vec::new());
        let (mut out, mut err) = (out.take(ARTEFACT_BYTES), err.take(WORDS_BYTES));
        let id = child.id().filter(|_| self.watches_memory);
        let run = async {
            let ((), out, err) = tokio::join!(feed, out.read_to_end(&mut artefact), err.read_to_end(&mut words));
            out?;
            err?;
            child.wait().await.map(CompilerExit::of)
        };
        let over_memory = async {
            match id {
                Some(id) => memory_watch::over_limit(id, memory).await,
                None => pending().await,
            }
        };
        let end = tokio::select! {
            end = run => end?,
            over = over_memory => over.map(|()| CompilerExit::OverMemory)?,
        };
        Ok(CompilerOutput { end, out: artefact, err: words })
    }
}

/// The lock on compiling one component, held across processes by a file.
pub(crate) struct ArtefactLock {
    path: PathBuf,
    _file: fs::File,
}

impl Drop for ArtefactLock {
    fn drop(&mut self) {
        // Another process may be waiting for the removed file. It will then find the artefact and not compile.
        let _ = fs::remove_file(&self.path);
    }
}

/// The interval at which a lock that another process holds is retried.
const LOCK_POLL: Duration = Duration::from_millis(20);
/// The limit on a compiler's wall-clock time, as a multiple of the limit on its processor time.
const WALL_CLOCK_FACTOR: u64 = 10;

/// Maximum bytes read from a compiler; the code of the largest component is a few times its size.
const ARTEFACT_BYTES: u64 = 512 << 20;
/// Maximum bytes read from a compiler's messages.
const WORDS_BYTES: u64 = 4 << 10;

/// The number is the same on all Unix systems.
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

enum CompilerExit {
    Code(i32),
    Signal(i32),
    /// The compiler was stopped because it used too much memory.
    OverMemory,
}

impl CompilerExit {
    fn of(status: std::process::ExitStatus) -> Self {
        #[cfg(unix)]
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        #[cfg(not(unix))]
        let signal = None;
        match signal {
            Some(signal) => Self::Signal(signal),
            None => Self::Code(status.code().unwrap_or(-1)),
        }
    }
}

struct CompilerOutput {
    end: CompilerExit,
    out: Vec<u8>,
    err: Vec<u8>,
}

impl CompilerOutput {
    fn words(&self) -> String {
        text::excerpt(&String::from_utf8_lossy(&self.err), 400)
    }
}

/// Writes a file atomically.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_data()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Creates a folder that only this user can access, or returns why it cannot be used. The owner is
/// read from a file created in it.
#[cfg(unix)]
fn private_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    let ours = tempfile::tempfile_in(folder)?.metadata()?.uid();
    if !found.is_dir() || found.uid() != ours || found.mode() & 0o077 != 0 {
        let message = "the folder must belong to you and have mode 0700";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

#[cfg(not(unix))]
fn private_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// Compiles a component for the engine of this build. Runs in the child process.
///
/// # Errors
/// [`Failure::InvalidComponent`], or [`Failure::Unavailable`] if no engine is running.
pub fn precompile(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    // The allocation strategy does not change the compiled code.
    precompiled(bytes, &config(&Limits::default(), false))
}

pub(crate) fn precompiled(bytes: &[u8], config: &Config) -> Result<Vec<u8>, Failure> {
    let engine = Engine::new(config).map_err(|error| {
        Failure::Unavailable(format!(
            "cannot create an engine to compile with: \
            {error:#}"
        ))
    })?;
    engine.precompile_component(bytes).map_err(invalid)
}

/// Returns 32 hexadecimal digits that identify the engine: an artefact is valid only for the
/// fingerprint it was compiled with.
pub(crate) fn fingerprint(engine: &Engine) -> String {
    struct Collect(Hasher);
    impl std::hash::Hasher for Collect {
        fn write(&mut self, bytes: &[u8]) {
            self.0.field(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut collect = Collect(Hasher::default());
    std::hash::Hash::hash(&engine.precompile_compatibility_hash(), &mut collect);
    collect.0.finish().to_hex()[..32].to_owned()
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    /// A compiler that is a shell script. `$1` is its memory and `$2` its time.
    fn script(folder: &Path, script: &str) -> Artefacts {
        let file = folder.join("compiler");
        fs::write(&file, format!("/bin/cat >/dev/null\n{script}\n")).unwrap();
        // The script is read by a shell and not executed, because a child of another test may still have it open for writing.
        Artefacts::not_kept(Compiler {
            program: "/bin/sh".into(),
            arguments: vec![file.display().to_string()],
            keeps_functions: false,
        })
    }

    fn words(compiled: Result<Vec<u8>, Failure>) -> String {
        match compiled {
            Ok(bytes) => String::from_utf8(bytes).unwrap(),
            Err(failure) => format!("{}: {failure}", failure.code()),
        }
    }

    #[tokio::test]
    async fn large_component_is_compiled_again_with_full_memory() {
        let folder = tempfile::tempdir().unwrap();
        let artefacts = script(folder.path(), "[ $1 -gt 1073741824 ] || exit 3; printf \"$1 $2\"");
        assert_eq!(words(artefacts.compile(b"x", &Limits::default()).await), "8589934592 120");
        let small = Limits { compile_bytes: 1 << 20, ..Limits::default() };
        let over =
            "limit_compile: compiling the component took more than 1048576 bytes of memory (limits.compile_bytes)";
        assert_eq!(words(artefacts.compile(b"x", &small).await), over);
    }

    #[tokio::test]
    async fn one_compiler_at_a_time_exceeds_the_memory_share() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("running");
        let body = format!(
            "[ $1 -gt 1073741824 ] || exit 3; /bin/mkdir '{0}' || exit 1; /bin/sleep 0.05; /bin/rmdir '{0}'; printf done",
            lock.display()
        );
        let artefacts = script(folder.path(), &body);
        let limits = Limits::default();
        let compiled = tokio::join!(
            artefacts.compile(b"a", &limits),
            artefacts.compile(b"b", &limits),
            artefacts.compile(b"c", &limits)
        );
        assert_eq!([compiled.0, compiled.1, compiled.2].map(words), ["done", "done", "done"]);
    }

    #[tokio::test]
    async fn watched_compiler_is_stopped_over_its_memory() {
        let folder = tempfile::tempdir().unwrap();
        let watched = |body| Artefacts { watches_memory: true, ..script(folder.path(), body) };
        let limits = Limits { compile_bytes: 32 << 20, ..Limits::default() };
        let small = watched("/bin/sleep 0.3; printf done");
        assert_eq!(words(small.compile(b"x", &limits).await), "done");
        // The memory is used by the shell itself.
        let large =
            watched("x=$(/usr/bin/head -c 64000000 /dev/zero | /usr/bin/tr '\\0' x); /bin/sleep 20; printf done");
        let over =
            "limit_compile: compiling the component took more than 33554432 bytes of memory (limits.compile_bytes)";
        assert_eq!(words(large.compile(b"x", &limits).await), over);
    }

    #[tokio::test]
    async fn compiler_failure_names_the_limit() {
        let limits = Limits { compile_ms: 10_000, ..Limits::default() };
        for (end, expected) in [
            ("kill -XCPU $$", "limit_compile: compiling the component took more than 10000 ms of processor time"),
            ("kill -KILL $$", "limit_compile: the system killed the component's compiler; this machine"),
            ("kill -ABRT $$", "limit_compile: compiling the component took more than 8589934592 bytes of memory"),
            ("echo bad >&2; exit 1", "invalid_component: bad"),
            ("echo no disk >&2; exit 2", "unavailable: the compiler failed: no disk"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let failed = words(script(folder.path(), end).compile(b"x", &limits).await);
            assert!(failed.starts_with(expected), "{end}: {failed}");
        }
    }

    #[tokio::test]
    async fn waiting_is_not_processor_time_but_ends() {
        let folder = tempfile::tempdir().unwrap();
        let limits = |compile_ms| Limits { compile_ms, ..Limits::default() };
        let waited = words(script(folder.path(), "/bin/sleep 0.8; printf done").compile(b"x", &limits(500)).await);
        assert_eq!(waited, "done");
        let failed = words(script(folder.path(), "exec /bin/sleep 60").compile(b"x", &limits(20)).await);
        let over = "compiling the component took more than 200 ms without using up its processor time";
        assert!(failed.starts_with(&format!("limit_compile: {over}")), "{failed}");
    }

    #[tokio::test]
    async fn one_of_several_holds_the_lock_of_a_component() {
        let folder = tempfile::tempdir().unwrap();
        let compiler = Compiler { program: "/bin/false".into(), arguments: Vec::new(), keeps_functions: false };
        let path = folder.path().join("aot");
        let open = || Artefacts::open(&path, Arc::new(NoLedger), compiler.clone());
        let (ours, theirs) = (open(), open());
        let [component, other] = [b"a", b"b"].map(|bytes| Digest::of(bytes));
        let held = ours.lock(&component).await;
        assert!(held.is_some() && theirs.lock(&other).await.is_some());
        let soon = tokio::time::timeout(2 * LOCK_POLL, theirs.lock(&component)).await;
        assert!(soon.is_err(), "two hold the lock");
        drop(held);
        assert!(theirs.lock(&component).await.is_some());
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "no lock file stays");
    }
}
