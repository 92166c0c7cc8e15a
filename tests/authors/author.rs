//! An author's machine: a home, a folder for plugins, and installed compilers.

use std::{
    env, fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, OnceLock},
    thread,
};

use patchbay_tests::binary::{self, Ran, ran};
use tempfile::TempDir;

/// A home and a folder for plugins. Both are empty, and outside of this repository.
pub struct Author {
    folder: TempDir,
}

/// Returns whether `what` runs in this test run, and prints a note if it does not. `make test-authors-all` sets AUTHOR_TESTS=all.
/// AUTHOR_SKIP lists exceptions, such as `go,zig`, for machines that cannot install these compilers.
pub fn runs_in_all(what: &str) -> bool {
    let variable = |name| env::var(name).unwrap_or_default();
    if variable("AUTHOR_TESTS") != "all" {
        println!("{what}: skipped, runs with make test-authors-all");
        return false;
    }
    let skipped = variable("AUTHOR_SKIP").split(',').any(|word| word == what);
    if skipped {
        println!("{what}: skipped, because AUTHOR_SKIP names it");
    }
    !skipped
}

/// The folder that all authors share: compilers, and cargo's build results.
pub fn shared() -> &'static Path {
    static SHARED: OnceLock<PathBuf> = OnceLock::new();
    SHARED.get_or_init(|| {
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("authors");
        fs::create_dir_all(shared.join("tools")).unwrap();
        shared
    })
}

impl Author {
    /// Creates an author with the compilers for `language`.
    pub fn of(language: &str) -> Self {
        let author = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(author.folder.path().join("home/cache")).unwrap();
        fs::create_dir(author.folder.path().join("work")).unwrap();
        symlink(shared().join("tools"), author.folder.path().join("home/cache/tools")).unwrap();
        let toolchain = match language {
            "js" | "ts" => "js",
            "python" | "c" => language,
            _ => return author,
        };
        // Only one installation runs at a time, because npm and pip share their caches.
        static INSTALLING: Mutex<()> = Mutex::new(());
        let _installing = INSTALLING.lock();
        let installed = author.run(&["plugin", "tools", "install", toolchain]);
        assert_eq!(installed.code, Some(0), "{}", installed.err);
        author
    }

    /// The author's `PATCHBAY_HOME`.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The folder in which the author works.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Runs the binary in the author's folder.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_in("", arguments)
    }

    /// Runs the binary in a folder below the author's folder.
    pub fn run_in(&self, folder: &str, arguments: &[&str]) -> Ran {
        ran(self.command(folder, arguments).output().unwrap())
    }

    /// Runs the binary in the author's folder, with `input` on its standard input.
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = self.command("", arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut stdin = process.stdin.take().unwrap();
        let input = input.to_owned();
        let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = process.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        ran(output)
    }

    /// Creates a command that runs the binary in a folder below the author's folder.
    pub fn command(&self, folder: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary::path());
        command.args(arguments).current_dir(self.work().join(folder));
        self.set_environment(&mut command);
        command
    }

    fn set_environment(&self, command: &mut Command) {
        command
            .env("PATCHBAY_HOME", self.home())
            // Packages from the registry are built once for all tests.
            .env("CARGO_TARGET_DIR", shared().join("cargo"));
    }

    /// Runs `make TARGET` in a folder below the author's folder.
    pub fn make(&self, folder: &str, target: &str) -> Ran {
        let mut command = Command::new("make");
        command.args([target, &format!("PATCHBAY={}", binary::path().display())]).current_dir(self.work().join(folder));
        self.set_environment(&mut command);
        ran(command.output().unwrap())
    }

    /// Runs a script in a folder below the author's folder, with the binary in the PATH.
    pub fn shell(&self, folder: &str, script: &str) -> Ran {
        let binaries = binary::path().parent().unwrap().to_owned();
        let all = env::var_os("PATH").unwrap_or_default();
        let all = env::join_paths(std::iter::once(binaries).chain(env::split_paths(&all))).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(self.work().join(folder)).env("PATH", all);
        self.set_environment(&mut command);
        ran(command.output().unwrap())
    }

    /// Runs a command that must succeed, and returns its standard output.
    pub fn succeed(&self, folder: &str, arguments: &[&str]) -> String {
        let ran = self.run_in(folder, arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}{}", ran.out, ran.err);
        ran.out
    }

    /// Replaces `from` with `to` in one of the author's files, which must contain it.
    pub fn edit(&self, path: &str, from: &str, to: &str) {
        let path = self.work().join(path);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{} has no {from:?}:\n{text}", path.display());
        fs::write(path, text.replace(from, to)).unwrap();
    }
}
