//! Plugins in Claude Code's format: skills, commands as skills, and nothing that starts by itself.

use std::{fs, os::unix::fs::PermissionsExt as _};

use patchbay_tests::binary::Patchbay;

use crate::{
    package_addresses::refused,
    packages::succeed,
    plugin_add::{lock, plugin},
};

const REVIEW: &str = "---\nname: review\ndescription: Reviews changes\n---\nReview them.\n";

/// Writes a plugin with a skill, two commands, a server, and everything else that could run a program.
fn write(patchbay: &Patchbay, version: &str, commit: &str) {
    let program = format!("#!/bin/sh\necho ran >> {}\n", patchbay.folder().join("canary").display());
    let manifest = format!(
        r#"{{"name": "git.tools", "version": "{version}", "hooks": "./hooks/hooks.json", "userConfig": {{}}}}"#
    );
    let hooks = r#"{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/bin/run"}]}]}}"#;
    let servers = r#"{"tools": {"command": "${CLAUDE_PLUGIN_ROOT}/bin/run", "env": {"KEY": "${GIT_TOOLS_KEY}", "MODE": "${MODE:-fast}"}}}"#;
    for (path, contents) in [
        (".claude-plugin/plugin.json", &*manifest),
        ("skills/review/SKILL.md", REVIEW),
        ("commands/commit.md", commit),
        ("commands/plain.md", "Mention PLAIN.\n"),
        (".mcp.json", servers),
        ("hooks/hooks.json", hooks),
        ("agents/reviewer.md", "You review.\n"),
        (
            "monitors/monitors.json",
            r#"[{"name": "m", "command": "${CLAUDE_PLUGIN_ROOT}/bin/run", "description": "x"}]"#,
        ),
        ("bin/run", &program),
    ] {
        patchbay.write(&format!("workspace/tools/{path}"), contents);
    }
    fs::set_permissions(patchbay.workspace().join("tools/bin/run"), fs::Permissions::from_mode(0o755)).unwrap();
}

fn commit(words: &str) -> String {
    format!(
        "---\ndescription: Commits changes\nargument-hint: [message]\n---\nStatus: !`git status`\n{words}: $ARGUMENTS\n"
    )
}

#[test]
fn commands_of_a_package_are_skills_and_nothing_runs() {
    let patchbay = Patchbay::new();
    write(&patchbay, "1.0.0", &commit("Commit with"));
    let added = succeed(&patchbay, &["add", "tools", "--yes"]);
    for line in [
        "git.tools 1.0.0 (9 files, ",
        "skill commit: Commits changes\n",
        "skill plain\n",
        "skill review: Reviews changes\n",
        "'KEY=${GIT_TOOLS_KEY}' 'MODE=${MODE}' ./bin/run (needs GIT_TOOLS_KEY, MODE or fast)\n",
        "'commands/commit.md': only Claude Code runs commands and inserts files in a text. Here this stays text: '!`git status`'.\n",
        "'agents/' is not used",
        "'bin/' is not used",
        "'hooks/' is not used",
        "'monitors/' is not used",
        ".claude-plugin/plugin.json: 'hooks' is not used.",
        ".claude-plugin/plugin.json: 'userConfig' is not used.",
    ] {
        assert!(added.contains(line), "{line}: {added}");
    }
    let first = patchbay.line("/commit a message");
    let message = "Status: !`git status`\nCommit with: a message";
    assert!(first.contains(message), "{first}");
    let session = patchbay.last_session();
    assert!(patchbay.line("/plain now").contains("Mention PLAIN."));
    patchbay.exec(&["/reload_skills", "/review", "say hello"]);

    write(&patchbay, "1.1.0", &commit("Write"));
    let diff = succeed(&patchbay, &["update", "git.tools", "--check", "--text"]);
    for line in ["git.tools: 1.0.0 to 1.1.0\n", "instructions of commit: +1 −1\n", "  + Write: $ARGUMENTS\n"] {
        assert!(diff.contains(line), "{line}: {diff}");
    }
    succeed(&patchbay, &["update", "git.tools", "--yes", "--to", "1.1.0"]);
    assert!(patchbay.line("/commit it").contains("Write: it"));
    // An open session keeps the earlier text of its command.
    let old = patchbay.run(&["exec", "--session", &session, "/commit again"]).out;
    assert!(old.contains("Commit with: again"), "{old}");
    succeed(&patchbay, &["verify"]);
    assert!(!patchbay.folder().join("canary").exists());
}

#[test]
fn changed_command_leaves_the_package_out() {
    let patchbay = Patchbay::new();
    write(&patchbay, "1.0.0", &commit("Commit with"));
    succeed(&patchbay, &["add", "tools", "--rename", "plain=words", "--yes"]);
    let text = fs::read_to_string(lock(&patchbay)).unwrap();
    assert!(text.contains("name = \"words\"\npath = \"commands/plain.md\"\n"), "{text}");
    assert!(patchbay.line("/words now").contains("Mention PLAIN."));
    let folder = fs::read_dir(patchbay.home().join("data/packages/git.tools")).unwrap();
    let copy = folder.map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    let command = copy.join("commands/plain.md");
    fs::set_permissions(&command, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&command, "Mention another.\n").unwrap();
    let skills = patchbay.line("/skills");
    assert!(
        skills.contains("[package_changed]") && skills.contains("the files of 'commands/plain.md' have changed"),
        "{skills}"
    );
    assert_eq!(plugin(&patchbay, &["verify"]).code, Some(1));
}

#[test]
fn form_is_found_without_a_manifest_and_in_a_marketplace() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/say-it/commands/say.md", "Mention SAID.\n");
    patchbay.write(
        "workspace/m/.claude-plugin/marketplace.json",
        r#"{"name": "m", "owner": {"name": "o"}, "plugins": [{"name": "near", "source": "./near"}]}"#,
    );
    patchbay.write("workspace/m/near/skills/review/SKILL.md", REVIEW);
    // A repository with plugins may have skills of its own.
    patchbay.write("workspace/m/skills/own/SKILL.md", "---\ndescription: x\n---\nx\n");
    let added = succeed(&patchbay, &["add", "say-it", "--yes"]);
    assert!(added.starts_with("say-it (1 file, ") && patchbay.line("/say now").contains("Mention SAID."), "{added}");
    let listed = plugin(&patchbay, &["add", "m"]);
    assert!(listed.code == Some(2) && listed.out.starts_with("near\n  patchbay plugin add m/near\n"), "{listed:?}");
    succeed(&patchbay, &["add", "m/near", "--yes"]);
    // A skill's folder is still a skill, and a manifest without a name is refused.
    patchbay.write("workspace/alone/SKILL.md", "---\ndescription: x\n---\nx\n");
    patchbay.write("workspace/alone/commands/say.md", "Mention SAID.\n");
    let alone = succeed(&patchbay, &["add", "alone", "--yes"]);
    assert!(alone.contains("skill alone: x\n") && !alone.contains("skill say"), "{alone}");
    patchbay.write("workspace/say-it/.claude-plugin/plugin.json", "{}");
    refused(&patchbay, &["add", "say-it", "--name", "other", "--yes"], "package_manifest_invalid");
}
