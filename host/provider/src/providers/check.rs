//! What a file would be as a provider, before it is one.

use std::{io, path::Path, sync::Arc};

use patchbay_core::{Digest, Name};
use patchbay_sandbox::adapter::AdapterManifest;

use crate::{
    ProviderStatus, Providers,
    adapters::{self, Adapter, Asked, Describe as _, Found},
    registry::{Registry, Source},
};

/// A file that was looked at.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What it would be called; none where nothing gives it a name that could be one.
    pub name: Option<Name>,
    /// What was looked at; the file may be another one by now.
    pub bytes: Arc<[u8]>,
    /// The digest of `bytes`.
    pub digest: Digest,
    /// What it says of itself; none where it is no adapter.
    pub manifest: Option<AdapterManifest>,
    /// Where it would stand among the providers; none where it could not stand there at all.
    pub status: Option<ProviderStatus>,
    /// Why it would not work, in words. None: it works, once it is allowed.
    pub problems: Vec<String>,
    /// The last lines that it printed before it trapped, cleaned.
    pub printed: Vec<String>,
}

impl Providers {
    /// Looks at a file as if it lay in the folder, under `name`, else under the name that it has there, else under its
    /// adapter's. Nothing is changed.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub async fn check(&self, path: &Path, name: Option<&Name>) -> io::Result<Checked> {
        let (digest, bytes) = adapters::read(path)?;
        let asked = Asked { store: &self.store, sandbox: &self.world.sandbox };
        let described = asked.describe(digest, Arc::clone(&bytes)).await;
        let there = self.name_there(path).filter(|_| name.is_none());
        let misnamed = there.as_ref().and_then(|there| there.as_ref().err().cloned());
        let own = described.as_ref().ok().map(|manifest| manifest.name.clone());
        let stem = || path.file_stem().unwrap_or_default().to_string_lossy().parse().ok();
        let name = name.cloned().or(there.and_then(Result::ok)).or(own).or_else(stem);
        let (problems, printed) = (Vec::new(), Vec::new());
        let mut checked = Checked { name, bytes, digest, manifest: None, status: None, problems, printed };
        checked.problems.extend(misnamed);
        match described {
            Ok(manifest) => {
                if let Some(name) = checked.name.clone() {
                    self.place(&mut checked, &name, &manifest).await;
                }
                checked.manifest = Some(manifest);
            }
            Err(bad) => {
                checked.problems.push(bad.why);
                checked.printed = bad.printed;
            }
        }
        Ok(checked)
    }

    /// The name that a file of the folder has; none for one that lies elsewhere.
    fn name_there(&self, path: &Path) -> Option<Result<Name, String>> {
        let folder = path.canonicalize().ok()?.parent()?.to_owned();
        let there = self.folder.canonicalize().is_ok_and(|own| own == folder);
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        there.then(|| stem.parse::<Name>().map_err(|error| error.to_string()))
    }

    /// Works out where it would stand, in the place of a file of its name.
    async fn place(&self, checked: &mut Checked, name: &Name, manifest: &AdapterManifest) {
        let before = self.registry().await;
        let settings = self.making.lock().await.clone().unwrap_or_default();
        let file = format!("{name}.wasm");
        let Found { mut adapters, mut bad, hopeless } = before.found.clone();
        bad.remove(&file);
        let adapter = Adapter::read(checked.digest, Arc::clone(&checked.bytes), manifest.clone());
        adapters.insert(name.clone(), Arc::new(adapter));
        let known = self.known().await;
        let registry = Registry::build(&self.bundled, Found { adapters, bad, hopeless }, &settings, &known, None);
        if let Some(why) = registry.found.bad.get(&file) {
            checked.problems.push(why.clone());
            return;
        }
        // A table of `config.toml` may make its instance of this very file.
        let Some(entry) = registry.get(name.as_str()).filter(|entry| entry.source == Source::File) else { return };
        let status = self.statuses(&registry).await.into_iter().find(|status| status.name == entry.name.as_str());
        let refused = status.as_ref().filter(|status| matches!(status.state, "refused" | "needs origin"));
        checked.problems.extend(refused.and_then(|status| status.reason.clone()));
        checked.status = status;
    }
}
