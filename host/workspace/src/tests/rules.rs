//! Files that control the host: AGENTS.md, personas, SKILL.md.

use std::{process::Command, sync::mpsc, thread, time::Duration};

use super::Fixture;
use crate::{FileError, open_file_below, open_regular_file};

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.file(".git/config", "a token");
    fixture.file(".env", "a secret");
    fixture.file("secrets.md", "a secret");
    fixture.file("docs/AGENTS.md", "rules");
    fixture.file("CLAUDE.md", "rules");
    fixture.file(".patchbay/shared/SOUL.md", "rules");
    fixture.file(".patchbay/.env", "a secret");
    fixture
}

#[test]
fn rules_may_link_only_to_files_that_plugins_cannot_write() {
    let fixture = fixture();
    for target in ["docs/AGENTS.md", "CLAUDE.md", "./docs/../CLAUDE.md", ".patchbay/shared/SOUL.md"] {
        let _ = std::fs::remove_file(fixture.root.join("AGENTS.md"));
        fixture.link(target, "AGENTS.md");
        assert_eq!(fixture.workspace.read_rules("AGENTS.md", 100).unwrap(), b"rules", "{target}");
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
        std::fs::remove_file(fixture.root.join("AGENTS.md")).unwrap();
        fixture.link(target, "AGENTS.md");
        assert_eq!(fixture.workspace.read_rules("AGENTS.md", 100).unwrap_err().kind(), "denied", "{target}");
    }
}

#[test]
fn rules_over_the_size_limit_are_refused() {
    let fixture = fixture();
    assert!(matches!(fixture.workspace.read_rules("docs/AGENTS.md", 4), Err(FileError::TooLong { max: 4, .. })));
    assert_eq!(fixture.workspace.read_rules("docs/AGENTS.md", 5).unwrap(), b"rules");
    assert!(matches!(fixture.workspace.read_rules("AGENTS.md", 5), Err(FileError::NotFound { .. })));
}

#[test]
fn files_below_a_folder_are_opened_inside_it() {
    let fixture = fixture();
    fixture.file("skill/SKILL.md", "text");
    fixture.file("skill/.git/config", "a token");
    fixture.file("skill/.env", "a secret");
    fixture.link("SKILL.md", "skill/inside");
    fixture.link(".git/config", "skill/git");
    fixture.link(".env", "skill/hidden");
    fixture.link("../secrets.md", "skill/above");
    fixture.link(fixture.outside.join("secret"), "skill/outside");
    let folder = fixture.workspace.open_folder("skill").unwrap();
    let kind = |path: &str| open_file_below(&folder, path).map(drop).map_err(|error| error.kind());
    assert_eq!([kind("SKILL.md"), kind("inside")], [Ok(()); 2]);
    for path in ["git", "hidden", "above", "outside", ".git/config"] {
        assert_eq!(kind(path), Err("denied"), "{path}");
    }
    assert_eq!(kind("nothing"), Err("not-found"));
}

#[test]
fn pipes_are_refused_without_blocking() {
    let fixture = Fixture::new();
    assert!(Command::new("mkfifo").arg(fixture.root.join("pipe")).status().unwrap().success());
    let (done, wait) = mpsc::channel();
    let path = fixture.root.join("pipe");
    let workspace = fixture.workspace.clone();
    thread::spawn(move || {
        let by_path = open_regular_file(&path).map(drop).map_err(|error| error.kind());
        done.send((by_path, workspace.open_file("pipe").map(drop).map_err(|error| error.kind()))).unwrap();
    });
    let (by_path, by_name) = wait.recv_timeout(Duration::from_secs(60)).expect("nothing waits for a writer");
    assert_eq!(by_path, Err(std::io::ErrorKind::InvalidInput));
    assert_eq!(by_name, Err("denied"));
}
