//! Generates the lists of bundled plugins that `src/bundled.rs` includes, and the facts that `patchbay --version` prints.
//! `make plugins` builds the plugins.
#![allow(clippy::unwrap_used)] // A panic fails the build and shows the line.

use std::{
    env,
    ffi::OsStr,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

mod commit;

fn main() {
    println!("cargo::rustc-env=PATCHBAY_BUILD={}, {}", origin(), env::var("TARGET").unwrap());
    let dist = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../plugins/dist");
    println!("cargo::rerun-if-changed={}", dist.display());
    let Ok(dist) = dist.canonicalize() else {
        // An editor checks a fresh clone before anything is built, and the included files must exist.
        let is_debug = env::var("PROFILE").unwrap() == "debug";
        let level = if is_debug { "warning" } else { "error" };
        println!(
            "cargo::{level}=the bundled plugins are not built, so this binary has no skills and no models; run: make plugins"
        );
        write_lists("", "", "");
        return;
    };
    // The tool list of each component is the JSON file next to it.
    let (mut skills, mut tool_lists, mut adapters) = (String::new(), String::new(), String::new());
    for file in files(&dist) {
        let (name, path) = (file.file_stem().unwrap().to_str().unwrap(), file.to_str().unwrap());
        if is(&file, "json") {
            writeln!(tool_lists, "    include_str!({path:?}),").unwrap();
        } else {
            let digest: [u8; 32] = Sha256::digest(fs::read(&file).unwrap()).into();
            writeln!(skills, "    BundledSkill::with_digest({name:?}, include_bytes!({path:?}), {digest:?}),").unwrap();
        }
    }
    for file in files(&dist.join("providers")).iter().filter(|file| is(file, "wasm")) {
        let (name, description) = (file.file_stem().unwrap().to_str().unwrap(), file.with_extension("json"));
        writeln!(
            adapters,
            "    BundledAdapter {{ name: {name:?}, bytes: include_bytes!({file:?}), description: include_str!({description:?}) }},"
        )
        .unwrap();
    }
    write_lists(&skills, &tool_lists, &adapters);
}

/// Writes the elements of the lists that `src/bundled.rs` includes.
fn write_lists(skills: &str, tool_lists: &str, adapters: &str) {
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    for (name, list) in [("bundled.rs", skills), ("tool_lists.rs", tool_lists), ("adapters.rs", adapters)] {
        fs::write(out.join(name), format!("&[\n{list}]")).unwrap();
    }
}

/// Returns the commit, or a note if it is unknown. Packagers who build from an archive can set `PATCHBAY_COMMIT`. A debug build
/// does not name the commit, because the binary would have to be linked again after each commit.
fn origin() -> String {
    println!("cargo::rerun-if-env-changed=PATCHBAY_COMMIT");
    if let Some(commit) = env::var("PATCHBAY_COMMIT").ok().filter(|commit| !commit.is_empty()) {
        return commit;
    }
    if env::var("PROFILE").unwrap() == "debug" {
        return "debug build".to_owned();
    }
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap()).join("../..");
    let Some((commit, changing)) = commit::commit(&root) else { return "unknown commit".to_owned() };
    for file in changing {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    commit
}

/// Returns the files in a folder of bundled plugins, sorted by name. Reports a build error if there are none.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
    files.sort_by(|one, other| one.file_stem().cmp(&other.file_stem()));
    if files.is_empty() {
        println!("cargo::error={} has no bundled plugins; run: make plugins", folder.display());
    }
    for file in &files {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    files
}

fn is(file: &Path, extension: &str) -> bool {
    file.extension() == Some(OsStr::new(extension))
}
