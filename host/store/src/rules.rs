//! The current rules for calls: blocks, grants, and the workspaces where skills may write. Read before every call by
//! `tools` and `provider`. The database is read again only if a decision has been committed since the last read.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use parking_lot::Mutex;
use patchbay_core::Digest;

use crate::{Store, StoreError};

/// All blocks, grants and workspaces with write trust, as of one commit.
#[derive(Debug, Default)]
pub struct Rules {
    blocked: HashSet<Digest>,
    /// The grants of each identity.
    grants: BTreeMap<(String, String, String), Vec<GrantRule>>,
    writable: HashSet<String>,
}

/// A grant that belongs to one identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRule {
    /// The capability, or `call` for a tool.
    pub capability: String,
    /// The digest of the skill's files or of the tool; empty for a bundled skill.
    pub skill_digest: String,
    /// The only workspace where it is valid; empty if it is valid in every workspace.
    pub place: String,
}

/// The rules that were read last, with their generation.
#[derive(Debug, Default)]
pub(crate) struct RulesCache(Mutex<Option<(u64, Arc<Rules>)>>);

impl RulesCache {
    fn get(&self, generation: u64) -> Option<Arc<Rules>> {
        let cached = self.0.lock();
        cached.as_ref().filter(|(read, _)| *read == generation).map(|(_, rules)| Arc::clone(rules))
    }

    fn keep(&self, generation: u64, rules: &Arc<Rules>) {
        *self.0.lock() = Some((generation, Arc::clone(rules)));
    }
}

impl Rules {
    /// Returns the first of `digests` that is blocked.
    pub fn first_blocked(&self, digests: impl IntoIterator<Item = Digest>) -> Option<Digest> {
        digests.into_iter().find(|digest| self.blocked.contains(digest))
    }

    /// Returns the grants of one identity that are valid in the workspace `place`, in order.
    pub fn grants_of<'a>(
        &'a self,
        root: &str,
        workspace: &str,
        skill: &str,
        place: &'a str,
    ) -> impl Iterator<Item = &'a GrantRule> + use<'a> {
        // Without grants, nothing is allocated.
        let identity = (!self.grants.is_empty()).then(|| (root.to_owned(), workspace.to_owned(), skill.to_owned()));
        let grants = identity.and_then(|identity| self.grants.get(&identity)).map_or(&[][..], Vec::as_slice);
        grants.iter().filter(move |grant| grant.place.is_empty() || grant.place == place)
    }

    /// Returns whether skills may write protected files in `workspace`: files in a home folder, and
    /// files with instructions for agents.
    pub fn may_write(&self, workspace: &str) -> bool {
        self.writable.contains(workspace)
    }
}

impl Store {
    /// Returns whether a component is currently blocked, even if another process blocked it.
    ///
    /// # Errors
    /// A database error. On an error, the component must not run.
    pub async fn is_blocked(&self, component: &Digest) -> Result<bool, StoreError> {
        Ok(self.rules().await?.first_blocked([*component]).is_some())
    }

    /// Returns the current rules, including decisions of other processes. Without a new decision, this takes one system call.
    ///
    /// # Errors
    /// A database error. On an error, nothing may run or be allowed.
    pub async fn rules(&self) -> Result<Arc<Rules>, StoreError> {
        // The generation is read before the rules. If a decision is committed in between, the rules are only read once
        // more than necessary.
        let generation = self.generation.current();
        if let Some(rules) = generation.and_then(|generation| self.rules.get(generation)) {
            return Ok(rules);
        }
        // Boxed, because a read is rare and should not enlarge the future of every call.
        let rules = Arc::new(Box::pin(self.read_rules()).await?);
        if let Some(generation) = generation {
            self.rules.keep(generation, &rules);
        }
        Ok(rules)
    }

    async fn read_rules(&self) -> Result<Rules, StoreError> {
        let mut rules = Rules::default();
        rules.blocked.extend(self.blocked().await?.into_iter().map(|block| block.component));
        rules.writable.extend(self.writable().await?);
        for row in self.grants().await? {
            let rule = GrantRule { capability: row.capability, skill_digest: row.skill_digest, place: row.place };
            rules.grants.entry((row.root, row.workspace, row.skill)).or_default().push(rule);
        }
        Ok(rules)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Rules;
    use crate::{GrantRow, Store};

    fn grant() -> GrantRow {
        GrantRow {
            root: "user".to_owned(),
            workspace: String::new(),
            skill: "notes".to_owned(),
            capability: "kv".to_owned(),
            place: String::new(),
            skill_digest: String::new(),
        }
    }

    #[tokio::test]
    async fn decisions_of_other_processes_apply_to_the_next_call() {
        let folder = tempfile::tempdir().unwrap();
        // Two stores of one folder share nothing but the files, as two processes do.
        let (ours, theirs) = (Store::open(folder.path()).unwrap(), Store::open(folder.path()).unwrap());
        let component = patchbay_core::Digest::of(b"component");
        for _ in 0..3 {
            assert!(!ours.is_blocked(&component).await.unwrap());
            assert!(theirs.block(component).await.unwrap());
            assert!(ours.is_blocked(&component).await.unwrap());
            assert!(ours.unblock(component).await.unwrap());
            assert!(!theirs.is_blocked(&component).await.unwrap());
            theirs.add_grant(grant(), String::new()).await.unwrap();
            let of = |rules: Arc<Rules>, root: &str| {
                rules.grants_of(root, "", "notes", "/w").map(|rule| rule.capability.clone()).collect::<Vec<_>>()
            };
            assert_eq!(of(ours.rules().await.unwrap(), "user"), ["kv"]);
            assert_eq!(of(ours.rules().await.unwrap(), "bundled"), <[&str; 0]>::default());
            assert!(ours.remove_grant(grant()).await.unwrap());
            assert_eq!(of(theirs.rules().await.unwrap(), "user"), <[&str; 0]>::default());
            assert!(!ours.rules().await.unwrap().may_write("/home/me"));
            assert!(theirs.set_may_write("/home/me".to_owned(), true).await.unwrap());
            assert!(ours.rules().await.unwrap().may_write("/home/me") && !ours.is_trusted("/home/me").await.unwrap());
            assert!(ours.set_may_write("/home/me".to_owned(), false).await.unwrap());
            assert!(!theirs.rules().await.unwrap().may_write("/home/me"));
        }
    }

    #[tokio::test]
    async fn rules_are_not_cached_during_a_commit() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let component = patchbay_core::Digest::of(b"component");
        assert!(!store.is_blocked(&component).await.unwrap());
        // A process was killed after its commit and before it wrote the new number.
        store.generation.begin().unwrap();
        let connection = rusqlite::Connection::open(folder.path().join("patchbay.db")).unwrap();
        let sql = "INSERT INTO blocks (component, created_at) VALUES (?, 0)";
        connection.execute(sql, [component.to_string()]).unwrap();
        assert!(store.is_blocked(&component).await.unwrap());
    }
}
