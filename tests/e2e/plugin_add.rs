//! `patchbay plugin add`, `remove` and `list`: packages as a user adds them.

use std::{fs, path::PathBuf};

use patchbay_tests::{
    adapter::Adapter,
    answers::json_lines,
    binary::{Patchbay, Ran},
    guest::Guest,
};
use serde_json::{Value, json};

const SKILL_MD: &str = "---\nname: greet\nversion: 1.2.0\ninvocation_mode: tool_dispatch\ncommand: greet\ncommand_tool: run\n\
                        capabilities: [{name: kv, reason: keeps names}, {name: http, scope: '*', optional: true}]\n---\n";

pub fn plugin(patchbay: &Patchbay, arguments: &[&str]) -> Ran {
    patchbay.run(&[&["plugin"], arguments].concat())
}

/// Returns the names in the packages folder, except the lock of the commands.
pub fn packages(patchbay: &Patchbay) -> Vec<String> {
    let folder = patchbay.home().join("data/packages");
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != ".lock");
    names.sort();
    names
}

/// Returns the path of the lock.
pub fn lock(patchbay: &Patchbay) -> PathBuf {
    patchbay.home().join("config/packages.lock")
}

/// Returns the `plugin list --json` entry of the plugin `name` of this kind.
fn listed(patchbay: &Patchbay, kind: &str, name: &str) -> Option<Value> {
    let lines = json_lines(&plugin(patchbay, &["list", "--json"]).out);
    lines.into_iter().find(|object| object["kind"] == kind && object["name"] == name)
}

#[test]
fn package_is_added_listed_and_removed() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/greet.wasm", Guest::default().packaged(SKILL_MD));
    // Without a terminal and `--yes`, it prints everything and writes nothing.
    let asked = plugin(&patchbay, &["add", "greet.wasm"]);
    assert_eq!(asked.code, Some(2), "{asked:?}");
    assert!(
        asked.err.ends_with("repeat the command with --yes. Nothing was changed. [not_confirmed]\n"),
        "{}",
        asked.err
    );
    assert_eq!((packages(&patchbay), lock(&patchbay).exists()), (vec![], false));
    // With `--json`, the question would come before anything was shown, so the command fails.
    let unseen = plugin(&patchbay, &["add", "greet.wasm", "--json"]);
    assert!(unseen.code == Some(2) && unseen.out.is_empty() && unseen.err.contains("[not_confirmed]"), "{unseen:?}");
    let added = plugin(&patchbay, &["add", "greet.wasm", "--yes"]);
    assert!(added.out.starts_with(&asked.out), "{}\n{}", asked.out, added.out);
    for line in [
        "skill greet\n  command /greet\n  tool greet__run: ",
        "\n  asks for kv: keeps names\n  asks for http:* (optional)\n",
        "\nAdded package 'greet'.\nTo grant it: patchbay grant add --package greet greet kv 'http:*'\nOpen sessions use it after \
         /reload_skills.\n",
    ] {
        assert!(added.out.contains(line), "{line}: {}", added.out);
    }
    assert_eq!((added.code, &*added.err, packages(&patchbay)), (Some(0), "", vec!["greet".to_owned()]));
    assert_eq!(patchbay.line("/greet {\"a\": 1}"), "{\"a\":1}");
    // One command grants several capabilities: the one that was printed.
    let granted = patchbay.shell("bash", "patchbay grant add --package greet greet kv 'http:*'");
    assert_eq!(
        granted.out,
        "Granted 'kv' to the package skill 'greet'.\nGranted 'http:*' to the package skill 'greet'.\n"
    );
    let package = listed(&patchbay, "package", "greet").unwrap();
    assert_eq!((&package["version"], &package["skills"]), (&json!("1.2.0"), &json!(["greet"])));
    assert_eq!(package["from"], json!(patchbay.workspace().join("greet.wasm")));
    let skill = listed(&patchbay, "skill", "greet").unwrap();
    assert_eq!(
        (&skill["root"], &skill["package"], &skill["tools"]),
        (&json!("package"), &json!("greet"), &json!(["run"]))
    );
    assert_eq!(skill["capabilities"][0], json!({"capability": "kv", "state": "granted", "granted": true}));
    let lines = plugin(&patchbay, &["list"]).out;
    assert!(lines.contains("  tools: run\n  asks for: kv (granted), http:* (granted)\n"), "{lines}");
    assert!(lines.contains("\ndemo bundled provider sha256:"), "{lines}");

    let removed = plugin(&patchbay, &["remove", "greet"]);
    let words = "Removed package 'greet'.\nIts 2 grants have ended.\nOpen sessions keep it until /reload_skills. What its skills have \
                 stored (kv) is kept.\n";
    assert_eq!((removed.code, &*removed.out), (Some(0), words));
    assert_eq!((listed(&patchbay, "skill", "greet"), packages(&patchbay)), (None, vec![]));
    assert_eq!(patchbay.run(&["grant", "list"]).out, "No grants.\n");
    let again = plugin(&patchbay, &["remove", "greet"]);
    assert!(
        again.code == Some(1) && again.err.starts_with("Error: no package 'greet' found, and no skill "),
        "{again:?}"
    );
    let bundled = plugin(&patchbay, &["remove", "calc"]);
    let words = " The bundled skill of this name is not removed by this command. [skill_not_found]\n";
    assert!(bundled.err.ends_with(words), "{bundled:?}");
    let changes = json_lines(&plugin(&patchbay, &["list", "--changes", "--json"]).out);
    let actions: Vec<_> = changes.iter().map(|change| (&change["action"], &change["package"])).collect();
    assert_eq!(actions, [(&json!("add"), &json!("greet")), (&json!("remove"), &json!("greet"))]);
    assert!(
        changes[0]["before"].is_null() && changes[0]["after"] == package["digest"] && changes[1]["after"].is_null()
    );
}

