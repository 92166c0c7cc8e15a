use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use patchbay_core::{Digest, Name, text};
use patchbay_skill::{Manifest, Problem, SECTION, embedded_skill_md};
use serde::Deserialize;
use wasm_encoder::{ComponentSection as _, CustomSection};
use wit_component::ComponentEncoder;

/// The target that needs nothing of a system.
const TARGET: &str = "wasm32-unknown-unknown";

/// How a plugin is built.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where the component goes; else `NAME.wasm` in the folder.
    pub out: Option<PathBuf>,
    /// A core module or component that something else made; else cargo makes one.
    pub wasm: Option<PathBuf>,
    /// The Rust target; else `wasm32-unknown-unknown`.
    pub target: Option<String>,
}

/// What was built.
#[derive(Clone, Debug)]
pub struct Built {
    /// The skill's name.
    pub name: Name,
    /// Where the component is; none where the skill has no tools, and nothing was to be built.
    pub component: Option<PathBuf>,
    /// Bytes of the component.
    pub size: usize,
    /// Its digest.
    pub digest: Option<Digest>,
}

/// Why a plugin was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no SKILL.md.
    #[error(
        "{} has no SKILL.md. A skill begins with one; its least is the four lines: ---, name: {name}, summary: What it does, ---",
        folder.display()
    )]
    NoSkillMd {
        /// The folder.
        folder: PathBuf,
        /// What the skill would be called.
        name: String,
    },
    /// The SKILL.md, or the folder's name, is not as it should be.
    #[error("{}: [{}] {}", path.display(), problem.code, problem.message)]
    Skill {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: Problem,
    },
    /// cargo cannot be run.
    #[error("cannot run cargo: {0}. Install Rust, or give the module with --wasm FILE")]
    NoCargo(io::Error),
    /// cargo did not build it; it has said why.
    #[error("cargo could not build {}; if the target is missing: rustup target add {target}", folder.display())]
    Cargo {
        /// The folder.
        folder: PathBuf,
        /// The target.
        target: String,
    },
    /// cargo built something else.
    #[error("{} builds no WebAssembly library; its Cargo.toml needs crate-type = [\"cdylib\"] under [lib]", folder.display())]
    NoLibrary {
        /// The folder.
        folder: PathBuf,
    },
    /// The module cannot be made a component.
    #[error("{} cannot be made a component: {reason}", path.display())]
    Encode {
        /// The module.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The component has a SKILL.md embedded: it is what a build made, not what one is made of.
    #[error("{} has a SKILL.md embedded already; give the component that it was made of, or run cargo anew", .0.display())]
    Packaged(PathBuf),
}

impl BuildError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

/// Builds the plugin in `folder`, which is called as the skill is. cargo's own messages go to standard error.
///
/// # Errors
/// [`BuildError`]; nothing is written then.
pub fn build(folder: &Path, options: &Options) -> Result<Built, BuildError> {
    let folder = folder.canonicalize().map_err(BuildError::io(folder))?;
    let label = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let skill_md_path = folder.join("SKILL.md");
    let skill_md = match fs::read_to_string(&skill_md_path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(BuildError::NoSkillMd { folder, name: label });
        }
        Err(error) => return Err(BuildError::io(&skill_md_path)(error)),
    };
    let in_skill = |problem| BuildError::Skill { path: skill_md_path.clone(), problem };
    let name: Name =
        label.parse().map_err(|error| in_skill(Problem::new(patchbay_core::Code::InvalidName, format!("{error}."))))?;
    Manifest::read(&skill_md, &name).map_err(in_skill)?;

    let module = match &options.wasm {
        Some(path) => path.clone(),
        None if folder.join("Cargo.toml").exists() => cargo(&folder, options.target.as_deref().unwrap_or(TARGET))?,
        None => return Ok(Built { name, component: None, size: 0, digest: None }),
    };
    let bytes = fs::read(&module).map_err(BuildError::io(&module))?;
    let mut component = to_component(&bytes).map_err(|reason| BuildError::Encode { path: module.clone(), reason })?;
    match embedded_skill_md(&component) {
        Ok(None) => {}
        Ok(Some(_)) => return Err(BuildError::Packaged(module)),
        Err(problem) => return Err(BuildError::Encode { path: module, reason: problem.message }),
    }
    CustomSection { name: SECTION.into(), data: skill_md.as_bytes().into() }.append_to_component(&mut component);

    let out = options.out.clone().unwrap_or_else(|| folder.join(format!("{name}.wasm")));
    write_if_changed(&out, &component).map_err(BuildError::io(&out))?;
    Ok(Built { name, size: component.len(), digest: Some(Digest::of(&component)), component: Some(out) })
}

/// A component stays as it is; a core module that knows its world becomes one.
fn to_component(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if wasmparser::Parser::is_component(bytes) {
        return Ok(bytes.to_vec());
    }
    let encode = || ComponentEncoder::default().module(bytes)?.validate(true).encode();
    encode().map_err(|error: anyhow::Error| text::excerpt(&format!("{error:#}"), 600))
}

/// Whole or not at all; and not at all where it is there already, so that nothing that watches it stirs.
fn write_if_changed(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use io::Write as _;
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().permissions(permissions()).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// What any other build leaves: a temporary file would be readable by its owner alone.
fn permissions() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    fs::Permissions::from_mode(0o644)
}

/// The two messages of cargo's that matter here.
#[derive(Deserialize)]
struct Artifact {
    reason: String,
    manifest_path: Option<PathBuf>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// Builds the crate in `folder` and gives the path of its module.
fn cargo(folder: &Path, target: &str) -> Result<PathBuf, BuildError> {
    let manifest = folder.join("Cargo.toml");
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--lib", "--target", target, "--message-format", "json-render-diagnostics"])
        .arg("--manifest-path")
        .arg(&manifest)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(BuildError::NoCargo)?;
    if !output.status.success() {
        return Err(BuildError::Cargo { folder: folder.to_owned(), target: target.to_owned() });
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
    artifacts
        .filter(|artifact| artifact.reason == "compiler-artifact" && artifact.manifest_path.as_ref() == Some(&manifest))
        .flat_map(|artifact| artifact.filenames)
        .find(|file| file.extension().is_some_and(|extension| extension == "wasm"))
        .ok_or_else(|| BuildError::NoLibrary { folder: folder.to_owned() })
}
