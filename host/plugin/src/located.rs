//! Finds the plugin that an author names: a component, or a folder with one. `patchbay plugin call` and `add` use it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use patchbay_core::{Name, text};
use patchbay_sandbox::inspect as shape;
use patchbay_skill::{embedded_skill_md, is_source};

use crate::inspect;

/// A plugin that was found on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedPlugin {
    /// The name of its folder, otherwise of its file.
    pub name: Name,
    /// How the plugin is packaged.
    pub form: PluginForm,
    /// A file that was changed after the component was built, as a path below the folder. The component may be outdated.
    pub newer: Option<String>,
}

/// How a plugin is packaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginForm {
    /// A component with an embedded SKILL.md: a single-file skill.
    File(PathBuf),
    /// A folder with a SKILL.md and its component; `None` for a skill that only has instructions.
    Folder(PathBuf, Option<PathBuf>),
    /// A component that exports a skill's tools, without a SKILL.md.
    Bare(PathBuf),
    /// The adapter of a provider.
    Adapter(PathBuf),
}

/// Reasons why no plugin was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocateError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {source}", shown(path))]
    Io {
        /// The file or folder that the operation failed on.
        path: PathBuf,
        /// The error reported by the operating system.
        source: io::Error,
    },
    /// The name of the folder or file cannot be the name of a plugin.
    #[error("{}: {reason}. Rename it", shown(path))]
    Name {
        /// The folder or file with the invalid name.
        path: PathBuf,
        /// The problem with its name.
        reason: String,
    },
    /// The folder has sources, but was not built.
    #[error("{} is not built yet: it has sources, but no component. Run: patchbay plugin build {}", shown(.0), quoted(.0))]
    NotBuilt(PathBuf),
    /// The folder is not the folder of a plugin.
    #[error("{} has neither a SKILL.md nor a component (*.wasm), so it is not a plugin's folder", shown(.0))]
    NoPlugin(PathBuf),
    /// The folder has several components.
    #[error("{} has several components: {}. Name one of them", shown(path), text::clean_line(&names.join(", ")))]
    Several {
        /// The folder with the components.
        path: PathBuf,
        /// The first names of components, sorted.
        names: Vec<String>,
    },
    /// The file is not a component.
    #[error("{} is {reason}", shown(path))]
    NoComponent {
        /// The path of the given file.
        path: PathBuf,
        /// The file's actual format, or how it is damaged.
        reason: String,
    },
}

/// Cleans a path for a message, because a name may contain invisible characters or characters that reorder the line.
fn shown(path: &Path) -> String {
    text::clean_line(&path.to_string_lossy())
}

