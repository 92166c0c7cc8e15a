//! `patchbay plugin add`, `remove` and `list`.

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

fn plugin(patchbay: &Patchbay, arguments: &[&str]) -> Ran {
    patchbay.run(&[&["plugin"], arguments].concat())
}

/// Returns the path of an entry of the folder of skills.
fn skills(patchbay: &Patchbay, entry: &str) -> PathBuf {
    patchbay.home().join("config/skills").join(entry)
}

/// Returns what `plugin list --json` prints about the plugin `name`.
fn listed(patchbay: &Patchbay, name: &str) -> Option<Value> {
    json_lines(&plugin(patchbay, &["list", "--json"]).out).into_iter().find(|object| object["name"] == name)
}

#[test]
fn skill_in_one_file_is_added_listed_and_removed() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/greet.wasm", Guest::default().packaged(SKILL_MD));
    let path = skills(&patchbay, "greet.wasm");
    let added = plugin(&patchbay, &["add", "greet.wasm"]);
    let size = patchbay_core::text::size(fs::metadata(&path).unwrap().len());
    let words = format!(
        "Added greet 1.2.0 ({size}; command /greet; tool greet__run): {}\nIt asks for:\n  kv: keeps names\n  http:* (optional)\n\
         To grant it: patchbay grant add greet kv 'http:*'\nOpen sessions use it after /reload_skills.\n",
        path.display()
    );
    assert_eq!((added.code, &*added.out, &*added.err), (Some(0), &*words, ""));
    assert_eq!(patchbay.line("/greet {\"a\": 1}"), "{\"a\":1}");
    // One command grants several capabilities, and the printed one is it.
    let granted = patchbay.shell("bash", "patchbay grant add greet kv 'http:*'");
    assert_eq!(granted.out, "Granted 'kv' to the user skill 'greet'.\nGranted 'http:*' to the user skill 'greet'.\n");
    let skill = listed(&patchbay, "greet").unwrap();
    assert_eq!((&skill["kind"], &skill["root"], &skill["version"]), (&json!("skill"), &json!("user"), &json!("1.2.0")));
    assert_eq!((&skill["tools"], &skill["bytes"]), (&json!(["run"]), &json!(fs::metadata(&path).unwrap().len())));
    assert_eq!(skill["capabilities"][0], json!({"capability": "kv", "state": "granted", "granted": true}));
    let lines = plugin(&patchbay, &["list"]).out;
    assert!(
        lines.contains(&format!(", {size}\n  tools: run\n  asks for: kv (granted), http:* (granted)\n")),
        "{lines}"
    );
    assert!(lines.contains("\ndemo bundled provider sha256:"), "{lines}");
    let removed = plugin(&patchbay, &["remove", "greet"]);
    let words = format!(
        "Removed {}.\nIts grants stay, for these files alone. To remove them: patchbay grant remove greet 'http:*' kv\n\
         Open sessions keep it until /reload_skills. What it has stored (kv) is kept.\n",
        path.display()
    );
    assert_eq!((removed.code, &*removed.out), (Some(0), &*words));
    assert_eq!(listed(&patchbay, "greet"), None);
    assert_eq!(patchbay.shell("bash", "patchbay grant remove greet 'http:*' kv").code, Some(0));
    let again = plugin(&patchbay, &["remove", "greet"]);
    assert!(again.code == Some(1) && again.err.starts_with("Error: there is no skill 'greet' in "), "{again:?}");
    let bundled = plugin(&patchbay, &["remove", "calc"]);
    let words = " The bundled skill of this name is not removed by this command. [skill_not_found]\n";
    assert!(bundled.err.ends_with(words), "{bundled:?}");
}

#[test]
fn existing_skill_is_replaced_on_request_only() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/greet.wasm", Guest::answering("one").packaged(SKILL_MD));
    plugin(&patchbay, &["add", "greet.wasm"]);
    patchbay.run(&["grant", "add", "greet", "kv"]);
    patchbay.write("workspace/greet/SKILL.md", SKILL_MD);
    patchbay.write("workspace/greet/Cargo.toml", "");
    patchbay.write("workspace/greet/out.wasm", Guest::answering("two").component());
    let refused = plugin(&patchbay, &["add", "greet"]);
    let words = format!(
        "Error: there is a skill 'greet' already: {}. To replace it: patchbay plugin add --replace greet [invalid_args]\n",
        skills(&patchbay, "greet.wasm").display()
    );
    assert_eq!((refused.code, &*refused.err), (Some(1), &*words));
    assert_eq!(patchbay.line("/greet"), "one");
    // The same file again keeps its grants.
    let same = plugin(&patchbay, &["add", "--replace", "greet.wasm"]).out;
    assert!(same.contains("  kv (granted): keeps names\n") && same.contains("grant add greet 'http:*'\n"), "{same}");
    let replaced = plugin(&patchbay, &["add", "--replace", "greet"]).out;
    assert!(
        replaced.starts_with("Replaced greet 1.2.0 (") && replaced.contains("grant add greet kv 'http:*'\n"),
        "{replaced}"
    );
    assert_eq!(patchbay.line("/greet"), "two");
    let mut entries: Vec<_> =
        fs::read_dir(skills(&patchbay, "")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    entries.sort();
    assert_eq!(entries, ["greet"]);
    assert!(!skills(&patchbay, "greet/Cargo.toml").exists());
}

#[test]
fn what_would_not_load_is_not_added() {
    let patchbay = Patchbay::new();
    let refused = |path: &str, words: &str| {
        let ran = plugin(&patchbay, &["add", path]);
        assert!(ran.code == Some(1) && ran.err.contains(words), "{words}: {ran:?}");
        assert_eq!(fs::read_dir(skills(&patchbay, "")).unwrap().count(), 0, "{words}");
    };
    patchbay.write("workspace/greet.wasm", Guest::default().component());
    refused(
        "greet.wasm",
        "greet.wasm has no SKILL.md. Write one into a folder 'greet', and embed it: patchbay plugin build greet --wasm ",
    );
    patchbay.write("workspace/greet.wasm", Guest::default().packaged("---\nname: other\n---\n"));
    refused("greet.wasm", "Error: greet.wasm is not added: [invalid_name] ");
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
    let provider = listed(&patchbay, "acme").unwrap();
    assert_eq!((&provider["kind"], &provider["root"]), (&json!("provider"), &json!("user")));
    let removed = plugin(&patchbay, &["remove", "acme"]);
    assert!(removed.err.contains("To remove the provider of this name: patchbay provider remove acme"), "{removed:?}");
}
