//! Patchbay's own folders inside a workspace cannot be read, written or listed, by any name.

use std::fs;

use super::{Fixture, kind};
use crate::{ProtectedPaths, Workspace, WorkspaceAccess};

impl Fixture {
    /// Opens the workspace again, with `paths` below its root as Patchbay's own folders.
    pub(super) fn protecting(&mut self, paths: &[&str]) {
        let protected = ProtectedPaths::new(paths.iter().map(|path| self.root.join(path)));
        self.open_protected(protected);
    }

    fn open_protected(&mut self, protected: ProtectedPaths) {
        let access = WorkspaceAccess { root: self.root.clone(), protected, write_instructions: false };
        self.workspace = Workspace::open_for_plugins(&access).unwrap();
    }

    fn assert_is_protected(&self, path: &str) {
        let file = format!("{path}/credentials.json");
        let error = self.read(&file).unwrap_err();
        assert!(error.to_string().contains("Patchbay's own folders"), "{error}");
        for path in [file.as_str(), &format!("{path}/new"), &format!("{path}/sub/new")] {
            assert_eq!(kind(self.workspace.write(path, b"x")), "denied", "{path}");
            assert!(matches!(kind(self.workspace.delete(path)), "denied" | "not-found"), "{path}");
        }
    }
}

fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.file("home/config/credentials.json", "secret");
    fixture.file("home/config/providers/x.wasm", "adapter");
    fixture.file("home/data/patchbay.db", "database");
    fixture.file("src/main.rs", "fn main() {}");
    fixture.protecting(&["home/config", "home/data"]);
    fixture
}

#[test]
fn own_folders_cannot_be_read_written_or_listed() {
    let fixture = fixture();
    fixture.assert_is_protected("home/config");
    assert_eq!(kind(fixture.read("home/config/providers/x.wasm")), "denied");
    assert_eq!(kind(fixture.read("home/data/patchbay.db")), "denied");
    assert_eq!(kind(fixture.workspace.write("home/config/providers/y.wasm", b"x")), "denied");
    assert_eq!(fixture.list("**", 2).unwrap(), ["home/", "src/", "src/main.rs"]);
    assert_eq!(fixture.list("home/*/*", 9).unwrap(), [""; 0]);
    assert_eq!(fixture.list("home/config/**", 9).unwrap(), [""; 0]);
    assert_eq!(fs::read_dir(fixture.root.join("home/config")).unwrap().count(), 2);
    fixture.workspace.write("home/other/x", b"x").unwrap();
}

#[test]
fn folders_of_skills_are_read_but_not_written() {
    let mut fixture = Fixture::new();
    fixture.file("shared/skills/x/SKILL.md", "Go.");
    let (roots, later) = (fixture.root.join("shared/skills"), fixture.root.join("later"));
    let protected = ProtectedPaths::default().with_skill_roots([roots.clone(), later]);
    fixture.open_protected(protected.clone());
    assert_eq!(fixture.read("shared/skills/x/SKILL.md").unwrap(), "Go.");
    assert_eq!(fixture.list("shared/**", 9).unwrap().len(), 3);
    fs::rename(&roots, fixture.root.join("shared/renamed")).unwrap();
    for path in ["shared/renamed/x/SKILL.md", "shared/renamed/y/SKILL.md", "later/z/SKILL.md"] {
        let error = fixture.workspace.write(path, b"x").unwrap_err();
        assert!(error.to_string().contains("skill_roots of config.toml"), "{error}");
    }
    assert_eq!(kind(fixture.workspace.delete("shared/renamed/x/SKILL.md")), "denied");
    assert!(!fixture.root.join("later").exists());
    fixture.workspace.write("shared/notes", b"x").unwrap();
    // The root of a workspace may itself be in a folder of skills.
    let root = fixture.root.join("shared/renamed/x");
    let inside = Workspace::open_for_plugins(&WorkspaceAccess { root, protected, write_instructions: false }).unwrap();
    assert_eq!(inside.read("SKILL.md", 0, 9).unwrap(), b"Go.");
    assert_eq!(kind(inside.write("SKILL.md", b"x")), "denied");
}

#[test]
fn links_into_own_folders_are_refused() {
    let fixture = fixture();
    fixture.link("home", "linked-home");
    fixture.link("home/config", "linked");
    fixture.link("home/config/credentials.json", "key");
    fixture.link("src/../home/./config/credentials.json", "winding");
    fixture.link("key", "chain");
    fixture.link("../home/data", "src/data");
    for path in ["linked-home/config/credentials.json", "linked/credentials.json", "key", "winding", "chain"] {
        assert_eq!(kind(fixture.read(path)), "denied", "{path}");
    }
    assert_eq!(kind(fixture.read("src/data/patchbay.db")), "denied");
    assert_eq!(fixture.list("**", 3).unwrap(), ["home/", "src/", "src/main.rs"]);
}

#[test]
fn renamed_own_folder_stays_protected() {
    let fixture = fixture();
    fs::rename(fixture.root.join("home/config"), fixture.root.join("innocent")).unwrap();
    fixture.assert_is_protected("innocent");
    assert!(!fixture.list("**", 9).unwrap().iter().any(|path| path.starts_with("innocent")));
}

#[test]
fn own_folder_created_later_is_protected() {
    let mut fixture = Fixture::new();
    fixture.protecting(&["home/config"]);
    // The plugin tries to create it. The next start would read the file as configuration.
    assert_eq!(kind(fixture.workspace.write("home/config/config.toml", b"x")), "denied");
    assert!(!fixture.root.join("home/config").exists());
    // Created by another process after this one started.
    fixture.file("home/config/credentials.json", "secret");
    fixture.protecting(&["home/config"]);
    fixture.assert_is_protected("home/config");
}

#[test]
fn target_of_a_linked_own_file_is_protected() {
    let mut fixture = Fixture::new();
    fixture.file("dotfiles/config.toml", "default_model = 'x'");
    fixture.file("dotfiles/notes", "x");
    fixture.link("../dotfiles/config.toml", "home/config.toml");
    fixture.protecting(&["home/config.toml"]);
    assert_eq!(kind(fixture.read("dotfiles/config.toml")), "denied");
    assert_eq!(kind(fixture.workspace.write("dotfiles/config.toml", b"x")), "denied");
    assert_eq!(kind(fixture.workspace.delete("dotfiles/config.toml")), "denied");
    assert_eq!(fixture.list("dotfiles/*", 9).unwrap(), ["dotfiles/notes"]);
    fixture.workspace.write("dotfiles/notes", b"y").unwrap();
}

#[test]
fn workspace_inside_an_own_folder_is_closed() {
    let mut fixture = Fixture::new();
    fixture.file("skills/mine/SKILL.md", "x");
    let protected = ProtectedPaths::new([fixture.root.clone()]);
    fixture.open_protected(protected.clone());
    assert_eq!(kind(fixture.read("skills/mine/SKILL.md")), "denied");
    fixture.root = fixture.root.join("skills/mine");
    fixture.open_protected(protected);
    assert_eq!(kind(fixture.read("SKILL.md")), "denied");
    assert_eq!(kind(fixture.workspace.write("x", b"x")), "denied");
    assert_eq!(kind(fixture.list("**", 9)), "denied");
}
