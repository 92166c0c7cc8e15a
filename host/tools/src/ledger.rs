//! Stores the digests of compiled components in the database, for the sandbox.

use futures_util::future::BoxFuture;
use patchbay_core::Digest;
use patchbay_sandbox::Ledger;
use patchbay_store::Store;

/// A [`Ledger`] in the database. If the database fails, the digest is unknown and the component is compiled again.
pub struct StoreLedger(pub Store);

impl Ledger for StoreLedger {
    fn artefact<'a>(&'a self, component: &'a Digest, fingerprint: &'a str) -> BoxFuture<'a, Option<Digest>> {
        Box::pin(async move {
            self.0.artefact(component, fingerprint).await.unwrap_or_else(|error| {
                tracing::warn!(%component, "cannot read the digest of a compiled component: {error}");
                None
            })
        })
    }

    fn keep<'a>(&'a self, component: Digest, fingerprint: &'a str, artefact: Digest) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Err(error) = self.0.keep_artefact(component, fingerprint.to_owned(), artefact).await {
                tracing::warn!(%component, "cannot store the digest of a compiled component: {error}");
            }
        })
    }
}