fn quoted(path: &Path) -> String {
    patchbay_policy::quoted(&shown(path)).into_owned()
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> LocateError {
    let path = path.to_owned();
    move |source| LocateError::Io { path, source }
}

/// Maximum number of components that an error names.
const NAMED: usize = 5;
/// The most files and folders that are compared with the component's age.
pub(crate) const COMPARED: usize = 10_000;
/// How many levels below the plugin's folder are searched for sources.
const DEPTH: usize = 8;
/// Files that builds, tests and package managers write, or that a component does not depend on.
const NOT_COMPILED: &[&str] = &[
    "Cargo.lock",
    "README.md",
    "__pycache__",
    "benches",
    "build",
    "dist",
    "fixtures",
    "node_modules",
    "package-lock.json",
    "pnpm-lock.yaml",
    "target",
    "tests",
    "uv.lock",
    "vendor",
    "venv",
    "yarn.lock",
];

/// Files that a component is built from. A folder with one of them needs a component; a folder with only scripts can be a skill
/// without tools.
const BUILT_FROM: &[&str] =
    &["Cargo.toml", "build.zig", "go.mod", "provider.js", "provider.ts", "skill.c", "skill.js", "skill.py", "skill.ts"];

/// Finds the plugin at `path`, a component or a plugin's folder.
///
/// # Errors
/// [`LocateError`], which describes the file or folder that was found.
pub fn locate(path: &Path) -> Result<LocatedPlugin, LocateError> {
    let given = path;
    let path = path.canonicalize().map_err(failed(given))?;
    if path.is_dir() { folder(&path) } else { file(&path) }
}

/// Like [`locate`], but the folder of a skill stays a folder, even if its component is a complete skill by itself, as
/// `plugin build` writes it.
///
/// # Errors
/// The same as for [`locate`].
pub fn locate_folder(path: &Path) -> Result<LocatedPlugin, LocateError> {
    let mut located = locate(path)?;
    let folder = path.canonicalize().map_err(failed(path))?;
    if let PluginForm::File(component) = &located.form
        && folder.join("SKILL.md").is_file()
    {
        located.form = PluginForm::Folder(folder, Some(component.clone()));
    }
    Ok(located)
}

fn file(path: &Path) -> Result<LocatedPlugin, LocateError> {
    let stem = path.file_stem().unwrap_or_default();
    Ok(LocatedPlugin { name: name(path, &stem.to_string_lossy())?, form: form(path)?, newer: None })
}

fn folder(path: &Path) -> Result<LocatedPlugin, LocateError> {
    let name = name(path, &path.file_name().unwrap_or_default().to_string_lossy())?;
    let (mut components, mut is_built) = (Vec::new(), false);
    for entry in fs::read_dir(path).map_err(failed(path))? {
        let Ok(entry) = entry.map_err(failed(path))?.file_name().into_string() else { continue };
        is_built |= BUILT_FROM.contains(&&*entry);
        if entry.ends_with(".wasm") && !entry.starts_with('.') {
            components.push(entry);
        }
    }
    components.sort();
    let has_skill_md = path.join("SKILL.md").is_file();
    let component = match &components[..] {
        [] if is_built => return Err(LocateError::NotBuilt(path.to_owned())),
        [] if has_skill_md => {
            return Ok(LocatedPlugin { name, form: PluginForm::Folder(path.to_owned(), None), newer: None });
        }
        [] => return Err(LocateError::NoPlugin(path.to_owned())),
        [only] => path.join(only),
        several => {
            let names = several.iter().take(NAMED).map(|name| text::excerpt(name, 80)).collect();
            return Err(LocateError::Several { path: path.to_owned(), names });
        }
    };
    let form = match form(&component)? {
        PluginForm::Bare(component) if has_skill_md => PluginForm::Folder(path.to_owned(), Some(component)),
        other => other,
    };
    let all_counts = matches!(form, PluginForm::File(_));
    Ok(LocatedPlugin { name, newer: newer(path, &component, all_counts), form })
}

fn name(path: &Path, label: &str) -> Result<Name, LocateError> {
    label.parse().map_err(|error: patchbay_core::NameError| LocateError::Name {
        path: path.to_owned(),
        reason: text::clean_line(&error.to_string()),
    })
}

/// Returns the form of the component at `path`.
fn form(path: &Path) -> Result<PluginForm, LocateError> {
    let no_component = |reason: String| LocateError::NoComponent { path: path.to_owned(), reason };
    let bytes = inspect::read(path).map_err(failed(path))?;
    let shape = shape::shape(&bytes).map_err(|failure| no_component(failure.to_string()))?;
    let skill_md = embedded_skill_md(&bytes).map_err(|problem| no_component(problem.message))?;
    Ok(match skill_md {
        Some(_) => PluginForm::File(path.to_owned()),
        None if shape.is_adapter() => PluginForm::Adapter(path.to_owned()),
        None => PluginForm::Bare(path.to_owned()),
    })
}

/// Returns a file below `folder` that was changed after `component`: a source, or any file if `all` files are in the component.
fn newer(folder: &Path, component: &Path, all: bool) -> Option<String> {
    let built = modified(component)?;
    let contents = PluginContents::read(folder, all)?;
    let newer = contents.files.iter().find(|path| modified(path).is_some_and(|modified| modified > built))?;
    let shown = newer.strip_prefix(folder).unwrap_or(newer);
    Some(text::excerpt(&shown.to_string_lossy(), 80))
}

/// The files below a plugin's folder that its component depends on, and their folders.
pub(crate) struct PluginContents {
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) files: Vec<PathBuf>,
}

