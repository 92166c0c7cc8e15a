//! The capabilities, called as a guest would, with no component at all.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use patchbay_core::Digest;
use patchbay_policy::{Capability, Grant, Identity, Permits, Root};

use crate::{
    BoxFuture, Entry, Failure, Kv, KvError, Level, Limits, LogSink, Progress, Scope, Services,
    bindings::patchbay::host::{http, inference, kv, log, progress, tools, workspace_read, workspace_write},
    call::{Reach, State},
};

/// A store in memory and ears that keep what they hear.
#[derive(Default)]
struct Fake {
    entries: Mutex<BTreeMap<(Scope, String), Entry>>,
    heard: Mutex<Vec<String>>,
}

impl Kv for Fake {
    fn get<'a>(&'a self, scope: Scope, key: &'a str) -> BoxFuture<'a, Result<Option<Entry>, KvError>> {
        Box::pin(async move { Ok(self.entries.lock().unwrap().get(&(scope, key.to_owned())).cloned()) })
    }

    fn put<'a>(
        &'a self,
        scope: Scope,
        key: &'a str,
        value: Vec<u8>,
        expect: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, KvError>> {
        Box::pin(async move {
            let mut entries = self.entries.lock().unwrap();
            let found = entries.get(&(scope, key.to_owned())).map_or(0, |entry| entry.version);
            if let Some(expected) = expect.filter(|expected| *expected != found) {
                return Err(KvError::Conflict { key: key.to_owned(), expected, found });
            }
            entries.insert((scope, key.to_owned()), Entry { value, version: found + 1 });
            Ok(found + 1)
        })
    }

    fn delete<'a>(&'a self, scope: Scope, key: &'a str) -> BoxFuture<'a, Result<bool, KvError>> {
        Box::pin(async move { Ok(self.entries.lock().unwrap().remove(&(scope, key.to_owned())).is_some()) })
    }

    fn keys<'a>(
        &'a self,
        _: Scope,
        _: &'a str,
        _: Option<&'a str>,
        _: u32,
    ) -> BoxFuture<'a, Result<Vec<String>, KvError>> {
        Box::pin(async move { Ok(self.entries.lock().unwrap().keys().map(|(_, key)| key.clone()).collect()) })
    }
}

impl LogSink for Fake {
    fn write(&self, level: Level, message: &str) {
        self.heard.lock().unwrap().push(format!("{level:?} {message}"));
    }
}

impl Progress for Fake {
    fn report(&self, text: &str) {
        self.heard.lock().unwrap().push(text.to_owned());
    }
}

fn state(limits: Limits, asked: &[Capability], granted: &[Capability]) -> (State, Arc<Fake>) {
    let fake = Arc::new(Fake::default());
    let grants = granted.iter().map(|capability| Grant { capability: capability.clone(), digest: None }).collect();
    let identity = Identity::new(Root::User, "", "test".parse().unwrap());
    let permits = Arc::new(Permits::new(identity, Digest::of(b""), asked.to_vec(), grants));
    let services = Services { kv: fake.clone(), progress: fake.clone(), log: fake.clone() };
    (State::new(Arc::new(limits), Some(Reach { permits, services })), fake)
}

#[tokio::test]
async fn kv_works_when_asked_and_granted() {
    use kv::Host as _;
    let (mut state, _) = state(Limits::default(), &[Capability::Kv], &[Capability::Kv]);
    let put = state.put(kv::Scope::User, "k".into(), b"v".to_vec(), Some(0)).await.unwrap();
    assert_eq!(put.unwrap(), 1);
    let entry = state.get(kv::Scope::User, "k".into()).await.unwrap().unwrap().unwrap();
    assert_eq!((&entry.value[..], entry.version), (&b"v"[..], 1));
    assert!(state.get(kv::Scope::Session, "k".into()).await.unwrap().unwrap().is_none());
    assert_eq!(state.keys(kv::Scope::User, String::new(), None, 10).await.unwrap().unwrap(), ["k"]);
    let conflict = state.put(kv::Scope::User, "k".into(), vec![], Some(7)).await.unwrap().unwrap_err();
    assert_eq!(
        (conflict.kind.as_str(), conflict.message.as_str()),
        ("conflict", "key 'k' is at version 1, not 7; read it again")
    );
    assert!(state.delete(kv::Scope::User, "k".into()).await.unwrap().unwrap());
}

