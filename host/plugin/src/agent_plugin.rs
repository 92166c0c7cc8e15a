//! Writes Agent Plugins (agent-plugins.org, 1.0.0): one folder that Patchbay and other clients load. This implements
//! `patchbay plugin build --agent-plugin`.
//!
//! Each skill becomes `skills/NAME/` with a SKILL.md that strict clients accept, its files, and the component, which contains the
//! whole skill for Patchbay. Other clients get its tools from `patchbay mcp --package`, which `mcp.json` starts. The folder is
//! built beside its destination and read like any package before it replaces an existing one. The author's own files are left
//! alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use patchbay_core::{Code, Name, text};
use patchbay_skill::{
    FileSet, PortableSkillMd, Problem, SKILL_MD_BYTES,
    agent_plugin::{AgentPlugin, MANIFEST_BYTES, PackageServer, PluginManifest, PluginName, SpecVersion},
    files_to_copy,
};
use serde_json::{Map, Value, json};

use crate::{
    BuildError, BuildOptions, PluginForm,
    build::{build, has_sources, write_if_changed},
    inspect::{read, read_at_most},
    locate,
};

/// Codex reads at most this many bytes of a SKILL.md in an Agent Plugin.
const READ_BY_CODEX: usize = 8_000;
/// Size limit of an existing marketplace index, in bytes.
const INDEX_BYTES: u64 = 4 << 20;

/// The options that [`write_agent_plugin`] accepts.
#[derive(Clone, Debug, Default)]
pub struct AgentPluginOptions {
    /// The folder to write. Its name is the package's name.
    pub out: PathBuf,
    /// Make the folder a marketplace for Codex and Claude Code, with the package in `plugins/NAME`.
    pub marketplace: bool,
    /// Add `.mcp.json`, from which Claude Code starts the server.
    pub claude: bool,
    /// How the skills are built. `out` and `wasm` are not used.
    pub build: BuildOptions,
}

/// The result of [`write_agent_plugin`].
#[derive(Clone, Debug)]
pub struct WrittenAgentPlugin {
    /// The folder of the package.
    pub folder: PathBuf,
    /// The package, read back from the written files.
    pub plugin: AgentPlugin,
    /// Names of the skills with a component, sorted.
    pub with_tools: BTreeSet<Name>,
    /// Likely mistakes that do not stop the build.
    pub notes: Vec<String>,
}

/// A skill that is ready to be written.
struct BuiltSkill {
    name: Name,
    skill_md: PortableSkillMd,
    /// The files besides SKILL.md and the component.
    files: BTreeMap<String, Vec<u8>>,
    component: Option<Vec<u8>>,
}

