//! The adapters that there are: those of the binary, and the files of the folder.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use patchbay_core::{COMPONENT_BYTES, Digest, Name};
use patchbay_sandbox::{
    Failure, Sandbox,
    adapter::{AdapterManifest, LoadedAdapter},
};
use patchbay_store::Store;
use patchbay_workspace::open_regular_file;
use serde::Deserialize;
use tokio::sync::OnceCell;

use crate::BundledAdapter;

/// The world that an adapter implements. Descriptions are kept by digest and world.
pub(crate) const WORLD: &str = "patchbay:provider@0.1";

/// An adapter's component, and what it says of itself.
pub(crate) struct Adapter {
    pub(crate) digest: Digest,
    pub(crate) manifest: AdapterManifest,
    bytes: Bytes,
    loaded: OnceCell<Arc<LoadedAdapter>>,
}

#[derive(Clone)]
enum Bytes {
    Embedded(&'static [u8]),
    Read(Arc<[u8]>),
}

impl Adapter {
    /// The adapter of a file.
    pub(crate) fn read(digest: Digest, bytes: Arc<[u8]>, manifest: AdapterManifest) -> Self {
        Self { digest, manifest, bytes: Bytes::Read(bytes), loaded: OnceCell::new() }
    }

    /// The component, ready to be instantiated. Compiled when it is first needed; who holds it keeps it, whatever takes this
    /// adapter's place meanwhile.
    pub(crate) async fn loaded(&self, sandbox: &Arc<Sandbox>) -> Result<Arc<LoadedAdapter>, Failure> {
        let load = || async {
            let bytes = match &self.bytes {
                Bytes::Embedded(bytes) => bytes.to_vec(),
                Bytes::Read(bytes) => bytes.to_vec(),
            };
            sandbox.load_adapter(self.digest, bytes).await
        };
        self.loaded.get_or_try_init(load).await.cloned()
    }
}

/// What is there: adapters by name, and what could not be one and why.
#[derive(Clone, Default)]
pub(crate) struct Found {
    pub(crate) adapters: BTreeMap<Name, Arc<Adapter>>,
    /// By file name.
    pub(crate) bad: BTreeMap<String, String>,
    /// What is wrong with components as such, so that nobody need ask them again. Of files that are there.
    pub(crate) hopeless: BTreeMap<Digest, String>,
}

/// The adapters of the binary.
pub(crate) fn bundled(adapters: &[BundledAdapter]) -> BTreeMap<Name, Arc<Adapter>> {
    #[derive(Deserialize)]
    struct Description {
        digest: Digest,
        manifest: AdapterManifest,
    }
    let read = |adapter: &BundledAdapter| {
        let Description { digest, manifest } = serde_json::from_str(adapter.description).ok()?;
        let name: Name = adapter.name.parse().ok()?;
        let bytes = Bytes::Embedded(adapter.bytes);
        Some((name, Arc::new(Adapter { digest, manifest, bytes, loaded: OnceCell::new() })))
    };
    let found: BTreeMap<_, _> = adapters.iter().filter_map(read).collect();
    if found.len() < adapters.len() {
        tracing::error!("what a bundled adapter says of itself cannot be read: it is left out");
    }
    found
}

/// What is wrong with a component.
#[derive(Debug)]
pub(crate) struct Bad {
    /// In words.
    pub(crate) why: String,
    /// Whether the same bytes would fail so again.
    pub(crate) lasting: bool,
    /// The last lines that it printed before it trapped.
    pub(crate) printed: Vec<String>,
}

impl Bad {
    fn passing(why: impl ToString) -> Self {
        Self { why: why.to_string(), lasting: false, printed: Vec::new() }
    }
}

impl From<Failure> for Bad {
    fn from(failure: Failure) -> Self {
        let printed = failure.printed().to_vec();
        Self { why: failure.to_string(), lasting: failure.is_deterministic(), printed }
    }
}

/// Asks adapters what they are.
pub(crate) trait Describe: Send + Sync {
    /// What the component `bytes`, whose digest is `digest`, says of itself; or what is wrong with it.
    fn describe(&self, digest: Digest, bytes: Arc<[u8]>) -> impl Future<Output = Result<AdapterManifest, Bad>> + Send;
}

/// Asks in the sandbox, once for each digest.
pub(crate) struct Asked<'a> {
    pub(crate) store: &'a Store,
    pub(crate) sandbox: &'a Arc<Sandbox>,
}

