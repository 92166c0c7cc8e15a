use std::{io, path::Path, sync::Arc};

use patchbay_core::{COMPONENT_BYTES, Code, Digest, RootLimits, ToolSpec, text};
use patchbay_sandbox::{Artefacts, Compiler, Failure, Limits, Sandbox, adapter::AdapterManifest, inspect as shape};
use patchbay_session::{INTERNAL_TOOLS, RESERVED, System};
use patchbay_skill::{
    Candidate, DescribedTools, Manifest, Problem, SnapshotRules, check_skill, discover_one, embedded_skill_md, files,
};
use patchbay_tools::{Asked, ask_component, not_asked};
use serde::Serialize;

/// What a plugin is, and what is wrong with it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Its name, from its file or folder.
    pub name: String,
    /// The digest of the component; `None` if there is no component.
    pub digest: Option<Digest>,
    /// Bytes of the component.
    pub size: usize,
    /// The SKILL.md of a skill.
    pub manifest: Option<Manifest>,
    /// The description of a provider's adapter.
    pub provider: Option<AdapterManifest>,
    /// A skill's tools.
    pub tools: Vec<ToolSpec>,
    /// Names of its imports.
    pub imports: Vec<String>,
    /// Names of its exports.
    pub exports: Vec<String>,
    /// What is wrong, each on one line: the diagnostics with which loading would exclude it. Empty if it would be loaded.
    pub problems: Vec<String>,
    /// The last lines that the component printed before it trapped, cleaned.
    pub printed: Vec<String>,
    /// What depends on the place where it is loaded, each on one line. Not errors.
    pub notes: Vec<String>,
}

/// Whether a component is blocked.
type BlockList = Box<dyn Fn(&Digest) -> io::Result<bool> + Send + Sync>;

/// Inspects plugins by the rules, limits and decisions by which a home loads them.
pub struct Inspector {
    skills: Arc<Sandbox>,
    adapters: Arc<Sandbox>,
    is_blocked: BlockList,
}

impl Inspector {
    /// An inspector with the limits of skills and of adapters. It compiles in this process: for components of one's own.
    pub fn new(skills: Limits, adapters: Limits) -> Self {
        let sandbox = |limits| Arc::new(Sandbox::new(limits));
        Self { skills: sandbox(skills), adapters: sandbox(adapters), is_blocked: Box::new(|_| Ok(false)) }
    }

    /// An inspector that compiles in child processes, as loading does.
    pub fn with_compiler(skills: Limits, adapters: Limits, compiler: &Compiler) -> Self {
        let sandbox = |limits| Arc::new(Sandbox::new(limits).with_artefacts(Artefacts::not_kept(compiler.clone())));
        Self { skills: sandbox(skills), adapters: sandbox(adapters), ..Self::new(Limits::default(), Limits::default()) }
    }

    /// With a block list: a component for which `is_blocked` is true is neither compiled nor run.
    #[must_use]
    pub fn blocking(mut self, is_blocked: impl Fn(&Digest) -> io::Result<bool> + Send + Sync + 'static) -> Self {
        self.is_blocked = Box::new(is_blocked);
        self
    }

    /// Inspects the component or the plugin's folder at `path`. What has no SKILL.md and exports an adapter is a provider's. A
    /// component is asked for its tools, or to describe itself, in the sandbox, with nothing granted.
    ///
    /// # Errors
    /// If it cannot be read, or the block list cannot.
    pub async fn inspect(&self, path: &Path) -> io::Result<Report> {
        let path = path.canonicalize()?;
        let is_folder = path.is_dir();
        let name = if is_folder { path.file_name() } else { path.file_stem() };
        let component = if is_folder { only_component(&path)? } else { Some(read(&path)?) };
        let mut report = Report {
            name: name.unwrap_or_default().to_string_lossy().into_owned(),
            digest: component.as_deref().map(Digest::of),
            size: component.as_ref().map_or(0, Vec::len),
            ..Report::default()
        };
        if let Some(shape) = component.as_deref().and_then(|bytes| shape::shape(bytes).ok()) {
            let cleaned = |names: Vec<String>| names.iter().map(|name| text::clean_line(name)).collect();
            (report.imports, report.exports) = (cleaned(shape.imports), cleaned(shape.exports));
        }
        let has_skill_md = is_folder && path.join("SKILL.md").symlink_metadata().is_ok();
        match component {
            Some(bytes) if !has_skill_md && is_provider(&bytes) => self.adapter(&mut report, bytes).await?,
            component => self.skill(&mut report, &path, component).await?,
        }
        Ok(report)
    }

