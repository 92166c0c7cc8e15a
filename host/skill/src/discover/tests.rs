//! Tests of `discover`: the file cache, changed files, digests over all files, limits.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use proptest::prelude::*;

use super::*;
use crate::{Changed, Manifest, NoCache, SkillMd, changed_files};

/// A temporary skills folder, removed on drop.
struct SkillsFolder(tempfile::TempDir);

impl SkillsFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn discover(&self, cache: &dyn FileCache) -> Discovered {
        discover(Root::User, self.path(), cache, &RootAllowance::default()).unwrap()
    }

    /// Discovers exactly one candidate.
    fn candidate(&self, cache: &dyn FileCache) -> Candidate {
        let mut found = self.discover(cache).found;
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0).candidate.unwrap()
    }
}

/// A cache that also records which files were looked up.
#[derive(Default)]
struct FakeCache {
    cached: BTreeMap<String, (Stat, CachedFile)>,
    lookups: RefCell<Vec<String>>,
}

impl FakeCache {
    fn of(discovered: &Discovered) -> Self {
        let cached = discovered.read.iter().map(|read| (read.file.clone(), (read.stat, read.cached.clone())));
        Self { cached: cached.collect(), lookups: RefCell::default() }
    }
}

impl FileCache for FakeCache {
    fn get(&self, file: &str, stat: &Stat) -> Option<CachedFile> {
        self.lookups.borrow_mut().push(file.to_owned());
        let (then, cached) = self.cached.get(file)?;
        (then == stat).then(|| cached.clone())
    }
}

/// A cache that returns the same content for every file.
struct WrongCache(CachedFile);

impl FileCache for WrongCache {
    fn get(&self, _: &str, _: &Stat) -> Option<CachedFile> {
        Some(self.0.clone())
    }
}

fn skill_md_of(summary: &str) -> Option<Arc<SkillMd>> {
    let skill_md = format!("---\nsummary: {summary}\n---\n");
    let manifest = Manifest::parse(&skill_md, &"any".parse().unwrap()).unwrap().manifest;
    Some(Arc::new(SkillMd { bytes: 10, manifest: Ok(Arc::new(manifest)), notes: Vec::new(), embedded: None }))
}

/// Returns a component with this SKILL.md and a section of padding.
fn component(skill_md: &str, padding: &[u8]) -> Vec<u8> {
    let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
    for (name, data) in [("patchbay:skill.md", skill_md.as_bytes()), ("padding", padding)] {
        let length = u8::try_from(1 + name.len() + data.len()).unwrap();
        assert!(length < 128, "one byte of LEB128");
        bytes.extend([0, length, u8::try_from(name.len()).unwrap()]);
        bytes.extend(name.as_bytes());
        bytes.extend(data);
    }
    bytes
}

fn sorted(names: impl Into<Vec<String>>) -> Vec<String> {
    let mut names = names.into();
    names.sort();
    names
}

fn files(discovered: &Discovered) -> Vec<String> {
    sorted(discovered.read.iter().map(|read| read.file.clone()).collect::<Vec<_>>())
}

/// Name, digest, component and summary of a candidate.
type Shown = (String, Digest, Option<Digest>, String);

fn shown(discovered: &Discovered) -> Vec<Shown> {
    let shown = |candidate: &Candidate| {
        let component = candidate.component.as_ref().map(Component::digest);
        (candidate.name.to_string(), candidate.digest(), component, candidate.manifest.summary.clone())
    };
    discovered.found.iter().map(|found| shown(found.candidate.as_ref().unwrap())).collect()
}

const FIRST: &str = "---\nsummary: first\n---\n";
const OTHER: &str = "---\nsummary: other\n---\n";

