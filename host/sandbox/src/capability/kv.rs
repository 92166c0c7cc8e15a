//! `patchbay:host/kv`: a small durable store of the skill's own.

use std::sync::Arc;

use patchbay_policy::Capability;

use crate::{
    BoxFuture,
    bindings::patchbay::host::{kv as wit, types::Error as WitError},
    call::State,
};

/// Whose state it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The session's alone.
    Session,
    /// Shared by all sessions of the workspace.
    Workspace,
    /// Shared by all of the person's.
    User,
}

/// A value and the version that it was written as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The bytes.
    pub value: Vec<u8>,
    /// Never the same twice in a scope.
    pub version: u64,
}

/// Why the store refused; the guest is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// Somebody else wrote in between.
    #[error("key '{key}' is at version {found}, not {expected}; read it again")]
    Conflict {
        /// Which key.
        key: String,
        /// What the writer had read.
        expected: u64,
        /// What is there (0: nothing).
        found: u64,
    },
    /// A key or value is over its limit.
    #[error("a {what} of {size} bytes is over the limit of {limit}")]
    TooLarge {
        /// `key` or `value`.
        what: &'static str,
        /// What was given.
        size: usize,
        /// What may be given.
        limit: usize,
    },
    /// The scope is full.
    #[error("this skill's store is full: at most {limit} {what}; delete something first")]
    Quota {
        /// `bytes` or `keys`.
        what: &'static str,
        /// How many there may be.
        limit: u64,
    },
    /// A key or a page is not as the contract wants it.
    #[error("{0}")]
    Invalid(&'static str),
    /// The database failed.
    #[error("the store failed; nothing was changed")]
    Failed,
}

impl KvError {
    /// The word of the contract.
    fn kind(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "conflict",
            Self::TooLarge { .. } => "too-large",
            Self::Quota { .. } => "quota",
            Self::Invalid(_) => "invalid",
            Self::Failed => "failed",
        }
    }
}

/// The store behind the capability, bound to one skill, session and workspace.
pub trait Kv: Send + Sync {
    /// The entry of a key.
    fn get<'a>(&'a self, scope: Scope, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, KvError>>;
    /// Writes an entry if its version is `expect` (0: there is none; absent: whatever). Gives the new version.
    /// Durable when it answers.
    fn put<'a>(
        &'a self,
        scope: Scope,
        key: &'a str,
        value: Vec<u8>,
        expect: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, KvError>>;
    /// Deletes an entry; whether there was one.
    fn delete<'a>(&'a self, scope: Scope, key: &'a str) -> BoxFuture<'a, Result<bool, KvError>>;
    /// Keys with a prefix, sorted by bytes, at most `limit`, after `after`.
    fn keys<'a>(
        &'a self,
        scope: Scope,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> BoxFuture<'a, Result<Vec<String>, KvError>>;
}

impl State {
    /// Every function of the capability begins so. The outer error stops the guest, the inner one it is told.
    fn kv(&mut self) -> Told<Arc<dyn Kv>> {
        self.count_host_call()?;
        Ok(self.permit(&Capability::Kv).map(|services| Arc::clone(&services.kv)))
    }
}

fn scope(scope: wit::Scope) -> Scope {
    match scope {
        wit::Scope::Session => Scope::Session,
        wit::Scope::Workspace => Scope::Workspace,
        wit::Scope::User => Scope::User,
    }
}

fn told(error: KvError) -> WitError {
    WitError { kind: error.kind().to_owned(), message: error.to_string() }
}

type Told<T> = wasmtime::Result<Result<T, WitError>>;

impl wit::Host for State {
    async fn get(&mut self, within: wit::Scope, key: String) -> Told<Option<wit::Entry>> {
        let kv = match self.kv()? {
            Ok(kv) => kv,
            Err(denied) => return Ok(Err(denied)),
        };
        let entry = kv.get(scope(within), &key).await;
        Ok(entry.map(|entry| entry.map(|Entry { value, version }| wit::Entry { value, version })).map_err(told))
    }

    async fn put(&mut self, within: wit::Scope, key: String, value: Vec<u8>, expect: Option<u64>) -> Told<u64> {
        let kv = match self.kv()? {
            Ok(kv) => kv,
            Err(denied) => return Ok(Err(denied)),
        };
        Ok(kv.put(scope(within), &key, value, expect).await.map_err(told))
    }

    async fn delete(&mut self, within: wit::Scope, key: String) -> Told<bool> {
        let kv = match self.kv()? {
            Ok(kv) => kv,
            Err(denied) => return Ok(Err(denied)),
        };
        Ok(kv.delete(scope(within), &key).await.map_err(told))
    }

    async fn keys(
        &mut self,
        within: wit::Scope,
        prefix: String,
        after: Option<String>,
        limit: u32,
    ) -> Told<Vec<String>> {
        let kv = match self.kv()? {
            Ok(kv) => kv,
            Err(denied) => return Ok(Err(denied)),
        };
        Ok(kv.keys(scope(within), &prefix, after.as_deref(), limit).await.map_err(told))
    }
}
