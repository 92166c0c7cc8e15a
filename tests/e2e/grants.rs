//! Grants: the operator permits a capability for one skill and one component, with immediate effect.

use patchbay_tests::{answers::Live, binary::Patchbay, calls::SAY, guest::Guest};

/// Returns a guest that stores a value. It returns `empty` in its first call and `kept` in later calls, and fails if the host
/// denies access.
pub fn keeper(description: &str) -> Guest {
    let mut guest = Guest::calling(
        r#"
    (call $keys (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 10) (i32.const 128))
    (if (i32.load8_u (i32.const 128)) (then (return (call $fail (i32.const 128)))))
    (if (i32.load (i32.const 136)) (then (return (call $say (i32.const 305) (i32.const 4)))))
    (call $put (i32.const 1) (i32.const 300) (i32.const 3) (i32.const 300) (i32.const 3) (i32.const 0) (i64.const 0) (i32.const 160))
    (if (i32.load8_u (i32.const 160)) (then (return (call $fail (i32.const 160)))))
    (call $say (i32.const 300) (i32.const 5))"#,
    )
    .with(
        r#"
(import "patchbay:host/kv@0.1.0" "keys" (func $keys (param i32 i32 i32 i32 i32 i32 i32 i32)))
(import "patchbay:host/kv@0.1.0" "put" (func $put (param i32 i32 i32 i32 i32 i32 i64 i32)))
(func $fail (param $result i32) (result i32)
  (i32.store8 (i32.const 0) (i32.const 1))
  (i32.store (i32.const 4) (i32.const 300))
  (i32.store (i32.const 8) (i32.const 5))
  (i32.store (i32.const 12) (i32.const 300))
  (i32.store (i32.const 16) (i32.const 5))
  (i32.const 0))
(data (i32.const 300) "emptykept")"#,
    )
    .with(SAY);
    guest.tools[0].1 = description.into();
    guest
}

const SKILL_MD: &str = "---\nsummary: Keeps\ninvocation_mode: tool_dispatch\ncommand: keep\ncommand_tool: run\n\
                        capabilities: [{name: kv}]\n---\n";
const KEEPER: &str = "home/config/skills/keeper.wasm";

const DENIED: &str = "Error: skill 'keeper' may not use 'kv': it is not granted. To grant it: ";
const STALE: &str = "Error: skill 'keeper' may not use 'kv': its files have changed since it was granted: \
    keeper.wasm. To grant it again: ";

fn capabilities(live: &mut Live, skill: &str) -> String {
    let help = live.message(&format!("/help {skill}"));
    help.lines().find_map(|line| line.strip_prefix("- `capabilities`: ")).unwrap().to_owned()
}

/// Runs the command at the end of `message` in a shell, outside of the workspace.
fn run_pasted(patchbay: &Patchbay, message: &str, begins: &str) {
    let command = message.strip_prefix(begins).unwrap_or_else(|| panic!("{message}"));
    assert!(command.starts_with("patchbay "), "{command}");
    for shell in ["sh", "bash"] {
        let ran = patchbay.shell(shell, command);
        assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{command}");
    }
}

#[test]
fn denial_names_a_grant_command_that_works_immediately() {
    let patchbay = Patchbay::new();
    patchbay.write(KEEPER, keeper("Keeps").packaged(SKILL_MD));
    let mut live = patchbay.live(&[]);
    let denied = live.answer("/keep");
    assert_eq!(denied.code(), "denied");
    assert_eq!(denied.message(), format!("{DENIED}patchbay grant add keeper kv"));
    assert_eq!(capabilities(&mut live, "keeper"), "kv (not granted)");
    run_pasted(&patchbay, denied.message(), DENIED);
    assert_eq!(capabilities(&mut live, "keeper"), "kv (granted)");
    assert_eq!(live.message("/keep"), "empty");
    assert_eq!(live.message("/keep"), "kept");
    assert_eq!(patchbay.run(&["grant", "remove", "keeper", "kv"]).code, Some(0));
    assert_eq!(live.message("/keep"), denied.message());
}

