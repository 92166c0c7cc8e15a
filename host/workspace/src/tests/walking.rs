//! Walks: globs, order, `.gitignore`, limits and pages.

use std::fs;

use proptest::prelude::*;

use super::{Fixture, kind};
use crate::{FileEntry, limits};

fn entry(path: &str, size: u64) -> FileEntry {
    FileEntry { path: path.to_owned(), is_directory: false, size }
}

#[test]
fn entries_have_types_and_sizes() {
    let fixture = Fixture::new();
    fixture.file("a/b.txt", "123");
    fixture.link("a/b.txt", "link");
    fixture.link("a", "linked");
    fixture.link("gone", "dangling");
    let directory = FileEntry { path: "a".to_owned(), is_directory: true, size: 0 };
    assert_eq!(fixture.workspace.walk("**", None, 10).unwrap(), [directory, entry("a/b.txt", 3), entry("link", 3)]);
}

#[test]
fn globs_select_entries() {
    let fixture = Fixture::new();
    for path in ["README.md", ".env", "src/lib.rs", "src/a/b.rs", "src/a/c.toml", "tests/t.rs", "src/a/.hidden.rs"] {
        fixture.file(path, "");
    }
    for (glob, expected) in [
        ("*", &[".env", "README.md", "src/", "tests/"][..]),
        ("**/*.rs", &["src/a/.hidden.rs", "src/a/b.rs", "src/lib.rs", "tests/t.rs"]),
        ("src/**/*.rs", &["src/a/.hidden.rs", "src/a/b.rs", "src/lib.rs"]),
        ("src/*", &["src/a/", "src/lib.rs"]),
        ("src/**", &["src/a/", "src/a/.hidden.rs", "src/a/b.rs", "src/a/c.toml", "src/lib.rs"]),
        ("src/lib.rs", &["src/lib.rs"]),
        ("{src,tests}/*.rs", &["src/lib.rs", "tests/t.rs"]),
        ("*/a", &["src/a/"]),
        ("nothing/*", &[]),
    ] {
        assert_eq!(fixture.list(glob, 2).unwrap(), expected, "{glob}");
    }
    assert_eq!(kind(fixture.list("[", 1)), "invalid");
    assert_eq!(fixture.workspace.walk("**", None, 0).unwrap(), []);
}

#[test]
fn entries_are_sorted_by_path_bytes() {
    let fixture = Fixture::new();
    for path in ["a/c", "a-b", "a0", "a/c-d/e", "a/c.d", "B", "é", "a!/x", "a/0"] {
        fixture.file(path, "");
    }
    let expected = ["B", "a", "a!", "a!/x", "a-b", "a/0", "a/c", "a/c-d", "a/c-d/e", "a/c.d", "a0", "é"];
    for page in [1, 2, 3, 100] {
        let listed: Vec<_> = fixture.list("**", page).unwrap();
        let listed: Vec<_> = listed.iter().map(|path| path.trim_end_matches('/')).collect();
        assert_eq!(listed, expected);
        assert!(listed.is_sorted_by(|a, b| a.as_bytes() < b.as_bytes()));
    }
    // A page may begin after any string.
    let after = |after| fixture.workspace.walk("**", Some(after), 1).unwrap().remove(0).path;
    assert_eq!(after("a/c-"), "a/c-d");
    assert_eq!(after("a/"), "a/0");
    assert_eq!(after("a/c/nothing"), "a0");
}

/// The expected lists are the output of `git ls-files -co --exclude-standard` for the same tree, with nothing tracked.
#[test]
fn gitignore_hides_what_git_hides() {
    let fixture = Fixture::new();
    fixture.file(
        ".gitignore",
        "*.log\n!keep.log\n/target/\nbuild\n# a comment\ndoc/*.txt\nlogs/**/debug\n**/cache/\n\\#x\nsp\\ \n",
    );
    fixture.file("sub/.gitignore", "!*.log\nsecret.log\n/only-here\nnested/*\n!nested/again\n");
    fixture.file("sub/nested/.gitignore", "!three\n");
    for path in [
        "a.log",
        "keep.log",
        "target/x",
        "sub/target/x",
        "build/y",
        "sub/build/y",
        "doc/a.txt",
        "doc/sub/b.txt",
        "logs/a/b/debug",
        "logs/debug",
        "logs/debug2",
        "x/cache/z",
        "cache2/z",
        "#x",
        "sp ",
        "sub/b.log",
        "sub/secret.log",
        "sub/only-here",
        "sub/deep/only-here",
        "sub/nested/one",
        "sub/nested/again",
        "sub/nested/three",
        "target2",
        "sub/a.LOG",
    ] {
        fixture.file(path, "");
    }
    fixture.link("../keep.log", "sub/secret.log.link");
    fixture.link("keep.log", "linked.log");
    fixture.file(".git/config", "");
    let files: Vec<_> = fixture.list("**", 3).unwrap().into_iter().filter(|path| !path.ends_with('/')).collect();
    assert_eq!(
        files,
        [
            ".gitignore",
            "cache2/z",
            "doc/sub/b.txt",
            "keep.log",
            "logs/debug2",
            "sub/.gitignore",
            "sub/a.LOG",
            "sub/b.log",
            "sub/deep/only-here",
            "sub/nested/again",
            "sub/nested/three",
            "sub/secret.log.link",
            "sub/target/x",
            "target2",
        ]
    );
}

