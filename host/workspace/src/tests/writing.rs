use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
};

use super::{House, kind};
use crate::limits;

impl House {
    fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.root.join(path)).unwrap().permissions().mode() & 0o7777
    }

    fn set_mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.root.join(path), Permissions::from_mode(mode)).unwrap();
    }

    /// All names below the root, with nothing left out.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut open = vec![self.root.clone()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let entry = entry.unwrap();
                names.push(entry.path().strip_prefix(&self.root).unwrap().to_str().unwrap().to_owned());
                if entry.file_type().unwrap().is_dir() {
                    open.push(entry.path());
                }
            }
        }
        names.sort();
        names
    }
}

#[test]
fn a_file_is_made_replaced_and_deleted() {
    let house = House::new();
    house.workspace.write("a/b/c.txt", b"one").unwrap();
    assert_eq!(house.read("a/b/c.txt").unwrap(), "one");
    house.workspace.write("a/b/c.txt", b"two").unwrap();
    assert_eq!(house.read("a/b/c.txt").unwrap(), "two");
    house.workspace.write("empty", b"").unwrap();
    assert_eq!(house.names(), ["a", "a/b", "a/b/c.txt", "empty"]);
    house.workspace.delete("a/b/c.txt").unwrap();
    assert_eq!(house.names(), ["a", "a/b", "empty"]);
    assert_eq!(kind(house.workspace.delete("a/b/c.txt")), "not-found");
    assert_eq!(kind(house.workspace.delete("x/y")), "not-found");
}

#[test]
fn permission_bits_stay_without_those_of_another_user() {
    let house = House::new();
    house.file("run.sh", "old");
    house.set_mode("run.sh", 0o4751);
    house.workspace.write("run.sh", b"new").unwrap();
    assert_eq!(house.mode("run.sh"), 0o751);
    house.file("private", "old");
    house.set_mode("private", 0o600);
    house.workspace.write("private", b"new").unwrap();
    assert_eq!(house.mode("private"), 0o600);
}

#[test]
fn a_read_only_file_stays() {
    let house = House::new();
    house.file("a", "old");
    house.set_mode("a", 0o444);
    assert_eq!(kind(house.workspace.write("a", b"new")), "denied");
    assert_eq!(kind(house.workspace.delete("a")), "denied");
    assert_eq!(house.read("a").unwrap(), "old");
}

#[test]
fn what_is_no_file_stays() {
    let house = House::new();
    house.file("dir/file", "x");
    house.file("target", "x");
    house.link("target", "link");
    house.link("dir", "linked");
    house.link("gone", "dangling");
    for (path, expected) in [
        ("dir", "invalid"),
        ("dir/file/below", "invalid"),
        ("link", "denied"),
        ("linked/file", "denied"),
        ("linked/new", "denied"),
        ("dangling", "denied"),
        ("dangling/new", "denied"),
    ] {
        let before = house.names();
        assert_eq!(kind(house.workspace.write(path, b"y")), expected, "{path}");
        assert_eq!(kind(house.workspace.delete(path)), expected, "{path}");
        assert_eq!(house.names(), before);
    }
    assert_eq!(house.read("target").unwrap(), "x");
    assert_eq!(house.read("dir/file").unwrap(), "x");
}

#[test]
fn a_write_that_is_too_large_leaves_nothing_behind() {
    let house = House::new();
    let large = vec![0; limits::WRITE_BYTES + 1];
    assert_eq!(kind(house.workspace.write("b/c", &large)), "too-large");
    assert!(house.names().is_empty());
    house.workspace.write("b/c", &large[1..]).unwrap();
}

#[test]
fn no_plugin_writes_code_or_rules_of_the_host() {
    let house = House::new();
    house.file(".git/config", "old");
    house.file(".patchbay/skills/x/SKILL.md", "old");
    let before = house.names();
    for path in [
        ".git/config",
        ".git/hooks/pre-commit",
        ".GIT/config",
        "sub/.git",
        ".g\u{200c}it/config",
        "git~1/config",
        ".git./config",
        ".patchbay/skills/x/SKILL.md",
        ".PATCHBAY/x",
        "sub/.patchbay/skills/y/SKILL.md",
        ".patchbay",
        ".agents/skills/y/SKILL.md",
        "sub/.Claude/settings.json",
        "CLAUDE~1/x",
        "AGENTS.md",
        "sub/agents.MD",
        "CLAUDE.md",
    ] {
        assert_eq!(kind(house.workspace.write(path, b"new")), "denied", "{path}");
        assert_eq!(kind(house.workspace.delete(path)), "denied", "{path}");
    }
    assert_eq!(house.names(), before);
    assert_eq!(house.read(".patchbay/skills/x/SKILL.md").unwrap(), "old");
}

#[test]
fn no_write_makes_or_changes_a_bare_repository() {
    // Files that are there, and the write that git would then see a repository by.
    for (there, written) in [
        (&["HEAD", "objects/x"][..], "refs/x"),
        (&["HEAD", "refs/x"], "objects/x"),
        (&["objects/x", "refs/x"], "HEAD"),
        (&["objects/x", "refs/x"], "head"),
        (&["HEAD"], "commondir"),
        (&["sub/objects/x", "sub/refs/x"], "sub/HEAD"),
        (&["HEAD", "objects/x", "refs/x"], "config"),
        (&["mirror.git/HEAD", "mirror.git/objects/x", "mirror.git/refs/x"], "mirror.git/hooks/post-checkout"),
    ] {
        let house = House::new();
        there.iter().for_each(|path| house.file(path, "x"));
        let before = house.names();
        let error = house.workspace.write(written, b"x").unwrap_err();
        assert!(error.to_string().contains("bare git repository"), "{written}: {error}");
        assert_eq!(house.names(), before, "{written}");
    }
    let house = House::new();
    for path in ["HEAD", "objects/x", "config", "hooks/x", "sub/refs/x", "sub/config"] {
        house.workspace.write(path, b"x").unwrap();
    }
    house.workspace.delete("config").unwrap();
}

#[test]
fn a_write_leaves_other_hard_links_as_they_are() {
    let house = House::new();
    // Whoever could make this link could read the file: it is inside, and is read.
    fs::hard_link(house.outside.join("secret"), house.root.join("hard")).unwrap();
    assert_eq!(house.read("hard").unwrap(), super::SENTINEL);
    house.workspace.write("hard", b"new").unwrap();
    house.assert_outside_is_untouched();
    assert_eq!(fs::metadata(house.outside.join("secret")).unwrap().nlink(), 1);
    assert_eq!(house.read("hard").unwrap(), "new");
}

#[test]
fn a_root_that_is_a_link_is_the_operators() {
    let house = House::new();
    let link = house.outside.join("link");
    symlink(&house.root, &link).unwrap();
    crate::Workspace::open(&link).unwrap().write("a", b"x").unwrap();
    assert_eq!(house.read("a").unwrap(), "x");
}
