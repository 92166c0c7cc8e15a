use std::{fs, io, path::Path, sync::Arc};

use patchbay_core::{Code, Digest, Name, ToolSpec, text};
use patchbay_sandbox::{Limits, Sandbox, adapter::AdapterManifest, inspect as shape};
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
    /// What its SKILL.md says, where it is a skill.
    pub manifest: Option<Manifest>,
    /// What it says of itself, where it is the adapter of a provider.
    pub provider: Option<AdapterManifest>,
    /// A skill's tools.
    pub tools: Vec<ToolSpec>,
    /// What it imports.
    pub imports: Vec<String>,
    /// What it exports.
    pub exports: Vec<String>,
    /// What is wrong, each on one line; empty where it would work.
    pub problems: Vec<String>,
}

/// Inspects the component or the plugin's folder at `path`.
///
/// # Errors
/// Where it cannot be read.
pub async fn inspect_path(path: &Path) -> io::Result<Report> {
    let path = path.canonicalize()?;
    let label = |name: Option<&std::ffi::OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
    if !path.is_dir() {
        return Ok(inspect(&label(path.file_stem()), Some(fs::read(&path)?), None).await);
    }
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
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "several components; a plugin has at most one")),
    };
    let skill_md = match fs::read_to_string(path.join("SKILL.md")) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound && component.is_some() => None,
        Err(error) => return Err(error),
    };
    Ok(inspect(&label(path.file_name()), component, skill_md).await)
}

/// Inspects a plugin called `name`: its component, and its SKILL.md where that does not stand in the component. What has no
/// SKILL.md and exports an adapter is a provider's. The component is asked for its tools, or for what provider it is, in the
/// sandbox, with nothing granted.
pub async fn inspect(name: &str, component: Option<Vec<u8>>, skill_md: Option<String>) -> Report {
    let mut report = Report {
        name: name.to_owned(),
        digest: component.as_deref().map(Digest::of),
        size: component.as_ref().map_or(0, Vec::len),
        manifest: None,
        provider: None,
        tools: Vec::new(),
        imports: Vec::new(),
        exports: Vec::new(),
        problems: Vec::new(),
    };
    match component {
        Some(bytes) if skill_md.is_none() && is_provider(&bytes) => report.read_adapter(bytes).await,
        component => report.read_skill(component, skill_md).await,
    }
    report
}

fn is_provider(component: &[u8]) -> bool {
    matches!(embedded_skill_md(component), Ok(None)) && shape::shape(component).is_ok_and(|shape| shape.is_adapter())
}

impl Report {
    async fn read_skill(&mut self, component: Option<Vec<u8>>, skill_md: Option<String>) {
        self.read_manifest(component.as_deref(), skill_md);
        // Of a component that could not be asked, nobody knows what it lacks.
        let asked = match component {
            Some(bytes) => self.read_tools(bytes).await,
            None => true,
        };
        if asked
            && let Some(manifest) = &self.manifest
            && let Some(tool) = &manifest.command_tool
            && !tool.contains("__")
            && !self.tools.iter().any(|own| own.name.as_str() == tool)
        {
            self.problems.push(format!("[command_tool_missing] Command tool '{tool}' is not among its tools."));
        }
    }

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
    async fn read_tools(&mut self, bytes: Vec<u8>) -> bool {
        if !self.read_shape(&bytes) {
            return false;
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

    /// Reads shape and manifest of a provider's adapter.
    async fn read_adapter(&mut self, bytes: Vec<u8>) {
        if !self.read_shape(&bytes) {
            return;
        }
        let sandbox = Arc::new(Sandbox::new(Limits::default()));
        let described = match sandbox.load_adapter(Digest::of(&bytes), bytes).await {
            Ok(loaded) => sandbox.describe_adapter(&loaded).await,
            Err(failure) => Err(failure),
        };
        match described {
            Ok(manifest) => {
                let name = &manifest.name;
                if name.as_str() != self.name {
                    let label = text::clean_line(&self.name);
                    let words =
                        format!("The adapter calls itself '{name}', not '{label}', as its folder or file is called.");
                    self.problems.push(format!("[{}] {words}", Code::InvalidName));
                }
                self.provider = Some(manifest);
            }
            Err(failure) => {
                self.note(format!("[{}] {failure}.", failure.code()));
            }
        }
    }

    fn read_shape(&mut self, bytes: &[u8]) -> bool {
        match shape::shape(bytes) {
            Ok(shape) => {
                (self.imports, self.exports) = (shape.imports, shape.exports);
                true
            }
            Err(failure) => self.note(format!("[{}] {failure}.", failure.code())),
        }
    }

    /// Notes why a component could not be asked, unless the manifest's reading has met the same bytes and said so.
    fn note(&mut self, problem: String) -> bool {
        let seen = |known: &String| known.to_lowercase() == problem.to_lowercase();
        if !self.problems.iter().any(seen) {
            self.problems.push(problem);
        }
        false
    }
}
