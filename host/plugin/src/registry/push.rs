//! Pushes a component to a registry, as one version of a repository.

use patchbay_core::Digest;
use patchbay_skill::{MANIFEST_TYPE, PushedComponent};
use semver::Version;

use super::{PackageRegistry, Reference, RegistryError, header};

/// How a push ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The version is new, or has a new signature. This is the digest of its manifest.
    New(Digest),
    /// The version already existed with the same bytes and signature.
    Unchanged(Digest),
}

impl PackageRegistry {
    /// Pushes `package` as `version`. An existing version with another component is never replaced.
    ///
    /// # Errors
    /// [`RegistryError`]. The manifest is written last, so a failed upload leaves the version unchanged.
    pub async fn push(mut self, version: &Version, package: &PushedComponent) -> Result<Pushed, RegistryError> {
        self.actions = "pull,push";
        let reference = Reference::Version(version.clone());
        let manifest = package.manifest(&version.to_string());
        let (digest, component) = (Digest::of(&manifest), Digest::of(&package.component));
        if let Some(there) = self.find(&reference).await? {
            if there.component != component {
                let address = self.address.at(reference).to_string();
                return Err(RegistryError::Exists { address, there: there.component });
            }
            if there.digest == digest {
                return Ok(Pushed::Unchanged(digest));
            }
        }
        for blob in [&package.component, &package.config()] {
            self.push_blob(blob).await?;
        }
        let mut call = self.call("PUT", self.target(&self.path("manifests", &version.to_string()))?);
        call.headers.push(("content-type".to_owned(), MANIFEST_TYPE.to_owned()));
        call.body = manifest;
        let answer = self.signed_in(&call).await?;
        self.expect(&answer, 201)?;
        match header(&answer, "docker-content-digest").and_then(|stored| stored.parse::<Digest>().ok()) {
            Some(stored) if stored != digest => {
                Err(self.broken(format!("stored the manifest with another digest, {stored}")))
            }
            _ => Ok(Pushed::New(digest)),
        }
    }

    async fn push_blob(&self, blob: &[u8]) -> Result<(), RegistryError> {
        let digest = Digest::of(blob).to_string();
        let head = self.call("HEAD", self.target(&self.path("blobs", &digest))?);
        if self.signed_in(&head).await?.status == 200 {
            return Ok(());
        }
        let begin = self.call("POST", self.target(&format!("/v2/{}/blobs/uploads/", self.address.path))?);
        let answer = self.signed_in(&begin).await?;
        self.expect(&answer, 202)?;
        let location =
            header(&answer, "location").ok_or_else(|| self.broken("did not say where to upload to".to_owned()))?;
        let separator = if location.contains('?') { '&' } else { '?' };
        let target = self.own(&begin.target, &format!("{location}{separator}digest={digest}"))?;
        let mut call = self.call("PUT", target);
        call.headers.push(("content-type".to_owned(), "application/octet-stream".to_owned()));
        call.body = blob.to_vec();
        let answer = self.signed_in(&call).await?;
        self.expect(&answer, 201)
    }
}
