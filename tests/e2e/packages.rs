//! Packages after they were added: changed files, updates, a second machine with the same packages, hostile sources.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use patchbay_tests::{
    answers::json_lines,
    binary::{Patchbay, Ran},
    documents::blocks,
    guest::Guest,
};

use crate::plugin_add::{lock, packages, plugin};

/// Returns a component whose tool returns this text, and which requests these capabilities.
fn greeter(version: &str, answer: &str, capabilities: &str) -> Vec<u8> {
    let skill_md = format!(
        "---\nversion: {version}\ninvocation_mode: tool_dispatch\ncommand: hi\ncommand_tool: run\ncapabilities: [{capabilities}]\n---\n"
    );
    Guest::answering(answer).packaged(&skill_md)
}

pub fn succeed(patchbay: &Patchbay, arguments: &[&str]) -> String {
    let ran = plugin(patchbay, arguments);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {}{}", ran.out, ran.err);
    ran.out
}

/// Asserts that a command fails with this exit code and stable code, and that the installed version still works.
fn refused(patchbay: &Patchbay, arguments: &[&str], exit: i32, code: &str) -> Ran {
    let before = (packages(patchbay), fs::read_to_string(lock(patchbay)).ok());
    let ran = plugin(patchbay, arguments);
    assert!(ran.code == Some(exit) && ran.err.contains(&format!("[{code}]")), "{arguments:?}: {ran:?}");
    assert_eq!((packages(patchbay), fs::read_to_string(lock(patchbay)).ok()), before, "{arguments:?}");
    ran
}

/// Writes an Agent Plugin with these files and a manifest.
pub fn agent_plugin(patchbay: &Patchbay, folder: &str, version: &str, files: &[(&str, &[u8])]) {
    let manifest = format!(
        r#"{{"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "name": "tools", "version": "{version}"}}"#
    );
    patchbay.write(&format!("{folder}/plugin.json"), manifest);
    for (path, contents) in files {
        patchbay.write(&format!("{folder}/{path}"), contents);
    }
}

/// Returns the only installed copy of a package.
pub fn copy(patchbay: &Patchbay, package: &str) -> PathBuf {
    let entries = fs::read_dir(patchbay.home().join("data/packages").join(package)).unwrap();
    let folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders[0].clone()
}

/// Writes into a read-only file of an installed copy.
pub fn overwrite(path: &Path, contents: &[u8]) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(path, contents).unwrap();
}

pub const HELLO: &[u8] = b"---\nsummary: Says hello\n---\nSay hello.\n";

#[test]
fn changed_byte_anywhere_leaves_the_package_out() {
    let patchbay = Patchbay::new();
    let component = Guest::answering("yes").component();
    let skill_md = b"---\ninvocation_mode: tool_dispatch\ncommand: ask\ncommand_tool: run\n---\nAsk.\n";
    let files: [(&str, &[u8]); 4] = [
        ("skills/ask/SKILL.md", skill_md),
        ("skills/ask/ask.wasm", &component),
        ("skills/ask/notes/a.md", b"notes"),
        ("README.md", b"read me"),
    ];
    agent_plugin(&patchbay, "workspace/tools", "1.0.0", &files);
    succeed(&patchbay, &["add", "tools", "--yes"]);
    assert_eq!(patchbay.line("/ask"), "yes");
    let folder = copy(&patchbay, "tools");
    assert_eq!(fs::metadata(folder.join("skills/ask/SKILL.md")).unwrap().permissions().mode() & 0o222, 0);
    let whole = succeed(&patchbay, &["verify"]);
    assert!(whole.starts_with("tools: all files match packages.lock. The package is not signed"), "{whole}");
    for (path, original) in files {
        let mut changed = original.to_vec();
        *changed.last_mut().unwrap() ^= 1;
        overwrite(&folder.join(path), &changed);
        let is_used = path == "README.md";
        let answer = patchbay.line("/ask");
        assert_eq!(answer == "yes", is_used, "{path}: {answer}");
        let skills = patchbay.line("/skills");
        assert_eq!(skills.contains("[package_changed]"), !is_used, "{path}: {skills}");
        let verified = plugin(&patchbay, &["verify", "tools"]);
        let words = format!("tools: wrong: files differ: {path} (changed)\n");
        assert_eq!((verified.code, verified.out), (Some(1), words));
        overwrite(&folder.join(path), original);
    }
    // An additional file, the list of files, and the lock.
    fs::write(folder.join("more"), "x").unwrap();
    assert!(plugin(&patchbay, &["verify"]).out.contains("files differ: more (new)"));
    fs::remove_file(folder.join("more")).unwrap();
    let list = folder.with_extension("sums");
    let sums = fs::read(&list).unwrap();
    overwrite(&list, b"");
    assert_eq!(plugin(&patchbay, &["verify"]).code, Some(1));
    overwrite(&list, &sums);
    assert_eq!(succeed(&patchbay, &["verify"]), whole);
    let text = fs::read_to_string(lock(&patchbay)).unwrap();
    for (changed, code) in [
        (text.replacen("digest = \"sha256:", "digest = \"sha256:0", 2), "packages_lock_invalid"),
        (text.replace("skills/ask", "../../ask"), "packages_lock_invalid"),
        (text.replace("path = \"skills/ask\"", "path = \"skills/other\""), "package_changed"),
    ] {
        assert_ne!(changed, text);
        fs::write(lock(&patchbay), changed).unwrap();
        let skills = patchbay.line("/skills");
        assert!(skills.contains(&format!("[{code}]")) && skills.contains("calc"), "{skills}");
    }
    fs::write(lock(&patchbay), "not TOML").unwrap();
    assert!(patchbay.line("/skills").contains("[packages_lock_invalid]"));
    assert_eq!(patchbay.line("/calc 1 + 1"), "2");
    refused(&patchbay, &["add", "tools", "--yes"], 1, "packages_lock_invalid");
    fs::write(lock(&patchbay), text).unwrap();
    assert_eq!(patchbay.line("/ask"), "yes");
}

