//! The host's side: an in-memory store, an HTTP client that sends nothing, tools that use part of their budget, and a count of all
//! calls that arrive.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use patchbay_core::text;
use patchbay_egress::{EgressError, Target};
use patchbay_policy::{Capability, Permits};
use patchbay_sandbox::{
    Auth, Budget, CallIdentity, CallableTool, Content, Fault, Finished, Http, HttpFuture, HttpRequest, HttpResponse,
    Kv, KvEntry, KvError, KvFuture, Limits, LogLevel, LogSink, NestedCallFuture, ProgressSink, Scope, ToolCaller,
    Usage, fuzzing::kv as wit,
};

pub struct Host {
    /// The capabilities that are requested and granted.
    works: Vec<Capability>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<(Scope, String), KvEntry>,
    heard: usize,
    /// Number of calls and bytes that a nested call must get.
    left: (u32, usize),
    /// Number of host calls and bytes of progress that the last nested call used.
    nested: (u32, usize),
}

impl Host {
    pub fn new(works: Vec<Capability>) -> Self {
        Self { works, inner: Mutex::default() }
    }

    /// Returns the number of calls and bytes that have reached the host.
    pub fn heard(&self) -> usize {
        self.inner().heard
    }

    pub fn expect_left(&self, host_calls: u32, output_bytes: usize) {
        self.inner().left = (host_calls, output_bytes);
    }

    pub fn take_nested(&self) -> (u32, usize) {
        std::mem::take(&mut self.inner().nested)
    }

    /// Checks the entry that a guest received.
    pub fn has(&self, scope: wit::Scope, key: &str, told: Option<wit::Entry>) {
        let scope = match scope {
            wit::Scope::Session => Scope::Session,
            wit::Scope::Workspace => Scope::Workspace,
            wit::Scope::User => Scope::User,
        };
        let inner = self.inner();
        let there = inner.entries.get(&(scope, key.to_owned()));
        let told = told.map(|entry| KvEntry { value: entry.value, version: entry.version });
        assert_eq!(told.as_ref(), there, "{scope:?} {key}");
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call that reaches the host and needs `capability`.
    fn hear(&self, capability: Option<&Capability>) -> MutexGuard<'_, Inner> {
        if let Some(capability) = capability {
            assert!(self.works.contains(capability), "{capability} is used without a grant");
        }
        let mut inner = self.inner();
        inner.heard += 1;
        inner
    }
}

impl Kv for Host {
    fn get<'a>(&'a self, scope: Scope, key: &'a str) -> KvFuture<'a, Option<KvEntry>> {
        let entry = self.hear(Some(&Capability::Kv)).entries.get(&(scope, key.to_owned())).cloned();
        Box::pin(async { Ok(entry) })
    }

    fn put<'a>(&'a self, scope: Scope, key: &'a str, value: Vec<u8>, expect: Option<u64>) -> KvFuture<'a, u64> {
        let mut inner = self.hear(Some(&Capability::Kv));
        let place = (scope, key.to_owned());
        let found = inner.entries.get(&place).map_or(0, |entry| entry.version);
        let answer = match expect {
            Some(expected) if expected != found => Err(KvError::Conflict { key: key.to_owned(), expected, found }),
            _ => {
                inner.entries.insert(place, KvEntry { value, version: found + 1 });
                Ok(found + 1)
            }
        };
        Box::pin(async { answer })
    }

    fn delete<'a>(&'a self, scope: Scope, key: &'a str) -> KvFuture<'a, bool> {
        let was = self.hear(Some(&Capability::Kv)).entries.remove(&(scope, key.to_owned())).is_some();
        Box::pin(async move { Ok(was) })
    }

