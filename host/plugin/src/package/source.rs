//! Finds out what a file or folder is that somebody wants to add.

use std::{
    fs,
    path::{Path, PathBuf},
};

use patchbay_core::{Code, PackageName, text};
use patchbay_policy::quoted;
use patchbay_skill::PackageKind;
use serde_json::Value;

use super::{PackageError, agent_plugin, error::shown};
use crate::{LocatedPlugin, PluginForm, inspect::read_at_most, locate};

/// A file or folder that can be added.
#[derive(Debug)]
pub enum PackageSource {
    /// A package.
    Package(SourceForm),
    /// The adapter of a provider, which is not a package.
    Adapter(PathBuf),
    /// A folder that only lists packages.
    Marketplace(Vec<MarketplacePlugin>),
}

/// A package that is not copied yet.
#[derive(Clone, Debug)]
pub struct SourceForm {
    /// The name that the package has by itself.
    pub name: PackageName,
    /// The form.
    pub kind: PackageKind,
    /// The file or folder, canonical.
    pub path: PathBuf,
    /// A source file of the skill that was changed after its component was built.
    pub newer: Option<String>,
    pub(crate) component: Option<PathBuf>,
}

/// A plugin in a `marketplace.json`, with the commands that add it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarketplacePlugin {
    /// The name, cleaned.
    pub name: String,
    /// The commands to type, one a line; empty if the entry has an unknown form.
    pub commands: Vec<String>,
}

const MARKETPLACES: [&str; 3] = [".claude-plugin", ".agents/plugins", ".github/plugin"];
const MARKETPLACE_BYTES: u64 = 4 << 20;

/// Finds the package at `path`: `NAME.wasm`, the folder of a skill, or of an Agent Plugin.
///
/// # Errors
/// The path cannot be read, or is none of these.
pub fn find_source(path: &Path) -> Result<PackageSource, PackageError> {
    let found = path
        .canonicalize()
        .map_err(|error| PackageError::new(Code::InvalidArgs, format!("cannot read {}: {error}.", shown(path))))?;
    if found.is_dir() {
        if found.join(agent_plugin::MANIFEST).symlink_metadata().is_ok() {
            let name = agent_plugin::read(&found)?.name;
            let kind = PackageKind::AgentPlugin;
            return Ok(PackageSource::Package(SourceForm { name, kind, path: found, newer: None, component: None }));
        }
        let is_plugin = found.join("SKILL.md").symlink_metadata().is_ok();
        if !is_plugin && let Some(plugins) = marketplace(&found)? {
            return Ok(PackageSource::Marketplace(plugins));
        }
    }
    // The path as it was typed, for the words of errors.
    let LocatedPlugin { name, form, newer } =
        locate(path).map_err(|error| PackageError::new(Code::InvalidArgs, format!("{error}.")))?;
    let package = |kind, path, component| {
        // Every name of a skill is the name of a package.
        let name = name.as_str().parse().map_err(|error| PackageError::invalid(format!("{error}.")))?;
        Ok(PackageSource::Package(SourceForm { name, kind, path, newer, component }))
    };
    match form {
        PluginForm::Adapter(file) => Ok(PackageSource::Adapter(file)),
        PluginForm::File(file) => package(PackageKind::File, file, None),
        PluginForm::Folder(folder, component) => package(PackageKind::Skill, folder, component),
        PluginForm::Bare(file) => {
            let file = quoted(&shown(&file)).into_owned();
            let message = format!(
                "{file} has no SKILL.md. Write one into a folder '{name}', and embed it: patchbay plugin build {name} --wasm {file}"
            );
            Err(PackageError::new(Code::MissingSkillMd, message))
        }
    }
}

/// Returns the plugins of a folder that has a `marketplace.json`.
fn marketplace(folder: &Path) -> Result<Option<Vec<MarketplacePlugin>>, PackageError> {
    let file =
        MARKETPLACES.into_iter().map(|place| folder.join(place).join("marketplace.json")).find(|file| file.is_file());
    let Some(file) = file else { return Ok(None) };
    let bytes = read_at_most(&file, MARKETPLACE_BYTES).map_err(PackageError::io(&file))?;
    let invalid = |why: String| PackageError::invalid(format!("{}: {why}.", shown(&file)));
    let json: Value = serde_json::from_slice(&bytes).map_err(|error| invalid(format!("not valid JSON: {error}")))?;
    let plugins = json.get("plugins").and_then(Value::as_array);
    let plugins = plugins.ok_or_else(|| invalid("it has no list 'plugins'".to_owned()))?;
    let plugin = |plugin: &Value| MarketplacePlugin {
        name: text::excerpt(plugin.get("name").and_then(Value::as_str).unwrap_or_default(), 80),
        commands: plugin.get("source").map(|source| commands(folder, source)).unwrap_or_default(),
    };
    Ok(Some(plugins.iter().map(plugin).collect()))
}

/// Returns the commands that add a plugin of a marketplace.
fn commands(folder: &Path, source: &Value) -> Vec<String> {
    let word = |key: &str| source.get(key).and_then(Value::as_str).map(text::clean_line);
    let add = |path: &Path| format!("patchbay plugin add {}", quoted(&shown(path)));
    let relative = source
        .as_str()
        .map(str::to_owned)
        .or_else(|| word("path").filter(|_| word("url").is_none() && word("repo").is_none()));
    if let Some(relative) = relative {
        let path = folder.join(&relative);
        // Only what the folder itself contains.
        let inside = fs::canonicalize(&path).is_ok_and(|path| path.starts_with(folder));
        return if inside { vec![add(&path.components().collect::<PathBuf>())] } else { Vec::new() };
    }
    let address = word("url").or_else(|| Some(format!("https://github.com/{}", word("repo")?)));
    let Some(address) = address else { return Vec::new() };
    let mut commands = vec![format!("git clone {} plugin", quoted(&address))];
    commands.extend(
        word("sha").or_else(|| word("ref")).map(|commit| format!("git -C plugin checkout {}", quoted(&commit))),
    );
    commands.push(add(&Path::new("plugin").join(word("path").unwrap_or_default())));
    commands
}
