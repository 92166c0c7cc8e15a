//! Determines the kind of file or folder that the user wants to add.

use std::path::{Path, PathBuf};

use patchbay_core::{Code, PackageName};
use patchbay_policy::quoted;
use patchbay_skill::{
    PackageKind,
    agent_plugin::{AgentPlugin, CLAUDE_MANIFEST, CLAUDE_PARTS, Marketplace, read_marketplace},
};

use super::{PackageError, error::shown};
use crate::{LocatedPlugin, PluginForm, locate};

/// A file or folder that can be added.
#[derive(Debug)]
pub enum PackageSource {
    /// A package.
    Package(SourceForm),
    /// The adapter of a provider, which is not a package.
    Adapter(PathBuf),
    /// A folder that only lists packages.
    Marketplace(Marketplace),
}

/// A package that is not copied yet.
#[derive(Clone, Debug)]
pub struct SourceForm {
    /// The package's own name, which the user can override.
    pub name: PackageName,
    /// The form.
    pub kind: PackageKind,
    /// The file or folder, canonical.
    pub path: PathBuf,
    /// A source file of the skill that was changed after its component was built.
    pub newer: Option<String>,
    pub(crate) component: Option<PathBuf>,
}

/// Finds the package at `path`: a `NAME.wasm`, or the folder of a skill, an Agent Plugin, or a plugin in Claude Code's format.
///
/// # Errors
/// The path cannot be read or is not a package.
pub fn find_source(path: &Path) -> Result<PackageSource, PackageError> {
    let found = path
        .canonicalize()
        .map_err(|error| PackageError::new(Code::InvalidArgs, format!("cannot read {}: {error}.", shown(path))))?;
    if found.is_dir() {
        let has = |name: &str| found.join(name).symlink_metadata().is_ok();
        let is_skill = has("SKILL.md");
        // As in Claude Code, a SKILL.md is the only skill unless there is also a folder `skills`.
        let has_manifest = has("plugin.json") || has(CLAUDE_MANIFEST) && (!is_skill || has("skills"));
        if !has_manifest
            && !is_skill
            && let Some(marketplace) = read_marketplace(&found)?
        {
            return Ok(PackageSource::Marketplace(marketplace));
        }
        if has_manifest || !is_skill && CLAUDE_PARTS.into_iter().any(has) {
            let AgentPlugin { name, .. } = AgentPlugin::read(&found)?;
            let kind = PackageKind::AgentPlugin;
            return Ok(PackageSource::Package(SourceForm { name, kind, path: found, newer: None, component: None }));
        }
    }
    // The path as the user typed it, for error messages.
    let LocatedPlugin { name, form, newer } =
        locate(path).map_err(|error| PackageError::new(Code::InvalidArgs, format!("{error}.")))?;
    let package = |kind, path, component| {
        // Every valid skill name is also a valid package name.
        let name = name.as_str().parse().map_err(|error| PackageError::refused(format!("{error}.")))?;
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
