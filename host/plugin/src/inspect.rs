use std::{fs, io, path::Path, sync::Arc};

use patchbay_core::{Digest, Name, ToolSpec};
use patchbay_sandbox::{Limits, Sandbox, inspect as shape};
use patchbay_skill::{Manifest, embedded_skill_md};
use patchbay_tools::check_schemas;
use serde::Serialize;

/// What a plugin is, and what is wrong with it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What it is called by its file or folder.
    pub name: String,
    /// The digest of the component; none where there is none.
    pub digest: Option<Digest>,
    /// Bytes of the component.
    pub size: usize,
    /// What its SKILL.md says.
    pub manifest: Option<Manifest>,
    /// Its tools.
    pub tools: Vec<ToolSpec>,
    /// What it imports.
    pub imports: Vec<String>,
    /// What it exports.
    pub exports: Vec<String>,
    /// What is wrong, each on one line; empty where it would work.
    pub problems: Vec<String>,
}

/// Inspects the component or the skill's folder at `path`.
///
/// # Errors
/// Where it cannot be read.
pub async fn inspect_path(path: &Path) -> io::Result<Report> {
    let path = path.canonicalize()?;
    let label = |name: Option<&std::ffi::OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
    if !path.is_dir() {
        return Ok(inspect(&label(path.file_stem()), Some(fs::read(&path)?), None).await);
    }
    let skill_md = fs::read_to_string(path.join("SKILL.md"))?;
    let mut components = Vec::new();
    for entry in fs::read_dir(&path)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "wasm") {
            components.push(file);
        }
    }
    let component = match &components[..] {
        [] => None,
        [one] => Some(fs::read(one)?),
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "several components; a skill has at most one")),
    };
    Ok(inspect(&label(path.file_name()), component, Some(skill_md)).await)
}

/// Inspects a skill called `name`: its component, and its SKILL.md where that does not stand in the component. The component
/// is asked for its tools, in the sandbox, with nothing granted.
pub async fn inspect(name: &str, component: Option<Vec<u8>>, skill_md: Option<String>) -> Report {
    let mut report = Report {
        name: name.to_owned(),
        digest: component.as_deref().map(Digest::of),
        size: component.as_ref().map_or(0, Vec::len),
        manifest: None,
        tools: Vec::new(),
        imports: Vec::new(),
        exports: Vec::new(),
        problems: Vec::new(),
    };
    report.read_manifest(component.as_deref(), skill_md);
    // Of a component that could not be asked, nobody knows what it lacks.
    let asked = match component {
        Some(bytes) => report.read_component(bytes).await,
        None => true,
    };
    if asked
        && let Some(manifest) = &report.manifest
        && let Some(tool) = &manifest.command_tool
        && !tool.contains("__")
        && !report.tools.iter().any(|own| own.name.as_str() == tool)
    {
        report.problems.push(format!("[command_tool_missing] Command tool '{tool}' is not among its tools."));
    }
    report
}

impl Report {
    fn read_manifest(&mut self, component: Option<&[u8]>, skill_md: Option<String>) {
        let name: Name = match self.name.parse() {
            Ok(name) => name,
            Err(error) => return self.problems.push(format!("[invalid_name] {error}.")),
        };
        let skill_md = match (skill_md, component.map(embedded_skill_md)) {
            (Some(skill_md), _) => skill_md,
            (None, Some(Ok(Some(skill_md)))) => skill_md,
            (None, Some(Err(problem))) => return self.problems.push(format!("[{}] {problem}", problem.code)),
            (None, _) => {
                return self.problems.push(
                    "[missing_skill_md] The component has no SKILL.md; 'patchbay plugin build' embeds it.".to_owned(),
                );
            }
        };
        match Manifest::read(&skill_md, &name) {
            Ok(manifest) => self.manifest = Some(manifest),
            Err(problem) => self.problems.push(format!("[{}] {problem}", problem.code)),
        }
    }

    /// Reads shape and tools; whether the tools are known.
    async fn read_component(&mut self, bytes: Vec<u8>) -> bool {
        match shape::shape(&bytes) {
            Ok(shape) => (self.imports, self.exports) = (shape.imports, shape.exports),
            Err(failure) => return self.note(format!("[{}] {failure}.", failure.code())),
        }
        let sandbox = Arc::new(Sandbox::new(Limits::default()));
        let described = match sandbox.load(Digest::of(&bytes), bytes).await {
            Ok(loaded) => sandbox.describe(&loaded).await,
            Err(failure) => Err(failure),
        };
        match described.map(check_schemas) {
            Ok(Ok(tools)) => {
                self.tools = tools;
                true
            }
            Ok(Err(problem)) => self.note(format!("[{}] {problem}", problem.code)),
            Err(failure) => self.note(format!("[{}] {failure}.", failure.code())),
        }
    }

    /// Notes why the tools are not known, unless the manifest's reading has met the same bytes and said so.
    fn note(&mut self, problem: String) -> bool {
        let seen = |known: &String| known.to_lowercase() == problem.to_lowercase();
        if !self.problems.iter().any(seen) {
            self.problems.push(problem);
        }
        false
    }
}
