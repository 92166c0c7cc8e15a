//! The bundled skills with host access: files, grep, web.

use std::{fs, path::Path};

use patchbay_tests::{binary::Patchbay, server::Server};
use serde_json::json;

/// Creates a home with commands for the tools of `files`, which otherwise only models call.
fn with_files() -> Patchbay {
    let patchbay = Patchbay::new();
    for tool in ["read", "list", "write", "edit", "patch", "delete"] {
        let frontmatter = format!(
            "command: {tool}\ninvocation_mode: tool_dispatch\ncommand_tool: files__{tool}\nrequires_tools: [files__{tool}]"
        );
        patchbay.skill(tool, &frontmatter, "");
    }
    patchbay
}

#[test]
fn files_are_listed_and_read() {
    let patchbay = with_files();
    patchbay.write("workspace/.gitignore", "*.log\n/target/\n");
    patchbay.write("workspace/src/main.rs", "fn main() {}\n");
    patchbay.write("workspace/docs/größe.md", "# Größe\n\nein Satz\n");
    patchbay.write("workspace/debug.log", "noise\n");
    patchbay.write("workspace/target/out", "noise\n");
    patchbay.write("workspace/image", b"\x89PNG\r\n\x1a\n\0\0");
    let mut live = patchbay.live(&[]);
    let listed = live.message("/list");
    assert_eq!(
        listed,
        ".gitignore (15 bytes)\ndocs/\ndocs/größe.md (20 bytes)\nimage (10 bytes)\nsrc/\nsrc/main.rs (13 bytes)"
    );
    assert_eq!(live.message(r#"/list {"glob": "src/**/*.rs"}"#), "src/main.rs (13 bytes)");
    assert_eq!(live.message(r#"/list {"glob": "*.py"}"#), "No files match '*.py'.");
    assert_eq!(live.message("/read docs/größe.md"), "# Größe\n\nein Satz");
    let range = live.answer(r#"/read {"path": "docs/größe.md", "first": 2, "lines": 1}"#);
    let shown = [
        json!({"type": "text", "text": "\n"}),
        json!({"type": "text", "text": "[Line 2 of 3. To continue: read with first 3.]"}),
    ];
    assert_eq!(range.data()["content"], json!(shown));
    assert_eq!(live.message("/read debug.log"), "noise", "what is ignored can be read all the same");
    assert_eq!(
        live.message("/read image"),
        "Error: 'image' is a binary file (byte 8 is NUL), and only text can be read"
    );
    for outside in ["../home/config/config.toml", "/etc/passwd"] {
        let answer = live.answer(&format!("/read {outside}"));
        assert_eq!((answer.code(), &answer.data()["kind"]), ("tool_failed", &json!("invalid")), "{}", answer.message());
        assert!(answer.message().contains("is not a path in the workspace"), "{}", answer.message());
    }
    let missing = live.answer("/read src/lib.rs");
    assert_eq!(missing.data()["kind"], "not-found", "{}", missing.message());
}

#[test]
fn files_are_written_after_a_grant() {
    let patchbay = with_files();
    let path = patchbay.workspace().join("src/größe.rs");
    let write = r#"/write {"path": "src/größe.rs", "text": "fn a() {}\nfn b() {}\n"}"#;
    let mut live = patchbay.live(&[]);
    let denied = live.answer(write);
    assert_eq!(denied.code(), "denied");
    assert_eq!(
        denied.message(),
        "Error: skill 'files' may not use 'workspace-write': it is not granted. To grant it: patchbay grant add --root bundled \
         files workspace-write"
    );
    assert!(!path.exists());
    let words: Vec<&str> = denied.message().split_once("patchbay ").unwrap().1.split(' ').collect();
    assert_eq!(patchbay.run(&words).code, Some(0));

    assert_eq!(live.message(write), "Created 'src/größe.rs': 2 lines, 20 bytes.");
    let several = live.answer(r#"/edit {"path": "src/größe.rs", "old": "fn ", "new": "pub fn "}"#);
    assert_eq!(several.data()["kind"], "ambiguous");
    let words = "Error: 'old' occurs 2 times in 'src/größe.rs', at lines 1 and 2; nothing was written.";
    assert!(several.message().starts_with(words), "{}", several.message());
    assert_eq!(fs::read_to_string(&path).unwrap(), "fn a() {}\nfn b() {}\n");
    assert_eq!(
        live.message(r#"/edit {"path": "src/größe.rs", "old": "fn b() {}", "new": "fn ü() {}"}"#),
        "Replaced 1 occurrence in 'src/größe.rs', at line 2."
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "fn a() {}\nfn ü() {}\n");
    assert_eq!(live.message(write), "Replaced 'src/größe.rs': 2 lines, 20 bytes.");

    // The grant excludes files that the host or git may execute.
    for guarded in [".git/config", ".patchbay/skills/x/SKILL.md", "../x"] {
        let answer = live.answer(&format!(r#"/write {{"path": "{guarded}", "text": "x"}}"#));
        assert_eq!(answer.outcome["status"], "error", "{guarded}: {}", answer.message());
        assert!(!patchbay.workspace().join(guarded).exists(), "{guarded}");
    }
    assert_eq!(patchbay.run(&["grant", "remove", "--root", "bundled", "files", "workspace-write"]).code, Some(0));
    assert_eq!(live.message(write), denied.message());
}

#[test]
fn files_are_renamed_deleted_and_patched_after_grants() {
    let patchbay = with_files();
    patchbay.write("workspace/src/main.rs", "fn main() {}\n");
    patchbay.write("workspace/image", b"\x89PNG\r\n\x1a\n\0\0");
    let mut live = patchbay.live(&[]);
    let denied = live.message("/delete src/main.rs");
    let words = "Error: skill 'files' may not use 'workspace-delete': it is not granted. To grant it: patchbay grant add --root \
                 bundled files workspace-delete";
    assert_eq!(denied, words);
    // Permission to write is not enough to rename a file, and nothing is copied either.
    assert_eq!(patchbay.run(&["grant", "add", "--root", "bundled", "files", "workspace-write"]).code, Some(0));
    assert_eq!(live.message(r#"/tool files__rename {"from": "src/main.rs", "to": "src/bin.rs"}"#), words);
    assert!(!patchbay.workspace().join("src/bin.rs").exists());
    assert_eq!(patchbay.run(&["grant", "add", "--root", "bundled", "files", "workspace-delete"]).code, Some(0));

    let bytes = fs::read(patchbay.workspace().join("image")).unwrap();
    let moved = live.message(r#"/tool files__rename {"from": "image", "to": "pictures/image"}"#);
    let words = "If it was executable, it no longer is.";
    assert_eq!(moved, format!("Moved 'image' to 'pictures/image': {} bytes. {words}", bytes.len()));
    assert_eq!(fs::read(patchbay.workspace().join("pictures/image")).unwrap(), bytes);
    assert!(!patchbay.workspace().join("image").exists());
    assert_eq!(live.message("/delete pictures/image"), "Deleted 'pictures/image'.");
    assert!(!patchbay.workspace().join("pictures/image").exists());

    patchbay.write("workspace/a.txt", "one\ntwo\n");
    let patch =
        "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n--- /dev/null\n+++ b.txt\n@@ -0,0 +1 @@\n+new\n";
    let input = json!({ "patch": patch });
    assert_eq!(live.message(&format!("/patch {input}")), "Changed 'a.txt': 1 hunk.\nCreated 'b.txt': 1 line.");
    assert_eq!(fs::read_to_string(patchbay.workspace().join("a.txt")).unwrap(), "one\n2\n");
    fs::remove_file(patchbay.workspace().join("b.txt")).unwrap();
    let stale = live.message(&format!("/patch {input}"));
    let words =
        "Error: hunk 1 of 'a.txt' does not apply: line 2 is '2', not 'two'; nothing was written. Read the file again";
    assert_eq!(stale, words);
    assert!(!patchbay.workspace().join("b.txt").exists());

    // If the host refuses one file in the middle of a patch, all files stay unchanged.
    let patch = "--- a.txt\n+++ a.txt\n@@\n-one\n+1\n--- /dev/null\n+++ b.txt\n@@ -0,0 +1 @@\n+new\n--- /dev/null\n+++ \
                 .claude/x\n@@ -0,0 +1 @@\n+x\n";
    let refused = live.message(&format!("/patch {}", json!({ "patch": patch })));
    let words = "; the changes of the patch before it were undone";
    assert!(refused.starts_with("Error: '.claude/x' cannot be changed: ") && refused.ends_with(words), "{refused}");
    assert_eq!(fs::read_to_string(patchbay.workspace().join("a.txt")).unwrap(), "one\n2\n");
    patchbay.write("workspace/AGENTS.md", "text");
    let refused = live.answer(r#"/tool files__rename {"from": "AGENTS.md", "to": "copy.md"}"#);
    assert_eq!(refused.code(), "denied", "{}", refused.message());
    for (name, exists) in [("b.txt", false), ("copy.md", false), ("AGENTS.md", true)] {
        assert_eq!(patchbay.workspace().join(name).exists(), exists, "{name}");
    }
}

#[test]
fn grep_finds_lines() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/.gitignore", "/target/\n");
    patchbay.write("workspace/README.md", "# Größe\n\nTODO: say more\n");
    patchbay.write("workspace/src/a.rs", "fn größe() {\n    // todo\n    grep()\n}\n");
    patchbay.write("workspace/src/b/c.rs", "fn c() {}\n");
    patchbay.write("workspace/target/d.rs", "fn todo() {}\n");
    patchbay.write("workspace/image", b"todo\0\x01");
    let answers = patchbay.answers(&[
        "/grep größe",
        "/grep -i todo",
        "/grep -C 1 \"// todo\" *.rs",
        "/grep \\bfn\\s+\\w+ src/b",
        "/grep nowhere src",
        "/grep x *.py",
        "/grep (",
        r#"/skill grep {"line": "-F grep()"}"#,
        "/grep",
    ]);
    let messages: Vec<&str> = answers.iter().map(|answer| answer.message()).collect();
    let expected = [
        "src/a.rs:1:fn größe() {\n[Files skipped: 1 binary.]",
        "README.md:3:TODO: say more\nsrc/a.rs:2:    // todo\n[Files skipped: 1 binary.]",
        "src/a.rs-1-fn größe() {\nsrc/a.rs:2:    // todo\nsrc/a.rs-3-    grep()",
        "src/b/c.rs:1:fn c() {}",
        "No matches in 2 files.",
        "No files match '*.py'. A pattern with spaces must be in quotes.",
        "Error: the pattern '(' does not parse at column 1: unclosed group. To search for it as plain text, set fixed (-F)",
        "src/a.rs:3:    grep()\n[Files skipped: 1 binary.]",
        "Error: /grep requires PATTERN [GLOB].",
    ];
    for (message, expected) in messages.iter().zip(expected) {
        assert_eq!(*message, expected);
    }
    assert_eq!(messages.len(), expected.len());
}

/// The slowest texts for a pattern. Search time is linear in them, and costs the component no fuel.
#[test]
fn grep_searches_slow_texts_to_their_end() {
    let patchbay = Patchbay::new();
    // Long enough however busy the machine is.
    patchbay.write("home/config/config.toml", "[limits]\ntime_ms = 600000\n");
    for number in 0..5 {
        let text = "straße zum größten Nebenfluß, an der Mündung 0101101\n".repeat(140_000);
        patchbay.write(&format!("workspace/{number}"), text);
    }
    let mut live = patchbay.live(&[]);
    for pattern in [r"\bnirgends\b", r"\w+ung\b", r"[01]*1[01]{12}x", "(?i)ZUM\\s(x|y)", "((.*)*)*x"] {
        let answer = live.answer(&format!("/grep {pattern}"));
        assert_eq!(answer.code(), "tool_result", "{pattern}: {}", answer.message());
        assert!(
            answer.message() == "No matches in 5 files." || answer.message().contains("more matches than these 100"),
            "{pattern}: {}",
            answer.message()
        );
    }
}

#[test]
fn web_requires_a_grant_and_an_address() {
    let patchbay = Patchbay::new();
    let answers = patchbay.answers(&["/web example.com/page", "/web two words", "/web ftp://example.com", "/help web"]);
    assert_eq!(answers[0].code(), "denied");
    assert_eq!(
        answers[0].message(),
        "Error: skill 'web' may not use 'http:*': it is not granted. To grant it: patchbay grant add --root bundled web 'http:*'"
    );
    assert_eq!(
        answers[1].message(),
        "Error: 'two words' is not an address: it contains white space; use one such as https://example.com/page"
    );
    assert!(answers[2].message().contains("its scheme is 'ftp', not https"), "{}", answers[2].message());
    assert!(answers[3].message().contains("\n- `capabilities`: http:* (not granted)\n"), "{}", answers[3].message());
    // The grant covers all public hosts and nothing else.
    assert_eq!(patchbay.run(&["grant", "add", "--root", "bundled", "web", "http:*"]).code, Some(0));
    let lines = [
        "/web https://127.0.0.1/",
        "/web https://localhost/",
        "/web https://10.0.0.1/",
        "/web https://169.254.169.254/",
        "/web http://example.com/",
    ];
    for (line, answer) in lines.iter().zip(patchbay.answers(&lines)) {
        assert_eq!(answer.outcome["status"], "error", "{line}: {}", answer.message());
        assert_ne!(answer.data()["kind"], "http-status", "{line}: {}", answer.message());
    }
}

/// The component of `web`, with a manifest that requests a loopback server.
#[test]
fn web_fetches_pages_and_follows_redirects() {
    let server = Server::new(|request| {
        let html = |status: &str, head: &str, body: &str| {
            let length = body.len();
            format!("HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {length}\r\nconnection: close\r\n{head}\r\n{body}")
                .into_bytes()
        };
        match request.split(' ').nth(1).unwrap_or_default() {
            "/old" => html("301 Moved Permanently", "location: new?a=b\r\n", "moved"),
            "/new?a=b" => html("200 OK", "", "<title>Größe</title><nav>menu</nav><h1>Hi</h1><a href=/x>x</a>"),
            "/circle" => html("302 Found", "location: /circle\r\n", ""),
            "/away" => html("302 Found", "location: http://127.0.0.1:1/\r\n", ""),
            "/deep" => html("200 OK", "", &format!("{}deep", "<div>".repeat(100_000))),
            _ => html("404 Not Found", "", "<h1>Nothing</h1>"),
        }
    });
    let origin = format!("http://{}", server.host());
    let patchbay = Patchbay::new();
    let asked = format!(
        "command: get\ninvocation_mode: tool_dispatch\ncommand_tool: fetch\ncapabilities: [{{name: 'http:{}'}}]",
        server.host()
    );
    patchbay.skill("getter", &asked, "");
    let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist/web.wasm");
    fs::copy(component, patchbay.home().join("config/skills/getter/getter.wasm"))
        .expect("the bundled web; run: make plugins");
    assert_eq!(patchbay.run(&["grant", "add", "getter", &format!("http:{}", server.host())]).code, Some(0));

    let mut live = patchbay.live(&[]);
    let page = format!("Title: Größe\nURL: {origin}/new?a=b\n\n# Hi\n\n[x]({origin}/x)");
    assert_eq!(live.message(&format!("/get {origin}/old")), page);
    assert_eq!(live.message(&format!("/get {origin}/deep")), format!("URL: {origin}/deep\n\ndeep"));
    let part = live.message(&format!(r#"/get {{"url": "{origin}/new?a=b", "max_chars": 4}}"#));
    let total = page.split_once("# Hi").expect("a heading").1.len() + 4;
    let go_on = format!(r#"[Characters 1 to 4 of {total}. To continue: {{"url": "{origin}/new?a=b", "from": 4}}]"#);
    assert_eq!(part, format!("Title: Größe\nURL: {origin}/new?a=b\n\n# Hi\n\n{go_on}"));
    let missing = live.answer(&format!("/get {origin}/none"));
    assert_eq!(missing.message(), format!("Error: {origin}/none responded with 404 (not found): # Nothing"));
    assert_eq!(missing.data()["kind"], "http-status");
    assert_eq!(live.answer(&format!("/get {origin}/circle")).data()["kind"], "too-many-redirects");
    // Each redirect is checked like a new request.
    let away = live.answer(&format!("/get {origin}/away"));
    assert_eq!(away.code(), "denied");
    assert!(away.message().contains("may not use 'http:127.0.0.1:1'"), "{}", away.message());
}

/// Builds are reproducible and reveal nothing about the machine on which they ran.
#[test]
fn bundled_components_contain_no_local_paths() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist");
    let folders = [&dist, &dist.join("providers")].map(|folder| fs::read_dir(folder).unwrap());
    let files = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    let components: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|extension| extension == "wasm")).collect();
    assert!(components.len() >= 13, "{components:?}");
    for component in components {
        let bytes = fs::read(&component).unwrap();
        assert_eq!(patchbay_tests::paths::local_paths_in(&bytes), [""; 0], "{}", component.display());
    }
}
