//! Files in the user's editor: the skill `files` reads unsaved text and writes through the editor, with the same protected files.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use futures_util::future::BoxFuture;
use patchbay_sandbox::Limits;
use patchbay_session::Editor;
use patchbay_tests::{
    binary::Patchbay,
    guest,
    play::{Play, quick_demo},
};
use serde_json::{Value, json};

use crate::searching::searching;

/// An editor whose file contents differ from those on disk.
#[derive(Default)]
struct FakeEditor {
    texts: Mutex<BTreeMap<PathBuf, String>>,
    reads: Mutex<Vec<PathBuf>>,
    refuses: bool,
    only_writes: bool,
}

impl Editor for FakeEditor {
    fn can_read(&self) -> bool {
        !self.only_writes
    }

    fn can_write(&self) -> bool {
        true
    }

    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, String>> {
        self.reads.lock().unwrap().push(path.to_owned());
        let text = self.texts.lock().unwrap().get(path).cloned();
        let text = text.filter(|_| !self.refuses).ok_or_else(|| "the\u{202e} buffer\nis locked".to_owned());
        Box::pin(async { text })
    }

    fn write<'a>(&'a self, path: &'a Path, text: &'a str) -> BoxFuture<'a, Result<(), String>> {
        let written = if self.refuses { Err("the file is read-only here".to_owned()) } else { Ok(()) };
        if written.is_ok() {
            self.texts.lock().unwrap().insert(path.to_owned(), text.to_owned());
        }
        Box::pin(async { written })
    }
}

/// A session with the skills `files` and `grep`, and all their grants.
async fn play() -> Play {
    let patchbay = Patchbay::new();
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins");
    for skill in ["files", "grep"] {
        for (file, from) in [("SKILL.md", format!("skills/{skill}/SKILL.md")), ("x.wasm", format!("dist/{skill}.wasm"))]
        {
            let contents = fs::read(plugins.join(from)).unwrap();
            patchbay.write(&format!("home/config/skills/{skill}/{file}"), contents);
        }
    }
    patchbay.grant("files", &["workspace-read", "workspace-write"]);
    patchbay.grant("grep", &["workspace-read"]);
    Play::at(patchbay, quick_demo(), Limits::default()).await
}

impl FakeEditor {
    fn open(self, play: &Play, path: &str, text: impl Into<String>) -> Arc<Self> {
        let workspace = play.patchbay.workspace().canonicalize().unwrap();
        self.texts.lock().unwrap().insert(workspace.join(path), text.into());
        let editor = Arc::new(self);
        play.session.set_editor(editor.clone());
        editor
    }

    fn text(&self, path: &str) -> Option<String> {
        self.texts.lock().unwrap().iter().find(|(file, _)| file.ends_with(path)).map(|(_, text)| text.clone())
    }
}

/// Lets the model call a tool, and returns the envelope of its result.
async fn call(play: &Play, tool: &str, input: Value) -> Value {
    play.run(&format!("call {tool} {input}")).await;
    play.results(play.session.view()).await.pop().unwrap()
}

#[tokio::test]
async fn unsaved_text_is_read_and_edited_in_the_editor() {
    let play = play().await;
    play.patchbay.write("workspace/src/a.txt", "saved\n");
    let editor = FakeEditor::default().open(&play, "src/a.txt", "not saved\n");
    let read = call(&play, "files__read", json!({"path": "src/a.txt"})).await;
    assert!(read["result"].to_string().contains("not saved"), "{read}");
    let edit = json!({"path": "src/a.txt", "old": "not saved", "new": "edited"});
    assert_eq!(call(&play, "files__edit", edit).await["tool_success"], true);
    let write = json!({"path": "new/b.txt", "text": "made"});
    assert_eq!(call(&play, "files__write", write).await["tool_success"], true);
    assert_eq!(
        (editor.text("src/a.txt").as_deref(), editor.text("new/b.txt").as_deref()),
        (Some("edited\n"), Some("made"))
    );
    // The editor saves files, not Patchbay.
    let on_disk = fs::read_to_string(play.patchbay.workspace().join("src/a.txt")).unwrap();
    assert_eq!((&*on_disk, play.patchbay.workspace().join("new/b.txt").exists()), ("saved\n", false));
    // A skill that only reads files searches the disk.
    let found = call(&play, "grep__search", json!({"pattern": "saved|edited"})).await;
    assert!(found["result"].to_string().contains("saved") && !found.to_string().contains("edited"), "{found}");
}

