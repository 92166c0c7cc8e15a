//! Reads Agent Plugins (agent-plugins.org, 1.0.0 and the draft 1.1.0): folders with a `plugin.json`, skills in `skills/NAME/` and
//! MCP servers in `mcp.json`. A folder without a `plugin.json` may be a plugin in Claude Code's format (`claude.rs`).
//!
//! Called by the crate `plugin`, which adds, builds and inspects packages. Reading starts nothing and changes nothing.
//!
//! 1. [`list_files`] walks the whole folder first. The package is refused if anything cannot be copied faithfully: links that lead
//!    out, hard links, devices, or names that are equal on some systems.
//! 2. [`PluginManifest::parse`] checks `plugin.json`. Unknown fields are noted; for any other violation the package is refused.
//! 3. Each skill is read like any other skill, so unknown frontmatter keys are tolerated. A bad skill stays in
//!    [`AgentPlugin::skills`] with its problem, and the others load.
//! 4. [`parse_servers`] checks `mcp.json`. A bad entry is left out with a note; if the file itself is bad, no servers load.
//!
//! Commands, hooks, agents and files of other clients are named in [`AgentPlugin::notes`] and not used.

mod claude;
mod claude_servers;
mod json;
mod manifest;
mod marketplace;
mod servers;
mod sums;
mod tree;
mod unused;

use std::{collections::BTreeSet, io, path::Path};

use cap_std::fs::Dir;
use patchbay_core::{COMPONENT_BYTES, Code, PackageName, PackageNameError, text};
use patchbay_policy::Root;

use crate::{FoundSkill, LockedPackage, Manifest, Problem, SKILL_MD_BYTES, discover_one, embedded_skill_md, files};

use json::reason;
use unused::UnusedParts;

pub use claude::{CLAUDE_MANIFEST, CLAUDE_PARTS};
pub use json::MANIFEST_BYTES;
pub use manifest::{Author, PluginManifest, PluginName, SpecVersion};
pub use marketplace::{Marketplace, MarketplacePlugin, PluginSource, read_marketplace};
pub use servers::{PackageServer, ServerTransport, parse_servers};
pub use sums::Sums;
pub use tree::{PackageFile, list_files};

/// Maximum number of skills in one package.
const SKILLS: usize = 256;

/// A package on disk. Its contents are untrusted; strings are cleaned for display.
#[derive(Clone, Debug)]
pub struct AgentPlugin {
    /// The package name.
    pub name: PackageName,
    /// The version as written; often, but not always, a semantic version.
    pub version: Option<String>,
    /// The skills, sorted by path, including those that cannot be loaded.
    pub skills: Vec<PackageSkill>,
    /// The valid servers with a supported transport, sorted by name, without Patchbay's own server.
    pub servers: Vec<PackageServer>,
    /// All files of the package, sorted by path.
    pub files: Vec<PackageFile>,
    /// Everything that was ignored or left out, with its code.
    pub notes: Vec<Problem>,
}

/// A direct child of `skills/` with a SKILL.md, or a command in Claude Code's format.
#[derive(Clone, Debug)]
pub struct PackageSkill {
    /// Path below the package: `skills/NAME`; `skills/NAME/NAME.wasm` if this component contains the whole skill; or
    /// `commands/NAME.md`.
    pub path: String,
    /// The skill, or why it cannot be loaded.
    pub found: FoundSkill,
}

impl AgentPlugin {
    /// Reads the package in `folder`.
    ///
    /// # Errors
    /// `package_manifest_missing`, `package_manifest_invalid`, `package_schema_unsupported`, `package_file_refused` and
    /// `package_limit`: nothing in the package can be used.
    pub fn read(folder: &Path) -> Result<Self, Problem> {
        let files = list_files(folder)?;
        let opened = files::open_folder(folder).map_err(|error| tree::unreadable("The folder", &error))?;
        let opened = opened.ok_or_else(|| tree::unreadable("The folder", &io::ErrorKind::NotFound.into()))?;
        let mut plugin = match read_manifest(&opened)? {
            Some((manifest, notes)) => Self::with_manifest(folder, &opened, files, manifest, notes)?,
            None if claude::is_plugin(&files) => claude::read(folder, &opened, files)?,
            None => return Err(UnusedParts::of(&files, false).missing_manifest()),
        };
        // A server that runs Patchbay itself serves the skills of this package, which are already loaded.
        plugin.servers.retain(|server| !server.is_own());
        if plugin.skills.is_empty() && plugin.servers.is_empty() {
            let message = "The folder has no skills and no usable MCP servers. If the project has a build, run it and add its output.";
            plugin.notes.push(Problem::new(Code::PackageEmpty, message));
        }
        Ok(plugin)
    }

    fn with_manifest(
        folder: &Path,
        opened: &Dir,
        files: Vec<PackageFile>,
        manifest: PluginManifest,
        mut notes: Vec<Problem>,
    ) -> Result<Self, Problem> {
        let skills = read_skills(folder, opened, &files, skill_folders(&files, "skills"))?;
        let servers = match read_servers(opened, manifest.spec) {
            Ok((servers, problems)) => {
                notes.extend(problems);
                servers
            }
            Err(problem) => {
                notes.push(problem);
                Vec::new()
            }
        };
        notes.extend(UnusedParts::of(&files, false).notes(&manifest.namespaces));
        let name = package_name("plugin.json", manifest.name.as_str())?;
        Ok(Self { name, version: manifest.version, skills, servers, files, notes })
    }
}