#[test]
fn update_shows_what_changes_and_moves_grants_for_what_both_ask_for() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/greet.wasm", greeter("1.0.0", "one", "kv, clock, {name: http, scope: '*.example.org'}"));
    succeed(&patchbay, &["add", "greet.wasm", "--yes"]);
    let granted = ["grant", "add", "--package", "greet", "greet", "kv", "clock", "http:a.example.org"];
    assert_eq!(patchbay.run(&granted).code, Some(0));
    assert_eq!(succeed(&patchbay, &["update"]), "greet is up to date.\n");
    let renamed = refused(&patchbay, &["update", "greet", "--rename", "greet=wave"], 1, "invalid_args");
    assert!(
        renamed.err.contains("package 'greet' is up to date, so --rename has nothing new to rename."),
        "{renamed:?}"
    );

    patchbay.write("workspace/greet.wasm", greeter("1.1.0", "two", "kv, {name: http, scope: '*.example.org'}"));
    // An open session keeps the earlier version.
    patchbay.line("/hi");
    let session = patchbay.last_session();
    let check = succeed(&patchbay, &["update", "--check"]);
    for line in [
        "greet: 1.0.0 to 1.1.0\n",
        "skill greet no longer asks for clock\n",
        "file greet.wasm (changed)\n",
        "signer: none",
    ] {
        assert!(check.contains(line), "{line}: {check}");
    }
    refused(&patchbay, &["update"], 2, "not_confirmed");
    refused(&patchbay, &["update", "--yes"], 2, "not_confirmed");
    refused(&patchbay, &["update", "--yes", "--to", "1.2.0"], 2, "package_older");
    assert_eq!(patchbay.line("/hi"), "one");
    let updated = succeed(&patchbay, &["update", "greet", "--yes", "--to", "1.1.0"]);
    for line in [
        "Updated package 'greet'.\n",
        "'clock' is no longer granted to 'greet', which does not ask for it any more.\n",
        "'kv' stays granted to 'greet'.\n",
        "'http:a.example.org' stays granted to 'greet'.\n",
        "To grant it: patchbay grant add --package greet greet 'http:*.example.org'\n",
    ] {
        assert!(updated.contains(line), "{line}: {updated}");
    }
    assert_eq!(patchbay.line("/hi"), "two");
    assert_eq!(patchbay.run(&["exec", "--session", &session, "/hi"]).out, "one\n");
    let list = patchbay.run(&["grant", "list"]).out;
    assert!(list.lines().count() == 2 && list.contains(": kv ") && list.contains(": http:a.example.org "), "{list}");
    assert_eq!(patchbay.run(&["grant", "list", "--stale"]).out, "");
    assert!(patchbay.line("/help greet").contains("kv (granted)"));
    succeed(&patchbay, &["verify"]);

    // `--yes` does not install a version that requests more. A lower version is only installed if it is named.
    patchbay.write("workspace/greet.wasm", greeter("1.2.0", "three", "kv, {name: http, scope: '*'}, tools"));
    let more = refused(&patchbay, &["update", "--yes", "--to", "1.2.0"], 2, "package_asks_more");
    assert!(more.err.contains("now asks for http:*; skill greet now asks for tools"), "{more:?}");
    patchbay.write("workspace/greet.wasm", greeter("0.9.0", "lower", "kv"));
    refused(&patchbay, &["update", "--yes"], 2, "package_older");
    assert_eq!(patchbay.line("/hi"), "two");
    succeed(&patchbay, &["update", "--yes", "--to", "0.9.0"]);
    assert_eq!(patchbay.line("/hi"), "lower");
    let changes = json_lines(&succeed(&patchbay, &["list", "--changes", "--json"]));
    let actions: Vec<_> = changes.iter().map(|change| change["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["add", "update", "update"]);
    assert!(changes.iter().all(|change| !change["who"].as_str().unwrap().is_empty()));
    // A missing source changes nothing.
    fs::remove_file(patchbay.workspace().join("greet.wasm")).unwrap();
    refused(&patchbay, &["update", "greet"], 1, "invalid_args");
    refused(&patchbay, &["update", "unknown"], 1, "package_not_found");
}

#[test]
fn update_without_anything_usable_is_refused() {
    let patchbay = Patchbay::new();
    let write = |version: &str, files: &[(&str, &[u8])]| {
        let _ = fs::remove_dir_all(patchbay.workspace().join("tools"));
        agent_plugin(&patchbay, "workspace/tools", version, files);
    };
    write("1.0.0", &[("skills/hello/SKILL.md", HELLO), ("skills/more/SKILL.md", HELLO)]);
    succeed(&patchbay, &["add", "tools", "--yes"]);
    let update = ["update", "tools", "--yes", "--to", "1.1.0"];
    let broken: (&str, &[u8]) = ("skills/more/more.wasm", b"no wasm");
    write("1.1.0", &[("skills/hello/SKILL.md", HELLO), ("skills/more/SKILL.md", HELLO), broken]);
    let ran = refused(&patchbay, &update, 2, "not_confirmed");
    assert!(
        ran.err.contains("--yes does not accept a version with skills that cannot be used: skills/more: "),
        "{ran:?}"
    );
    write("1.1.0", &[("skills/more/SKILL.md", HELLO), broken]);
    let ran = refused(&patchbay, &update, 1, "package_empty");
    assert!(ran.err.contains("cannot update package 'tools': "), "{ran:?}");

    // With several packages, a later question does not hide a failure.
    patchbay.write("workspace/gone.wasm", greeter("1.0.0", "one", "kv"));
    succeed(&patchbay, &["add", "gone.wasm", "--yes"]);
    fs::remove_file(patchbay.workspace().join("gone.wasm")).unwrap();
    write("1.1.0", &[("skills/hello/SKILL.md", HELLO), ("skills/more/SKILL.md", HELLO)]);
    refused(&patchbay, &["update"], 1, "not_confirmed");
}

#[test]
fn difference_shows_tools_text_servers_and_invisible_characters() {
    let patchbay = Patchbay::new();
    let mcp = |command: &str| {
        format!(
            r#"{{"$schema": "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json", "mcpServers": {{"docs": {{"type": "stdio", "command": "{command}", "args": ["a b"]}}}}}}"#
        )
    };
    let (old, new) = (mcp("npx"), mcp("uvx"));
    agent_plugin(
        &patchbay,
        "workspace/old",
        "1.0.0",
        &[("skills/hello/SKILL.md", HELLO), ("mcp.json", old.as_bytes())],
    );
    let text = "---\nsummary: Says hello\n---\nSay \u{202e}hello\u{200b}.\n";
    let files: [(&str, &[u8]); 3] =
        [("skills/hello/SKILL.md", text.as_bytes()), ("skills/more/SKILL.md", HELLO), ("mcp.json", new.as_bytes())];
    agent_plugin(&patchbay, "workspace/new", "1.1.0", &files);
    let diff = succeed(&patchbay, &["diff", "old", "new", "--text"]);
    for line in [
        "tools: 1.0.0 to 1.1.0\n",
        "skill more: new\n",
        "server docs is changed: uvx 'a b' (fetches its code at each start)\n",
        "instructions of hello: +1 −1\n",
        "  - Say hello.\n",
        "\\u{202e}hello\\u{200b}",
        "file skills/more/SKILL.md (new)\n",
    ] {
        assert!(diff.contains(line), "{line}: {diff}");
    }
    assert!(!succeed(&patchbay, &["diff", "old", "new"]).contains("Say"));
    succeed(&patchbay, &["add", "old", "--yes"]);
    assert_eq!(succeed(&patchbay, &["diff", "tools", "new", "--text"]), diff);
}

#[test]
fn export_and_sync_make_machines_equal() {
    let (one, mut two) = (Patchbay::new(), Patchbay::new());
    one.write("workspace/greet.wasm", greeter("1.0.0", "one", "kv"));
    agent_plugin(&one, "workspace/tools", "1.0.0", &[("skills/hello/SKILL.md", HELLO), ("README.md", b"x")]);
    succeed(&one, &["add", "greet.wasm", "--rename", "greet=wave", "--yes"]);
    succeed(&one, &["add", "tools", "--yes"]);
    let exported = one.folder().join("exported");
    let words = succeed(&one, &["export", exported.to_str().unwrap()]);
    assert!(words.contains("Exported 2 packages. On the other machine: patchbay plugin sync "), "{words}");
    refused(&one, &["export", exported.to_str().unwrap()], 1, "invalid_args");
    // The sources are gone, as without a network.
    fs::remove_dir_all(one.workspace()).unwrap();
    fs::create_dir(one.workspace()).unwrap();
    two.set("USER", "grace");
    let list = exported.join("packages.lock");
    let (list, from) = (list.to_str().unwrap(), exported.to_str().unwrap());
    refused(&two, &["sync", list, "--yes"], 1, "package_not_found");
    let plan = refused(&two, &["sync", list, "--from", from], 2, "not_confirmed").out;
    assert!(
        plan.contains("Add package 'greet':\n  greet 1.0.0 (1 file, ") && plan.contains("Add package 'tools':\n"),
        "{plan}"
    );
    succeed(&two, &["sync", list, "--from", from, "--yes"]);
    assert_eq!(two.line("/skill wave {}"), "one");
    let same = |text: String| text.replace("order = 1\n", "").replace("order = 2\n", "");
    assert_eq!(same(fs::read_to_string(lock(&two)).unwrap()), same(fs::read_to_string(lock(&one)).unwrap()));
    assert_eq!(succeed(&two, &["sync", list, "--from", from, "--yes"]), "The packages already match the lock.\n");
    assert!(succeed(&two, &["list", "--changes"]).lines().all(|line| line.contains(" grace sync ")));

    // Packages that are missing in the lock stay, unless `--exact` is given.
    agent_plugin(&two, "workspace/own", "1.0.0", &[("skills/own/SKILL.md", HELLO)]);
    succeed(&two, &["add", "own", "--name", "own", "--yes"]);
    assert!(succeed(&two, &["sync", list, "--from", from, "--yes"]).starts_with("The packages already match"));
    assert!(succeed(&two, &["sync", list, "--from", from, "--exact", "--yes"]).contains("Remove package 'own'.\n"));
    assert_eq!(packages(&two), ["greet", "tools"]);

    // A changed export is refused before anything changes, and a changed copy is repaired.
    let skill = copy(&two, "tools").join("skills/hello/SKILL.md");
    overwrite(&skill, b"changed");
    assert!(two.line("/skills").contains("[package_changed]"));
    let whole = copy(&one, "tools").file_name().unwrap().to_owned();
    let in_export = exported.join("tools").join(whole).join("README.md");
    overwrite(&in_export, b"y");
    refused(&two, &["sync", list, "--from", from, "--yes"], 1, "package_changed");
    overwrite(&in_export, b"x");
    succeed(&two, &["sync", list, "--from", from, "--yes"]);
    assert!(!two.line("/skills").contains("[package_changed]"));
    succeed(&two, &["verify"]);
    // A lock without a folder in its path is in the current folder, and a missing lock does not count as empty.
    fs::copy(list, two.workspace().join("other.lock")).unwrap();
    assert!(succeed(&two, &["sync", "other.lock", "--exact", "--yes"]).starts_with("The packages already match"));
    refused(&two, &["sync", "missing.lock", "--exact", "--yes"], 1, "folder_unusable");
}

/// A lock from another machine is not trusted. Everything except the origin is read from the files.
#[test]
fn sync_refuses_a_lock_that_describes_other_files() {
    let (one, two) = (Patchbay::new(), Patchbay::new());
    one.write("workspace/greet.wasm", greeter("1.0.0", "one", "kv"));
    succeed(&one, &["add", "greet.wasm", "--yes"]);
    let exported = one.folder().join("exported");
    succeed(&one, &["export", exported.to_str().unwrap()]);
    let list = exported.join("packages.lock");
    let text = fs::read_to_string(&list).unwrap();
    let arguments = ["sync", list.to_str().unwrap(), "--from", exported.to_str().unwrap(), "--yes"];
    for (old, new, what) in [
        ("version = \"1.0.0\"", "version = \"9.0.0\"", ": version."),
        ("asks = [\"kv\"]\n", "", ": skills."),
        ("path = \"greet.wasm\"", "path = \"other/greet.wasm\"", ": skills."),
    ] {
        let changed = text.replace(old, new);
        assert_ne!(changed, text, "{old}");
        fs::write(&list, changed).unwrap();
        let ran = refused(&two, &arguments, 1, "package_changed");
        assert!(ran.err.contains(&format!("the files of package 'greet'{what}")), "{ran:?}");
    }
    fs::write(&list, &text).unwrap();
    // The rules are applied to each source in the lock before anything is fetched, so the missing server goes unnoticed.
    let far = text.replace("found = \"", "found = \"http://127.0.0.1:9/");
    fs::write(two.workspace().join("far.lock"), far).unwrap();
    two.write("home/config/config.toml", "[plugins]\nsources = [\"https://plugins.example/\"]\n");
    refused(&two, &["sync", "far.lock", "--yes"], 1, "source_refused");
    fs::remove_file(two.home().join("config/config.toml")).unwrap();
    let plan = succeed(&two, &arguments);
    let from = format!("  from: {}\n", one.workspace().join("greet.wasm").display());
    assert!(plan.contains(&from), "{plan}");

    // An installed version, even with damaged files, is compared with the version that replaces it.
    two.write("workspace/greet.wasm", greeter("1.1.0", "two", "clock"));
    succeed(&two, &["remove", "greet"]);
    succeed(&two, &["add", "greet.wasm", "--yes"]);
    refused(&two, &arguments, 2, "package_asks_more");
    overwrite(&copy(&two, "greet").join("greet.wasm"), b"damaged");
    let more = refused(&two, &arguments, 2, "package_asks_more");
    assert!(more.err.contains("skill greet now asks for kv."), "{more:?}");
    two.write("workspace/greet.wasm", greeter("1.1.0", "two", "kv"));
    succeed(&two, &["remove", "greet"]);
    succeed(&two, &["add", "greet.wasm", "--yes"]);
    refused(&two, &arguments, 2, "package_older");
}

#[test]
fn lock_that_could_not_be_read_again_is_not_written() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/greet.wasm", greeter("1.0.0", "one", "kv"));
    let (digest, from) = (patchbay_core::Digest::of(b""), "x".repeat((4 << 20) - 800));
    let text = format!(
        "format = 1\n[[package]]\nname = \"big\"\nkind = \"file\"\nfrom = \"{from}\"\nfound = \"/big.wasm\"\ndigest = \"{digest}\"\norder = 1\n\
         added = \"\"\nupdated = \"\"\n"
    );
    patchbay.write("home/config/packages.lock", text);
    refused(&patchbay, &["add", "greet.wasm", "--yes"], 1, "package_limit");
}