#[cfg(unix)]
#[test]
fn cached_file_is_not_read_again() {
    let skills = SkillsFolder::new();
    skills.write("one.wasm", component(FIRST, b""));
    skills.write("two/SKILL.md", FIRST);
    skills.write("two/code.wasm", b"not looked into");
    skills.write("three/SKILL.md", OTHER);
    let first = skills.discover(&NoCache);
    assert_eq!(files(&first), ["one.wasm", "three/SKILL.md", "two/SKILL.md", "two/code.wasm"]);
    let cache = FakeCache::of(&first);
    let again = skills.discover(&cache);
    assert_eq!(files(&again), [""; 0]);
    assert_eq!(sorted(cache.lookups.take()), files(&first), "each is looked up by the name under which it was read");
    assert_eq!(shown(&again), shown(&first));
}

/// The cache's wrong content is used, which proves that the file was not read.
#[cfg(unix)]
#[test]
fn cached_value_replaces_the_file() {
    let skills = SkillsFolder::new();
    skills.write("one.wasm", component(FIRST, b""));
    let digest = Digest::of(b"something else");
    let cached = CachedFile { digest, skill_md: skill_md_of("remembered") };
    let candidate = skills.candidate(&WrongCache(cached));
    let component = candidate.component.as_ref().unwrap().digest();
    assert_eq!((component, &*candidate.manifest.summary), (digest, "remembered"));
    assert_eq!(candidate.digest(), SkillFiles::new(&BTreeMap::from([("one.wasm".to_owned(), digest)])).digest());
    assert_eq!(candidate.instructions, None, "the store has the text");
}

#[cfg(unix)]
#[test]
fn invalid_skills_are_cached_if_they_were_read() {
    let skills = SkillsFolder::new();
    skills.write("text.wasm", "hello");
    skills.write("bad/SKILL.md", "no frontmatter");
    skills.write("big/SKILL.md", vec![b'a'; 300 << 10]);
    skills.write("Upper.wasm", component(FIRST, b""));
    let discovered = skills.discover(&NoCache);
    assert!(discovered.found.iter().all(|found| found.candidate.is_err()));
    assert_eq!(files(&discovered), ["bad/SKILL.md", "text.wasm"]);
    skills.write("bare.wasm", b"\0asm\x0d\0\x01\0");
    let discovered = skills.discover(&NoCache);
    assert_eq!(files(&discovered), ["bad/SKILL.md", "bare.wasm", "text.wasm"]);
    // A second discovery reports the same problems without reading the files again.
    let again = skills.discover(&FakeCache::of(&discovered));
    let problems = |discovered: &Discovered| -> Vec<Problem> {
        discovered.found.iter().map(|found| found.candidate.clone().unwrap_err()).collect()
    };
    assert_eq!((files(&again), problems(&again)), (vec![], problems(&discovered)));
}

/// Each change keeps the size of the file, and some also restore its modification time.
#[cfg(unix)]
#[test]
fn every_change_of_a_file_is_detected() {
    type Change = fn(&SkillsFolder);
    let changes: [(&str, Change); 5] = [
        ("written in place", |skills| {
            skills.write("a.wasm", component(OTHER, b""));
        }),
        ("written in place, its time set back", |skills| {
            let time = fs::metadata(skills.path().join("a.wasm")).unwrap().modified().unwrap();
            let path = skills.write("a.wasm", component(OTHER, b""));
            fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        }),
        ("another file put in its place, with its time", |skills| {
            let time = fs::metadata(skills.path().join("a.wasm")).unwrap().modified().unwrap();
            let path = skills.write("new", component(OTHER, b""));
            fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            fs::rename(path, skills.path().join("a.wasm")).unwrap();
        }),
        ("swapped with its neighbour", |skills| {
            let [a, b, c] = ["a.wasm", "b.wasm", "c"].map(|name| skills.path().join(name));
            fs::rename(&a, &c).unwrap();
            fs::rename(&b, &a).unwrap();
            fs::rename(&c, &b).unwrap();
        }),
        ("replaced by a link to its neighbour", |skills| {
            fs::remove_file(skills.path().join("a.wasm")).unwrap();
            std::os::unix::fs::symlink("b.wasm", skills.path().join("a.wasm")).unwrap();
        }),
    ];
    for (what, change) in changes {
        let skills = SkillsFolder::new();
        skills.write("a.wasm", component(FIRST, b""));
        skills.write("b.wasm", component(OTHER, b""));
        let cache = FakeCache::of(&skills.discover(&NoCache));
        wait_for_next_tick(&skills, &["a.wasm", "b.wasm"]);
        change(&skills);
        let again = skills.discover(&cache);
        assert!(files(&again).contains(&"a.wasm".to_owned()), "{what}");
        assert_eq!(shown(&again)[0].3, "other", "{what}");
    }
}

