//! Tests of `discover_packages`: names, digests, order, limits.

use std::{cell::RefCell, collections::BTreeMap, fs, path::PathBuf};

use patchbay_core::Digest;

use super::*;
use crate::{CachedFile, LockedSkill, NoCache, PackageKind, Stat};

/// A temporary folder of packages.
struct Packages(tempfile::TempDir);

impl Packages {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a package of skills without tools, and returns its lock entry.
    fn package(&self, name: &str, order: u64, skills: &[&str]) -> LockedPackage {
        let digest = Digest::of(name.as_bytes());
        let locked = |skill: &&str| {
            let folder = self.0.path().join(name).join(digest.to_hex()).join("skills").join(skill);
            fs::create_dir_all(&folder).unwrap();
            let skill_md = format!("---\nsummary: {skill} of {name}\n---\nDo it.\n");
            fs::write(folder.join("SKILL.md"), &skill_md).unwrap();
            let files = crate::SkillFiles::new(&[("SKILL.md".to_owned(), Digest::of(skill_md.as_bytes()))].into());
            LockedSkill {
                name: skill.parse().unwrap(),
                path: format!("skills/{skill}"),
                digest: files.digest(),
                component: None,
                text: digest,
                tools: digest,
                asks: Vec::new(),
            }
        };
        LockedPackage {
            name: name.parse().unwrap(),
            kind: PackageKind::AgentPlugin,
            from: String::new(),
            found: String::new(),
            version: None,
            digest,
            order,
            added: String::new(),
            updated: String::new(),
            signer: None,
            skills: skills.iter().map(locked).collect(),
            servers: Vec::new(),
        }
    }

    fn path(&self, package: &LockedPackage, path: &str) -> PathBuf {
        self.0.path().join(package.folder()).join(path)
    }

    fn discover(&self, packages: &[LockedPackage], cache: &dyn FileCache) -> Discovered {
        let lock = PackagesLock::new(packages.to_vec()).unwrap();
        discover_packages(self.0.path(), &lock, cache, &RootAllowance::default()).unwrap()
    }

    /// Returns the name and package of each skill, or the code of its problem.
    fn found(&self, packages: &[LockedPackage]) -> Vec<String> {
        self.discover(packages, &NoCache).found.iter().map(words).collect()
    }
}

fn words(found: &FoundSkill) -> String {
    match &found.candidate {
        Ok(candidate) => format!("{} of {}", candidate.name, candidate.root_path.as_deref().unwrap()),
        Err(problem) => format!("{}: {}", found.label, problem.code),
    }
}

#[test]
fn skills_of_the_lock_are_found_in_the_order_of_adding() {
    let packages = Packages::new();
    let (zoo, mut ant) = (packages.package("zoo", 1, &["b", "a"]), packages.package("ant", 2, &["c"]));
    ant.skills[0].name = "renamed".parse().unwrap();
    assert_eq!(packages.found(&[ant.clone(), zoo.clone()]), ["a of zoo", "b of zoo", "renamed of ant"]);
    // A skill that the lock does not name is not read.
    fs::create_dir_all(packages.path(&ant, "skills/more")).unwrap();
    fs::write(packages.path(&ant, "skills/more/SKILL.md"), "---\nsummary: x\n---\n").unwrap();
    assert_eq!(packages.found(&[ant]), ["renamed of ant"]);
}