/// Two names, one in sessions and one in the package, are the same skill. Another skill with the first name does not get its
/// grants.
#[test]
fn renamed_skill_is_not_replaced_by_another_one_of_its_name() {
    let patchbay = Patchbay::new();
    let component = Guest::answering("yes").component();
    let skill_md =
        b"---\ninvocation_mode: tool_dispatch\ncommand: ask\ncommand_tool: run\ncapabilities: [kv]\n---\nAsk.\n";
    let write = |folder: &str, version: &str| {
        let _ = fs::remove_dir_all(patchbay.workspace().join("tools"));
        let [text, wasm] = ["SKILL.md", "tool.wasm"].map(|file| format!("skills/{folder}/{file}"));
        agent_plugin(&patchbay, "workspace/tools", version, &[(&text, skill_md), (&wasm, &component)]);
    };
    write("ask", "1.0.0");
    succeed(&patchbay, &["add", "tools", "--rename", "ask=wave", "--yes"]);
    write("wave", "1.1.0");
    let ran = refused(&patchbay, &["update", "tools", "--yes", "--to", "1.1.0"], 2, "package_asks_more");
    assert!(ran.out.contains("skill wave: gone\n") && ran.out.contains("skill wave: new\n"), "{ran:?}");
    assert!(ran.err.contains("skill wave now asks for kv."), "{ran:?}");
}