/// Waits until a new file gets a later change time than all `files`. Time stamps only have the resolution of the system's clock
/// ticks; [`Stat::is_settled`] handles changes within one tick.
#[cfg(unix)]
fn wait_for_next_tick(skills: &SkillsFolder, files: &[&str]) {
    let changed = |file: &str| Stat::of(&skills.path().join(file)).unwrap().unwrap().changed;
    let last = files.iter().map(|file| changed(file)).max().unwrap();
    for _ in 0..100_000 {
        skills.write("probe", "");
        let now = changed("probe");
        fs::remove_file(skills.path().join("probe")).unwrap();
        if now > last {
            return;
        }
    }
    panic!("the clock of the file system does not advance");
}

#[cfg(unix)]
#[test]
fn touched_file_is_read_again() {
    let skills = SkillsFolder::new();
    let path = skills.write("a.wasm", component(FIRST, b""));
    let first = skills.discover(&NoCache);
    wait_for_next_tick(&skills, &["a.wasm"]);
    let time = path.metadata().unwrap().modified().unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    let again = skills.discover(&FakeCache::of(&first));
    assert_eq!(files(&again), ["a.wasm"]);
    assert_eq!(shown(&again), shown(&first));
}

#[cfg(unix)]
#[test]
fn file_is_settled_two_seconds_after_its_last_change() {
    let skills = SkillsFolder::new();
    let path = skills.write("a.wasm", "");
    let stat = Stat::of(&path).unwrap().unwrap();
    let two_seconds = 2_000_000_000;
    assert!(!stat.is_settled(stat.changed), "it may change again within the same tick");
    assert!(!stat.is_settled(stat.changed + two_seconds));
    assert!(stat.is_settled(stat.changed + two_seconds + 1));
    // Programs can set the modification time: a future time unsettles the file, a past time does not settle it.
    let file = fs::File::options().write(true).open(&path).unwrap();
    let time = path.metadata().unwrap().modified().unwrap();
    let hour = std::time::Duration::from_secs(3600);
    file.set_modified(time + hour).unwrap();
    let stat = Stat::of(&path).unwrap().unwrap();
    assert!(!stat.is_settled(stat.changed + two_seconds + 1));
    file.set_modified(time - hour).unwrap();
    let stat = Stat::of(&path).unwrap().unwrap();
    assert!(stat.modified < stat.changed && !stat.is_settled(stat.changed));
    assert!(!stat.is_settled(i64::MIN) && stat.is_settled(i64::MAX));
}

#[test]
fn component_returns_bytes_of_its_digest_or_fails() {
    let skills = SkillsFolder::new();
    let bytes = component(FIRST, b"");
    for name in ["a.wasm", "b/code.wasm"] {
        skills.write("b/SKILL.md", FIRST);
        let path = skills.write(name, &bytes);
        let candidate = skills.discover(&NoCache).found.remove(0).candidate.unwrap();
        let found = candidate.component.unwrap();
        assert_eq!((found.digest(), found.size()), (Digest::of(&bytes), bytes.len() as u64));
        assert_eq!(found.bytes().unwrap(), bytes);
        fs::write(&path, component(OTHER, b"")).unwrap();
        assert_eq!(found.bytes(), Err(Changed));
        fs::write(&path, &bytes).unwrap();
        assert_eq!(found.bytes().unwrap(), bytes, "the original bytes are back");
        fs::remove_file(&path).unwrap();
        assert_eq!(found.bytes(), Err(Changed));
        fs::create_dir(&path).unwrap();
        assert_eq!(found.bytes(), Err(Changed));
        fs::remove_dir(&path).unwrap();
    }
}

