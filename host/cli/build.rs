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
    // What a component answers when it is asked for its tools stands beside it.
    let (mut skills, mut answers) = (String::from("&[\n"), String::from("&[\n"));
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let (name, path) = (file.file_stem().unwrap().to_str().unwrap(), file.to_str().unwrap());
        if file.extension().is_some_and(|extension| extension == "json") {
            writeln!(answers, "    include_str!({path:?}),").unwrap();
        } else {
            writeln!(skills, "    Bundled {{ name: {name:?}, bytes: include_bytes!({path:?}) }},").unwrap();
        }
    }
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    fs::write(out.join("bundled.rs"), skills + "]").unwrap();
    fs::write(out.join("answers.rs"), answers + "]").unwrap();
}