#[test]
fn only_a_regular_gitignore_has_rules() {
    let fixture = Fixture::new();
    fs::write(fixture.outside.join("rules"), "*").unwrap();
    fixture.link("../outside/rules", ".gitignore");
    fixture.file("a/x", "");
    fs::create_dir(fixture.root.join("a/.gitignore")).unwrap();
    assert_eq!(fixture.list("**/x", 1).unwrap(), ["a/x"]);
}

#[test]
fn hidden_and_special_entries_are_not_listed() {
    let fixture = Fixture::new();
    for path in [".git/HEAD", "sub/.git/HEAD", ".GIT/x", ".patchbay/skills/s/SKILL.md", "a\nb", "a\\b", "sub/x"] {
        fixture.file(path, "");
    }
    fixture.file(&crate::guard::temporary_name(), "left over");
    fixture.file("sub/.git2", "");
    fixture.link(".git/HEAD", "head");
    assert_eq!(
        fixture.list("**", 2).unwrap(),
        [
            ".patchbay/",
            ".patchbay/skills/",
            ".patchbay/skills/s/",
            ".patchbay/skills/s/SKILL.md",
            "sub/",
            "sub/.git2",
            "sub/x"
        ]
    );
    assert!(fixture.list(".git/**", 2).unwrap().is_empty());
}

#[test]
fn too_many_rules_are_an_error() {
    let fixture = Fixture::new();
    fixture.file("a/.gitignore", &"x\n".repeat(limits::RULE_BYTES / 2 - 100));
    fixture.file("a/b/.gitignore", &"y\n".repeat(101));
    fixture.file("c/z", "");
    let error = fixture.list("**", 10).unwrap_err();
    assert_eq!(error.kind(), "too-large");
    assert!(error.to_string().contains("'a/b/.gitignore'"), "{error}");
    // Other directories are not affected, before and after this one.
    assert_eq!(fixture.list("c/*", 10).unwrap(), ["c/z"]);
    fixture.file("a/b/.gitignore", &"y\n".repeat(100));
    fixture.file("d/.gitignore", &"x\n".repeat(limits::RULE_BYTES / 2));
    assert!(fixture.list("**", 10).unwrap().contains(&"c/z".to_owned()));
}

#[test]
fn too_deep_trees_are_an_error() {
    let fixture = Fixture::new();
    let deepest = vec!["d"; limits::DEPTH].join("/");
    fixture.file(&deepest, "x");
    assert_eq!(fixture.list("**/d", 100).unwrap().len(), limits::DEPTH);
    assert_eq!(fixture.read(&deepest).unwrap(), "x");
    fs::remove_file(fixture.root.join(&deepest)).unwrap();
    fixture.file(&format!("{deepest}/too/deep"), "x");
    fixture.file("e", "");
    assert_eq!(kind(fixture.list("**", 1_000)), "too-large");
    // Entries before it and in other directories are listed.
    assert_eq!(fixture.workspace.walk("**", None, 10).unwrap().len(), 10);
    assert_eq!(fixture.workspace.walk("**", Some("d0"), 10).unwrap(), [entry("e", 0)]);
    assert_eq!(fixture.list("*", 10).unwrap(), ["d/", "e"]);
}

#[test]
fn ten_thousand_files_are_listed_in_pages() {
    let fixture = Fixture::new();
    let mut expected = Vec::new();
    for dir in 0..100 {
        for file in 0..100 {
            let path = format!("d{dir}/s{}/f{file}.txt", file % 3);
            fixture.file(&path, "");
            expected.push(path);
        }
    }
    expected.sort();
    assert_eq!(fixture.list("**/*.txt", limits::PAGE).unwrap(), expected);
    // A limit above the longest page.
    assert_eq!(fixture.workspace.walk("**/*.txt", None, u32::MAX).unwrap().len(), limits::PAGE as usize);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pages_add_up_to_the_sorted_listing(
        paths in prop::collection::btree_set("[ab.-]{1,3}(/[ab0-]{1,2}){0,3}", 1..25),
        page in 1u32..8,
    ) {
        let fixture = Fixture::new();
        let mut expected = std::collections::BTreeSet::new();
        for path in paths {
            let target = fixture.root.join(&path);
            // Some paths conflict with others, and '.' and '..' are not valid names.
            if path.split('/').any(|part| part == "." || part == "..")
                || target.parent().is_none_or(|dir| fs::create_dir_all(dir).is_err())
                || target.exists()
                || fs::write(&target, "").is_err()
            {
                continue;
            }
            let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
            expected.extend(ends.map(|end| path[..end].to_owned()));
        }
        let listed: Vec<_> = fixture.list("**", page).unwrap().iter().map(|path| path.trim_end_matches('/').to_owned()).collect();
        prop_assert_eq!(listed, expected.into_iter().collect::<Vec<_>>());
    }
}
