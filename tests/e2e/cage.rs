//! The cage around programs: what they can and cannot do, and that none of their processes survives. These tests fail if the kernel
//! has no Landlock, because Patchbay promises the cage on such machines.

use std::{
    fs,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use patchbay_cage::{
    CageFolders, CageProgram, CageSettings, Cages, Isolation, Order, ProgramEnd, ProtectedFiles, RunningProgram,
    Support, UserFolders, closed_environment,
};
use patchbay_tests::binary;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A text that no program may read or change.
const SECRET: &str = "secret-5b1f";

/// A home with a workspace, and a cage for the programs in it.
struct Caged {
    home: TempDir,
    folders: CageFolders,
    support: Support,
    network: bool,
    child: CageProgram,
    environment: Vec<(String, String)>,
    runtime: Runtime,
}

fn child() -> CageProgram {
    CageProgram { program: binary::path(), arguments: vec!["cage".to_owned()] }
}

impl Caged {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let support = runtime.block_on(Support::probe(&child()));
        assert!(support.is_whole(), "this machine cannot build the cage: {support:?}");
        Self::with(support)
    }

    fn with(support: Support) -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        for folder in
            [".ssh", ".cargo/registry", ".cargo/bin", "patchbay/data", "work/.git/hooks", "work/.cargo", "temp"]
        {
            fs::create_dir_all(path(folder)).unwrap();
        }
        for file in [".ssh/id", ".bashrc", "patchbay/data/patchbay.db", "notes", ".cargo/config.toml"] {
            fs::write(path(file), SECRET).unwrap();
        }
        fs::write(path("work/.git/config"), "[core]\n\trepositoryformatversion = 0\n").unwrap();
        fs::write(path("work/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::create_dir_all(path("work/.git/objects")).unwrap();
        fs::create_dir_all(path("work/.git/refs")).unwrap();
        fs::write(path("work/.cargo/config.toml"), "").unwrap();
        fs::write(path("work/CLAUDE.md"), "rules\n").unwrap();
        let variable = std::env::var("PATH").unwrap();
        let user = UserFolders::new(home.path(), &variable, [path("patchbay/data")]);
        // The toolchains of the user who runs the tests are outside the tests' home.
        let toolchains =
            [".rustup", ".cargo", ".pyenv"].map(|name| format!("{}/{name}", std::env::var("HOME").unwrap()));
        let read = toolchains.into_iter().filter(|folder| Path::new(folder).exists()).collect();
        let folders = CageFolders::new(&CageSettings { read, ..CageSettings::default() }, user).unwrap();
        let mut environment = closed_environment(&[]);
        environment.retain(|(name, _)| name != "HOME");
        environment.push(("HOME".to_owned(), home.path().to_str().unwrap().to_owned()));
        let runtime = Runtime::new().unwrap();
        Self { home, folders, support, network: false, child: child(), environment, runtime }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().canonicalize().unwrap().join(name)
    }

    fn order(&self, program: &str, arguments: &[&str]) -> Order {
        let (workspace, temp) = (self.path("work"), self.path("temp"));
        let mut fence = self.folders.fence(self.support, &workspace, &temp);
        fence.network = self.network;
        let mut environment = self.environment.clone();
        environment.push(("TMPDIR".to_owned(), temp.to_str().unwrap().to_owned()));
        Order {
            program: program.to_owned(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            folder: workspace,
            environment,
            fence: Some(fence),
        }
    }

    fn start(&self, program: &str, arguments: &[&str]) -> RunningProgram {
        let order = self.order(program, arguments);
        let _runtime = self.runtime.enter();
        RunningProgram::start(&self.child, &order).unwrap()
    }

    fn run(&self, program: &str, arguments: &[&str]) -> (ProgramEnd, String) {
        let running = self.start(program, arguments);
        let end = self.runtime.block_on(running.ended());
        (end, running.output(|output| output.tail(1 << 20).text))
    }

    /// Runs a script, and returns its exit code and its output.
    fn sh(&self, script: &str) -> (Option<i32>, String) {
        let (end, output) = self.run("/bin/sh", &["-c", script]);
        (end.exit_code, output)
    }

    /// Runs a script that must fail because the cage refuses something. It must not have seen or changed a secret.
    fn refused(&self, script: &str) {
        let (code, output) = self.sh(script);
        self.check_refused(script, code, &output);
    }

    fn python_refused(&self, program: &str) {
        let program = format!(
            "import ctypes, os, socket, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n\
            def call(*args):\n    result = libc.syscall(*args)\n    \
            if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))\n{program}\n"
        );
        let (end, output) = self.run("/usr/bin/python3", &["-c", &program]);
        self.check_refused(&program, end.exit_code, &output);
    }

    fn check_refused(&self, program: &str, code: Option<i32>, output: &str) {
        assert!(code.is_some_and(|code| code != 0), "{program}\nended with {code:?}: {output}");
        let words = [
            "denied",
            "not permitted",
            "Read-only",
            "Invalid cross-device",
            "busy",
            "could not lock",
            "must be superuser",
        ];
        assert!(words.iter().any(|word| output.contains(word)), "{program}\nfailed for another reason: {output}");
        assert!(!output.contains(SECRET), "{program}\nhas read a secret: {output}");
        for file in [".ssh/id", ".bashrc", "patchbay/data/patchbay.db", "notes", ".cargo/config.toml"] {
            assert_eq!(fs::read_to_string(self.path(file)).unwrap(), SECRET, "{program}\nhas changed {file}");
        }
        assert_eq!(fs::read_dir(self.path(".cargo/bin")).unwrap().count(), 0, "{program}");
        assert_eq!(fs::read_dir(self.path("work/.git/hooks")).unwrap().count(), 0, "{program}");
    }
}

#[test]
fn files_outside_are_neither_read_nor_changed() {
    let caged = Caged::new();
    let landlock = Caged::with(Support { isolation: Isolation::None, ..caged.support });
    for script in [
        "cat ~/.ssh/id",
        "cat ~/notes",
        "cat ../notes",
        "ls ~",
        "cat ~/patchbay/data/patchbay.db",
        "echo x > ~/notes",
        "echo x >> ~/.bashrc",
        "echo x > ~/.cargo/bin/cargo",
        "echo x > ~/.cargo/config.toml",
        "rm ~/notes",
        "echo x > /tmp/cage-was-here",
        "echo x > ~/new",
        "chmod 777 ~/notes",
        "touch -d 2001-01-01 ~/notes",
        "mkdir ~/.ssh/new",
        "head -c 1 /dev/vda",
    ] {
        caged.refused(script);
        // Landlock alone also refuses this, except where it has no rules.
        if !script.starts_with("chmod") && !script.starts_with("touch") {
            landlock.refused(script);
        }
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(caged.path("notes")).unwrap().permissions());
    assert_eq!(mode & 0o7, 0o4, "the mode was changed");
}

/// A child that was started long before it received its order, when nothing was known about the program yet.
#[test]
fn waiting_child_builds_the_same_cage() {
    let caged = Caged::new();
    for isolation in [Isolation::Processes, Isolation::Mounts, Isolation::None] {
        let caged = Caged::with(Support { isolation, ..caged.support });
        let cages = Cages::new(caged.child.clone());
        let run = |script: &str| {
            caged.runtime.block_on(async {
                cages.prepare();
                tokio::time::sleep(Duration::from_millis(100)).await;
                let running = cages.start(&caged.order("/bin/sh", &["-c", script])).unwrap();
                let end = running.ended().await;
                (end.exit_code, running.output(|output| output.tail(1 << 20).text))
            })
        };
        for script in ["cat ~/notes", "echo x > ~/new", "python3 -c 'import socket; socket.socket()'"] {
            let (code, output) = run(script);
            caged.check_refused(script, code, &output);
        }
        // The child does not stay in its own folder.
        let (code, output) = run("pwd && touch made");
        let folder = caged.path("work");
        assert_eq!((code, output.lines().next()), (Some(0), folder.to_str()), "{output}");
        assert!(folder.join("made").exists());
        assert_eq!(run(DAEMONS).0, Some(0));
        assert_none_left(&folder);
    }
}

#[test]
fn links_and_renames_lead_nowhere() {
    let caged = Caged::new();
    let landlock = Caged::with(Support { isolation: Isolation::None, ..caged.support });
    for script in [
        "ln -s ~/.ssh/id link && cat link",
        "ln -s ~ home && cat home/notes",
        "ln ~/notes hard && cat hard",
        "mv ~/notes mine",
        "mv -T ~/.ssh mine",
        "echo x > own && mv own ~/.bashrc",
        "echo x > own && ln own ~/.bash_login",
        "mkdir folder && mv folder ~/.config",
        "cat /proc/self/root$HOME/notes",
        "cat /proc/self/cwd/../notes",
        "cd -P /proc/self/cwd/.. && cat notes",
        "ln -s ~/.bashrc start && echo x > start",
        "mknod disk b 254 0",
    ] {
        caged.refused(script);
        landlock.refused(script);
    }
}

#[test]
fn program_has_no_file_of_its_parent() {
    let caged = Caged::new();
    let (code, output) = caged.sh("ls /proc/self/fd | wc -l; for fd in 0 1 2; do readlink /proc/self/fd/$fd; done");
    assert_eq!(code, Some(0), "{output}");
    // The descriptors of `ls` itself: three, and the folder that it reads.
    assert!(output.starts_with("4\n/dev/null\npipe:"), "{output}");
}

#[test]
fn what_runs_later_cannot_be_changed() {
    let caged = Caged::new();
    for script in [
        "echo x > .git/hooks/pre-commit",
        "mv .git old && mkdir .git",
        "mv .git/hooks old && mkdir .git/hooks",
        "rm -r .git/hooks",
        "rm -f .git/config && echo x > .git/config",
        "git config alias.st '!touch /tmp/x'",
        "git config core.fsmonitor ./run",
        "git config --global alias.st '!touch /tmp/x'",
        "echo '[build]' > .cargo/config.toml",
        "rm -r .cargo",
        "mv .cargo cargo",
        "echo more >> CLAUDE.md",
        "rm CLAUDE.md",
        "umount .git/hooks",
        "mount --bind . .git/hooks",
        "mount -o remount,rw .git/hooks",
    ] {
        caged.refused(script);
    }
    assert_eq!(fs::read_to_string(caged.path("work/CLAUDE.md")).unwrap(), "rules\n");
    assert!(fs::read_to_string(caged.path("work/.git/config")).unwrap().ends_with("repositoryformatversion = 0\n"));
    // Files that git itself changes are writable.
    assert_eq!(caged.sh("echo x > .git/index.lock && mkdir .git/refs/heads && echo x > source.rs").0, Some(0));
}

#[test]
fn git_takes_nothing_from_another_folder() {
    let caged = Caged::new();
    let landlock = Caged::with(Support { isolation: Isolation::None, ..caged.support });
    for caged in [&caged, &landlock] {
        let workspace = caged.path("work");
        let before = ProtectedFiles::look(&workspace);
        let (code, output) = caged
            .sh("cp -r .git evil && git config -f evil/config core.fsmonitor 'touch ran; false' \
            && echo ../evil > .git/commondir && git status");
        assert_eq!(code, Some(0), "{output}");
        assert!(!workspace.join(".git/commondir").exists());
        let mounted = caged.support.isolation >= Isolation::Mounts;
        assert_eq!(before.changed(&ProtectedFiles::look(&workspace), mounted), [".git/commondir.refused"]);
    }
    // A `.git` file of the user stays. In a worktree, `.git` is a file.
    fs::write(caged.path("work/.git/commondir"), ".").unwrap();
    caged.refused("echo ../evil > .git/commondir");
    fs::remove_dir_all(caged.path("work/.git/hooks")).unwrap();
    fs::rename(caged.path("work/.git"), caged.path("work/repository")).unwrap();
    fs::write(caged.path("work/.git"), "gitdir: repository\n").unwrap();
    for script in ["echo 'gitdir: evil' > .git", "rm .git", "mv .git old"] {
        let (code, output) = caged.sh(script);
        assert!(code != Some(0) && (output.contains("Read-only") || output.contains("busy")), "{script}: {output}");
    }
}

#[test]
fn sockets_are_refused() {
    let mut caged = Caged::new();
    let _docker = UnixListener::bind(caged.path("work/docker.sock")).unwrap();
    let unix = "s = socket.socket(socket.AF_UNIX); s.connect('docker.sock')";
    let bus = "s = socket.socket(socket.AF_UNIX); s.connect(b'\\0/tmp/dbus-abstract')";
    let udp = "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('127.0.0.1', 9))";
    let tcp = "s = socket.socket(socket.AF_INET); s.connect(('127.0.0.1', 9))";
    let packet = "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)";
    let vsock = "socket.socket(socket.AF_VSOCK)";
    let pair = "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].connect('docker.sock')";
    let raw = "socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)";
    for program in [unix, bus, udp, tcp, packet, vsock, pair, raw, "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"]
    {
        caged.python_refused(program);
    }
    // Access to the network does not include the machine's own sockets.
    caged.network = true;
    for program in [unix, bus, packet, vsock, pair] {
        caged.python_refused(program);
    }
    let streams = "socket.socketpair(); socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)";
    let (end, output) = caged.run("/usr/bin/python3", &["-c", &format!("import socket\n{udp}\n{streams}")]);
    assert_eq!(end.exit_code, Some(0), "{output}");
    for name in ["DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "DISPLAY", "DOCKER_HOST"] {
        assert!(!caged.environment.iter().any(|(passed, _)| passed == name), "{name}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn system_calls_that_lead_out_are_refused() {
    let caged = Caged::new();
    for program in [
        // io_uring_setup, bpf, keyctl, ptrace, process_vm_readv, perf_event_open, userfaultfd, pidfd_getfd
        "call(425, 8, ctypes.create_string_buffer(120))",
        "call(321, 0, ctypes.create_string_buffer(128), 128)",
        "call(250, 0, -3, 1)",
        "call(101, 16, os.getppid(), 0, 0)",
        "call(310, os.getppid(), 0, 0, 0, 0, 0)",
        "call(298, ctypes.create_string_buffer(128), 0, -1, -1, 0)",
        "call(323, 0)",
        "call(438, 0, 0, 0)",
        // unshare and clone with namespaces
        "call(272, 0x10000000)",
        "call(56, 0x10000000 | 17, 0, 0, 0, 0)",
        // open_by_handle_at
        "call(304, -100, ctypes.create_string_buffer(64), 0)",
        // prlimit64 of another process
        "call(302, os.getppid(), 7, 0, 0)",
        // TIOCSTI
        "import fcntl\nfcntl.ioctl(0, 0x5412, b'x')",
    ] {
        caged.python_refused(program);
    }
    caged.refused("unshare -Urm true");
    // Without namespaces: shmget, shmat, msgget, semget and mq_open; before Landlock 3 also truncate.
    let older = Caged::with(Support { isolation: Isolation::None, landlock: 2, ..caged.support });
    for program in [
        "call(29, 7, 4096, 0o1600)",
        "call(30, 0, 0, 0)",
        "call(68, 7, 0o1600)",
        "call(64, 7, 1, 0o1600)",
        "call(240, b'queue', 0o102, 0o600, 0)",
        "os.truncate('../notes', 0)",
    ] {
        older.python_refused(program);
    }
    let (code, output) = caged.sh("ipcs -m | grep 0x && exit 1; ipcmk -M 4096 && ipcs -m | grep 0x");
    assert_eq!(code, Some(0), "its shared memory is not its own: {output}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn other_architectures_end_the_program() {
    let caged = Caged::new();
    fs::write(
        caged.path("work/old.c"),
        "int main(void) { int pid; __asm__ volatile(\"int $0x80\" : \"=a\"(pid) : \"a\"(20)); return 0; }",
    )
    .unwrap();
    fs::write(
        caged.path("work/x32.c"),
        "#include <unistd.h>\nint main(void) { return syscall(0x40000000 + 41, 1, 1, 0) < 0; }",
    )
    .unwrap();
    for name in ["old", "x32"] {
        let (code, output) = caged.sh(&format!("cc -o {name} {name}.c"));
        assert_eq!(code, Some(0), "{output}");
        // Signal 31 is SIGSYS.
        assert_eq!(caged.run(&format!("./{name}"), &[]).0.signal, Some(31), "{name}");
    }
}

#[test]
fn other_processes_are_not_reached() {
    let caged = Caged::new();
    let mut outside = Command::new("sleep").arg("60").env("TOKEN", SECRET).spawn().unwrap();
    let (_, output) =
        caged.sh("cat /proc/[0-9]*/environ 2>&1 | tr '\\0' '\\n'; cat /proc/[0-9]*/cmdline | tr '\\0' ' '");
    assert!(!output.contains(SECRET) && !output.contains("sleep 60"), "{output}");
    // If the program sees only its own processes, others have no number inside.
    let seen = Caged::with(Support { isolation: Isolation::Mounts, ..caged.support });
    for script in [format!("kill -9 {}", outside.id()), format!("cat /proc/{}/environ", outside.id())] {
        seen.refused(&script);
    }
    assert!(outside.try_wait().unwrap().is_none(), "it was killed");
    outside.kill().unwrap();
    outside.wait().unwrap();
}

#[test]
fn loaded_libraries_stay_in_the_cage() {
    let mut caged = Caged::new();
    let source = "#include <fcntl.h>\n#include <stdlib.h>\n#include <stdio.h>\n__attribute__((constructor)) static void run(void) { \
        char path[512]; snprintf(path, 512, \"%s/preloaded\", getenv(\"HOME\")); \
        int file = open(path, O_CREAT | O_WRONLY, 0600); creat(\"loaded\", 0600); if (file < 0) perror(\"open\"); }";
    fs::write(caged.path("work/load.c"), source).unwrap();
    assert_eq!(caged.sh("cc -shared -fPIC -o load.so load.c").0, Some(0));
    caged.environment.push(("LD_PRELOAD".to_owned(), caged.path("work/load.so").to_str().unwrap().to_owned()));
    let (code, output) = caged.sh("true");
    assert_eq!((code, &*output), (Some(0), "open: Read-only file system\n"));
    assert!(caged.path("work/loaded").exists() && !caged.path("preloaded").exists());
}

#[test]
fn secrets_of_the_environment_are_not_passed() {
    let caged = Caged::new();
    let passed: Vec<_> = caged.environment.iter().map(|(name, _)| name.as_str()).collect();
    assert!(passed.contains(&"PATH"));
    for name in ["ANTHROPIC_API_KEY", "LD_PRELOAD", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PATCHBAY_HOME"] {
        assert!(!passed.contains(&name), "{name}");
    }
    let (_, output) = caged.sh("env");
    assert!(output.lines().all(|line| !line.contains("API_KEY")), "{output}");
}

#[test]
fn sizes_are_bounded() {
    let caged = Caged::new();
    let (end, output) = caged.run("/bin/sh", &["-c", "exec dd if=/dev/zero of=big bs=1M seek=1023 count=2"]);
    // Signal 25 is SIGXFSZ.
    assert_eq!(end.signal, Some(25), "{end:?} {output}");
    let (end, _) = caged.run("/bin/sh", &["-c", "for i in $(seq 600); do sleep 30 & done; sleep 30"]);
    assert_eq!(end.killed.as_deref(), Some("it had more than 512 processes"), "{end:?}");
    assert_eq!(processes_in(&caged.path("work")), Vec::<String>::new());
}

/// Returns the processes whose working directory is the workspace.
pub(crate) fn processes_in(workspace: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        if fs::read_link(entry.path().join("cwd")).is_ok_and(|folder| folder.starts_with(workspace)) {
            let name = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&name).replace('\0', " "));
        }
    }
    found
}

/// Waits until no process is left.
pub(crate) fn assert_none_left(workspace: &Path) {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let left = processes_in(workspace);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "left: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Programs that try to outlive their cage.
const DAEMONS: &str = "setsid sleep 300 & (setsid sh -c 'trap \"\" TERM HUP INT; (sleep 300 & sleep 300) & sleep 300' &) ; \
    python3 -c 'import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\ntime.sleep(300)' ; sleep 0.2";

#[test]
fn no_process_is_left_at_the_end() {
    for isolation in [Isolation::Processes, Isolation::Mounts, Isolation::None] {
        let caged = Caged::with(Support { isolation, ..Caged::new().support });
        assert_eq!(caged.sh(DAEMONS).0, Some(0), "{isolation:?}");
        assert_none_left(&caged.path("work"));
        // The user stops it.
        let running = caged.start("/bin/sh", &["-c", &format!("{DAEMONS}; echo ready; sleep 300")]);
        let mut growth = running.growth();
        caged.runtime.block_on(growth.changed()).unwrap();
        assert!(processes_in(&caged.path("work")).len() >= 4, "{:?}", processes_in(&caged.path("work")));
        running.stop();
        let end = caged.runtime.block_on(running.ended());
        assert_eq!(end.killed.as_deref(), Some("it was stopped"), "{isolation:?}");
        assert_none_left(&caged.path("work"));
        // The value is dropped, as when the host exits.
        let running = caged.start("/bin/sh", &["-c", &format!("{DAEMONS}; echo ready; sleep 300")]);
        let mut growth = running.growth();
        caged.runtime.block_on(growth.changed()).unwrap();
        drop(running);
        caged.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(50)).await });
        assert_none_left(&caged.path("work"));
    }
}