#[tokio::test]
async fn editor_is_asked_once_for_a_long_text() {
    let play = play().await;
    play.patchbay.write("workspace/long.txt", "short");
    // More than the skill reads at a time.
    let long = "0123456789abcde\n".repeat(100_000);
    let editor = FakeEditor::default().open(&play, "long.txt", &*long);
    let edit = json!({"path": "long.txt", "old": "short", "new": "x"});
    let refused = call(&play, "files__edit", edit).await;
    assert!(refused["error"].as_str().unwrap().contains("does not occur"), "{refused}");
    assert_eq!(editor.reads.lock().unwrap().len(), 1);
    // More than the host accepts.
    let path = editor.texts.lock().unwrap().keys().next().unwrap().clone();
    editor.texts.lock().unwrap().insert(path, "x".repeat((4 << 20) + 1));
    let refused = call(&play, "files__read", json!({"path": "long.txt"})).await;
    let error = "the editor could not read 'long.txt': its text has 4194305 bytes; the limit is 4194304";
    assert!(refused["error"].as_str().unwrap().contains(error), "{refused}");
}

#[tokio::test]
async fn guard_decides_before_the_editor() {
    let play = play().await;
    play.patchbay.write("outside.txt", "secret");
    play.patchbay.write("workspace/.git/config", "git");
    play.patchbay.write("workspace/binary", b"\0\0");
    #[cfg(unix)]
    std::os::unix::fs::symlink("../outside.txt", play.patchbay.workspace().join("link")).unwrap();
    let editor = FakeEditor::default().open(&play, "link", "leaked");
    for path in ["link", "../outside.txt", ".git/config", "missing.txt", "binary"] {
        let read = call(&play, "files__read", json!({ "path": path })).await;
        assert_eq!(read["tool_success"], false, "{path}: {read}");
        let write = call(&play, "files__write", json!({"path": path, "text": "x"})).await;
        assert_eq!(write["tool_success"], path == "missing.txt" || path == "binary", "{path}: {write}");
    }
    assert_eq!(*editor.reads.lock().unwrap(), Vec::<PathBuf>::new());
    assert_eq!(fs::read_to_string(play.patchbay.folder().join("outside.txt")).unwrap(), "secret");
}

#[tokio::test]
async fn refusal_of_the_editor_is_the_error_of_the_tool() {
    let play = play().await;
    play.patchbay.write("workspace/a.txt", "saved");
    FakeEditor { refuses: true, ..FakeEditor::default() }.open(&play, "a.txt", "");
    let read = call(&play, "files__read", json!({"path": "a.txt"})).await;
    let error = "the editor could not read 'a.txt': the buffer is locked";
    assert!(read["error"].as_str().unwrap().contains(error), "{read}");
    let write = call(&play, "files__write", json!({"path": "a.txt", "text": "x"})).await;
    let error = "the editor could not write 'a.txt': the file is read-only here";
    assert!(write["error"].as_str().unwrap().contains(error), "{write}");
    assert_eq!(fs::read_to_string(play.patchbay.workspace().join("a.txt")).unwrap(), "saved");
    // This editor cannot read files, so the disk is read.
    FakeEditor { only_writes: true, ..FakeEditor::default() }.open(&play, "a.txt", "not saved");
    let read = call(&play, "files__read", json!({"path": "a.txt"})).await;
    assert!(read["result"].to_string().contains("saved") && !read.to_string().contains("not saved"), "{read}");
}

/// A home with the skill `first`, which searches for a needle. It also requests write access, so it reads through the editor.
fn home_with_search() -> Patchbay {
    let patchbay = Patchbay::new();
    let skill_md = "---\ncapabilities: [{name: workspace-read}, {name: workspace-write, optional: true}]\n---\n";
    patchbay.write("home/config/skills/first.wasm", guest::package(searching(), skill_md));
    patchbay.grant("first", &["workspace-read"]);
    patchbay
}

/// A search by a skill that also requests write access. Without the editor, no file would match.
#[tokio::test]
async fn search_of_few_files_sees_unsaved_text() {
    let patchbay = home_with_search();
    for file in ["a.txt", "b.txt", "c.txt"] {
        patchbay.write(&format!("workspace/{file}"), "hay");
    }
    let play = Play::at(patchbay, quick_demo(), Limits::default()).await;
    let editor = FakeEditor::default().open(&play, "b.txt", "a needle");
    let found = call(&play, "first__run", json!({})).await;
    assert_eq!(found["result"], "b.txt", "{found}");
    assert_eq!(editor.reads.lock().unwrap().len(), 3);
}

/// The editor's texts have no match, so a result shows that the disk was searched.
#[tokio::test]
async fn search_of_more_text_than_fits_uses_the_disk() {
    let patchbay = home_with_search();
    let files = ["a.txt", "b.txt", "c.txt", "d.txt", "e.txt"];
    for file in files {
        patchbay.write(&format!("workspace/{file}"), "a needle");
    }
    let play = Play::at(patchbay, quick_demo(), Limits::default()).await;
    let workspace = play.patchbay.workspace().canonicalize().unwrap();
    let texts = files.map(|file| (workspace.join(file), "hay ".repeat(1 << 20)));
    let editor = Arc::new(FakeEditor { texts: Mutex::new(texts.into()), ..FakeEditor::default() });
    play.session.set_editor(editor);
    let found = call(&play, "first__run", json!({})).await;
    assert_eq!(found["result"], "a.txt", "{found}");
}
