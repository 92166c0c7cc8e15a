//! The home and the workspace of one call, in a temporary folder that is deleted when the value is dropped.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, File},
    io::Read as _,
    os::unix::fs::symlink,
    path::{Component, Path, PathBuf},
};

use patchbay_core::{Digest, Name, text};
use patchbay_fixture::FileTree;
use patchbay_plugin::{LocatedPlugin, PluginForm};
use patchbay_policy::Capability;
use patchbay_session::Paths;
use tempfile::TempDir;

use super::{NotCalled, usage};
use crate::{CliError, home::HomeDirs};

/// Limit of a file for the workspace or an attachment, in bytes.
const FILE_BYTES: u64 = 64 << 20;
/// How many files of the workspace are compared after the call.
const COMPARED: usize = 1_000;

/// The capabilities that a component without a SKILL.md may be granted with `--grant`, besides those with a host or a name.
const ALL: &[&str] =
    &["kv", "http:*", "workspace-read", "workspace-write", "workspace-delete", "inference", "tools", "clock", "random"];

pub(in crate::plugin) struct TrialHome {
    folder: TempDir,
    /// The name of the plugin.
    pub(in crate::plugin) name: Name,
    /// Notes for the user about the plugin.
    pub(in crate::plugin) notes: Vec<String>,
    /// The files of the workspace before the call.
    before: BTreeMap<String, Digest>,
}

impl TrialHome {
    /// Creates the home with the plugin in it, and copies `files` into the workspace.
    pub(in crate::plugin) fn new(
        plugin: &LocatedPlugin,
        grants: &[Capability],
        files: &[PathBuf],
    ) -> Result<Self, NotCalled> {
        let temporary = std::env::temp_dir();
        let folder = tempfile::Builder::new().prefix("patchbay-call-").tempdir().map_err(CliError::io(&temporary))?;
        let mut home = Self { folder, name: plugin.name.clone(), notes: Vec::new(), before: BTreeMap::new() };
        let skills = home.folder.path().join("config/skills");
        let state = home.folder.path().join("state");
        for path in [&skills, &state, &home.workspace()] {
            fs::create_dir_all(path).map_err(CliError::io(path))?;
        }
        home.install(plugin, grants, &skills)?;
        for file in files {
            home.add_file(file)?;
        }
        home.before = home.files();
        Ok(home)
    }

    fn install(&mut self, plugin: &LocatedPlugin, grants: &[Capability], skills: &Path) -> Result<(), NotCalled> {
        let name = &plugin.name;
        let copy = |from: &Path, to: &Path| fs::copy(from, to).map_err(CliError::io(from));
        match &plugin.form {
            PluginForm::File(component) => drop(copy(component, &skills.join(format!("{name}.wasm")))?),
            PluginForm::Folder(folder, Some(_)) => {
                let link = skills.join(name.as_str());
                symlink(folder, &link).map_err(CliError::io(&link))?;
            }
            PluginForm::Bare(component) => {
                let folder = skills.join(name.as_str());
                fs::create_dir(&folder).map_err(CliError::io(&folder))?;
                let skill_md = folder.join("SKILL.md");
                fs::write(&skill_md, minimal_skill_md(name, grants)).map_err(CliError::io(&skill_md))?;
                copy(component, &folder.join(format!("{name}.wasm")))?;
                self.notes.push(format!(
                    "{name} has no SKILL.md; this call used a generated one that asks for every capability."
                ));
            }
            PluginForm::Folder(_, None) => {
                return Err(usage(format!("{name} is a skill without a component: it has no tools to call.")));
            }
            PluginForm::Adapter(file) => {
                let file = file.display();
                return Err(usage(format!(
                    "{name} is the adapter of a provider, which has no tools. To check it: patchbay provider check {file}"
                )));
            }
        }
        Ok(())
    }

    /// Copies a file into the workspace. A path outside of the current folder is shortened to the file's name.
    fn add_file(&self, file: &Path) -> Result<(), NotCalled> {
        let content = read_file(file)?;
        let short = short(file);
        let to = self.workspace().join(short);
        if to.exists() {
            return Err(usage(format!(
                "--file: two files would be written to '{}'.",
                text::excerpt(&short.to_string_lossy(), 80)
            )));
        }
        fs::create_dir_all(to.parent().unwrap_or(&to)).map_err(CliError::io(&to))?;
        fs::write(&to, content).map_err(CliError::io(&to))?;
        Ok(())
    }