#[test]
fn program_that_forks_and_exits_is_caught() {
    let caged = Caged::new();
    let source = "#include <fcntl.h>\n#include <unistd.h>\nint main(void) { int file = open(\"alive\", O_CREAT | O_APPEND | O_WRONLY, 0600); \
        if (fork()) { usleep(200000); return 0; } for (int i = 0; i < 100000; i++) { write(file, \"x\", 1); setsid(); if (fork()) _exit(0); } }";
    for isolation in [Isolation::Processes, Isolation::Mounts, Isolation::None] {
        let caged = Caged::with(Support { isolation, ..caged.support });
        fs::write(caged.path("work/forks.c"), source).unwrap();
        assert_eq!(caged.sh("cc -o forks forks.c").0, Some(0));
        let (end, output) = caged.run("./forks", &[]);
        let size = || fs::metadata(caged.path("work/alive")).unwrap().len();
        let before = size();
        assert!(before > 10, "{end:?} {output}");
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!((end.exit_code, size()), (Some(0), before), "{isolation:?} {end:?}");
    }
}

/// The two lists name the same files: a program must not be able to write files without a question that skills may not write.
#[test]
fn names_that_skills_may_not_write_are_compared() {
    for pattern in patchbay_workspace::protected_names() {
        let name = match pattern {
            "copilot-instructions.md" => ".github/copilot-instructions.md",
            // Only names are compared, as running.md says.
            "*.code-workspace" => continue,
            pattern => pattern.trim_end_matches('*'),
        };
        let folder = tempfile::tempdir().unwrap();
        let before = ProtectedFiles::look(folder.path());
        fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
        fs::write(folder.path().join(name), "made").unwrap();
        let changed = before.changed(&ProtectedFiles::look(folder.path()), true);
        assert!(changed.iter().any(|changed| name.starts_with(changed)), "{name}: {changed:?}");
    }
}

