//! Tests of reading the files of candidates, including files that change in the meantime.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::symlink},
    process::Command,
};

use patchbay_core::RootAllowance;

use super::*;
use crate::{NoCache, discover, write_archive};

const SKILL: &str = "---\nsummary: One\n---\nDo it.\n";

/// A skills folder with the skill `a`.
struct TestSkill(tempfile::TempDir);

impl TestSkill {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let skill = Self(tempfile::tempdir().unwrap());
        skill.write("SKILL.md", SKILL.as_bytes());
        for (path, contents) in files {
            skill.write(path, contents);
        }
        skill
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.0.path().join("a").join(path)
    }

    fn write(&self, path: &str, contents: &[u8]) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), contents).unwrap();
    }

    fn candidate(&self) -> Candidate {
        let found = discover(Root::User, self.0.path(), &NoCache, &RootAllowance::default()).unwrap().found;
        found.into_iter().next().unwrap().candidate.unwrap()
    }
}

fn paths(read: &ReadFiles) -> Vec<&str> {
    read.files.iter().map(|(path, _)| path).collect()
}

fn messages(candidate: &Candidate) -> Vec<&str> {
    candidate.notes.iter().map(|note| &*note.message).collect()
}

#[test]
fn all_files_are_read_and_counted() {
    let skill = TestSkill::new(&[("references/a.md", b"one"), ("assets/b.png", b"\x89PNG"), ("run.wasm", b"\0asm")]);
    let candidate = skill.candidate();
    assert_eq!(candidate.totals, FileTotals { count: 2, bytes: 7, place: FileStorage::Pack });
    let read = candidate.read_files().unwrap();
    assert_eq!((read.candidate.digest(), read.candidate.totals), (candidate.digest(), candidate.totals));
    assert_eq!(paths(&read), ["SKILL.md", "assets/b.png", "references/a.md"], "not the component");
    assert_eq!(read.files.get("references/a.md").unwrap().contents, "one");
    assert_eq!(read.files.lines(1), (vec!["assets/b.png (4 bytes)".to_owned()], 1));
}

#[test]
fn changed_files_change_the_digest() {
    let skill = TestSkill::new(&[("a.md", b"one"), ("b.log", b""), ("gone.md", b"x")]);
    let candidate = skill.candidate();
    skill.write("a.md", b"two!");
    skill.write("new.md", b"later");
    fs::remove_file(skill.path("gone.md")).unwrap();
    let grown = fs::File::options().write(true).open(skill.path("b.log")).unwrap();
    grown.set_len(listing::FILE_BYTES + 1).unwrap();
    let read = candidate.read_files().unwrap();
    assert_eq!(paths(&read), ["SKILL.md", "a.md"]);
    assert_eq!(messages(&read.candidate), ["'b.log' grew while it was read."]);
    assert_eq!(read.candidate.totals, FileTotals { count: 1, bytes: 4, place: FileStorage::Pack });
    assert_ne!(read.candidate.digest(), candidate.digest());
    assert_eq!(read.candidate.read_files().unwrap().candidate.digest(), read.candidate.digest());
    skill.write("SKILL.md", b"---\n---\n");
    assert_eq!(candidate.read_files().unwrap_err(), Changed);
    fs::remove_dir_all(skill.path("")).unwrap();
    assert_eq!(candidate.read_files().unwrap_err(), Changed);
}

#[test]
fn files_that_grow_together_stay_within_the_limit() {
    let names = ["a", "b", "c", "d", "e"];
    let skill = TestSkill::new(&names.map(|name| (name, &b""[..])));
    let candidate = skill.candidate();
    for name in names {
        skill.write(name, &vec![0; listing::FILE_BYTES as usize]);
    }
    let read = candidate.read_files().unwrap();
    assert_eq!(paths(&read), ["SKILL.md", "a", "b", "c"], "four of 8 MiB and the SKILL.md are over 32 MiB");
    assert_eq!(messages(&read.candidate).len(), 2);
}