#[test]
fn package_with_any_other_byte_is_left_out_as_a_whole() {
    let packages = Packages::new();
    let (one, two) = (packages.package("one", 1, &["a", "b"]), packages.package("two", 2, &["c"]));
    let both = [one.clone(), two.clone()];
    type Change = fn(&Path);
    let change: [(&str, Change); 5] = [
        ("text", |at| fs::write(at.join("SKILL.md"), "---\nsummary: a of one\n---\nDo it!\n").unwrap()),
        ("file", |at| fs::write(at.join("notes.md"), "new").unwrap()),
        ("code", |at| fs::write(at.join("a.wasm"), "code").unwrap()),
        ("gone", |at| fs::remove_dir_all(at).unwrap()),
        ("link", |at| {
            fs::remove_dir_all(at).unwrap();
            std::os::unix::fs::symlink("b", at).unwrap();
        }),
    ];
    for (what, change) in change {
        packages.package("one", 1, &["a", "b"]);
        let folder = packages.path(&one, "skills/a");
        change(&folder);
        assert_eq!(packages.found(&both), ["one: package_changed", "c of two"], "{what}");
        let _ = fs::remove_file(&folder);
        let _ = fs::remove_file(folder.join("notes.md"));
        let _ = fs::remove_file(folder.join("a.wasm"));
    }
    packages.package("one", 1, &["a", "b"]);
    assert_eq!(packages.found(&both), ["a of one", "b of one", "c of two"]);
    let mut lock = both;
    lock[1].skills[0].digest = Digest::of(b"other");
    let found = packages.discover(&lock, &NoCache).found;
    let problem = found[2].candidate.as_ref().unwrap_err();
    assert!(
        problem.message.contains("the files of 'skills/c' have changed")
            && problem.message.contains(
                "plugin verify \
            two"
            ),
        "{problem}"
    );
    fs::remove_dir_all(packages.0.path()).unwrap();
    assert_eq!(packages.found(&lock), ["one: package_changed", "two: package_changed"]);
}

/// A cache that knows files by their state.
struct Known(BTreeMap<String, (Stat, CachedFile)>, RefCell<usize>);

impl FileCache for Known {
    fn get(&self, file: &str, stat: &Stat) -> Option<CachedFile> {
        let (_, cached) = self.0.get(file).filter(|(seen, _)| seen == stat)?;
        *self.1.borrow_mut() += 1;
        Some(cached.clone())
    }
}

#[test]
fn unchanged_files_are_not_read_again() {
    let packages = Packages::new();
    // Skills with the same name in two packages are two entries in the cache.
    let both = [packages.package("one", 1, &["a"]), packages.package("two", 2, &["a", "b"])];
    let read = packages.discover(&both, &NoCache).read;
    assert_eq!(read.len(), 3);
    let known = Known(read.into_iter().map(|read| (read.file, (read.stat, read.cached))).collect(), RefCell::default());
    let again = packages.discover(&both, &known);
    assert_eq!((again.read.len(), *known.1.borrow(), again.found.len()), (0, 3, 3));
}

#[test]
fn first_skill_over_a_limit_ends_the_root() {
    let packages = Packages::new();
    let lock =
        PackagesLock::new(vec![packages.package("one", 1, &["a", "b"]), packages.package("two", 2, &["c"])]).unwrap();
    let allowed = |skills: u64, skill_md_bytes: u64| {
        let allowed = RootAllowance { skills, skill_md_bytes, ..RootAllowance::default() };
        let found = discover_packages(packages.0.path(), &lock, &NoCache, &allowed).unwrap().found;
        found.iter().map(words).collect::<Vec<_>>()
    };
    assert_eq!(allowed(2, 1_000), ["a of one", "b of one", "c: root_limit"]);
    assert_eq!(allowed(10, 50), ["a of one", "b: root_limit"]);
}

#[test]
fn lock_file_is_read_or_refused_without_a_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packages.lock");
    assert_eq!(read_packages_lock(&path).unwrap(), PackagesLock::default());
    assert_eq!(read_packages_lock(&folder.path().join("no/packages.lock")).unwrap(), PackagesLock::default());
    for (bytes, words) in [(&b"\xff"[..], "it is not UTF-8"), (b"format = 3", "its format is 3")] {
        fs::write(&path, bytes).unwrap();
        let error = read_packages_lock(&path).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains("packages.lock"), "{error}");
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(read_packages_lock(&path).unwrap_err().to_string().starts_with("it cannot be read"));
}
