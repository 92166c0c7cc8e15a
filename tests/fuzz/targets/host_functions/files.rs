//! A workspace with everything that could lead out of it, and files outside of it that must not be read or changed.

use std::{
    cell::RefCell,
    fs, io,
    os::unix::{fs::symlink, net::UnixListener},
    path::{Path, PathBuf},
};

use patchbay_core::text;
use patchbay_sandbox::fuzzing::{Ask, workspace_read::Entry};
use tempfile::TempDir;

const SECRET: &[u8] = b"sentinel-5ca1ab1e";

struct Tree {
    base: TempDir,
    /// Whether a run has changed the workspace.
    changed: bool,
}

thread_local! {
    // Shared by all runs; created again after a run that changed it.
    static TREE: RefCell<Tree> = RefCell::new(Tree::make().expect("a workspace"));
}

impl Tree {
    fn make() -> io::Result<Self> {
        // In memory if possible, because writes are synced to disk.
        let mut named = tempfile::Builder::new();
        let named = named.prefix("patchbay-fuzz-");
        let base = named.tempdir_in("/dev/shm").or_else(|_| named.tempdir())?;
        fs::create_dir(base.path().join("outside"))?;
        fs::write(base.path().join("outside/secret"), SECRET)?;
        let tree = Self { base, changed: false };
        tree.fill()?;
        Ok(tree)
    }

    fn fill(&self) -> io::Result<()> {
        let root = self.root();
        for folder in ["", "dir", "dir/deep", ".git", ".patchbay"] {
            fs::create_dir(root.join(folder))?;
        }
        for (file, contents) in [
            ("a.txt", &b"alpha"[..]),
            ("dir/b.txt", b"beta"),
            ("dir/deep/c.txt", b"gamma"),
            ("hidden", b"hidden"),
            (".gitignore", b"/hidden\n"),
            (".git/config", SECRET),
            (".patchbay/skill", b"skill"),
        ] {
            fs::write(root.join(file), contents)?;
        }
        for (link, target) in self.links() {
            symlink(target, root.join(link))?;
        }
        // The file stays after the listener is dropped.
        UnixListener::bind(root.join("socket")).map(drop)
    }

    fn links(&self) -> [(&'static str, PathBuf); 4] {
        [
            ("out", "../outside".into()),
            ("absolute", self.base.path().join("outside/secret")),
            ("inside", "dir/b.txt".into()),
            ("loop", "loop".into()),
        ]
    }

    fn root(&self) -> PathBuf {
        self.base.path().join("workspace")
    }
}

/// The workspace, used by one run.
pub struct Files {
    base: PathBuf,
    changed: bool,
}

impl Files {
    pub fn lend() -> Self {
        TREE.with_borrow_mut(|tree| {
            if std::mem::take(&mut tree.changed) {
                fs::remove_dir_all(tree.root()).expect("a workspace");
                tree.fill().expect("a workspace");
            }
            Self { base: tree.base.path().canonicalize().expect("a path"), changed: false }
        })
    }

    pub fn root(&self) -> PathBuf {
        self.base.join("workspace")
    }

    /// Returns the target of a path in the workspace, which must be inside and not in `.git`.
    fn inside(&self, path: &str) -> PathBuf {
        let real = self.root().join(path).canonicalize().unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let below = real.strip_prefix(self.root()).unwrap_or_else(|_| panic!("{path:?} leads to {real:?}"));
        assert!(below.iter().all(|part| part != ".git"), "{path:?} leads to {real:?}");
        real
    }

    pub fn was_read(&self, path: &str, offset: u64, max: u32, bytes: &[u8]) {
        let contents = fs::read(self.inside(path)).expect("a file");
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(contents.len());
        let end = start.saturating_add(max as usize).min(contents.len());
        assert_eq!(bytes, &contents[start..end], "{path:?} from {offset}, at most {max}");
    }

    pub fn were_listed(&self, after: Option<&str>, limit: u32, entries: &[Entry]) {
        assert!(entries.len() <= limit.min(1_000) as usize);
        assert!(entries.is_sorted_by(|one, next| one.path.as_bytes() < next.path.as_bytes()), "{entries:?}");
        for Entry { path, is_directory, size } in entries {
            assert!(after.is_none_or(|after| path.as_bytes() > after.as_bytes()), "{path:?} after {after:?}");
            let found = fs::metadata(self.inside(path)).expect("a file or a directory");
            let wanted = if found.is_dir() { (true, 0) } else { (false, found.len()) };
            assert_eq!((*is_directory, *size), wanted, "{path:?}");
            assert!(found.is_dir() || found.is_file(), "{path:?}");
            assert!(self.changed || path != "hidden", "a rule hides it");
        }
    }

    pub fn was_written(&mut self, path: &str, contents: &[u8]) {
        self.changed = true;
        let file = self.root().join(path);
        assert!(fs::symlink_metadata(&file).expect("a file").is_file(), "{path:?}");
        assert_eq!(fs::read(&file).expect("a file"), contents);
        assert_eq!(self.inside(path), file, "{path:?} is written by its own path alone");
        let guarded = [".git", ".patchbay", ".agents", ".claude"];
        let is_guarded = |part: &str| guarded.iter().any(|name| part.eq_ignore_ascii_case(name));
        assert!(!path.split('/').any(is_guarded), "{path:?}");
        assert!(!path.rsplit('/').next().is_some_and(|name| name.eq_ignore_ascii_case("AGENTS.md")), "{path:?}");
    }

    pub fn was_deleted(&mut self, path: &str) {
        self.changed = true;
        let gone = fs::symlink_metadata(self.root().join(path)).expect_err("deleted");
        assert_eq!(gone.kind(), io::ErrorKind::NotFound, "{path:?}");
    }

    /// Checks that no result contains the path of the workspace, unless the guest passed that path: the fuzzer observes comparisons
    /// and can therefore learn it.
    pub fn not_named_in(&self, message: &str, ask: &Ask) {
        let said = match ask {
            Ask::WorkspaceRead(path, ..)
            | Ask::WorkspaceWalk(path, ..)
            | Ask::WorkspaceWrite(path, _)
            | Ask::WorkspaceDelete(path) => text::clean_line(path),
            _ => String::new(),
        };
        let base = self.base.to_string_lossy();
        assert!(!message.contains(&*base) || said.contains(&*base), "{ask:?}: {message:?}");
    }

    /// Asserts that protected files are unchanged and that no temporary file is left.
    pub fn check(&self) {
        assert_eq!(names(&self.base), ["outside", "workspace"]);
        assert_eq!(names(&self.base.join("outside")), ["secret"]);
        assert_eq!(fs::read(self.base.join("outside/secret")).expect("a file"), SECRET);
        if !self.changed {
            return;
        }
        assert_eq!(names(&self.root().join(".git")), ["config"]);
        assert_eq!(names(&self.root().join(".patchbay")), ["skill"]);
        assert_eq!(fs::read(self.root().join(".git/config")).expect("a file"), SECRET);
        assert_eq!(fs::read(self.root().join(".patchbay/skill")).expect("a file"), b"skill");
        for folder in ["", "dir", "dir/deep"] {
            let left = names(&self.root().join(folder));
            let temporary =
                |name: &String| name.len() == 46 && name.starts_with(".patchbay-") && name.ends_with(".tmp");
            assert!(!left.iter().any(temporary), "{left:?}");
        }
        TREE.with_borrow_mut(|tree| {
            tree.changed = true;
            for (link, target) in tree.links() {
                assert_eq!(fs::read_link(self.root().join(link)).expect("a link"), target);
            }
        });
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
