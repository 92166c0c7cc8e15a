//! Creates a plugin's folder from a template: the source, a test case, the SDK, and the contract.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use patchbay_core::{Name, text};

use crate::{Language, PluginKind, contract, embedded};

/// Why a plugin's folder was not created. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// A file or folder of that name already exists.
    #[error("{} already exists. Choose another name, or remove it first", shown(.0))]
    Exists(PathBuf),
    /// The language has no template of this kind.
    #[error("no provider template for {0}; use --lang rust, --lang js or --lang ts")]
    NoTemplate(Language),
    /// cargo does not accept this name for a package.
    #[error("'{0}' cannot be the name of a Rust package, because it begins with a digit; begin with a letter")]
    DigitFirst(Name),
    /// A file cannot be written.
    #[error("cannot create {}: {source}", shown(path))]
    Io {
        /// The path of the new plugin's folder.
        path: PathBuf,
        /// The error reported by the operating system.
        source: io::Error,
    },
}

fn shown(path: &Path) -> String {
    text::clean_line(&path.to_string_lossy())
}

/// The part of the repository's `sdk/` that is copied into a new plugin.
enum VendoredSdk {
    /// The crate for skills, with generated bindings.
    RustSkill,
    /// The crate for providers, with the contract that its macros read.
    RustProvider,
    /// The files in this folder that the predicate accepts.
    Files(&'static str, fn(&str) -> bool),
    None,
}

/// Creates the folder `parent/NAME` and returns its path. The folder appears with all its files or not at all.
///
/// # Errors
/// Every failure is reported as [`CreateError`].
pub fn create(parent: &Path, name: &Name, language: Language, kind: PluginKind) -> Result<PathBuf, CreateError> {
    let folder = parent.join(name.as_str());
    let io_error = |source| CreateError::Io { path: folder.clone(), source };
    if folder.symlink_metadata().is_ok() {
        return Err(CreateError::Exists(folder));
    }
    let template = template(language, kind)?;
    if language == Language::Rust && name.as_str().starts_with(|first: char| first.is_ascii_digit()) {
        return Err(CreateError::DigitFirst(name.clone()));
    }
    let unfinished = tempfile::Builder::new()
        .prefix(".patchbay-new-")
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir_in(parent)
        .map_err(io_error)?;
    for (path, content) in contents(template, name, language, kind) {
        let path = unfinished.path().join(path);
        let write = || {
            fs::create_dir_all(path.parent().unwrap_or(unfinished.path()))?;
            fs::write(&path, content)
        };
        write().map_err(io_error)?;
    }
    fs::rename(unfinished.path(), &folder).map_err(io_error)?;
    // The temporary folder was renamed, so there is nothing to delete.
    drop(unfinished.keep());
    Ok(folder)
}

/// Returns the folder of a template.
fn template(language: Language, kind: PluginKind) -> Result<&'static str, CreateError> {
    Ok(match (language, kind) {
        (Language::Rust, PluginKind::Skill) => "sdk/rust/templates/skill",
        (Language::Rust, PluginKind::Provider) => "sdk/rust-provider/templates/provider",
        (Language::JavaScript, PluginKind::Skill) => "sdk/js/templates/skill",
        (Language::JavaScript, PluginKind::Provider) => "sdk/js/templates/provider",
        (Language::TypeScript, PluginKind::Provider) => "sdk/js/templates/provider-ts",
        (Language::TypeScript, PluginKind::Skill) => "sdk/js/templates/skill-ts",
        (Language::Python, PluginKind::Skill) => "sdk/python/templates/skill",
        (Language::C, PluginKind::Skill) => "sdk/c/templates/skill",
        (Language::Zig, PluginKind::Skill) => "sdk/zig/templates/skill",
        (Language::Go, PluginKind::Skill) => "sdk/go/templates/skill",
        (language, PluginKind::Provider) => return Err(CreateError::NoTemplate(language)),
    })
}