#[test]
fn signals_to_the_group_do_not_reach_the_cage() {
    let support = Caged::new().support;
    for isolation in [Isolation::Processes, Isolation::Mounts, Isolation::None] {
        // Landlock 5 cannot restrict signals.
        let caged = Caged::with(Support { isolation, landlock: 5, ..support });
        assert_eq!(caged.run("/bin/sh", &["-c", "kill -9 0"]).0.signal, Some(9), "{isolation:?}");
    }
}

#[test]
fn everyday_commands_work() {
    let caged = Caged::new();
    let (code, output) = caged.sh("echo a > a && cp a b && mv b c && ln c d && ln -s c e && mkdir f && mv c f/ && cat f/c && mktemp && \
        mkfifo pipe && rm -r f && date > /dev/null && id > /dev/null && git status --porcelain > /dev/null && ps > /dev/null");
    assert_eq!(code, Some(0), "{output}");
    let (code, output) = caged.sh("echo out; echo err >&2; exit 7");
    assert_eq!((code, &*output), (Some(7), "out\nerr\n"));
    let (end, _) = caged.run("missing-program", &[]);
    assert!(
        end.failed.as_ref().is_some_and(|why| why.starts_with("cannot run 'missing-program': No such file")),
        "{end:?}"
    );
    let (end, _) = caged.run("/bin/sh", &["-c", "kill -SEGV $$"]);
    assert_eq!(end.signal, Some(11));
    let registry = caged.path(".cargo/registry/index");
    assert_eq!(caged.sh("mkdir ~/.cargo/registry/index").0, Some(0));
    assert!(registry.is_dir());
}

