//! Building a snapshot: observers are notified, files that change during the build are read again, and all cores compile.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use patchbay_core::SessionId;
use patchbay_sandbox::Compiler;
use patchbay_session::{Config, Host, Observer, Paths, Session};
use patchbay_tests::{
    binary::{self, Patchbay},
    guest::Guest,
};
use tokio::sync::Notify;

/// Returns a skill whose only tool has the description `what`.
fn skill_described_as(what: &str) -> Vec<u8> {
    let tools = vec![("run".into(), what.into(), r#"{"type":"object"}"#.into())];
    Guest { tools, ..Guest::default() }.packaged("---\ninvocation_mode: tool_dispatch\ncommand_tool: run\n---\n")
}

/// A home for a host in the test's own process, and the observer of its builds.
struct Stage {
    patchbay: Patchbay,
    seen: Arc<Seen>,
}

/// An observer that records its notifications and runs an action on each.
#[derive(Default)]
struct Seen {
    told: Mutex<Vec<String>>,
    does: Mutex<Option<Act>>,
}

type Act = Box<dyn FnMut(usize, usize) + Send>;

impl Observer for Seen {
    fn compiling(&self, _: SessionId, done: usize, total: usize) {
        self.told.lock().unwrap().push(format!("{done}/{total}"));
        if let Some(act) = &mut *self.does.lock().unwrap() {
            act(done, total);
        }
    }

    fn compiled(&self, _: SessionId) {
        self.told.lock().unwrap().push("over".to_owned());
    }
}

impl Stage {
    fn new() -> Self {
        Self { patchbay: Patchbay::new(), seen: Arc::default() }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.patchbay.home().join("config/skills").join(file)
    }

    fn write(&self, file: &str, bytes: impl AsRef<[u8]>) {
        self.patchbay.write(&format!("home/config/skills/{file}"), bytes);
    }

    fn host(&self) -> Arc<Host> {
        self.host_with(Compiler { program: binary::path(), arguments: vec!["compile".into()], keeps_functions: false })
    }

    fn host_with(&self, compiler: Compiler) -> Arc<Host> {
        let folder = |name: &str| self.patchbay.home().join(name);
        let (config, data, cache, state) = (folder("config"), folder("data"), folder("cache"), folder("state"));
        let paths = Paths { config, data, cache, state };
        let config = Config { observer: self.seen.clone(), ..Config::new(paths, compiler) };
        Host::open(config).unwrap()
    }

    async fn session(&self) -> Arc<Session> {
        self.host().new_session(&self.patchbay.workspace()).await.unwrap()
    }

    fn does(&self, act: impl FnMut(usize, usize) + Send + 'static) {
        *self.seen.does.lock().unwrap() = Some(Box::new(act));
    }

    /// Returns the notifications since the last call.
    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.told.lock().unwrap())
    }
}

/// Returns the skills and the diagnostics of the session's snapshot.
fn shown(session: &Session) -> (Vec<String>, Vec<String>) {
    let snapshot = session.snapshot();
    let skills = snapshot.skills().map(|skill| format!("{}: {}", skill.name, skill.tools[0].description));
    let diagnostics = snapshot.diagnostics().iter().map(|one| format!("{} [{}] {}", one.name, one.code, one.message));
    (skills.collect(), diagnostics.collect())
}

#[tokio::test]
async fn observer_is_notified_of_new_components_only() {
    let stage = Stage::new();
    for name in ["a", "b", "c"] {
        stage.write(&format!("{name}.wasm"), skill_described_as(name));
    }
    let session = stage.session().await;
    assert_eq!(stage.told(), ["0/3", "1/3", "2/3", "3/3", "over"]);
    let outcome = session.submit("/reload_skills").await;
    assert_eq!(outcome.message, "Reloaded skills for current session. version=2 count=3");
    assert_eq!(stage.told(), [""; 0]);
    stage.write("d.wasm", skill_described_as("d"));
    // The same bytes under another name are not a new component.
    stage.write("e.wasm", skill_described_as("a"));
    session.submit("/reload_skills").await;
    assert_eq!(stage.told(), ["0/1", "1/1", "over"]);
    assert_eq!(shown(&session).0, ["a: a", "b: b", "c: c", "d: d", "e: a"]);
    // Another process uses the cached descriptions instead.
    drop(session);
    stage.session().await;
    assert_eq!(stage.told(), [""; 0]);
}

#[tokio::test]
async fn cancelled_load_reports_its_end_to_the_observer() {
    let stage = Stage::new();
    stage.write("a.wasm", skill_described_as("a"));
    let begun = Arc::new(Notify::new());
    let tell = Arc::clone(&begun);
    stage.does(move |_, _| tell.notify_one());
    tokio::select! {
        biased;
        () = begun.notified() => {}
        _ = stage.session() => panic!("it was there before it had begun"),
    }
    assert_eq!(stage.told(), ["0/1", "over"]);
}

