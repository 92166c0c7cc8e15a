//! Agent Plugins: `patchbay plugin build --agent-plugin` writes them, and `patchbay mcp --package` serves their skills.

use std::fs;

use patchbay_tests::{
    binary::{Patchbay, Ran},
    calls::relaying,
    guest::Guest,
};
use serde_json::{Value, json};

use crate::mcp_server::Connected;

const GREET: &str = "---\nname: greet\nsummary: Greets people\nversion: 1.2.0\n---\nSay hello.\n";

fn build(patchbay: &Patchbay, arguments: &[&str]) -> Ran {
    patchbay.run(&[&["plugin", "build"], arguments].concat())
}

/// Writes a package with one skill that has a component.
fn packaged(patchbay: &Patchbay, name: &str, guest: &Guest, skill_md: &str) {
    patchbay.write(&format!("workspace/{name}.wasm"), guest.packaged(skill_md));
    let built = build(patchbay, &[&format!("{name}.wasm"), "--agent-plugin", "acme"]);
    assert_eq!((built.code, &*built.err), (Some(0), ""), "{built:?}");
}

fn tools(client: &mut Connected) -> Vec<String> {
    let list = client.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}));
    list["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn package_is_built_and_serves_its_skills_alone() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/greet.wasm", Guest::default().packaged(GREET));
    patchbay.write("workspace/review/SKILL.md", "---\nsummary: Reviews changes\n---\nReview.\n");
    patchbay.write("workspace/review/references/style.md", "Style.");
    let built = build(&patchbay, &["greet.wasm", "review", "--agent-plugin", "acme"]);
    let folder = fs::canonicalize(patchbay.workspace()).unwrap().join("acme");
    let bytes: u64 =
        ["plugin.json", "mcp.json", "skills/greet/SKILL.md", "skills/greet/greet.wasm", "skills/review/SKILL.md"]
            .iter()
            .map(|file| fs::metadata(folder.join(file)).unwrap().len())
            .sum();
    let size = patchbay_core::text::size(bytes + "Style.".len() as u64);
    assert_eq!((built.code, &*built.err), (Some(0), ""));
    let lines: Vec<_> = built.out.lines().collect();
    assert_eq!(
        lines[..],
        [
            &format!("{}: 6 files, {size}", folder.display()),
            "skill greet, with tools: Greets people",
            "skill review: Reviews changes",
        ]
    );

    patchbay.add_command("mine", &Guest::default(), "");
    let mut client = Connected::initialized(&patchbay, &["--package", "acme"], "c");
    assert_eq!(tools(&mut client), ["greet__run"]);
    assert_eq!(client.call("greet__run", json!({"a": 1}))["result"]["content"][0]["text"], r#"{"a":1}"#);
    assert_eq!(client.call("mine__run", json!({}))["error"]["message"], "tool 'mine__run' not found in snapshot.");
    let ran = client.end();
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    // Building it again changes nothing.
    let before = fs::metadata(folder.join("plugin.json")).unwrap().modified().unwrap();
    assert_eq!(build(&patchbay, &["greet.wasm", "review", "--agent-plugin", "acme"]), built);
    assert_eq!(fs::metadata(folder.join("plugin.json")).unwrap().modified().unwrap(), before);
}