/// A workspace may replace a component with a link to a file outside, after discovery but before the bytes are read.
#[cfg(unix)]
#[test]
fn component_is_not_read_through_a_link_leaving_the_workspace() {
    let home = SkillsFolder::new();
    let bytes = component(FIRST, b"");
    let secret = home.write("secret/a.wasm", &bytes);
    for name in ["a.wasm", "b/code.wasm"] {
        home.write("workspace/.patchbay/skills/b/SKILL.md", FIRST);
        let path = home.write(&format!("workspace/.patchbay/skills/{name}"), &bytes);
        let found = discover(Root::Workspace, &home.path().join("workspace"), &NoCache, &RootAllowance::default())
            .unwrap()
            .found;
        let component = found[0].candidate.as_ref().unwrap().component.clone().unwrap();
        assert_eq!(component.bytes().unwrap(), bytes);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&secret, &path).unwrap();
        assert_eq!(component.bytes(), Err(Changed), "{name}");
        fs::remove_file(&path).unwrap();
    }
}

/// The result of `ln -s DIR/greet/greet.wasm ~/.config/patchbay/skills/`. A workspace may belong to someone else, so its links must
/// not lead out.
#[cfg(unix)]
#[test]
fn component_may_be_a_link_outside_of_workspaces() {
    use std::os::unix::fs::symlink;
    let home = SkillsFolder::new();
    let target = home.write("built/out.wasm", component(FIRST, b""));
    for folder in ["skills", "workspace/.patchbay/skills"] {
        fs::create_dir_all(home.path().join(folder)).unwrap();
        symlink(&target, home.path().join(folder).join("a.wasm")).unwrap();
        symlink(home.path().join("nowhere"), home.path().join(folder).join("b.wasm")).unwrap();
        symlink(home.path().join("built"), home.path().join(folder).join("c.wasm")).unwrap();
    }
    let skills = home.path().join("skills");
    let found =
        |root, path: &Path, cache: &dyn FileCache| discover(root, path, cache, &RootAllowance::default()).unwrap();
    let words = |found: &FoundSkill| found.candidate.as_ref().unwrap_err().message.clone();
    let own = found(Root::User, &skills, &NoCache);
    let linked = own.found[0].candidate.as_ref().unwrap();
    assert_eq!(linked.component.as_ref().unwrap().bytes().unwrap(), fs::read(&target).unwrap());
    assert_eq!(listed(linked), ["a.wasm"]);
    assert_eq!(words(&own.found[1]), "'b.wasm' is a link to nothing.");
    let folder = "'c.wasm' is a link to a folder; give the link the name of the skill, without '.wasm'.";
    assert_eq!(words(&own.found[2]), folder);
    // A new build is seen through the link, and an unchanged one comes from the cache.
    let cache = FakeCache::of(&own);
    assert_eq!(found(Root::User, &skills, &cache).read.len(), 0);
    fs::write(&target, component(FIRST, b"another build")).unwrap();
    let again = found(Root::User, &skills, &NoCache);
    assert_ne!(again.found[0].candidate.as_ref().unwrap().digest(), linked.digest());
    assert_eq!(linked.component.as_ref().unwrap().bytes(), Err(Changed));
    let workspace = found(Root::Workspace, &home.path().join("workspace"), &NoCache);
    let refused = "'a.wasm' is a link that leads out of the workspace; the links of its skills must stay inside.";
    assert_eq!(words(&workspace.found[0]), refused);
}

/// Returns the paths of the files that a candidate's digest covers.
fn listed(candidate: &Candidate) -> Vec<String> {
    changed_files("", candidate.files.as_text()).iter().map(|file| file.replace(" (new)", "")).collect()
}

