//! Makes a component of Python sources with componentize-py, which puts the interpreter in.

use super::{Contract, Sources, command, read, run, scratch};
use crate::{BuildError, Toolchain};

/// The module of the SDK that imports the author's `skill.py` and exports its tools.
const ENTRY: &str = "patchbay_sdk.entry";

pub(super) fn compile(sources: &Sources<'_>) -> Result<Vec<u8>, BuildError> {
    let tools = sources.tools(Toolchain::Python)?;
    let scratch = scratch()?;
    let wit = sources.wit(scratch.path())?;
    let contract = Contract::read(&wit)?;
    let component = scratch.path().join("component.wasm");
    let mut componentize = command(&tools, Toolchain::Python, "componentize-py");
    // It looks for packages where VIRTUAL_ENV says: not among those of the user who builds.
    componentize
        .current_dir(sources.folder)
        .env("VIRTUAL_ENV", &tools)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg("--wit-path")
        .arg(&wit)
        .args(["--world", contract.world_name(), "componentize", "--stub-wasi", "--python-path", "."])
        .args(["--python-path", "sdk", ENTRY, "--output"])
        .arg(&component);
    run(&mut componentize, sources.folder)?;
    read(&component)
}