/// Builds the skills in `folders` and writes one package with all of them. A folder with sources is compiled; a component with an
/// embedded SKILL.md is used as it is.
///
/// # Errors
/// [`BuildError`]. An existing package stays unchanged, unless replacing it failed halfway.
pub fn write_agent_plugin(folders: &[PathBuf], options: &AgentPluginOptions) -> Result<WrittenAgentPlugin, BuildError> {
    let out = std::path::absolute(&options.out).map_err(BuildError::io(&options.out))?;
    let name: PluginName =
        out.file_name().map(|name| name.to_string_lossy()).unwrap_or_default().parse().map_err(|why| {
            refused(&out, Code::PackageManifestInvalid, format!("{why}. Choose another name for the folder."))
        })?;
    let folder = if options.marketplace { out.join("plugins").join(name.as_str()) } else { out.clone() };
    let kept = kept_manifest(&folder)?;
    let (mut skills, mut notes) = (Vec::<BuiltSkill>::new(), Vec::new());
    for folder in folders {
        let skill = built_skill(folder, &options.build, &mut notes)?;
        if skills.iter().any(|other| other.name == skill.name) {
            let message =
                format!("Two folders contain a skill '{}'; each name can occur once in a package.", skill.name);
            return Err(refused(folder, Code::InvalidName, message));
        }
        skills.push(skill);
    }
    skills.sort_by(|one, other| one.name.cmp(&other.name));

    let parent = folder.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(BuildError::io(parent))?;
    let staging = tempfile::Builder::new().prefix(".building-").tempdir_in(parent).map_err(BuildError::io(parent))?;
    for skill in &skills {
        notes.extend(write_skill(skill, &staging.path().join("skills").join(skill.name.as_str()))?);
    }
    let own = |root| skills.iter().any(|skill| skill.component.is_some()).then(|| PackageServer::own_entry(root));
    let manifest = manifest(&name, &skills, kept);
    let mut files = vec![("plugin.json", Some(Value::from(manifest.clone())))];
    let servers = json!({"$schema": SpecVersion::V1_0.schema("mcp")});
    // Codex does not accept dots in server names.
    let server = name.as_str().replace('.', "-");
    files.push(("mcp.json", with_entry(&folder.join("mcp.json"), servers, &server, own("${PLUGIN_ROOT}"))?));
    if options.claude {
        let entry = own("${CLAUDE_PLUGIN_ROOT}");
        files.push((".mcp.json", with_entry(&folder.join(".mcp.json"), json!({}), &server, entry)?));
    }
    for (file, value) in &files {
        if let Some(value) = value {
            let path = staging.path().join(file);
            fs::write(&path, pretty(value)).map_err(BuildError::io(&path))?;
        }
    }
    let plugin = checked(staging.path(), &folder)?;
    place(staging.path(), &folder, &files)?;
    if options.marketplace {
        write_indexes(&out, &name, &manifest)?;
    }
    let with_tools = skills.into_iter().filter(|skill| skill.component.is_some()).map(|skill| skill.name).collect();
    Ok(WrittenAgentPlugin { folder, plugin, with_tools, notes })
}

fn refused(path: &Path, code: Code, message: impl Into<String>) -> BuildError {
    BuildError::Skill { path: path.to_owned(), problem: Problem::new(code, message) }
}

/// Returns the folder's existing `plugin.json`. Its fields are kept, because the author may have added to them.
fn kept_manifest(folder: &Path) -> Result<Map<String, Value>, BuildError> {
    let path = folder.join("plugin.json");
    match read_at_most(&path, MANIFEST_BYTES) {
        Ok(bytes) => {
            PluginManifest::parse(&bytes).map_err(|problem| BuildError::Skill { path: path.clone(), problem })?;
            Ok(serde_json::from_slice(&bytes).unwrap_or_default())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match fs::read_dir(folder).map(|mut entries| entries.next()) {
                Ok(Some(_)) => {
                    let message =
                        "The folder has other files and no plugin.json. Name a new folder, or the folder of a package.";
                    Err(refused(folder, Code::PackageManifestMissing, message))
                }
                _ => Ok(Map::new()),
            }
        }
        Err(error) => Err(BuildError::io(&path)(error)),
    }
}

/// Builds the skill at `path`, if it has sources, and splits it into the files of a package.
fn built_skill(path: &Path, options: &BuildOptions, notes: &mut Vec<String>) -> Result<BuiltSkill, BuildError> {
    let scratch = tempfile::tempdir().map_err(BuildError::io(path))?;
    let mut options = BuildOptions { out: None, wasm: None, ..options.clone() };
    let (name, component) = if path.is_dir() && has_sources(path) {
        let built = build(path, &options)?;
        notes.extend(built.notes);
        (built.name, built.component)
    } else {
        let located = locate(path).map_err(|error| refused(path, Code::MissingSkillMd, format!("{error}.")))?;
        let component = match located.form {
            PluginForm::File(component) => Some(component),
            PluginForm::Folder(_, None) => None,
            PluginForm::Folder(folder, Some(component)) => {
                options.out = Some(scratch.path().join("skill.wasm"));
                options.wasm = Some(component);
                build(&folder, &options)?.component
            }
            PluginForm::Bare(_) => {
                let message = "The component has no SKILL.md. Put it into the skill's folder, beside the SKILL.md.";
                return Err(refused(path, Code::MissingSkillMd, message));
            }
            PluginForm::Adapter(_) => {
                let message = "It is the adapter of a provider; an Agent Plugin has only skills and MCP servers.";
                return Err(refused(path, Code::InvalidComponent, message));
            }
        };
        (located.name, component)
    };
    let problem = |problem| BuildError::Skill { path: path.to_owned(), problem };
    let (skill_md, files, component) = match component {
        Some(component) => {
            let bytes = read(&component).map_err(BuildError::io(&component))?;
            let set = FileSet::from_component(&bytes).map_err(problem)?;
            let skill_md = set.get("SKILL.md").map(|file| file.contents.to_vec()).unwrap_or_default();
            let files = set.others().map(|(path, file)| (path.to_owned(), file.contents.to_vec())).collect();
            (skill_md, files, Some(bytes))
        }
        None => {
            let files = files_to_copy(path).map_err(BuildError::io(path))?;
            let mut files = files.map_err(problem)?;
            (files.remove("SKILL.md").unwrap_or_default(), files, None)
        }
    };
    if skill_md.len() as u64 > SKILL_MD_BYTES {
        return Err(refused(path, Code::MalformedFrontmatter, format!("SKILL.md is over {SKILL_MD_BYTES} bytes.")));
    }
    let skill_md = PortableSkillMd::of(&String::from_utf8_lossy(&skill_md), &name).map_err(problem)?;
    Ok(BuiltSkill { name, skill_md, files, component })
}

