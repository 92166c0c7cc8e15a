//! Bundles JavaScript or TypeScript with esbuild, and makes a component of the bundle with componentize-qjs.

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use serde::Deserialize;

use super::{Contract, Sources, command, read, run, scratch};
use crate::{BuildError, PluginKind, Toolchain};

pub(super) fn compile(sources: &Sources<'_>) -> Result<Vec<u8>, BuildError> {
    let tools = sources.tools(Toolchain::JavaScript)?;
    let scratch = scratch()?;
    let wit = sources.wit(scratch.path())?;
    let contract = Contract::read(&wit)?;
    // Stack traces show the bundle's name.
    let bundle = scratch.path().join("bundle.js");
    let metafile = scratch.path().join("bundle.json");
    let component = scratch.path().join("component.wasm");

    let mut esbuild = command(&tools, Toolchain::JavaScript, "esbuild");
    esbuild.current_dir(sources.folder).arg(sources.entry).args([
        "--bundle",
        "--format=esm",
        "--platform=neutral",
        "--main-fields=module,main",
        "--target=es2023",
        "--external:patchbay:*",
        "--log-level=warning",
    ]);
    // In a new plugin the SDK is a folder; it may also be installed as a package.
    if !sources.folder.join("node_modules/patchbay-sdk").exists() && sources.folder.join("sdk/index.js").exists() {
        esbuild.arg("--alias:patchbay-sdk=./sdk");
    }
    esbuild.arg(joined("--outfile=", &bundle)).arg(joined("--metafile=", &metafile));
    run(&mut esbuild, sources.folder)?;
    check_export(sources, &read(&metafile)?)?;

    let mut componentize = command(&tools, Toolchain::JavaScript, "componentize-qjs");
    componentize
        .arg("--wit")
        .arg(&wit)
        .args(["--world", contract.world_name(), "--sync", "--stub-wasi", "--js"])
        .arg(&bundle)
        .arg("--output")
        .arg(&component);
    run(&mut componentize, sources.folder)?;
    read(&component)
}

fn joined(option: &str, path: &Path) -> OsString {
    let mut joined = OsString::from(option);
    joined.push(path);
    joined
}

/// The part of esbuild's metafile that names the exports of the bundle.
#[derive(Deserialize)]
struct Metafile {
    outputs: BTreeMap<String, Output>,
}

#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    exports: Vec<String>,
}

/// Checks that the entry file exports what the world wants: without it, the component could be built, but not loaded.
fn check_export(sources: &Sources<'_>, metafile: &[u8]) -> Result<(), BuildError> {
    let (wanted, example) = match sources.kind {
        PluginKind::Skill => ("skill", "export const skill = defineSkill({ … });"),
        PluginKind::Provider => ("adapter", "export const adapter = defineProvider({ … });"),
    };
    // A metafile that cannot be read says nothing against the bundle.
    let Ok(metafile) = serde_json::from_slice::<Metafile>(metafile) else { return Ok(()) };
    let exports: Vec<String> = metafile.outputs.into_values().flat_map(|output| output.exports).collect();
    if exports.iter().any(|export| export == wanted) {
        return Ok(());
    }
    Err(BuildError::MissingExport { file: sources.folder.join(sources.entry), wanted, exports, example })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Toolchains;

    #[test]
    fn missing_export_is_named_with_an_example() {
        let toolchains = Toolchains::default();
        let folder = Path::new("/x");
        let sources = Sources { folder, entry: "skill.js", kind: PluginKind::Skill, toolchains: &toolchains };
        let check = |names: &str| {
            let metafile = format!(r#"{{"outputs":{{"b.js":{{"exports":{names}}}}}}}"#);
            check_export(&sources, metafile.as_bytes()).map_err(|error| error.to_string())
        };
        assert_eq!(check(r#"["skill"]"#), Ok(()));
        assert_eq!(
            check(r#"["default", "skil"]"#).unwrap_err(),
            "/x/skill.js does not export 'skill'; it exports default, skil. Write: export const skill = defineSkill({ … });"
        );
        assert!(check("[]").unwrap_err().contains("; it exports nothing."));
    }
}
