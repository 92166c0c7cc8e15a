//! `/undo` and `/diff`: files get back the contents that they had before a turn or a command changed them.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::{
    PATIENCE,
    binary::{Patchbay, Ran},
};
use serde_json::json;

/// Returns a home in which the bundled skill `files` may change files.
pub fn patchbay() -> Patchbay {
    let patchbay = Patchbay::quick();
    let granted = patchbay.run(&["grant", "add", "--root", "bundled", "files", "workspace-write", "workspace-delete"]);
    assert_eq!(granted.code, Some(0), "{granted:?}");
    patchbay
}

/// Runs lines in the last session.
pub fn again(patchbay: &Patchbay, lines: &[&str]) -> Ran {
    patchbay.run(&[&["exec", "--keep-going", "--session", &patchbay.last_session()][..], lines].concat())
}

pub fn write(path: &str, text: &str) -> String {
    format!("call files__write {}", json!({"path": path, "text": text}))
}

/// Returns the path, permission bits and contents of each file in the workspace.
pub fn tree(patchbay: &Patchbay) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut files = BTreeMap::new();
    let mut folders = vec![patchbay.workspace()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(patchbay.workspace()).unwrap().to_str().unwrap().to_owned();
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            files.insert(name, (mode, fs::read(&path).unwrap()));
        }
    }
    files
}

const PATCH: &str = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+A\n--- /dev/null\n+++ b/d/y\n@@ -0,0 +1 @@\n+1\n--- a/z\n\
                     +++ /dev/null\n@@ -1 +0,0 @@\n-z\n";

#[test]
fn changes_are_taken_back_and_come_back() {
    let patchbay = patchbay();
    patchbay.write("workspace/x", "a\nb\n");
    patchbay.write("workspace/z", "z\n");
    fs::set_permissions(patchbay.workspace().join("z"), fs::Permissions::from_mode(0o750)).unwrap();
    let before = tree(&patchbay);
    let patch = format!("call files__patch {}", json!({"patch": PATCH}));
    assert_eq!(patchbay.exec(&[&patch]).code, Some(0));
    let after = tree(&patchbay);

    let shown = again(&patchbay, &["/diff"]).out;
    let difference = "Created d/y: +1\n1 + 1\nChanged x: +1 −1\n1 - a\n1 + A\n2   b\nDeleted z: −1\n1 - z";
    assert!(shown.starts_with(&format!("Change 1: 3 files.\n{difference}\nTo undo it: /undo 1")), "{shown}");
    assert_eq!(tree(&patchbay), after, "/diff changes nothing");

    let undone = again(&patchbay, &["/undo"]).out;
    assert!(undone.starts_with("Undid change 1: 3 files.\nDeleted d/y: −1\n1 - 1\nChanged x: +1 −1\n"), "{undone}");
    assert!(undone.contains("\nTo redo it: /undo 2\n"), "{undone}");
    assert_eq!(tree(&patchbay), before);

    // `/undo` skips earlier undos, which can be reverted by their numbers.
    let ran = again(&patchbay, &["/undo", "/undo 1", "/undo 2", "/undo 7", "/undo x"]);
    assert!(ran.out.starts_with("Undid change 2: 3 files.\n"), "{ran:?}");
    for error in [
        "no file changes to undo here.",
        "change 1 is already undone.",
        "change 7 was not found.",
        "/undo requires the number of a change, --only, or nothing.",
    ] {
        assert!(ran.err.contains(error), "{error}: {}", ran.err);
    }
    // Undoing the undo applies the patch again, which deletes the executable `z`.
    assert_eq!(tree(&patchbay), after);
    assert!(again(&patchbay, &["/undo"]).out.starts_with("Undid change 1: 3 files.\n"));
    assert_eq!(tree(&patchbay), before);
}

/// The model is told about an undo once, before the next message.
#[test]
fn model_is_told_of_an_undo() {
    let patchbay = patchbay();
    assert_eq!(patchbay.exec(&[&write("a.txt", "a\n"), &write("b.txt", "b\n")]).code, Some(0));
    let ran = again(&patchbay, &["/undo", "/undo", "/context", "hi", "again"]);
    let told = |change: u32, file: &str| {
        format!("[The user undid change {change}: 1 file restored to earlier contents: '{file}']\n")
    };
    let said = format!("You said: {}{}hi\nYou said: again\n", told(2, "b.txt"), told(1, "a.txt"));
    assert!(ran.out.ends_with(&said), "{ran:?}");
    // A resumed session sends the same bytes.
    let shown = again(&patchbay, &["show context"]).out;
    assert!(shown.contains(" user: text(71), text(71), text(2)\n"), "{shown}");
}

