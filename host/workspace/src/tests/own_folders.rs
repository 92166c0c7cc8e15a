//! Patchbay's own folders inside a workspace: nothing reads, writes or lists them, by any name.

use std::fs;

use super::{House, kind};
use crate::{ProtectedPaths, Workspace, WorkspaceAccess};

impl House {
    /// The same workspace, where `paths` below its root are Patchbay's own.
    pub(super) fn protecting(&mut self, paths: &[&str]) {
        let protected = ProtectedPaths::new(paths.iter().map(|path| self.root.join(path)));
        self.open_protected(protected);
    }

    fn open_protected(&mut self, protected: ProtectedPaths) {
        let access = WorkspaceAccess { root: self.root.clone(), protected, write_instructions: false };
        self.workspace = Workspace::open_for_plugins(&access).unwrap();
    }

    fn assert_is_out_of_bounds(&self, path: &str) {
        let file = format!("{path}/credentials.json");
        let error = self.read(&file).unwrap_err();
        assert!(error.to_string().contains("Patchbay's own folders"), "{error}");
        for path in [file.as_str(), &format!("{path}/new"), &format!("{path}/sub/new")] {
            assert_eq!(kind(self.workspace.write(path, b"x")), "denied", "{path}");
            assert!(matches!(kind(self.workspace.delete(path)), "denied" | "not-found"), "{path}");
        }
    }
}

fn house() -> House {
    let mut house = House::new();
    house.file("home/config/credentials.json", "secret");
    house.file("home/config/providers/x.wasm", "adapter");
    house.file("home/data/patchbay.db", "database");
    house.file("src/main.rs", "fn main() {}");
    house.protecting(&["home/config", "home/data"]);
    house
}

#[test]
fn nothing_of_them_is_read_written_or_listed() {
    let house = house();
    house.assert_is_out_of_bounds("home/config");
    assert_eq!(kind(house.read("home/config/providers/x.wasm")), "denied");
    assert_eq!(kind(house.read("home/data/patchbay.db")), "denied");
    assert_eq!(kind(house.workspace.write("home/config/providers/y.wasm", b"x")), "denied");
    assert_eq!(house.list("**", 2).unwrap(), ["home/", "src/", "src/main.rs"]);
    assert_eq!(house.list("home/*/*", 9).unwrap(), [""; 0]);
    assert_eq!(house.list("home/config/**", 9).unwrap(), [""; 0]);
    assert_eq!(fs::read_dir(house.root.join("home/config")).unwrap().count(), 2);
    house.workspace.write("home/other/x", b"x").unwrap();
}

#[test]
fn links_lead_to_nothing_of_them() {
    let house = house();
    house.link("home", "linked-home");
    house.link("home/config", "linked");
    house.link("home/config/credentials.json", "key");
    house.link("src/../home/./config/credentials.json", "winding");
    house.link("key", "chain");
    house.link("../home/data", "src/data");
    for path in ["linked-home/config/credentials.json", "linked/credentials.json", "key", "winding", "chain"] {
        assert_eq!(kind(house.read(path)), "denied", "{path}");
    }
    assert_eq!(kind(house.read("src/data/patchbay.db")), "denied");
    assert_eq!(house.list("**", 3).unwrap(), ["home/", "src/", "src/main.rs"]);
}

#[test]
fn another_name_of_the_folder_makes_no_difference() {
    let house = house();
    fs::rename(house.root.join("home/config"), house.root.join("innocent")).unwrap();
    house.assert_is_out_of_bounds("innocent");
    assert!(!house.list("**", 9).unwrap().iter().any(|path| path.starts_with("innocent")));
}

#[test]
fn a_folder_that_is_made_later_is_out_of_bounds() {
    let mut house = House::new();
    house.protecting(&["home/config"]);
    // Made by the plugin itself, so that the next start would take its file for the configuration.
    assert_eq!(kind(house.workspace.write("home/config/config.toml", b"x")), "denied");
    assert!(!house.root.join("home/config").exists());
    // Made by another process after this one began.
    house.file("home/config/credentials.json", "secret");
    house.protecting(&["home/config"]);
    house.assert_is_out_of_bounds("home/config");
}

#[test]
fn a_file_of_them_that_is_a_link_protects_its_target() {
    let mut house = House::new();
    house.file("dotfiles/config.toml", "default_model = 'x'");
    house.file("dotfiles/notes", "x");
    house.link("../dotfiles/config.toml", "home/config.toml");
    house.protecting(&["home/config.toml"]);
    assert_eq!(kind(house.read("dotfiles/config.toml")), "denied");
    assert_eq!(kind(house.workspace.write("dotfiles/config.toml", b"x")), "denied");
    assert_eq!(kind(house.workspace.delete("dotfiles/config.toml")), "denied");
    assert_eq!(house.list("dotfiles/*", 9).unwrap(), ["dotfiles/notes"]);
    house.workspace.write("dotfiles/notes", b"y").unwrap();
}

#[test]
fn a_workspace_inside_of_them_gives_nothing() {
    let mut house = House::new();
    house.file("skills/mine/SKILL.md", "x");
    let protected = ProtectedPaths::new([house.root.clone()]);
    house.open_protected(protected.clone());
    assert_eq!(kind(house.read("skills/mine/SKILL.md")), "denied");
    house.root = house.root.join("skills/mine");
    house.open_protected(protected);
    assert_eq!(kind(house.read("SKILL.md")), "denied");
    assert_eq!(kind(house.workspace.write("x", b"x")), "denied");
    assert_eq!(kind(house.list("**", 9)), "denied");
}
