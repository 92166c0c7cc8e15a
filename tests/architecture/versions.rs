//! The version: one number in all manifests, which `make version` changes.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::repository;

/// The manifests with the product's version. Bundled skills, templates and test guests have versions of their own.
const MANIFESTS: [&str; 7] = [
    "Cargo.toml",
    "agent.json",
    "plugins/Cargo.toml",
    "sdk/js/package.json",
    "sdk/python/pyproject.toml",
    "sdk/rust-provider/Cargo.toml",
    "sdk/rust/Cargo.toml",
];

/// Returns the version in a manifest below `root`.
fn version(root: &Path, manifest: &str) -> String {
    let text = fs::read_to_string(root.join(manifest)).unwrap();
    let manifest: Value = match manifest.ends_with(".json") {
        true => serde_json::from_str(&text).unwrap(),
        false => serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap(),
    };
    let places = ["/version", "/package/version", "/workspace/package/version", "/project/version"];
    places.iter().find_map(|place| manifest.pointer(place)?.as_str()).unwrap().to_owned()
}

#[test]
fn every_manifest_has_the_version_of_the_product() {
    for manifest in MANIFESTS {
        let found = version(&repository(""), manifest);
        assert_eq!(found, env!("CARGO_PKG_VERSION"), "{manifest}; run: make version V=…");
    }
}

/// Runs `make version` in a copy. `cargo` is replaced with a program that records where it was called.
#[test]
#[cfg(unix)]
fn make_version_changes_every_manifest() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for file in [&MANIFESTS[..], &["dist/version.py", "docs/install.md"]].concat() {
        fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        fs::copy(repository(file), root.join(file)).unwrap();
    }
    fs::create_dir_all(root.join("tests/guests/wasip2")).unwrap();
    let cargo = root.join("cargo");
    fs::write(&cargo, format!("#!/bin/sh\necho \"$PWD $*\" >>{}/calls\n", root.display())).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    let set = |version: &str, unreleased: &str| {
        let changelog = format!("# Changelog\n\n## Unreleased\n\n{unreleased}## 0.0.9 - 2020-01-01\n\n- Old.\n");
        fs::write(root.join("CHANGELOG.md"), changelog).unwrap();
        let path = format!("{}:{}", root.display(), std::env::var("PATH").unwrap());
        let ran =
            Command::new("python3").arg("dist/version.py").arg(version).current_dir(root).env("PATH", path).output();
        let ran = ran.unwrap();
        (ran.status.success(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let (_, refused) = set("0.2", "- New.\n\n");
    assert!(refused.contains("'0.2' is not a version"), "{refused}");
    let (_, refused) = set("9.8.7", "");
    assert!(refused.contains("nothing under '## Unreleased'"), "{refused}");
    assert_eq!(set("9.8.7-rc.1", "- New.\n\n"), (true, String::new()));
    for manifest in MANIFESTS {
        assert_eq!(version(root, manifest), "9.8.7-rc.1", "{manifest}");
    }
    let registry = fs::read_to_string(root.join("agent.json")).unwrap();
    assert_eq!(registry.matches("/9.8.7-rc.1/patchbay-9.8.7-rc.1-linux-").count(), 2, "{registry}");
    let changelog = fs::read_to_string(root.join("CHANGELOG.md")).unwrap();
    let (before, after) = changelog.split_once("## Unreleased\n\n## 9.8.7-rc.1 - 20").unwrap();
    assert!(
        before == "# Changelog\n\n" && after.contains("\n\n- New.\n\n## 0.0.9 - 2020-01-01\n\n- Old.\n"),
        "{after}"
    );
    assert_eq!(fs::read_to_string(root.join("calls")).unwrap().lines().count(), 3, "three lock files");

    let install = || fs::read_to_string(root.join("docs/install.md")).unwrap();
    assert!(install().contains(env!("CARGO_PKG_VERSION")) && !install().contains("9.8.7"), "{}", install());
    assert_eq!(set("9.8.7", "- New.\n\n"), (true, String::new()));
    assert!(
        install().contains("patchbay_9.8.7_amd64.deb") && !install().contains(env!("CARGO_PKG_VERSION")),
        "{}",
        install()
    );
}
