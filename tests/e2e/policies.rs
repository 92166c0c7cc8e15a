//! `patchbay policy`: what would decide a call, without running it.

use patchbay_tests::binary::Patchbay;
use serde_json::Value;

#[test]
fn decision_is_explained_and_is_what_happens() {
    let patchbay = Patchbay::quick();
    let explain = |words: &[&str]| {
        let ran = patchbay.run(&[&["policy", "explain"][..], words].concat());
        format!("{}{}", ran.out, ran.err)
    };
    let asked = explain(&["files__write"]);
    assert!(asked.starts_with("files__write is a tool of the bundled skill 'files': "), "{asked}");
    let line = "workspace-write: ask. It is not granted. To grant it: patchbay grant add --root bundled files workspace-write\n";
    assert!(asked.contains(line) && asked.contains("workspace-read: allow. "), "{asked}");
    assert!(explain(&["files__write", "--mode", "edits"]).contains("workspace-write: allow. Mode 'edits' writes"));
    assert!(explain(&["files__write", "--mode", "plan"]).contains("workspace-write: deny. Plan mode changes nothing."));
    assert!(explain(&["files__write", "--mode", "fast"]).contains("unknown mode 'fast'"));
    // The same outcome as if the user could not be asked.
    assert!(patchbay.run(&["exec", r#"call files__write {"path":"a","text":"x"}"#]).err.contains("it is not granted"));
    let here = ["grant", "add", "--root", "bundled", "--in", ".", "files", "workspace-write"];
    assert_eq!(patchbay.run(&here).code, Some(0));
    assert!(explain(&["files__write"]).contains("workspace-write: allow. It is granted"));
    let json: Value = serde_json::from_str(&patchbay.run(&["policy", "explain", "--json", "/web x"]).out).unwrap();
    assert_eq!(json["verdicts"][0]["capability"], "http:*");
    assert_eq!(json["verdicts"][0]["fate"], "ask");
    assert!(explain(&["/mode plan"]).contains("/mode is a built-in command"));
    assert!(explain(&["/nope"]).contains("unknown command '/nope'."));
    assert!(explain(&["files__nope"]).contains("files__nope"), "{}", explain(&["files__nope"]));
    assert!(!patchbay.workspace().join("a").exists());
    // A skill can be blocked as a whole, not only its component.
    let digest = patchbay.answers(&["/help files"])[0].data()["digest"].as_str().unwrap().to_owned();
    assert_eq!(patchbay.run(&["plugin", "block", &digest]).code, Some(0));
    assert!(explain(&["files__write"]).contains("workspace-write: deny. The skill or its component is blocked"));
}

#[test]
fn table_of_cases_is_checked() {
    let patchbay = Patchbay::quick();
    patchbay.write(
        "workspace/policy.jsonl",
        r#"{"call":"files__write","capability":"workspace-write","expect":"ask"}
{"call":"files__write","capability":"workspace-write","mode":"plan","expect":"deny"}

{"call":"/web x","capability":"http:*","expect":"ask"}
"#,
    );
    let ran = patchbay.run(&["policy", "test", "policy.jsonl"]);
    assert_eq!((&*ran.out, ran.code), ("3 cases, 0 not as expected.\n", Some(0)), "{ran:?}");
    assert_eq!(patchbay.run(&["grant", "add", "--root", "bundled", "web", "http:*"]).code, Some(0));
    let ran = patchbay.run(&["policy", "test", "policy.jsonl"]);
    assert!(ran.out.starts_with("line 4: http:* is 'allow' and not 'ask'. It is granted"), "{ran:?}");
    assert_eq!(ran.code, Some(1));
    for (line, words) in [
        ("no JSON", "line 1: "),
        (r#"{"call":"files__write","capability":"kv","expect":"ask"}"#, "the skill does not ask for 'kv'"),
        (r#"{"call":"a__b","capability":"kv","expect":"ask"}"#, "line 1: "),
        (r#"{"call":"files__write","capability":"kv","expect":"yes"}"#, "'yes' is not allow, ask or deny"),
    ] {
        patchbay.write("workspace/wrong.jsonl", line);
        let ran = patchbay.run(&["policy", "test", "wrong.jsonl"]);
        assert!(ran.code == Some(1) && ran.err.contains(words) && !ran.err.contains(".. "), "{line}: {ran:?}");
    }
}

/// The file or host named in an input decides, and so does the table of an MCP server.
#[test]
fn input_decides_where_it_names_what_is_changed() {
    let patchbay = Patchbay::quick();
    patchbay.write(
        "home/config/config.toml",
        "[mcp.bank]\ncommand = [\"/bin/false\"]\ntools = { transfer = \"deny\", balance = \"allow\" }\n\
         [mcp.books]\ncommand = [\"/bin/false\"]\nread_only = true\n",
    );
    assert_eq!(patchbay.run(&["grant", "add", "--root", "bundled", "web", "http:example.org"]).code, Some(0));
    let write = |path: &str| format!(r#"files__write {{"path":"{path}","text":"x"}}"#);
    for (what, mode, expected) in [
        (write("notes.md"), "ask", "workspace-write: ask. "),
        (write("notes.md"), "edits", "workspace-write: allow. Mode 'edits' writes this file"),
        (write("Makefile"), "edits", "workspace-write: ask. Mode 'edits' asks about files that start programs."),
        (write(".git/config"), "edits", "workspace-write: deny. No grant allows this: "),
        (write("../out"), "ask", "workspace-write: deny. No grant allows this: "),
        (
            r#"web__fetch {"url":"https://example.org/a"}"#.to_owned(),
            "ask",
            "http:*: allow. For 'http:example.org': It is",
        ),
        (
            r#"web__fetch {"url":"https://example.com/a"}"#.to_owned(),
            "ask",
            "http:*: ask. For 'http:example.com': It is not",
        ),
        ("/web https://example.org/".to_owned(), "plan", "http:*: allow. For 'http:example.org': "),
        ("mcp__bank__transfer {}".to_owned(), "ask", "call:mcp__bank__transfer: deny. [mcp.bank] denies it."),
        ("mcp__bank__balance".to_owned(), "ask", "call:mcp__bank__balance: allow. [mcp.bank] allows it."),
        ("mcp__bank__balance".to_owned(), "plan", "call:mcp__bank__balance: deny. Plan mode changes nothing"),
        ("mcp__books__find".to_owned(), "plan", "call:mcp__books__find: ask. You are asked"),
        ("mcp__none__find".to_owned(), "ask", "config.toml has no table [mcp.none]"),
    ] {
        let ran = patchbay.run(&["policy", "explain", &what, "--mode", mode]);
        let shown = format!("{}{}", ran.out, ran.err);
        assert!(shown.contains(expected), "{what} in mode {mode}: {shown}");
    }
    assert!(!patchbay.workspace().join("notes.md").exists());
}
