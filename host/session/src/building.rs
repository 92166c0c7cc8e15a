//! Builds snapshots from the current content of the roots. A new session and `/reload_skills` call it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use patchbay_agent::INTERNAL_TOOLS;
use patchbay_command::RESERVED;
use patchbay_core::{Code, Digest, Name, RootLimits, SessionId};
use patchbay_policy::{Identity, Root};
use patchbay_skill::{
    Candidate, Changed, Component, DescribedTools, Diff, FileStorage, FoundSkill, Problem, ReadFiles, Snapshot,
    SnapshotRules, build,
};
use patchbay_store::{NewSnapshot, RetainedComponents, Store, StoreError};
use patchbay_tools::Group;

use crate::{
    Host, Observer, SessionError,
    platform::HostPlatform,
    roots::{CacheMode, Scan},
    workspace_path::workspace_path,
};

/// A new snapshot that is not stored yet. Its components are already stored.
pub(crate) struct Built {
    pub(crate) snapshot: Snapshot,
    components: RetainedComponents,
    /// Instructions that were read for this snapshot.
    texts: BTreeMap<Digest, Arc<str>>,
    /// File lists of the skills. Grants and the reports of reloads refer to them.
    pub(crate) files: BTreeMap<Digest, Arc<str>>,
}

impl Built {
    /// Returns the snapshot in the form of the store.
    pub(crate) fn stored(&self) -> NewSnapshot {
        let Self { snapshot, components, texts, files } = self;
        NewSnapshot {
            digest: snapshot.digest(),
            body: snapshot.to_json().to_owned(),
            components: components.clone(),
            instructions: snapshot.skills().map(|skill| skill.manifest.instructions.digest).collect(),
            texts: texts.clone(),
            skills: snapshot.skills().map(|skill| (skill.digest, files.get(&skill.digest).cloned())).collect(),
        }
    }
}

/// Number of times that a scan is repeated because a component changed while it was read.
const MAX_RESCANS: usize = 2;