/// Returns the paths and contents of a new plugin's files.
fn contents(template: &'static str, name: &Name, language: Language, kind: PluginKind) -> Vec<(String, Vec<u8>)> {
    let filled = |text: &str| {
        let ident = name.as_str().replace('-', "_");
        text.replace("{{name}}", name.as_str())
            .replace("{{IDENT}}", &ident.to_ascii_uppercase())
            .replace("{{ident}}", &ident)
            .replace("{{tools}}", ci_tools(language))
            .replace("{{image}}", ci_image(language))
    };
    let has_makefile = embedded::files_below(template).any(|(path, _)| path == "Makefile");
    let ci = embedded::files_below("sdk/ci").filter(|(path, _)| *path != "Makefile" || !has_makefile);
    let ci = ci.map(|(path, content)| match path {
        "github.yml" => (".github/workflows/test.yml", content),
        "gitlab-ci.yml" => (".gitlab-ci.yml", content),
        path => (path, content),
    });
    let mut files: Vec<(String, Vec<u8>)> = embedded::files_below(template)
        .chain(ci)
        .map(|(path, content)| {
            let path = path.strip_suffix(".tmpl").unwrap_or(path);
            // Named `.gitignore`, the file would hide the template's own files in this repository.
            let path = if path == "gitignore" { ".gitignore" } else { path };
            let content = str::from_utf8(content).map_or_else(|_| content.to_vec(), |text| filled(text).into_bytes());
            (filled(path), content)
        })
        .collect();
    match sdk(language, kind) {
        VendoredSdk::RustSkill => {
            files.extend(rust_sdk("sdk/rust").map(|(path, content)| match path.as_str() {
                // The embedded bindings are already generated, so they don't call the macro.
                "sdk/Cargo.toml" => (path, String::from_utf8_lossy(content).replace("\"macros\", ", "").into_bytes()),
                _ => (path, content.to_vec()),
            }));
        }
        VendoredSdk::RustProvider => {
            files.extend(rust_sdk("sdk/rust-provider").map(|(path, content)| (path, content.to_vec())));
            for path in ["wit/host/host.wit", "wit/provider/provider.wit"] {
                files.push((format!("sdk/{path}"), embedded::file(path).to_vec()));
            }
        }
        VendoredSdk::Files(folder, is_part) => {
            let source = embedded::files_below(folder).filter(|(path, _)| is_part(path));
            files.extend(source.map(|(path, content)| (format!("sdk/{path}"), content.to_vec())));
        }
        VendoredSdk::None => {}
    }
    // The Rust SDK already contains the contract.
    if language != Language::Rust {
        files.extend(contract::files(kind).into_iter().map(|(path, content)| (format!("wit/{path}"), content)));
    }
    files
}

/// The command that installs the compiler that a Zig project's Makefile runs.
pub const ZIG_INSTALL: &str = "pip install ziglang==0.17.1";

/// Returns the command that installs a language's tools on a CI machine.
fn ci_tools(language: Language) -> &'static str {
    match language {
        Language::Rust => "rustup target add wasm32-unknown-unknown",
        Language::JavaScript | Language::TypeScript => "patchbay plugin tools install js",
        Language::Python => "patchbay plugin tools install python",
        Language::C => "patchbay plugin tools install c",
        Language::Zig => ZIG_INSTALL,
        Language::Go => "command -v npm || { apt-get update && apt-get install -y nodejs npm; }",
    }
}

/// Returns the container image for CI, which has everything else that the build needs.
fn ci_image(language: Language) -> &'static str {
    match language {
        Language::Rust => "rust:1",
        Language::JavaScript | Language::TypeScript => "node:22",
        Language::Python | Language::C | Language::Zig => "python:3.13",
        Language::Go => "golang:1.24",
    }
}

/// Returns the files of a Rust SDK.
fn rust_sdk(folder: &'static str) -> impl Iterator<Item = (String, &'static [u8])> {
    let is_part = |path: &str| path == "Cargo.toml" || path.starts_with("src/");
    embedded::files_below(folder)
        .filter(move |(path, _)| is_part(path))
        .map(|(path, content)| (format!("sdk/{path}"), content))
}

