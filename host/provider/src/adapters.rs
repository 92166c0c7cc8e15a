//! Reads the adapters: the bundled ones and the files of the providers folder. Called by a reload, and for a single
//! file by `check`.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use patchbay_core::{COMPONENT_BYTES, Digest, Name};
use patchbay_sandbox::{
    Failure, Sandbox,
    adapter::{AdapterManifest, LoadedAdapter},
};
use patchbay_store::Store;
use patchbay_workspace::open_regular_file;
use serde::Deserialize;
use tokio::sync::OnceCell;

/// The world that an adapter implements. The store keeps descriptions by digest and world.
pub(crate) const WORLD: &str = "patchbay:provider@0.1";

/// An adapter that is part of the binary.
#[derive(Clone, Copy, Debug)]
pub struct BundledAdapter {
    /// The name of its provider.
    pub name: &'static str,
    /// The bytes of the component.
    pub bytes: &'static [u8],
    /// The component's description of itself, as JSON with its `digest` and its `manifest`, an [`AdapterManifest`].
    /// `patchbay-bundle` generates it, so the adapter does not have to run at startup.
    pub description: &'static str,
}

/// An adapter's component and its manifest.
pub(crate) struct Adapter {
    pub(crate) digest: Digest,
    pub(crate) manifest: AdapterManifest,
    bytes: Bytes,
    loaded: OnceCell<Arc<LoadedAdapter>>,
    /// The adapter's facts about unlisted models, by model and options.
    facts: Mutex<FactsOfModels>,
}

/// The facts that an adapter reported about models, as JSON; `None` if it does not report facts.
type FactsOfModels = BTreeMap<(String, Vec<(String, String)>), Option<String>>;

/// How many models' facts are cached. A user works with few models.
const KEPT_FACTS: usize = 64;

#[derive(Clone)]
enum Bytes {
    Embedded(&'static [u8]),
    Read(Arc<[u8]>),
}

impl Adapter {
    /// Returns an adapter that was read from a file.
    pub(crate) fn read(digest: Digest, bytes: Arc<[u8]>, manifest: AdapterManifest) -> Self {
        Self::new(digest, manifest, Bytes::Read(bytes))
    }

    fn new(digest: Digest, manifest: AdapterManifest, bytes: Bytes) -> Self {
        Self { digest, manifest, bytes, loaded: OnceCell::new(), facts: Mutex::default() }
    }

    /// Returns the component, ready to be instantiated. The first call compiles it. Callers can keep it across a
    /// reload.
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

    /// Returns the adapter's facts about an unlisted model, which should be a JSON object. The adapter runs only once
    /// for each model and options.
    pub(crate) async fn facts(
        &self,
        sandbox: &Sandbox,
        loaded: &LoadedAdapter,
        model: &str,
        options: &[(String, String)],
    ) -> Result<Option<String>, Failure> {
        let question = (model.to_owned(), options.to_vec());
        if let Some(known) = self.facts.lock().get(&question) {
            return Ok(known.clone());
        }
        let answer = sandbox.model_facts(loaded, model, options).await?;
        let mut kept = self.facts.lock();
        if kept.len() >= KEPT_FACTS {
            kept.clear();
        }
        kept.insert(question, answer.clone());
        Ok(answer)
    }
}

/// The files of the providers folder: adapters by name, and invalid files.
#[derive(Clone, Default)]
pub(crate) struct FoundAdapters {
    pub(crate) adapters: BTreeMap<Name, Arc<Adapter>>,
    /// Why a file cannot be used, by file name.
    pub(crate) invalid: BTreeMap<String, String>,
    /// Why a component can never be used. Such a component is not run again. Contains only components of existing
    /// files.
    pub(crate) permanently_invalid: BTreeMap<Digest, String>,
}

/// Returns the bundled adapters, by name. An adapter with an unreadable description is left out.
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
        Some((name, Arc::new(Adapter::new(digest, manifest, bytes))))
    };
    let found: BTreeMap<_, _> = adapters.iter().filter_map(read).collect();
    if found.len() < adapters.len() {
        tracing::error!("cannot read the description of a bundled adapter, which is left out");
    }
    found
}

/// Why a component could not be described.
#[derive(Debug)]
pub(crate) struct DescribeError {
    pub(crate) why: String,
    /// Whether the same bytes would fail again.
    pub(crate) permanent: bool,
    /// The last lines that the component printed before it trapped.
    pub(crate) printed: Vec<String>,
}

