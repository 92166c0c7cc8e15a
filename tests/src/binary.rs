//! The real binary, in a clean home and a clean workspace.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

/// A home and a workspace that go when it does.
pub struct Patchbay {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The exit code; none where a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Standard error without the line that says which session it was.
    pub fn errors(&self) -> &str {
        let session = self.err.trim_end_matches('\n').rsplit('\n').next().unwrap_or_default();
        match session.starts_with("Session: ") {
            true => &self.err[..self.err.trim_end_matches('\n').len() - session.len()],
            false => &self.err,
        }
    }
}

/// The path of the binary, built by `make`.
///
/// # Panics
/// Where it is not built, with the command that builds it.
pub fn path() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let built = test.ancestors().map(|folder| folder.join("patchbay")).find(|file| file.is_file());
    built.expect("the binary is not built; run: make build")
}

impl Patchbay {
    /// A clean home and a clean workspace.
    ///
    /// # Panics
    /// Where there is no temporary folder.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("workspace")).expect("a workspace");
        Self { folder, variables: Vec::new() }
    }

    /// The same, where the provider `demo` does not wait between its words.
    ///
    /// # Panics
    /// Where there is no temporary folder.
    pub fn quick() -> Self {
        let patchbay = Self::new();
        patchbay.write("home/config/config.toml", "[providers.demo]\noptions = { delay-ms = \"0\" }\n");
        patchbay
    }

    /// `PATCHBAY_HOME`.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The workspace, which is the current folder of every run.
    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// Sets an environment variable of every run from here on.
    pub fn set(&mut self, variable: &str, value: &str) {
        self.variables.push((variable.to_owned(), value.to_owned()));
    }

    /// Writes a file, and the folders above it. `path` begins with `home/` or `workspace/`.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn write(&self, path: &str, contents: impl AsRef<[u8]>) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, contents).expect("a file");
    }

    /// Puts a skill into the person's folder: `SKILL.md` with this frontmatter and these instructions.
    pub fn skill(&self, name: &str, frontmatter: &str, instructions: &str) {
        let skill_md = format!("---\n{frontmatter}\n---\n{instructions}\n");
        self.write(&format!("home/config/skills/{name}/SKILL.md"), skill_md);
    }

    /// A command of the binary, not run yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(path());
        // As a shell starts what is on its PATH: messages name the program as it was started.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::arg0(&mut command, "patchbay");
        command
            .args(arguments)
            .current_dir(self.workspace())
            .env("PATCHBAY_HOME", self.home())
            .envs(self.variables.iter().map(|(variable, value)| (variable, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the binary to its end.
    ///
    /// # Panics
    /// Where it cannot be started, or prints what is no UTF-8.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        ran(self.command(arguments).output().expect("the binary starts"))
    }

    /// Runs `command` in the shell `shell`, as a person pastes it: in a folder of its own, with the binary in the PATH.
    ///
    /// # Panics
    /// Where the shell cannot be started.
    pub fn shell(&self, shell: &str, command: &str) -> Ran {
        let folder = self.folder.path().join("elsewhere");
        fs::create_dir_all(&folder).expect("a folder");
        let binaries = path().parent().expect("a folder").to_owned();
        let all = std::env::var_os("PATH").unwrap_or_default();
        let all = std::env::join_paths([binaries].into_iter().chain(std::env::split_paths(&all))).expect("a PATH");
        let output = Command::new(shell)
            .args(["-c", command])
            .current_dir(folder)
            .env("PATH", all)
            .env("PATCHBAY_HOME", self.home())
            .envs(self.variables.iter().map(|(variable, value)| (variable, value)))
            .stdin(Stdio::null())
            .output();
        ran(output.expect("the shell starts"))
    }

    /// `patchbay exec --keep-going LINE…` in a new session.
    pub fn exec(&self, lines: &[&str]) -> Ran {
        self.run(&[&["exec", "--keep-going"], lines].concat())
    }

    /// The message of one line in a new session, whether it went well or not, without its last line feed.
    pub fn line(&self, line: &str) -> String {
        let ran = self.exec(&[line]);
        let message = if ran.code == Some(0) { ran.out } else { format!("{}{}", ran.out, ran.errors()) };
        message.trim_end_matches('\n').to_owned()
    }

    /// The session that was used last.
    ///
    /// # Panics
    /// Where there is none.
    pub fn last_session(&self) -> String {
        let list = self.run(&["sessions", "list"]).out;
        list.split_whitespace().next().expect("a session").to_owned()
    }

    /// What is below the temporary folder, for tests that look inside.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Default for Patchbay {
    fn default() -> Self {
        Self::new()
    }
}

/// What a finished process left.
///
/// # Panics
/// Where it printed what is no UTF-8.
pub fn ran(output: Output) -> Ran {
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}