/// Writes a skill's folder. Returns notes about content that other clients, or Patchbay, will not see.
fn write_skill(skill: &BuiltSkill, folder: &Path) -> Result<Vec<String>, BuildError> {
    let component = skill.component.as_ref().map(|bytes| (format!("{}.wasm", skill.name), &bytes[..]));
    let skill_md = ("SKILL.md".to_owned(), skill.skill_md.text.as_bytes());
    let files = skill.files.iter().map(|(path, contents)| (path.clone(), &contents[..]));
    for (path, contents) in files.chain([skill_md]).chain(component) {
        let file = folder.join(path);
        let parent = file.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(BuildError::io(parent))?;
        fs::write(&file, contents).map_err(BuildError::io(&file))?;
    }
    let (name, size, lost) = (&skill.name, skill.skill_md.text.len(), &skill.skill_md.lost);
    let mut notes = Vec::new();
    if size > READ_BY_CODEX {
        notes.push(format!(
            "{name}: SKILL.md has {size} bytes, and Codex reads only {READ_BY_CODEX} in a package. Move details into other files."
        ));
    }
    if skill.component.is_none() && !lost.is_empty() {
        let lost = lost.join(", ");
        notes.push(format!("{name}: without a component, its SKILL.md cannot keep these Patchbay keys: {lost}."));
    }
    Ok(notes)
}

/// Returns the `plugin.json`. The package's name replaces the existing one, and so does a version or license that all skills share.
fn manifest(name: &PluginName, skills: &[BuiltSkill], mut kept: Map<String, Value>) -> Map<String, Value> {
    let common = |value: fn(&PortableSkillMd) -> Option<&String>| {
        let first = value(&skills.first()?.skill_md)?;
        skills.iter().all(|skill| value(&skill.skill_md) == Some(first)).then(|| Value::from(first.as_str()))
    };
    kept.insert("$schema".to_owned(), SpecVersion::V1_0.schema("plugin").into());
    kept.insert("name".to_owned(), name.as_str().into());
    if let Some(version) = common(|skill| skill.version.as_ref()) {
        kept.insert("version".to_owned(), version);
    }
    if let Some(license) = common(|skill| skill.license.as_ref()) {
        kept.insert("license".to_owned(), license);
    }
    kept.entry("description").or_insert_with(|| match skills {
        [skill] => skill.skill_md.description.as_str().into(),
        skills => {
            let names: Vec<_> = skills.iter().map(|skill| skill.name.as_str()).collect();
            format!("Skills: {}", names.join(", ")).into()
        }
    });
    kept
}

