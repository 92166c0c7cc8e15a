//! Compiled components, kept on disk, and the child process that compiles them.
//!
//! The engine trusts an artefact entirely: a forged one is native code. So the folder is ours alone or is not used, an
//! artefact's digest is kept elsewhere (the [`Ledger`]) and checked, and none is ever taken from a plugin's package. What
//! does not check is compiled anew, silently for the person, logged for the operator.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use patchbay_core::{Digest, Hasher, text};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wasmtime::Engine;

use crate::{BoxFuture, Failure, Limits, component::invalid, config};

/// Where the digests of artefacts are kept: not beside them.
pub trait Ledger: Send + Sync {
    /// The digest of the artefact of `component` for the engine `fingerprint`, if one was kept.
    fn artefact(&self, component: &Digest, fingerprint: &str) -> Option<Digest>;
    /// Keeps that digest.
    fn keep<'a>(&'a self, component: Digest, fingerprint: &'a str, artefact: Digest) -> BoxFuture<'a, ()>;
}

/// The program that compiles: given a component on standard input, it writes the artefact ([`precompile`]) to standard
/// output; or it writes one line to standard error and ends with exit code 1 where the component is to blame, 2 where
/// the system is. Any other end is that of a limit.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// A folder of artefacts, and who makes them.
pub struct Artefacts {
    /// None where the folder cannot be trusted: then nothing is taken from it, and nothing kept.
    folder: Option<PathBuf>,
    ledger: Arc<dyn Ledger>,
    compiler: Compiler,
}

impl Artefacts {
    /// Opens, or makes, the folder. Where it cannot be made, or is not ours alone, it is not used: each process compiles for
    /// itself then, and the log says so.
    pub fn open(folder: &Path, ledger: Arc<dyn Ledger>, compiler: Compiler) -> Self {
        let folder = match private_folder(folder) {
            Ok(()) => Some(folder.to_owned()),
            Err(error) => {
                tracing::warn!("compiled components are not kept: {}: {error}", folder.display());
                None
            }
        };
        Self { folder, ledger, compiler }
    }

    /// The artefact of `component`, if there is one and it is what was written.
    pub(crate) fn read(&self, component: &Digest, fingerprint: &str) -> Option<Vec<u8>> {
        let path = self.path(component, fingerprint)?;
        let expected = self.ledger.artefact(component, fingerprint)?;
        match fs::read(path) {
            Ok(bytes) if Digest::of(&bytes) == expected => Some(bytes),
            Ok(_) => {
                tracing::warn!(%component, "the compiled component on disk is not what was written; compiling it anew");
                None
            }
            Err(error) => {
                tracing::info!(%component, "no compiled component on disk: {error}");
                None
            }
        }
    }

    /// Keeps an artefact. That it cannot is logged and no failure: the component is compiled again next time.
    pub(crate) async fn keep(&self, component: Digest, fingerprint: &str, bytes: &[u8]) {
        let Some(path) = self.path(&component, fingerprint) else { return };
        match write(&path, bytes) {
            Ok(()) => self.ledger.keep(component, fingerprint, Digest::of(bytes)).await,
            Err(error) => tracing::warn!(%component, "a compiled component could not be kept: {error}"),
        }
    }

    /// Takes away the artefacts of `component`.
    ///
    /// # Errors
    /// Where the folder cannot be used.
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

    /// Compiles in a child process, which may take as long and as much memory as `limits` say.
    pub(crate) async fn compile(&self, bytes: &[u8], limits: &Limits) -> Result<Vec<u8>, Failure> {
        let limit = Failure::Compile { limit_ms: limits.compile_ms, limit_bytes: limits.compile_bytes };
        let compiled = tokio::time::timeout(Duration::from_millis(limits.compile_ms), self.run_compiler(bytes));
        let output = match compiled.await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => return Err(Failure::Unavailable(format!("the compiler cannot be run: {error}"))),
            Err(_) => return Err(limit),
        };
        match output.code {
            Some(0) => Ok(output.out),
            Some(1) => Err(Failure::InvalidComponent(output.words())),
            Some(2) => Err(Failure::Unavailable(format!("the compiler failed: {}", output.words()))),
            // Out of memory or of processor time it is ended by the system, by its own allocator, or says so.
            _ => Err(limit),
        }
    }

    async fn run_compiler(&self, bytes: &[u8]) -> io::Result<Output> {
        let mut child = tokio::process::Command::new(&self.compiler.program)
            .args(&self.compiler.arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (input, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let (mut input, out, err) = (input.ok_or_else(missing)?, out.ok_or_else(missing)?, err.ok_or_else(missing)?);
        let feed = async move {
            // A child that ends early says why by its exit code.
            let _ = input.write_all(bytes).await;
        };
        let (mut artefact, mut words) = (Vec::new(), Vec::new());
        let (mut out, mut err) = (out.take(ARTEFACT_BYTES), err.take(WORDS_BYTES));
        let ((), out, err) = tokio::join!(feed, out.read_to_end(&mut artefact), err.read_to_end(&mut words));
        out?;
        err?;
        let code = child.wait().await?.code();
        Ok(Output { code, out: artefact, err: words })
    }
}

/// What is read of a compiler at most: the largest component makes a few times its size of code.
const ARTEFACT_BYTES: u64 = 512 << 20;
const WORDS_BYTES: u64 = 4 << 10;

struct Output {
    code: Option<i32>,
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Output {
    fn words(&self) -> String {
        text::excerpt(&String::from_utf8_lossy(&self.err), 400)
    }
}

/// Whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_data()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Makes a folder that is ours and that nobody else may use, or says why it is none. Whose it is, is told by a file that we
/// make in it.
#[cfg(unix)]
fn private_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    let ours = tempfile::tempfile_in(folder)?.metadata()?.uid();
    if !found.is_dir() || found.uid() != ours || found.mode() & 0o077 != 0 {
        let message = "it must be a folder of yours that nobody else may use (mode 0700)";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

#[cfg(not(unix))]
fn private_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// Compiles a component for an engine of this very build. What the child process does.
///
/// # Errors
/// [`Failure::InvalidComponent`]; [`Failure::Unavailable`] where there is no engine.
pub fn precompile(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    // How instances are allocated is no part of the code.
    let engine = Engine::new(&config(&Limits::default(), false))
        .map_err(|error| Failure::Unavailable(format!("no engine to compile with: {error:#}")))?;
    engine.precompile_component(bytes).map_err(invalid)
}

/// What an artefact must have been compiled for to be of use to `engine`: 32 hexadecimal digits.
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
