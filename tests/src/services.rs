//! The host's side of a call, for who needs one and offers nothing.

use std::sync::Arc;

use patchbay_sandbox::{BoxFuture, Entry, Kv, KvError, Level, LogSink, Progress, Scope, Services};

/// A store that fails, and nobody who listens.
pub fn nobody() -> Services {
    Services { kv: Arc::new(Nobody), progress: Arc::new(Nobody), log: Arc::new(Nobody) }
}

struct Nobody;

fn fails<'a, T: Send + 'a>() -> BoxFuture<'a, Result<T, KvError>> {
    Box::pin(async { Err(KvError::Failed) })
}

impl Kv for Nobody {
    fn get<'a>(&'a self, _: Scope, _: &'a str) -> BoxFuture<'a, Result<Option<Entry>, KvError>> {
        fails()
    }

    fn put<'a>(&'a self, _: Scope, _: &'a str, _: Vec<u8>, _: Option<u64>) -> BoxFuture<'a, Result<u64, KvError>> {
        fails()
    }

    fn delete<'a>(&'a self, _: Scope, _: &'a str) -> BoxFuture<'a, Result<bool, KvError>> {
        fails()
    }

    fn keys<'a>(
        &'a self,
        _: Scope,
        _: &'a str,
        _: Option<&'a str>,
        _: u32,
    ) -> BoxFuture<'a, Result<Vec<String>, KvError>> {
        fails()
    }
}

impl Progress for Nobody {
    fn report(&self, _: &str) {}
}

impl LogSink for Nobody {
    fn write(&self, _: Level, _: &str) {}
}