#[test]
fn replaced_component_needs_a_new_grant() {
    let patchbay = Patchbay::new();
    patchbay.write(KEEPER, keeper("Keeps").packaged(SKILL_MD));
    patchbay.run(&["grant", "add", "keeper", "kv"]);
    let mut live = patchbay.live(&[]);
    assert_eq!(live.message("/keep"), "empty");
    patchbay.write(KEEPER, keeper("Keeps, otherwise").packaged(SKILL_MD));
    assert_eq!(live.message("/keep"), "kept", "the session has the component that the grant was given for");
    live.message("/reload_skills");
    let stale = live.answer("/keep");
    assert_eq!((stale.code(), stale.message()), ("denied", &*format!("{STALE}patchbay grant add keeper kv")));
    assert_eq!(capabilities(&mut live, "keeper"), "kv (stale: changed: keeper.wasm)");
    run_pasted(&patchbay, stale.message(), STALE);
    assert_eq!(live.message("/keep"), "kept", "what it kept is the skill's, not the component's");
}

#[test]
fn denial_command_can_be_pasted_in_any_workspace() {
    let patchbay = Patchbay::new();
    let odd = "it's $HOME (my) *project*";
    let skill = format!("{odd}/.patchbay/skills/keeper.wasm");
    patchbay.write(&skill, keeper("Keeps").packaged(SKILL_MD));
    let workspace = patchbay.folder().join(odd);
    let mut live = patchbay.live(&["--workspace", workspace.to_str().unwrap()]);
    let denied = live.answer("/keep");
    assert_eq!(denied.code(), "denied");
    run_pasted(&patchbay, denied.message(), DENIED);
    assert_eq!(live.message("/keep"), "empty");
    // The pattern must be quoted: a shell would expand it to file names, and zsh rejects it without a match.
    let web = live.answer("/web example.com");
    let words = "Error: skill 'web' may not use 'http:*': it is not granted. To grant it: ";
    assert!(web.message().ends_with(" web 'http:*'"), "{}", web.message());
    run_pasted(&patchbay, web.message(), words);
    assert_eq!(capabilities(&mut live, "web"), "http:* (granted)");
}

#[test]
fn each_root_of_a_workspace_has_its_own_grants() {
    let patchbay = Patchbay::new();
    let mut live = patchbay.live(&[]);
    for (root, folder) in [("workspace-claude", ".claude"), ("workspace-agents", ".agents")] {
        patchbay.write(&format!("workspace/{folder}/skills/keeper.wasm"), keeper("Keeps").packaged(SKILL_MD));
        live.message("/reload_skills");
        let denied = live.answer("/keep");
        let workspace = patchbay.workspace().canonicalize().unwrap();
        let command = format!("patchbay grant add --root {root} --workspace {} keeper kv", workspace.display());
        assert_eq!(denied.message(), format!("{DENIED}{command}"));
        run_pasted(&patchbay, denied.message(), DENIED);
        assert_eq!(capabilities(&mut live, "keeper"), "kv (granted)");
        assert_eq!(live.message("/keep"), "empty", "each has its own store");
    }
    let granted = patchbay.run(&["grant", "list"]).out;
    assert!(
        granted.contains("keeper workspace-claude skill of ") && granted.contains("keeper workspace-agents skill of "),
        "{granted}"
    );
}

#[test]
fn denial_never_suggests_editing_a_bundled_skill() {
    let message = Patchbay::new().line("/web https://example.com:8443/");
    assert!(message.contains("may not use 'http:example.com:8443'"), "{message}");
    assert!(message.contains("it is a bundled skill") && !message.contains("Add it under"), "{message}");
}

