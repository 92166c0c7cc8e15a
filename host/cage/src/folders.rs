//! Decides which files and folders a fenced program may read and change.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crate::{
    order::FenceOrder,
    protected::{FIXED, read_only},
    settings::CageSettings,
    support::Support,
};

/// System folders, and folders that package managers install programs in.
const SYSTEM: &[&str] = &[
    "/bin",
    "/etc",
    "/home/linuxbrew/.linuxbrew",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix",
    "/opt",
    "/proc",
    "/run/current-system",
    // On many systems, `/etc/resolv.conf` is a link into this folder.
    "/run/systemd/resolve",
    "/sbin",
    "/snap",
    "/sys",
    "/usr",
];
/// Devices that every program may use.
const DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"];
/// Toolchains and their settings, below the home folder.
const TOOLCHAINS: &[&str] = &[
    ".asdf",
    ".bun",
    ".cargo/bin",
    ".cargo/config",
    ".cargo/config.toml",
    ".cargo/env",
    ".config/git/attributes",
    ".config/git/config",
    ".config/git/ignore",
    ".deno",
    ".gitconfig",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".volta",
    ".local/share/mise",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    "go/bin",
];
/// Caches of toolchains, below the home folder.
const CACHES: &[&str] = &[
    ".cache/go-build",
    ".cache/pip",
    ".cache/uv",
    ".cargo/.global-cache",
    ".cargo/.package-cache",
    ".cargo/.package-cache-mutate",
    ".cargo/git",
    ".cargo/registry",
    ".gradle/caches",
    ".m2/repository",
    ".npm/_cacache",
    ".npm/_logs",
    "go/pkg/mod",
];
/// Files that shells read when they start, and keys, below the home folder.
const START_FILES: &[&str] = &[
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".config/autostart",
    ".config/environment.d",
    ".config/fish",
    ".config/systemd",
    ".profile",
    ".ssh",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

/// The user's folders, which decide what programs may read and change. Paths that exist are canonical.
#[derive(Clone, Debug, Default)]
pub struct UserFolders {
    home: PathBuf,
    /// The folders of `PATH`.
    programs: Vec<PathBuf>,
    /// Patchbay's own folders.
    own: Vec<PathBuf>,
}

/// Why a folder may not be given to a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderRefusal {
    /// The folder as it was written.
    pub folder: String,
    /// A clause without a full stop.
    pub reason: String,
}

impl fmt::Display for FolderRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "programs may not use '{}': {}", self.folder, self.reason)
    }
}

impl std::error::Error for FolderRefusal {}

impl UserFolders {
    /// Returns the folders of a user. `path` is the value of `PATH`; `own` are Patchbay's folders.
    pub fn new(home: &Path, path: &str, own: impl IntoIterator<Item = PathBuf>) -> Self {
        let programs = std::env::split_paths(path).filter(|folder| folder.is_absolute());
        Self {
            home: canonical(home.to_owned()),
            programs: programs.map(canonical).collect(),
            own: own.into_iter().map(canonical).collect(),
        }
    }

    /// Returns why programs may not change `folder`, a canonical path; `None` if they may.
    pub fn why_not_write(&self, folder: &Path) -> Option<String> {
        if self.home.starts_with(folder) {
            return Some("it is or contains your home folder".to_owned());
        }
        let overlaps = |other: &Path| other.starts_with(folder) || folder.starts_with(other);
        if self.own.iter().any(|own| overlaps(own)) {
            return Some("it contains or is inside one of Patchbay's folders".to_owned());
        }
        if let Some(programs) = self.programs.iter().find(|programs| overlaps(programs)) {
            return Some(format!("it contains or is in a folder of PATH: {}", programs.display()));
        }
        let start = START_FILES.iter().find(|name| overlaps(&self.home.join(name)));
        start.map(|name| format!("it contains or is in ~/{name}"))
    }

    /// Returns why programs may not read `path`, a canonical path; `None` if they may.
    fn why_not_read(&self, path: &Path) -> Option<String> {
        let is_own = self.own.iter().any(|own| own.starts_with(path) || path.starts_with(own));
        is_own.then(|| "it contains or is inside one of Patchbay's folders".to_owned())
    }