impl PluginContents {
    /// Lists the sources, or all files if `all` files are in the component. Folders that cannot be read are left out. `None` if
    /// there are too many files.
    pub(crate) fn read(folder: &Path, all: bool) -> Option<Self> {
        let mut contents = Self { folders: Vec::new(), files: Vec::new() };
        let mut left = COMPARED;
        let mut folders = vec![(folder.to_owned(), 0)];
        while let Some((below, depth)) = folders.pop() {
            // The folder may have been deleted since it was listed, for example by an editor or `git checkout`.
            let Ok(entries) = fs::read_dir(&below) else { continue };
            let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
            contents.folders.push(below);
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                left = left.checked_sub(1)?;
                let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
                let is_left_out = name.starts_with('.') || name.ends_with(".wasm") || NOT_COMPILED.contains(&&*name);
                if is_left_out || (depth == 0 && !all && !is_source(&name)) {
                    continue;
                }
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() && depth < DEPTH {
                    folders.push((path, depth + 1));
                } else if kind.is_file() {
                    contents.files.push(path);
                }
            }
        }
        Some(contents)
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A component without imports or exports.
    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    fn packaged() -> Vec<u8> {
        let (section, skill_md) = ("patchbay:skill.md", "---\nname: greet\n---\n");
        let length = u8::try_from(1 + section.len() + skill_md.len()).unwrap();
        let head = [0, length, u8::try_from(section.len()).unwrap()];
        [EMPTY, &head, section.as_bytes(), skill_md.as_bytes()].concat()
    }

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(path)
        }

        fn write(&self, path: &str, contents: impl AsRef<[u8]>) {
            fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
            fs::write(self.path(path), contents).unwrap();
        }

        /// Sets the time of a file to `seconds` after the component's.
        fn age(&self, path: &str, seconds: u64) {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + seconds);
            fs::File::options().append(true).open(self.path(path)).unwrap().set_modified(time).unwrap();
        }
    }

    #[test]
    fn form_follows_from_skill_md_and_component() {
        let folder = Folder::new();
        folder.write("greet/SKILL.md", "---\nname: greet\n---\n");
        let found = || locate(&folder.path("greet")).unwrap().form;
        assert_eq!(found(), PluginForm::Folder(folder.path("greet"), None));
        let component = folder.path("greet/out.wasm");
        folder.write("greet/out.wasm", EMPTY);
        assert_eq!(found(), PluginForm::Folder(folder.path("greet"), Some(component.clone())));
        folder.write("greet/out.wasm", packaged());
        assert_eq!(found(), PluginForm::File(component));
        folder.write("bare/a.wasm", EMPTY);
        let bare = locate(&folder.path("bare")).unwrap();
        assert_eq!((bare.name.as_str(), bare.form), ("bare", PluginForm::Bare(folder.path("bare/a.wasm"))));
        assert_eq!(locate(&folder.path("bare/a.wasm")).unwrap().name.as_str(), "a");
    }

    #[test]
    fn what_is_no_plugin_is_named() {
        let folder = Folder::new();
        let error = |path: &str| locate(&folder.path(path)).unwrap_err().to_string();
        folder.write("greet/Cargo.toml", "");
        folder.write("greet/SKILL.md", "---\nname: greet\n---\n");
        let path = folder.path("greet").display().to_string();
        let not_built =
            format!("{path} is not built yet: it has sources, but no component. Run: patchbay plugin build {path}");
        assert_eq!(error("greet"), not_built);
        for name in ["b.wasm", "a.wasm"] {
            folder.write(&format!("greet/{name}"), EMPTY);
        }
        assert_eq!(error("greet"), format!("{path} has several components: a.wasm, b.wasm. Name one of them"));
        folder.write("x/notes.txt", "");
        assert!(
            error("x").ends_with("x has neither a SKILL.md nor a component (*.wasm), so it is not a plugin's folder")
        );
        folder.write("y.wasm", b"\0asm\x01\0\0\0");
        assert!(error("y.wasm").ends_with("a core module, not a component; 'patchbay plugin build' turns it into one"));
        folder.write("A b.wasm", EMPTY);
        assert!(error("A b.wasm").contains("'A b' is not a valid name"), "{}", error("A b.wasm"));
        assert!(error("nope").starts_with("cannot read "));
    }

    #[test]
    fn change_after_the_build_is_found() {
        let folder = Folder::new();
        for path in ["SKILL.md", "out.wasm", "src/a/b.rs", "target/x", "Cargo.lock", "forms.md"] {
            folder.write(&format!("greet/{path}"), if path == "out.wasm" { EMPTY } else { b"" });
            folder.age(&format!("greet/{path}"), 0);
        }
        let newer = || locate(&folder.path("greet")).unwrap().newer;
        folder.age("greet/target/x", 5);
        folder.age("greet/Cargo.lock", 5);
        assert_eq!(newer(), None);
        // `forms.md` is not in the component, but read from the folder.
        folder.age("greet/forms.md", 5);
        assert_eq!(newer(), None);
        folder.age("greet/src/a/b.rs", 5);
        assert_eq!(newer().as_deref(), Some("src/a/b.rs"));
        folder.age("greet/src/a/b.rs", 0);
        folder.write("greet/out.wasm", packaged());
        folder.age("greet/out.wasm", 0);
        assert_eq!(newer().as_deref(), Some("forms.md"));
    }
}