#[test]
fn special_files_links_and_foreign_names_are_left_out() {
    let skill = TestSkill::new(&[("a.md", b"one"), ("later", b"x")]);
    let fifo = |path: &str| assert!(Command::new("mkfifo").arg(skill.path(path)).status().unwrap().success());
    fifo("pipe");
    symlink("/etc/passwd", skill.path("out.md")).unwrap();
    symlink("/dev/zero", skill.path("zero")).unwrap();
    symlink("a.md", skill.path("in.md")).unwrap();
    symlink(".", skill.path("round")).unwrap();
    fs::write(skill.path("").join(OsStr::from_bytes(b"\xff.md")), "x").unwrap();
    let limited = skill.candidate();
    assert_eq!(limited.totals.place, FileStorage::Nowhere, "a folder that contains itself is too deep");
    fs::remove_file(skill.path("round")).unwrap();
    let candidate = skill.candidate();
    assert_eq!(
        messages(&candidate),
        [
            "'out.md' is a link to nothing in the skill's folder.",
            "'pipe' is not a regular file.",
            "'zero' is a link to nothing in the skill's folder.",
            "The name of '\u{fffd}.md' is not UTF-8.",
        ]
    );
    // Files are replaced with a pipe, which would block, and with a link that leads out.
    fs::remove_file(skill.path("later")).unwrap();
    fifo("later");
    fs::remove_file(skill.path("in.md")).unwrap();
    symlink("/etc/passwd", skill.path("in.md")).unwrap();
    let read = candidate.read_files().unwrap();
    assert_eq!(paths(&read), ["SKILL.md", "a.md"]);
    assert_eq!(read.candidate.notes.len(), candidate.notes.len() + 2, "{:?}", messages(&read.candidate));
}

#[test]
fn folder_with_very_many_files_takes_bounded_work() {
    let skill = TestSkill::new(&[]);
    fs::create_dir(skill.path("many")).unwrap();
    for n in 0..11_000 {
        fs::File::create(skill.path(&format!("many/{n}"))).unwrap();
    }
    let candidate = skill.candidate();
    assert_eq!(candidate.totals, FileTotals { count: 0, bytes: 0, place: FileStorage::Nowhere });
    assert_eq!(messages(&candidate), ["More than 10,000 entries in its folders; the skill's files cannot be read."]);
}

/// Lists the skill's folder.
fn listed(skill: &TestSkill) -> listing::Listing {
    listing::list(&files::open_folder(&skill.path("")).unwrap().unwrap()).unwrap()
}

#[test]
fn hidden_files_are_counted_over_the_whole_skill() {
    let skill = TestSkill::new(&[("a.md", b"one")]);
    for folder in ["b", "c"] {
        fs::create_dir(skill.path(folder)).unwrap();
        for n in 0..4_000 {
            fs::File::create(skill.path(&format!("{folder}/.{n}"))).unwrap();
        }
    }
    let within = listed(&skill);
    // SKILL.md, a.md and the two folders.
    assert_eq!((within.entries, within.over), (8_004, None));
    assert_eq!(within.files.keys().collect::<Vec<_>>(), ["SKILL.md", "a.md"]);
    assert_eq!(skill.candidate().totals.place, FileStorage::Pack);
    fs::create_dir(skill.path("d")).unwrap();
    for n in 0..2_000 {
        fs::File::create(skill.path(&format!("d/{n}~"))).unwrap();
    }
    assert_eq!(listed(&skill).entries, 10_001, "nothing is read beyond the limit");
    let candidate = skill.candidate();
    assert_eq!(candidate.totals, FileTotals { count: 0, bytes: 0, place: FileStorage::Nowhere });
    assert_eq!(messages(&candidate), ["More than 10,000 entries in its folders; the skill's files cannot be read."]);
}