impl Describe for Asked<'_> {
    async fn describe(&self, digest: Digest, bytes: Arc<[u8]>) -> Result<AdapterManifest, Bad> {
        let kept = self.store.described(&[digest], WORLD).await.map_err(Bad::passing)?;
        if let Some(manifest) = kept.into_iter().flatten().find_map(|json| serde_json::from_str(&json).ok()) {
            return Ok(manifest);
        }
        if self.store.is_blocked(&digest).await.map_err(Bad::passing)? {
            let why = format!(
                "the component is blocked, so that it was not asked what it is. To lift it: patchbay plugin unblock \
                 {digest}"
            );
            return Err(Bad::passing(why));
        }
        let loaded = self.sandbox.load_adapter(digest, bytes.to_vec()).await?;
        let manifest = self.sandbox.describe_adapter(&loaded).await?;
        // Texts and numbers alone: there is nothing that JSON could not hold.
        let json = serde_json::to_string(&manifest).unwrap_or_default();
        if let Err(error) = self.store.keep_described(digest, WORLD, json).await {
            tracing::warn!("what an adapter says of itself could not be kept: {error}");
        }
        Ok(manifest)
    }
}

/// Reads the files of `folder`. One that holds what `known` has is not asked again. No folder is an empty one.
pub(crate) async fn files(folder: &Path, known: &Found, describe: &impl Describe) -> Found {
    let mut found = Found::default();
    let folder = folder.to_owned();
    let paths = match blocking(move || list(&folder)).await {
        Ok(paths) => paths,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                found.bad.insert("providers".to_owned(), format!("the folder cannot be read: {error}"));
            }
            return found;
        }
    };
    for path in paths {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name: Name = match stem.parse() {
            Ok(name) => name,
            Err(error) => {
                found.bad.insert(file, error.to_string());
                continue;
            }
        };
        let before = known.adapters.get(&name);
        let described = match blocking(move || read(&path)).await {
            Ok((digest, _)) if before.is_some_and(|adapter| adapter.digest == digest) => Ok(None),
            Ok((digest, bytes)) => {
                let asked = match known.hopeless.get(&digest) {
                    Some(why) => Err(Bad { why: why.clone(), lasting: true, printed: Vec::new() }),
                    None => describe.describe(digest, Arc::clone(&bytes)).await,
                };
                if let Err(Bad { why, lasting: true, .. }) = &asked {
                    found.hopeless.insert(digest, why.clone());
                }
                asked.map(|manifest| Some(Adapter::read(digest, bytes, manifest))).map_err(|bad| bad.why)
            }
            Err(error) => Err(error.to_string()),
        };
        let adapter = match described {
            Ok(adapter) => adapter,
            // What was good stays in force: a bad file changes nothing.
            Err(why) => {
                found.bad.insert(file, why);
                None
            }
        };
        if let Some(adapter) = adapter.map(Arc::new).or_else(|| before.cloned()) {
            found.adapters.insert(name, adapter);
        }
    }
    found
}

/// Does what waits for the disk where nobody waits for it.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// The components of a folder, by name.
fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "wasm"));
    paths.sort();
    Ok(paths)
}

/// The bytes of a component, and the digest of exactly these.
pub(crate) fn read(path: &Path) -> io::Result<(Digest, Arc<[u8]>)> {
    let (file, _) = open_regular_file(path)?;
    let mut bytes = Vec::new();
    // It may grow while it is read.
    file.take(COMPONENT_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > COMPONENT_BYTES {
        let message = format!("it has over {COMPONENT_BYTES} bytes, which is the most that is read");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok((Digest::of(&bytes), bytes.into()))
}
