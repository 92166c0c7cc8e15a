//! Hostile paths, links, special files, names and patterns.

use std::{
    ffi::OsStr, fs, os::unix::ffi::OsStrExt as _, os::unix::net::UnixListener, process::Command, sync::mpsc, thread,
};

use super::{Fixture, SENTINEL, kind};
use crate::limits;

#[test]
fn malformed_paths_are_refused() {
    let fixture = Fixture::new();
    fixture.file("a/b", "");
    let absolute = fixture.outside.join("secret");
    for path in [
        "../outside/secret",
        "a/../../outside/secret",
        "./../outside/secret",
        "..",
        "/etc/passwd",
        "//etc/passwd",
        "a//../../outside/secret",
        "..\\outside\\secret",
        "a/..\u{0}/secret",
        absolute.to_str().unwrap(),
    ] {
        assert_eq!(kind(fixture.read(path)), "invalid", "{path}");
        assert_eq!(kind(fixture.workspace.write(path, b"x")), "invalid", "{path}");
        assert_eq!(kind(fixture.workspace.delete(path)), "invalid", "{path}");
        assert!(
            fixture.workspace.walk(path, None, 10).map_or_else(|e| e.kind() == "invalid", |found| found.is_empty())
        );
    }
    fixture.assert_outside_is_untouched();
}

#[test]
fn links_out_of_the_workspace_are_refused() {
    let fixture = Fixture::new();
    let absolute = fixture.outside.join("secret");
    fixture.file("inside", "x");
    fixture.link("/etc/passwd", "passwd");
    fixture.link("../outside/secret", "secret");
    fixture.link("../outside", "outside");
    fixture.link(&absolute, "absolute");
    fixture.link("../../outside/secret", "a/climbs");
    fixture.link("a/../../outside/secret", "a/b/winds");
    fixture.link("..", "up");
    fixture.link("../root/inside", "out-and-in");
    fixture.link(fixture.root.join("inside"), "absolute-inside");
    fixture.link("passwd", "chain");
    fixture.link("outside", "chain-of-directories");
    fixture.link("/", "everything");
    fixture.link("/proc/self/environ", "environ");
    fixture.link("/proc/self/root/etc/passwd", "magic");
    fixture.link("/dev/zero", "zero");
    for path in [
        "passwd",
        "secret",
        "outside/secret",
        "absolute",
        "a/climbs",
        "a/b/winds",
        "up/outside/secret",
        "up/root/inside",
        "out-and-in",
        "absolute-inside",
        "chain",
        "chain-of-directories/secret",
        "everything/etc/passwd",
        "environ",
        "magic",
        "zero",
    ] {
        let error = fixture.read(path).unwrap_err();
        assert!(matches!(error.kind(), "denied" | "not-found"), "{path}: {error}");
        assert!(error.to_string().starts_with(&format!("'{path}'")) || error.kind() == "not-found", "{error}");
        for absolute in ["/etc", "/proc", "/dev", "/tmp"] {
            assert!(path.contains(absolute) || !error.to_string().contains(absolute), "{error}");
        }
        assert_eq!(kind(fixture.workspace.write(path, b"x")), "denied", "{path}");
        assert_eq!(kind(fixture.workspace.delete(path)), "denied", "{path}");
    }
    assert_eq!(fixture.list("**", 3).unwrap(), ["a/", "a/b/", "inside"]);
    fixture.assert_outside_is_untouched();
}

#[test]
fn circular_links_are_refused() {
    let fixture = Fixture::new();
    fixture.link("loop", "loop");
    fixture.link("pong", "ping");
    fixture.link("ping", "pong");
    fixture.link(".", "here");
    fixture.file("end", "x");
    fixture.link("end", "link0");
    for link in 1..=limits::LINKS {
        fixture.link(format!("link{}", link - 1), &format!("link{link}"));
    }
    for path in ["loop", "loop/a", "ping", &format!("link{}", limits::LINKS)] {
        assert_eq!(kind(fixture.read(path)), "denied", "{path}");
    }
    assert_eq!(fixture.read(&format!("link{}", limits::LINKS - 1)).unwrap(), "x");
    assert_eq!(fixture.read("here/here/here/end").unwrap(), "x");
    // Ten links of a thousand segments each would need too many lookups.
    for link in 0..10 {
        fixture.link(format!("{}winding{}", "./".repeat(1_000), link + 1), &format!("winding{link}"));
    }
    assert_eq!(kind(fixture.read("winding0")), "denied");
    let listed = fixture.list("**", 7).unwrap();
    assert_eq!(listed.len(), 1 + limits::LINKS, "{listed:?}");
}