/// Returns the JSON of the file at `path`, or `new` if the file does not exist, with `mcpServers.NAME` set to `entry` or removed.
/// Returns `None` if no server is left.
fn with_entry(path: &Path, new: Value, name: &str, entry: Option<Value>) -> Result<Option<Value>, BuildError> {
    let mut file = existing(path, MANIFEST_BYTES)?.unwrap_or(new);
    let Some(servers) = file
        .as_object_mut()
        .map(|fields| fields.entry("mcpServers").or_insert_with(|| json!({})))
        .and_then(Value::as_object_mut)
    else {
        return Err(refused(path, Code::PackageServersInvalid, "It must be an object with an object 'mcpServers'."));
    };
    match entry {
        Some(entry) => drop(servers.insert(name.to_owned(), entry)),
        None => drop(servers.remove(name)),
    }
    Ok((!servers.is_empty()).then_some(file))
}

/// Reads one of the author's JSON files, if it exists.
fn existing(path: &Path, most: u64) -> Result<Option<Value>, BuildError> {
    match read_at_most(path, most) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            let message = format!("It is not valid JSON: {}.", text::excerpt(&error.to_string(), 200));
            refused(path, Code::PackageServersInvalid, message)
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(BuildError::io(path)(error)),
    }
}

/// Reads the package like any other, and returns it if everything in it loads.
fn checked(staging: &Path, folder: &Path) -> Result<AgentPlugin, BuildError> {
    let problem = |problem| BuildError::Skill { path: folder.to_owned(), problem };
    let plugin = AgentPlugin::read(staging).map_err(problem)?;
    let bad_skill = plugin.skills.iter().find_map(|skill| skill.found.candidate.as_ref().err());
    let bad_server = plugin.notes.iter().find(|note| {
        matches!(note.code, Code::PackageServersInvalid | Code::PackageServerInvalid | Code::PackageServerUnsupported)
    });
    match bad_skill.or(bad_server) {
        Some(bad) => Err(problem(bad.clone())),
        None => Ok(plugin),
    }
}

/// Moves the written files into place. Skills that are no longer built are removed.
fn place(staging: &Path, folder: &Path, files: &[(&str, Option<Value>)]) -> Result<(), BuildError> {
    fs::create_dir_all(folder).map_err(BuildError::io(folder))?;
    let skills = folder.join("skills");
    match fs::rename(&skills, staging.join("replaced")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(BuildError::io(&skills)(error)),
        _ => fs::rename(staging.join("skills"), &skills).map_err(BuildError::io(&skills))?,
    }
    for (file, value) in files {
        let path = folder.join(file);
        match value {
            Some(value) => write_if_changed(&path, pretty(value).as_bytes()).map_err(BuildError::io(&path))?,
            None => match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(BuildError::io(&path)(error)),
                _ => {}
            },
        }
    }
    Ok(())
}

/// Writes the indexes of a marketplace, or replaces the package's entry in existing indexes.
fn write_indexes(out: &Path, name: &PluginName, manifest: &Map<String, Value>) -> Result<(), BuildError> {
    let source = format!("./plugins/{name}");
    let codex = json!({
        "name": name.as_str(),
        "source": {"source": "local", "path": source},
        "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
        "category": "Productivity",
    });
    let mut claude = json!({"name": name.as_str(), "source": source});
    for key in ["version", "description"] {
        if let Some(value) = manifest.get(key) {
            claude[key] = value.clone();
        }
    }
    let owner = manifest.get("author").and_then(|author| author.get("name")).cloned();
    let owner = owner.unwrap_or_else(|| name.as_str().into());
    for (file, new, entry) in [
        (".agents/plugins/marketplace.json", json!({"name": name.as_str()}), codex),
        (".claude-plugin/marketplace.json", json!({"name": name.as_str(), "owner": {"name": owner}}), claude),
    ] {
        let path = out.join(file);
        let mut index = existing(&path, INDEX_BYTES)?.unwrap_or(new);
        let plugins = index.as_object_mut().map(|fields| fields.entry("plugins").or_insert_with(|| json!([])));
        let Some(plugins) = plugins.and_then(Value::as_array_mut) else {
            return Err(refused(&path, Code::MarketplaceInvalid, "It must be an object with an array 'plugins'."));
        };
        plugins.retain(|plugin| plugin.get("name") != entry.get("name"));
        plugins.push(entry);
        write_if_changed(&path, pretty(&index).as_bytes()).map_err(BuildError::io(&path))?;
    }
    Ok(())
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests;