    /// Judges a skill as loading does.
    async fn skill(&self, report: &mut Report, path: &Path, component: Option<Vec<u8>>) -> io::Result<()> {
        let found = discover_one(path)?;
        // A component without a readable SKILL.md is not loaded; its author wants to know what else is wrong.
        let readable = !report.exports.is_empty() || found.candidate.is_ok();
        let answer = match component.filter(|_| readable) {
            Some(bytes) => self.tools(report, bytes).await?,
            None => Ok(Arc::default()),
        };
        match found.candidate {
            Ok(candidate) => report.judge(&candidate, answer),
            Err(problem) => {
                report.problem(&problem);
                match answer {
                    Ok(tools) => report.tools = tools.to_vec(),
                    Err(problem) => report.problem(&problem),
                }
            }
        }
        Ok(())
    }

    /// Asks a component for its tools.
    async fn tools(&self, report: &mut Report, bytes: Vec<u8>) -> io::Result<DescribedTools> {
        let digest = Digest::of(&bytes);
        if (self.is_blocked)(&digest)? {
            return Ok(Err(not_asked(&digest)));
        }
        let Asked { answer, failure } = ask_component(&self.skills, digest, bytes).await;
        report.printed = failure.map(|failure| failure.printed().to_vec()).unwrap_or_default();
        Ok(answer)
    }

    /// Asks an adapter to describe itself.
    async fn adapter(&self, report: &mut Report, bytes: Vec<u8>) -> io::Result<()> {
        let digest = Digest::of(&bytes);
        if (self.is_blocked)(&digest)? {
            let message = format!(
                "The component is blocked, so that it was not asked what it is. To lift it: patchbay plugin unblock {digest}"
            );
            report.problem(&Problem::new(Code::Blocked, message));
            return Ok(());
        }
        let described = match self.adapters.load_adapter(digest, bytes).await {
            Ok(loaded) => self.adapters.describe_adapter(&loaded).await,
            Err(failure) => Err(failure),
        };
        match described {
            Ok(manifest) => {
                let name = &manifest.name;
                if name.as_str() != report.name {
                    let label = text::clean_line(&report.name);
                    let words =
                        format!("The adapter calls itself '{name}', not '{label}', as its folder or file is called.");
                    report.problem(&Problem::new(Code::InvalidName, words));
                }
                report.provider = Some(manifest);
            }
            Err(failure) => report.failure(&failure),
        }
        Ok(())
    }
}

impl Report {
    fn judge(&mut self, candidate: &Candidate, answer: DescribedTools) {
        self.manifest = Some(Manifest::clone(&candidate.manifest));
        self.tools = answer.as_ref().map(|tools| tools.to_vec()).unwrap_or_default();
        self.notes.extend(candidate.notes.iter().map(|note| format!("[{}] {note}", note.code)));
        let rules = SnapshotRules {
            trusted: true,
            reserved: RESERVED,
            internal_tools: INTERNAL_TOOLS,
            limits: &RootLimits::default(),
            platform: &System,
            tools: &|_| answer.clone(),
        };
        match check_skill(patchbay_policy::Root::User, candidate, &rules) {
            Ok(alone) => {
                self.tools = alone.skill.tools.to_vec();
                if let Some(reason) = alone.ineligible {
                    self.notes.push(format!("It would not be loaded on this machine: {reason}"));
                }
                if !alone.needs.is_empty() {
                    let needs: Vec<_> = alone.needs.iter().map(|tool| text::excerpt(tool, 80)).collect();
                    self.notes.push(format!("It is only loaded where these tools are: {}.", needs.join(", ")));
                }
            }
            Err(problem) => self.problem(&problem),
        }
    }

    fn problem(&mut self, problem: &Problem) {
        self.problems.push(format!("[{}] {problem}", problem.code));
    }

    fn failure(&mut self, failure: &Failure) {
        self.problems.push(format!("[{}] {failure}.", failure.code()));
        self.printed = failure.printed().to_vec();
    }
}

fn is_provider(component: &[u8]) -> bool {
    matches!(embedded_skill_md(component), Ok(None)) && shape::shape(component).is_ok_and(|shape| shape.is_adapter())
}

/// Reads a regular file of at most [`COMPONENT_BYTES`].
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, COMPONENT_BYTES)
}

/// Reads a regular file of at most `max` bytes; never waits for another process to write.
pub(crate) fn read_at_most(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let path = path.canonicalize()?;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file with a name in UTF-8"));
    };
    let folder = files::open_folder(parent)?.ok_or(io::ErrorKind::NotFound)?;
    files::read(&folder, name, max)?.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The component of a folder, if it has exactly one that can be read. Loading says what is wrong with any other.
fn only_component(folder: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut components = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        if let Some(name) = name.to_str().filter(|name| name.ends_with(".wasm") && !name.starts_with('.')) {
            components.push(name.to_owned());
        }
        if components.len() > 1 {
            return Ok(None);
        }
    }
    let (Some(name), Some(folder)) = (components.first(), files::open_folder(folder)?) else { return Ok(None) };
    Ok(files::read(&folder, name, COMPONENT_BYTES).ok().flatten())
}
