//! The state of the simulated host, and how tests prepare and inspect it.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::bindings::patchbay::host::{
    http::{Pair, Request, Response},
    kv::Scope,
    log::Level,
    types::Error,
};

/// A host in memory. Clones share the session; [`other_session`](Self::other_session) creates another one.
#[derive(Clone, Default)]
pub struct Host {
    shared: Arc<Mutex<Shared>>,
    session: Arc<Session>,
}

/// The state that all sessions of a workspace share.
#[derive(Default)]
pub(super) struct Shared {
    /// The contents by path; the path of a folder ends with `/`.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// The files of the skill, by path.
    pub(super) skill_files: BTreeMap<String, Vec<u8>>,
    /// Maximum number of bytes that one read returns; `None`: as many as requested.
    pub(super) max_read: Option<usize>,
    /// The values and versions by scope and key.
    pub(super) entries: BTreeMap<(ScopeId, String), (Vec<u8>, u64)>,
    /// The last version that was assigned.
    pub(super) version: u64,
    pub(super) responses: BTreeMap<String, Response>,
    pub(super) requests: Vec<Request>,
    /// The messages of the log, with their levels.
    pub(super) logged: Vec<(Level, String)>,
    pub(super) progress: Vec<String>,
}

/// The scope of an entry. The store of a session is identified by the session's address in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ScopeId {
    Session(usize),
    Workspace,
    User,
}

#[derive(Default)]
struct Session {
    calls: Mutex<Vec<Call>>,
    hook: Option<Mutex<Box<Hook>>>,
}

type Hook = dyn FnMut(&Call) -> Reaction + Send;

/// A recorded call of a capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The number of earlier calls of the session.
    pub index: usize,
    /// The module and the function, such as `kv.put`.
    pub function: &'static str,
    /// The path, glob, key, prefix or URL.
    pub target: String,
}

/// The result of a call, chosen by [`Host::on_call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// The call works as it normally would.
    Proceed,
    /// The call has no effect and fails with this kind, such as `denied`.
    Fail(&'static str),
    /// The call takes effect, but fails with this kind, such as `timeout`.
    FailAfter(&'static str),
}

thread_local! {
    /// The hosts whose `run` is active on this thread, innermost last.
    static ACTIVE: RefCell<Vec<Host>> = const { RefCell::new(Vec::new()) };
}

impl Host {
    /// Creates a host with an empty workspace and store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file, or replaces it.
    #[must_use]
    pub fn with_file(self, path: &str, contents: impl AsRef<[u8]>) -> Self {
        self.lock().files.insert(path.to_owned(), contents.as_ref().to_vec());
        self
    }

    /// Adds a file of the skill itself, or replaces it.
    #[must_use]
    pub fn with_skill_file(self, path: &str, contents: impl AsRef<[u8]>) -> Self {
        self.lock().skill_files.insert(path.to_owned(), contents.as_ref().to_vec());
        self
    }

    /// Adds a folder, which `workspace::walk` then lists. Without it, the folders of files are not listed.
    #[must_use]
    pub fn with_folder(self, path: &str) -> Self {
        self.with_file(&format!("{}/", path.trim_end_matches('/')), [])
    }

    /// Limits the bytes that one read returns, as the real host may at any time.
    #[must_use]
    pub fn with_max_read(self, bytes: usize) -> Self {
        self.lock().max_read = Some(bytes);
        self
    }

    /// Sets the response for all requests to a URL.
    #[must_use]
    pub fn with_response(self, url: &str, response: Response) -> Self {
        self.lock().responses.insert(url.to_owned(), response);
        self
    }

    /// Returns a session of the same workspace with a function that is called before each call of a capability. The
    /// function may itself act in another session, which simulates concurrent changes.
    #[must_use]
    pub fn on_call(&self, hook: impl FnMut(&Call) -> Reaction + Send + 'static) -> Self {
        let session = Session { calls: Mutex::default(), hook: Some(Mutex::new(Box::new(hook))) };
        Self { shared: Arc::clone(&self.shared), session: Arc::new(session) }
    }

    /// Returns another session of the same workspace.
    #[must_use]
    pub fn other_session(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), session: Arc::default() }
    }

    /// Runs code of a skill with this host.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Restores the earlier host, even after a panic.
        struct Active;
        impl Drop for Active {
            fn drop(&mut self) {
                ACTIVE.with_borrow_mut(|active| active.pop());
            }
        }
        ACTIVE.with_borrow_mut(|active| active.push(self.clone()));
        let _active = Active;
        work()
    }

    /// Returns the contents of a file, if it exists.
    pub fn file(&self, path: &str) -> Option<Vec<u8>> {
        self.lock().files.get(path).cloned()
    }

    /// Returns the keys and values of a scope of the store, sorted by key.
    pub fn entries(&self, scope: Scope) -> Vec<(String, Vec<u8>)> {
        let scope = self.scope_id(scope);
        let shared = self.lock();
        let entries = shared.entries.iter().filter(|((of, _), _)| *of == scope);
        entries.map(|((_, key), (value, _))| (key.clone(), value.clone())).collect()
    }

    /// Returns all HTTP requests of the workspace, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.lock().requests.clone()
    }

    /// Returns all messages that were written to the log, in order.
    pub fn logged(&self) -> Vec<(Level, String)> {
        self.lock().logged.clone()
    }

    /// Returns all partial output, in order.
    pub fn progress(&self) -> Vec<String> {
        self.lock().progress.clone()
    }

    /// Returns all calls of this session, in order. The log and progress, which cannot fail, are not among them.
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.session.calls).clone()
    }

    pub(super) fn scope_id(&self, scope: Scope) -> ScopeId {
        match scope {
            Scope::Session => ScopeId::Session(Arc::as_ptr(&self.session) as usize),
            Scope::Workspace => ScopeId::Workspace,
            Scope::User => ScopeId::User,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }
}

/// Returns a response with these headers.
pub fn response(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Response {
    let pair = |(name, value): &(&str, &str)| Pair { name: (*name).to_owned(), value: (*value).to_owned() };
    Response { status, headers: headers.iter().map(pair).collect(), body: body.as_ref().to_vec() }
}

/// Runs one call of a capability on the active host.
pub(super) fn call<T>(
    function: &'static str,
    target: &str,
    work: impl FnOnce(&Host, &mut Shared) -> Result<T, Error>,
) -> Result<T, Error> {
    let Some(host) = ACTIVE.with_borrow(|active| active.last().cloned()) else {
        panic!("{function} was called outside of patchbay_sdk::testing::Host::run");
    };
    let call = {
        let mut calls = lock(&host.session.calls);
        let call = Call { index: calls.len(), function, target: target.to_owned() };
        calls.push(call.clone());
        call
    };
    // The shared state is not locked here, because the hook may call capabilities in another session.
    let reaction = host.session.hook.as_ref().map_or(Reaction::Proceed, |hook| lock(hook)(&call));
    match reaction {
        Reaction::Proceed => work(&host, &mut host.lock()),
        Reaction::Fail(kind) => Err(error(kind)),
        Reaction::FailAfter(kind) => work(&host, &mut host.lock()).and(Err(error(kind))),
    }
}

/// Records the arguments of a capability without a result, if a host is active.
pub(super) fn record(work: impl FnOnce(&mut Shared)) {
    if let Some(host) = ACTIVE.with_borrow(|active| active.last().cloned()) {
        work(&mut host.lock());
    }
}

/// Returns an error of the host with this kind.
pub(super) fn error(kind: &str) -> Error {
    Error { kind: kind.to_owned(), message: format!("simulated {kind}") }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The panic of a test in one thread must not be hidden by panics of other threads.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
