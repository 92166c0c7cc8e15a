//! Generates the C bindings of the plugin's world, and compiles them with the plugin's sources.

use std::{fs, path::Path, process::Command};

use wit_bindgen_core::Files;

use super::{Contract, PluginSources, command, read, run, scratch};
use crate::{BuildError, Toolchain};

/// Options of the compiler. Of WASI nothing is left when the module is linked; without a stack size of its own the memory would
/// begin at 16 MiB.
const OPTIONS: &[&str] = &[
    "--target=wasm32-wasi",
    "-std=c17",
    "-Wall",
    "-Wextra",
    // What is certainly wrong; other warnings don't stop a build.
    "-Werror=format",
    "-Werror=implicit-function-declaration",
    "-Werror=return-stack-address",
    "-Werror=return-type",
    "-Werror=unused-result",
    "-Os",
    // `assert` works: at this level the compiler defines NDEBUG.
    "-UNDEBUG",
    // Stripped afterwards, and kept for the places of traps.
    "-gline-tables-only",
    "-fdebug-compilation-dir=.",
    "-mexec-model=reactor",
    "-Wl,-z,stack-size=65536",
];

pub(super) fn compile(sources: &PluginSources<'_>) -> Result<Vec<u8>, BuildError> {
    let tools = sources.tools(Toolchain::C)?;
    let scratch = scratch()?;
    let generated = scratch.path().join("bindings");
    write_c_bindings(&sources.wit(scratch.path())?, &generated)?;
    let module = scratch.path().join("module.wasm");

    let mut zig = zig(&tools);
    zig.current_dir(sources.folder).args(["-I", ".", "-I", "sdk", "-I"]).arg(&generated).arg("-o").arg(&module);
    // Paths in debug information are relative to the plugin's folder.
    for folder in [Path::new(""), Path::new("sdk")] {
        let files = compiled_files(&sources.folder.join(folder))?;
        zig.args(files.iter().filter_map(|path| path.strip_prefix(sources.folder).ok()));
    }
    zig.args(compiled_files(&generated)?);
    run("zig cc", &mut zig, sources.folder)?;
    read(&module)
}

/// Creates the command of the C compiler with its options.
fn zig(tools: &Path) -> Command {
    let mut zig = command(tools, Toolchain::C, "python");
    let cache = tools.join("cache");
    zig.env("ZIG_GLOBAL_CACHE_DIR", &cache)
        .env("ZIG_LOCAL_CACHE_DIR", &cache)
        .args(["-m", "ziglang", "cc"])
        .args(OPTIONS);
    zig
}

/// Creates the command that compiles an empty program. The first run of the compiler also compiles the libc, which takes seconds, so
/// that happens when it is installed.
pub(crate) fn trial(tools: &Path) -> Command {
    let mut zig = zig(tools);
    zig.current_dir(tools).args(["-x", "c", "/dev/null", "-o", "trial.wasm"]);
    zig
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
