//! Files that become rules of the host: AGENTS.md, personas, SKILL.md.

use std::{process::Command, sync::mpsc, thread, time::Duration};

use super::House;
use crate::{FileError, open_file_below, open_regular_file};

fn house() -> House {
    let house = House::new();
    house.file(".git/config", "a token");
    house.file(".env", "a secret");
    house.file("secrets.md", "a secret");
    house.file("docs/AGENTS.md", "rules");
    house.file("CLAUDE.md", "rules");
    house.file(".patchbay/shared/SOUL.md", "rules");
    house.file(".patchbay/.env", "a secret");
    house
}

#[test]
fn rules_are_read_through_links_to_files_that_plugins_cannot_write() {
    let house = house();
    for target in ["docs/AGENTS.md", "CLAUDE.md", "./docs/../CLAUDE.md", ".patchbay/shared/SOUL.md"] {
        let _ = std::fs::remove_file(house.root.join("AGENTS.md"));
        house.link(target, "AGENTS.md");
        assert_eq!(house.workspace.read_rules("AGENTS.md", 100).unwrap(), b"rules", "{target}");
    }
    for target in [
        ".git/config",
        ".env",
        "secrets.md",
        ".patchbay/.env",
        ".patchbay/../secrets.md",
        "../outside/secret",
        "/etc/passwd",
        "AGENTS.md",
    ] {
        std::fs::remove_file(house.root.join("AGENTS.md")).unwrap();
        house.link(target, "AGENTS.md");
        assert_eq!(house.workspace.read_rules("AGENTS.md", 100).unwrap_err().kind(), "denied", "{target}");
    }
}

#[test]
fn rules_have_a_size() {
    let house = house();
    assert!(matches!(house.workspace.read_rules("docs/AGENTS.md", 4), Err(FileError::TooLong { max: 4, .. })));
    assert_eq!(house.workspace.read_rules("docs/AGENTS.md", 5).unwrap(), b"rules");
    assert!(matches!(house.workspace.read_rules("AGENTS.md", 5), Err(FileError::NotFound { .. })));
}

#[test]
fn files_of_a_folder_are_opened_within_it() {
    let house = house();
    house.file("skill/SKILL.md", "text");
    house.file("skill/.git/config", "a token");
    house.file("skill/.env", "a secret");
    house.link("SKILL.md", "skill/inside");
    house.link(".git/config", "skill/git");
    house.link(".env", "skill/hidden");
    house.link("../secrets.md", "skill/above");
    house.link(house.outside.join("secret"), "skill/outside");
    let folder = house.workspace.open_folder("skill").unwrap();
    let kind = |path: &str| open_file_below(&folder, path).map(drop).map_err(|error| error.kind());
    assert_eq!([kind("SKILL.md"), kind("inside")], [Ok(()); 2]);
    for path in ["git", "hidden", "above", "outside", ".git/config"] {
        assert_eq!(kind(path), Err("denied"), "{path}");
    }
    assert_eq!(kind("nothing"), Err("not-found"));
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let house = House::new();
    assert!(Command::new("mkfifo").arg(house.root.join("pipe")).status().unwrap().success());
    let (done, wait) = mpsc::channel();
    let path = house.root.join("pipe");
    let workspace = house.workspace.clone();
    thread::spawn(move || {
        let by_path = open_regular_file(&path).map(drop).map_err(|error| error.kind());
        done.send((by_path, workspace.open_file("pipe").map(drop).map_err(|error| error.kind()))).unwrap();
    });
    let (by_path, by_name) = wait.recv_timeout(Duration::from_secs(10)).expect("nothing waits for a writer");
    assert_eq!(by_path, Err(std::io::ErrorKind::InvalidInput));
    assert_eq!(by_name, Err("denied"));
}
