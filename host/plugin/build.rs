//! Embeds the contract and the SDKs with their templates, which `patchbay plugin new` writes.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use wit_bindgen_core::{Files, WorldGenerator as _, wit_parser::Resolve};
use wit_bindgen_rust::Opts;

/// Folders of `sdk/` that authors do not get: they are only needed to develop the SDKs, or are build output.
const LEFT_OUT: [&str; 7] = ["__pycache__", "dist", "examples", "frozen", "node_modules", "target", "tests"];

/// In the repository, this file calls the macro that generates the contract's Rust bindings. Authors get the generated code
/// instead.
const BINDINGS: &str = "sdk/rust/src/bindings.rs";

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut files = Vec::new();
    for folder in ["sdk", "wit"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
        collect(&root, folder, &mut files)?;
    }
    files.sort();
    fs::write(out.join("bindings.rs"), rust_bindings(&root)?)?;
    let mut code = String::from("&[\n");
    for path in files {
        let source = if path == BINDINGS { out.join("bindings.rs") } else { root.join(&path) };
        writeln!(code, "    ({path:?}, include_bytes!({source:?})),")?;
    }
    code.push(']');
    fs::write(out.join("files.rs"), code)?;
    Ok(())
}

/// Adds the files below `folder`, which is relative to `root`. Links are skipped, because the SDKs contain links to the contract.
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

/// Returns [`BINDINGS`] with its macro expanded. Compiling the macro takes longer than everything else in a skill's first build.
fn rust_bindings(root: &Path) -> Result<String, Box<dyn Error>> {
    let mut resolve = Resolve::default();
    let mut push = |path: &str| -> Result<_, Box<dyn Error>> {
        Ok(resolve.push_source(path, &fs::read_to_string(root.join(path))?)?)
    };
    for path in ["wit/host/host.wit", "wit/skill/skill.wit"] {
        push(path)?;
    }
    let package = push("sdk/rust/src/sdk.wit")?;
    let world = resolve.select_world(&[package], Some("sdk"))?;
    // The same options as in the macro call.
    let options = Opts {
        generate_all: true,
        pub_export_macro: true,
        export_macro_name: Some("export_component".to_owned()),
        default_bindings_module: Some("patchbay_sdk::bindings".to_owned()),
        runtime_path: Some("patchbay_sdk::wit_bindgen::rt".to_owned()),
        ..Opts::default()
    };
    let mut files = Files::default();
    options.build().generate(&mut resolve, world, &mut files)?;
    let (_, code) = files.iter().next().ok_or("no bindings were generated")?;
    Ok(String::from_utf8(code.to_vec())?)
}