impl DescribeError {
    fn temporary(why: impl ToString) -> Self {
        Self { why: why.to_string(), permanent: false, printed: Vec::new() }
    }
}

impl From<Failure> for DescribeError {
    fn from(failure: Failure) -> Self {
        let printed = failure.printed().to_vec();
        Self { why: failure.to_string(), permanent: failure.is_deterministic(), printed }
    }
}

/// Determines the manifest of an adapter. Tests use a fake.
pub(crate) trait Describe: Send + Sync {
    /// Returns the manifest of the component `bytes`, which has the digest `digest`.
    fn describe(
        &self,
        digest: Digest,
        bytes: Arc<[u8]>,
    ) -> impl Future<Output = Result<AdapterManifest, DescribeError>> + Send;
}

/// Describes adapters in the sandbox, once for each digest, and keeps the result in the store.
pub(crate) struct SandboxDescriber<'a> {
    pub(crate) store: &'a Store,
    pub(crate) sandbox: &'a Arc<Sandbox>,
}

impl Describe for SandboxDescriber<'_> {
    async fn describe(&self, digest: Digest, bytes: Arc<[u8]>) -> Result<AdapterManifest, DescribeError> {
        let kept = self.store.described(&[digest], WORLD).await.map_err(DescribeError::temporary)?;
        if let Some(manifest) = kept.into_iter().flatten().find_map(|json| serde_json::from_str(&json).ok()) {
            return Ok(manifest);
        }
        if self.store.is_blocked(&digest).await.map_err(DescribeError::temporary)? {
            let why = format!(
                "the component is blocked and was not examined. To unblock it: patchbay plugin unblock {digest}"
            );
            return Err(DescribeError::temporary(why));
        }
        let loaded = self.sandbox.load_adapter(digest, bytes.to_vec()).await?;
        let manifest = self.sandbox.describe_adapter(&loaded).await?;
        // A manifest consists of strings and numbers, which JSON can always express.
        let json = serde_json::to_string(&manifest).unwrap_or_default();
        if let Err(error) = self.store.keep_described(digest, WORLD, json).await {
            tracing::warn!("cannot store the description of an adapter: {error}");
        }
        Ok(manifest)
    }
}

/// Reads the files of `folder`. An unchanged file keeps its adapter from `known`, and so does a file whose new version cannot be
/// used. A missing folder counts as empty.
pub(crate) async fn files(folder: &Path, known: &FoundAdapters, describe: &impl Describe) -> FoundAdapters {
    let mut found = FoundAdapters::default();
    let folder = folder.to_owned();
    let paths = match blocking(move || list(&folder)).await {
        Ok(paths) => paths,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                found.invalid.insert("providers".to_owned(), format!("cannot read the folder: {error}"));
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
                found.invalid.insert(file, error.to_string());
                continue;
            }
        };
        let before = known.adapters.get(&name);
        let described = match blocking(move || read(&path)).await {
            Ok((digest, _)) if before.is_some_and(|adapter| adapter.digest == digest) => Ok(None),
            Ok((digest, bytes)) => {
                let asked = match known.permanently_invalid.get(&digest) {
                    Some(why) => Err(DescribeError { why: why.clone(), permanent: true, printed: Vec::new() }),
                    None => describe.describe(digest, Arc::clone(&bytes)).await,
                };
                if let Err(DescribeError { why, permanent: true, .. }) = &asked {
                    found.permanently_invalid.insert(digest, why.clone());
                }
                asked.map(|manifest| Some(Adapter::read(digest, bytes, manifest))).map_err(|bad| bad.why)
            }
            Err(error) => Err(error.to_string()),
        };
        let adapter = match described {
            Ok(adapter) => adapter,
            // The earlier version stays in force.
            Err(why) => {
                found.invalid.insert(file, why);
                None
            }
        };
        if let Some(adapter) = adapter.map(Arc::new).or_else(|| before.cloned()) {
            found.adapters.insert(name, adapter);
        }
    }
    found
}

/// Runs disk operations on a thread that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Returns the paths of the components in a folder, sorted.
fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "wasm"));
    paths.sort();
    Ok(paths)
}

/// Reads a component. Returns its bytes with their digest.
pub(crate) fn read(path: &Path) -> io::Result<(Digest, Arc<[u8]>)> {
    let (file, _) = open_regular_file(path)?;
    let mut bytes = Vec::new();
    // The file may grow while it is read.
    file.take(COMPONENT_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > COMPONENT_BYTES {
        let message = format!("it is over the limit of {COMPONENT_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok((Digest::of(&bytes), bytes.into()))
}
