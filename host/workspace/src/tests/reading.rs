//! Reading: ranges, errors, links inside the workspace.

use std::path::Path;

use super::{Fixture, kind};
use crate::{FileError, limits};

#[test]
fn read_returns_the_requested_range() {
    let fixture = Fixture::new();
    fixture.file("a/b.txt", "0123456789");
    let read = |offset, max| fixture.workspace.read("a/b.txt", offset, max).unwrap();
    assert_eq!(read(0, 1_000), b"0123456789");
    assert_eq!(read(3, 4), b"3456");
    assert_eq!(read(8, 4), b"89");
    assert_eq!(read(10, 4), b"");
    assert_eq!(read(u64::MAX, limits::READ_BYTES), b"");
    assert_eq!(read(0, 0), b"");
}

#[test]
fn unreadable_paths_have_their_error_kind() {
    let fixture = Fixture::new();
    fixture.file("a/b.txt", "x");
    assert_eq!(kind(fixture.read("a")), "invalid");
    assert_eq!(kind(fixture.read("b")), "not-found");
    assert_eq!(kind(fixture.read("a/b.txt/c")), "not-found");
    assert_eq!(kind(fixture.workspace.read("a/b.txt", 0, limits::READ_BYTES + 1)), "too-large");
    assert_eq!(
        fixture.read("a/c").unwrap_err().to_string(),
        "'a/c' not found in the workspace; list the files to see what exists"
    );
    assert_eq!(fixture.read("a").unwrap_err().to_string(), "'a' is a directory; use the path of a file in it");
}

#[test]
fn links_inside_are_followed() {
    let fixture = Fixture::new();
    fixture.file("a/b/c.txt", "inside");
    fixture.link("a/b", "short");
    fixture.link("./b/../b//c.txt", "a/dotted");
    fixture.link("../a/dotted", "a/chain");
    fixture.link("../short/c.txt", "a/through");
    for path in ["short/c.txt", "a/dotted", "a/chain", "a/through"] {
        assert_eq!(fixture.read(path).unwrap(), "inside", "{path}");
    }
    assert_eq!(kind(fixture.read("short")), "invalid");
    fixture.link("gone", "dangling");
    assert_eq!(kind(fixture.read("dangling")), "not-found");
}

#[test]
fn patchbay_folder_is_readable_and_git_is_not() {
    let fixture = Fixture::new();
    fixture.file(".patchbay/agents/a/SOUL.md", "soul");
    fixture.file(".git/config", "token");
    fixture.file("sub/.git", "gitdir: elsewhere");
    fixture.link(".git/config", "config");
    fixture.link("../.git", "sub/repository");
    fixture.link("sub/repository", "again");
    assert_eq!(fixture.read(".patchbay/agents/a/SOUL.md").unwrap(), "soul");
    for path in [".git/config", "sub/.git", "config", "sub/repository/config", "again/config", ".GIT/config", ".git"] {
        assert_eq!(kind(fixture.read(path)), "denied", "{path}");
    }
}

#[test]
fn listed_files_are_opened_and_ignored_ones_refused() {
    let fixture = Fixture::new();
    fixture.file(".gitignore", ".env\n/out/\n*.log\n!kept.log\n");
    fixture.file("sub/.gitignore", "private/\n");
    for path in [".env", "out/a.png", "a.log", "kept.log", "sub/private/deep/a.png", "sub/a.png", "out.png"] {
        fixture.file(path, "text");
    }
    fixture.link(".env", "shown");
    fixture.link("sub/private", "private");
    fixture.link("sub/a.png", "link.png");
    fixture.link("../outside/secret", "out-link");
    for path in [".env", "out/a.png", "a.log", "sub/private/deep/a.png", "shown", "private/deep/a.png"] {
        let opened = fixture.workspace.open_listed_file(path);
        assert!(matches!(&opened, Err(FileError::Ignored { path: shown }) if shown == path), "{path}: {opened:?}");
    }
    for path in ["kept.log", "sub/a.png", "out.png", "link.png", "sub/.gitignore"] {
        assert!(fixture.workspace.open_listed_file(path).is_ok(), "{path}");
    }
    for (path, expected) in [("out-link", "denied"), ("gone", "not-found"), ("sub", "invalid"), ("../x", "invalid")] {
        assert_eq!(kind(fixture.workspace.open_listed_file(path)), expected, "{path}");
    }
}

#[test]
fn links_in_the_existing_part_of_a_path_are_resolved() {
    let fixture = Fixture::new();
    fixture.link("real/deep", "link");
    fixture.file("real/deep/a.txt", "a");
    let root = fixture.root.canonicalize().unwrap();
    let resolved = |path: &str| crate::resolved_path(&fixture.root.join(path));
    assert_eq!(resolved("link/a.txt"), root.join("real/deep/a.txt"));
    assert_eq!(resolved("link/new/b.txt"), root.join("real/deep/new/b.txt"));
    assert_eq!(resolved("link"), root.join("real/deep"));
    assert_eq!(crate::resolved_path(Path::new("nowhere/c")), Path::new("nowhere/c"));
}