#[cfg(unix)]
#[test]
fn digest_covers_all_files_of_the_folder() {
    use std::os::unix::fs::symlink;
    let skills = SkillsFolder::new();
    skills.write("elsewhere/secret.txt", "secret");
    for (file, text) in [
        ("a/SKILL.md", FIRST),
        ("a/notes.md", "1"),
        ("a/sub/deep.wasm", "2"),
        ("a/code.wasm", "3"),
        ("a/.git/config", "x"),
        ("a/.env", "x"),
        ("a/old.md~", "x"),
        ("a/m.pyc", "x"),
        ("a/__pycache__/m", "x"),
        ("a/node_modules/m/index.js", "x"),
    ] {
        skills.write(file, text);
    }
    symlink("notes.md", skills.path().join("a/inside.md")).unwrap();
    symlink("../elsewhere/secret.txt", skills.path().join("a/outside.md")).unwrap();
    let first = skills.discover(&NoCache).found.remove(0).candidate.unwrap();
    assert_eq!(listed(&first), ["SKILL.md", "code.wasm", "inside.md", "notes.md", "sub/deep.wasm"]);
    let notes: Vec<_> = first.notes.iter().map(|note| (note.code, &*note.message)).collect();
    assert_eq!(notes, [(Code::SkillFileSkipped, "'outside.md' is a link to nothing in the skill's folder.")]);
    // A change of any file changes the digest.
    for file in ["a/SKILL.md", "a/code.wasm", "a/notes.md", "a/sub/deep.wasm", "a/sub/new.md"] {
        let before = skills.discover(&NoCache).found.remove(0).candidate.unwrap();
        let text = if file.ends_with("SKILL.md") { OTHER } else { "changed" };
        skills.write(file, text);
        let after = skills.discover(&NoCache).found.remove(0).candidate.unwrap();
        assert_ne!(before.digest(), after.digest(), "{file}");
    }
    // The list of a single-file skill has one line.
    fs::remove_dir_all(skills.path().join("a")).unwrap();
    fs::remove_dir_all(skills.path().join("elsewhere")).unwrap();
    skills.write("one.wasm", component(FIRST, b""));
    assert_eq!(listed(&skills.candidate(&NoCache)), ["one.wasm"]);
}

#[test]
fn skill_over_its_limits_loses_only_its_files() {
    type Fill = fn(&SkillsFolder);
    let cases: [(&str, Fill); 4] = [
        ("More than 1,000 files; the skill's files cannot be read.", |skills| {
            for n in 0..1_001 {
                skills.write(&format!("a/files/{n}"), "");
            }
        }),
        ("'big.bin' is larger than 8 MiB; the skill's files cannot be read.", |skills| {
            skills.write("a/big.bin", vec![0; (8 << 20) + 1]);
        }),
        ("Folders more than 8 deep; the skill's files cannot be read.", |skills| {
            skills.write("a/1/2/3/4/5/6/7/8/9/x", "");
        }),
        ("A path of more than 255 bytes; the skill's files cannot be read.", |skills| {
            skills.write(&format!("a/{}/{}", "x".repeat(200), "y".repeat(60)), "");
        }),
    ];
    for (words, fill) in cases {
        let skills = SkillsFolder::new();
        skills.write("a/SKILL.md", FIRST);
        skills.write("a/notes.md", "n");
        skills.write("a/z.wasm", "z");
        let whole = skills.candidate(&NoCache);
        assert_eq!(listed(&whole), ["SKILL.md", "notes.md", "z.wasm"]);
        fill(&skills);
        let limited = skills.candidate(&NoCache);
        assert_eq!(listed(&limited), ["SKILL.md", "z.wasm"], "{words}");
        assert_eq!(limited.notes, [Problem::new(Code::SkillFilesLimited, words)]);
    }
}

