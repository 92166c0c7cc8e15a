//! Makes a component of Python sources with componentize-py, which puts the interpreter in.

use super::{Contract, PluginSources, command, read, run_evaluating, scratch};
use crate::{BuildError, Toolchain};

/// The module of the SDK that imports the author's `skill.py` and exports its tools.
const ENTRY: &str = "patchbay_sdk.entry";

pub(super) fn compile(sources: &PluginSources<'_>) -> Result<Vec<u8>, BuildError> {
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
    run_evaluating("componentize-py", &mut componentize, sources.folder, authors_part)?;
    read(&component)
}

/// Finds the SDK's message in the output of a failed build: it begins with `error: `, and ends where the interpreter's own messages
/// begin.
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