#[test]
fn new_skill_of_an_update_is_renamed_if_it_clashes() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/more/SKILL.md", HELLO);
    succeed(&patchbay, &["add", "more", "--yes"]);
    agent_plugin(&patchbay, "workspace/tools", "1.0.0", &[("skills/hello/SKILL.md", HELLO)]);
    succeed(&patchbay, &["add", "tools", "--rename", "hello=hi", "--yes"]);
    agent_plugin(&patchbay, "workspace/tools", "1.1.0", &[("skills/more/SKILL.md", HELLO)]);
    let check = succeed(&patchbay, &["update", "tools", "--check"]);
    let line = "conflict: skill 'more' is left out: package 'more' was added earlier and has one. To use both: patchbay plugin update \
                tools --rename more=NEW\n";
    assert!(check.contains(line), "{check}");
    assert!(!succeed(&patchbay, &["update", "tools", "--check", "--rename", "more=other"]).contains("conflict:"));
    let update = ["update", "tools", "--yes", "--to", "1.1.0", "--rename"];
    let unknown = refused(&patchbay, &[&update[..], &["nothing=x"]].concat(), 1, "invalid_args");
    assert!(unknown.err.contains("the package has no skill 'nothing' to rename; it has hello, more."), "{unknown:?}");
    refused(&patchbay, &[&update[..], &["more=hi"]].concat(), 1, "invalid_args");
    succeed(&patchbay, &[&update[..], &["more=other"]].concat());
    let skills = patchbay.line("/skills");
    assert!(["more", "hi", "other"].iter().all(|name| skills.contains(name)), "{skills}");
    assert!(!skills.contains("[name_shadowed]"), "{skills}");
    // Without package names, the option would apply to all packages.
    assert_eq!(plugin(&patchbay, &["update", "--rename", "a=b"]).code, Some(2));
    succeed(&patchbay, &["verify"]);
}