#[test]
fn grant_covers_all_files_of_the_skill() {
    let patchbay = Patchbay::new();
    let write = |file: &str, bytes: &[u8]| patchbay.write(&format!("home/config/skills/keeper/{file}"), bytes);
    write("SKILL.md", SKILL_MD.as_bytes());
    write("notes.md", b"1");
    write("code.wasm", &keeper("Keeps").component());
    assert_eq!(patchbay.run(&["grant", "add", "keeper", "kv"]).code, Some(0));
    let mut live = patchbay.live(&[]);
    assert_eq!(live.message("/keep"), "empty");
    // The component is the same, but its instructions differ.
    write("SKILL.md", format!("{SKILL_MD}Do harm.\n").as_bytes());
    live.message("/reload_skills");
    let words = |files: &str| {
        format!(
            "Error: skill 'keeper' may not use 'kv': its files have changed since it was granted: {files}. To grant it \
             again: patchbay grant add keeper kv"
        )
    };
    assert_eq!(live.message("/keep"), words("SKILL.md"));
    write("more.md", b"2");
    std::fs::remove_file(patchbay.home().join("config/skills/keeper/notes.md")).unwrap();
    live.message("/reload_skills");
    assert_eq!(live.message("/keep"), words("SKILL.md, more.md (new), notes.md (gone)"));
    let stale = patchbay.run(&["grant", "list", "--stale"]);
    assert_eq!(stale.out, "patchbay grant add keeper kv\n");
    assert_eq!(stale.err, "keeper: changed: SKILL.md, more.md (new), notes.md (gone)\n");
    run_pasted(
        &patchbay,
        &live.message("/keep"),
        words("SKILL.md, more.md (new), notes.md (gone)").strip_suffix("patchbay grant add keeper kv").unwrap(),
    );
    assert_eq!(live.message("/keep"), "kept");
}

#[test]
fn unrequested_capability_remains_denied() {
    let patchbay = Patchbay::new();
    let skill_md = SKILL_MD.replace("capabilities: [{name: kv}]\n", "");
    patchbay.write(KEEPER, keeper("Keeps").packaged(&skill_md));
    let words = "Error: skill 'keeper' may not use 'kv': its SKILL.md does not ask for it. Add it under 'capabilities' \
                 there, build the component again if its SKILL.md is embedded, then run /reload_skills";
    assert_eq!(patchbay.line("/keep"), words);
    // A grant without effect would mislead the operator.
    let ran = patchbay.run(&["grant", "add", "keeper", "kv"]);
    let words =
        "Error: the SKILL.md of the user skill 'keeper' does not ask for 'kv'; it asks for nothing. [invalid_args]\n";
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(1), "", words));
    assert_eq!(patchbay.run(&["grant", "list"]).out, "No grants.\n");
}

#[test]
fn grants_are_listed_and_revoked() {
    let patchbay = Patchbay::new();
    assert_eq!(patchbay.run(&["grant", "list"]).out, "No grants.\n");
    patchbay.write(KEEPER, keeper("Keeps").packaged(SKILL_MD));
    // Without an alias, because the alias is taken.
    let local = keeper("Keeps").packaged(&SKILL_MD.replace("command: keep\n", ""));
    patchbay.write("workspace/.patchbay/skills/local.wasm", local);
    assert_eq!(patchbay.run(&["grant", "add", "keeper", "kv"]).out, "Granted 'kv' to the user skill 'keeper'.\n");
    let local = patchbay.run(&["grant", "add", "--root", "workspace", "local", "kv"]).out;
    assert_eq!(local, "Granted 'kv' to the workspace skill 'local'.\n");
    let digest =
        |name: &str| patchbay.answers(&[&format!("/help {name}")])[0].data()["digest"].as_str().unwrap().to_owned();
    let workspace = patchbay.workspace().canonicalize().unwrap();
    let listed = [
        format!("keeper user skill: kv {}", digest("keeper")),
        format!("local workspace skill of {}: kv {}", workspace.display(), digest("local")),
    ];
    let mut found: Vec<String> = patchbay.run(&["grant", "list"]).out.lines().map(str::to_owned).collect();
    found.sort();
    assert_eq!(found, listed);
    assert_eq!(patchbay.run(&["grant", "add", "--root", "bundled", "web", "http:*"]).code, Some(0));
    let lines = patchbay.run(&["grant", "list"]).out;
    assert!(lines.lines().any(|line| line == "web bundled skill: http:*"), "{lines}");
    let removed = patchbay.run(&["grant", "remove", "keeper", "kv"]);
    assert_eq!((removed.code, &*removed.out), (Some(0), "'kv' is no longer granted to the user skill 'keeper'.\n"));
    let again = patchbay.run(&["grant", "remove", "keeper", "kv"]);
    let words = "Error: 'kv' was not granted to the user skill 'keeper'. [grant_not_found]\n";
    assert_eq!((again.code, &*again.err), (Some(1), words));
}

