//! Builds a plugin: compiles its sources, runs the module's own initialisation, turns the module into a component and embeds
//! the skill's files.
//!
//! Called by `patchbay plugin build` and by `patchbay-bundle`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use patchbay_core::{Code, Digest, Name, text};
use patchbay_sandbox::{DebugInfo, Failure, Symbols, inspect as shape, preinitialize};
use patchbay_skill::{FILES_SECTION, Manifest, Problem, SECTION, SKILL_MD_BYTES, embedded_skill_md};
use wasm_encoder::{ComponentSection as _, CustomSection};
use wit_component::ComponentEncoder;

use crate::{
    BuildError, Language, PluginKind, Toolchains,
    compile::{self, Compiled, PluginSources},
    files::{self, EmbeddedFiles},
    inspect::{read, read_at_most},
    printing::lost_output,
    strip::without_debug_info,
    system_calls,
};

/// The default Rust target. It has no system interface, so a plugin imports only the interfaces it declares.
const TARGET: &str = "wasm32-unknown-unknown";

/// The options that [`build`] accepts.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// Path of the component; `None`: `NAME.wasm` in the plugin's folder.
    pub out: Option<PathBuf>,
    /// A core module or component from another compiler; `None`: the folder's sources are compiled.
    pub wasm: Option<PathBuf>,
    /// The Rust target; `None`: `wasm32-unknown-unknown`.
    pub target: Option<String>,
    /// The compilers of languages other than Rust.
    pub toolchains: Toolchains,
    /// Where the debug information is stored, because the component does not contain it; `None`: it is dropped.
    pub symbols: Option<Symbols>,
}

/// The result of a successful [`build`].
#[derive(Clone, Debug)]
pub struct BuiltPlugin {
    /// The plugin's name: the name of its folder.
    pub name: Name,
    /// Path of the component; `None` for a skill without tools, which needs no component.
    pub component: Option<PathBuf>,
    /// Bytes of the component; 0 without one.
    pub size: usize,
    /// The digest of the built component.
    pub digest: Option<Digest>,
    /// Number of the skill's files in the component besides the SKILL.md.
    pub embedded_files: usize,
    /// Total size of these files, in bytes.
    pub embedded_bytes: usize,
    /// Top-level names of these files in the skill's folder, sorted. Folder names end with `/`.
    pub embedded_names: Vec<String>,
    /// Names of files and folders directly in the skill's folder that are not in the component,
    /// because they are its sources, sorted.
    pub left_out: Vec<String>,
    /// Likely mistakes that do not stop the build.
    pub notes: Vec<String>,
}

/// Builds the plugin in `folder`: a skill if there is a SKILL.md, otherwise the adapter of a provider. The folder's
/// name is the plugin's name. The compiler's messages go to standard error.
///
/// # Errors
/// [`BuildError`], in which case no component is written.
pub fn build(folder: &Path, options: &BuildOptions) -> Result<BuiltPlugin, BuildError> {
    let folder = folder.canonicalize().map_err(BuildError::io(folder))?;
    let label = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name: Name = label.parse().map_err(|error| {
        let problem = Problem::new(Code::InvalidName, format!("{error}."));
        BuildError::Skill { path: folder.clone(), problem }
    })?;
    let skill_md = skill_md(&folder, &name)?;

    let (module, Compiled { bytes, source_map, mut notes }) = match &options.wasm {
        Some(path) => (path.clone(), read(path).map_err(BuildError::io(path))?.into()),
        None => {
            let kind = if skill_md.is_some() { PluginKind::Skill } else { PluginKind::Provider };
            match compiled(&folder, kind, options)? {
                Some(compiled) => compiled,
                None if skill_md.is_none() => return Err(BuildError::Nothing { folder, name }),
                None => return Ok(built(name, None, EmbeddedFiles::default())),
            }
        }
    };
    let encode_error = |reason| BuildError::Encode { path: module.clone(), reason };
    let module_bytes = preinitialized(bytes).map_err(|failure| encode_error(failure.to_string()))?;
    let (module_bytes, unstripped) = match without_debug_info(&module_bytes) {
        Some(stripped) => (stripped, Some(module_bytes)),
        None => (module_bytes, None),
    };
    let lost_threads = unstripped.as_deref().and_then(|module| system_calls::lost_threads(module, &folder));
    let mut component = to_component(&module_bytes)
        .map_err(|reason| encode_error(system_calls::explained(&module_bytes, &folder).unwrap_or(reason)))?;
    let embedded = match skill_md {
        Some(skill_md) => {
            match embedded_skill_md(&component).map_err(|problem| encode_error(problem.message))? {
                None => {}
                Some(_) => return Err(BuildError::Packaged(module)),
            }
            CustomSection { name: SECTION.into(), data: skill_md.as_bytes().into() }
                .append_to_component(&mut component);
            let embedded = files::embedded(&folder)?;
            if let Some(archive) = &embedded.archive {
                CustomSection { name: FILES_SECTION.into(), data: archive.into() }.append_to_component(&mut component);
            }
            embedded
        }
        None => {
            let shape = shape::shape(&component).map_err(|failure| encode_error(failure.to_string()))?;
            if !shape.is_adapter() {
                let exports = text::excerpt(&shape.exports.join(", "), 200);
                let exports = if exports.is_empty() { "nothing".to_owned() } else { exports };
                return Err(BuildError::NoSkillMd { folder, name, exports });
            }
            EmbeddedFiles::default()
        }
    };

    let out = options.out.clone().unwrap_or_else(|| folder.join(format!("{name}.wasm")));
    write_if_changed(&out, &component).map_err(BuildError::io(&out))?;
    let debug = unstripped.map(DebugInfo::Module).or(source_map.map(DebugInfo::SourceMap));
    if let (Some(symbols), Some(debug)) = (&options.symbols, debug) {
        symbols.keep(&Digest::of(&component), &debug).map_err(BuildError::io(symbols.folder()))?;
    }
    notes.extend(lost_threads);
    if options.wasm.is_none() {
        notes.extend(lost_output(&folder));
    }
    Ok(BuiltPlugin { notes, ..built(name, Some((out, component)), embedded) })
}

