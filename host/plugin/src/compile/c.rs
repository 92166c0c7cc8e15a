//! Generates the C bindings of the plugin's world, and compiles them with the plugin's sources.

mod explain;

use std::{fs, path::Path};

use wit_bindgen_core::Files;

pub(crate) use explain::places_of;

use super::{Contract, PluginSources, read, run_explained, scratch};
use crate::{BuildError, Toolchain, zig};

pub(super) fn compile(sources: &PluginSources<'_>) -> Result<Vec<u8>, BuildError> {
    let tools = sources.tools(Toolchain::C)?;
    let scratch = scratch()?;
    let generated = scratch.path().join("bindings");
    write_c_bindings(&sources.wit(scratch.path())?, &generated)?;
    let module = scratch.path().join("module.wasm");

    let mut zig = zig::compiler(&tools);
    zig.current_dir(sources.folder).args(["-I", ".", "-I", "sdk", "-I"]).arg(&generated).arg("-o").arg(&module);
    // Paths in debug information are relative to the plugin's folder.
    for folder in [Path::new(""), Path::new("sdk")] {
        let files = compiled_files(&sources.folder.join(folder))?;
        zig.args(files.iter().filter_map(|path| path.strip_prefix(sources.folder).ok()));
    }
    zig.args(compiled_files(&generated)?);
    run_explained(&mut zig, "the C compiler", sources.folder, |printed| {
        explain::explained(printed, &tools, sources.folder)
    })?;
    read(&module)
}

/// Returns the sources and object files directly in a folder, sorted. A folder that does not exist has none.
fn compiled_files(folder: &Path) -> Result<Vec<std::path::PathBuf>, BuildError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.map_err(BuildError::io(folder))?.path();
        if path.extension().is_some_and(|extension| extension == "c" || extension == "o") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Writes the C bindings of the world in the WIT folder `wit` into `folder`, which is created: `WORLD.h`, `WORLD.c`, and an object
/// file that describes the world to the component encoder.
///
/// # Errors
/// The WIT is invalid, or a file cannot be written.
pub fn write_c_bindings(wit: &Path, folder: &Path) -> Result<(), BuildError> {
    let Contract { mut resolve, world } = Contract::read(wit)?;
    let mut files = Files::default();
    wit_bindgen_c::Opts::default()
        .build()
        .generate(&mut resolve, world, &mut files)
        .map_err(|error| BuildError::Wit { folder: wit.to_owned(), reason: format!("{error:#}") })?;
    fs::create_dir_all(folder).map_err(BuildError::io(folder))?;
    for (name, content) in files.iter() {
        let path = folder.join(name);
        fs::write(&path, content).map_err(BuildError::io(&path))?;
    }
    Ok(())
}