/// If a folder has too many entries, the file system decides which of them are read, so the component is found by its name alone.
#[test]
fn folder_with_too_many_entries_keeps_a_component_of_its_name() {
    let skills = SkillsFolder::new();
    for path in ["a/SKILL.md", "a/a.wasm", "a/b.wasm"] {
        skills.write(path, FIRST);
    }
    for n in 0..10_000 {
        fs::File::create(skills.path().join(format!("a/{n}"))).unwrap();
    }
    let words = "More than 10,000 entries in its folder; the skill's files cannot be read, except a component with the name 'a.wasm'.";
    let limited = skills.candidate(&NoCache);
    assert_eq!(listed(&limited), ["SKILL.md", "a.wasm"]);
    assert_eq!(limited.component.unwrap().digest(), Digest::of(FIRST.as_bytes()));
    assert_eq!(limited.notes, [Problem::new(Code::SkillFilesLimited, words)]);
    fs::remove_file(skills.path().join("a/a.wasm")).unwrap();
    let without = skills.candidate(&NoCache);
    assert_eq!((listed(&without), without.component.is_none()), (vec!["SKILL.md".to_owned()], true));
    assert_eq!(without.notes, limited.notes);
}

#[test]
fn root_limits_count_skills_by_name() {
    let skills = SkillsFolder::new();
    for name in ["d", "b", "a", "c"] {
        skills.write(&format!("{name}/SKILL.md"), FIRST);
    }
    skills.write("e.wasm", component(FIRST, b""));
    skills.write("readme.txt", "no skill");
    let discover_within = |allowed: RootAllowance| {
        let found = discover(Root::User, skills.path(), &NoCache, &allowed).unwrap();
        let names: Vec<String> = found.found.iter().map(|found| found.label.clone()).collect();
        let over = found.found.last().unwrap().candidate.clone().err();
        (names.join(" "), over.map(|problem| problem.message).unwrap_or_default(), found.read.len())
    };
    let all = RootAllowance::default();
    assert_eq!(discover_within(all), ("a b c d e".to_owned(), String::new(), 5));
    let words = |what: &str| format!("The user skills exceed the limit of {what}).");
    assert_eq!(
        discover_within(RootAllowance { skills: 3, ..all }),
        ("a b c d".to_owned(), words("3 (limits.root.skills"), 3)
    );
    let bytes = FIRST.len() as u64;
    let two = RootAllowance { skill_md_bytes: 2 * bytes, ..all };
    let over = words(&format!("{} bytes (limits.root.skill_md_bytes", 2 * bytes));
    assert_eq!(discover_within(two), ("a b c".to_owned(), over, 2), "the skill over the limit is not read");
    assert_eq!(
        discover_within(RootAllowance { files: 1, ..all }),
        ("a b".to_owned(), words("1 (limits.root.files"), 1)
    );
    let over = words(&format!("{} bytes (limits.root.file_bytes", bytes + 1));
    assert_eq!(discover_within(RootAllowance { file_bytes: bytes + 1, ..all }), ("a b".to_owned(), over, 1));
    // Hidden files do not belong to a skill, but reading their names takes time, so there is a limit of ten entries for each
    // allowed file.
    for n in 0..45 {
        skills.write(&format!("b/.{n}"), "");
    }
    let over = words("5 (limits.root.files");
    assert_eq!(discover_within(RootAllowance { files: 5, ..all }), ("a b c d e".to_owned(), String::new(), 5));
    for n in 0..3 {
        skills.write(&format!("c/.{n}"), "");
    }
    assert_eq!(discover_within(RootAllowance { files: 5, ..all }), ("a b c".to_owned(), over, 2));
}