    fn keys<'a>(&'a self, scope: Scope, prefix: &'a str, _: Option<&'a str>, limit: u32) -> KvFuture<'a, Vec<String>> {
        let inner = self.hear(Some(&Capability::Kv));
        let keys = inner.entries.keys().filter(|(of, key)| *of == scope && key.starts_with(prefix));
        let keys = keys.take(limit as usize).map(|(_, key)| key.clone()).collect();
        Box::pin(async { Ok(keys) })
    }
}

/// Checks a request against its permits as the host does, and does not send it.
impl Http for Host {
    fn check(&self, url: &str, _: &[Auth], permits: &Permits) -> Result<(), Fault> {
        let target = Target::parse(url).map_err(|error| refused(error.into()))?;
        let origin = target.origin().clone();
        let rule = permits.check_http(origin.host(), origin.port(), origin.is_default_port())?;
        target.allow(rule).map(drop).map_err(refused)
    }

    fn send<'a>(&'a self, request: HttpRequest, permits: &'a Permits) -> HttpFuture<'a> {
        Box::pin(async move {
            // A yes to inference adds its time to the call.
            let Limits { time_ms, inference_ms, .. } = Limits::default();
            assert!(request.timeout <= Duration::from_millis(time_ms + inference_ms));
            let target = Target::parse(&request.url).map_err(|error| refused(error.into()))?;
            let origin = target.origin().clone();
            let rule = permits.check_http(origin.host(), origin.port(), origin.is_default_port())?;
            target.allow(rule.clone()).map_err(refused)?;
            let capability = Capability::Http(rule);
            drop(self.hear(Some(&capability)));
            // Permitted requests match one of the two patterns of this target and use https.
            let to = (origin.host(), origin.port());
            assert!(!origin.is_plain());
            assert!(to == ("a.example", 443) || to.0.ends_with(".b.example") && to.1 == 8443, "{origin}");
            Ok((HttpResponse { status: 200, headers: vec![], body: request.url.into_bytes() }, vec![capability]))
        })
    }
}

fn refused(error: EgressError) -> Fault {
    Fault::Failed { kind: error.kind().to_owned(), message: error.to_string() }
}

/// Uses a part of its budget, depending on the length of its input.
impl ToolCaller for Host {
    fn call(self: Arc<Self>, tool: String, input: String, budget: Budget) -> NestedCallFuture {
        let mut inner = self.hear(Some(&Capability::Tools));
        assert_eq!((budget.host_calls, budget.output_bytes), inner.left, "a nested call is given what is left");
        assert_eq!(budget.depth, 1);
        let part = input.len() % 4;
        let (host_calls, output_bytes) = (budget.host_calls * part as u32 / 3, budget.output_bytes * part / 3);
        // The result of a nested call is not output of the caller, but its progress is.
        let result_bytes = output_bytes / 2;
        inner.nested = (host_calls, output_bytes - result_bytes);
        let usage = Usage { host_calls, output_bytes, result_bytes, ..Usage::default() };
        let result = match &*tool {
            "" => Err(Fault::Failed { kind: "not-found".to_owned(), message: "there is no such tool".to_owned() }),
            _ => Ok(vec![Content::Text(tool)]),
        };
        Box::pin(async { Finished { result, usage } })
    }

    fn entries(&self, _: Option<&str>, _: usize) -> Vec<CallableTool> {
        Vec::new()
    }

    fn find<'a>(&'a self, _: &'a str, _: usize) -> BoxFuture<'a, (Vec<CallableTool>, u64)> {
        Box::pin(async { (Vec::new(), 0) })
    }
}

impl CallIdentity for Host {
    fn call_id(&self) -> String {
        "call".to_owned()
    }
}

impl LogSink for Host {
    fn write(&self, _: LogLevel, message: &str) {
        assert_eq!(message, text::clean_line(message), "a line of log is one clean line");
        drop(self.hear(None));
    }
}

impl ProgressSink for Host {
    fn report(&self, text: &str) {
        assert_eq!(text, text::clean(text), "progress is clean");
        drop(self.hear(None));
    }
}
