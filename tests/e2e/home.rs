//! Protected files: the home folders of Patchbay, the user's home folder, and agent instructions in a workspace.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
};

use patchbay_tests::{
    answers::{Answer, Live},
    binary::{Patchbay, Ran},
};
use serde_json::json;

const SECRET: &str = "sk-sentinel-0123456789";

/// Adds aliases for the tools of the bundled skill `files`, which otherwise only models call.
fn add_aliases(patchbay: &Patchbay, config: &str) {
    for tool in ["read", "list", "write"] {
        let frontmatter = format!(
            "command: {tool}\ninvocation_mode: tool_dispatch\ncommand_tool: files__{tool}\nrequires_tools: [files__{tool}]"
        );
        patchbay.write(&format!("{config}/skills/{tool}/SKILL.md"), format!("---\n{frontmatter}\n---\n"));
    }
}

/// Creates a Patchbay whose home is inside its workspace, in `ph`.
fn with_home_inside() -> Patchbay {
    let mut patchbay = Patchbay::blank();
    let home = patchbay.workspace().join("ph");
    patchbay.set("PATCHBAY_HOME", home.to_str().unwrap());
    add_aliases(&patchbay, "workspace/ph/config");
    patchbay.write("workspace/ph/config/credentials.json", format!(r#"{{"openai": {{"api_key": "{SECRET}"}}}}"#));
    patchbay.write("workspace/notes.md", "a sentinel of the workspace\n");
    patchbay
}

/// Creates a Patchbay whose XDG folders are in the user's home folder, which is `me` beside the workspace.
fn with_xdg_home(home: &Path) -> Patchbay {
    let mut patchbay = Patchbay::blank();
    let home = patchbay.folder().join(home);
    for variable in ["PATCHBAY_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"] {
        patchbay.set(variable, "");
    }
    patchbay.set("HOME", home.to_str().unwrap());
    add_aliases(&patchbay, &format!("{}/.config/patchbay", home.strip_prefix(patchbay.folder()).unwrap().display()));
    patchbay
}

fn grant_writing(patchbay: &Patchbay) {
    let ran = patchbay.run(&["grant", "add", "--root", "bundled", "files", "workspace-write"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
}

fn write(live: &mut Live, path: &str) -> Answer {
    live.answer(&format!("/write {}", json!({"path": path, "text": "x"})))
}

/// Runs the command at the end of `message` in a shell, in an unrelated folder.
fn run_pasted(patchbay: &Patchbay, message: &str) -> Ran {
    let (_, command) = message.split_once(": patchbay ").unwrap_or_else(|| panic!("no command: {message}"));
    patchbay.shell("bash", &format!("patchbay {command}"))
}

#[test]
fn plugins_cannot_read_the_home_folders() {
    let patchbay = with_home_inside();
    symlink("ph", patchbay.workspace().join("link-home")).unwrap();
    symlink("ph/config", patchbay.workspace().join("link-config")).unwrap();
    symlink("./notes/../ph/config/credentials.json", patchbay.workspace().join("key")).unwrap();
    fs::create_dir(patchbay.workspace().join("notes")).unwrap();
    let mut live = patchbay.live(&[]);
    for path in [
        "ph/config/credentials.json",
        "ph/config/skills/read/SKILL.md",
        "ph/data/patchbay.db",
        "ph/state/patchbay.log",
        "link-home/config/credentials.json",
        "link-config/credentials.json",
        "key",
    ] {
        let answer = live.answer(&format!("/read {path}"));
        assert_eq!((answer.code(), &answer.data()["kind"]), ("tool_failed", &json!("denied")), "{path}");
        assert!(answer.message().contains("Patchbay's own folders"), "{}", answer.message());
    }
    assert_ne!(live.answer("/read PH/Config/credentials.json").code(), "tool_result");
    assert_eq!(live.message("/list"), "notes/\nnotes.md (28 bytes)\nph/");
    assert_eq!(live.message(r#"/list {"glob": "ph/**"}"#), "No files match 'ph/**'.");
    assert_eq!(live.message("/grep sentinel"), "notes.md:1:a sentinel of the workspace");
    assert_eq!(live.message("/grep sentinel ph"), "No files match 'ph'. A pattern with spaces must be in quotes.");
    let events = serde_json::to_string(&live.answer("call files__read {\"path\":\"key\"}").events).unwrap();
    assert!(events.contains("out of bounds") && !events.contains(SECRET), "{events}");
}

#[test]
fn plugins_cannot_write_the_home_folders() {
    let patchbay = with_home_inside();
    grant_writing(&patchbay);
    symlink("ph/config", patchbay.workspace().join("link-config")).unwrap();
    let mut live = patchbay.live(&[]);
    for path in [
        "ph/config/config.toml",
        "ph/config/credentials.json",
        "ph/config/providers/x.wasm",
        "ph/config/skills/evil/SKILL.md",
        "ph/config/agents/default/SOUL.md",
        "ph/data/patchbay.db",
        "ph/data/components/x",
        "ph/cache/aot/x.cwasm",
        "ph/state/x",
        "link-config/config.toml",
    ] {
        let answer = write(&mut live, path);
        assert_eq!((answer.code(), &answer.data()["kind"]), ("tool_failed", &json!("denied")), "{path}");
    }
    let config = patchbay.workspace().join("ph/config");
    assert!(!config.join("config.toml").exists() && !config.join("skills/evil").exists());
    assert!(fs::read_to_string(config.join("credentials.json")).unwrap().contains(SECRET));
    assert_eq!(fs::read_dir(config.join("providers")).unwrap().count(), 0);
    // If the cache is deleted in the meantime, a plugin cannot create it in the host's place.
    fs::remove_dir_all(patchbay.workspace().join("ph/cache")).unwrap();
    assert_eq!(write(&mut live, "ph/cache/aot/x.cwasm").data()["kind"], "denied");
    assert_eq!(write(&mut live, "ph/other/x").code(), "tool_result");
}

#[test]
fn home_folder_workspace_warns_once_and_needs_consent_to_write() {
    let patchbay = with_xdg_home(Path::new("workspace"));
    grant_writing(&patchbay);
    let folder = patchbay.workspace().canonicalize().unwrap();
    let command = format!("patchbay trust add --write {}", folder.display());
    let first = patchbay.exec(&["/calc 1"]);
    let reads = "Note: this workspace is or contains your home folder: plugins with workspace-read can read your files";
    assert_eq!(
        (&*first.out, &*first.err),
        ("1\n", &*format!("{reads}. None can change them; to allow that: {command}\n"))
    );
    let again = patchbay.run(&["exec", "--session", &patchbay.last_session(), "/calc 1"]);
    assert_eq!((&*again.out, &*again.err), ("1\n", ""), "it is said once");

    let mut live = patchbay.live(&[]);
    let denied = write(&mut live, "a.txt");
    assert_eq!(denied.code(), "denied");
    assert_eq!(
        denied.message(),
        format!(
            "Error: skill 'files' may not use 'workspace-write': this workspace is or contains your home folder. To \
             allow it: {command}"
        )
    );
    assert!(!patchbay.workspace().join("a.txt").exists());
    assert!(live.message("/help files").contains("workspace-write (granted, but not in a home folder)"));
    let ran = run_pasted(&patchbay, denied.message());
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    assert!(live.message("/help files").contains("workspace-write (granted)"));
    assert_eq!(write(&mut live, "a.txt").code(), "tool_result", "it takes effect at once");
    assert_eq!(write(&mut live, ".config/patchbay/config.toml").data()["kind"], "denied");
    assert_eq!(write(&mut live, ".local/share/patchbay/x").data()["kind"], "denied");
    assert_eq!(live.answer("/read .config/patchbay/skills/read/SKILL.md").data()["kind"], "denied");
    assert_eq!(patchbay.run(&["trust", "list"]).out, format!("{} (for writing only)\n", folder.display()));
    assert!(patchbay.exec(&["/calc 1"]).err.contains("can change them."));
    assert_eq!(patchbay.run(&["trust", "add"]).code, Some(0));
    assert_eq!(patchbay.run(&["trust", "list"]).out, format!("{} (and for writing)\n", folder.display()));
    assert_eq!(patchbay.run(&["trust", "remove"]).code, Some(0));
    assert_eq!(patchbay.run(&["trust", "list"]).out, "No workspace is trusted.\n");
    assert_eq!(write(&mut live, "a.txt").message(), denied.message());
}

#[test]
fn workspace_containing_the_home_is_recognised_by_file_identity() {
    let patchbay = with_xdg_home(Path::new("users/me"));
    grant_writing(&patchbay);
    symlink(patchbay.folder().join("users"), patchbay.folder().join("people")).unwrap();
    for (workspace, holds) in [("users/me", true), ("people", true), (".", true), ("workspace", false)] {
        let workspace = patchbay.folder().join(workspace);
        let mut live = patchbay.live(&["--workspace", workspace.to_str().unwrap()]);
        let answer = write(&mut live, "a.txt");
        assert_eq!(answer.code() == "denied", holds, "{}: {}", workspace.display(), answer.message());
    }
    fs::create_dir(patchbay.folder().join("users/me/project")).unwrap();
    let mut live = patchbay.live(&["--workspace", patchbay.folder().join("users/me/project").to_str().unwrap()]);
    assert_eq!(write(&mut live, "a.txt").code(), "tool_result");
}

#[test]
fn agent_instructions_are_written_after_consent() {
    let patchbay = Patchbay::blank();
    add_aliases(&patchbay, "home/config");
    grant_writing(&patchbay);
    let mut live = patchbay.live(&[]);
    let settings = [".agents/skills/x/SKILL.md", ".claude/settings.json", ".patchbay/agents/default/SOUL.md"];
    for path in settings.into_iter().chain([".mcp.json", ".vscode/tasks.json", ".Cursor/mcp.json", ".husky/pre-commit"])
    {
        assert_eq!(write(&mut live, path).data()["kind"], "denied", "{path}");
    }
    for path in [".cursorrules", ".github/prompts/x.prompt.md", "CLAUDE.local.md"] {
        assert_eq!(write(&mut live, path).code(), "denied", "{path}");
    }
    assert_eq!(write(&mut live, "docs/readme.md").code(), "tool_result");
    let denied = write(&mut live, "docs/agents.MD");
    assert_eq!(denied.code(), "denied");
    let words = "Error: skill 'files' may not write 'docs/agents.MD': it contains instructions for agents. To allow \
        it: ";
    assert!(denied.message().starts_with(words), "{}", denied.message());
    assert_eq!(run_pasted(&patchbay, denied.message()).code, Some(0));
    assert_eq!(write(&mut live, "AGENTS.md").code(), "tool_result");
    assert_eq!(write(&mut live, ".agents/skills/x/SKILL.md").data()["kind"], "denied");
}

/// Layouts that developers use: folders of skills, or single skills, that are links into the workspace.
#[test]
fn skills_behind_links_are_not_written() {
    let patchbay = Patchbay::blank();
    add_aliases(&patchbay, "home/config");
    grant_writing(&patchbay);
    let skill = |name: &str, summary: &str| format!("---\nname: {name}\ndescription: {summary}\n---\nBe nice.\n");
    patchbay.write("workspace/skills/git-helper/SKILL.md", skill("git-helper", "Helps."));
    patchbay.write("workspace/myskill/SKILL.md", skill("myskill", "Mine."));
    patchbay.write("workspace/.claude/x", "");
    symlink("../skills", patchbay.workspace().join(".claude/skills")).unwrap();
    symlink(patchbay.workspace().join("myskill"), patchbay.home().join("config/skills/myskill")).unwrap();
    let mut live = patchbay.live(&[]);
    let listed = live.message("/skills");
    assert!(listed.contains("git-helper") && listed.contains("myskill"), "{listed}");
    for path in
        ["skills/git-helper/SKILL.md", "skills/new/SKILL.md", "skills/new.wasm", "myskill/SKILL.md", "myskill/a/b"]
    {
        let denied = write(&mut live, path);
        assert_eq!(denied.data()["kind"], "denied", "{path}");
        assert!(denied.message().contains("a link makes it part of the skills"), "{}", denied.message());
    }
    assert_eq!(write(&mut live, "src/main.rs").code(), "tool_result");
    // A link that is created while the session is running, and a session that began after it.
    patchbay.write("workspace/late/SKILL.md", skill("late", "Late."));
    assert_eq!(write(&mut live, "late/text").code(), "tool_result");
    symlink(patchbay.workspace().join("late"), patchbay.home().join("config/skills/late")).unwrap();
    assert_eq!(write(&mut live, "late/SKILL.md").data()["kind"], "denied");
    let mut other = patchbay.live(&[]);
    assert_eq!(write(&mut other, "late/SKILL.md").data()["kind"], "denied");
}

#[test]
fn workspace_instructions_cannot_expose_its_secrets() {
    let patchbay = Patchbay::blank();
    patchbay.write("workspace/.git/config", SECRET);
    patchbay.write("workspace/.env", SECRET);
    patchbay.write("workspace/keys.md", SECRET);
    patchbay.write("workspace/CLAUDE.md", "Rules.");
    patchbay.write("workspace/.patchbay/skills/sly/.git/config", format!("---\nsummary: {SECRET}\n---\n"));
    patchbay.write("workspace/.patchbay/agents/sly/NOTES.md", "");
    let file = patchbay.workspace().join("AGENTS.md");
    let link = |target: &str, link: &Path| {
        let _ = fs::remove_file(link);
        symlink(target, link).unwrap();
    };
    link(".git/config", &patchbay.workspace().join(".patchbay/skills/sly/SKILL.md"));
    link("../../../.env", &patchbay.workspace().join(".patchbay/agents/sly/SOUL.md"));
    for target in [".git/config", ".env", "keys.md", "/etc/passwd"] {
        link(target, &file);
        let ran = patchbay.exec(&["/agent default", "/skills", "show context"]);
        assert!(ran.err.contains("Note: AGENTS.md of the workspace is not used: 'AGENTS.md' "), "{}", ran.err);
        assert!(!ran.out.contains(SECRET) && !ran.err.contains(SECRET), "{ran:?}");
        assert!(ran.out.contains("- sly [missing_skill_md] SKILL.md: 'SKILL.md' is out of bounds"), "{}", ran.out);
    }
    let persona = patchbay.line("/agent sly");
    assert!(persona.contains("Error: agent 'sly' cannot be read: SOUL.md: "), "{persona}");
    link("CLAUDE.md", &file);
    let ran = patchbay.exec(&["show context"]);
    assert!(ran.out.contains("Rules.") && !ran.err.contains("AGENTS.md"), "{ran:?}");
}

#[test]
fn first_start_creates_the_folders() {
    let patchbay = Patchbay::blank();
    assert_eq!(patchbay.line("/calc 1"), "1");
    for folder in ["config", "config/skills", "config/agents", "config/providers", "data", "cache", "state"] {
        let mode = fs::metadata(patchbay.home().join(folder)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{folder}");
    }
}

#[test]
fn file_in_place_of_a_folder_is_reported() {
    let patchbay = Patchbay::blank();
    for folder in ["skills", "agents", "providers"] {
        patchbay.write(&format!("home/config/{folder}"), "a slip of cp");
    }
    let ran = patchbay.exec(&["/calc 1", "/skills", "/providers"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.starts_with("1\n"), "{}", ran.out);
    let words =
        "- skills [folder_unusable] Your skills folder cannot be read: there is a file in its place; move it away.";
    assert!(ran.out.contains(words), "{}", ran.out);
    assert!(ran.out.contains("cannot read the folder"), "{}", ran.out);
    let words = "Note: your personas are not used: 'agents' in the config folder is a file; move it away\n";
    assert!(ran.err.contains(words), "{}", ran.err);
}

#[test]
fn folders_writable_by_others_are_restricted_or_rejected() {
    let patchbay = Patchbay::blank();
    assert_eq!(patchbay.line("/calc 1"), "1");
    let config = patchbay.home().join("config");
    for folder in [config.clone(), config.join("skills"), patchbay.home().join("cache")] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(patchbay.line("/calc 1"), "1");
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o755, "{}", folder.display());
    }
    // Only root can change the owner of a folder.
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        std::os::unix::fs::chown(&config, Some(12_345), None).unwrap();
        let ran = patchbay.exec(&["/calc 1"]);
        assert_eq!((ran.code, &*ran.out), (Some(1), ""));
        assert!(ran.err.contains("it belongs to another user (uid 12345)"), "{}", ran.err);
        assert!(ran.err.ends_with("[folder_unusable]\n"), "{}", ran.err);
    }
}

#[test]
fn displayed_paths_contain_no_control_characters() {
    let patchbay = Patchbay::blank();
    let odd = patchbay.folder().join("a\u{1b}[31mb\u{202e}c");
    fs::create_dir(&odd).unwrap();
    for arguments in [vec!["trust", "add", odd.to_str().unwrap()], vec!["trust", "list"]] {
        let ran = patchbay.run(&arguments);
        assert!(ran.out.contains("/a[31mbc"), "{}", ran.out);
        assert!(!ran.out.contains(['\u{1b}', '\u{202e}']), "{}", ran.out);
    }
    let gone = patchbay.folder().join("x\u{1b}]0;y\u{7}");
    let ran = patchbay.run(&["trust", "add", gone.to_str().unwrap()]);
    assert!(ran.err.contains("x]0;y") && !ran.err.contains('\u{1b}'), "{}", ran.err);
}

#[test]
fn writes_of_a_skill_are_limited_per_session() {
    let patchbay = Patchbay::blank();
    add_aliases(&patchbay, "home/config");
    patchbay.write("home/config/config.toml", "[limits]\nwrite_bytes = 10000\n");
    grant_writing(&patchbay);
    let mut live = patchbay.live(&[]);
    assert_eq!(write(&mut live, "a").code(), "tool_result");
    assert_eq!(write(&mut live, "b").code(), "tool_result");
    let over = write(&mut live, "c");
    assert_eq!(over.code(), "limit_write");
    assert!(over.message().contains("more than 10000 bytes") && over.message().contains("limits.write_bytes"));
    assert!(!patchbay.workspace().join("c").exists());
    assert_eq!(write(&mut patchbay.live(&[]), "c").code(), "tool_result", "another session has its own measure");
}