#[test]
fn name_and_alias_stay_with_the_package_that_was_added_first() {
    let patchbay = Patchbay::new();
    let greeter = |answer: &str, alias: &str| {
        let skill_md = format!("---\ninvocation_mode: tool_dispatch\ncommand: {alias}\ncommand_tool: run\n---\n");
        Guest::answering(answer).packaged(&skill_md)
    };
    patchbay.write("workspace/greet.wasm", greeter("first", "hi"));
    patchbay.write("workspace/two/greet.wasm", greeter("second", "hi"));
    assert_eq!(plugin(&patchbay, &["add", "greet.wasm", "--yes"]).code, Some(0));
    let same = plugin(&patchbay, &["add", "two/greet.wasm", "--yes"]);
    assert!(same.code == Some(1) && same.err.contains("patchbay plugin update greet. To have both: "), "{same:?}");
    let second = plugin(&patchbay, &["add", "two/greet.wasm", "--name", "second", "--yes"]).out;
    let words = "conflict: skill 'greet' is left out: package 'greet' was added earlier and has one. To use both: patchbay plugin add \
                 two/greet.wasm --rename greet=NEW\n";
    assert!(second.contains(words), "{second}");
    assert_eq!(patchbay.line("/hi"), "first");
    let skills = patchbay.line("/skills");
    assert!(skills.contains("[name_shadowed]"), "{skills}");
    plugin(&patchbay, &["remove", "second"]);
    let renamed =
        plugin(&patchbay, &["add", "two/greet.wasm", "--name", "second", "--rename", "greet=wave", "--yes"]).out;
    assert!(renamed.contains("skill wave (in the package: greet)\n"), "{renamed}");
    assert!(
        renamed.contains("conflict: '/hi' stays the command of the package skill 'greet'; '/skill wave' works.\n"),
        "{renamed}"
    );
    assert_eq!((patchbay.line("/hi"), patchbay.line("/skill wave {}")), ("first".to_owned(), "second".to_owned()));
    // Without the first package, the other one gets the alias.
    plugin(&patchbay, &["remove", "greet"]);
    assert_eq!(patchbay.line("/hi"), "second");
    // The user's own skill takes precedence over every package.
    patchbay.write("home/config/skills/wave.wasm", greeter("mine", "hi"));
    assert_eq!(patchbay.line("/hi"), "mine");
    plugin(&patchbay, &["remove", "second"]);
    let mine = plugin(&patchbay, &["add", "two/greet.wasm", "--rename", "greet=wave", "--yes"]).out;
    assert!(mine.contains("conflict: skill 'wave' is left out: the user skill of this name wins."), "{mine}");
    let unknown = plugin(&patchbay, &["add", "greet.wasm", "--name", "x", "--rename", "no=wave", "--yes"]);
    assert!(unknown.err.contains("the package has no skill 'no' to rename; it has greet."), "{unknown:?}");
}

#[test]
fn what_would_not_load_is_not_added() {
    let patchbay = Patchbay::new();
    let refused = |path: &str, words: &str| {
        let ran = plugin(&patchbay, &["add", "--yes", path]);
        assert!(ran.code == Some(1) && ran.err.contains(words), "{words}: {ran:?}");
        assert_eq!((packages(&patchbay), lock(&patchbay).exists()), (vec![], false), "{words}");
    };
    patchbay.write("workspace/greet.wasm", Guest::default().component());
    refused(
        "greet.wasm",
        "greet.wasm has no SKILL.md. Write one into a folder 'greet', and embed it: patchbay plugin build greet --wasm ",
    );
    patchbay.write("workspace/greet.wasm", Guest::default().packaged("---\nname: other\n---\n"));
    refused("greet.wasm", "Error: greet.wasm was not added: [invalid_name] ");
    patchbay.write("workspace/greet.wasm", "no wasm");
    refused("greet.wasm", "greet.wasm is not WebAssembly");
    patchbay.write("workspace/sources/Cargo.toml", "");
    refused("sources", "/sources is not built yet");
    refused("nope", "cannot read nope: ");
}

#[test]
fn adapter_is_added_to_the_providers() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/acme.wasm", Adapter::manifest(&json!({"name": "acme"})).component());
    let added = plugin(&patchbay, &["add", "acme.wasm"]);
    assert!(added.code == Some(0) && added.out.starts_with("Added provider 'acme' ("), "{added:?}");
    let provider = listed(&patchbay, "provider", "acme").unwrap();
    assert_eq!(&provider["root"], &json!("user"));
    let removed = plugin(&patchbay, &["remove", "acme"]);
    assert!(removed.err.contains("To remove the provider of this name: patchbay provider remove acme"), "{removed:?}");
}