#[test]
fn linked_folder_is_counted_for_each_link() {
    let skill = TestSkill::new(&[("many/a.md", b"one")]);
    for n in 0..2_000 {
        fs::File::create(skill.path(&format!("many/.{n}"))).unwrap();
    }
    for link in ["l1", "l2", "l3"] {
        symlink("many", skill.path(link)).unwrap();
    }
    let within = listed(&skill);
    assert_eq!((within.entries, within.over), (5 + 4 * 2_001, None));
    assert_eq!(
        within.files.keys().collect::<Vec<_>>(),
        ["SKILL.md", "l1/a.md", "l2/a.md", "l3/a.md", "many/a.md"],
        "each path is one of the skill"
    );
    for link in 4..100 {
        symlink("many", skill.path(&format!("l{link}"))).unwrap();
    }
    let over = listed(&skill);
    assert_eq!(over.entries, 10_001);
    assert_eq!(
        over.over.unwrap().message,
        "More than 10,000 entries in its folders; the skill's files cannot be read."
    );
}

#[test]
fn only_so_many_links_are_followed() {
    let skill = TestSkill::new(&[("a.md", b"one")]);
    for n in 0..100 {
        symlink("a.md", skill.path(&format!("l{n}"))).unwrap();
    }
    assert_eq!(listed(&skill).files.len(), 102);
    symlink("nowhere", skill.path("one-more")).unwrap();
    assert_eq!(listed(&skill).over.unwrap().message, "More than 100 links; the skill's files cannot be read.");
}

/// Folders below a linked folder are opened relative to it, to avoid following its link again for each of them.
#[test]
fn folders_behind_a_link_do_not_count_as_links() {
    let skill = TestSkill::new(&[]);
    for n in 0..150 {
        fs::create_dir_all(skill.path(&format!("deep/{n}"))).unwrap();
    }
    symlink("deep", skill.path("link")).unwrap();
    skill.write("deep/7/a.md", b"one");
    let all = listed(&skill);
    assert_eq!(all.over, None);
    assert_eq!(all.files.keys().collect::<Vec<_>>(), ["SKILL.md", "deep/7/a.md", "link/7/a.md"]);
}

/// Beside a component, sources and build outputs do not count, however large. Without a component, the same names are files of the
/// skill, which a model can read.
#[test]
fn sources_are_files_of_a_skill_without_a_component_only() {
    let skill =
        TestSkill::new(&[("README.md", b"1"), ("package.json", b"{}"), ("src/lib.rs", b"x"), ("data/README.md", b"x")]);
    let names = || listed(&skill).files.into_keys().collect::<Vec<_>>();
    assert_eq!(names(), ["README.md", "SKILL.md", "data/README.md", "package.json", "src/lib.rs"]);
    skill.write("greet.wasm", b"x");
    for n in 0..=1_000 {
        skill.write(&format!("target/release/{n}"), b"");
    }
    assert_eq!(names(), ["SKILL.md", "data/README.md"]);
    let all = listed(&skill);
    assert_eq!((all.components, all.over), (vec!["greet.wasm".to_owned()], None));
}

#[test]
fn all_files_but_sources_are_embedded() {
    let skill = TestSkill::new(&[
        ("references/a.md", b"1"),
        ("scripts/deep/run.sh", b"2"),
        ("forms.md", b"3"),
        ("LICENSE.txt", b"4"),
        ("data/src/t.csv", b"5"),
        ("README.md", b"x"),
        ("src/lib.rs", b"x"),
        ("a.wasm", b"x"),
        ("assets/.hidden", b"x"),
        ("node_modules/m/index.js", b"x"),
    ]);
    let embedded = || files_to_embed(&skill.path("")).unwrap();
    let files = embedded().unwrap();
    let expected = ["LICENSE.txt", "data/src/t.csv", "forms.md", "references/a.md", "scripts/deep/run.sh"];
    assert_eq!(files.keys().collect::<Vec<_>>(), expected);
    assert_eq!(files["forms.md"], b"3");
    write_archive(&files).unwrap();
    symlink("/etc/passwd", skill.path("out")).unwrap();
    assert_eq!(embedded().unwrap_err().code, Code::SkillFileSkipped);
}
