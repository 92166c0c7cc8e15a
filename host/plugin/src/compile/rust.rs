//! Builds a crate with cargo, and keeps paths of this machine out of the module.

use std::{
    collections::BTreeSet,
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde::Deserialize;

use crate::{BuildError, inspect::read, toolchain};

/// Builds the library of the crate in `folder` and returns its module, or its component. cargo writes its
/// own messages to standard error.
pub(super) fn compile(folder: &Path, target: &str) -> Result<Vec<u8>, BuildError> {
    let manifest = folder.join("Cargo.toml");
    let metadata = Metadata::load(&manifest, target)?;
    let failed = || BuildError::Cargo { folder: folder.to_owned(), advice: advice(folder, target, &metadata) };
    let flags = metadata.remap_flags(&registries());
    let build = ["build", "--release", "--lib", "--target", target, "--message-format", "json-render-diagnostics"];
    let output = run_with_flags(&manifest, &build, target, &flags)?;
    if !output.status.success() {
        return Err(failed());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
    let module = artifacts
        .filter(|artifact| artifact.reason == "compiler-artifact" && artifact.manifest_path.as_ref() == Some(&manifest))
        .flat_map(|artifact| artifact.filenames)
        .find(|file| file.extension().is_some_and(|extension| extension == "wasm"))
        .ok_or_else(|| BuildError::NoLibrary { folder: folder.to_owned() })?;
    read(&module).map_err(BuildError::io(&module))
}

/// Returns advice for a failed build, in addition to cargo's messages.
fn advice(folder: &Path, target: &str, metadata: &Metadata) -> String {
    if !folder.join("src/lib.rs").is_file() {
        return "a plugin is a library: put its tools into src/lib.rs, and under [lib] in Cargo.toml write crate-type = [\"cdylib\", \
                \"rlib\"]"
            .to_owned();
    }
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let print = |arguments: &[&str]| {
        let output = Command::new(&rustc).args(arguments).current_dir(folder).stdin(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let version = print(&["--version"]).as_deref().and_then(toolchain::version);
    let wanted =
        metadata.packages.iter().filter_map(|package| toolchain::version(package.rust_version.as_deref()?)).max();
    if let (Some(version), Some(wanted)) = (version, wanted)
        && version < wanted
    {
        return format!(
            "rustc {}.{} is too old, {}.{} is needed. To update it: rustup update",
            version.0, version.1, wanted.0, wanted.1
        );
    }
    let libraries = print(&["--print", "target-libdir", "--target", target]);
    if libraries.is_none_or(|folder| !Path::new(&folder).is_dir()) {
        return format!("the target is not installed. To install it: rustup target add {target}");
    }
    "its messages are above".to_owned()
}

/// A cargo message about a file that was built.
#[derive(Deserialize)]
struct Artifact {
    reason: String,
    manifest_path: Option<PathBuf>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// The output of `cargo metadata`.
#[derive(Default, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

/// Returns the folders into which cargo unpacks packages from registries.
fn registries() -> Vec<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cargo")));
    let folders = home.and_then(|home| fs::read_dir(home.join("registry/src")).ok());
    folders.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

#[derive(Deserialize)]
struct Package {
    /// `None` for a package in a local folder.
    source: Option<String>,
    manifest_path: PathBuf,
    /// The oldest compiler that can build the package.
    #[serde(default)]
    rust_version: Option<String>,
}

impl Metadata {
    /// Runs `cargo metadata`. Without a network, cargo may not know packages that only tests need. In this case it falls back to
    /// the crate alone. If that fails too, it returns empty metadata: the build itself will fail and report the reason.
    fn load(manifest: &Path, target: &str) -> Result<Self, BuildError> {
        for more in [&["--filter-platform", target][..], &["--no-deps"]] {
            let mut command = command(manifest, &["metadata", "--format-version", "1"]);
            let output = command.args(more).stderr(Stdio::null()).output().map_err(BuildError::NoCargo)?;
            if let Ok(metadata) = serde_json::from_slice(&output.stdout) {
                return Ok(metadata);
            }
        }
        Ok(Self::default())
    }

    /// Returns flags for rustc that keep the paths of this machine out of its output.
    ///
    /// rustc writes the path of a source file into panic messages. For a local package in the workspace cargo passes a
    /// relative path. For any other package (from a registry, from git, from another folder) it passes an absolute
    /// path; these flags replace the folder that contains the package. Generated sources are in the target folder.
    fn remap_flags(&self, registries: &[PathBuf]) -> Vec<OsString> {
        let is_outside =
            |package: &&Package| package.source.is_some() || !package.manifest_path.starts_with(&self.workspace_root);
        let folders: BTreeSet<&Path> = self
            .packages
            .iter()
            .filter(is_outside)
            .filter_map(|package| package.manifest_path.parent()?.parent())
            .chain(registries.iter().map(PathBuf::as_path))
            .collect();
        // The workspace's folder is replaced with nothing, which makes paths in debug information relative to it.
        let remap = |from: &Path, to: &str| {
            let mut flag = OsString::from("--remap-path-prefix=");
            flag.push(from);
            flag.push("=");
            flag.push(to);
            flag
        };
        let mut flags: Vec<_> = folders.into_iter().map(|folder| remap(folder, "/deps")).collect();
        if !self.workspace_root.as_os_str().is_empty() {
            flags.insert(0, remap(&self.workspace_root, ""));
        }
        if !self.target_directory.as_os_str().is_empty() {
            flags.push(remap(&self.target_directory, "/target"));
        }
        flags
    }
}

/// Runs cargo with additional flags for rustc. Flags that the author has set are kept.
fn run_with_flags(manifest: &Path, arguments: &[&str], target: &str, flags: &[OsString]) -> Result<Output, BuildError> {
    let mut command = command(manifest, arguments);
    // cargo reads flags for rustc from only one source: these variables first, then its configuration.
    let separator = OsStr::new("\x1f");
    let own = match (env::var_os("CARGO_ENCODED_RUSTFLAGS"), env::var("RUSTFLAGS")) {
        (Some(encoded), _) => Some(vec![encoded]),
        (None, Ok(flags)) => Some(flags.split_whitespace().map(OsString::from).collect()),
        (None, Err(_)) => None,
    };
    match own {
        Some(mut all) => {
            all.retain(|flag| !flag.is_empty());
            all.extend_from_slice(flags);
            command.env("CARGO_ENCODED_RUSTFLAGS", all.join(separator));
        }
        None => {
            let quoted: Vec<_> =
                flags.iter().map(|flag| serde_json::Value::from(flag.to_string_lossy()).to_string()).collect();
            // cargo appends a list from the command line to the lists of its configuration files.
            command.arg("--config").arg(format!("target.{target}.rustflags=[{}]", quoted.join(",")));
        }
    }
    command.output().map_err(BuildError::NoCargo)
}

/// Creates the command `cargo ARGUMENTS --manifest-path MANIFEST`, which writes its messages to standard error.
fn command(manifest: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).arg("--manifest-path").arg(manifest).stdin(Stdio::null()).stderr(Stdio::inherit());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_outside_the_workspace_are_remapped() {
        let package = |source: Option<&str>, path: &str| Package {
            source: source.map(Into::into),
            manifest_path: path.into(),
            rust_version: None,
        };
        let metadata = Metadata {
            packages: vec![
                package(None, "/home/ada/greet/Cargo.toml"),
                package(None, "/home/ada/greet/parts/one/Cargo.toml"),
                package(None, "/src/patchbay/sdk/rust/Cargo.toml"),
                package(Some("registry"), "/home/ada/.cargo/registry/src/index-1/serde-1.0.0/Cargo.toml"),
                package(Some("registry"), "/home/ada/.cargo/registry/src/index-1/itoa-1.0.0/Cargo.toml"),
                package(Some("registry"), "/home/ada/greet/vendor/libm-0.2.0/Cargo.toml"),
            ],
            workspace_root: "/home/ada/greet".into(),
            target_directory: "/tmp/target".into(),
        };
        let flags: Vec<_> = metadata
            .remap_flags(&["/home/ada/.cargo/registry/src/index-2".into()])
            .into_iter()
            .map(|flag| flag.into_string().unwrap())
            .collect();
        assert_eq!(
            flags,
            [
                "--remap-path-prefix=/home/ada/greet=",
                "--remap-path-prefix=/home/ada/.cargo/registry/src/index-1=/deps",
                "--remap-path-prefix=/home/ada/.cargo/registry/src/index-2=/deps",
                "--remap-path-prefix=/home/ada/greet/vendor=/deps",
                "--remap-path-prefix=/src/patchbay/sdk=/deps",
                "--remap-path-prefix=/tmp/target=/target",
            ]
        );
    }
}
