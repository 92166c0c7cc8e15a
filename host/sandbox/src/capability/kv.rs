//! `patchbay:host/kv`: a small durable store for each skill.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchbay_core::kv::{KvEntry, KvError, Scope};
use patchbay_policy::Capability;

use super::HostResult;
use crate::{
    GuestEffect,
    bindings::patchbay::host::{kv as wit, types::Error as WitError},
    state::GuestState,
};

/// The result of a store operation.
pub type KvFuture<'a, T> = BoxFuture<'a, Result<T, KvError>>;

/// The store behind the capability, scoped to one skill, session and workspace.
pub trait Kv: Send + Sync {
    /// Returns the entry of a key.
    fn get<'a>(&'a self, scope: Scope, key: &'a str) -> KvFuture<'a, Option<KvEntry>>;
    /// Writes an entry if its version is `expect` (0: no entry; `None`: any version). Returns the new version. The entry
    /// survives a crash of the process when this returns.
    fn put<'a>(&'a self, scope: Scope, key: &'a str, value: Vec<u8>, expect: Option<u64>) -> KvFuture<'a, u64>;
    /// Deletes an entry. Returns whether it existed.
    fn delete<'a>(&'a self, scope: Scope, key: &'a str) -> KvFuture<'a, bool>;
    /// Returns at most `limit` keys that begin with `prefix` and come after `after`, sorted by bytes.
    fn keys<'a>(
        &'a self,
        scope: Scope,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> KvFuture<'a, Vec<String>>;
}

impl GuestState {
    /// Counts the host call and checks the permit; every function of the capability calls it first. The outer error stops
    /// the guest, the inner one is returned to it.
    async fn kv(&mut self, effect: GuestEffect<'_>) -> HostResult<Arc<dyn Kv>> {
        self.count_host_call()?;
        Ok(self.permit(&Capability::Kv, effect).await.map(|access| Arc::clone(&access.services.kv)))
    }
}

fn scope(scope: wit::Scope) -> Scope {
    match scope {
        wit::Scope::Session => Scope::Session,
        wit::Scope::Workspace => Scope::Workspace,
        wit::Scope::User => Scope::User,
    }
}

fn guest_error(error: KvError) -> WitError {
    WitError { kind: error.kind().to_owned(), message: error.to_string() }
}

impl wit::Host for GuestState {
    async fn get(&mut self, within: wit::Scope, key: String) -> HostResult<Option<wit::Entry>> {
        let scope = scope(within);
        let kv = or_return!(self.kv(GuestEffect::GetKey { scope, key: &key }).await?);
        let entry = kv.get(scope, &key).await;
        Ok(entry
            .map(|entry| entry.map(|KvEntry { value, version }| wit::Entry { value, version }))
            .map_err(guest_error))
    }

    async fn put(&mut self, within: wit::Scope, key: String, value: Vec<u8>, expect: Option<u64>) -> HostResult<u64> {
        let scope = scope(within);
        let kv = or_return!(self.kv(GuestEffect::PutKey { scope, key: &key, value: &value }).await?);
        Ok(kv.put(scope, &key, value, expect).await.map_err(guest_error))
    }

    async fn delete(&mut self, within: wit::Scope, key: String) -> HostResult<bool> {
        let scope = scope(within);
        let kv = or_return!(self.kv(GuestEffect::DeleteKey { scope, key: &key }).await?);
        Ok(kv.delete(scope, &key).await.map_err(guest_error))
    }

    async fn keys(
        &mut self,
        within: wit::Scope,
        prefix: String,
        after: Option<String>,
        limit: u32,
    ) -> HostResult<Vec<String>> {
        let scope = scope(within);
        let kv = or_return!(self.kv(GuestEffect::ListKeys { scope, prefix: &prefix }).await?);
        Ok(kv.keys(scope, &prefix, after.as_deref(), limit).await.map_err(guest_error))
    }
}
