//! The `kv` capability over the store, scoped to one skill, session and workspace.
use patchbay_sandbox::{Kv, KvEntry, KvError, KvFuture, Scope};
use patchbay_store::{KvOwner, KvScope, KvStoreError};

use super::CallServices;

impl CallServices {
    fn scope(&self, scope: Scope) -> KvScope {
        let context = &self.record.context;
        let owner = match scope {
            Scope::Session => KvOwner::Session(context.hold.clone()),
            Scope::Workspace => KvOwner::Workspace(context.workspace.clone()),
            Scope::User => KvOwner::User(context.principal.clone()),
        };
        KvScope {
            root: self.owner.root.as_str(),
            workspace: self.owner.workspace.clone(),
            skill: self.owner.name.to_string(),
            owner,
        }
    }
}

impl Kv for CallServices {
    fn get<'a>(&'a self, scope: Scope, key: &'a str) -> KvFuture<'a, Option<KvEntry>> {
        Box::pin(async move { self.tools.kv.get(&self.scope(scope), key).await.map_err(guest_error) })
    }

    fn put<'a>(&'a self, scope: Scope, key: &'a str, value: Vec<u8>, expect: Option<u64>) -> KvFuture<'a, u64> {
        Box::pin(async move {
            if !self.begin_effect().await {
                return Err(KvError::Failed);
            }
            self.tools.kv.put(self.scope(scope), key.to_owned(), value, expect).await.map_err(guest_error)
        })
    }

    fn delete<'a>(&'a self, scope: Scope, key: &'a str) -> KvFuture<'a, bool> {
        Box::pin(async move {
            if !self.begin_effect().await {
                return Err(KvError::Failed);
            }
            self.tools.kv.delete(self.scope(scope), key.to_owned()).await.map_err(guest_error)
        })
    }

    fn keys<'a>(
        &'a self,
        scope: Scope,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> KvFuture<'a, Vec<String>> {
        Box::pin(async move { self.tools.kv.keys(&self.scope(scope), prefix, after, limit).await.map_err(guest_error) })
    }
}

/// Converts a store error for the guest. Host failures are logged and their details hidden.
fn guest_error(error: KvStoreError) -> KvError {
    match error {
        KvStoreError::Refused(error) => error,
        KvStoreError::Store(error) => {
            tracing::error!("the key-value store failed: {error}");
            KvError::Failed
        }
    }
}
