//! `patchbay plugin dev`: saving repeats the last call, with recorded answers for its effects outside of the sandbox.

use std::{
    fs,
    io::{Read as _, Write as _, pipe},
    process::{Child, ChildStdin, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::{
    binary::Patchbay,
    calls::{fetching, storing},
    guest::Guest,
    server::{self, Server},
};
use serde_json::{Value, json};

/// A running `plugin dev` on pipes.
struct Development {
    child: Child,
    typed: Option<ChildStdin>,
    shown: Arc<Mutex<String>>,
    /// How many bytes of the output the test has consumed.
    seen: usize,
}

impl Development {
    fn start(patchbay: &Patchbay, arguments: &[&str]) -> Self {
        let (mut reader, writer) = pipe().unwrap();
        let mut command = patchbay.command(&[&["plugin", "dev"], arguments].concat());
        command.stdin(Stdio::piped()).stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut child = command.spawn().unwrap();
        // This drops the command's copies of the writing ends.
        drop(command);
        let shown: Arc<Mutex<String>> = Arc::default();
        let out = Arc::clone(&shown);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut piece) {
                out.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..read]));
            }
        });
        let typed = child.stdin.take();
        Self { child, typed, shown, seen: 0 }
    }

    fn type_line(&mut self, line: &str) {
        writeln!(self.typed.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits for `words`, and returns the output up to them since the last wait.
    fn wait_for(&mut self, words: &str) -> String {
        let start = Instant::now();
        loop {
            let all = self.shown.lock().unwrap().clone();
            if let Some(at) = all[self.seen..].find(words) {
                let found = all[self.seen..self.seen + at + words.len()].to_owned();
                self.seen += found.len();
                return found;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "no {words:?} in: {}", &all[self.seen..]);
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the process by closing its input.
    fn end(mut self) -> String {
        drop(self.typed.take());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        self.shown.lock().unwrap().clone()
    }
}

impl Drop for Development {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

fn skill_md(capabilities: &str) -> String {
    format!("---\nname: plug\ncapabilities: [{capabilities}]\n---\n")
}

/// Replaces the component, as a build would.
fn save(patchbay: &Patchbay, component: Vec<u8>) {
    patchbay.write("workspace/new", component);
    let folder = patchbay.workspace();
    fs::rename(folder.join("new"), folder.join("plug/plug.wasm")).unwrap();
}

fn fixture(patchbay: &Patchbay, name: &str) -> Value {
    let text = fs::read(patchbay.workspace().join("plug/fixtures").join(name)).unwrap();
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn save_repeats_the_last_call_and_shows_what_changed() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/plug/plug.wasm", Guest::answering("one").packaged(&skill_md("")));
    let mut dev = Development::start(&patchbay, &["plug"]);
    dev.wait_for("tools: run\n");
    dev.wait_for("'help' lists what you can type.\n");
    dev.type_line("run {\"a\": 1}");
    assert!(dev.wait_for("\nused: ").starts_with("one"));
    let mut guest = Guest::answering("two");
    guest.tools[0].2 = r#"{"type":"object","properties":{"a":{"type":"integer"}}}"#.to_owned();
    save(&patchbay, guest.packaged(&skill_md("{name: kv, reason: remembers}")));
    dev.wait_for("saved: plug.wasm\n");
    let changes = dev.wait_for("Grant kv to plug until this command ends (remembers)? y or n:\n");
    assert!(changes.contains("schema of run:\n") && changes.contains("  +     type: integer\n"), "{changes}");
    assert!(changes.contains("capabilities:\n  + kv\n") && changes.contains("size: "), "{changes}");
    assert!(!changes.contains("repeated"), "{changes}");
    dev.type_line("y");
    dev.wait_for("repeated run in ");
    dev.wait_for(": changed\nresult:\n  - text: one\n  + text: two\n");
    dev.type_line("fixture first");
    dev.wait_for("Kept as fixtures/first.json. 'patchbay plugin test' runs it.\n");
    let kept = json!({"fixture": 1, "tool": "run", "input": {"a": 1}, "result": [{"text": "two"}]});
    assert_eq!(fixture(&patchbay, "first.json"), kept);
    dev.type_line("run {\"a\": \"x\"}");
    dev.wait_for("at /a: \"x\" is not of type \"integer\"");
    dev.type_line("nope");
    dev.wait_for("Error: plug has no tool 'nope'; its tools: run. [tool_not_found]\n");
    let all = dev.end();
    assert!(!all.contains("panicked"), "{all}");
    assert_eq!(patchbay.run(&["plugin", "test", "plug"]).code, Some(0));
    // Nothing stays granted, and the home's journal has no call.
    assert!(!patchbay.run(&["grant", "list"]).out.contains("plug"));
    assert!(!patchbay.run(&["journal"]).out.contains("plug"));
}

#[test]
fn call_with_a_credential_is_repeated_against_its_recorded_answers() {
    let mut patchbay = Patchbay::new();
    let server = Server::new(|request| server::page(&format!("recorded {}", request.contains("canary-secret"))));
    let (host, url) = (server.host(), format!("http://{}/a", server.host()));
    let origin = format!("[credentials.shop]\norigin = \"http://{host}\"\n");
    patchbay.write("home/config/config.toml", origin);
    patchbay.set("SHOP_TOKEN", "canary-secret");
    let manifest = skill_md(&format!("{{name: http, scope: \"{host}\"}}, {{name: credential, scope: shop}}"));
    let shop = Some(("shop", "authorization", "Bearer "));
    patchbay.write("workspace/plug/plug.wasm", fetching(&url, shop, "").packaged(&manifest));
    let (http, credential) = (format!("http:{host}"), "credential:shop");
    let mut dev = Development::start(&patchbay, &["plug", "--grant", &http, "--grant", credential]);
    dev.wait_for("'help' lists");
    dev.type_line("run");
    dev.wait_for("recorded true\nused: ");
    assert_eq!(server.requests().len(), 1);
    // The component changes, the request does not.
    let same = fetching(&url, shop, "").with("(func $unused)").packaged(&manifest);
    save(&patchbay, same);
    let used = format!("repeated run against its recorded answers (it used: GET {url} with credential shop) in ");
    dev.wait_for(&used);
    dev.wait_for(": nothing changed\n");
    // A changed request has no recorded answer until the call runs live.
    let other = format!("http://{host}/b");
    save(&patchbay, fetching(&other, shop, "").packaged(&manifest));
    dev.wait_for(&format!("host call 1, http.send, url:\n  - {url}\n  + {other}\n"));
    dev.wait_for("Press Enter to run the call live.\n");
    dev.type_line("fixture");
    dev.wait_for("Error: the last call needed answers that were not recorded.");
    assert_eq!(server.requests().len(), 1);
    dev.type_line("");
    dev.wait_for("recorded true\nused: ");
    assert_eq!(server.requests().len(), 2);
    dev.type_line("fixture");
    dev.wait_for("Kept as fixtures/run.json.");
    assert!(!dev.end().contains("canary"));
    let kept = fixture(&patchbay, "run.json");
    let auth = json!([{"credential": "shop", "header": ["authorization", "Bearer "]}]);
    assert_eq!((&kept["host"][0]["with"]["auth"], kept.to_string().contains("canary")), (&auth, false));
    let tested = patchbay.run(&["plugin", "test", "plug"]);
    assert_eq!((tested.code, server.requests().len()), (Some(0), 2), "{tested:?}");
}

#[test]
fn store_and_files_are_copies_unless_the_workspace_is_named() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/plug/plug.wasm", storing().packaged(&skill_md("{name: kv}")));
    let mut dev = Development::start(&patchbay, &["plug", "--grant", "kv"]);
    dev.wait_for("'help' lists");
    dev.type_line("run");
    dev.wait_for("{}\nused: ");
    dev.type_line("fixture new");
    dev.wait_for("Kept as");
    let kv = json!({"before": {}, "after": {"user": {"k": "value"}}});
    assert_eq!(
        (&fixture(&patchbay, "new.json")["kv"], &fixture(&patchbay, "new.json")["grants"]),
        (&kv, &json!(["kv"]))
    );
    // The next call finds the stored entry. A repeated call starts with the store as it was before that call.
    for name in ["second", "again"] {
        dev.type_line(if name == "second" { "run" } else { "" });
        dev.wait_for("{}\nused: ");
        dev.type_line(&format!("fixture {name}"));
        dev.wait_for("Kept as");
        assert_eq!(fixture(&patchbay, &format!("{name}.json"))["kv"], json!({"before": {"user": {"k": "value"}}}));
    }
    dev.end();
    assert_eq!(patchbay.run(&["plugin", "test", "plug"]).code, Some(0));

    let manifest = skill_md("{name: workspace-read}, {name: workspace-write}");
    save(&patchbay, patchbay_tests::calls::copying().packaged(&manifest));
    let grants = ["--grant", "workspace-read", "--grant", "workspace-write"];
    patchbay.write("workspace/real/a", "text");
    let mut dev = Development::start(&patchbay, &[&["plug", "--workspace", "real"], &grants[..]].concat());
    dev.wait_for("'help' lists");
    dev.type_line("run");
    dev.wait_for("file: b (new)\n");
    assert_eq!(fs::read_to_string(patchbay.workspace().join("real/b")).unwrap(), "text");
    fs::remove_file(patchbay.workspace().join("real/b")).unwrap();
    save(&patchbay, patchbay_tests::calls::copying().with("(func $unused)").packaged(&manifest));
    dev.wait_for("repeated run against its recorded answers (it used: write b) in ");
    dev.wait_for(": nothing changed\n");
    assert!(!patchbay.workspace().join("real/b").exists(), "the repeated call wrote into the user's folder");
    dev.type_line("fixture copied");
    dev.wait_for("Kept as");
    let files = json!({"before": {"a": "text"}, "after": {"a": "text", "b": "text"}});
    assert_eq!(fixture(&patchbay, "copied.json")["files"], files);
    dev.end();
    let tested = patchbay.run(&["plugin", "test", "plug", "--filter", "copied"]);
    assert_eq!(tested.code, Some(0), "{tested:?}");
}