/// More folders than one thread lists at a time.
#[test]
fn many_folders_are_read_in_the_order_of_names_up_to_the_limit() {
    let skills = SkillsFolder::new();
    let names: Vec<String> = (0..300).map(|number| format!("s{number:03}")).collect();
    for name in &names {
        skills.write(&format!("{name}/SKILL.md"), FIRST);
        skills.write(&format!("{name}/notes/one.md"), name);
    }
    skills.write("s100-file.wasm", component(FIRST, b""));
    skills.write("Not A Name/SKILL.md", FIRST);
    let all = RootAllowance::default();
    let discover_within = |allowed| discover(Root::User, skills.path(), &NoCache, &allowed).unwrap();
    let whole = discover_within(all);
    assert_eq!(whole.found.len(), 302);
    assert!(whole.found.iter().map(|found| &found.label).is_sorted());
    for name in &names {
        let found = whole.found.iter().find(|found| found.label == *name).unwrap();
        assert_eq!(listed(found.candidate.as_ref().unwrap()), ["SKILL.md", "notes/one.md"]);
    }
    // Each folder has two files, so the 201st file is the first of the 101st folder.
    let limited = discover_within(RootAllowance { files: 200, ..all });
    let (over, found) = limited.found.split_last().unwrap();
    assert_eq!((&*over.label, over.candidate.as_ref().unwrap_err().code), ("s100", Code::RootLimit));
    assert_eq!(shown_labels(found), shown_labels(&whole.found[..101]));
    assert_eq!(limited.read.len(), 200, "nothing over the limit is read");
}

#[cfg(unix)]
#[test]
fn folder_with_several_names_is_read_once() {
    use std::os::unix::fs::symlink;
    let skills = SkillsFolder::new();
    skills.write("m/SKILL.md", FIRST);
    skills.write("m/notes.md", "n");
    for link in ["a", "x", "y", "z"] {
        symlink("m", skills.path().join(link)).unwrap();
    }
    let first = skills.discover(&NoCache);
    assert_eq!(shown_labels(&first.found), ["a"], "the first name is kept");
    assert_eq!(listed(first.found[0].candidate.as_ref().unwrap()), ["SKILL.md", "notes.md"]);
    assert_eq!(files(&first), ["a/SKILL.md", "a/notes.md", "m/SKILL.md", "x/SKILL.md", "y/SKILL.md", "z/SKILL.md"]);
    // A name that differs from the name in SKILL.md is reported, whichever name comes first.
    skills.write("m/SKILL.md", "---\nname: y\n---\n");
    let renamed = skills.discover(&NoCache);
    assert_eq!(shown_labels(&renamed.found), ["a", "m", "x", "y", "z"]);
    let valid = renamed.found.iter().filter(|found| found.candidate.is_ok());
    assert_eq!(valid.map(|found| &*found.label).collect::<Vec<_>>(), ["y"]);
    // Names that are claimed twice are reported. They do not become skills, so the folder is found under its next name.
    skills.write("m/SKILL.md", FIRST);
    skills.write("a.wasm", component(FIRST, b""));
    skills.write("z.wasm", component(FIRST, b""));
    let claimed = skills.discover(&NoCache);
    let codes: Vec<_> = claimed
        .found
        .iter()
        .map(|found| (&*found.label, found.candidate.as_ref().err().map(|problem| problem.code)))
        .collect();
    let twice = Some(Code::SeveralComponents);
    assert_eq!(codes, [("a", twice), ("a", twice), ("m", None), ("z", twice), ("z", twice)]);
}