    pub(in crate::plugin) fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// Returns the folders of this home, with `$HOME` from the user's `home`.
    pub(in crate::plugin) fn dirs(&self, home: &HomeDirs) -> HomeDirs {
        let folder = |name: &str| self.folder.path().join(name);
        let paths =
            Paths { config: folder("config"), data: folder("data"), cache: folder("cache"), state: folder("state") };
        HomeDirs { paths, home_folder: home.home_folder.clone() }
    }

    /// Returns the paths of the workspace's files that the call wrote or deleted, each with the kind of change.
    pub(in crate::plugin) fn changed_files(&self) -> Vec<String> {
        let after = self.files();
        let mut changed = Vec::new();
        for (path, digest) in &after {
            match self.before.get(path) {
                Some(before) if before == digest => {}
                Some(_) => changed.push(format!("{path} (changed)")),
                None => changed.push(format!("{path} (new)")),
            }
        }
        let gone = self.before.keys().filter(|path| !after.contains_key(*path));
        changed.extend(gone.map(|path| format!("{path} (deleted)")));
        changed
    }

    /// Returns the digests of the workspace's files by path.
    fn files(&self) -> BTreeMap<String, Digest> {
        let (root, mut files) = (self.workspace(), BTreeMap::new());
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
                let (path, kind) = (entry.path(), entry.file_type());
                if kind.as_ref().is_ok_and(fs::FileType::is_dir) {
                    folders.push(path);
                } else if kind.is_ok_and(|kind| kind.is_file()) && files.len() < COMPARED {
                    let shown = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy();
                    let digest = Digest::of(&fs::read(&path).unwrap_or_default());
                    files.insert(text::clean_line(&shown), digest);
                }
            }
        }
        files
    }
}

/// Returns the workspace path for a copied file.
fn short(file: &Path) -> &Path {
    let is_below = file.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if is_below { file } else { Path::new(file.file_name().unwrap_or_default()) }
}

/// Reads the files that are copied into a workspace.
pub(in crate::plugin) fn files_to_copy(files: &[PathBuf]) -> Result<FileTree, NotCalled> {
    let mut tree = FileTree::new();
    for file in files {
        let plain: PathBuf = short(file).components().filter(|part| *part != Component::CurDir).collect();
        tree.insert(plain.to_string_lossy().into_owned(), read_file(file)?);
    }
    Ok(tree)
}

/// Reads a file that the command line names.
pub(in crate::plugin) fn read_file(path: &Path) -> Result<Vec<u8>, NotCalled> {
    let shown = || text::clean_line(&path.to_string_lossy());
    let cannot = |error: std::io::Error| usage(format!("cannot read {}: {error}.", shown()));
    let metadata = fs::metadata(path).map_err(cannot)?;
    if !metadata.is_file() {
        return Err(usage(format!("{} is not a regular file; pass each file by its own option.", shown())));
    }
    let mut content = Vec::new();
    File::open(path).and_then(|file| file.take(FILE_BYTES + 1).read_to_end(&mut content)).map_err(cannot)?;
    if content.len() as u64 > FILE_BYTES {
        return Err(usage(format!("{} has more than {} MiB.", shown(), FILE_BYTES >> 20)));
    }
    Ok(content)
}

/// Returns a SKILL.md for a component without one. It requests every capability, so a denial always names the `--grant` option to
/// use.
fn minimal_skill_md(name: &Name, grants: &[Capability]) -> String {
    let mut skill_md = format!("---\nname: {name}\ncapabilities:\n");
    let asked = ALL.iter().map(ToString::to_string);
    let more = grants.iter().map(ToString::to_string).filter(|granted| !ALL.contains(&&**granted));
    for capability in asked.chain(more) {
        let (name, scope) = capability.split_once(':').unwrap_or((&capability, ""));
        // A string quoted like this is also valid YAML.
        let scope = if scope.is_empty() { String::new() } else { format!(", scope: {:?}", scope) };
        let _ = writeln!(skill_md, "- {{name: {name}{scope}}}");
    }
    skill_md + "---\n"
}

#[cfg(test)]
mod tests {
    use patchbay_skill::Manifest;

    use super::*;

    #[test]
    fn minimal_skill_md_asks_for_everything() {
        let name: Name = "greet".parse().unwrap();
        let grants = ["kv", "http:localhost:8080", "credential:github"].map(|grant| grant.parse().unwrap());
        let read = Manifest::parse(&minimal_skill_md(&name, &grants), &name).unwrap();
        let asked: Vec<String> = read.manifest.capabilities.iter().map(|asked| asked.capability.to_string()).collect();
        assert_eq!(asked[..ALL.len()], *ALL);
        assert_eq!(asked[ALL.len()..], ["http:localhost:8080", "credential:github"]);
    }
}