#[tokio::test]
async fn kv_is_denied_in_the_hosts_own_words() {
    use kv::Host as _;
    for (asked, words) in [
        (&[][..], "its SKILL.md does not ask for it"),
        (&[Capability::Kv][..], "To grant it: patchbay grant add test kv"),
    ] {
        let (mut state, fake) = state(Limits::default(), asked, &[]);
        let denied = state.put(kv::Scope::User, "k".into(), vec![], None).await.unwrap().unwrap_err();
        assert_eq!(denied.kind, "denied");
        assert!(denied.message.contains(words), "{}", denied.message);
        assert!(fake.entries.lock().unwrap().is_empty(), "it was written all the same");
    }
}

#[tokio::test]
async fn nothing_is_granted_and_nobody_listens_while_a_component_is_asked_for_its_tools() {
    let mut state = State::new(Arc::new(Limits::default()), None);
    let denied = kv::Host::get(&mut state, kv::Scope::User, "k".into()).await.unwrap().unwrap_err();
    assert_eq!(denied.kind, "denied");
    log::Host::write(&mut state, log::Level::Info, "hello".into()).await.unwrap();
    progress::Host::report(&mut state, "hello".into()).await.unwrap();
}

#[tokio::test]
async fn log_and_progress_are_cleaned_and_bounded() {
    let limits = Limits { log_lines: 2, output_bytes: 20, ..Limits::default() };
    let (mut state, fake) = state(limits, &[], &[]);
    log::Host::write(&mut state, log::Level::Warn, "a\u{1b}[31m\nb".into()).await.unwrap();
    progress::Host::report(&mut state, "half\u{202e} done".into()).await.unwrap();
    assert_eq!(*fake.heard.lock().unwrap(), ["Warn a[31m b", "half done"]);
    log::Host::write(&mut state, log::Level::Warn, "2".into()).await.unwrap();
    let stopped = log::Host::write(&mut state, log::Level::Warn, "3".into()).await.unwrap_err();
    assert!(matches!(stopped.downcast_ref(), Some(Failure::Log { lines: 2, .. })));
    let stopped = progress::Host::report(&mut state, "more than there is room for".into()).await.unwrap_err();
    assert!(matches!(stopped.downcast_ref(), Some(Failure::Output { limit: 20 })));
}

#[tokio::test]
async fn every_function_counts_as_a_host_call() {
    let (mut state, _) = state(Limits { host_calls: 0, ..Limits::default() }, &[Capability::Kv], &[Capability::Kv]);
    let s = &mut state;
    let text = String::new;
    let stopped = [
        log::Host::write(s, log::Level::Info, text()).await.unwrap_err(),
        progress::Host::report(s, text()).await.unwrap_err(),
        kv::Host::get(s, kv::Scope::User, text()).await.unwrap_err(),
        kv::Host::put(s, kv::Scope::User, text(), vec![], None).await.unwrap_err(),
        kv::Host::delete(s, kv::Scope::User, text()).await.unwrap_err(),
        kv::Host::keys(s, kv::Scope::User, text(), None, 1).await.unwrap_err(),
        workspace_read::Host::read(s, text(), 0, 1).await.unwrap_err(),
        workspace_read::Host::walk(s, text(), None, 1).await.unwrap_err(),
        workspace_write::Host::write(s, text(), vec![]).await.unwrap_err(),
        workspace_write::Host::delete(s, text()).await.unwrap_err(),
        inference::Host::complete(s, text(), text()).await.unwrap_err(),
        tools::Host::call(s, text(), text()).await.unwrap_err(),
    ];
    for error in stopped {
        assert!(matches!(error.downcast_ref(), Some(Failure::HostCalls { limit: 0 })), "{error:#}");
    }
}

#[tokio::test]
async fn what_is_not_built_yet_says_so() {
    let (mut state, _) = state(Limits::default(), &[], &[]);
    let request = http::Request {
        method: "GET".into(),
        url: "https://example.com".into(),
        headers: vec![],
        auth: vec![],
        body: None,
        timeout_ms: None,
    };
    let errors = [
        http::Host::send(&mut state, request).await.unwrap().map(drop).unwrap_err(),
        workspace_read::Host::read(&mut state, "a".into(), 0, 1).await.unwrap().map(drop).unwrap_err(),
        workspace_write::Host::delete(&mut state, "a".into()).await.unwrap().unwrap_err(),
        inference::Host::complete(&mut state, "a".into(), "b".into()).await.unwrap().map(drop).unwrap_err(),
        tools::Host::call(&mut state, "a".into(), "{}".into()).await.unwrap().map(drop).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind, "unavailable");
    }
}