/// A file that changed since then is named and left as it is; the other files are restored.
#[test]
fn files_that_changed_since_stay() {
    let patchbay = patchbay();
    patchbay.write("workspace/mine.txt", "old\n");
    patchbay.write("workspace/two.txt", "old\n");
    let lines = [write("mine.txt", "new\n"), write("two.txt", "new\n"), write("two.txt", "newer\n")];
    // One turn with two calls, then another turn.
    let first = format!("{}\n{}", lines[0], lines[1]);
    assert_eq!(patchbay.exec(&[&first, &lines[2]]).code, Some(0));
    patchbay.write("workspace/mine.txt", "edited by hand\n");
    let ran = again(&patchbay, &["/undo 1"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.err.contains(
            "change 1 was not undone:\n- mine.txt: changed since, not by a tool of this session\n- two.txt: changed \
             since by change 2"
        ),
        "{}",
        ran.err
    );
    // Undone from newest to oldest, the second file goes all the way back.
    let ran = again(&patchbay, &["/undo", "/undo"]);
    assert!(ran.out.contains("Undid change 2: 1 file.") && ran.out.contains("Undid change 1: 1 file."), "{ran:?}");
    assert!(ran.out.contains("Not undone:\n- mine.txt: changed since, not by a tool of this session"), "{ran:?}");
    let text = |name: &str| fs::read_to_string(patchbay.workspace().join(name)).unwrap();
    assert_eq!((&*text("mine.txt"), &*text("two.txt")), ("edited by hand\n", "old\n"));
}

/// A turn includes the changes by agents that it forked, unless `--only` is given.
#[test]
fn changes_of_forked_agents_are_taken_back_with_their_turn() {
    let patchbay = patchbay();
    let fork = format!("call fork {}", json!({"prompt": write("child.txt", "child\n")}));
    let turn = format!("{}\n{fork}", write("own.txt", "own\n"));
    assert_eq!(patchbay.exec(&[&turn]).code, Some(0));
    assert_eq!(tree(&patchbay).keys().collect::<Vec<_>>(), ["child.txt", "own.txt"]);
    let ran = again(&patchbay, &["/undo --only"]);
    assert!(ran.out.starts_with("Undid change ") && ran.out.contains(": 1 file.\nDeleted own.txt"), "{ran:?}");
    assert_eq!(tree(&patchbay).keys().collect::<Vec<_>>(), ["child.txt"]);
    let ran = again(&patchbay, &["/undo"]);
    assert!(ran.out.contains(": 1 file.\nDeleted child.txt"), "{ran:?}");
    assert!(tree(&patchbay).is_empty());
}

#[test]
fn changes_of_killed_agents_are_taken_back_with_their_turn() {
    let patchbay = patchbay();
    let fork = format!("call fork {}", json!({"prompt": write("child.txt", "child\n")}));
    assert_eq!(patchbay.exec(&[&format!("{}\n{fork}", write("own.txt", "own\n"))]).code, Some(0));
    let ran = again(&patchbay, &["call kill {\"uuid\": \"$child1\"}", "/undo"]);
    assert!(ran.out.contains("Undid change ") && ran.out.contains(": 2 files.\n"), "{ran:?}");
    assert!(tree(&patchbay).is_empty());
}

/// A command that the user typed is a change of its own. A refused call stores nothing.
#[test]
fn commands_are_changes_of_their_own() {
    let patchbay = patchbay();
    let tool = |path: &str| format!("/tool files__write {}", json!({"path": path, "text": "x"}));
    let refused = patchbay.exec(&[&tool("a.txt"), &tool("b.txt"), &tool(".git/config"), "/undo"]);
    assert!(refused.out.contains("Undid change 2: 1 file.\nDeleted b.txt"), "{refused:?}");
    assert_eq!(tree(&patchbay).keys().collect::<Vec<_>>(), ["a.txt"]);
}

/// Number of files that [`with_files`] creates.
pub const FILES: usize = 40;

/// Returns a home whose workspace has many files, and the calls with which a model writes `after` to each of them.
pub fn with_files() -> (Patchbay, String) {
    let patchbay = patchbay();
    for number in 0..FILES {
        patchbay.write(&format!("workspace/{number}.txt"), format!("before {number}\n"));
    }
    let calls: Vec<String> = (0..FILES).map(|number| write(&format!("{number}.txt"), "after\n")).collect();
    (patchbay, calls.join("\n"))
}

/// Returns how many of these files a model has changed.
pub fn changed_files(patchbay: &Patchbay) -> usize {
    let text = |number: usize| fs::read(patchbay.workspace().join(format!("{number}.txt"))).unwrap();
    (0..FILES).filter(|number| text(*number) == b"after\n").count()
}

/// The process is killed while a turn changes files, and again while the changes are undone. All of them can still be undone.
#[test]
fn kills_lose_nothing_that_was_there() {
    let (patchbay, calls) = with_files();
    let before = tree(&patchbay);
    let changed = || changed_files(&patchbay);
    for kill_at in [1, 7, 23] {
        assert_eq!(patchbay.exec(&["hello"]).code, Some(0));
        let session = patchbay.last_session();
        kill_when(&patchbay, &["exec", "--session", &session, &calls], || changed() >= kill_at);
        assert!(changed() >= kill_at);
        kill_when(&patchbay, &["exec", "--session", &session, "/undo"], || changed() < kill_at);
        // Whatever the kill left is undone.
        let ran = patchbay.run(&["exec", "--session", &session, "/undo"]);
        let mut after = tree(&patchbay);
        // A kill can leave the temporary file of a write.
        after.retain(|name, _| name.ends_with(".txt"));
        assert!(after == before, "killed at {kill_at}: {} files are changed; {ran:?}", changed());
    }
}

/// Runs a command and kills it as soon as `reached` returns true, unless it has ended before.
pub fn kill_when(patchbay: &Patchbay, arguments: &[&str], reached: impl Fn() -> bool) {
    let mut child = patchbay.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + PATIENCE;
    while !reached() && child.try_wait().unwrap().is_none() && Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    child.wait().unwrap();
}
