//! Inspects a plugin: reports its contents, and each reason why loading would refuse it.
//!
//! Called by `patchbay plugin inspect` and by `patchbay-bundle`.

use std::{io, path::Path, sync::Arc};

use futures_util::future::BoxFuture;
use patchbay_core::{COMPONENT_BYTES, Code, Digest, RootLimits, ToolSpec, text};
use patchbay_sandbox::{Artefacts, Failure, Limits, Sandbox, Symbols, adapter::AdapterManifest, inspect as shape};
use patchbay_session::{HostPlatform, INTERNAL_TOOLS, RESERVED};
use patchbay_skill::{
    Candidate, DescribedTools, Manifest, Problem, SnapshotRules, check_skill, discover_one, embedded_skill_md, files,
};
use patchbay_tools::{DescribeOutcome, blocked_problem, describe_component};
use serde::Serialize;

/// The contents of a plugin, and its problems. `patchbay plugin inspect --json` prints it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct InspectionReport {
    /// Name of the plugin's file or folder.
    pub name: String,
    /// For a skill, the digest of all its files, as in `/help` and grants; for a provider, the digest of its adapter. `None` for an
    /// invalid skill.
    pub digest: Option<Digest>,
    /// Digest of the component; `None` without a component.
    pub component: Option<Digest>,
    /// Bytes of the component; 0 without one.
    pub size: usize,
    /// The parsed SKILL.md; `None` for a provider or an invalid skill.
    pub manifest: Option<Manifest>,
    /// The manifest that a provider's adapter returned; `None` for a skill.
    pub provider: Option<AdapterManifest>,
    /// The tools that the skill declares.
    pub tools: Vec<ToolSpec>,
    /// Names of the component's imports, cleaned.
    pub imports: Vec<String>,
    /// Names of the component's exports, cleaned.
    pub exports: Vec<String>,
    /// One line for each reason why loading would refuse the plugin. Empty if it would be loaded.
    pub problems: Vec<String>,
    /// Where in the author's source the component trapped, if that is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
    /// The last lines that the component printed before it trapped, cleaned.
    pub printed: Vec<String>,
    /// One line for each note that is not an error, such as a condition on the machine or a tool without a description.
    pub notes: Vec<String>,
}

/// Returns true if the component with this digest is blocked.
type BlockList = Box<dyn Fn(Digest) -> BoxFuture<'static, io::Result<bool>> + Send + Sync>;

/// Inspects plugins with the same rules and limits as loading.
pub struct Inspector {
    skills: Arc<Sandbox>,
    adapters: Arc<Sandbox>,
    is_blocked: BlockList,
}

impl Inspector {
    /// Creates an inspector with limits for skills and for adapters. It compiles in this process, so use
    /// it only for trusted components.
    pub fn new(skills: Limits, adapters: Limits) -> Self {
        let sandbox = |limits| Arc::new(Sandbox::new(limits));
        Self {
            skills: sandbox(skills),
            adapters: sandbox(adapters),
            is_blocked: Box::new(|_| Box::pin(async { Ok(false) })),
        }
    }

    /// Creates an inspector that compiles in child processes, as loading does. `artefacts` returns where the compiled components
    /// are stored.
    ///
    /// `symbols` maps traps to source lines.
    pub fn with_artefacts(
        skills: Limits,
        adapters: Limits,
        artefacts: impl Fn() -> Artefacts,
        symbols: &Symbols,
    ) -> Self {
        let sandbox = |limits| Arc::new(Sandbox::new(limits).with_artefacts(artefacts()).with_symbols(symbols.clone()));
        Self { skills: sandbox(skills), adapters: sandbox(adapters), ..Self::new(Limits::default(), Limits::default()) }
    }

