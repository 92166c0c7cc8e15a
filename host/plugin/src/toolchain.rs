//! Installs compilers that authors usually don't have into the cache folder, pinned by version and hash.
//!
//! Each toolchain is a folder `LANG-HASH`, where the hash identifies the lock files inside the binary. A new lock file therefore
//! means a new folder, and a build never uses a compiler with the wrong version.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use patchbay_core::{Digest, text};

use crate::{embedded, zig};

/// A set of compilers that is installed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// esbuild and componentize-qjs, from npm. Needs Node.js.
    JavaScript,
    /// componentize-py, from PyPI. Needs Python.
    Python,
    /// zig, whose C compiler has a libc for WebAssembly, from PyPI. Needs Python.
    C,
}

/// Why a toolchain cannot be installed or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolchainError {
    /// The toolchain is not installed.
    #[error("the {0} compilers are not installed. To install them: patchbay plugin tools install {word}", word = .0.word())]
    NotInstalled(Toolchain),
    /// A program that the toolchain needs is missing.
    #[error("'{program}' was not found, but {toolchain} plugins need {needs}. Install it, then try again")]
    Missing {
        /// The toolchain that cannot be installed or used.
        toolchain: Toolchain,
        /// The name of the program to run.
        program: &'static str,
        /// The name and version of the package that provides the program.
        needs: &'static str,
    },
    /// A program is too old.
    #[error(
        "{program} has version {version}, but {toolchain} plugins need {needs}. Install a newer version, then try again"
    )]
    Old {
        /// The toolchain that cannot be installed or used.
        toolchain: Toolchain,
        /// The name of the program to run.
        program: &'static str,
        /// The version that is installed.
        version: String,
        /// The name and version of the package that provides the program.
        needs: &'static str,
    },
    /// The package manager failed. Its messages went to standard error.
    #[error(
        "{program} could not install the {toolchain} compilers; its messages are above. Check the network connection, then try again"
    )]
    Failed {
        /// The toolchain that cannot be installed or used.
        toolchain: Toolchain,
        /// The name of the package manager.
        program: &'static str,
    },
    /// A file cannot be written.
    #[error("cannot install the {toolchain} compilers into {}: {source}", text::clean_line(&folder.to_string_lossy()))]
    Io {
        /// The toolchain that cannot be installed or used.
        toolchain: Toolchain,
        /// The folder of the toolchain.
        folder: PathBuf,
        /// The error reported by the operating system.
        source: io::Error,
    },
}

impl Toolchain {
    /// All toolchains that can be installed.
    pub const ALL: [Self; 3] = [Self::JavaScript, Self::Python, Self::C];

    /// Returns the toolchain's name for `tools install`.
    pub fn word(self) -> &'static str {
        match self {
            Self::JavaScript => "js",
            Self::Python => "python",
            Self::C => "c",
        }
    }

    /// Returns the program that the toolchain needs, its oldest usable version, and a name for messages.
    fn requirement(self) -> (&'static str, (u32, u32), &'static str) {
        match self {
            Self::JavaScript => ("node", (20, 0), "Node.js 20 or later, with npm"),
            Self::Python | Self::C => ("python3", (3, 10), "Python 3.10 or later, with the venv module"),
        }
    }

    /// Returns the paths of the lock files inside the binary.
    fn locks(self) -> &'static [&'static str] {
        match self {
            Self::JavaScript => &["sdk/js/tools/package.json", "sdk/js/tools/package-lock.json", "sdk/js/tools/.npmrc"],
            Self::Python => &["sdk/python/tools/requirements.txt"],
            Self::C => &["sdk/c/tools/requirements.txt"],
        }
    }
}

impl std::fmt::Display for Toolchain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::JavaScript => "JavaScript",
            Self::Python => "Python",
            Self::C => "C",
        })
    }
}

/// The folder of installed toolchains.
#[derive(Clone, Debug, Default)]
pub struct Toolchains {
    folder: PathBuf,
}

/// Marker file, written as the last step of an installation.
const COMPLETE: &str = ".complete";

impl Toolchains {
    /// Uses `folder`, which need not exist. Normally it is `tools` in the cache folder of the home.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns whether `toolchain` is installed.
    pub fn is_installed(&self, toolchain: Toolchain) -> bool {
        self.place(toolchain).join(COMPLETE).exists()
    }

    /// Returns the folder of `toolchain`.
    ///
    /// # Errors
    /// [`ToolchainError::NotInstalled`], or a program that it needs is missing or too old.
    pub(crate) fn find(&self, toolchain: Toolchain) -> Result<PathBuf, ToolchainError> {
        let folder = self.place(toolchain);
        if !self.is_installed(toolchain) {
            return Err(ToolchainError::NotInstalled(toolchain));
        }
        check_requirement(toolchain)?;
        Ok(folder)
    }

