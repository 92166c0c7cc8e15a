//! The adapters that there are: those of the binary, and the files of the folder.

use std::{collections::BTreeMap, fs, io, path::Path, sync::Arc};

use patchbay_core::{Digest, Name};
use patchbay_sandbox::{
    Failure, Sandbox,
    adapter::{AdapterManifest, LoadedAdapter},
};
use patchbay_store::Store;
use serde::Deserialize;
use tokio::sync::OnceCell;

use crate::BundledAdapter;

/// The world that an adapter implements. Descriptions are kept by digest and world.
const WORLD: &str = "patchbay:provider@0.1";
/// The largest component that is read: twice what the largest language runtime comes to.
pub(crate) const COMPONENT_BYTES: u64 = 64 << 20;

/// An adapter's component, and what it says of itself.
pub(crate) struct Adapter {
    pub(crate) digest: Digest,
    pub(crate) manifest: AdapterManifest,
    /// Whether the binary brings it along.
    pub(crate) bundled: bool,
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
        Self { digest, manifest, bundled: false, bytes: Bytes::Read(bytes), loaded: OnceCell::new() }
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
        Some((name, Arc::new(Adapter { digest, manifest, bundled: true, bytes, loaded: OnceCell::new() })))
    };
    let found: BTreeMap<_, _> = adapters.iter().filter_map(read).collect();
    if found.len() < adapters.len() {
        tracing::error!("what a bundled adapter says of itself cannot be read: it is left out");
    }
    found
}

/// Asks adapters what they are.
pub(crate) trait Describe: Send + Sync {
    /// What the component `bytes`, whose digest is `digest`, says of itself; or what is wrong with it, in words.
    fn describe(
        &self,
        digest: Digest,
        bytes: Arc<[u8]>,
    ) -> impl Future<Output = Result<AdapterManifest, String>> + Send;
}

/// Asks in the sandbox, once for each digest.
pub(crate) struct Asked<'a> {
    pub(crate) store: &'a Store,
    pub(crate) sandbox: &'a Arc<Sandbox>,
}

impl Describe for Asked<'_> {
    async fn describe(&self, digest: Digest, bytes: Arc<[u8]>) -> Result<AdapterManifest, String> {
        let kept = self.store.described(&[digest], WORLD).map_err(|error| error.to_string())?;
        if let Some(manifest) = kept.into_iter().flatten().find_map(|json| serde_json::from_str(&json).ok()) {
            return Ok(manifest);
        }
        let ask = async {
            let loaded = self.sandbox.load_adapter(digest, bytes.to_vec()).await?;
            self.sandbox.describe_adapter(&loaded).await
        };
        let manifest = ask.await.map_err(|failure| failure.to_string())?;
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
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                found.bad.insert("providers".to_owned(), format!("the folder cannot be read: {error}"));
            }
            return found;
        }
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "wasm")) {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name: Name = match stem.parse() {
            Ok(name) => name,
            Err(error) => {
                found.bad.insert(file, error.to_string());
                continue;
            }
        };
        let (digest, bytes) = match read(&path) {
            Ok(read) => read,
            Err(error) => {
                found.bad.insert(file, error.to_string());
                continue;
            }
        };
        if let Some(same) = known.adapters.get(&name).filter(|adapter| !adapter.bundled && adapter.digest == digest) {
            found.adapters.insert(name, Arc::clone(same));
            continue;
        }
        match describe.describe(digest, Arc::clone(&bytes)).await {
            Ok(manifest) => {
                found.adapters.insert(name, Arc::new(Adapter::read(digest, bytes, manifest)));
            }
            Err(why) => {
                found.bad.insert(file, why);
                // What was good stays in force: a bad file changes nothing.
                if let Some(before) = known.adapters.get(&name).filter(|adapter| !adapter.bundled) {
                    found.adapters.insert(name, Arc::clone(before));
                }
            }
        }
    }
    found
}

/// The bytes of a component, and the digest of exactly these.
pub(crate) fn read(path: &Path) -> io::Result<(Digest, Arc<[u8]>)> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    if metadata.len() > COMPONENT_BYTES {
        let message = format!("it has {} bytes; at most {COMPONENT_BYTES} are read", metadata.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let bytes = fs::read(path)?;
    Ok((Digest::of(&bytes), bytes.into()))
}
