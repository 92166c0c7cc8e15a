//! The cache of skill files: unchanged files are not read again, and every change is detected.

use std::{fs, path::PathBuf, thread, time::Duration};

use patchbay_core::Digest;
use patchbay_tests::{answers::Answer, binary::Patchbay, guest::Guest};
use rusqlite::params;

/// Returns a skill in one file whose alias `/NAME` returns `text`.
fn says(name: &str, text: &str) -> Vec<u8> {
    let skill_md = format!(
        "---\nsummary: Says {text}\ninvocation_mode: tool_dispatch\ncommand: {name}\ncommand_tool: run\ncapabilities: \
         [{{name: kv}}]\n---\n"
    );
    Guest::answering(text).packaged(&skill_md)
}

/// A home with skills, and access to its file cache.
struct Home(Patchbay);

impl Home {
    fn new() -> Self {
        Self(Patchbay::new())
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.home().join("config/skills").join(file)
    }

    fn write(&self, file: &str, bytes: impl AsRef<[u8]>) {
        self.0.write(&format!("home/config/skills/{file}"), bytes);
    }

    /// Returns the cached files.
    fn cached_files(&self) -> Vec<String> {
        let database = self.0.database("patchbay.db");
        let mut query = database.prepare("SELECT file FROM seen ORDER BY file").unwrap();
        query.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    }