    /// Installs `toolchain` if it is missing. Returns its folder, and true if it was just installed. The messages of the package
    /// manager go to standard error.
    ///
    /// # Errors
    /// [`ToolchainError`]. An earlier installation keeps working.
    pub fn install(&self, toolchain: Toolchain) -> Result<(PathBuf, bool), ToolchainError> {
        check_requirement(toolchain)?;
        let folder = self.place(toolchain);
        let io_error = |source| ToolchainError::Io { toolchain, folder: folder.clone(), source };
        fs::create_dir_all(&self.folder).map_err(io_error)?;
        // Two processes must not install into the same folder. The lock ends with the process.
        let lock = File::create(folder.with_extension("lock")).map_err(io_error)?;
        lock.lock().map_err(io_error)?;
        if folder.join(COMPLETE).exists() {
            return Ok((folder, false));
        }
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(error)),
            _ => {}
        }
        fs::create_dir_all(&folder).map_err(io_error)?;
        for path in toolchain.locks() {
            let name = path.rsplit('/').next().unwrap_or(path);
            fs::write(folder.join(name), embedded::file(path)).map_err(io_error)?;
        }
        match toolchain {
            Toolchain::JavaScript => {
                // `npm ci` would refuse a package if one platform's binary was never published. The versions and hashes of the lock
                // file are enforced anyway, and packages cannot run scripts.
                let options = ["install", "--ignore-scripts", "--no-fund", "--no-audit", "--loglevel=error"];
                run(toolchain, "npm", Command::new("npm").args(options).current_dir(&folder))?;
            }
            Toolchain::Python | Toolchain::C => {
                run(toolchain, "python3", Command::new("python3").args(["-m", "venv", "."]).current_dir(&folder))?;
                let options = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"];
                let pinned = ["--only-binary=:all:", "--require-hashes", "-r", "requirements.txt"];
                let python = folder.join("bin/python");
                run(toolchain, "pip", Command::new(python).args(options).args(pinned).current_dir(&folder))?;
            }
        }
        if toolchain == Toolchain::C {
            run(toolchain, "zig", &mut zig::trial(&folder))?;
        }
        fs::write(folder.join(COMPLETE), "").map_err(io_error)?;
        Ok((folder, true))
    }

    fn place(&self, toolchain: Toolchain) -> PathBuf {
        let locks: Vec<u8> = toolchain.locks().iter().flat_map(|path| embedded::file(path)).copied().collect();
        let hash = Digest::of(&locks).to_hex();
        self.folder.join(format!("{}-{}", toolchain.word(), &hash[..12]))
    }
}

/// Runs a step of an installation.
fn run(toolchain: Toolchain, program: &'static str, command: &mut Command) -> Result<(), ToolchainError> {
    // A program may read our standard output.
    match command.stdin(Stdio::null()).stdout(io::stderr()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(ToolchainError::Failed { toolchain, program }),
        Err(_) => {
            let (_, _, needs) = toolchain.requirement();
            Err(ToolchainError::Missing { toolchain, program, needs })
        }
    }
}

fn check_requirement(toolchain: Toolchain) -> Result<(), ToolchainError> {
    let (program, oldest, needs) = toolchain.requirement();
    let output = Command::new(OsStr::new(program)).arg("--version").stdin(Stdio::null()).output();
    let printed = match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        _ => return Err(ToolchainError::Missing { toolchain, program, needs }),
    };
    match version(&printed) {
        Some(version) if version < oldest => {
            let version = text::excerpt(printed.trim(), 40);
            Err(ToolchainError::Old { toolchain, program, version, needs })
        }
        // A version that cannot be parsed may well work.
        _ => Ok(()),
    }
}

/// Returns the major and minor version in a line such as `v20.1.0` or `Python 3.11.7`.
pub(crate) fn version(printed: &str) -> Option<(u32, u32)> {
    let start = printed.find(|c: char| c.is_ascii_digit())?;
    let mut numbers = printed[start..].split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Returns the path of the program `name` of a toolchain.
pub(crate) fn program(folder: &Path, toolchain: Toolchain, name: &str) -> PathBuf {
    match toolchain {
        Toolchain::JavaScript => folder.join("node_modules/.bin").join(name),
        Toolchain::Python | Toolchain::C => folder.join("bin").join(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        for (printed, expected) in [
            ("v20.20.2\n", Some((20, 20))),
            ("Python 3.11.7\n", Some((3, 11))),
            ("Python 3.9.1+\n", Some((3, 9))),
            ("pypy\n", None),
        ] {
            assert_eq!(version(printed), expected, "{printed}");
        }
    }

    #[test]
    fn missing_toolchain_names_the_command_that_installs_it() {
        let folder = tempfile::tempdir().unwrap();
        let toolchains = Toolchains::new(folder.path().join("tools"));
        let message = toolchains.find(Toolchain::C).unwrap_err().to_string();
        assert!(message.ends_with("To install them: patchbay plugin tools install c"), "{message}");
        // Nothing counts as installed until the last step is done.
        fs::create_dir_all(toolchains.place(Toolchain::C)).unwrap();
        assert!(matches!(toolchains.find(Toolchain::C), Err(ToolchainError::NotInstalled(Toolchain::C))));
    }

    #[test]
    fn each_toolchain_is_pinned_by_version_and_hash() {
        for toolchain in Toolchain::ALL {
            for path in toolchain.locks() {
                assert!(!embedded::file(path).is_empty(), "{path}");
            }
        }
        for toolchain in [Toolchain::Python, Toolchain::C] {
            let requirements = str::from_utf8(embedded::file(toolchain.locks()[0])).unwrap();
            assert!(requirements.contains("==") && requirements.contains("--hash=sha256:"), "{requirements}");
        }
        let lock: serde_json::Value = serde_json::from_slice(embedded::file(Toolchain::JavaScript.locks()[1])).unwrap();
        let packages = lock["packages"].as_object().unwrap();
        for (path, package) in packages.iter().filter(|(path, _)| !path.is_empty()) {
            assert!(package["integrity"].is_string(), "{path}");
            assert!(package.get("resolved").is_none(), "{path} names a registry");
        }
    }
}