/// Returns whether [`build`] can compile the sources in `folder`. Zig and Go plugins are built by their own Makefile instead.
pub fn has_sources(folder: &Path) -> bool {
    let found = Language::found_in(folder);
    found.iter().any(|(language, _)| !matches!(language, Language::Zig | Language::Go))
}

/// Compiles the sources in `folder`. Returns the path of the entry file and the module or component, or
/// `None` if the folder has no sources.
fn compiled(
    folder: &Path,
    kind: PluginKind,
    options: &BuildOptions,
) -> Result<Option<(PathBuf, Compiled)>, BuildError> {
    let (language, entry) = match Language::found_in(folder)[..] {
        [] => return Ok(None),
        [found] => found,
        [(_, first), (_, second), ..] => {
            return Err(BuildError::SeveralLanguages { folder: folder.to_owned(), first, second });
        }
    };
    let sources = PluginSources { folder, entry, kind, toolchains: &options.toolchains };
    let compiled = compile::compile(language, &sources, options.target.as_deref().unwrap_or(TARGET))?;
    Ok(Some((folder.join(entry), compiled)))
}

/// Returns the result of a build. `component` is the component's path and bytes.
fn built(name: Name, component: Option<(PathBuf, Vec<u8>)>, embedded: EmbeddedFiles) -> BuiltPlugin {
    let EmbeddedFiles { archive: _, count, bytes, names, left_out } = embedded;
    let notes = Vec::new();
    BuiltPlugin {
        name,
        size: component.as_ref().map_or(0, |(_, bytes)| bytes.len()),
        digest: component.as_ref().map(|(_, bytes)| Digest::of(bytes)),
        component: component.map(|(path, _)| path),
        embedded_files: count,
        embedded_bytes: bytes,
        embedded_names: names,
        left_out,
        notes,
    }
}

/// Reads and checks the SKILL.md. `None` if the file does not exist.
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
        // Loading repairs an unquoted line, but other hosts may not, so the author should quote it.
        Ok(read) => match read.mended.into_iter().next() {
            None => Ok(Some(text)),
            Some(problem) => Err(BuildError::Skill { path, problem: with_advice(problem) }),
        },
        Err(problem) => Err(BuildError::Skill { path, problem }),
    }
}

/// Rewords the note about a fixed line into an error with advice.
fn with_advice(Problem { code, message }: Problem) -> Problem {
    let message = message.replace("was read as if it were quoted", "is not valid YAML; quote its text");
    Problem { code, message }
}

/// Runs a core module's own initialisation, if it has one. Any other module or component is returned unchanged.
fn preinitialized(bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
    if wasmparser::Parser::is_component(&bytes) {
        return Ok(bytes);
    }
    Ok(preinitialize(&bytes)?.unwrap_or(bytes))
}

/// Turns a core module with an embedded world into a component. A component is returned unchanged.
fn to_component(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if wasmparser::Parser::is_component(bytes) {
        return Ok(bytes.to_vec());
    }
    let encode = || ComponentEncoder::default().module(bytes)?.validate(true).encode();
    encode().map_err(|error: anyhow::Error| text::excerpt(&format!("{error:#}"), 600))
}

/// Writes a file atomically. An unchanged file is not written, to avoid waking file watchers.
pub(crate) fn write_if_changed(path: &Path, bytes: &[u8]) -> io::Result<()> {
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

/// The usual permissions of build output. Without them only the owner could read the file, because it begins as a temporary file.
fn permissions() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    fs::Permissions::from_mode(0o644)
}