    /// Creates sessions until exactly these files are cached. A file is cached once it has been unchanged for a while.
    fn wait_for_cached(&self, files: &[&str]) {
        for _ in 0..300 {
            self.skills();
            if self.cached_files() == files {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("the cached files are {:?}, not {files:?}", self.cached_files());
    }

    /// Returns the result of `/skills` in a new session.
    fn skills(&self) -> Answer {
        self.0.answers(&["/skills"]).remove(0)
    }

    /// Returns the summary of a skill and the digest of its component, in a new session.
    fn skill(&self, name: &str) -> (String, String) {
        let answer = self.skills();
        let skill = answer.data()["skills"].as_array().unwrap().iter().find(|skill| skill["name"] == name);
        let skill = skill.unwrap_or_else(|| panic!("no skill {name}: {}", answer.message()));
        (skill["summary"].as_str().unwrap().to_owned(), skill["component"].as_str().unwrap_or_default().to_owned())
    }
}

/// The test writes a wrong summary into the cache. If it is shown, the file was not read.
#[test]
fn unchanged_file_is_not_read() {
    let home = Home::new();
    home.write("one.wasm", says("one", "1"));
    home.write("two/SKILL.md", "---\nsummary: Two\n---\n");
    home.write("two/code.wasm", says("two", "2"));
    home.wait_for_cached(&["one.wasm", "two/SKILL.md", "two/code.wasm"]);
    let manifest =
        "UPDATE seen SET skill_md = json_set(skill_md, '$.manifest.Ok.summary', 'Remembered') WHERE file = ?";
    for file in ["one.wasm", "two/SKILL.md"] {
        assert_eq!(home.0.database("patchbay.db").execute(manifest, [file]).unwrap(), 1);
    }
    assert_eq!(home.skill("one").0, "Remembered");
    assert_eq!(home.skill("two").0, "Remembered");
    let mut live = home.0.live(&[]);
    assert_eq!(live.message("/reload_skills"), "Reloaded skills for current session. version=2 count=10");
    // After writing the same bytes again, the file is read and the real summary is shown.
    home.write("one.wasm", says("one", "1"));
    assert_eq!(live.message("/reload_skills"), "Reloaded skills for current session. version=3 count=10\n~ one");
    assert_eq!(home.skill("one").0, "Says 1");
    assert_eq!(home.skill("two").0, "Remembered");
}

#[test]
fn removed_files_leave_the_cache_and_gc_clears_it() {
    let home = Home::new();
    home.write("one.wasm", says("one", "1"));
    home.write("two.wasm", says("two", "2"));
    home.wait_for_cached(&["one.wasm", "two.wasm"]);
    fs::remove_file(home.path("two.wasm")).unwrap();
    home.wait_for_cached(&["one.wasm"]);
    assert_eq!(home.0.run(&["sessions", "gc"]).code, Some(0));
    assert_eq!(home.cached_files(), [""; 0]);
    home.wait_for_cached(&["one.wasm"]);
}

/// If the cache contains the digest of another component, that component runs, but without the grant that was given for the real
/// one.
#[test]
fn wrong_cache_entry_never_changes_a_component_identity() {
    let home = Home::new();
    let (mine, yours) = (says("mine", "of mine"), says("yours", "of yours"));
    home.write("mine.wasm", &mine);
    home.write("yours.wasm", &yours);
    home.wait_for_cached(&["mine.wasm", "yours.wasm"]);
    assert_eq!(home.0.run(&["grant", "add", "mine", "kv"]).code, Some(0));
    let granted = "- `capabilities`: kv (granted)";
    assert!(home.0.line("/help mine").contains(granted), "{}", home.0.line("/help mine"));

    let lie = "UPDATE seen SET digest = ? WHERE file = 'mine.wasm'";
    home.0.database("patchbay.db").execute(lie, params![Digest::of(&yours).to_string()]).unwrap();
    assert_eq!(home.skill("mine").1, Digest::of(&yours).to_string());
    assert_eq!(home.0.line("/mine {}"), "of yours", "the bytes are those of the digest");
    assert!(!home.0.line("/help mine").contains(granted), "{}", home.0.line("/help mine"));

    // No component has this digest, so the file is read again, and its content runs under its real digest.
    home.0.database("patchbay.db").execute(lie, params![Digest::of(b"nothing").to_string()]).unwrap();
    assert_eq!(home.skill("mine").1, Digest::of(&mine).to_string());
    assert_eq!(home.0.line("/mine {}"), "of mine");
    home.wait_for_cached(&["mine.wasm", "yours.wasm"]);
}

/// All versions have the same size, and follow each other so quickly that their timestamps may be equal.
#[test]
fn immediate_rewrite_of_a_file_is_detected() {
    let home = Home::new();
    let mut live = home.0.live(&[]);
    home.write("one.wasm", says("one", "0"));
    live.message("/reload_skills");
    for n in 1..10 {
        home.write("one.wasm", says("one", &n.to_string()));
        let version = n + 2;
        let words = format!("Reloaded skills for current session. version={version} count=9\n~ one");
        assert_eq!(live.message("/reload_skills"), words);
        assert_eq!(live.message("/one {}"), n.to_string());
    }
}

#[test]
fn change_with_restored_timestamps_is_detected() {
    let home = Home::new();
    home.write("one.wasm", says("one", "1"));
    home.write("two.wasm", says("two", "2"));
    home.wait_for_cached(&["one.wasm", "two.wasm"]);
    let mut live = home.0.live(&[]);
    let reloaded = |version: u32, changed: &str| {
        format!("Reloaded skills for current session. version={version} count=10{changed}")
    };
    assert_eq!(live.message("/reload_skills"), reloaded(2, ""));

    // Written in place, with its old timestamp restored.
    let time = fs::metadata(home.path("one.wasm")).unwrap().modified().unwrap();
    let set_back = |file: &str| {
        fs::File::options().write(true).open(home.path(file)).unwrap().set_modified(time).unwrap();
    };
    home.write("one.wasm", says("one", "3"));
    set_back("one.wasm");
    assert_eq!(live.message("/reload_skills"), reloaded(3, "\n~ one"));
    assert_eq!(live.message("/one {}"), "3");

    // Replaced by another file with the same timestamp and size.
    home.write("new", says("one", "4"));
    set_back("new");
    fs::rename(home.path("new"), home.path("one.wasm")).unwrap();
    assert_eq!(live.message("/reload_skills"), reloaded(4, "\n~ one"));
    assert_eq!(live.message("/one {}"), "4");

    // Two unchanged files that swap names.
    home.wait_for_cached(&["one.wasm", "two.wasm"]);
    assert_eq!(live.message("/reload_skills"), reloaded(5, ""));
    for (from, to) in [("one.wasm", "between"), ("two.wasm", "one.wasm"), ("between", "two.wasm")] {
        fs::rename(home.path(from), home.path(to)).unwrap();
    }
    assert_eq!(live.message("/reload_skills"), reloaded(6, "\n~ one\n~ two"));
    assert_eq!((live.message("/skill one {}"), live.message("/skill two {}")), ("2".to_owned(), "4".to_owned()));
}
