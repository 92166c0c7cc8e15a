use std::fs;

use proptest::prelude::*;

use super::{House, kind};
use crate::{Entry, limits};

fn entry(path: &str, size: u64) -> Entry {
    Entry { path: path.to_owned(), is_directory: false, size }
}

#[test]
fn entries_have_types_and_sizes() {
    let house = House::new();
    house.file("a/b.txt", "123");
    house.link("a/b.txt", "link");
    house.link("a", "linked");
    house.link("gone", "dangling");
    let directory = Entry { path: "a".to_owned(), is_directory: true, size: 0 };
    assert_eq!(house.workspace.walk("**", None, 10).unwrap(), [directory, entry("a/b.txt", 3), entry("link", 3)]);
}

#[test]
fn globs_choose() {
    let house = House::new();
    for path in ["README.md", ".env", "src/lib.rs", "src/a/b.rs", "src/a/c.toml", "tests/t.rs", "src/a/.hidden.rs"] {
        house.file(path, "");
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
        assert_eq!(house.list(glob, 2).unwrap(), expected, "{glob}");
    }
    assert_eq!(kind(house.list("[", 1)), "invalid");
    assert_eq!(house.workspace.walk("**", None, 0).unwrap(), []);
}

#[test]
fn the_order_is_that_of_the_paths_bytes() {
    let house = House::new();
    for path in ["a/c", "a-b", "a0", "a/c-d/e", "a/c.d", "B", "é", "a!/x", "a/0"] {
        house.file(path, "");
    }
    let expected = ["B", "a", "a!", "a!/x", "a-b", "a/0", "a/c", "a/c-d", "a/c-d/e", "a/c.d", "a0", "é"];
    for page in [1, 2, 3, 100] {
        let listed: Vec<_> = house.list("**", page).unwrap();
        let listed: Vec<_> = listed.iter().map(|path| path.trim_end_matches('/')).collect();
        assert_eq!(listed, expected);
        assert!(listed.is_sorted_by(|a, b| a.as_bytes() < b.as_bytes()));
    }
    // Any text is a place to go on from.
    let after = |after| house.workspace.walk("**", Some(after), 1).unwrap().remove(0).path;
    assert_eq!(after("a/c-"), "a/c-d");
    assert_eq!(after("a/"), "a/0");
    assert_eq!(after("a/c/nothing"), "a0");
}

/// The expectations are what `git ls-files -co --exclude-standard` gives of the same tree, with nothing tracked.
#[test]
fn gitignore_hides_what_git_hides() {
    let house = House::new();
    house.file(
        ".gitignore",
        "*.log\n!keep.log\n/target/\nbuild\n# a comment\ndoc/*.txt\nlogs/**/debug\n**/cache/\n\\#x\nsp\\ \n",
    );
    house.file("sub/.gitignore", "!*.log\nsecret.log\n/only-here\nnested/*\n!nested/again\n");
    house.file("sub/nested/.gitignore", "!three\n");
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
        house.file(path, "");
    }
    house.link("../keep.log", "sub/secret.log.link");
    house.link("keep.log", "linked.log");
    house.file(".git/config", "");
    let files: Vec<_> = house.list("**", 3).unwrap().into_iter().filter(|path| !path.ends_with('/')).collect();
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
    let house = House::new();
    fs::write(house.outside.join("rules"), "*").unwrap();
    house.link("../outside/rules", ".gitignore");
    house.file("a/x", "");
    fs::create_dir(house.root.join("a/.gitignore")).unwrap();
    assert_eq!(house.list("**/x", 1).unwrap(), ["a/x"]);
}

#[test]
fn what_is_not_for_guests_is_not_listed() {
    let house = House::new();
    for path in [".git/HEAD", "sub/.git/HEAD", ".GIT/x", ".patchbay/skills/s/SKILL.md", "a\nb", "a\\b", "sub/x"] {
        house.file(path, "");
    }
    house.file(&crate::guard::temporary(), "left over");
    house.file("sub/.git2", "");
    house.link(".git/HEAD", "head");
    assert_eq!(
        house.list("**", 2).unwrap(),
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
    assert!(house.list(".git/**", 2).unwrap().is_empty());
}

#[test]
fn too_many_rules_are_refused_not_cut() {
    let house = House::new();
    house.file("a/.gitignore", &"x\n".repeat(limits::RULE_BYTES / 2 - 100));
    house.file("a/b/.gitignore", &"y\n".repeat(101));
    house.file("c/z", "");
    let error = house.list("**", 10).unwrap_err();
    assert_eq!(error.kind(), "too-large");
    assert!(error.to_string().contains("'a/b/.gitignore'"), "{error}");
    // Outside of it all is well; so it is where the rules above are out of force again.
    assert_eq!(house.list("c/*", 10).unwrap(), ["c/z"]);
    house.file("a/b/.gitignore", &"y\n".repeat(100));
    house.file("d/.gitignore", &"x\n".repeat(limits::RULE_BYTES / 2));
    assert!(house.list("**", 10).unwrap().contains(&"c/z".to_owned()));
}

#[test]
fn deep_trees_are_refused_not_cut() {
    let house = House::new();
    let deepest = vec!["d"; limits::DEPTH].join("/");
    house.file(&deepest, "x");
    assert_eq!(house.list("**/d", 100).unwrap().len(), limits::DEPTH);
    assert_eq!(house.read(&deepest).unwrap(), "x");
    fs::remove_file(house.root.join(&deepest)).unwrap();
    house.file(&format!("{deepest}/too/deep"), "x");
    house.file("e", "");
    assert_eq!(kind(house.list("**", 1_000)), "too-large");
    // What comes before it, and what lies elsewhere, is listed.
    assert_eq!(house.workspace.walk("**", None, 10).unwrap().len(), 10);
    assert_eq!(house.workspace.walk("**", Some("d0"), 10).unwrap(), [entry("e", 0)]);
    assert_eq!(house.list("*", 10).unwrap(), ["d/", "e"]);
}

#[test]
fn ten_thousand_files_come_page_by_page() {
    let house = House::new();
    let mut expected = Vec::new();
    for dir in 0..100 {
        for file in 0..100 {
            let path = format!("d{dir}/s{}/f{file}.txt", file % 3);
            house.file(&path, "");
            expected.push(path);
        }
    }
    expected.sort();
    assert_eq!(house.list("**/*.txt", limits::PAGE).unwrap(), expected);
    // A longer page than there is.
    assert_eq!(house.workspace.walk("**/*.txt", None, u32::MAX).unwrap().len(), limits::PAGE as usize);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pages_add_up_to_the_sorted_whole(
        paths in prop::collection::btree_set("[ab.-]{1,3}(/[ab0-]{1,2}){0,3}", 1..25),
        page in 1u32..8,
    ) {
        let house = House::new();
        let mut expected = std::collections::BTreeSet::new();
        for path in paths {
            let target = house.root.join(&path);
            // Some stand in each other's way, and '.' and '..' are no names.
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
        let listed: Vec<_> = house.list("**", page).unwrap().iter().map(|path| path.trim_end_matches('/').to_owned()).collect();
        prop_assert_eq!(listed, expected.into_iter().collect::<Vec<_>>());
    }
}