fn shown_labels(found: &[FoundSkill]) -> Vec<&str> {
    found.iter().map(|found| &*found.label).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Write(u8),
    Replace(u8),
    SetBack,
    Remove,
    Discover,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3_u8).prop_map(Step::Write),
        (0..3_u8).prop_map(Step::Replace),
        Just(Step::SetBack),
        Just(Step::Remove),
        Just(Step::Discover),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Neither file changes nor a wrong cache make `bytes` return bytes with another digest.
    #[test]
    fn component_bytes_always_match_the_digest(steps in proptest::collection::vec(step(), 1..12), wrong in 0..4_u8) {
        let skills = SkillsFolder::new();
        let content = |n: u8| component(FIRST, &[n]);
        let path = skills.write("a.wasm", content(0));
        let cache: Box<dyn FileCache> = if wrong < 3 {
            Box::new(WrongCache(CachedFile { digest: Digest::of(&content(wrong)), skill_md: skill_md_of("wrong") }))
        } else {
            Box::new(FakeCache::of(&skills.discover(&NoCache)))
        };
        let mut components = Vec::new();
        for step in steps {
            match step {
                Step::Write(n) => drop(skills.write("a.wasm", content(n))),
                Step::Replace(n) => fs::rename(skills.write("new", content(n)), &path).unwrap(),
                Step::SetBack => if let Ok(file) = fs::File::options().write(true).open(&path) {
                    file.set_modified(skills.path().metadata().unwrap().modified().unwrap()).unwrap();
                },
                Step::Remove => drop(fs::remove_file(&path)),
                Step::Discover => for found in skills.discover(&*cache).found {
                    components.extend(found.candidate.unwrap().component);
                },
            }
            for component in &components {
                if let Ok(bytes) = component.bytes() {
                    prop_assert_eq!(Digest::of(&bytes), component.digest());
                }
            }
        }
    }
}

/// Both files can only exist on a system that distinguishes such names.
#[cfg(target_os = "linux")]
#[test]
fn files_whose_names_differ_in_case_or_normal_form_are_one() {
    let files = |skill: &Candidate| skill.files.entries().into_keys().map(str::to_owned).collect::<Vec<_>>();
    let folder = SkillsFolder::new();
    folder.write("a/SKILL.md", "---\nsummary: A\n---\n");
    folder.write("a/Docs/one.md", "1");
    folder.write("a/\u{e4}.md", "composed");
    let alone = folder.candidate(&NoCache);
    assert_eq!(files(&alone), ["Docs/one.md", "SKILL.md", "\u{e4}.md"]);
    for (path, notes) in [
        ("a/skill.md", "'skill.md' and 'SKILL.md' are one name on systems that ignore case or Unicode normal form."),
        ("a/docs/two.md", "'docs' and 'Docs' are one name on systems that ignore case or Unicode normal form."),
        ("a/a\u{308}x.md", ""),
    ] {
        let added = folder.write(path, "x");
        let skill = folder.candidate(&NoCache);
        if notes.is_empty() {
            assert!(files(&skill).contains(&"\u{e4}x.md".to_owned()), "{:?}", files(&skill));
        } else {
            assert_eq!(files(&skill), files(&alone));
            assert_eq!(skill.notes.iter().map(|note| &*note.message).collect::<Vec<_>>(), [notes]);
            assert_eq!(skill.files, alone.files, "the digest does not depend on it");
        }
        fs::remove_file(added).unwrap();
    }
}

/// The second folder is like a copy of the first on a file system that decomposes names.
#[test]
fn digest_does_not_depend_on_the_normal_form_of_names() {
    let list = |name: &str| {
        let folder = SkillsFolder::new();
        folder.write("a/SKILL.md", "---\nsummary: A\n---\n");
        folder.write(&format!("a/{name}"), "text");
        let skill = folder.candidate(&NoCache);
        let read = skill.read_files().unwrap();
        assert_eq!(read.candidate.files, skill.files);
        skill.files
    };
    assert_eq!(list("\u{e4}.md"), list("a\u{308}.md"));
    assert_ne!(list("\u{e4}.md"), list("a.md"));
}

#[test]
fn skill_md_has_exactly_this_name() {
    let folder = SkillsFolder::new();
    folder.write("a/skill.md", "---\nsummary: A\n---\n");
    folder.write("Bee/SKILL.md", "---\nsummary: B\n---\n");
    let found = folder.discover(&NoCache).found;
    let codes: Vec<_> = found.iter().map(|one| (&*one.label, one.candidate.as_ref().unwrap_err().code)).collect();
    assert_eq!(codes, [("Bee", Code::InvalidName), ("a", Code::MissingSkillMd)]);
}