    /// Resolves a path as a user or a model writes it. `~/` is the home folder. Other paths are relative to `base`, and must be
    /// absolute if it is `None`.
    fn resolve(&self, written: &str, base: Option<&Path>) -> Result<PathBuf, FolderRefusal> {
        let path = match (written.strip_prefix("~/"), base) {
            (Some(rest), _) => self.home.join(rest),
            (None, Some(base)) => base.join(written),
            (None, None) => PathBuf::from(written),
        };
        if !path.is_absolute() {
            let reason = "write an absolute path, or one that begins with ~/".to_owned();
            return Err(FolderRefusal { folder: written.to_owned(), reason });
        }
        Ok(canonical(path))
    }
}

/// The files and folders that every fenced program may use, apart from its workspace.
#[derive(Clone, Debug, Default)]
pub struct CageFolders {
    user: UserFolders,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
}

impl CageFolders {
    /// Returns the folders of `settings`, and the toolchain folders in the user's home folder.
    ///
    /// # Errors
    /// The first folder of `settings` that is refused.
    pub fn new(settings: &CageSettings, user: UserFolders) -> Result<Self, FolderRefusal> {
        let in_home = |names: &[&str]| -> Vec<PathBuf> {
            names.iter().map(|name| canonical(user.home.join(name))).filter(|path| path.exists()).collect()
        };
        let mut read = in_home(TOOLCHAINS);
        // Folders of PATH inside the home folder contain programs. The home folder itself stays unreadable, even if it is in PATH.
        read.extend(
            user.programs.iter().filter(|folder| folder.starts_with(&user.home) && **folder != user.home).cloned(),
        );
        let mut write = in_home(CACHES);
        let mut folders = Self { read: Vec::new(), write: Vec::new(), user };
        read.retain(|path| folders.user.why_not_read(path).is_none());
        write.retain(|path| folders.user.why_not_write(path).is_none());
        for written in &settings.read {
            read.push(folders.readable(written, None)?);
        }
        for written in &settings.write {
            write.push(folders.writable(written, None)?);
        }
        (folders.read, folders.write) = (read, write);
        Ok(folders)
    }

    /// Returns why programs may not change this workspace, for example because it is the home folder; `None` if they may.
    pub fn why_workspace_is_special(&self, workspace: &Path) -> Option<String> {
        self.user.why_not_write(workspace)
    }

    /// Resolves a path that a program wants to read, relative to `base`.
    ///
    /// # Errors
    /// If it is refused.
    pub fn readable(&self, written: &str, base: Option<&Path>) -> Result<PathBuf, FolderRefusal> {
        let path = self.user.resolve(written, base)?;
        refuse(written, self.user.why_not_read(&path))?;
        Ok(path)
    }

    /// Resolves a path that a program wants to change, relative to `base`.
    ///
    /// # Errors
    /// If it is refused.
    pub fn writable(&self, written: &str, base: Option<&Path>) -> Result<PathBuf, FolderRefusal> {
        let path = self.user.resolve(written, base)?;
        refuse(written, self.user.why_not_write(&path))?;
        Ok(path)
    }

    /// Returns the fence of a program that runs in `workspace`. It may also change `temp`, its own temporary folder.
    pub fn fence(&self, support: Support, workspace: &Path, temp: &Path) -> FenceOrder {
        // A Patchbay folder can be inside one of the system folders, which is then not readable.
        let is_readable = |folder: &PathBuf| self.user.why_not_read(&canonical(folder.clone())).is_none();
        let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).filter(is_readable).collect();
        read.extend(self.read.iter().cloned());
        let mut write: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
        write.extend([workspace.to_owned(), temp.to_owned()]);
        write.extend(self.write.iter().cloned());
        let below = |name: &&str| workspace.join(name);
        let (read_only, fixed) = (read_only().map(below).collect(), FIXED.iter().map(below).collect());
        FenceOrder { support, read, write, read_only, fixed, network: false }
    }
}