#[tokio::test]
async fn component_changed_before_describe_is_read_again() {
    let stage = Stage::new();
    stage.write("a.wasm", skill_described_as("before"));
    let path = stage.path("a.wasm");
    stage.does(move |_, _| fs::write(&path, skill_described_as("after")).unwrap());
    let session = stage.session().await;
    assert_eq!(shown(&session), (vec!["a: after".to_owned()], vec![]));
    assert_eq!(stage.told(), ["0/1", "1/1", "0/1", "1/1", "over"], "the first answer is that there is none");
}

#[tokio::test]
async fn component_changed_before_storing_is_read_again() {
    let stage = Stage::new();
    stage.write("a.wasm", skill_described_as("before"));
    let path = stage.path("a.wasm");
    let looks = AtomicUsize::new(0);
    stage.does(move |done, total| {
        if done == total && looks.fetch_add(1, Ordering::Relaxed) == 0 {
            fs::write(&path, skill_described_as("after")).unwrap();
        }
    });
    let session = stage.session().await;
    assert_eq!(shown(&session), (vec!["a: after".to_owned()], vec![]));
    // The bytes are stored even if the file disappears.
    fs::remove_file(stage.path("a.wasm")).unwrap();
    assert_eq!(session.submit("/skill a {\"b\": 1}").await.message, "{\"b\":1}");
}

#[tokio::test]
async fn constantly_changing_component_is_rejected() {
    for when in ["asked", "stored"] {
        let stage = Stage::new();
        stage.write("a.wasm", skill_described_as("a"));
        stage.write("b.wasm", skill_described_as("b"));
        let path = stage.path("a.wasm");
        let mut count = 0;
        stage.does(move |done, total| {
            if (done == 0) == (when == "asked") && (when == "asked" || done == total) {
                count += 1;
                fs::write(&path, skill_described_as(&count.to_string())).unwrap();
            }
        });
        let session = stage.session().await;
        let words = "a [invalid_component] The skill changed while it was read. To read it again: /reload_skills";
        assert_eq!(shown(&session), (vec!["b: b".to_owned()], vec![words.to_owned()]), "{when}");
        *stage.seen.does.lock().unwrap() = None;
        session.submit("/reload_skills").await;
        assert_eq!(shown(&session), (vec!["a: 3".to_owned(), "b: b".to_owned()], vec![]), "{when}");
    }
}

#[tokio::test]
async fn component_deleted_while_loading_is_skipped() {
    let stage = Stage::new();
    stage.write("a.wasm", skill_described_as("a"));
    let path = stage.path("a.wasm");
    stage.does(move |_, _| drop(fs::remove_file(&path)));
    assert_eq!(shown(&*stage.session().await), (vec![], vec![]));
}

/// The compiler is a script that waits until a second instance is running, and then reports that the component is invalid.
#[cfg(unix)]
#[tokio::test]
async fn components_are_compiled_on_all_cores() {
    let stage = Stage::new();
    let running = stage.patchbay.folder().join("running");
    fs::create_dir(&running).unwrap();
    let cores = std::thread::available_parallelism().unwrap().get();
    // A second compiler may start late on a busy machine; with a single core there is none.
    let waits = if cores > 1 { 1_200 } else { 40 };
    let script = format!(
        ": > '{0}'/$$\nn=0\nwhile [ $n -lt {waits} ]; do\n  set -- '{0}'/*\n  [ $# -ge 2 ] && {{ echo together >&2; exit 1; \
         }}\n  /bin/sleep 0.05\n  n=$((n + 1))\ndone\necho alone >&2\nexit 1\n",
        running.display()
    );
    for name in ["a", "b"] {
        stage.write(&format!("{name}.wasm"), skill_described_as(name));
    }
    // Not a script file: a file that was just written cannot be executed while a process that another test is starting has it open.
    let host = stage.host_with(Compiler {
        program: "/bin/sh".into(),
        arguments: vec!["-c".to_owned(), script],
        keeps_functions: false,
    });
    let session = host.new_session(&stage.patchbay.workspace()).await.unwrap();
    // With a single core the compilers run one after another, so the first one waits in vain.
    let first = if cores > 1 { "together" } else { "alone" };
    let words = |words: &str| words.split_whitespace().last().unwrap().trim_end_matches('.').to_owned();
    let said: Vec<_> = session.snapshot().diagnostics().iter().map(|one| words(&one.message)).collect();
    assert_eq!(said, [first, "together"]);
}