#[test]
fn hostile_sources_are_refused() {
    let patchbay = Patchbay::new();
    let at = |path: &str| patchbay.workspace().join("tools").join(path);
    let fresh = |files: &[(&str, &[u8])]| {
        let _ = fs::remove_dir_all(at(""));
        agent_plugin(&patchbay, "workspace/tools", "1.0.0", &[("skills/hello/SKILL.md", HELLO)]);
        agent_plugin(&patchbay, "workspace/tools", "1.0.0", files);
    };
    patchbay.write("workspace/secret", "secret");
    for name in ["no\u{202e}where", "un\u{202e}built"] {
        fs::create_dir_all(patchbay.workspace().join("un\u{202e}built")).unwrap();
        let ran = refused(&patchbay, &["add", name, "--yes"], 1, "invalid_args");
        assert!(!ran.err.contains('\u{202e}'), "{ran:?}");
    }
    let make: [(&str, &dyn Fn()); 10] = [
        ("link out", &|| symlink("../../secret", at("skills/secret")).unwrap()),
        ("absolute link", &|| symlink("/etc/passwd", at("skills/hello/passwd")).unwrap()),
        ("link to nothing", &|| symlink("nothing", at("dangling")).unwrap()),
        ("linked folder", &|| symlink("../..", at("skills/up")).unwrap()),
        ("hard link", &|| fs::hard_link(patchbay.workspace().join("secret"), at("hard")).unwrap()),
        ("socket", &|| drop(std::os::unix::net::UnixListener::bind(at("socket")).unwrap())),
        ("case", &|| fs::write(at("readme"), "").and_then(|()| fs::write(at("README"), "")).unwrap()),
        ("normal form", &|| fs::write(at("\u{e4}"), "").and_then(|()| fs::write(at("a\u{308}"), "")).unwrap()),
        ("control character", &|| fs::write(at("a\u{1b}[31mb"), "").unwrap()),
        ("deep", &|| fs::create_dir_all(at(&"x/".repeat(20))).unwrap()),
    ];
    for (what, make) in make {
        fresh(&[]);
        make();
        let code = if what == "deep" { "package_limit" } else { "package_file_refused" };
        let ran = refused(&patchbay, &["add", "tools", "--yes"], 1, code);
        assert!(!ran.err.contains('\u{1b}'), "{what}: {ran:?}");
        assert!(plugin(&patchbay, &["sums", "tools"]).err.contains(code), "{what}");
    }
    let name = |name: &str| {
        format!(r#"{{"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "name": "{name}"}}"#)
    };
    let unknown = r#"{"$schema": "9.9.9", "name": "x"}"#.to_owned();
    for (manifest, code) in [
        (name("../up"), "package_manifest_invalid"),
        (name("A"), "package_manifest_invalid"),
        (name(""), "package_manifest_invalid"),
        ("[]".to_owned(), "package_manifest_invalid"),
        (unknown, "package_schema_unsupported"),
    ] {
        fresh(&[("plugin.json", manifest.as_bytes())]);
        refused(&patchbay, &["add", "tools", "--yes"], 1, code);
    }
    // A repository's `.git` folder is not copied, and links within the repository are copied as files.
    fresh(&[(".git/config", b"x")]);
    symlink("SKILL.md", at("skills/hello/again.md")).unwrap();
    fs::set_permissions(at("skills/hello/SKILL.md"), fs::Permissions::from_mode(0o4755)).unwrap();
    succeed(&patchbay, &["add", "tools", "--yes"]);
    let copy = copy(&patchbay, "tools");
    assert!(!copy.join(".git").exists() && copy.join("skills/hello/again.md").symlink_metadata().unwrap().is_file());
    assert_eq!(fs::metadata(copy.join("skills/hello/SKILL.md")).unwrap().permissions().mode() & 0o7777, 0o444);
}

#[test]
fn folder_that_changes_while_it_is_copied_is_refused() {
    let patchbay = Patchbay::new();
    agent_plugin(&patchbay, "workspace/tools", "1.0.0", &[("skills/hello/SKILL.md", HELLO)]);
    let (file, stop) = (patchbay.workspace().join("tools/data"), AtomicBool::new(false));
    fs::write(&file, "").unwrap();
    // Reading these files takes long enough for many writes.
    for number in 0..3 {
        patchbay.write(&format!("workspace/tools/more/{number}"), vec![0; 15_000_000]);
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            // The file grows, so two reads differ. The pause keeps it small.
            let mut file = File::options().append(true).open(&file).unwrap();
            while !stop.load(Ordering::Relaxed) {
                file.write_all(b"x").unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        // On a busy machine, a copy may be read between two writes. It is then consistent.
        let refused = (0..20).any(|_| {
            let ran = plugin(&patchbay, &["add", "tools", "--yes"]);
            if ran.code == Some(0) {
                succeed(&patchbay, &["verify"]);
                succeed(&patchbay, &["remove", "tools"]);
                return false;
            }
            ran.err.contains("changed while it was copied. Try again when nothing writes there. [package_unstable]")
        });
        stop.store(true, Ordering::Relaxed);
        assert!(refused);
    });
    assert_eq!(packages(&patchbay), [""; 0]);
}

#[test]
fn no_program_of_a_package_runs() {
    let patchbay = Patchbay::new();
    let canary = patchbay.folder().join("canary");
    let program = format!("#!/bin/sh\necho ran >> {}\n", canary.display());
    let hooks =
        r#"{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "${PLUGIN_ROOT}/bin/run"}]}]}}"#;
    let mcp = r#"{"$schema": "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json", "mcpServers": {"run": {"type": "stdio", "command": "./bin/run"}}}"#;
    let write = |version: &str| {
        let files: [(&str, &[u8]); 5] = [
            ("skills/hello/SKILL.md", HELLO),
            ("skills/hello/scripts/run", program.as_bytes()),
            ("hooks/hooks.json", hooks.as_bytes()),
            ("bin/run", program.as_bytes()),
            ("mcp.json", mcp.as_bytes()),
        ];
        agent_plugin(&patchbay, "workspace/tools", version, &files);
        for program in ["bin/run", "skills/hello/scripts/run"] {
            let path = patchbay.workspace().join("tools").join(program);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    };
    write("1.0.0");
    let added = succeed(&patchbay, &["add", "tools", "--yes"]);
    for line in
        ["server run: ./bin/run\n  off until you allow it: patchbay plugin allow tools run\n", " 'hooks/' is not used"]
    {
        assert!(added.contains(line), "{line}: {added}");
    }
    patchbay.exec(&["/reload_skills", "/skill hello", "say hello"]);
    write("1.1.0");
    succeed(&patchbay, &["update", "--yes", "--to", "1.1.0"]);
    succeed(&patchbay, &["verify"]);
    patchbay.exec(&["/hello", "say hello"]);
    assert!(!canary.exists());
}

#[test]
fn folder_that_only_lists_plugins_says_what_to_type() {
    let patchbay = Patchbay::new();
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let marketplace = format!(
        r#"{{"name": "m", "owner": {{"name": "o"}}, "plugins": [
        {{"name": "near", "source": "./plugins/near"}}, {{"name": "out", "source": "../../etc"}},
        {{"name": "far", "source": {{"source": "github", "repo": "acme/far", "ref": "v1", "sha": "{commit}"}}}}]}}"#
    );
    patchbay.write("workspace/m/.claude-plugin/marketplace.json", marketplace);
    patchbay.write("workspace/m/plugins/near/SKILL.md", HELLO);
    let ran = plugin(&patchbay, &["add", "m"]);
    assert_eq!((ran.code, packages(&patchbay)), (Some(2), vec![]), "{ran:?}");
    let lines = [
        "near\n  patchbay plugin add m/plugins/near\nfar\n  git clone https://github.com/acme/far.git far\n",
        &format!("  git -C far checkout {commit}\n  patchbay plugin add ./far\n"),
    ];
    assert!(ran.out.starts_with(&lines.concat()) && !ran.out.contains("add ../"), "{}", ran.out);
    assert!(ran.out.contains("note: "), "the entry that leads out is named: {}", ran.out);
    succeed(&patchbay, &["add", "m/plugins/near", "--yes"]);
}

