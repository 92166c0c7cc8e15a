//! The targets of links from folders of skills, personas and settings can be read, but not written.

use std::fs;

use super::{Fixture, kind};
use crate::{ProtectedPaths, Workspace, WorkspaceAccess};

impl Fixture {
    /// Opens the workspace again. The operator's folder of skills is outside of it.
    fn with_skills_of_the_operator(&mut self) {
        let protected = ProtectedPaths::default().with_links_in([self.skills_of_the_operator()]);
        fs::create_dir_all(self.skills_of_the_operator()).unwrap();
        self.workspace = open(&self.root, protected);
    }

    fn skills_of_the_operator(&self) -> std::path::PathBuf {
        self.root.parent().unwrap().join("config/skills")
    }

    /// Makes a link in the operator's folder of skills.
    fn link_skill(&self, target: impl AsRef<std::path::Path>, name: &str) {
        std::os::unix::fs::symlink(target, self.skills_of_the_operator().join(name)).unwrap();
    }

    /// Asserts that none of `paths` can be written or deleted, because a link leads there, and that the attempt leaves no trace.
    fn assert_linked(&self, paths: &[&str]) {
        for path in paths {
            let parent_was_there = self.root.join(path).parent().unwrap().exists();
            let error = self.workspace.write(path, b"x").unwrap_err();
            assert!(error.kind() == "denied" && error.to_string().contains("a link makes "), "{path}: {error}");
            assert!(matches!(kind(self.workspace.delete(path)), "denied" | "not-found"), "{path}");
            assert_eq!(kind(self.workspace.place_to_write(path, 1)), "denied", "{path}");
            assert_eq!(self.root.join(path).parent().unwrap().exists(), parent_was_there, "{path}");
        }
    }

    fn assert_written(&self, paths: &[&str]) {
        for path in paths {
            self.workspace.write(path, b"x").unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }
}

fn open(root: &std::path::Path, protected: ProtectedPaths) -> Workspace {
    let root = root.canonicalize().unwrap();
    Workspace::open_for_plugins(&WorkspaceAccess { root, protected, write_instructions: false }).unwrap()
}

#[test]
fn linked_folders_of_a_workspace_are_read_but_not_written() {
    let fixture = Fixture::new();
    for folder in ["skills", "personas", "shared/skills", "dot-agents"] {
        fixture.file(&format!("{folder}/x/SKILL.md"), "Go.");
    }
    fixture.link("../skills", ".claude/skills");
    fixture.link("../personas", ".patchbay/agents");
    fixture.link("../shared/../shared/skills", ".patchbay/skills");
    fixture.link("dot-agents", ".agents");
    assert_eq!(fixture.read("skills/x/SKILL.md").unwrap(), "Go.");
    fixture.assert_linked(&[
        "skills/x/SKILL.md",
        "skills/x/scripts/new.sh",
        "skills/new/SKILL.md",
        "skills/new.wasm",
        "personas/x/SKILL.md",
        "personas/coder/SOUL.md",
        "shared/skills/x/SKILL.md",
        "dot-agents/x/SKILL.md",
        "dot-agents/skills/x/SKILL.md",
    ]);
    fixture.assert_written(&["shared/notes", "skill/x/SKILL.md", "src/main.rs"]);
}

#[test]
fn link_that_is_made_or_leads_somewhere_later_counts_at_the_next_write() {
    let fixture = Fixture::new();
    fixture.assert_written(&["skills/x/SKILL.md"]);
    fixture.link("../skills", ".claude/skills");
    fixture.link("../later/skills", ".agents/skills");
    // The plugin itself would create the second link's target.
    fixture.assert_linked(&["skills/x/SKILL.md", "later/skills/x/SKILL.md", "later/skills/x"]);
    fs::remove_file(fixture.root.join(".claude/skills")).unwrap();
    fixture.assert_written(&["skills/x/SKILL.md"]);
}

#[test]
fn linked_folders_of_other_workspaces_count() {
    let mut fixture = Fixture::new();
    // One repository is in the workspace, and one is around it.
    fixture.file("vendor/repository/skills/x/SKILL.md", "Go.");
    fixture.link("../skills", "vendor/repository/.claude/skills");
    fixture.file("project/skills/x/SKILL.md", "Go.");
    fixture.file("project/src/x.rs", "");
    fixture.link("../project/skills", ".claude/skills");
    fixture.assert_linked(&["vendor/repository/skills/x/SKILL.md", "project/skills/x/SKILL.md"]);
    fixture.root = fixture.root.join("project");
    fixture.workspace = open(&fixture.root, ProtectedPaths::default());
    fixture.assert_linked(&["skills/x/SKILL.md"]);
    fixture.assert_written(&["src/x.rs"]);
    // Links in a folder above never protect the root that the user chose.
    fixture.root = fixture.root.join("skills");
    fixture.workspace = open(&fixture.root, ProtectedPaths::default());
    fixture.assert_written(&["x/SKILL.md"]);
}

#[test]
fn workspace_that_is_its_own_folder_of_skills_stays_open_but_for_skills() {
    let fixture = Fixture::new();
    fixture.file("git-helper/SKILL.md", "Go.");
    fixture.file("notes/text", "x");
    fixture.link("..", ".claude/skills");
    fixture.assert_linked(&[
        "git-helper/SKILL.md",
        "git-helper/scripts/run.sh",
        "new/SKILL.md",
        "notes/skill.md",
        "new.wasm",
        "new.WASM.",
    ]);
    fixture.assert_written(&["notes/text", "README.md", "new/text", "notes/deep/SKILL.md", "new/x.wasm"]);
}

#[test]
fn targets_of_linked_skills_are_not_written() {
    let mut fixture = Fixture::new();
    fixture.with_skills_of_the_operator();
    fixture.file("myskill/SKILL.md", "be nice");
    fixture.file("target/tool.wasm", "component");
    fixture.assert_written(&["myskill/SKILL.md"]);
    fixture.link_skill(fixture.root.join("myskill"), "myskill");
    fixture.link_skill(fixture.root.join("target/tool.wasm"), "tool.wasm");
    // These do not exist yet.
    fixture.link_skill("../../root/target/new.wasm", "new.wasm");
    fixture.link_skill(fixture.root.join("planned"), "planned");
    // Links are read when a call first writes.
    fixture.with_skills_of_the_operator();
    fixture.assert_linked(&[
        "myskill/SKILL.md",
        "myskill/references/x.md",
        "target/tool.wasm",
        "target/new.wasm",
        "target/NEW.wasm",
        "planned/SKILL.md",
        "planned/x/y",
    ]);
    fixture.assert_written(&["target/other.wasm", "src/main.rs"]);
    let inside = open(
        &fixture.root.join("myskill"),
        ProtectedPaths::default().with_links_in([fixture.skills_of_the_operator()]),
    );
    assert_eq!(inside.read("SKILL.md", 0, 9).unwrap(), b"x");
    assert_eq!(kind(inside.write("SKILL.md", b"be evil")), "denied");
}

#[test]
fn targets_of_links_in_skill_roots_are_not_written() {
    let mut fixture = Fixture::new();
    fixture.with_skills_of_the_operator();
    fixture.file("myskill/SKILL.md", "be nice");
    fixture.link_skill(fixture.root.join("myskill"), "myskill");
    fixture.workspace =
        open(&fixture.root, ProtectedPaths::default().with_skill_roots([fixture.skills_of_the_operator()]));
    fixture.assert_linked(&["myskill/SKILL.md"]);
}