impl Host {
    /// Scans all roots and builds a snapshot for `session`.
    ///
    /// A cached digest is known without reading the component, and files may change at any time. So bytes are
    /// accepted only if they match the digest; otherwise all roots are scanned again without the cache. A component
    /// that keeps changing is left out.
    ///
    /// `uses_skills` indicates whether the session has run a turn or a skill. Until then, the files of an untrusted
    /// workspace's skills are not stored; `workspace_skill_files` stores them later.
    pub(crate) async fn build_snapshot(
        self: &Arc<Self>,
        session: SessionId,
        workspace: &str,
        version: u64,
        uses_skills: bool,
    ) -> Result<Built, SessionError> {
        let progress = CompileProgress::new(&*self.observer, session);
        let (mut mode, mut again) = (CacheMode::Use, MAX_RESCANS);
        'scan: loop {
            let trusted = self.store.is_trusted(workspace).await?;
            let mut scan = self.scan(workspace, trusted, mode).await?;
            let groups = groups(&scan.found, trusted, self.roots.limits());
            // A reload retries components that failed before.
            let reloads = version > 1;
            let mut described =
                self.tools.describe_roots(&groups, reloads, &|done, of| progress.report(done, of)).await?;
            let mut changed = described.changed;
            loop {
                if changed && again > 0 {
                    (mode, again) = (CacheMode::Bypass, again - 1);
                    continue 'scan;
                }
                let mut snapshot = snapshot(&scan.found, version, trusted, self.roots.limits(), &described.answers);
                let stores_files = |root: Root| trusted || uses_skills || !root.is_workspace();
                match self.retain(&snapshot, &scan.found, stores_files).await? {
                    Retained::All(components) => {
                        // Another process may have garbage-collected a text since its file was last read.
                        let has_texts = self.has_texts(&snapshot).await?;
                        if !has_texts && again > 0 {
                            (mode, again) = (CacheMode::Bypass, again - 1);
                            continue 'scan;
                        }
                        self.roots.remember(&self.store, &mut scan).await;
                        let (texts, files) = (snapshot.take_texts(), files(&scan.found));
                        return Ok(Built { snapshot, components, texts, files });
                    }
                    // Some files have changed since they were scanned: build the snapshot
                    // again with the digests just read.
                    Retained::Read(read) => {
                        for (root, old, new) in read {
                            replace(&mut scan.found, root, &old, &Ok(new));
                        }
                    }
                    Retained::Lost { components, skills } => {
                        changed = true;
                        described.answers.extend(components.into_iter().map(|digest| (digest, Err(Changed.into()))));
                        let problem = Err(Problem::new(Code::MissingSkillMd, Changed.to_string()));
                        for (root, lost) in skills {
                            replace(&mut scan.found, root, &lost, &problem);
                        }
                    }
                }
            }
        }
    }

    /// Returns the snapshot that a new session on `workspace` would have. New components are compiled and
    /// stored, but the snapshot is not.
    ///
    /// # Errors
    /// [`SessionError`] if the workspace or the store cannot be used.
    pub async fn preview_snapshot(self: &Arc<Self>, workspace: &Path) -> Result<Snapshot, SessionError> {
        let workspace = workspace_path(workspace)?;
        self.preview_snapshot_of(&workspace).await
    }

    /// Like [`Host::preview_snapshot`], for a canonical path.
    pub(crate) async fn preview_snapshot_of(self: &Arc<Self>, workspace: &str) -> Result<Snapshot, SessionError> {
        let unsaved = SessionId::from_bytes(self.store.source().uuid());
        Ok(self.build_snapshot(unsaved, workspace, 1, false).await?.snapshot)
    }

    /// Returns whether a reload would change those skills of the snapshot `of` that come from files. Runs no component; a
    /// component whose tools are unknown counts as a change.
    pub(crate) async fn differs(self: &Arc<Self>, of: &Snapshot, workspace: &str) -> Result<bool, SessionError> {
        let trusted = self.store.is_trusted(workspace).await?;
        let scan = self.scan(workspace, trusted, CacheMode::Use).await?;
        let limits = self.roots.limits();
        let Some(answers) = self.tools.known(&groups(&scan.found, trusted, limits)).await? else { return Ok(true) };
        let now = snapshot(&scan.found, of.version(), trusted, limits, &answers);
        let Diff { added, removed, changed, .. } = Diff::between(of, &now);
        let is_on_disk = |snapshot: &Snapshot, name: &Name| {
            snapshot.skill(name.as_str()).is_some_and(|skill| skill.root != Root::Bundled)
        };
        let mut names = added.iter().chain(&removed).chain(&changed);
        Ok(now.diagnostics() != of.diagnostics() || names.any(|name| is_on_disk(of, name) || is_on_disk(&now, name)))
    }

    /// Returns the current skills called `name` as seen from `workspace`, for a grant: each with its identity, lowest root first.
    /// Skills that cannot be read are left out.
    ///
    /// # Errors
    /// Errors of the workspace or the store.
    pub async fn skills_named(
        self: &Arc<Self>,
        workspace: &Path,
        name: &Name,
    ) -> Result<Vec<(Identity, Candidate)>, SessionError> {
        let workspace = workspace_path(workspace)?;
        let trusted = self.store.is_trusted(&workspace).await?;
        let scan = self.scan(&workspace, trusted, CacheMode::Use).await?;
        let of_name = |FoundSkill { root, candidate, .. }: FoundSkill| {
            let candidate = candidate.ok().filter(|candidate| candidate.name == *name)?;
            let owner = candidate.root_path.as_deref().unwrap_or(&workspace);
            Some((Identity::new(root, owner, name.clone()), candidate))
        };
        let mut candidates: Vec<_> = scan.found.into_iter().filter_map(of_name).collect();
        candidates.sort_by_key(|(identity, _)| identity.root);
        Ok(candidates)
    }

    /// Scans all roots on a blocking thread.
    pub(crate) async fn scan(
        self: &Arc<Self>,
        workspace: &str,
        trusted: bool,
        mode: CacheMode,
    ) -> Result<Scan, SessionError> {
        let recalled = self.roots.recall(&self.store, workspace).await?;
        let (host, workspace) = (Arc::clone(self), PathBuf::from(workspace));
        off_thread(move || host.roots.scan(recalled, &workspace, trusted, mode)).await
    }

    /// Returns whether the store has the instructions that were not read in this scan. A stored snapshot has them all.
    async fn has_texts(&self, snapshot: &Snapshot) -> Result<bool, StoreError> {
        if self.store.has_snapshot(&snapshot.digest()).await? {
            return Ok(true);
        }
        let digests = snapshot.skills().map(|skill| &skill.manifest.instructions.digest);
        let needed = digests.filter(|digest| snapshot.text(digest).is_none());
        Ok(self.store.missing_texts(needed).await?.is_empty())
    }

    /// Stores the components that `snapshot` needs, and the files of the skills in roots for which `stores_files` returns true.
    async fn retain(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        found: &[FoundSkill],
        stores_files: impl Fn(Root) -> bool,
    ) -> Result<Retained, SessionError> {
        let candidates: BTreeMap<(Root, &Name, Digest), &Candidate> = found
            .iter()
            .filter_map(|found| found.candidate.as_ref().ok().map(|candidate| (found.root, candidate)))
            .map(|(root, candidate)| ((root, &candidate.name, candidate.digest()), candidate))
            .collect();
        // By digest: several files can contain the same component, and any of them provides its bytes.
        let components: BTreeMap<Digest, &Component> = found
            .iter()
            .filter_map(|found| found.candidate.as_ref().ok()?.component.as_ref())
            .map(|component| (component.digest(), component))
            .collect();
        let needed = snapshot.skills().filter_map(|skill| {
            let candidate = Candidate::clone(candidates.get(&(skill.root, &skill.name, skill.digest))?);
            let component = skill.component.and_then(|digest| components.get(&digest));
            let component = component.map(|it| Component::clone(it));
            Some(NeededSkill { root: skill.root, candidate, component, stores_files: stores_files(skill.root) })
        });
        let (store, needed) = (self.store.clone(), needed.collect());
        Ok(off_thread(move || retain(&store, needed)).await??)
    }
}

