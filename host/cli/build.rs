//! Writes the list of bundled plugins that `src/bundled.rs` includes. Builds nothing itself: `make plugins` does.
#![allow(clippy::unwrap_used)] // A build that fails says where.

use std::{env, fmt::Write as _, fs, path::PathBuf};

fn main() {
    let dist = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../plugins/dist");
    println!("cargo::rerun-if-changed={}", dist.display());
    let Ok(dist) = dist.canonicalize() else {
        println!("cargo::error=the bundled plugins are not built; run: make plugins");
        return;
    };
    let mut files: Vec<PathBuf> = fs::read_dir(&dist).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    if files.is_empty() {
        println!("cargo::error=the folder of bundled plugins is empty; run: make plugins");
    }
    let mut list = String::from("&[\n");
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        println!("cargo::rerun-if-changed={}", file.display());
        writeln!(list, "    Bundled {{ name: {name:?}, bytes: include_bytes!({:?}) }},", file.to_str().unwrap())
            .unwrap();
    }
    list.push(']');
    fs::write(PathBuf::from(env::var("OUT_DIR").unwrap()).join("bundled.rs"), list).unwrap();
}