    /// Adds a block list: a component for which `is_blocked` returns true is not compiled and not run.
    #[must_use]
    pub fn blocking<F>(mut self, is_blocked: impl Fn(Digest) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<bool>> + Send + 'static,
    {
        self.is_blocked = Box::new(move |digest| Box::pin(is_blocked(digest)));
        self
    }

    /// Inspects the component or the plugin's folder at `path`. A component without a SKILL.md that exports an adapter
    /// is a provider. The component runs in the sandbox without any grant, to list its tools or to return its manifest.
    ///
    /// # Errors
    /// The plugin or the block list cannot be read. Problems of the plugin itself are in the report.
    pub async fn inspect(&self, path: &Path) -> io::Result<InspectionReport> {
        let path = path.canonicalize()?;
        let is_folder = path.is_dir();
        let name = if is_folder { path.file_name() } else { path.file_stem() };
        let component = match is_folder {
            true => only_component(&path)?,
            // A command in Claude Code's format has no component.
            false if path.extension().is_some_and(|end| end == "md") => None,
            false => Some(read(&path)?),
        };
        let mut report = InspectionReport {
            name: name.unwrap_or_default().to_string_lossy().into_owned(),
            component: component.as_deref().map(Digest::of),
            size: component.as_ref().map_or(0, Vec::len),
            ..InspectionReport::default()
        };
        if let Some(shape) = component.as_deref().and_then(|bytes| shape::shape(bytes).ok()) {
            let cleaned = |names: Vec<String>| names.iter().map(|name| text::clean_line(name)).collect();
            (report.imports, report.exports) = (cleaned(shape.imports), cleaned(shape.exports));
        }
        let has_skill_md = is_folder && path.join("SKILL.md").symlink_metadata().is_ok();
        match component {
            Some(bytes) if !has_skill_md && is_provider(&bytes) => {
                report.digest = report.component;
                self.adapter(&mut report, bytes).await?;
            }
            component => self.skill(&mut report, &path, component).await?,
        }
        Ok(report)
    }

    /// Checks a skill like loading does.
    async fn skill(&self, report: &mut InspectionReport, path: &Path, component: Option<Vec<u8>>) -> io::Result<()> {
        let found = discover_one(path)?;
        // A component without a valid SKILL.md would not be loaded, but its author wants to see all problems.
        let readable = !report.exports.is_empty() || found.candidate.is_ok();
        let answer = match component.filter(|_| readable) {
            Some(bytes) => self.tools(report, bytes).await?,
            None => Ok(Arc::default()),
        };
        match found.candidate {
            Ok(candidate) => {
                report.digest = Some(candidate.digest());
                report.check(&candidate, answer);
            }
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

    /// Runs a component to list its tools.
    async fn tools(&self, report: &mut InspectionReport, bytes: Vec<u8>) -> io::Result<DescribedTools> {
        let digest = Digest::of(&bytes);
        if (self.is_blocked)(digest).await? {
            return Ok(Err(blocked_problem(&digest)));
        }
        let DescribeOutcome { answer, failure } = describe_component(&self.skills, digest, bytes).await;
        if let Some(failure) = failure {
            (report.places, report.printed) = (failure.places().to_vec(), failure.printed().to_vec());
            report.notes.extend(failure.hint().map(str::to_owned));
        }
        if let Ok(tools) = &answer {
            report.notes.extend(tools.iter().filter(|tool| tool.description.is_empty()).map(undescribed));
        }
        Ok(answer)
    }

    /// Runs an adapter to get its manifest.
    async fn adapter(&self, report: &mut InspectionReport, bytes: Vec<u8>) -> io::Result<()> {
        let digest = Digest::of(&bytes);
        if (self.is_blocked)(digest).await? {
            let message = format!(
                "The component is blocked and was not examined. To unblock it: patchbay plugin unblock {digest}"
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
                    let words = format!("The adapter's name '{name}' differs from its folder or file, '{label}'.");
                    report.problem(&Problem::new(Code::InvalidName, words));
                }
                report.provider = Some(manifest);
            }
            Err(failure) => report.failure(&failure),
        }
        Ok(())
    }
}

impl InspectionReport {
    /// Adds the manifest, the tools and the problems of a readable skill.
    fn check(&mut self, candidate: &Candidate, answer: DescribedTools) {
        self.manifest = Some(Manifest::clone(&candidate.manifest));
        self.tools = answer.as_ref().map(|tools| tools.to_vec()).unwrap_or_default();
        self.notes.extend(candidate.notes.iter().map(|note| format!("[{}] {note}", note.code)));
        let rules = SnapshotRules {
            trusted: true,
            reserved: RESERVED,
            internal_tools: INTERNAL_TOOLS,
            limits: &RootLimits::default(),
            platform: &HostPlatform,
            tools: &|_| answer.clone(),
        };
        match check_skill(patchbay_policy::Root::User, candidate, &rules) {
            Ok(checked) => {
                self.tools = checked.skill.tools.to_vec();
                if let Some(reason) = checked.ineligible {
                    self.notes.push(format!("It would not be loaded on this machine: {reason}"));
                }
                if !checked.needs.is_empty() {
                    let needs: Vec<_> = checked.needs.iter().map(|tool| text::excerpt(tool, 80)).collect();
                    self.notes.push(format!("It is only loaded if these tools exist: {}.", needs.join(", ")));
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
        (self.places, self.printed) = (failure.places().to_vec(), failure.printed().to_vec());
        self.notes.extend(failure.hint().map(str::to_owned));
    }
}

/// Returns the note about a tool without a description. The tool works, but models don't know when to use it.
fn undescribed(tool: &ToolSpec) -> String {
    format!(
        "tool '{}' has no description; models choose tools by it: write what it does and when to use it (in Rust /// above it, in \
         Python its docstring, in C .description)",
        tool.name
    )
}

/// Returns true for a component without a SKILL.md that exports an adapter.
fn is_provider(component: &[u8]) -> bool {
    matches!(embedded_skill_md(component), Ok(None)) && shape::shape(component).is_ok_and(|shape| shape.is_adapter())
}

/// Reads a regular file of at most [`COMPONENT_BYTES`].
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, COMPONENT_BYTES)
}

/// Reads a regular file of at most `max` bytes. Refuses pipes, which could block.
pub(crate) fn read_at_most(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let path = path.canonicalize()?;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file with a name in UTF-8"));
    };
    let folder = files::open_folder(parent)?.ok_or(io::ErrorKind::NotFound)?;
    files::read(&folder, name, max)?.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Reads the component of a folder if there is exactly one. Otherwise returns `None`, and
/// [`discover_one`] reports the problem.
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
