//! The bundled components are the same bytes wherever their sources are.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use crate::repository;

/// cargo names a crate within the workspace by its relative path and any other by its absolute one, which changes the bytes
/// that rustc makes.
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
