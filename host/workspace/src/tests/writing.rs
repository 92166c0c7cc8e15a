//! Writing and deleting: atomic replacement, permissions, names that plugins may not write.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
};

use super::{Fixture, kind};
use crate::limits;

impl Fixture {
    fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.root.join(path)).unwrap().permissions().mode() & 0o7777
    }

    fn set_mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.root.join(path), Permissions::from_mode(mode)).unwrap();
    }

    /// Returns all names below the root, including hidden ones.
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
fn files_are_created_replaced_and_deleted() {
    let fixture = Fixture::new();
    fixture.workspace.write("a/b/c.txt", b"one").unwrap();
    assert_eq!(fixture.read("a/b/c.txt").unwrap(), "one");
    fixture.workspace.write("a/b/c.txt", b"two").unwrap();
    assert_eq!(fixture.read("a/b/c.txt").unwrap(), "two");
    fixture.workspace.write("empty", b"").unwrap();
    assert_eq!(fixture.names(), ["a", "a/b", "a/b/c.txt", "empty"]);
    fixture.workspace.delete("a/b/c.txt").unwrap();
    assert_eq!(fixture.names(), ["a", "a/b", "empty"]);
    assert_eq!(kind(fixture.workspace.delete("a/b/c.txt")), "not-found");
    assert_eq!(kind(fixture.workspace.delete("x/y")), "not-found");
}

#[test]
fn permission_bits_are_kept_without_set_user_id() {
    let fixture = Fixture::new();
    fixture.file("run.sh", "old");
    fixture.set_mode("run.sh", 0o4751);
    fixture.workspace.write("run.sh", b"new").unwrap();
    assert_eq!(fixture.mode("run.sh"), 0o751);
    fixture.file("private", "old");
    fixture.set_mode("private", 0o600);
    fixture.workspace.write("private", b"new").unwrap();
    assert_eq!(fixture.mode("private"), 0o600);
}

#[test]
fn read_only_files_are_not_changed() {
    let fixture = Fixture::new();
    fixture.file("a", "old");
    fixture.set_mode("a", 0o444);
    assert_eq!(kind(fixture.workspace.write("a", b"new")), "denied");
    assert_eq!(kind(fixture.workspace.delete("a")), "denied");
    assert_eq!(fixture.read("a").unwrap(), "old");
}

#[test]
fn links_and_directories_are_not_replaced() {
    let fixture = Fixture::new();
    fixture.file("dir/file", "x");
    fixture.file("target", "x");
    fixture.link("target", "link");
    fixture.link("dir", "linked");
    fixture.link("gone", "dangling");
    for (path, expected) in [
        ("dir", "invalid"),
        ("dir/file/below", "invalid"),
        ("link", "denied"),
        ("linked/file", "denied"),
        ("linked/new", "denied"),
        ("dangling", "denied"),
        ("dangling/new", "denied"),
    ] {
        let before = fixture.names();
        assert_eq!(kind(fixture.workspace.write(path, b"y")), expected, "{path}");
        assert_eq!(kind(fixture.workspace.delete(path)), expected, "{path}");
        assert_eq!(fixture.names(), before);
    }
    assert_eq!(fixture.read("target").unwrap(), "x");
    assert_eq!(fixture.read("dir/file").unwrap(), "x");
}

#[test]
fn too_large_write_creates_nothing() {
    let fixture = Fixture::new();
    let large = vec![0; limits::WRITE_BYTES + 1];
    assert_eq!(kind(fixture.workspace.write("b/c", &large)), "too-large");
    assert!(fixture.names().is_empty());
    fixture.workspace.write("b/c", &large[1..]).unwrap();
}

#[test]
fn plugins_cannot_write_code_or_rules_of_the_host() {
    let fixture = Fixture::new();
    fixture.file(".git/config", "old");
    fixture.file(".patchbay/skills/x/SKILL.md", "old");
    let before = fixture.names();
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
        assert_eq!(kind(fixture.workspace.write(path, b"new")), "denied", "{path}");
        assert_eq!(kind(fixture.workspace.delete(path)), "denied", "{path}");
    }
    assert_eq!(fixture.names(), before);
    assert_eq!(fixture.read(".patchbay/skills/x/SKILL.md").unwrap(), "old");
}

#[test]
fn bare_repositories_are_neither_created_nor_changed() {
    // The existing files, and the write that would make git recognise a repository.
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
        let fixture = Fixture::new();
        there.iter().for_each(|path| fixture.file(path, "x"));
        let before = fixture.names();
        let error = fixture.workspace.write(written, b"x").unwrap_err();
        assert!(error.to_string().contains("bare git repository"), "{written}: {error}");
        assert_eq!(fixture.names(), before, "{written}");
    }
    let fixture = Fixture::new();
    for path in ["HEAD", "objects/x", "config", "hooks/x", "sub/refs/x", "sub/config"] {
        fixture.workspace.write(path, b"x").unwrap();
    }
    fixture.workspace.delete("config").unwrap();
}

#[test]
fn write_does_not_change_other_hard_links() {
    let fixture = Fixture::new();
    // The creator of a hard link could read the file already, so it counts as inside.
    fs::hard_link(fixture.outside.join("secret"), fixture.root.join("hard")).unwrap();
    assert_eq!(fixture.read("hard").unwrap(), super::SENTINEL);
    fixture.workspace.write("hard", b"new").unwrap();
    fixture.assert_outside_is_untouched();
    assert_eq!(fs::metadata(fixture.outside.join("secret")).unwrap().nlink(), 1);
    assert_eq!(fixture.read("hard").unwrap(), "new");
}

#[test]
fn root_may_be_a_link() {
    let fixture = Fixture::new();
    let link = fixture.outside.join("link");
    symlink(&fixture.root, &link).unwrap();
    crate::Workspace::open(&link).unwrap().write("a", b"x").unwrap();
    assert_eq!(fixture.read("a").unwrap(), "x");
}