fn sdk(language: Language, kind: PluginKind) -> VendoredSdk {
    match (language, kind) {
        (Language::Rust, PluginKind::Skill) => VendoredSdk::RustSkill,
        (Language::Rust, PluginKind::Provider) => VendoredSdk::RustProvider,
        (Language::JavaScript | Language::TypeScript, _) => VendoredSdk::Files("sdk/js", |path| !path.contains('/')),
        (Language::Python, _) => VendoredSdk::Files("sdk/python", |path| path.starts_with("patchbay_sdk/")),
        (Language::C, _) => VendoredSdk::Files("sdk/c", |path| path.starts_with("patchbay.")),
        (Language::Zig | Language::Go, _) => VendoredSdk::None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use patchbay_skill::is_source;

    use super::*;

    fn files(folder: &Path, below: &str, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{below}{}", entry.file_name().to_str().unwrap());
            match entry.file_type().unwrap().is_dir() {
                true => files(&entry.path(), &format!("{path}/"), found),
                false => drop(found.insert(path, fs::read(entry.path()).unwrap())),
            }
        }
    }

    #[test]
    fn every_template_is_complete() {
        let home = tempfile::tempdir().unwrap();
        let name: Name = "a-b_c".parse().unwrap();
        for (language, kind) in Language::ALL
            .into_iter()
            .flat_map(|language| [(language, PluginKind::Skill), (language, PluginKind::Provider)])
        {
            let parent = home.path().join(format!("{language}-{kind:?}"));
            fs::create_dir(&parent).unwrap();
            let folder = match create(&parent, &name, language, kind) {
                Ok(folder) => folder,
                Err(CreateError::NoTemplate(_)) if kind == PluginKind::Provider => continue,
                Err(error) => panic!("{language} {kind:?}: {error}"),
            };
            let mut found = BTreeMap::new();
            files(&folder, "", &mut found);
            for (path, content) in found.iter().filter(|(path, _)| !path.starts_with("sdk/")) {
                let text = String::from_utf8_lossy(content);
                for word in ["name", "ident", "IDENT", "tools", "image"] {
                    assert!(!text.contains(&format!("{{{{{word}}}}}")), "{language} {kind:?} {path} {word}");
                }
                assert!(!path.ends_with(".tmpl"), "{language} {kind:?} {path}");
            }
            let wanted: &[&str] = match kind {
                PluginKind::Skill => &["SKILL.md"],
                PluginKind::Provider => &[],
            };
            let always = ["README.md", ".gitignore", "Makefile", "fixtures/hello.json"];
            for path in wanted.iter().chain(&always).chain(&[".github/workflows/test.yml", ".gitlab-ci.yml"]) {
                assert!(found.contains_key(*path), "{language} {kind:?} {path}: {:?}", found.keys());
            }
            let makefile = String::from_utf8_lossy(&found["Makefile"]);
            assert!(makefile.contains("\ntest: ") && makefile.contains("$(PATCHBAY) plugin test\n"), "{makefile}");
            // A new skill consists of its SKILL.md alone, whether it is loaded from its folder or from its component.
            let mut own = found.keys().filter_map(|path| path.split('/').next()).filter(|name| !is_source(name));
            let stray = own.find(|name| *name != "SKILL.md" && !name.starts_with('.'));
            assert!(kind != PluginKind::Skill || stray.is_none(), "{language}: {stray:?} would be a file of the skill");
            let recognised = Language::found_in(&folder);
            assert_eq!(recognised.iter().map(|(language, _)| *language).collect::<Vec<_>>(), [language]);
            // The temporary folder no longer exists.
            assert_eq!(fs::read_dir(&parent).unwrap().count(), 1);
        }
    }

    #[test]
    fn nothing_is_written_on_failure() {
        let parent = tempfile::tempdir().unwrap();
        let name: Name = "taken".parse().unwrap();
        fs::write(parent.path().join("taken"), "mine").unwrap();
        let error = create(parent.path(), &name, Language::C, PluginKind::Skill).unwrap_err().to_string();
        assert!(error.ends_with("taken already exists. Choose another name, or remove it first"), "{error}");
        let digit: Name = "1st".parse().unwrap();
        let error = create(parent.path(), &digit, Language::Rust, PluginKind::Skill).unwrap_err();
        assert!(matches!(error, CreateError::DigitFirst(_)));
        let missing = parent.path().join("missing");
        assert!(matches!(create(&missing, &digit, Language::C, PluginKind::Skill), Err(CreateError::Io { .. })));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }
}