#[test]
fn pipes_and_devices_never_block() {
    let fixture = Fixture::new();
    assert!(Command::new("mkfifo").arg(fixture.root.join("fifo")).status().unwrap().success());
    let _listener = UnixListener::bind(fixture.root.join("socket")).unwrap();
    fixture.link("fifo", "link");
    fixture.file("x", "");
    fs::create_dir(fixture.root.join("sub")).unwrap();
    assert!(Command::new("mkfifo").arg(fixture.root.join("sub/.gitignore")).status().unwrap().success());
    // In its own thread: if a call blocks, the test must fail instead of hanging.
    let (done, waited) = mpsc::channel();
    let workspace = fixture.workspace.clone();
    thread::spawn(move || {
        let refused = ["fifo", "socket", "link"].map(|path| {
            [kind(workspace.read(path, 0, 10)), kind(workspace.write(path, b"x")), kind(workspace.delete(path))]
        });
        let listed = workspace.walk("**", None, 10).unwrap();
        // Opening it does not block either, in case the type is only known afterwards.
        let opened = crate::handle::open(
            &cap_std::fs::Dir::open_ambient_dir(&fixture.root, cap_std::ambient_authority()).unwrap(),
            "fifo",
            crate::handle::OpenFor::Reading,
        );
        done.send((refused, listed, opened.unwrap().1.is_file())).unwrap();
        drop(fixture);
    });
    let (refused, listed, is_file) = waited.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
    assert_eq!(refused, [["denied"; 3]; 3]);
    assert_eq!(listed.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["sub", "x"]);
    assert!(!is_file);
}

#[test]
fn names_that_are_not_utf8_are_skipped() {
    let fixture = Fixture::new();
    let odd = OsStr::from_bytes(b"odd\xff");
    fs::create_dir(fixture.root.join(odd)).unwrap();
    fs::write(fixture.root.join(odd).join("x"), "").unwrap();
    fs::write(fixture.root.join(OsStr::from_bytes(b"\xfe.txt")), "").unwrap();
    fixture.file("y", "");
    fixture.link(OsStr::from_bytes(b"odd\xff/x"), "to-odd");
    assert_eq!(fixture.list("**", 10).unwrap(), ["y"]);
    assert_eq!(kind(fixture.read("to-odd")), "not-found");
    assert_eq!(kind(fixture.read("odd\u{fffd}/x")), "not-found");
}

#[test]
fn hostile_gitignore_rules_are_fast() {
    let fixture = Fixture::new();
    for file in 0..300 {
        fixture.file(&format!("{}{file}.c", "ab".repeat(100)), "");
    }
    // With regular expressions these rules take more than a gigabyte, and a minute.
    let rules: String = (0..300).map(|rule| format!("*a{}x{rule}.c\n", "?".repeat(18))).collect();
    fixture.file(".gitignore", &rules);
    assert_eq!(fixture.list("**/*.c", 1_000).unwrap().len(), 300);
    let glob = "*a?".repeat(170);
    assert_eq!(fixture.list(&glob, 1_000).unwrap().len(), 0);
}

#[test]
fn messages_are_clean_and_short() {
    let fixture = Fixture::new();
    let error = fixture.read(&format!("a\u{202e}b{}", "x".repeat(250))).unwrap_err().to_string();
    assert!(!error.contains('\u{202e}') && error.chars().count() < 300, "{error}");
    let error = fixture.read("a\u{1b}[2Jb").unwrap_err().to_string();
    assert!(!error.contains('\u{1b}'), "{error}");
    fixture.link("../outside/secret", "x");
    let error = fixture.read("x").unwrap_err().to_string();
    assert!(!error.contains(SENTINEL) && !error.contains("outside/"), "{error}");
}
