//! `patchbay plugin add --link DIR`: a skill under development, whose grants survive each build.

use std::{fs, os::unix::fs::symlink, path::Path};

use patchbay_tests::{binary::Patchbay, guest};

use crate::grants::keeper;

const SKILL_MD: &str = "---\nsummary: Keeps\ninvocation_mode: tool_dispatch\ncommand: keep\ncommand_tool: run\n\
                        capabilities: [kv, random]\n---\n";
const DENIED: &str = "Error: skill 'keeper' may not use 'kv': it was granted for a linked folder that changed or is \
    no longer linked. To read its files: /reload_skills. To grant it again: patchbay grant add keeper kv";

/// Writes a built skill into a folder outside of the home.
fn build(patchbay: &Patchbay, folder: &str, build: &str) {
    patchbay.write(&format!("{folder}/SKILL.md"), SKILL_MD);
    patchbay.write(&format!("{folder}/keeper.wasm"), keeper(build).component());
}

fn succeed(patchbay: &Patchbay, arguments: &[&str]) -> String {
    let ran = patchbay.run(arguments);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {}{}", ran.out, ran.err);
    ran.out
}

/// Copies a skill into the user's folder of skills.
fn copy(patchbay: &Patchbay, from: &str) {
    for file in ["SKILL.md", "keeper.wasm"] {
        patchbay.write(&format!("home/config/skills/keeper/{file}"), fs::read(Path::new(from).join(file)).unwrap());
    }
}

fn folder(patchbay: &Patchbay, name: &str) -> String {
    patchbay.folder().join(name).canonicalize().unwrap().to_str().unwrap().to_owned()
}

fn is_allowed(patchbay: &Patchbay) -> bool {
    matches!(&*patchbay.line("/keep"), "empty" | "kept")
}

/// `plugin build` embeds the SKILL.md in the component, which could then be added without its folder.
#[test]
fn folder_of_a_built_plugin_is_linked() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/keeper/SKILL.md", SKILL_MD);
    let build = |what: &str| {
        let module = guest::module_of(&guest::contract(), &keeper(what).wat(), "patchbay:skill/skill-plugin");
        patchbay.write("workspace/core.wasm", module);
        succeed(&patchbay, &["plugin", "build", "keeper", "--wasm", "core.wasm"]);
    };
    build("one");
    let component = patchbay.run(&["plugin", "add", "--link", "keeper/keeper.wasm"]);
    assert!(component.err.contains("only a folder can be linked"), "{component:?}");
    assert!(succeed(&patchbay, &["plugin", "add", "--link", "keeper"]).starts_with("Linked keeper ("));
    succeed(&patchbay, &["grant", "add", "keeper", "kv"]);
    assert!(is_allowed(&patchbay));
    build("two");
    assert!(is_allowed(&patchbay));
}

#[test]
fn grant_for_a_linked_folder_survives_builds() {
    let patchbay = Patchbay::new();
    build(&patchbay, "keeper", "one");
    let at = folder(&patchbay, "keeper");
    let added = succeed(&patchbay, &["plugin", "add", "--link", &at]);
    assert!(added.starts_with("Linked keeper ("), "{added}");
    assert!(added.contains("\nTo grant it: patchbay grant add keeper kv random\n"), "{added}");
    assert!(!is_allowed(&patchbay));
    let granted = succeed(&patchbay, &["grant", "add", "keeper", "kv"]);
    assert_eq!(granted, format!("Granted 'kv' to the user skill 'keeper', linked to {at}.\n"));
    let listed = format!("keeper user skill: kv for the linked folder {at}\n");
    assert_eq!(succeed(&patchbay, &["grant", "list"]), listed);
    assert!(is_allowed(&patchbay));
    build(&patchbay, "keeper", "two");
    assert!(is_allowed(&patchbay));
    assert_eq!(succeed(&patchbay, &["grant", "list", "--stale"]), "");
    // Only granted capabilities carry over. A new one needs a grant of its own.
    let help = patchbay.line("/help keeper");
    assert!(help.contains("- `capabilities`: kv (granted), random (not granted)\n"), "{help}");
    let plugins = succeed(&patchbay, &["plugin", "list"]);
    assert!(plugins.contains(&format!("\n  linked to {at}\n")), "{plugins}");

    let removed = succeed(&patchbay, &["plugin", "remove", "keeper"]);
    assert!(removed.contains("\nRemoved the grant of 'kv' for the linked folder.\n"), "{removed}");
    assert_eq!(succeed(&patchbay, &["grant", "list"]), "No grants.\n");
    assert!(patchbay.folder().join("keeper/keeper.wasm").exists());
}

#[test]
fn grant_for_a_linked_folder_holds_for_nothing_else() {
    let patchbay = Patchbay::new();
    build(&patchbay, "keeper", "one");
    build(&patchbay, "other/keeper", "one");
    let (at, other) = (folder(&patchbay, "keeper"), folder(&patchbay, "other/keeper"));
    copy(&patchbay, &other);
    // A session with the copied skill is open when the folder is linked.
    patchbay.line("/skills");
    let session = patchbay.last_session();
    build(&patchbay, "keeper", "two");
    succeed(&patchbay, &["plugin", "add", "--link", "--replace", &at]);
    succeed(&patchbay, &["grant", "add", "keeper", "kv"]);
    let old = patchbay.run(&["exec", "--session", &session, "/keep"]);
    assert!(old.err.starts_with(DENIED), "{}{}", old.out, old.err);
    assert!(is_allowed(&patchbay));

    // The same name in another folder, linked or copied, with the same or other files.
    let link = patchbay.home().join("config/skills/keeper");
    succeed(&patchbay, &["plugin", "add", "--link", "--replace", &other]);
    assert_eq!(patchbay.line("/keep"), DENIED);
    fs::remove_file(&link).unwrap();
    copy(&patchbay, &at);
    assert_eq!(patchbay.line("/keep"), DENIED);
    // A link of another kind does not name a folder under development.
    fs::remove_dir_all(&link).unwrap();
    symlink(&at, &link).unwrap();
    assert_eq!(patchbay.line("/keep"), DENIED);
    let ran = patchbay.run(&["grant", "list", "--stale"]);
    assert_eq!(ran.out, "patchbay grant add keeper kv\n", "{}", ran.err);
}

#[test]
fn only_the_folder_of_a_skill_is_linked() {
    let patchbay = Patchbay::new();
    build(&patchbay, "keeper", "one");
    let file = folder(&patchbay, "keeper/keeper.wasm");
    let ran = patchbay.run(&["plugin", "add", "--link", &file]);
    assert!(ran.err.contains("is not a skill's folder: only a folder can be linked."), "{}", ran.err);
    copy(&patchbay, &folder(&patchbay, "keeper"));
    let installed = folder(&patchbay, "home/config/skills/keeper");
    let ran = patchbay.run(&["plugin", "add", "--link", "--replace", &installed]);
    assert!(ran.err.contains("is already in the skills folder."), "{}", ran.err);
    assert!(patchbay.home().join("config/skills/keeper/keeper.wasm").exists());
}
