//! The built binary in a temporary home and workspace: where every test starts that runs the program as a user does.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::Mutex,
};

use tempfile::TempDir;

use crate::compiled;

/// A temporary home and workspace for the binary, removed on drop.
pub struct Patchbay {
    folder: TempDir,
    variables: Vec<(String, String)>,
    /// The sessions that [`Patchbay::last_session`] has returned.
    known: Mutex<BTreeSet<String>>,
}

/// The result of a finished process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The exit code; `None` if a signal ended the process.
    pub code: Option<i32>,
    /// The text on standard output.
    pub out: String,
    /// The text on standard error.
    pub err: String,
}

impl Ran {
    /// Standard error without the last line `Session: ID`.
    pub fn errors(&self) -> &str {
        let session = self.err.trim_end_matches('\n').rsplit('\n').next().unwrap_or_default();
        match session.starts_with("Session: ") {
            true => &self.err[..self.err.trim_end_matches('\n').len() - session.len()],
            false => &self.err,
        }
    }
}

/// The path of the binary that `make build` built.
pub fn path() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let built = test.ancestors().map(|folder| folder.join("patchbay")).find(|file| file.is_file());
    built.expect("the binary is not built; run: make build")
}

/// Copies the binary to `to`. A separate program writes the copy, because a process that another test starts meanwhile would
/// inherit our open file, and a file that is open for writing cannot be executed.
pub fn copy(to: &Path) {
    let copied = Command::new("cp").arg(path()).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "cp to {}", to.display());
}

impl Patchbay {
    /// Creates a home without sessions but with compiled bundled components, and an empty workspace.
    pub fn new() -> Self {
        let patchbay = Self::blank();
        compiled::into(&patchbay.home());
        patchbay
    }

    /// Creates a home in which the binary has never run, and an empty workspace.
    pub fn blank() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("workspace")).expect("a workspace");
        Self { folder, variables: Vec::new(), known: Mutex::default() }
    }

    /// Like [`Patchbay::new`], but the provider `demo` does not pause between words.
    pub fn quick() -> Self {
        let patchbay = Self::new();
        patchbay.write("home/config/config.toml", "[providers.demo]\noptions = { delay-ms = \"0\" }\n");
        patchbay
    }

    /// The home folder, which `PATCHBAY_HOME` names.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The workspace: the current folder of every run.
    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// Returns a new workspace with a copy of this home: the same sessions and grants, and compiled components that need no second
    /// compilation. No process may write to this home meanwhile.
    #[must_use]
    pub fn copied_home(&self) -> Self {
        let copy = Self::blank();
        for folder in ["config", "data", "cache"] {
            compiled::copy_folder(&self.home().join(folder), &copy.home().join(folder));
        }
        copy
    }

    /// Sets an environment variable of all later runs.
    pub fn set(&mut self, variable: &str, value: &str) {
        self.variables.push((variable.to_owned(), value.to_owned()));
    }

    /// The environment variables of all runs.
    pub(crate) fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// Writes a file and creates its folders. `path` is relative to the temporary folder: `home/…` or `workspace/…`.
    pub fn write(&self, path: &str, contents: impl AsRef<[u8]>) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, contents).expect("a file");
    }

    /// Writes a skill without a component to the user's folder: a `SKILL.md` with this frontmatter and body.
    pub fn skill(&self, name: &str, frontmatter: &str, instructions: &str) {
        let skill_md = format!("---\n{frontmatter}\n---\n{instructions}\n");
        self.write(&format!("home/config/skills/{name}/SKILL.md"), skill_md);
    }

    /// Prepares a run, with no input and captured output.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(path());
        // Messages call the program by its argument 0, which a shell sets like this.
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

    /// Runs the binary and waits for it to exit.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        ran(self.command(arguments).output().expect("the binary starts"))
    }

    /// Runs `command` in the shell `shell`, outside of the workspace, with the binary in the PATH, like a pasted command.
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
        if self.home().join("data/patchbay.db").exists() {
            let sessions = self.ids("SELECT id FROM sessions");
            self.known.lock().expect("no panic").extend(sessions);
        }
        self.run(&[&["exec", "--keep-going"], lines].concat())
    }

    /// Runs one line in a new session and returns its output and errors, without the last newline.
    pub fn line(&self, line: &str) -> String {
        let ran = self.exec(&[line]);
        let message = if ran.code == Some(0) { ran.out } else { format!("{}{}", ran.out, ran.errors()) };
        message.trim_end_matches('\n').to_owned()
    }

    /// The id of the session that was used last. Times are stored in seconds, so if several sessions share a second, this returns
    /// one that neither existed before the last [`Patchbay::exec`] nor was returned by this function before.
    pub fn last_session(&self) -> String {
        if !self.home().join("data/patchbay.db").exists() {
            // These variables name folders other than the test's.
            let list = self.run(&["sessions", "--all", "--json"]).out;
            let session: serde_json::Value =
                serde_json::from_str(list.lines().next().expect("a session")).expect("JSON");
            return session["id"].as_str().expect("an id").to_owned();
        }
        let ids = self.ids(
            "SELECT id FROM sessions WHERE used_at = (SELECT max(used_at) FROM sessions) ORDER BY created_at DESC, id",
        );
        let mut known = self.known.lock().expect("no panic");
        let id = ids.iter().find(|id| !known.contains(*id)).or(ids.first()).expect("a session");
        known.insert(id.clone());
        id.clone()
    }

    fn ids(&self, query: &str) -> Vec<String> {
        let database = self.database("patchbay.db");
        let mut query = database.prepare(query).expect("a query");
        let ids = query.query_map((), |row| row.get(0)).expect("rows");
        ids.map(|id| id.expect("an id")).collect()
    }

    /// The temporary folder, which contains `home` and `workspace`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Default for Patchbay {
    fn default() -> Self {
        Self::new()
    }
}

/// Runs `exec --timeout` with `arguments` in the home that `home` makes. If a busy machine lets the time run out before `happened`,
/// runs it again in another home with a longer timeout. Returns the home, the result, and the timeout in seconds.
pub fn run_out_of_time(
    home: impl Fn() -> Patchbay,
    arguments: &[&str],
    happened: impl Fn(&Patchbay, &Ran) -> bool,
) -> (Patchbay, Ran, u32) {
    for seconds in [2_u32, 8, 32] {
        let patchbay = home();
        let ran = patchbay.run(&[&["exec", "--timeout", &seconds.to_string()], arguments].concat());
        if happened(&patchbay, &ran) {
            return (patchbay, ran, seconds);
        }
        eprintln!("not within {seconds} s: {ran:?}");
    }
    panic!("what is to happen before the end of the time does not happen");
}

/// Returns the peak memory of a process in KiB.
pub fn peak_kib(process: u32) -> u64 {
    memory_kib(process, "VmHWM:")
}

/// Returns the resident memory of a process in KiB.
pub fn resident_kib(process: u32) -> u64 {
    memory_kib(process, "VmRSS:")
}

fn memory_kib(process: u32, line: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let memory = status.lines().find_map(|status| status.strip_prefix(line)).expect("a value");
    memory.trim_end_matches("kB").trim().parse().expect("a number")
}

/// Converts the output of a finished process.
pub fn ran(output: Output) -> Ran {
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}
