//! Keeps HTTP clients, which lets requests with equal keys reuse connections. `egress` takes its clients from here.

use std::time::Duration;

use parking_lot::Mutex;
use patchbay_policy::HostPattern;
use reqwest::Client;

use crate::{AddressScope, Request};

/// Requests with equal keys may share connections. Requests of different owners never do, because one owner's state (such as a
/// login or a surplus response) may remain on a connection. Nor do requests that were allowed by different rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) owner: String,
    pub(crate) rule: HostPattern,
    pub(crate) reach: AddressScope,
    pub(crate) plain: bool,
}

impl Key {
    pub(crate) fn of(request: &Request) -> Self {
        let target = &request.target;
        Self {
            owner: request.owner.clone(),
            rule: target.rule().clone(),
            reach: target.reach(),
            plain: target.origin().is_plain(),
        }
    }
}

/// HTTP clients by [`Key`], each with its own connections. The most recently used ones are kept.
#[derive(Default)]
pub(crate) struct Pools(Mutex<Vec<(Key, Client)>>);

impl Pools {
    /// Number of HTTP clients that are kept: more than a session has plugins and providers.
    const KEPT: usize = 32;
    /// Idle connections that are kept for each host.
    pub(crate) const IDLE_PER_HOST: usize = 4;
    /// How long an idle connection is kept. Servers close theirs after a minute or so.
    pub(crate) const IDLE: Duration = Duration::from_secs(30);

    pub(crate) fn get(&self, key: &Key) -> Option<Client> {
        let mut kept = self.0.lock();
        let at = kept.iter().position(|(there, _)| there == key)?;
        let entry = kept.remove(at);
        let client = entry.1.clone();
        kept.push(entry);
        Some(client)
    }

    /// Keeps `client`. Returns the client to use, which is another one if a client was added for the same key in the
    /// meantime.
    pub(crate) fn keep(&self, key: Key, client: Client) -> Client {
        if let Some(there) = self.get(&key) {
            return there;
        }
        let mut kept = self.0.lock();
        if kept.len() >= Self::KEPT {
            kept.remove(0);
        }
        kept.push((key, client.clone()));
        client
    }
}
