//! Embeds the contract and the SDKs with their templates, which `patchbay plugin new` writes.

use std::{env, fmt::Write as _, fs, io, path::Path};

/// Folders of `sdk/` that authors do not get: they are for the development of the SDKs, or come from it.
const LEFT_OUT: [&str; 7] = ["__pycache__", "dist", "examples", "frozen", "node_modules", "target", "tests"];

fn main() -> io::Result<()> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..").canonicalize()?;
    let mut files = Vec::new();
    for folder in ["sdk", "wit"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
        collect(&root, folder, &mut files)?;
    }
    files.sort();
    let mut code = String::from("&[\n");
    for path in files {
        let _ = writeln!(code, "    ({path:?}, include_bytes!({:?})),", root.join(&path));
    }
    code.push(']');
    fs::write(Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("files.rs"), code)
}

/// Adds the files below `folder`, a path relative to `root`, without links: the SDKs link to the contract.
fn collect(root: &Path, folder: &str, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}/{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() && !LEFT_OUT.contains(&name.as_str()) {
            collect(root, &path, files)?;
        } else if kind.is_file() && !name.ends_with(".wasm") {
            files.push(path);
        }
    }
    Ok(())
}
