//! Bundles JavaScript or TypeScript with esbuild, and turns the bundle into a component with componentize-qjs.

mod explain;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

use patchbay_sandbox::{BUNDLE, BundleMap};
use serde::Deserialize;

use super::{Compiled, Contract, PluginSources, command, read, run_evaluating, run_explained, scratch, silent};
use crate::{BuildError, PluginKind, Toolchain, toolchain};

pub(super) fn compile(sources: &PluginSources<'_>) -> Result<Compiled, BuildError> {
    let tools = sources.tools(Toolchain::JavaScript)?;
    let scratch = scratch()?;
    let wit = sources.wit(scratch.path())?;
    let contract = Contract::read(&wit)?;
    let bundle = scratch.path().join(BUNDLE);
    let metafile = scratch.path().join("bundle.json");
    let component = scratch.path().join("component.wasm");

    let mut esbuild = silent(Command::new(esbuild_binary(&tools)));
    esbuild.current_dir(sources.folder).arg(sources.entry).args([
        "--bundle",
        "--format=esm",
        "--platform=neutral",
        "--main-fields=module,main",
        "--target=es2023",
        "--sourcemap=external",
        "--sources-content=false",
        "--external:patchbay:*",
        "--log-level=warning",
    ]);
    // In a new plugin the SDK is a folder; it may also be installed as a package.
    if !sources.folder.join("node_modules/patchbay-sdk").exists() && sources.folder.join("sdk/index.js").exists() {
        esbuild.arg("--alias:patchbay-sdk=./sdk");
    }
    esbuild.arg(joined("--outfile=", &bundle)).arg(joined("--metafile=", &metafile));
    run_explained(&mut esbuild, "esbuild", sources.folder, |printed| {
        let sdk = fs::read_to_string(sources.folder.join("sdk/index.js")).unwrap_or_default();
        explain::explained(printed, &sdk)
    })?;
    check_export(sources, &read(&metafile)?)?;

    let mut componentize = command(&tools, Toolchain::JavaScript, "componentize-qjs");
    componentize
        .arg("--wit")
        .arg(&wit)
        .args(["--world", contract.world_name(), "--sync", "--stub-wasi", "--js"])
        .arg(&bundle)
        .arg("--output")
        .arg(&component);
    let source_map = relative_sources(&read(&bundle.with_extension("js.map"))?, scratch.path(), sources.folder);
    run_evaluating("componentize-qjs", &mut componentize, sources.folder, |printed| {
        let map = source_map.as_deref().and_then(BundleMap::read)?;
        let error = &printed[printed.find("module evaluation: ")? + "module evaluation: ".len()..];
        let lines: Vec<String> = error.lines().map(str::to_owned).collect();
        let entry = fs::read_to_string(sources.folder.join(sources.entry)).unwrap_or_default();
        Some(explain::located(&map.translate_all(&lines), sources.entry, &entry))
    })?;
    Ok(Compiled { source_map, ..read(&component)?.into() })
}

/// Returns the path of esbuild's binary for this machine. The script in `.bin` is only the fallback, because it prints its own
/// stack trace after the errors.
fn esbuild_binary(tools: &Path) -> PathBuf {
    let packages = fs::read_dir(tools.join("node_modules/@esbuild")).into_iter().flatten().flatten();
    let binary = packages.map(|package| package.path().join("bin/esbuild")).find(|binary| binary.exists());
    binary.unwrap_or_else(|| toolchain::program(tools, Toolchain::JavaScript, "esbuild"))
}

/// Returns a source map whose sources are relative to the plugin's folder, instead of the bundle's folder. Returns `None` if `map`
/// is not a source map; traces then show places in the bundle.
fn relative_sources(map: &[u8], bundle_folder: &Path, folder: &Path) -> Option<Vec<u8>> {
    let mut map: serde_json::Value = serde_json::from_slice(map).ok()?;
    for source in map.get_mut("sources")?.as_array_mut()? {
        let mut path = PathBuf::new();
        for part in bundle_folder.join(source.as_str()?).components() {
            match part {
                Component::ParentDir => drop(path.pop()),
                part => path.push(part),
            }
        }
        let path = path.strip_prefix(folder).unwrap_or(&path);
        *source = path.to_string_lossy().into();
    }
    serde_json::to_vec(&map).ok()
}

fn joined(option: &str, path: &Path) -> OsString {
    let mut joined = OsString::from(option);
    joined.push(path);
    joined
}

/// The part of esbuild's metafile that names the exports of the bundle.
#[derive(Deserialize)]
struct Metafile {
    outputs: BTreeMap<String, BundleOutput>,
}

#[derive(Deserialize)]
struct BundleOutput {
    #[serde(default)]
    exports: Vec<String>,
}

/// Checks that the entry file has the export that the world requires: without it, the component
/// could be built, but not loaded.
fn check_export(sources: &PluginSources<'_>, metafile: &[u8]) -> Result<(), BuildError> {
    let (wanted, example) = match sources.kind {
        PluginKind::Skill => ("skill", "export const skill = defineSkill({ … });"),
        PluginKind::Provider => ("adapter", "export const adapter = defineProvider({ … });"),
    };
    // Without a readable metafile, the exports cannot be checked.
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
        let sources = PluginSources { folder, entry: "skill.js", kind: PluginKind::Skill, toolchains: &toolchains };
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
