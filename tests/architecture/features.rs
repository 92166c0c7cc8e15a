//! Checks that a crate built alone uses the same dependency features as the whole workspace. Otherwise `cargo test -p CRATE` would
//! compile dependencies again. `host/features` lists the features.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use crate::repository;

/// The features of each dependency: by name and version.
type Features = BTreeMap<String, BTreeSet<String>>;

/// A crate that follows rustix's features and exists on Linux only.
const FOLLOWS: &str = "linux-raw-sys ";

fn features(selection: &[&str]) -> Features {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal,build,dev", "--prefix", "none", "--format", "{p}\t{f}"])
        .args(selection)
        .current_dir(repository(""))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut all = Features::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let Some((package, features)) = line.split_once('\t') else { continue };
        let name = package.replace(" (proc-macro)", "");
        // The line of one of our own crates contains a path.
        if !name.contains('(') && !name.starts_with(FOLLOWS) {
            let features = features.trim_end_matches(" (*)").split(',').filter(|feature| !feature.is_empty());
            all.entry(name).or_default().extend(features.map(str::to_owned));
        }
    }
    all
}

#[test]
fn crate_built_alone_has_the_features_of_the_workspace() {
    let workspace = features(&["--workspace"]);
    assert!(workspace.len() > 100, "{workspace:?}");
    let mut different = BTreeMap::new();
    for folder in fs::read_dir(repository("host")).unwrap() {
        let folder = folder.unwrap().file_name().into_string().unwrap();
        if folder == "features" {
            continue;
        }
        let name = if folder == "cli" { "patchbay".to_owned() } else { format!("patchbay-{folder}") };
        for (package, own) in features(&["--package", &name]) {
            if workspace.get(&package) != Some(&own) {
                different.entry(package).or_insert(name.clone());
            }
        }
    }
    let lines: Vec<_> = different
        .iter()
        .map(|(package, built_alone)| format!("{package}: {:?} (alone in {built_alone})", workspace.get(package)))
        .collect();
    assert!(lines.is_empty(), "give these crates these features in host/features/Cargo.toml:\n{}", lines.join("\n"));
}
