//! Reads Agent Plugins (agent-plugins.org, 1.0.0 and the draft 1.1.0): folders with a `plugin.json`, skills in `skills/NAME/` and
//! MCP servers in `mcp.json`.
//!
//! Called by the crate `plugin`, which adds, builds and inspects packages. Reading starts nothing and changes nothing.
//!
//! 1. [`list_files`] walks the whole folder first. Anything that cannot be copied faithfully refuses the package: links that
//!    lead out, hard links, devices, names that are equal on some systems.
//! 2. [`PluginManifest::parse`] checks `plugin.json`. Unknown fields are noted; other violations refuse the package.
//! 3. Each skill is read like a skill anywhere else, so unknown frontmatter keys are tolerated. A bad skill stays in
//!    [`AgentPlugin::skills`] with its problem, and the others load.
//! 4. [`parse_servers`] checks `mcp.json`. A bad entry is left out with a note, a bad file costs all servers.
//!
//! Commands, hooks, agents and files of other clients are named in [`AgentPlugin::notes`] and not used.

mod json;
mod manifest;
mod marketplace;
mod servers;
mod sums;
mod tree;
mod unused;

use std::{collections::BTreeMap, io, path::Path};

use cap_std::fs::Dir;
use patchbay_core::{COMPONENT_BYTES, Code, text};
use patchbay_policy::Root;

use crate::{FoundSkill, LockedPackage, Manifest, Problem, SKILL_MD_BYTES, discover_one, embedded_skill_md, files};

pub use manifest::{Author, PluginManifest, PluginName, SpecVersion};
pub use marketplace::{Marketplace, MarketplacePlugin, PluginSource, read_marketplace};
pub use servers::{PackageServer, ServerTransport, parse_servers};
pub use sums::Sums;
pub use tree::{PackageFile, list_files};

/// The most bytes of `plugin.json`, and of `mcp.json`.
pub const MANIFEST_BYTES: u64 = 256 << 10;
/// The most skills of a package.
const SKILLS: usize = 256;

/// A package as it is on disk. Its contents are untrusted; texts are cleaned for display.
#[derive(Clone, Debug)]
pub struct AgentPlugin {
    /// The checked `plugin.json`.
    pub manifest: PluginManifest,
    /// The skills, sorted by folder name, including those that cannot be loaded.
    pub skills: Vec<PackageSkill>,
    /// The valid entries of `mcp.json` with a supported transport, sorted by name, without Patchbay's own.
    pub servers: Vec<PackageServer>,
    /// All files of the package, sorted by path.
    pub files: Vec<PackageFile>,
    /// Everything that was ignored or left out, with its code.
    pub notes: Vec<Problem>,
}

/// A direct child of `skills/` with a SKILL.md.
#[derive(Clone, Debug)]
pub struct PackageSkill {
    /// Path below the package: `skills/NAME`, or `skills/NAME/NAME.wasm` if this component contains the whole skill.
    pub path: String,
    /// The skill, or why it cannot be loaded.
    pub found: FoundSkill,
}

impl AgentPlugin {
    /// Reads the package in `folder`.
    ///
    /// # Errors
    /// `package_manifest_missing`, `package_manifest_invalid`, `package_schema_unsupported`, `package_file_refused` and
    /// `package_limit`: nothing of the package can be used.
    pub fn read(folder: &Path) -> Result<Self, Problem> {
        let files = list_files(folder)?;
        let opened = files::open_folder(folder).map_err(|error| tree::unreadable("The folder", &error))?;
        let opened = opened.ok_or_else(|| tree::unreadable("The folder", &io::ErrorKind::NotFound.into()))?;
        let unused = unused::UnusedParts::of(&files);
        let (manifest, mut notes) = read_manifest(&opened)?.ok_or_else(|| unused.missing_manifest())?;
        let skills = read_skills(folder, &opened, &files)?;
        let servers = match read_servers(&opened, manifest.spec) {
            Ok((servers, problems)) => {
                notes.extend(problems);
                // It serves the skills of this package, which are loaded already.
                servers.into_iter().filter(|server| !server.is_own()).collect()
            }
            Err(problem) => {
                notes.push(problem);
                Vec::new()
            }
        };
        notes.extend(unused.notes(&manifest));
        if skills.is_empty() && servers.is_empty() {
            let message = "The folder has no skills and no usable MCP servers. If the project has a build, run it and add its output.";
            notes.push(Problem::new(Code::PackageEmpty, message));
        }
        Ok(Self { manifest, skills, servers, files, notes })
    }
}

/// Reads the servers of the installed copy of `package` in `folder`: those that the lock describes. Nothing else is read.
///
/// # Errors
/// `plugin.json` or `mcp.json` cannot be used.
pub fn read_locked_servers(folder: &Path, package: &LockedPackage) -> Result<Vec<PackageServer>, Problem> {
    if package.servers.is_empty() {
        return Ok(Vec::new());
    }
    let opened = files::open_folder(folder).map_err(|error| tree::unreadable("The folder", &error))?;
    let manifest = opened.as_ref().map(read_manifest).transpose()?.flatten();
    let Some((folder, (manifest, _))) = opened.zip(manifest) else { return Ok(Vec::new()) };
    let (mut servers, _) = read_servers(&folder, manifest.spec)?;
    servers.retain(|server| {
        package.servers.iter().any(|locked| locked.name == server.name && locked.digest == server.digest)
    });
    Ok(servers)
}

/// Reads `plugin.json`, with the notes about it; `None` without the file.
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

/// Reads the direct children of `skills/` with a file named exactly SKILL.md.
fn read_skills(root: &Path, opened: &Dir, files: &[PackageFile]) -> Result<Vec<PackageSkill>, Problem> {
    let skill = |file: &PackageFile| {
        let name = file.path.strip_prefix("skills/")?.strip_suffix("/SKILL.md")?;
        (!name.contains('/')).then(|| name.to_owned())
    };
    // By name, because `a-b` comes before `a/` in the list of files.
    let names: BTreeMap<String, bool> = files
        .iter()
        .filter_map(skill)
        .map(|name| {
            let component = format!("skills/{name}/{name}.wasm");
            let has_component = files.binary_search_by(|file| (*file.path).cmp(&component)).is_ok();
            (name, has_component)
        })
        .collect();
    if names.len() > SKILLS {
        return Err(tree::limit(format!("The package has {} skills; the limit is {SKILLS}", names.len())));
    }
    let read = |(name, has_component): (String, bool)| {
        let folder = format!("skills/{name}");
        let component = format!("{folder}/{name}.wasm");
        let problem = |problem| FoundSkill {
            label: text::excerpt(&name, 80),
            root: Root::User,
            candidate: Err::<_, Problem>(problem),
        };
        let is_whole = if has_component { whole_skill(opened, &folder, &component, &name) } else { Ok(false) };
        let (path, found) = match is_whole {
            Err(error) => (folder, problem(error)),
            Ok(is_whole) => {
                let path = if is_whole { component } else { folder };
                let found = discover_one(&root.join(&path));
                (path, found.unwrap_or_else(|error| problem(Problem::unreadable("The folder", &error))))
            }
        };
        PackageSkill { path, found }
    };
    Ok(names.into_iter().map(read).collect())
}

/// Returns whether the component contains the whole skill, as [`crate::embedded_skill_md`] finds it.
///
/// # Errors
/// `package_texts_differ` if its instructions are not those of the SKILL.md beside it, which other clients use.
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

/// Returns the message of our own errors, and the kind of a system error, whose message may contain a path.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => error.to_string(),
        kind => kind.to_string(),
    }
}

#[cfg(test)]
mod tests;
