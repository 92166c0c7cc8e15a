use std::{
    ffi::OsStr, fs, os::unix::ffi::OsStrExt as _, os::unix::net::UnixListener, process::Command, sync::mpsc, thread,
};

use super::{House, SENTINEL, kind};
use crate::limits;

#[test]
fn no_path_leads_out() {
    let house = House::new();
    house.file("a/b", "");
    let absolute = house.outside.join("secret");
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
        assert_eq!(kind(house.read(path)), "invalid", "{path}");
        assert_eq!(kind(house.workspace.write(path, b"x")), "invalid", "{path}");
        assert_eq!(kind(house.workspace.delete(path)), "invalid", "{path}");
        assert!(house.workspace.walk(path, None, 10).map_or_else(|e| e.kind() == "invalid", |found| found.is_empty()));
    }
    house.assert_outside_is_untouched();
}

#[test]
fn no_link_leads_out() {
    let house = House::new();
    let absolute = house.outside.join("secret");
    house.file("inside", "x");
    house.link("/etc/passwd", "passwd");
    house.link("../outside/secret", "secret");
    house.link("../outside", "outside");
    house.link(&absolute, "absolute");
    house.link("../../outside/secret", "a/climbs");
    house.link("a/../../outside/secret", "a/b/winds");
    house.link("..", "up");
    house.link("../root/inside", "out-and-in");
    house.link(house.root.join("inside"), "absolute-inside");
    house.link("passwd", "chain");
    house.link("outside", "chain-of-directories");
    house.link("/", "everything");
    house.link("/proc/self/environ", "environ");
    house.link("/proc/self/root/etc/passwd", "magic");
    house.link("/dev/zero", "zero");
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
        let error = house.read(path).unwrap_err();
        assert!(matches!(error.kind(), "denied" | "not-found"), "{path}: {error}");
        assert!(error.to_string().starts_with(&format!("'{path}'")) || error.kind() == "not-found", "{error}");
        for absolute in ["/etc", "/proc", "/dev", "/tmp"] {
            assert!(path.contains(absolute) || !error.to_string().contains(absolute), "{error}");
        }
        assert_eq!(kind(house.workspace.write(path, b"x")), "denied", "{path}");
        assert_eq!(kind(house.workspace.delete(path)), "denied", "{path}");
    }
    assert_eq!(house.list("**", 3).unwrap(), ["a/", "a/b/", "inside"]);
    house.assert_outside_is_untouched();
}

#[test]
fn links_in_circles_end() {
    let house = House::new();
    house.link("loop", "loop");
    house.link("pong", "ping");
    house.link("ping", "pong");
    house.link(".", "here");
    house.file("end", "x");
    house.link("end", "link0");
    for link in 1..=limits::LINKS {
        house.link(format!("link{}", link - 1), &format!("link{link}"));
    }
    for path in ["loop", "loop/a", "ping", &format!("link{}", limits::LINKS)] {
        assert_eq!(kind(house.read(path)), "denied", "{path}");
    }
    assert_eq!(house.read(&format!("link{}", limits::LINKS - 1)).unwrap(), "x");
    assert_eq!(house.read("here/here/here/end").unwrap(), "x");
    // Forty links of a thousand parts each would be many look-ups.
    for link in 0..10 {
        house.link(format!("{}winding{}", "./".repeat(1_000), link + 1), &format!("winding{link}"));
    }
    assert_eq!(kind(house.read("winding0")), "denied");
    let listed = house.list("**", 7).unwrap();
    assert_eq!(listed.len(), 1 + limits::LINKS, "{listed:?}");
}

#[test]
fn what_is_no_regular_file_is_never_waited_for() {
    let house = House::new();
    assert!(Command::new("mkfifo").arg(house.root.join("fifo")).status().unwrap().success());
    let _listener = UnixListener::bind(house.root.join("socket")).unwrap();
    house.link("fifo", "link");
    house.file("x", "");
    fs::create_dir(house.root.join("sub")).unwrap();
    assert!(Command::new("mkfifo").arg(house.root.join("sub/.gitignore")).status().unwrap().success());
    // In a thread of its own: if it waited, the test would fail and not hang.
    let (done, waited) = mpsc::channel();
    let workspace = house.workspace.clone();
    thread::spawn(move || {
        let refused = ["fifo", "socket", "link"].map(|path| {
            [kind(workspace.read(path, 0, 10)), kind(workspace.write(path, b"x")), kind(workspace.delete(path))]
        });
        let listed = workspace.walk("**", None, 10).unwrap();
        // Also where it only turns out when it is open.
        let opened = crate::handle::open(
            &cap_std::fs::Dir::open_ambient_dir(&house.root, cap_std::ambient_authority()).unwrap(),
            "fifo",
            crate::handle::For::Reading,
        );
        done.send((refused, listed, opened.unwrap().1.is_file())).unwrap();
        drop(house);
    });
    let (refused, listed, is_file) = waited.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
    assert_eq!(refused, [["denied"; 3]; 3]);
    assert_eq!(listed.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["sub", "x"]);
    assert!(!is_file);
}

#[test]
fn names_that_are_not_text_are_passed_over() {
    let house = House::new();
    let odd = OsStr::from_bytes(b"odd\xff");
    fs::create_dir(house.root.join(odd)).unwrap();
    fs::write(house.root.join(odd).join("x"), "").unwrap();
    fs::write(house.root.join(OsStr::from_bytes(b"\xfe.txt")), "").unwrap();
    house.file("y", "");
    house.link(OsStr::from_bytes(b"odd\xff/x"), "to-odd");
    assert_eq!(house.list("**", 10).unwrap(), ["y"]);
    assert_eq!(kind(house.read("to-odd")), "not-found");
    assert_eq!(kind(house.read("odd\u{fffd}/x")), "not-found");
}

#[test]
fn hostile_patterns_cost_little() {
    let house = House::new();
    for file in 0..300 {
        house.file(&format!("{}{file}.c", "ab".repeat(100)), "");
    }
    // With regular expressions these rules take more than a gigabyte, and a minute.
    let rules: String = (0..300).map(|rule| format!("*a{}x{rule}.c\n", "?".repeat(18))).collect();
    house.file(".gitignore", &rules);
    assert_eq!(house.list("**/*.c", 1_000).unwrap().len(), 300);
    let glob = "*a?".repeat(170);
    assert_eq!(house.list(&glob, 1_000).unwrap().len(), 0);
}

#[test]
fn messages_are_clean_and_short() {
    let house = House::new();
    let error = house.read(&format!("a\u{202e}b{}", "x".repeat(250))).unwrap_err().to_string();
    assert!(!error.contains('\u{202e}') && error.chars().count() < 300, "{error}");
    let error = house.read("a\u{1b}[2Jb").unwrap_err().to_string();
    assert!(!error.contains('\u{1b}'), "{error}");
    house.link("../outside/secret", "x");
    let error = house.read("x").unwrap_err().to_string();
    assert!(!error.contains(SENTINEL) && !error.contains("outside/"), "{error}");
}