#[test]
fn sums_are_checked_by_sha256sum() {
    let patchbay = Patchbay::new();
    agent_plugin(&patchbay, "workspace/tools", "1.0.0", &[("skills/hello/SKILL.md", HELLO), ("a b/\u{e4}.md", b"x")]);
    let checked = patchbay.shell(
        "bash",
        &format!("cd {0} && patchbay plugin sums . | sha256sum -c", patchbay.workspace().join("tools").display()),
    );
    assert_eq!(checked.out, "a b/\u{e4}.md: OK\nplugin.json: OK\nskills/hello/SKILL.md: OK\n", "{checked:?}");
    let added = succeed(&patchbay, &["add", "tools", "--yes"]);
    let list = succeed(&patchbay, &["sums", "tools"]);
    assert!(added.contains(&patchbay_core::Digest::of(list.as_bytes()).to_string()), "{added}");
}

/// Runs each line of the page for users exactly as written. `--yes` answers the questions, because there is no terminal here.
#[test]
fn lines_of_the_packages_page_run() {
    let patchbay = Patchbay::new();
    let folder = patchbay.folder().join("elsewhere");
    let write = |version: &str| patchbay.write("elsewhere/greet.wasm", greeter(version, version, "kv"));
    write("1.0.0");
    patchbay.write("elsewhere/greet/SKILL.md", HELLO);
    for (_, block) in blocks("docs/packages.md").into_iter().filter(|(language, _)| language == "sh") {
        for line in block.lines() {
            let asks = ["patchbay plugin add", "patchbay plugin update greet", "patchbay plugin sync"];
            let yes = if asks.iter().any(|command| line.starts_with(command)) { " --yes" } else { "" };
            if line.starts_with("patchbay plugin update") {
                write("1.1.0");
            }
            let ran = patchbay.shell("bash", &format!("{line}{yes}"));
            assert_eq!(ran.code, Some(0), "{line}: {ran:?}");
        }
    }
    assert!(folder.join("packages/packages.lock").exists());
}