#[test]
fn served_package_has_no_grants() {
    let patchbay = Patchbay::new();
    let guest = relaying("calc__eval", r#"{"expression":"6*7"}"#);
    let skill_md = "---\nname: relay\nsummary: Relays\ncapabilities: [{name: tools}]\n---\n";
    packaged(&patchbay, "relay", &guest, skill_md);
    // A skill of the user with the same name and files has a grant. The packaged skill does not inherit it.
    patchbay.write("home/config/skills/relay.wasm", guest.packaged(skill_md));
    patchbay.grant("relay", &["tools"]);
    let mut client = Connected::initialized(&patchbay, &["--package", "acme"], "c");
    let denied = client.call("relay__run", json!({}));
    assert_eq!(denied["result"]["_meta"]["patchbay/code"], "denied", "{denied}");
    let ran = client.end();
    assert_eq!(ran.err, "note: no package with these files is installed, so its skills lack these grants: tools.\n");
}

#[test]
fn served_package_has_the_grants_of_the_installed_one_while_its_files_are_equal() {
    let patchbay = Patchbay::new();
    let skill_md = "---\nname: relay\nsummary: Relays\ncapabilities: [{name: tools}]\n---\n";
    packaged(&patchbay, "relay", &relaying("relay__nothing", "{}"), skill_md);
    assert_eq!(patchbay.run(&["plugin", "add", "acme", "--yes"]).code, Some(0));
    assert_eq!(patchbay.run(&["grant", "add", "--package", "acme", "relay", "tools"]).code, Some(0));
    // With the grant, the call goes on to look up a tool, which does not exist.
    for file in [None, Some("workspace/acme/more.txt")] {
        if let Some(file) = file {
            patchbay.write(file, "more");
        }
        let mut client = Connected::initialized(&patchbay, &["--package", "acme"], "c");
        let called = client.call("relay__run", json!({}));
        assert_eq!(called["result"]["_meta"]["patchbay/code"] == "denied", file.is_some(), "{called}");
        let ran = client.end();
        assert_eq!(ran.err.contains("no package with these files is installed"), file.is_some(), "{}", ran.err);
    }
}

#[test]
fn skills_that_need_files_are_offered_with_a_workspace_only() {
    let patchbay = Patchbay::new();
    let skill_md = "---\nname: reader\nsummary: Reads\ncapabilities: [workspace-read]\n---\n";
    packaged(&patchbay, "reader", &Guest::default(), skill_md);
    let mut client = Connected::initialized(&patchbay, &["--package", "acme"], "c");
    assert_eq!(tools(&mut client), [""; 0]);
    assert_eq!(client.call("reader__run", json!({}))["error"]["message"], "tool 'reader__run' not found in snapshot.");
    client.end();
    let mut client = Connected::initialized(&patchbay, &["--package", "acme", "--workspace", "."], "c");
    assert_eq!(tools(&mut client), ["reader__run"]);
    client.end();
}

#[test]
fn skill_with_other_instructions_beside_it_is_not_served() {
    let patchbay = Patchbay::new();
    packaged(&patchbay, "greet", &Guest::default(), GREET);
    patchbay
        .write("workspace/acme/skills/greet/SKILL.md", "---\nname: greet\ndescription: Greets\n---\nSay goodbye.\n");
    let mut client = Connected::initialized(&patchbay, &["--package", "acme"], "c");
    assert_eq!(tools(&mut client), [""; 0]);
    let ran = client.end();
    assert_eq!(
        ran.err,
        "note: skill 'greet' is left out: [package_texts_differ] The instructions in 'greet.wasm' differ from the SKILL.md beside it. Build \
         the package again with 'patchbay plugin build'.\n"
    );
}

#[test]
fn unusable_package_is_an_error() {
    let patchbay = Patchbay::new();
    let served = |folder: &str| {
        let ran = patchbay.run(&["mcp", "--package", folder]);
        assert_eq!((ran.code, &*ran.out), (Some(1), ""));
        ran.err
    };
    assert_eq!(
        served("nowhere"),
        "Error: nowhere cannot be served. The folder cannot be read: entity not found. [package_file_refused]\n"
    );
    let manifest = |schema: &str| json!({"$schema": schema, "name": "acme"}).to_string();
    patchbay
        .write("workspace/acme/plugin.json", manifest("https://agent-plugins.org/schemas/2.0.0/plugin.schema.json"));
    assert!(served("acme").ends_with(" [package_schema_unsupported]\n"));
    patchbay
        .write("workspace/acme/plugin.json", manifest("https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"));
    std::os::unix::fs::symlink("/etc/hosts", patchbay.workspace().join("acme/hosts")).unwrap();
    assert!(served("acme").ends_with("put the file itself there. [package_file_refused]\n"));

    patchbay.write("workspace/mute/SKILL.md", "---\nname: mute\n---\n");
    let built = build(&patchbay, &["mute", "--agent-plugin", "new"]);
    assert_eq!(built.code, Some(1));
    assert!(built.err.contains("Other clients need a description."), "{built:?}");
    assert!(!patchbay.workspace().join("new").exists());
    let several = build(&patchbay, &["mute", "acme"]);
    assert_eq!(several.err, "Error: several folders are built together only with --agent-plugin OUT. [invalid_args]\n");
}

#[test]
fn marketplace_is_written_for_codex_and_claude() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/greet.wasm", Guest::default().packaged(GREET));
    let built = build(&patchbay, &["greet.wasm", "--agent-plugin", "acme", "--marketplace", "--claude"]);
    assert_eq!((built.code, &*built.err), (Some(0), ""), "{built:?}");
    let json = |path: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(patchbay.workspace().join("acme").join(path)).unwrap()).unwrap()
    };
    assert_eq!(json(".agents/plugins/marketplace.json")["plugins"][0]["source"]["path"], "./plugins/acme");
    assert_eq!(json(".claude-plugin/marketplace.json")["plugins"][0]["source"], "./plugins/acme");
    assert_eq!(json("plugins/acme/.mcp.json")["mcpServers"]["acme"]["command"], "patchbay");
}