#[test]
fn replacement_skill_does_not_inherit_stored_data() {
    let patchbay = Patchbay::new();
    assert_eq!(patchbay.line("/note add a secret"), "Note 1 added.");
    let skill_md = SKILL_MD.replace("command: keep", "command: note");
    patchbay.write("workspace/.patchbay/skills/notes.wasm", keeper("Keeps").packaged(&skill_md));
    patchbay.run(&["trust", "add"]);
    let mut live = patchbay.live(&[]);
    // The grant belongs to the bundled skill only.
    let denied = live.message("/note");
    let workspace = patchbay.workspace().canonicalize().unwrap();
    let command = format!("patchbay grant add --root workspace --workspace {} notes kv", workspace.display());
    assert_eq!(denied, format!("Error: skill 'notes' may not use 'kv': it is not granted. To grant it: {command}"));
    run_pasted(&patchbay, &denied, "Error: skill 'notes' may not use 'kv': it is not granted. To grant it: ");
    // It does not find the notes either, because each skill has its own store.
    assert_eq!(live.message("/note"), "empty");
    std::fs::remove_file(patchbay.workspace().join(".patchbay/skills/notes.wasm")).unwrap();
    live.message("/reload_skills");
    assert_eq!(live.message("/note list"), "1. a secret");
}

#[test]
fn grant_for_an_unknown_skill_names_those_of_other_roots() {
    let patchbay = Patchbay::new();
    let ran = patchbay.run(&["grant", "add", "keeper", "kv"]);
    let words =
        "Error: no user skill 'keeper' with a component found, so there is nothing to grant to. [skill_not_found]\n";
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(1), "", words));
    let ran = patchbay.run(&["grant", "add", "calc", "kv"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    assert!(ran.err.contains("A bundled skill has this name; to grant to it, add --root bundled."), "{}", ran.err);
}

/// A grant can cover less than the skill requests, and apply to one workspace only.
#[test]
fn grant_of_one_host_in_one_workspace() {
    let patchbay = Patchbay::new();
    let here = patchbay.workspace().canonicalize().unwrap();
    let grant = |verb: &str, more: &[&str]| {
        let words = [&["grant", verb, "--root", "bundled"], more].concat();
        patchbay.run(&words)
    };
    let one = ["--in", ".", "web", "http:example.org"];
    assert_eq!(grant("add", &one).out, "Granted 'http:example.org' to the bundled skill 'web'.\n");
    let listed = format!("web bundled skill in {}: http:example.org\n", here.display());
    assert_eq!(patchbay.run(&["grant", "list"]).out, listed);
    assert!(patchbay.line("/help web").contains("http:* (granted in part)"), "{}", patchbay.line("/help web"));
    let fetch = |url: &str| patchbay.line(&format!("/web {url}"));
    let denied = "skill 'web' may not use 'http:*': it is not granted";
    assert!(fetch("https://example.com/").contains(denied));
    // The grant permits it, but a plain HTTP request is then refused because of its scheme.
    assert!(!fetch("http://example.org/").contains(denied), "{}", fetch("http://example.org/"));
    let other = tempfile::tempdir().unwrap();
    let elsewhere = patchbay.command(&["exec", "/web http://example.org/"]).current_dir(other.path()).output().unwrap();
    assert!(String::from_utf8_lossy(&elsewhere.stderr).contains(denied), "{elsewhere:?}");
    // Granting more than the skill requests is an error.
    assert_eq!(grant("add", &["web", "kv"]).code, Some(1));
    assert_eq!(grant("remove", &["web", "http:example.org"]).code, Some(1), "it is not granted everywhere");
    assert_eq!(grant("remove", &one).code, Some(0));
    assert_eq!(patchbay.run(&["grant", "list"]).out, "No grants.\n");
}
