//! Examines an adapter file before it is added: `patchbay provider check` and `patchbay provider add`.

use std::{io, path::Path, sync::Arc};

use patchbay_core::{Digest, Name};
use patchbay_sandbox::adapter::AdapterManifest;

use crate::{
    ProviderState, ProviderStatus, Providers,
    adapters::{self, Adapter, Describe as _, SandboxDescriber},
    registry::{EntrySource, Registry},
};

/// The result of examining a file.
#[derive(Clone, Debug)]
pub struct CheckedAdapter {
    /// The name of the provider; `None` if neither the file nor its adapter has a valid name.
    pub name: Option<Name>,
    /// The bytes that were examined. The file may have changed since.
    pub bytes: Arc<[u8]>,
    /// The digest of the bytes in `bytes`.
    pub digest: Digest,
    /// The adapter's manifest; `None` if the file is not an adapter.
    pub manifest: Option<AdapterManifest>,
    /// The status that the provider would have; `None` if it cannot be added.
    pub status: Option<ProviderStatus>,
    /// Why the provider would not work. Empty if it works once it is allowed.
    pub problems: Vec<String>,
    /// The last lines that the adapter printed before it trapped, cleaned.
    pub printed: Vec<String>,
}

impl Providers {
    /// Examines a file as if it were in the providers folder. The provider's name is `name`, otherwise the name of the file if it
    /// is in that folder, otherwise the adapter's own name. Changes nothing.
    ///
    /// # Errors
    /// The file of the adapter cannot be read.
    pub async fn check(&self, path: &Path, name: Option<&Name>) -> io::Result<CheckedAdapter> {
        let (digest, bytes) = adapters::read(path)?;
        let describer = SandboxDescriber { store: &self.store, sandbox: &self.exchange.sandbox };
        let described = describer.describe(digest, Arc::clone(&bytes)).await;
        let there = self.name_there(path).filter(|_| name.is_none());
        let misnamed = there.as_ref().and_then(|there| there.as_ref().err().cloned());
        let own = described.as_ref().ok().map(|manifest| manifest.name.clone());
        let stem = || path.file_stem().unwrap_or_default().to_string_lossy().parse().ok();
        let name = name.cloned().or(there.and_then(Result::ok)).or(own).or_else(stem);
        let (problems, printed) = (Vec::new(), Vec::new());
        let mut checked = CheckedAdapter { name, bytes, digest, manifest: None, status: None, problems, printed };
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

    /// Returns the provider name of a file in the folder, or the reason why its name is
    /// invalid; `None` for a file elsewhere.
    fn name_there(&self, path: &Path) -> Option<Result<Name, String>> {
        let folder = path.canonicalize().ok()?.parent()?.to_owned();
        let there = self.folder.canonicalize().is_ok_and(|own| own == folder);
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        there.then(|| stem.parse::<Name>().map_err(|error| error.to_string()))
    }

    /// Sets the status that the provider would have if the file replaced any file of the same name.
    async fn place(&self, checked: &mut CheckedAdapter, name: &Name, manifest: &AdapterManifest) {
        let before = self.registry().await;
        let settings = self.reload_lock.lock().await.clone().unwrap_or_default();
        let file = format!("{name}.wasm");
        let mut found = before.found.clone();
        found.invalid.remove(&file);
        let adapter = Adapter::read(checked.digest, Arc::clone(&checked.bytes), manifest.clone());
        found.adapters.insert(name.clone(), Arc::new(adapter));
        let registry = Registry::build(&self.bundled, found, &settings, &self.stored_claims().await, None);
        if let Some(why) = registry.found.invalid.get(&file) {
            checked.problems.push(why.clone());
            return;
        }
        // A table of `config.toml` may use this file as its adapter.
        let Some(entry) = registry.get(name.as_str()).filter(|entry| entry.source == EntrySource::File) else { return };
        let status = self.statuses(&registry).await.into_iter().find(|status| status.name == entry.name.as_str());
        let refused = status
            .as_ref()
            .filter(|status| matches!(status.state, ProviderState::Refused | ProviderState::NeedsOrigin));
        checked.problems.extend(refused.and_then(|status| status.reason.clone()));
        checked.status = status;
    }
}