/// A skill of a new snapshot.
struct NeededSkill {
    root: Root,
    candidate: Candidate,
    component: Option<Component>,
    stores_files: bool,
}

/// The result of storing the components and skills that a snapshot needs.
enum Retained {
    All(RetainedComponents),
    /// Files of these skills have changed since the scan. Each entry has the scanned candidate, and the candidate that was read
    /// and stored instead.
    Read(Vec<(Root, Candidate, Candidate)>),
    /// These components and skills are no longer available.
    Lost {
        components: Vec<Digest>,
        skills: Vec<(Root, Candidate)>,
    },
}

/// Replaces a candidate of the scan.
fn replace(found: &mut [FoundSkill], root: Root, old: &Candidate, by: &Result<Candidate, Problem>) {
    for found in found.iter_mut().filter(|found| found.root == root) {
        let is_old = |it: &Candidate| it.name == old.name && it.digest() == old.digest();
        if found.candidate.as_ref().is_ok_and(is_old) {
            found.candidate.clone_from(by);
        }
    }
}

/// Groups the components by the trust in their roots, in the order of the scan. Components of an untrusted workspace come last
/// and are compiled one at a time.
fn groups<'f>(found: &'f [FoundSkill], trusted: bool, limits: &RootLimits) -> [Group<'f>; 2] {
    let group = |root: Root, is_own: bool| {
        let of_root = |found: &&FoundSkill| found.root.is_workspace() == root.is_workspace();
        let components = found.iter().filter(of_root);
        Group {
            root,
            components: components.filter_map(|found| found.candidate.as_ref().ok()?.component.as_ref()).collect(),
            compile_s: limits.allowance(is_own).compile_s,
            at_once: if is_own { thread::available_parallelism().map_or(1, usize::from) } else { 1 },
        }
    };
    [group(Root::User, true), group(Root::Workspace, trusted)]
}

/// Returns the file lists by the skill's digest.
fn files(found: &[FoundSkill]) -> BTreeMap<Digest, Arc<str>> {
    let candidates = found.iter().filter_map(|found| found.candidate.as_ref().ok());
    candidates.map(|candidate| (candidate.digest(), candidate.files.shared_text())).collect()
}

fn snapshot(
    found: &[FoundSkill],
    version: u64,
    trusted: bool,
    limits: &RootLimits,
    answers: &BTreeMap<Digest, DescribedTools>,
) -> Snapshot {
    let rules = SnapshotRules {
        trusted,
        reserved: RESERVED,
        internal_tools: INTERNAL_TOOLS,
        limits,
        platform: &HostPlatform,
        // Every component of the scan was described.
        tools: &|digest| answers.get(digest).cloned().unwrap_or_else(|| Ok(Arc::default())),
    };
    build(found, version, &rules)
}

fn retain(store: &Store, needed: Vec<NeededSkill>) -> Result<Retained, StoreError> {
    let mut held = store.retain_components()?;
    let (mut components, mut skills, mut read) = (Vec::new(), Vec::new(), Vec::new());
    // One component and the files of one skill at a time, to bound memory.
    for NeededSkill { root, candidate, component, stores_files } in needed {
        if let Some(component) = &component
            && !held.add_stored(component.digest(), component.size())
        {
            match component.bytes() {
                Ok(bytes) => drop(held.add(&bytes)?),
                Err(Changed) => components.push(component.digest()),
            }
        }
        let is_pack = candidate.totals.place == FileStorage::Pack;
        if !is_pack || !stores_files || held.has_skill_files(&candidate.digest()) {
            continue;
        }
        match candidate.read_files() {
            Ok(ReadFiles { files, candidate: now }) => {
                match now.digest() == candidate.digest() {
                    // `packages.lock` still names the scanned digest. A new scan notices this and leaves the package out.
                    false if root == Root::Package => skills.push((root, candidate)),
                    same => {
                        held.add_skill_files(&now.digest(), &files.to_pack())?;
                        read.extend((!same).then_some((root, candidate, now)));
                    }
                }
            }
            Err(Changed) => skills.push((root, candidate)),
        }
    }
    Ok(if !components.is_empty() || !skills.is_empty() {
        Retained::Lost { components, skills }
    } else if !read.is_empty() {
        Retained::Read(read)
    } else {
        Retained::All(held)
    })
}

pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SessionError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| SessionError::Folder { what: "the skills".to_owned(), source: error.into() })
}

/// Reports the progress of compilation to an observer, and its end when dropped.
struct CompileProgress<'a> {
    observer: &'a dyn Observer,
    session: SessionId,
    started: AtomicBool,
}

impl<'a> CompileProgress<'a> {
    fn new(observer: &'a dyn Observer, session: SessionId) -> Self {
        Self { observer, session, started: AtomicBool::new(false) }
    }

    fn report(&self, done: usize, total: usize) {
        self.started.store(true, Ordering::Relaxed);
        self.observer.compiling(self.session, done, total);
    }
}

impl Drop for CompileProgress<'_> {
    fn drop(&mut self) {
        if *self.started.get_mut() {
            self.observer.compiled(self.session);
        }
    }
}
