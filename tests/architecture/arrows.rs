//! Checks the dependencies between the crates of the host: a crate imports only crates below it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
};

use crate::{documents::assert_generated, repository};

/// The crates of the host, from the highest layer to the lowest. Planned crates are included.
const CRATES: &[&str] = &[
    "cli",
    "plugin",
    "serve",
    "bridge",
    "acp",
    "repl",
    "session",
    "agent",
    "mcp",
    "fixture",
    "tools",
    "provider",
    "events",
    "skill",
    "command",
    "sandbox",
    "store",
    "egress",
    "schema",
    "policy",
    "workspace",
    "markdown",
    "jsonrpc",
    "cage",
    "core",
    "features",
];

/// Libraries that only one crate, or the named ones, may use, apart from tests.
const OWNED: &[(&str, &str)] = &[
    ("sandbox", "wasmtime"),
    ("sandbox", "wasmtime-wasi"),
    ("sandbox", "wasmtime-wasi-http"),
    ("workspace", "cap-fs-ext"),
    ("workspace", "grep-regex"),
    ("workspace", "grep-searcher"),
    ("store", "rusqlite"),
    ("egress", "reqwest"),
    // Egress uses it through rustls.
    ("skill plugin", "ring"),
    // Egress sends requests; mcp and serve respond to requests.
    ("egress mcp serve", "hyper"),
    ("mcp serve", "hyper-util"),
    ("serve", "axum"),
    ("mcp", "rmcp"),
    ("bridge", "tokio-tungstenite"),
    ("repl", "reedline"),
    ("markdown serve", "pulldown-cmark"),
    ("markdown", "syntect"),
    ("cage", "fork"),
    ("cage", "landlock"),
    ("cage", "nix"),
    ("cage", "seccompiler"),
];

/// Names that the pure crates must not use.
const IMPURE: &[&str] = &["tokio", "jiff", "chrono", "time", "reqwest", "rusqlite", "wasmtime"];
const PURE: &[&str] = &["command", "policy", "skill", "schema", "markdown", "core"];

/// The folders of `host/` with their dependencies and build dependencies, without dev-dependencies.
fn crates() -> Vec<(String, BTreeSet<String>)> {
    let mut crates = Vec::new();
    for entry in fs::read_dir(repository("host")).unwrap() {
        let folder = entry.unwrap();
        let name = folder.file_name().into_string().unwrap();
        // This crate has no code, only features, so nothing is imported through it.
        if name == "features" {
            continue;
        }
        let text = fs::read_to_string(folder.path().join("Cargo.toml")).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        let tables = ["dependencies", "build-dependencies"].iter().filter_map(|key| manifest.get(*key)?.as_table());
        crates.push((name, tables.flat_map(|table| table.keys().cloned()).collect()));
    }
    crates
}

fn place(name: &str) -> usize {
    let place = CRATES.iter().position(|floor| *floor == name);
    place.unwrap_or_else(|| panic!("host/{name} is not listed: add it to CRATES"))
}

#[test]
fn crates_import_only_lower_crates() {
    let crates = crates();
    assert!(crates.len() >= 10, "the crates are not found");
    for (name, dependencies) in &crates {
        for below in dependencies.iter().filter_map(|dependency| dependency.strip_prefix("patchbay-")) {
            assert!(place(name) < place(below), "host/{name} imports host/{below}, which is above it");
        }
    }
}

/// The table of crates, and the picture of their layers, in docs/architecture.md. A crate is on the lowest floor that is above all
/// crates that it imports.
#[test]
fn crates_in_the_architecture_document_are_generated() {
    let mut crates = crates();
    crates.sort_by_key(|(name, _)| place(name));
    let mut floors = BTreeMap::<&str, usize>::new();
    let mut rows = vec!["| crate | purpose |".to_owned(), "| --- | --- |".to_owned()];
    for (name, dependencies) in crates.iter().rev() {
        let below = dependencies.iter().filter_map(|dependency| floors.get(dependency.strip_prefix("patchbay-")?));
        let floor = below.max().map_or(0, |highest| highest + 1);
        floors.insert(name, floor);
    }
    for (name, _) in &crates {
        rows.push(format!("| `{name}` | {} |", description(name)));
    }
    let mut picture = String::from("```text\n");
    for floor in (0..=floors.values().copied().max().unwrap()).rev() {
        let on_it = crates.iter().map(|(name, _)| &**name).filter(|name| floors[name] == floor);
        writeln!(picture, "{floor:>2} | {}", on_it.collect::<Vec<_>>().join("   ")).unwrap();
    }
    picture.push_str("```");
    assert_generated("docs/architecture.md", "crates", &rows.join("\n"));
    assert_generated("docs/architecture.md", "floors", &picture);
}

/// Returns the description in the manifest of a crate.
fn description(name: &str) -> String {
    let text = fs::read_to_string(repository("host").join(name).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    manifest["package"]["description"].as_str().unwrap().to_owned()
}

#[test]
fn sandbox_does_not_import_store() {
    let crates = crates();
    let (_, sandbox) = crates.iter().find(|(name, _)| name == "sandbox").unwrap();
    assert!(!sandbox.contains("patchbay-store"), "capabilities reach the sandbox as traits");
}

#[test]
fn each_heavy_library_has_one_owner() {
    for (name, dependencies) in crates() {
        for (owner, library) in OWNED {
            assert!(
                owner.split(' ').any(|owner| name == owner) || !dependencies.contains(*library),
                "host/{name} names {library}, which is host/{owner}'s"
            );
        }
    }
}

#[test]
fn pure_crates_use_neither_network_nor_clock() {
    for (name, dependencies) in crates().into_iter().filter(|(name, _)| PURE.contains(&name.as_str())) {
        for library in IMPURE {
            assert!(!dependencies.contains(*library), "host/{name} is pure and names {library}");
        }
        for file in sources(&name) {
            let text = fs::read_to_string(&file).unwrap();
            for word in ["std::net", "SystemTime", "Instant", "std::env"] {
                assert!(!text.contains(word), "{} is pure and names {word}", file.display());
            }
        }
    }
}

fn sources(name: &str) -> Vec<std::path::PathBuf> {
    let mut folders = vec![repository("host").join(name).join("src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    assert!(!files.is_empty());
    files
}
