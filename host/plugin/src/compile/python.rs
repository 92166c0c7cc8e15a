//! Turns Python sources into a component with componentize-py, which includes the interpreter.

use std::{fs, path::Path, process::Stdio};

use patchbay_core::text;

use super::{Compiled, Contract, PluginSources, command, read, run_evaluating, scratch};
use crate::{BuildError, Toolchain, embedded};

/// The module of the SDK that imports the author's `skill.py` and exports its tools.
const ENTRY: &str = "patchbay_sdk.entry";

pub(super) fn compile(sources: &PluginSources<'_>) -> Result<Compiled, BuildError> {
    let tools = sources.tools(Toolchain::Python)?;
    let scratch = scratch()?;
    let notes = checked(sources.folder, &tools, scratch.path())?;
    let wit = sources.wit(scratch.path())?;
    let contract = Contract::read(&wit)?;
    let component = scratch.path().join("component.wasm");
    // Python is named explicitly, because the script's first line names the folder it was installed into, which may have moved.
    let mut componentize = command(&tools, Toolchain::Python, "python");
    componentize.arg(tools.join("bin/componentize-py"));
    // componentize-py searches VIRTUAL_ENV for packages, and must not find packages that the user has installed.
    componentize
        .current_dir(sources.folder)
        .env("VIRTUAL_ENV", &tools)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg("--wit-path")
        .arg(&wit)
        .args(["--world", contract.world_name(), "componentize", "--stub-wasi", "--python-path", "."])
        .args(["--python-path", "sdk", ENTRY, "--output"])
        .arg(&component);
    run_evaluating("componentize-py", &mut componentize, sources.folder, authors_part)?;
    Ok(Compiled { notes, ..read(&component)?.into() })
}

/// Runs the SDK's static checks of the sources, and returns their notes. This takes a tenth of a second; the compiler takes ten
/// seconds.
///
/// It uses the SDK inside the binary, not the copy in the plugin's folder, because a plugin's code must not run outside of the
/// sandbox.
fn checked(folder: &Path, tools: &Path, scratch: &Path) -> Result<Vec<String>, BuildError> {
    let sdk = scratch.join("checks");
    for (path, content) in embedded::files_below("sdk/python") {
        if path.starts_with("patchbay_sdk/") {
            let path = sdk.join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(BuildError::io(parent))?;
            }
            fs::write(&path, content).map_err(BuildError::io(&path))?;
        }
    }
    let run = "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module('patchbay_sdk.check', run_name='__main__')";
    let mut python = command(tools, Toolchain::Python, "python");
    // `-I` isolates Python: it imports neither from the current folder nor from the user's packages.
    python.args(["-I", "-B", "-X", "utf8", "-c", run]).arg(&sdk).arg(folder);
    let output = python.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.map_err(|source| BuildError::NoCompiler { program: "python".to_owned(), source })?;
    let (printed, errors) = (lossy(&output.stdout), lossy(&output.stderr));
    match errors.strip_prefix("error: ") {
        Some(errors) if output.status.code() == Some(1) => {
            Err(BuildError::Source(errors.trim_end().replace("\nerror: ", "\n")))
        }
        // If the check itself fails, the build reports the error.
        _ => Ok(printed.lines().filter_map(|line| Some(line.strip_prefix("note: ")?.to_owned())).collect()),
    }
}

fn lossy(bytes: &[u8]) -> String {
    text::clean(&String::from_utf8_lossy(bytes))
}

/// Finds the SDK's message in the output of a failed build: it begins with `error: `, and ends before the interpreter's own
/// messages.
fn authors_part(printed: &str) -> Option<String> {
    let message = &printed[printed.find("error: ")? + "error: ".len()..];
    let end = ["\nException ignored", "\n\n\n", "\nCaused by:"].iter().filter_map(|mark| message.find(mark)).min();
    Some(message[..end.unwrap_or(message.len())].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_authors_part_is_shown() {
        let printed = "Traceback (most recent call last):\n  File \"x\", line 8\nAssertionError: error: skill.py:6: tool 'hello' is \
                       async\nnote: write def\n\n\nCaused by:\n    0: error while executing\n";
        assert_eq!(authors_part(printed).as_deref(), Some("skill.py:6: tool 'hello' is async\nnote: write def"));
        assert_eq!(authors_part("MemoryError\n"), None);
    }
}