fn refuse(written: &str, reason: Option<String>) -> Result<(), FolderRefusal> {
    reason.map_or(Ok(()), |reason| Err(FolderRefusal { folder: written.to_owned(), reason }))
}

/// Returns the canonical path, or the unchanged path if it does not exist.
fn canonical(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(settings: &CageSettings) -> (tempfile::TempDir, Result<CageFolders, FolderRefusal>) {
        let home = tempfile::tempdir().unwrap();
        for folder in [".cargo/bin", ".cargo/registry", ".ssh", "work", "patchbay/config", ".cache/pip"] {
            std::fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        let path = format!("{}:/usr/bin", home.path().join(".cargo/bin").display());
        let user = UserFolders::new(home.path(), &path, [home.path().join("patchbay/config")]);
        let folders = CageFolders::new(settings, user);
        (home, folders)
    }

    fn writes(folder: &str) -> Result<CageFolders, FolderRefusal> {
        folders(&CageSettings { write: vec![folder.to_owned()], ..CageSettings::default() }).1
    }

    #[test]
    fn folders_that_decide_about_later_programs_are_refused() {
        for folder in
            ["~/.ssh", "~/.cargo", "~/.cargo/bin/x", "~/", "/", "/usr", "~/.config", "~/patchbay", "~/.bashrc"]
        {
            let refusal = writes(folder).unwrap_err();
            assert_eq!(refusal.folder, folder);
            assert!(refusal.to_string().contains("programs may not use '"), "{refusal}");
        }
        assert!(writes("relative").unwrap_err().reason.contains("absolute"));
        assert!(writes("~/work").is_ok() && writes("~/not/there").is_ok());
        let own = CageSettings { read: vec!["~/patchbay".to_owned()], ..CageSettings::default() };
        assert!(folders(&own).1.unwrap_err().reason.contains("of Patchbay"));
    }

    #[test]
    fn caches_can_be_changed_and_toolchains_read() {
        let (home, folders) = folders(&CageSettings::default());
        let folders = folders.unwrap();
        let home = home.path().canonicalize().unwrap();
        let fence = folders.fence(Support::default(), &home.join("work"), Path::new("/t"));
        assert!(fence.read.contains(&home.join(".cargo/bin")) && !fence.read.contains(&home));
        for path in [home.join(".cargo/registry"), home.join(".cache/pip"), home.join("work"), "/t".into()] {
            assert!(fence.write.contains(&path), "{}", path.display());
        }
        assert!(!fence.write.iter().any(|path| path.starts_with(home.join(".cargo/bin"))));
        assert!(fence.read_only.contains(&home.join("work/.git/hooks")));
    }

    #[test]
    fn keys_and_folders_of_patchbay_cannot_be_read() {
        let home = tempfile::tempdir().unwrap();
        for folder in [".config/git", ".local/share/uv/credentials", ".local/share/uv/python"] {
            std::fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        std::fs::write(home.path().join(".config/git/config"), "").unwrap();
        let user = UserFolders::new(home.path(), "/usr/bin", ["/opt/patchbay".into()]);
        let folders = CageFolders::new(&CageSettings::default(), user).unwrap();
        let fence = folders.fence(Support::default(), &home.path().join("work"), Path::new("/t"));
        assert!(fence.read.contains(&"/usr".into()) && !fence.read.contains(&"/opt".into()));
        let home = home.path().canonicalize().unwrap();
        for key in [".config/git/credentials", ".local/share/uv/credentials/credentials.toml"] {
            assert!(!fence.read.iter().any(|path| home.join(key).starts_with(path)), "{key}");
        }
        assert!(fence.read.contains(&home.join(".config/git/config")));
    }

    #[test]
    fn workspace_that_holds_the_home_is_special() {
        let (home, folders) = folders(&CageSettings::default());
        let folders = folders.unwrap();
        let home = home.path().canonicalize().unwrap();
        assert_eq!(folders.why_workspace_is_special(&home).unwrap(), "it is or contains your home folder");
        assert!(folders.why_workspace_is_special(home.parent().unwrap()).is_some());
        assert_eq!(folders.why_workspace_is_special(&home.join("work")), None);
    }
}
