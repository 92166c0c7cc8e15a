//! Places of files for an editor: the same checks apply as to reads and writes.

use std::fs;

use super::Fixture;
use crate::{CheckedFile, limits};

fn place(path: &str, size: u64) -> CheckedFile {
    CheckedFile { path: path.to_owned(), size, is_text: true }
}

#[test]
fn place_to_read_is_the_real_file() {
    let fixture = Fixture::new();
    fixture.file("src/a.txt", "text");
    fixture.file("b", "one\0two");
    fixture.link("src/a.txt", "link");
    let read = |path| fixture.workspace.place_to_read(path);
    assert_eq!(read("src/a.txt").unwrap(), place("src/a.txt", 4));
    assert_eq!(read("link").unwrap(), place("src/a.txt", 4));
    assert_eq!(read("b").unwrap(), CheckedFile { is_text: false, ..place("b", 7) });
}

#[test]
fn place_to_read_is_refused_as_a_read() {
    let fixture = Fixture::new();
    fixture.file(".git/config", "x");
    fixture.link(fixture.outside.join("secret"), "absolute");
    fixture.link("../outside/secret", "relative");
    for path in [".git/config", "absolute", "relative", "../outside/secret", "/etc/passwd", "missing", "", "."] {
        let (place, read) = (fixture.workspace.place_to_read(path).unwrap_err(), fixture.read(path).unwrap_err());
        assert_eq!(place.to_string(), read.to_string(), "{path}");
    }
}

#[test]
fn place_to_write_changes_no_file() {
    let fixture = Fixture::new();
    fixture.file("a.txt", "text");
    assert_eq!(fixture.workspace.place_to_write("a.txt", 9).unwrap(), Some(place("a.txt", 9)));
    assert_eq!(fixture.read("a.txt").unwrap(), "text");
    assert_eq!(fixture.workspace.place_to_write("new/b.txt", 9).unwrap(), Some(place("new/b.txt", 9)));
    assert!(fixture.root.join("new").is_dir() && !fixture.root.join("new/b.txt").exists());
    // A bare repository has a file of this name. Only `write` holds the lock that keeps two writes from creating one together.
    assert_eq!(fixture.workspace.place_to_write("x/HEAD", 9).unwrap(), None);
}

#[test]
fn place_to_write_is_refused_as_a_write() {
    let fixture = Fixture::new();
    fixture.file("a.txt", "text");
    fixture.link("a.txt", "link");
    fs::create_dir(fixture.root.join("folder")).unwrap();
    for path in [".git/hooks/x", ".patchbay/x", "AGENTS.md", "link", "folder", "a.txt/b", "../outside/secret"] {
        let place = fixture.workspace.place_to_write(path, 1).unwrap_err();
        let write = fixture.workspace.write(path, b"x").unwrap_err();
        assert_eq!(place.to_string(), write.to_string(), "{path}");
    }
    let error = fixture.workspace.place_to_write("a.txt", limits::WRITE_BYTES + 1).unwrap_err();
    assert_eq!(error.kind(), "too-large");
}
