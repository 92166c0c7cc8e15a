//! A store in memory for the tests. Any call can be made to fail.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::store::{Entry, Error, Store};

/// The store. Clones share the entries, as sessions share a workspace; each clone has its own faults.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    shared: Arc<Mutex<Entries>>,
    plan: Option<Arc<Mutex<Plan>>>,
}

#[derive(Default)]
struct Entries {
    entries: BTreeMap<String, (Vec<u8>, u64)>,
    version: u64,
}

/// A fault at a call.
pub(crate) enum Fault {
    /// Another session acts just before the call.
    Before(Box<dyn FnMut() + Send>),
    /// The call fails with this kind and has no effect.
    InsteadOf(&'static str),
    /// The call takes effect, but fails with this kind.
    After(&'static str),
}

struct Plan {
    fault: Fault,
    /// The index of the call that fails; `None`: every write of a key with the prefix.
    step: Option<usize>,
    prefix: &'static str,
    calls: usize,
    struck: bool,
}

impl Fake {
    /// Returns a clone with a fault at one call.
    pub(crate) fn with(&self, step: usize, fault: Fault) -> Self {
        self.planned(fault, Some(step), "")
    }

    /// Returns a clone with a fault at every write of a key with `prefix`; with an empty prefix, at every call.
    pub(crate) fn with_all(&self, fault: Fault, prefix: &'static str) -> Self {
        self.planned(fault, None, prefix)
    }

    fn planned(&self, fault: Fault, step: Option<usize>, prefix: &'static str) -> Self {
        let plan = Plan { fault, step, prefix, calls: 0, struck: false };
        Self { shared: Arc::clone(&self.shared), plan: Some(Arc::new(Mutex::new(plan))) }
    }

    /// Returns true if the fault has occurred.
    pub(crate) fn struck(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| lock(plan).struck)
    }

    /// Returns the number of calls.
    pub(crate) fn calls(&self) -> usize {
        self.plan.as_ref().map_or(0, |plan| lock(plan).calls)
    }

    /// Returns all keys and values.
    pub(crate) fn entries(&self) -> Vec<(String, String)> {
        let entries = lock(&self.shared);
        let text = |value: &Vec<u8>| String::from_utf8_lossy(value).into_owned();
        entries.entries.iter().map(|(key, (value, _))| (key.clone(), text(value))).collect()
    }

    fn call<T>(&self, written: Option<&str>, work: impl FnOnce(&mut Entries) -> Result<T, Error>) -> Result<T, Error> {
        let Some(plan) = &self.plan else { return work(&mut lock(&self.shared)) };
        let mut plan = lock(plan);
        let strikes = match plan.step {
            Some(step) => step == plan.calls,
            None => plan.prefix.is_empty() || written.is_some_and(|key| key.starts_with(plan.prefix)),
        };
        plan.calls += 1;
        plan.struck |= strikes;
        match &mut plan.fault {
            Fault::Before(other) if strikes => other(),
            Fault::InsteadOf(kind) if strikes => return Err(error(kind)),
            Fault::After(kind) if strikes => return work(&mut lock(&self.shared)).and(Err(error(kind))),
            _ => {}
        }
        work(&mut lock(&self.shared))
    }
}

impl Store for Fake {
    fn get(&mut self, key: &str) -> Result<Option<Entry>, Error> {
        self.call(None, |entries| {
            let entry = entries.entries.get(key);
            Ok(entry.map(|(value, version)| Entry { value: value.clone(), version: *version }))
        })
    }

    fn put(&mut self, key: &str, value: &[u8], expect: u64) -> Result<u64, Error> {
        self.call(Some(key), |entries| {
            if entries.entries.get(key).map_or(0, |(_, version)| *version) != expect {
                return Err(error("conflict"));
            }
            entries.version += 1;
            entries.entries.insert(key.to_owned(), (value.to_vec(), entries.version));
            Ok(entries.version)
        })
    }

    fn delete(&mut self, key: &str) -> Result<bool, Error> {
        self.call(Some(key), |entries| Ok(entries.entries.remove(key).is_some()))
    }

    fn keys(&mut self, prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>, Error> {
        self.call(None, |entries| {
            let keys = entries.entries.keys().filter(|key| key.starts_with(prefix));
            let keys = keys.filter(|key| after.is_none_or(|after| key.as_str() > after));
            Ok(keys.take(limit as usize).cloned().collect())
        })
    }
}

fn error(kind: &str) -> Error {
    Error { kind: kind.to_owned(), message: format!("a fake {kind}") }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