#[test]
fn output_of_100_megabytes_is_bounded() {
    let caged = Caged::new();
    let running = caged.start("/bin/sh", &["-c", "head -c 104857600 /dev/zero | tr '\\0' x; echo end"]);
    let end = caged.runtime.block_on(running.ended());
    assert_eq!(end.exit_code, Some(0));
    let page = running.output(|output| output.page(0, 1000));
    assert_eq!((page.text.len(), page.total), (1000, 104_857_604));
    assert!(page.start > 90 << 20, "{}", page.start);
    assert!(running.output(|output| output.page(page.total - 4, 1000)).text == "end\n");
}

#[test]
fn plain_user_has_the_same_cage() {
    // Only root can become another user. For any other user, all tests of this file already run without root.
    if !rustix::process::getuid().is_root() {
        return;
    }
    let binary = binary::path();
    let mut arguments = ["--reuid", "65534", "--regid", "65534", "--clear-groups"].map(str::to_owned).to_vec();
    arguments.extend([binary.to_str().unwrap().to_owned(), "cage".to_owned()]);
    let child = CageProgram { program: "/usr/bin/setpriv".into(), arguments };
    let support = Runtime::new().unwrap().block_on(Support::probe(&child));
    assert!(support.is_whole() && support.isolation == Isolation::Processes, "{support:?}");
    let caged = Caged { child, ..Caged::with(support) };
    let owned = Command::new("chown").args(["-R", "65534:65534"]).arg(caged.home.path()).status().unwrap();
    assert!(owned.success());
    for script in [
        "cat ~/notes",
        "echo x > ~/new",
        "echo x > .git/hooks/x",
        "mv .git old",
        "chmod 777 ~/notes",
        "ln ~/notes hard",
    ] {
        caged.refused(script);
    }
    caged.python_refused("socket.socket()");
    let (code, output) = caged.sh("id -u && echo x > x && cat x");
    assert_eq!((code, &*output), (Some(0), "65534\nx\n"));
    assert_eq!(caged.sh(DAEMONS).0, Some(0));
    assert_none_left(&caged.path("work"));
}
