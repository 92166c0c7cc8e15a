//! The host's side of a call, for who needs one and offers nothing.

use std::sync::Arc;

use patchbay_policy::{Capability, Permits};
use patchbay_sandbox::{
    BoxFuture, Budget, Entry, Fault, Http, HttpRequest, HttpResponse, Kv, KvError, Level, LogSink, Progress, Scope,
    Services, ToolCaller, Usage, WorkspaceAccess,
};

/// A store that fails, and nobody who listens.
pub fn nobody() -> Services {
    Services {
        kv: Arc::new(Nobody),
        http: Arc::new(Nobody),
        tools: Arc::new(Nobody),
        workspace: Arc::new(WorkspaceAccess { root: "/nowhere".into(), ..WorkspaceAccess::default() }),
        written: Arc::default(),
        inference: None,
        progress: Arc::new(Nobody),
        log: Arc::new(Nobody),
    }
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

impl Http for Nobody {
    fn check(&self, _: &str, _: &Permits) -> Result<(), Fault> {
        Err(nobody_there())
    }

    fn send<'a>(
        &'a self,
        _: HttpRequest,
        _: &'a Permits,
    ) -> BoxFuture<'a, Result<(HttpResponse, Vec<Capability>), Fault>> {
        Box::pin(async { Err(nobody_there()) })
    }
}

impl ToolCaller for Nobody {
    fn call<'a>(&'a self, _: &'a str, _: &'a str, _: Budget) -> BoxFuture<'a, (Result<String, Fault>, Usage)> {
        Box::pin(async { (Err(nobody_there()), Usage::default()) })
    }
}

fn nobody_there() -> Fault {
    Fault::Failed { kind: "failed".to_owned(), message: "nobody is there".to_owned() }
}

impl Progress for Nobody {
    fn report(&self, _: &str) {}
}

impl LogSink for Nobody {
    fn write(&self, _: Level, _: &str) {}
}