/// Reads the servers of `package` from its installed copy in `folder`, limited to servers that the lock describes. Nothing else is
/// read.
///
/// # Errors
/// The manifest or `mcp.json` cannot be used.
pub fn read_locked_servers(folder: &Path, package: &LockedPackage) -> Result<Vec<PackageServer>, Problem> {
    if package.servers.is_empty() {
        return Ok(Vec::new());
    }
    let opened = files::open_folder(folder).map_err(|error| tree::unreadable("The folder", &error))?;
    let Some(opened) = opened else { return Ok(Vec::new()) };
    let mut servers = match read_manifest(&opened)? {
        Some((manifest, _)) => read_servers(&opened, manifest.spec)?.0,
        None => claude::read_declared_servers(&opened)?,
    };
    servers.retain(|server| {
        package.servers.iter().any(|locked| locked.name == server.name && locked.digest == server.digest)
    });
    Ok(servers)
}

/// Reads `plugin.json`, with notes about it; `None` if there is no such file.
fn read_manifest(opened: &Dir) -> Result<Option<(PluginManifest, Vec<Problem>)>, Problem> {
    match files::read(opened, "plugin.json", MANIFEST_BYTES) {
        Ok(Some(bytes)) => PluginManifest::parse(&bytes).map(Some),
        Ok(None) => Ok(None),
        Err(error) => {
            let message = format!("plugin.json cannot be read: {}.", reason(&error));
            Err(Problem::new(Code::PackageManifestInvalid, message))
        }
    }
}

/// Parses the name that `file` contains.
fn package_name(file: &str, name: &str) -> Result<PackageName, Problem> {
    let invalid = |error: PackageNameError| Problem::new(Code::PackageManifestInvalid, format!("{file}: {error}."));
    name.parse().map_err(invalid)
}

/// Returns the direct children of the folder `place` with a file named exactly SKILL.md.
fn skill_folders(files: &[PackageFile], place: &str) -> BTreeSet<String> {
    let folder = |file: &PackageFile| {
        let folder = file.path.strip_suffix("/SKILL.md")?;
        let (parent, _) = folder.rsplit_once('/').unwrap_or(("", folder));
        (parent == place).then(|| folder.to_owned())
    };
    files.iter().filter_map(folder).collect()
}

/// Reads the skills in `folders`.
fn read_skills(
    root: &Path,
    opened: &Dir,
    files: &[PackageFile],
    folders: BTreeSet<String>,
) -> Result<Vec<PackageSkill>, Problem> {
    if folders.len() > SKILLS {
        return Err(too_many_skills(folders.len()));
    }
    let read = |folder: String| {
        let name = folder.rsplit('/').next().unwrap_or_default();
        let component = format!("{folder}/{name}.wasm");
        let has_component = files.binary_search_by(|file| (*file.path).cmp(&component)).is_ok();
        let is_whole = if has_component { whole_skill(opened, &folder, &component, name) } else { Ok(false) };
        match is_whole {
            Err(problem) => {
                let label = text::excerpt(name, 80);
                PackageSkill { found: FoundSkill { label, root: Root::User, candidate: Err(problem) }, path: folder }
            }
            Ok(is_whole) => read_skill(root, if is_whole { component } else { folder }),
        }
    };
    Ok(folders.into_iter().map(read).collect())
}

/// Reads the skill at `path` below `root`.
fn read_skill(root: &Path, path: String) -> PackageSkill {
    let found = discover_one(&root.join(&path)).unwrap_or_else(|error| FoundSkill {
        label: text::excerpt(&path, 80),
        root: Root::User,
        candidate: Err(Problem::unreadable("The skill", &error)),
    });
    PackageSkill { path, found }
}

fn too_many_skills(count: usize) -> Problem {
    tree::limit(format!("The package has {count} skills; the limit is {SKILLS}"))
}

/// Returns whether the component contains the whole skill, as [`crate::embedded_skill_md`] finds it.
///
/// # Errors
/// `package_texts_differ` if its instructions differ from the SKILL.md beside it, which other clients use.
fn whole_skill(opened: &Dir, folder: &str, component: &str, name: &str) -> Result<bool, Problem> {
    let read = |path: &str, most| {
        let read = files::read(opened, path, most).and_then(|read| read.ok_or_else(|| io::ErrorKind::NotFound.into()));
        read.map_err(|error| {
            Problem::new(Code::InvalidComponent, format!("'{}': {}.", text::excerpt(path, 120), reason(&error)))
        })
    };
    let Some(embedded) = embedded_skill_md(&read(component, COMPONENT_BYTES)?)? else { return Ok(false) };
    let beside = String::from_utf8(read(&format!("{folder}/SKILL.md"), SKILL_MD_BYTES)?)
        .map_err(|_| Problem::new(Code::MalformedFrontmatter, "SKILL.md is not UTF-8."))?;
    let name = name.parse().map_err(|error| Problem::new(Code::InvalidName, format!("{error}.")))?;
    if Manifest::parse(&embedded, &name)?.instructions == Manifest::parse(&beside, &name)?.instructions {
        return Ok(true);
    }
    let message = format!(
        "The instructions in '{name}.wasm' differ from the SKILL.md beside it. Build the package again with 'patchbay plugin build'."
    );
    Err(Problem::new(Code::PackageTextsDiffer, message))
}

/// Reads `mcp.json`. Returns the usable servers and a problem for each other entry.
fn read_servers(opened: &Dir, spec: SpecVersion) -> Result<(Vec<PackageServer>, Vec<Problem>), Problem> {
    let invalid = |error: &io::Error| {
        let message = format!("mcp.json cannot be read: {}; no servers are loaded.", reason(error));
        Problem::new(Code::PackageServersInvalid, message)
    };
    match files::read(opened, "mcp.json", MANIFEST_BYTES) {
        Ok(Some(bytes)) => parse_servers(&bytes, spec),
        Ok(None) => Ok(Default::default()),
        Err(error) => Err(invalid(&error)),
    }
}

#[cfg(test)]
mod tests;
