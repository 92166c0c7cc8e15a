//! Checks that builds of the bundled components are reproducible: the bytes do not depend on the folder of the sources.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use crate::repository;

/// Cargo identifies a crate outside of the workspace by its absolute path, which changes the bytes that rustc writes.
#[test]
fn bundled_plugins_depend_on_no_crate_outside_of_their_workspace() {
    let mut looked_at = 0;
    for folder in ["skills", "providers", "."] {
        for entry in fs::read_dir(repository("plugins").join(folder)).unwrap() {
            let package = Path::new(folder).join(entry.unwrap().file_name());
            let Ok(text) = fs::read_to_string(repository("plugins").join(&package).join("Cargo.toml")) else {
                continue;
            };
            let manifest: toml::Table = text.parse().unwrap();
            let Some(dependencies) = manifest.get("dependencies").and_then(toml::Value::as_table) else { continue };
            for path in dependencies.values().filter_map(|dependency| dependency.get("path")?.as_str()) {
                let mut place = PathBuf::new();
                for part in package.join(path).components() {
                    match part {
                        Component::ParentDir => assert!(place.pop(), "{} depends on {path}", package.display()),
                        Component::CurDir => {}
                        part => place.push(part),
                    }
                }
                assert!(repository("plugins").join(&place).join("Cargo.toml").exists(), "{}", place.display());
                looked_at += 1;
            }
        }
    }
    assert!(looked_at >= 13, "{looked_at}");
}
