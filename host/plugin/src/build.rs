use std::{
    fs, io,
    path::{Path, PathBuf},
};

use patchbay_core::{Code, Digest, Name, text};
use patchbay_sandbox::inspect as shape;
use patchbay_skill::{Manifest, Problem, SECTION, SKILL_MD_BYTES, embedded_skill_md};
use wasm_encoder::{ComponentSection as _, CustomSection};
use wit_component::ComponentEncoder;

use crate::{
    cargo,
    inspect::{read, read_at_most},
};

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
    /// The plugin's name.
    pub name: Name,
    /// Where the component is; none where it is a skill without tools, and nothing was to be built.
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
    /// There is neither a SKILL.md nor anything to make a component of.
    #[error(
        "{} has neither a SKILL.md nor a Cargo.toml. {}. A provider has no SKILL.md; its adapter is built from Rust sources \
         with a Cargo.toml, or given with --wasm FILE",
        folder.display(),
        least(name)
    )]
    Nothing {
        /// The folder.
        folder: PathBuf,
        /// What the plugin would be called.
        name: Name,
    },
    /// There is no SKILL.md, and the component is no provider's.
    #[error(
        "{} has no SKILL.md, and its component exports {exports}, not a provider's adapter. {}",
        folder.display(),
        least(name)
    )]
    NoSkillMd {
        /// The folder.
        folder: PathBuf,
        /// What the skill would be called.
        name: Name,
        /// What the component exports.
        exports: String,
    },
    /// The folder's name, or the SKILL.md, is not as it should be.
    #[error("{}: [{}] {}", path.display(), problem.code, problem.message)]
    Skill {
        /// The folder or the file.
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

/// What a skill begins with.
fn least(name: &Name) -> String {
    format!(
        "A skill begins with a SKILL.md; its least is the four lines: ---, name: {name}, summary: What it does, ---"
    )
}

impl BuildError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

/// Builds the plugin in `folder`, which is called as the plugin is: a skill where there is a SKILL.md, else the adapter of a
/// provider. cargo's own messages go to standard error.
///
/// # Errors
/// [`BuildError`]; nothing is written then.
pub fn build(folder: &Path, options: &Options) -> Result<Built, BuildError> {
    let folder = folder.canonicalize().map_err(BuildError::io(folder))?;
    let label = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name: Name = label.parse().map_err(|error| {
        let problem = Problem::new(Code::InvalidName, format!("{error}."));
        BuildError::Skill { path: folder.clone(), problem }
    })?;
    let skill_md = skill_md(&folder, &name)?;

    let module = match &options.wasm {
        Some(path) => path.clone(),
        None if folder.join("Cargo.toml").exists() => {
            cargo::build(&folder, options.target.as_deref().unwrap_or(TARGET))?
        }
        None if skill_md.is_none() => return Err(BuildError::Nothing { folder, name }),
        None => return Ok(Built { name, component: None, size: 0, digest: None }),
    };
    let bytes = read(&module).map_err(BuildError::io(&module))?;
    let not_made = |reason| BuildError::Encode { path: module.clone(), reason };
    let mut component = to_component(&bytes).map_err(not_made)?;
    match skill_md {
        Some(skill_md) => {
            match embedded_skill_md(&component).map_err(|problem| not_made(problem.message))? {
                None => {}
                Some(_) => return Err(BuildError::Packaged(module)),
            }
            CustomSection { name: SECTION.into(), data: skill_md.as_bytes().into() }
                .append_to_component(&mut component);
        }
        None => {
            let shape = shape::shape(&component).map_err(|failure| not_made(failure.to_string()))?;
            if !shape.is_adapter() {
                let exports = text::excerpt(&shape.exports.join(", "), 200);
                let exports = if exports.is_empty() { "nothing".to_owned() } else { exports };
                return Err(BuildError::NoSkillMd { folder, name, exports });
            }
        }
    }

    let out = options.out.clone().unwrap_or_else(|| folder.join(format!("{name}.wasm")));
    write_if_changed(&out, &component).map_err(BuildError::io(&out))?;
    Ok(Built { name, size: component.len(), digest: Some(Digest::of(&component)), component: Some(out) })
}

/// The SKILL.md of a skill, checked; none: there is no such file.
fn skill_md(folder: &Path, name: &Name) -> Result<Option<String>, BuildError> {
    let path = folder.join("SKILL.md");
    let bytes = match read_at_most(&path, SKILL_MD_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(BuildError::io(&path)(error)),
    };
    let Ok(text) = String::from_utf8(bytes) else {
        let problem = Problem::new(Code::MalformedFrontmatter, "SKILL.md is not UTF-8.");
        return Err(BuildError::Skill { path, problem });
    };
    match Manifest::parse(&text, name) {
        // Loading mends such a line; the author had better quote it, for other hosts too.
        Ok(read) => match read.mended.into_iter().next() {
            None => Ok(Some(text)),
            Some(problem) => Err(BuildError::Skill { path, problem: quote(problem) }),
        },
        Err(problem) => Err(BuildError::Skill { path, problem }),
    }
}

/// What to do about a line that loading would mend.
fn quote(Problem { code, message }: Problem) -> Problem {
    let message = message.replace("was read as if it were quoted", "is not valid YAML; quote its text");
    Problem { code, message }
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
