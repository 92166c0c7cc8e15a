use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use patchbay_policy::Host;
use reqwest::Client;

use crate::{Reach, Request};

/// Whose connections they are, and by which rule they were made. A connection serves no request of another owner, who
/// could find on it what the first one left (a login that holds for a connection, an answer too many), nor one that
/// was checked by another rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) owner: String,
    pub(crate) rule: Host,
    pub(crate) reach: Reach,
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

/// The clients, one for each [`Key`], each with its own connections. The ones that were used last are kept.
#[derive(Default)]
pub(crate) struct Pools(Mutex<Vec<(Key, Client)>>);

impl Pools {
    /// Clients that are kept: more than a session's plugins and providers at work.
    const KEPT: usize = 32;
    /// Connections to one host that are kept while idle.
    pub(crate) const IDLE_PER_HOST: usize = 4;
    /// How long an idle connection is kept. Servers close theirs after a minute or so.
    pub(crate) const IDLE: Duration = Duration::from_secs(30);

    pub(crate) fn get(&self, key: &Key) -> Option<Client> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(there, _)| there == key)?;
        let entry = kept.remove(at);
        let client = entry.1.clone();
        kept.push(entry);
        Some(client)
    }

    /// Keeps `client`. If another was quicker, that one is used.
    pub(crate) fn keep(&self, key: Key, client: Client) -> Client {
        if let Some(there) = self.get(&key) {
            return there;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= Self::KEPT {
            kept.remove(0);
        }
        kept.push((key, client.clone()));
        client
    }
}
